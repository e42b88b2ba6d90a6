"""A save or a restore that cannot be done: refused on all ranks, with nothing touched."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from fork_server import ForkedPython

_PATIENCE_S = 120.0
_PROGRAM = """
import json, sys
import numpy as np
import stoker
rank = int(sys.argv[2])
said = []
class Own:
    error = None
    def __init__(self, state=1):
        self.state = state
    def state_dict(self):
        if self.error is not None:
            raise self.error
        return {{"x": self.state}}
    def load_state_dict(self, state):
        self.state = state["x"]
def attempt(call, *arguments, **trees):
    try:
        result = call(*arguments, **trees)
        said.append(int(result) if isinstance(result, int) else result and result.wait())
    except BaseException as error:
        said.append(f"{{type(error).__name__}}: {{error}}")
with stoker.Checkpointer(sys.argv[1], rank=rank, world_size=2, deadline={deadline}) as saver:
    a = np.arange(4.0) + 10 * rank
{body}
print(json.dumps(said))
"""


def _on_two(folder: Path, body: str, deadline: float = 600) -> list[list[Any]]:
    """What two ranks say that run the same program."""
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    program = _PROGRAM.format(body=lines, deadline=deadline)
    ranks = [
        ForkedPython(
            [sys.executable, "-c", program, folder, rank],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = []
    try:
        for rank in ranks:
            out, err = rank.communicate(timeout=_PATIENCE_S)
            assert rank.returncode == 0, err
            said.append(json.loads(out))
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    return said


def test_a_tree_that_does_not_fit_on_one_rank_touches_nothing_on_another(tmp_path: Path) -> None:
    body = """
attempt(saver.save, 1, state={"a": a})
b = np.full(4 - rank, 7.0)
attempt(saver.restore, state={"a": b})
said.append(b.tolist())
b = np.full(4, 7.0)
attempt(saver.restore, state={"a": b})
said.append(b.tolist())
"""
    first, second = _on_two(tmp_path, body)
    assert first[1].startswith("ValueError: rank 1: state['a']: float64 (3,), but float64 (4,)")
    assert second[1].startswith("ValueError: state['a']: float64 (3,), but float64 (4,)")
    assert (first[2], second[2]) == ([7.0] * 4, [7.0] * 3)
    assert (first[3:], second[3:]) == ([1, [0, 1, 2, 3]], [1, [10, 11, 12, 13]])


def test_damage_on_one_rank_is_passed_over_by_both(tmp_path: Path) -> None:
    body = """
attempt(saver.save, 1, state={"a": a})
attempt(saver.save, 2, state={"a": a + 1})
if rank == 1:
    file = f"{sys.argv[1]}/step-000000000002/rank-00001.safetensors"
    data = bytearray(open(file, "rb").read())
    data[-1] ^= 1
    open(file, "wb").write(data)
b = np.zeros(4)
attempt(saver.restore, state={"a": b})
said.append(b.tolist())
"""
    assert _on_two(tmp_path, body) == [
        [True, True, 1, [10.0 * r + i for i in range(4)]] for r in range(2)
    ]


@pytest.mark.parametrize("rank", [0, 1])
def test_exceptions_of_users_code_are_told_on_both_ranks(tmp_path: Path, rank: int) -> None:
    body = f"""
attempt(saver.restore, state=None)
own = Own(rank)
attempt(saver.save, 1, own=own)
for error in (FileNotFoundError(2, "mine"), stoker.CorruptError("mine"), KeyError("mine")):
    own.error = error if rank == {rank} else None
    attempt(saver.restore, own=own)
own.error = None
own.state = 5
attempt(saver.restore, own=own)
said.append(own.state)
"""
    said = _on_two(tmp_path / "run", body)
    own, other = said[rank], said[1 - rank]
    assert own[0] is other[0] is None, "there was no checkpoint"
    expected = ["FileNotFoundError: [Errno 2] mine", "CorruptError: mine", "KeyError: 'mine'"]
    assert own[2:5] == expected
    assert other[2] == f"FileNotFoundError: [Errno 2] rank {rank}: mine"
    assert all(f"rank {rank}: " in text for text in other[2:5])
    assert (own[5:], other[5:]) == ([1, rank], [1, 1 - rank])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("saver.save, 1, state=a, reference={1: 1.0}", "reference: the name 1 is not a str"),
        ("saver.save, 1, state=a, reference={'\\ud800': 1.0}", "reference: the name"),
        ("saver.save, -1, state=a", "step=-1: must be at least 0"),
        ("saver.save, 1.5, state=a", "step=1.5: must be a whole number"),
        ("saver.save, 1, **{'\\ud800': a}", "the name '\\ud800': "),
        ("saver.save, 1, state={'a': 10**5000}", "more than 4000 digits"),
        ("saver.save, 1, state=interrupted", "KeyboardInterrupt"),
    ],
)
def test_what_one_rank_cannot_save_is_refused_on_both_at_once(
    tmp_path: Path, call: str, message: str
) -> None:
    """The other one waited for the deadline."""
    body = f"""
interrupted = Own()
interrupted.error = KeyboardInterrupt()
if rank == 1:
    attempt({call})
else:
    attempt(saver.save, 1, state=a)
attempt(saver.save, 2, state=a)
"""
    first, second = _on_two(tmp_path, body)
    assert message in second[0]
    assert "rank 1: " in first[0]
    assert message in first[0]
    assert first[1] is second[1] is True


@pytest.mark.parametrize("rank", [0, 1])
def test_what_one_rank_cannot_ask_for_is_refused_on_both_at_once(tmp_path: Path, rank: int) -> None:
    """The other one waited for the deadline."""
    body = f"""
