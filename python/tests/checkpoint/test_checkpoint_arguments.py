"""What a Checkpointer is given: what can never work is refused, and named."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"keep_last": -1}, ValueError, "keep_last=-1: must be at least 1"),
        ({"keep_last": 0}, ValueError, "keep_last=0: must be at least 1"),
        ({"keep_last": 1.5}, TypeError, r"keep_last=1\.5: must be a whole number"),
        ({"keep_every": 0}, ValueError, "keep_every=0: must be at least 1"),
        ({"keep_best": ("v",)}, ValueError, r"keep_best=\('v',\): \(metric, \"min\" or \"max\""),
        ({"keep_best": "v"}, ValueError, "keep_best='v'"),
        ({"keep_best": ("v", "min", 0)}, ValueError, "keep_best: count=0: must be at least 1"),
        ({"in_flight": 1.5}, TypeError, r"in_flight=1\.5: must be a whole number"),
        ({"in_flight": 0}, ValueError, "in_flight=0: must be at least 1"),
        ({"in_flight": 1, "late": "replace"}, ValueError, "at least 2 with late='replace'"),
        ({"memory_bytes": -1}, ValueError, "memory_bytes=-1: must be at least 1"),
        ({"memory_bytes": 0}, ValueError, "memory_bytes=0: must be at least 1"),
        ({"rate_limit": -5}, ValueError, "rate_limit=-5: must be None for no limit, or at least 1"),
        ({"rate_limit": 0}, ValueError, "rate_limit=0: must be None for no limit, or at least 1"),
        ({"keep_last": True}, TypeError, "keep_last=True: must be a whole number"),
        ({"lock": "x"}, ValueError, 'lock=\'x\': "wait", "fail", or a time such as'),
        ({"lock": None}, TypeError, 'lock=None: "wait", "fail", or a time such as'),
        ({"deadline": None}, TypeError, "deadline: None is not a time"),
        ({"lock_ttl": "0s"}, ValueError, "lock_ttl='0s'"),
    ],
)
def test_a_setting_that_can_never_work_is_refused(
    tmp_path: Path, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        stoker.Checkpointer(tmp_path, **arguments)


def test_a_step_is_a_whole_number(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(int(np.int64(1)), state=1).wait()
        uses: tuple[Any, ...] = (saver.save, saver.restore, saver.annotate, saver.pin)
        for use in uses:
            for step in (1.5, True):
                with pytest.raises(TypeError, match=rf"step={step}: must be a whole number"):
                    use(step)
        for number in (-1, 2**64):
            with pytest.raises(ValueError, match=r"step=.*: must be at (least|most)"):
                saver.save(number, state=1)
        assert saver.steps() == [1]
        for every, error in ((0, ValueError), (-5, ValueError), (2.5, TypeError)):
            with pytest.raises(error, match="every_steps="):
                saver.due(1000, every_steps=every)  # type: ignore[arg-type]


def test_what_is_asked_of_a_step_is_checked_also_where_the_answer_is_clear(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        with pytest.raises(TypeError, match="reference: numbers by name, a dict, not int"):
            saver.save(5, state=1, reference=5)  # type: ignore[arg-type]
        saver.save(5, state=1).wait()
        with pytest.raises(ValueError, match="every: 'x' is not a time"):
            saver.due(5, every="x")
        with pytest.raises(TypeError, match=r"done is what restore\(\) gave, not int"):
            saver.check(5, loss=1)  # type: ignore[arg-type]


def test_no_name_is_not_the_current_directory() -> None:
    with pytest.raises(ValueError, match="an empty name names no directory"):
        stoker.Checkpointer("")


def test_a_uri_is_not_taken_for_a_local_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="s3://bucket/run: checkpoints are saved to directories"):
        stoker.Checkpointer("s3://bucket/run")
    with pytest.raises((ValueError, OSError), match="s3://bucket/out"):
        stoker.ingest([{"x": 1}], "s3://bucket/out")
    assert list(tmp_path.iterdir()) == []


class Placed:
    """Tells its place, and cannot be told."""

    def state_dict(self) -> dict[str, Any]:
        """Of anything."""
        return {"at": 1}


def test_a_loader_that_has_no_place_is_refused(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        with pytest.raises(TypeError, match=r"loader is what has state_dict\(\), not object"):
            saver.save(1, loader=object(), state=1)
        saver.save(1, loader=Placed(), state=1).wait()
        with pytest.raises(TypeError, match=r"loader is what has load_state_dict\(\), not object"):
            saver.restore(loader=object())


def test_a_forked_child_leaves_the_block_as_it_wants_to(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        child = 0
        try:
            with saver:
                child = os.fork()
                if child == 0:
                    sys.exit(7)
        except SystemExit as left:
            os._exit(int(left.code or 0))
        except BaseException:
            if child == 0:
                os._exit(1)
            raise
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_quantized_tensor_is_refused_for_what_it_is(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    tensor = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
    with (
        stoker.Checkpointer(tmp_path) as saver,
        pytest.raises(TypeError, match=r"state\['w'\].*a quantized tensor"),
    ):
        saver.save(1, state={"w": tensor})
