"""One process that is asked to stop: by signals, by itself, by a file, by Slurm."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from stoker._preemption import preemption as _preemption


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("RANK", "WORLD_SIZE", "SLURM_JOB_ID", "SLURM_JOB_END_TIME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(_preemption, "_LOOK_SECONDS", 0.0)
    before = [signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGUSR1)]
    yield
    assert [signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGUSR1)] == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_makes_the_next_call_true(
    number: signal.Signals, caplog: pytest.LogCaptureFixture
) -> None:
    with stoker.Preemption(grace=90) as stop:
        assert not stop.requested(1)
        assert (stop.reason, stop.stopped, stop.remaining) == ("", False, float("inf"))
        signal.raise_signal(number)
        assert stop.requested(2)
        assert stop.requested(3), "whoever does not listen is told again"
        assert stop.reason == number.name
        assert stop.stopped
        assert 80 < stop.remaining <= 90
        signal.raise_signal(number)  # a second one changes nothing
    assert f"{number.name}: stop after step 2" in caplog.text


def test_handlers_of_before_are_restored_also_after_an_exception() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: heard.append(number))
    try:
        with pytest.raises(KeyError), stoker.Preemption() as stop:
            raise KeyError
        signal.raise_signal(signal.SIGUSR1)
        assert heard == [signal.SIGUSR1]
        assert not stop.stopped
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_handler_that_was_installed_inside_stays_and_may_call_ours() -> None:
    heard: list[str] = []
    outer = signal.signal(signal.SIGUSR1, lambda *_: heard.append("before"))
    try:
        with stoker.Preemption() as stop:
            ours: Any = signal.getsignal(signal.SIGUSR1)

            def chained(number: int, frame: Any) -> None:
                heard.append("inside")
                ours(number, frame)

            signal.signal(signal.SIGUSR1, chained)
            signal.raise_signal(signal.SIGUSR1)
            assert stop.requested(1)
        assert heard == ["inside"]
        signal.raise_signal(signal.SIGUSR1)
        assert heard == ["inside", "inside", "before"]
    finally:
        signal.signal(signal.SIGUSR1, outer)


def test_the_program_may_request_it_from_any_thread() -> None:
    with stoker.Preemption() as stop:
        thread = threading.Thread(target=stop.request)
        thread.start()
        thread.join()
        assert stop.requested(np.int64(5))
        assert stop.reason == "request()"


def test_a_file_requests_it_and_is_not_removed(tmp_path: Path) -> None:
    with stoker.Preemption(file=tmp_path / "stop") as stop:
        assert not stop.requested(1)
        (tmp_path / "stop").touch()
        assert stop.requested(2)
        assert stop.reason == f"file {tmp_path / 'stop'}"
    assert (tmp_path / "stop").exists()


def test_the_file_is_looked_for_once_per_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_preemption, "_LOOK_SECONDS", 3600.0)
    with stoker.Preemption(file=tmp_path / "stop") as stop:
        assert not stop.requested(1)
        (tmp_path / "stop").touch()
        assert not stop.requested(2)


def test_slurms_end_time_less_the_grace_is_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_800_000_000.0
    monkeypatch.setattr(_preemption, "_wall_clock", lambda: now)
    monkeypatch.setenv("SLURM_JOB_END_TIME", "1800000100")
    with stoker.Preemption(grace="90s") as stop:
        assert not stop.requested(1)
        now += 9
        assert not stop.requested(2)
        now += 1
        assert stop.requested(3)
        assert stop.reason == "SLURM_JOB_END_TIME"
        now += 60
        assert stop.remaining == 30
        now += 60
        assert stop.remaining == 0


def test_an_end_time_that_is_none_is_ignored(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SLURM_JOB_END_TIME", "soon")
    with stoker.Preemption() as stop:
        assert not stop.requested(1)
    assert "SLURM_JOB_END_TIME='soon' is ignored" in caplog.text


def test_a_loop_that_ends_before_the_stop_is_told_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with stoker.Preemption() as stop:
        stop.request()
    assert not stop.stopped
    assert "the loop ended before the stop: request()" in caplog.text


def test_off_the_main_thread_signals_are_refused_and_the_rest_works() -> None:
    said: list[Any] = []

    def run() -> None:
        try:
            with stoker.Preemption():
                pass
        except RuntimeError as error:
            said.append(str(error))
        with stoker.Preemption(signals=()) as stop:
            stop.request()
            said.append(stop.requested(1))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert "in the main thread only" in said[0]
    assert "signals=()" in said[0]
    assert said[1] is True


def test_a_forked_child_is_ended_by_the_signal_and_says_so_if_asked() -> None:
    with stoker.Preemption() as stop:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                stop.requested(1)
            except RuntimeError as error:
                os.write(write, str(error).encode())
            stop.__exit__(None, None, None)  # as sys.exit() in the child does
            signal.raise_signal(signal.SIGTERM)
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            assert "of which this is a fork" in pipe.read()
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status)
        assert os.WTERMSIG(status) == signal.SIGTERM
        assert not stop.requested(1)
        signal.raise_signal(signal.SIGTERM)
        assert stop.requested(2), "the parent's handlers are still there"


def test_a_signal_during_a_save_disturbs_nothing(tmp_path: Path) -> None:
    state = {"w": np.arange(300_000.0)}
    with (
        stoker.Checkpointer(tmp_path / "c", rate_limit="4MB") as saver,
        stoker.Preemption() as stop,
    ):
        pending = saver.save(1, state=state)
        signal.raise_signal(signal.SIGTERM)
        assert not pending.done(), "the signal came in time"
        assert stop.requested(1)
        assert pending.wait(stop.remaining)
        assert saver.save(2, state=state).wait(stop.remaining)
    assert stoker.load(tmp_path / "c").step == 2


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"signals": "SIGTERM"}, ValueError, r'signals=\("SIGTERM",\)'),
        ({"signals": ("SIGNONE",)}, ValueError, "not a signal"),
        ({"signals": (1000,)}, ValueError, "not a signal"),
        ({"signals": ("SIGKILL",)}, ValueError, "can handle SIGKILL"),
        ({"grace": "soon"}, ValueError, "grace"),
        ({"agree_within": -1}, ValueError, "agree_within"),
        ({"gracee": "90s"}, TypeError, "grace"),
    ],
)
def test_wrong_arguments_are_named(
    settings: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        stoker.Preemption(**settings)


def test_it_is_for_the_inside_of_one_block() -> None:
    stop = stoker.Preemption()
    with pytest.raises(RuntimeError, match="inside of a block"):
        stop.requested(1)
    with stop, pytest.raises(TypeError):
        stop.requested(1.5)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="one block"):
        stop.__enter__()


def test_requeue_asks_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with stoker.Preemption() as stop:
        with pytest.raises(RuntimeError, match="SLURM_JOB_ID is not set"):
            stop.requeue()
        monkeypatch.setenv("SLURM_JOB_ID", "4711")
        with pytest.raises(RuntimeError, match="scontrol was not found"):
            stop.requeue()
        command = tmp_path / "scontrol"
        command.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\n')
        command.chmod(stat.S_IRWXU)
        stop.requeue()
        assert (tmp_path / "asked").read_text() == "requeue 4711\n"
        command.write_text("#!/bin/sh\necho 'Invalid job id' >&2\nexit 1\n")
        with pytest.raises(RuntimeError, match="requeue 4711` failed: Invalid job id"):
            stop.requeue()


def test_a_step_costs_next_to_nothing(tmp_path: Path) -> None:
    """Microseconds, on a machine as busy as any; a call of the file system each would be more."""
    with stoker.Preemption() as stop:
        begin = time.process_time()
        for step in range(20_000):
            stop.requested(step)
        assert (time.process_time() - begin) / 20_000 < 20e-6


def test_stoker_and_preemption_need_no_torch() -> None:
    program = (
        "import sys, stoker\n"
        "with stoker.Preemption() as stop: assert not stop.requested(1)\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