attempt(saver.save, 1, state={{"a": a}})
for step, wrong in (
    ("latest", {{"assign": True}}),
    ("latest", {{"keep_last": 3}}),
    ("latest", {{"allow": {{"tail"}}}}),
    ("latest", {{"allow": "tail"}}),
    ("", {{}}),
    (-1, {{}}),
):
    b = np.zeros(4)
    if rank == {rank}:
        attempt(saver.restore, step, state={{"a": b}}, **wrong)
    else:
        attempt(saver.restore, state={{"a": b}})
    assert b.tolist() == [0] * 4
    attempt(saver.restore, step, state={{"a": b}}, **wrong)
attempt(saver.restore, state={{"a": a}})
"""
    both = _on_two(tmp_path, body)
    messages = [
        "ValueError: 'assign' cannot be the name of a tree",
        "ValueError: 'keep_last' cannot be the name of a tree",
        "ValueError: allow= is about the loader",
        "TypeError: allow is a set of names",
        'ValueError: step="": "latest", a number',
        "ValueError: step=-1: must be at least 0",
    ]
    own, other = both[rank], both[1 - rank]
    for i, message in enumerate(messages):
        kind, text = message.split(": ", 1)
        assert own[1 + 2 * i].startswith(message)
        assert other[1 + 2 * i].startswith(f"{kind}: rank {rank}: {text}")
        assert own[2 + 2 * i] == other[2 + 2 * i] == own[1 + 2 * i], "each has its own"
    assert own[-1] == other[-1] == 1


class _Own:
    def __init__(self) -> None:
        self.state = 1
        self.error: Exception | None = None

    def state_dict(self) -> dict[str, Any]:
        if self.error is not None:
            raise self.error
        return {"x": self.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self.error is not None:
            raise self.error
        self.state = state["x"]


@pytest.mark.parametrize(
    "error", [FileNotFoundError(2, "mine"), stoker.CorruptError("mine"), OSError(5, "mine")]
)
def test_an_exception_of_users_code_arrives_as_itself(tmp_path: Path, error: Exception) -> None:
    """restore() gave None, or went back to an older checkpoint."""
    own = _Own()
    with stoker.Checkpointer(tmp_path / "run") as saver:
        assert saver.restore(own=own) is None
        saver.save(1, own=own).wait()
        saver.save(2, own=own).wait()
        own.error = error
        with pytest.raises(type(error), match="mine") as raised:
            saver.restore(own=own)
        assert raised.value is error
        assert raised.value.__context__ is None


def _damage(folder: Path, step: int) -> None:
    file = folder / f"step-{step:012}" / "rank-00000.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.chmod(0o644)
    file.write_bytes(data)


def test_an_error_after_a_partial_read_says_so(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"a": np.zeros(3)}).wait()
        saver.save(2, state={"a": np.ones(3), "b": np.ones(3)}).wait()
        _damage(tmp_path, 2)
        told = r"[^(]*arrays may contain bytes of step-000000000002, which is damaged: do not use"
        state = {"a": np.zeros(3), "b": np.zeros(3)}
        with pytest.raises(ValueError, match=rf"state\['b'\]: not in step 1 \({told}"):
            saver.restore(state=state)
        with pytest.raises(stoker.CorruptError, match=told) as raised:
            saver.restore(2, state=state)
        assert raised.value.tensor is not None
        with pytest.raises(stoker.CorruptError) as raised:
            saver.restore(2, state=None)
        assert "arrays may" not in str(raised.value), "they were made by restore"
        with pytest.raises(ValueError, match=r"not in step 1$"):
            saver.restore(1, state=state)


def test_a_loader_of_another_run_touches_no_array(tmp_path: Path, shards: Path) -> None:
    one, other = (stoker.Loader(shards, batch_size=2, seed=seed, torch=False) for seed in (1, 2))
    larger = stoker.Loader(shards, batch_size=3, seed=1, torch=False)
    with stoker.Checkpointer(tmp_path / "run") as saver:
        next(iter(one))
        saver.save(1, state={"a": np.zeros(3)}, loader=one).wait()
        state = {"a": np.ones(3)}
        for loader, message in ((other, "seed"), (larger, 'allow={"global_batch_size"}')):
            before = loader.state_dict()
            with pytest.raises(stoker.CursorMismatch) as raised:
                saver.restore(state=state, loader=loader)
            assert message in str(raised.value)
            assert state["a"].tolist() == [1, 1, 1]
            assert loader.state_dict() == before
        assert saver.restore(state=state, loader=larger, allow={"global_batch_size"}) == 1
        assert state["a"].tolist() == [0, 0, 0]


def test_a_loader_of_another_run_is_a_cursor_mismatch_on_all_ranks(
    tmp_path: Path, shards: Path
) -> None:
    body = f"""
make = lambda seed: stoker.Loader({str(shards)!r}, batch_size=2, seed=seed, torch=False,
                                  rank=rank, world_size=2)
loader = make(1)
next(iter(loader))
attempt(saver.save, 1, state={{"a": a}}, loader=loader)
attempt(saver.restore, state={{"a": a}}, loader=make(2))
try:
    saver.restore(state={{"a": a}}, loader=make(2 if rank == 0 else 1))
except stoker.CursorMismatch as error:
    said.append([difference.field for difference in error.differences])
"""
    for said in _on_two(tmp_path / "run", body):
        assert said[1].startswith("CursorMismatch: ")
        assert said[2] == ["seed"], "of a rank that has no such error itself, too"
