"""What an adversary has found in checkpoints: threads, planted names, arrays over themselves."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

_PATIENCE_S = 60.0  # a test that waits so long has failed
_WAITS = """
import sys, threading
import stoker
saver = stoker.Checkpointer(sys.argv[1], rank=0, world_size=1)
threading.Thread(target=lambda: saver.save(2, state=1), daemon=True).start()
turn = saver._writer.turns._lock
while turn.acquire(blocking=False):  # until the other thread has it
    turn.release()
try:
    saver.close(0.2)
except OSError as error:
    print(type(error).__name__, error)
"""


def _in_threads(*calls: Callable[[], object]) -> list[BaseException]:
    """Errors of calls that begin at once; fails if one does not end."""
    errors: list[BaseException] = []
    begin = threading.Barrier(len(calls))

    def run(call: Callable[[], object]) -> None:
        try:
            begin.wait(_PATIENCE_S)
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_PATIENCE_S)
        assert not thread.is_alive()
    return errors


def _saving(saver: stoker.Checkpointer, first: int) -> Callable[[], object]:
    def save() -> None:
        for step in range(first, first + 5):
            saver.save(step, state={"w": np.full(1000, step)}).result(_PATIENCE_S)

    return save


@pytest.mark.parametrize("in_flight", [1, 2])
def test_threads_take_turns_from_the_first_save_on(tmp_path: Path, in_flight: int) -> None:
    """Each made a writer of its own, and waited for the lock of the others."""
    with stoker.Checkpointer(tmp_path, in_flight=in_flight) as saver:
        errors = _in_threads(*(_saving(saver, 10 * k) for k in range(4)))
        assert errors == []
        assert len(saver.steps()) == 20
        for step in saver.steps():
            state = {"w": np.zeros(1000, int)}
            saver.restore(step, state=state)
            assert (state["w"] == step).all()


def test_two_checkpointers_of_one_directory_take_turns_in_threads(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as one, stoker.Checkpointer(tmp_path) as other:
        for first in (0, 100):
            savers = (one, other, one, other)
            errors = _in_threads(*(_saving(s, first + 10 * k) for k, s in enumerate(savers)))
            assert errors == []
        assert len(one.steps()) == 40


def test_a_thread_that_saves_in_a_loop_does_not_keep_close_waiting(tmp_path: Path) -> None:
    saver = stoker.Checkpointer(tmp_path, late="skip")
    begun = threading.Event()

    def save_for_ever() -> None:
        for step in range(10**9):
            saver.save(step, state=1)
            begun.set()

    def close() -> None:
        begun.wait(_PATIENCE_S)
        saver.close(_PATIENCE_S)

    errors = _in_threads(save_for_ever, close)
    assert [str(error) for error in errors] == ["this Checkpointer is closed"]


def test_callbacks_may_call_everything_while_it_is_closed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """close() waits for callbacks: not in its turn, for which they wait."""
    errors: list[str] = []
    saver = stoker.Checkpointer(tmp_path, in_flight=2)
    closing = threading.Event()
    await_all = saver._writer.await_all

    def tell_and_await_all(timeout: float | None) -> bool:
        closing.set()  # close() has the last turn, and waits in it
        return await_all(timeout)

    monkeypatch.setattr(saver._writer, "await_all", tell_and_await_all)

    def call_all(_: Any) -> None:
        closing.wait(_PATIENCE_S)
        calls: tuple[Callable[[], object], ...] = (
            lambda: saver.wait(_PATIENCE_S),  # refused after the other callback's close()
            lambda: saver.save(9, state=1).result(_PATIENCE_S),
            lambda: saver.restore(state=None),
        )
        for call in calls:
            try:
                call()
            except ValueError as error:
                errors.append(str(error))
        saver.close()

    for step in (1, 2):
        saver.save(step, state={"w": np.zeros(1 << 17)}).add_done_callback(call_all)
    assert _in_threads(saver.close) == []
    assert set(errors) == {"this Checkpointer is closed"}
    assert not caplog.records


def test_close_and_exit_do_not_wait_for_ever_for_a_thread_that_waits_for_the_lock(
    tmp_path: Path,
) -> None:
    with stoker.Checkpointer(tmp_path, rank=0, world_size=1) as holder:
        holder.save(1, state=1).wait()
        begin = time.monotonic()
        command = [sys.executable, "-c", _WAITS, str(tmp_path)]
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
        assert time.monotonic() - begin < _PATIENCE_S / 2
        assert ran.stdout == "LateError close: another thread saves or restores after 0.2 s\n"
        assert ran.returncode == 0
        holder.save(2, state=1).wait()


def test_what_is_no_checkpoint_takes_no_notes(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"w": np.zeros(3)}).wait()
        names = [tmp_path / f"step-{step:012}" for step in range(2, 7)]
        names[0].symlink_to("/nonexistent")
        os.mkfifo(names[1])
        names[2].touch()
        names[3].mkdir()
        names[4].mkdir()
        (names[4] / "manifest.json").write_text("{}")
        for step in range(2, 7):
            with pytest.raises((FileNotFoundError, stoker.CorruptError), match=f"{step:012}"):
                saver.pin(step)
            with pytest.raises((FileNotFoundError, stoker.CorruptError), match=f"{step:012}"):
                saver.annotate(step, a=1)
        assert not (tmp_path / "notes").exists()
        saver.pin(1)
        assert (tmp_path / "notes").exists()


def _strided(
    shape: tuple[int, ...], steps: tuple[int, ...], kind: type[Any] = np.float64
) -> np.ndarray[Any, Any]:
    base = np.zeros(64, kind)
    size = base.itemsize
    strides = tuple(size * step for step in steps)
    first = base[sum((n - 1) * -s for n, s in zip(shape, steps, strict=True) if s < 0) :]
    return np.lib.stride_tricks.as_strided(first, shape, strides)


@pytest.mark.parametrize("steps", [(1, 1), (2, 1), (1, 0), (-1, 1), (1, -1)])
@pytest.mark.parametrize("kind", [np.float64, np.complex128])
def test_an_array_over_itself_is_not_restored_into(
    tmp_path: Path, steps: tuple[int, ...], kind: type[Any]
) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"a": np.arange(6, dtype=kind).reshape(2, 3)}).wait()
        target = _strided((2, 3), steps, kind)
        with pytest.raises(ValueError, match=r"state\['a'\]: .* has elements that share memory"):
            saver.restore(state={"a": target})
        assert not target.any()


@pytest.mark.parametrize("steps", [(3, 1), (1, 2), (8, -2), (-4, 1), (1, -7)])
def test_arrays_with_gaps_are_restored_into(tmp_path: Path, steps: tuple[int, ...]) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        saved = np.arange(6.0).reshape(2, 3)
        saver.save(1, state={"a": saved}).wait()
        target = _strided((2, 3), steps)
        saver.restore(state={"a": target})
        assert target.tolist() == saved.tolist()


def test_a_torch_tensor_over_itself_is_not_restored_into(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"t": torch.arange(6.0).reshape(2, 3)}).wait()
        with pytest.raises(ValueError, match=r"state\['t'\]: .* has elements that share memory"):
            saver.restore(state={"t": torch.zeros(8).as_strided((2, 3), (1, 1))})


def test_backward_after_a_restore_raises_as_after_copy(tmp_path: Path) -> None:
    """It computed with the restored values, and said nothing."""
    torch = pytest.importorskip("torch")
    weights = (torch.ones(3, requires_grad=True), torch.nn.Parameter(torch.ones(3)))
    with torch.inference_mode():
        plain = torch.zeros(3)
    state = {"w": weights[0], "p": weights[1], "i": plain}
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state=state).wait()
        for weight in weights:
            with torch.no_grad():
                weight.mul_(3)
            loss = (weight * weight).sum()
            saver.restore(state=state)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                loss.backward()
        assert plain.tolist() == [0, 0, 0]


def test_damage_found_late_is_told_to_autograd_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    torch = pytest.importorskip("torch")
    weight = torch.ones(3, requires_grad=True)
    with stoker.Checkpointer(tmp_path) as saver, caplog.at_level(logging.ERROR):
        saver.save(1, state={"w": weight}).wait()
        file = next(tmp_path.glob("step-*/*.safetensors"))
        whole = file.read_bytes()
        file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        loss = (weight * weight).sum()
        with pytest.raises(stoker.CorruptError):
            saver.restore(state={"w": weight})
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_no_step_is_not_the_newest(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state=1).wait()
        with pytest.raises(ValueError, match='step="": "latest", a number, or the name'):
            saver.restore("", state=None)
        uses: tuple[Any, ...] = (saver.pin, saver.annotate, saver.save)
        for use in uses:
            with pytest.raises(TypeError, match="step=''"):
                use("")
        for step in ("latest", 1, "step-000000000001"):
            assert saver.restore(step, state=None) == 1


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_nested_tensor_is_named(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    with stoker.Checkpointer(tmp_path) as saver:
        with pytest.raises(TypeError, match=r"state\['a'\]\[0\]: .*a nested tensor"):
            saver.save(1, state={"a": [nested]})
        saver.save(1, state={"a": torch.ones(5)}).wait()
        with pytest.raises(ValueError, match=r"state\['a'\]: .*a nested tensor"):
            saver.restore(state={"a": nested})


def test_a_number_that_is_too_large_is_named(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        with pytest.raises(ValueError, match=r"reference\['loss'\]: too large for a float"):
            saver.save(1, state=1, reference={"loss": 10**400})
        saver.save(1, state=1, reference={"loss": 1.0}).wait()
        with pytest.raises(ValueError, match="loss: too large for a float"):
            saver.annotate(1, loss=10**400)
        with pytest.raises(ValueError, match="loss: too large for a float"):
            saver.check(saver.restore(state=None), loss=10**400)


def test_what_others_have_saved_since_a_restore_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with stoker.Checkpointer(tmp_path) as first:
        first.save(100, state={"w": np.zeros(3)}).wait()
    late = stoker.Checkpointer(tmp_path)
    late.restore(state=None)
    program = (
        "import sys, numpy as np, stoker\n"
        "saver = stoker.Checkpointer(sys.argv[1])\n"
        "saver.restore(state=None)\n"
        "for step in (101, 102):\n"
        "    saver.save(step, state={'w': np.ones(3)}).wait()\n"
        "saver.close()\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=60)
    late.save(101, state={"w": np.full(3, 2.0)}).wait()
    late.save(103, state={"w": np.full(3, 2.0)}).wait()
    late.close()
    told = [record.message for record in caplog.records if "another run" in record.message]
    assert len(told) == 1
    assert "2 checkpoints" in told[0]
    assert "step-000000000102" in told[0]
