"""Several ranks, each a process of its own, and one checkpoint of all of them."""

from __future__ import annotations

import collections
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from stoker._checkpoint.ranks import together as _checkpoint_together
from stoker._checkpoint.state.rank_states import Differs, tree_of_all

_SAVE = "result = saver.save({0}, state=state).wait()"
_RESTORE = """
found = {"w": np.zeros(4), "name": ""}
done = saver.restore(state=found)
result = [done, found["w"].tolist(), found["name"], done.skipped, done.world_size]
"""


@pytest.mark.parametrize("world", [2, 3])
def test_every_rank_gets_back_what_it_has_saved(
    tmp_path: Path, world: int, ranks: Any, on_all: Any
) -> None:
    with ranks(tmp_path, world) as group:
        for step in (1, 2):
            assert on_all(group, _SAVE.format(step)) == [True] * world
        assert on_all(group, _RESTORE) == [
            [2, [10.0 * r + i for i in range(4)], f"r{r}", [], world] for r in range(world)
        ]
        assert on_all(group, "state['w'] += 1;" + _SAVE.format(3)) == [True] * world
        on_all(group, "saver.close()")
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        *(".catalog", ".lock", ".lock-2", "latest"),
        *(f"step-{step:012}" for step in (1, 2, 3)),
    ], "nothing is left of what they told each other"
    loaded = stoker.load(tmp_path / "latest")
    assert loaded["rank-00001.state.w"][...].tolist() == [11, 12, 13, 14]


def test_each_rank_is_told_what_it_did_not_ask_for(tmp_path: Path, ranks: Any, on_all: Any) -> None:
    listen = """
import logging
lines = []
class Lines(logging.Handler):
    def emit(self, record):
        lines.append(record.getMessage())
logging.getLogger("stoker").addHandler(Lines(logging.WARNING))
"""
    with ranks(tmp_path, 2) as group:
        on_all(group, listen)
        on_all(group, "saver.save(1, model={'w': np.ones(2)}, optimizer={'lr': 1.0}).wait()")
        restore = """
trees = {"model": {"w": np.zeros(2)}} | ({"optimizer": {"lr": 0.0}} if rank == 0 else {})
saver.restore(**trees)
result = lines
"""
        first, second = on_all(group, restore)
    assert first == []
    assert [line.partition(";")[0] for line in second] == [
        "step 1 has trees that restore() was not asked for: optimizer"
    ]


def test_a_new_run_hears_nothing_of_the_one_that_was_killed(
    tmp_path: Path, ranks: Any, on_all: Any
) -> None:
    with ranks(tmp_path, 2) as group:
        assert on_all(group, _SAVE.format(1)) == [True, True]
    assert len(list(tmp_path.glob(".meeting-*"))) == 1, "its messages are still there"
    with ranks(tmp_path, 2) as group:
        answers = on_all(group, _RESTORE)
        assert [answer[0] for answer in answers] == [1, 1]
        assert on_all(group, _SAVE.format(2)) == [True, True]
        on_all(group, "saver.close()")
    assert not list(tmp_path.glob("owner-*"))


def test_a_missing_rank_is_named_on_every_other_one(
    tmp_path: Path, ranks: Any, on_all: Any
) -> None:
    with ranks(tmp_path, 3, count=2, deadline=2) as group:
        on_all(group, "pass")  # both have started
        for answer in on_all(group, _SAVE.format(1)):
            assert answer.startswith("LateError")
            assert "rank 2 did not answer" in answer
        for answer in on_all(group, "saver.restore(state=state)"):
            assert answer.startswith("LateError")
            assert "rank 2 did not answer" in answer
    assert not list(tmp_path.glob("step-*"))


def test_a_rank_that_is_killed_between_saves_fails_the_next_one(
    tmp_path: Path, ranks: Any, on_all: Any
) -> None:
    with ranks(tmp_path, 3) as group:  # with half an hour as the deadline: nobody waits for it
        assert on_all(group, _SAVE.format(1)) == [True] * 3
        group[2].process.send_signal(signal.SIGKILL)
        group[2].process.wait()
        for step in (2, 3):
            for answer in on_all(group[:2], _SAVE.format(step)):
                assert answer.startswith("LateError")
                assert f"rank 2 has ended (pid {group[2].process.pid}" in answer
        on_all(group[:2], "saver.close()")
        assert [p.name for p in tmp_path.glob("step-*")] == ["step-000000000001"]
    with ranks(tmp_path, 3) as group:
        assert [answer[0] for answer in on_all(group, _RESTORE)] == [1, 1, 1]
        assert on_all(group, _SAVE.format(2)) == [True] * 3


_RESTORE_DAMAGED = """
try:
    saver.restore(2, state=state)
except stoker.CorruptError as error:
    result = [error.path, error.offset, error.tensor]
"""


@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("point", ["written", "part_written"])
def test_a_rank_killed_within_a_save_leaves_the_one_before(
    tmp_path: Path, victim: int, point: str, ranks: Any, on_all: Any
) -> None:
    with ranks(tmp_path, 2, deadline=2) as group:
        assert on_all(group, _SAVE.format(1)) == [True, True]
        on_all(group, "saver.close()")
    with ranks(tmp_path, 2) as group:
        # Each rank's own process dies by itself, in the middle of the protocol.
        group[victim].tell(
            f"_checkpointer._kill_at = ('checkpoint.{point}', 1)\n"
            "saver = stoker.Checkpointer(saver.path, rank=rank, world_size=world)"
        )
        group[victim].hear()
        for rank in group:
            rank.tell(_SAVE.format(2))
        other = group[1 - victim]
        assert f"rank {victim} has ended" in other.hear()
        assert group[victim].process.wait() == -signal.SIGKILL
        assert [p.name for p in tmp_path.glob("step-*")] == ["step-000000000001"]
    with ranks(tmp_path, 2) as group:
        assert [answer[0] for answer in on_all(group, _RESTORE)] == [1, 1]
        assert on_all(group, _SAVE.format(2)) == [True, True]


def test_what_one_rank_cannot_save_is_refused_on_all_at_once(
    tmp_path: Path, ranks: Any, on_all: Any
) -> None:
    with ranks(tmp_path, 2) as group:  # by the default deadline this would take half an hour
        answers = on_all(group, "saver.save(1, state={'bad': range(1)} if rank else state)")
        assert answers[1].startswith("TypeError: state['bad']: object of type range can't be saved")
        assert "rank 1: state['bad']" in answers[0]
        answers = on_all(group, "saver.save(5 + rank, state=state)")
        assert all("rank 1 saves step 6 while rank 0 saves step 5" in a for a in answers)
        assert on_all(group, _SAVE.format(1)) == [True, True]


@pytest.mark.parametrize("alone", [0, 1])
def test_a_call_that_one_rank_makes_alone_fails_no_later_one(
    tmp_path: Path, alone: int, ranks: Any, on_all: Any
) -> None:
    with ranks(tmp_path, 2, deadline=4) as group:
        assert on_all(group, _SAVE.format(1)) == [True, True]
        group[alone].tell("saver.save(25, state=state)")
        assert f"LateError: [Errno 11] save step 25: rank {1 - alone} did" in group[alone].hear()
        for step in (30, 31):
            assert on_all(group, _SAVE.format(step)) == [True, True]


@pytest.mark.parametrize(
    "error", [PermissionError(13, "no"), OSError(28, "full"), TypeError("odd"), KeyError("odd")]
)
def test_an_error_of_another_rank_is_of_the_same_kind(error: Exception) -> None:
    _, message, detail, _ = _checkpoint_together._report(error)
    told = _checkpoint_together._error_of(f"rank 3: {message}", json.loads(detail))
    assert type(told) is (RuntimeError if isinstance(error, KeyError) else type(error))
    assert "rank 3: " in str(told)
    assert getattr(told, "errno", None) == getattr(error, "errno", None)


def test_damage_that_one_rank_finds_makes_all_of_them_go_back(
    tmp_path: Path, ranks: Any, on_all: Any
) -> None:
    with ranks(tmp_path, 2, dedup=False) as group:
        for step in (1, 2):
            assert on_all(group, _SAVE.format(step)) == [True, True]
        path = tmp_path / "step-000000000002" / "rank-00001.safetensors"
        path.chmod(0o644)
        data = bytearray(path.read_bytes())
        data[-3] ^= 1
        path.write_bytes(data)
        answers = on_all(group, _RESTORE)
        assert [answer[0] for answer in answers] == [1, 1]
        for answer in answers:
            ((name, reason),) = answer[3]
            assert name == "step-000000000002"
            assert reason.startswith("rank 1: ")
            assert "rank-00001.safetensors" in reason
        assert on_all(group, _RESTORE_DAMAGED) == [[str(path), 0, "rank-00001.state.w"]] * 2
        assert on_all(group, "saver.restore(7, state=state)")[1].startswith("FileNotFoundError")
        # A tree that does not fit is not passed over.
        other = "saver.restore(1, state=state if rank == 0 else {'w': np.zeros(5), 'name': ''})"
        answers = on_all(group, other)
        assert "ValueError: rank 1: state['w']" in answers[0]
        assert "ValueError: state['w']: float64 (5,), but float64 (4,)" in answers[1]


def test_nothing_to_restore_is_none_everywhere(tmp_path: Path, ranks: Any, on_all: Any) -> None:
    with ranks(tmp_path / "new", 2) as group:
        assert on_all(group, "result = saver.restore(state=state) is None") == [True, True]


_SLICED = """
rows = np.array_split(np.arange(7 * 3, dtype=np.float32).reshape(7, 3), world)
begin = sum(len(part) for part in rows[:rank])
def slice_of(array):
    return stoker.Slice(array, (7, 3), (begin, 0))
tree = {"w": slice_of(rows[rank].copy()), "lr": 0.1, "steps": [1, 2]}
empty = {"w": slice_of(np.zeros_like(rows[rank])), "lr": 0.0, "steps": []}
"""


def test_slices_go_to_any_number_of_ranks(tmp_path: Path, ranks: Any, on_all: Any) -> None:
    with ranks(tmp_path, 2) as group:
        on_all(group, _SLICED)
        assert on_all(group, "result = saver.save(1, state=tree).wait()") == [True, True]
        on_all(group, "saver.close()")
    whole = np.arange(21, dtype=np.float32).reshape(7, 3)
    assert (stoker.load(tmp_path)["state.w"][...] == whole).all()
    check = """
done = saver.restore(state=empty)
result = [done, (empty["w"].array == rows[rank]).all().item(), empty["lr"], empty["steps"]]
"""
    with ranks(tmp_path, 3) as group:
        on_all(group, _SLICED)
        assert on_all(group, check) == [[1, True, 0.1, [1, 2]]] * 3
        on_all(group, "saver.save(2, state=tree).wait(); saver.close()")
    with stoker.Checkpointer(tmp_path, rank=0, world_size=1) as saver:
        found = {"w": np.zeros((7, 3), np.float32), "lr": 0.0, "steps": []}
        assert saver.restore(state=found) == 2
        assert (found["w"] == whole).all()
        # From one to several: a slice of what was saved whole.
        saver.save(3, state={"w": whole, "lr": 0.2, "steps": []}).wait()
    with ranks(tmp_path, 2) as group:
        on_all(group, _SLICED)
        assert on_all(group, check) == [[3, True, 0.2, []]] * 2


def test_more_ranks_than_rows_is_no_problem(tmp_path: Path, ranks: Any, on_all: Any) -> None:
    with ranks(tmp_path, 3) as group:
        program = """
part = np.full((1 if rank == 1 else 0, 2), 5.0)
result = saver.save(1, state=stoker.Slice(part, (1, 2), (0, 0))).wait()
"""
        assert on_all(group, program) == [True] * 3
        back = """
part[...] = 0
result = [saver.restore(state=stoker.Slice(part, (1, 2), (0, 0))), part.tolist()]
"""
        assert on_all(group, back) == [[1, []], [1, [[5.0, 5.0]]], [1, []]]


def test_what_belongs_to_a_rank_is_not_given_to_another_number_of_them(
    tmp_path: Path, ranks: Any, on_all: Any
) -> None:
    with ranks(tmp_path, 2) as group:
        on_all(group, "saver.save(1, state=state, same={'lr': 1}, mine={'seed': rank}).wait()")
        on_all(group, "saver.close()")
    with stoker.Checkpointer(tmp_path, rank=0, world_size=1) as saver:
        same = {"lr": 0}
        assert saver.restore(same=same) == 1
        assert same == {"lr": 1}
        with pytest.raises(
            ValueError, match=r"mine\['seed'\]: each of the 2 ranks has saved another"
        ):
            saver.restore(mine={"seed": 0})
        with pytest.raises(
            ValueError, match=r"state\['w'\] and 1 more in state: each of the 2 ranks"
        ):
            saver.restore(state={"w": np.zeros(4), "name": ""})


def test_values_that_belong_to_a_rank_are_one_line_for_each_tree(
    tmp_path: Path, ranks: Any, on_all: Any
) -> None:
    with ranks(tmp_path, 2) as group:
        on_all(group, "rng = [[rank, i] for i in range(600)]")
        on_all(group, "saver.save(1, w={'w': rank, 'z': 0}, rng=rng, one={'n': 1 - rank}).wait()")
        on_all(group, "saver.close()")
    with stoker.Checkpointer(tmp_path, rank=0, world_size=1) as saver:
        with pytest.raises(ValueError, match="602 places") as caught:
            saver.restore(w={"w": 0, "z": 0}, rng=None, one={"n": 0})
        own = "each of the 2 ranks has saved another value, and this run has another number of"
        assert str(caught.value).splitlines() == [
            "602 places do not fit step 1:",
            f"  w['w']: {own} ranks",
            f"  rng[0][0] and 599 more in rng: {own} ranks",
            f"  one['n']: {own} ranks",
            "Leave such trees out of restore() and pass partial=True: w, rng, one. Only a "
            "stoker.Slice, and what was the same on every rank, can be restored by another number "
            "of ranks",
        ]
        assert saver.restore(partial=True) == 1


_REPLICATED = """
rng = np.random.default_rng(7)
state = {"model": {"w": rng.standard_normal((40, 50)), "b": rng.standard_normal(3)},
         "optimizer": [{"step": np.int64(5), "m": rng.standard_normal(3)}], "lr": 0.1}
"""


@pytest.mark.parametrize("world", [1, 3])
def test_what_all_ranks_have_equal_goes_to_any_number_of_them(
    tmp_path: Path, world: int, ranks: Any, on_all: Any
) -> None:
    with ranks(tmp_path, 2) as group:
        on_all(group, _REPLICATED)
        on_all(group, "saver.save(1, state=state, mine={'seed': np.arange(3) + rank}).wait()")
        on_all(group, "saver.close()")
    with ranks(tmp_path, world) as group:
        on_all(group, _REPLICATED)
        same = on_all(
            group,
            "found = {'model': {'w': np.zeros((40, 50)), 'b': np.zeros(3)},"
            "         'optimizer': [{'step': np.int64(0), 'm': np.zeros(3)}], 'lr': 0.0}\n"
            "saver.restore(state=found)\n"
            "flat = lambda s: [s['model']['w'], s['model']['b'], s['optimizer'][0]['step'],"
            "                  s['optimizer'][0]['m'], s['lr']]\n"
            "result = all(np.array_equal(a, b) for a, b in zip(flat(found), flat(state)))",
        )
        assert same == [True] * world
        for answer in on_all(group, "saver.restore(mine={'seed': np.zeros(3, np.int64)})"):
            assert "mine['seed']: each of the 2 ranks has saved another value" in answer


def test_equal_bytes_of_another_type_are_not_the_same_tensor(
    tmp_path: Path, ranks: Any, on_all: Any
) -> None:
    with ranks(tmp_path, 2) as group:
        on_all(group, "state = {'w': np.zeros(4, [np.int64, np.float64][rank])}")
        on_all(group, _SAVE.format(1))
        on_all(group, "saver.close()")
    refused = pytest.raises(ValueError, match=r"state\['w'\]: each of the 2 ranks")
    with stoker.Checkpointer(tmp_path, rank=0, world_size=1) as saver, refused:
        saver.restore(state=None)


_PAIRS = """[
    (0.0, -0.0), (1, True), (1, 1.0), (complex(0, 0.0), complex(0, -0.0)),
    (complex("nan+1j"), complex("nan+2j")), ({1: 5}, {True: 5}), ({(2, 0.0): 5}, {(2, -0.0): 5}),
    ({1}, {True}), (frozenset([(0.0,)]), frozenset([(-0.0,)])),
]"""


def test_values_are_the_same_on_all_ranks_if_type_and_bits_are(
    tmp_path: Path, ranks: Any, on_all: Any
) -> None:
    with ranks(tmp_path, 2) as group:
        on_all(group, f"pairs = {_PAIRS}")
        on_all(group, "own = {f'own{i}': [pair[rank]] for i, pair in enumerate(pairs)}")
        save = "result = saver.save(1, same=[pair[0] for pair in pairs], **own).wait()"
        assert on_all(group, save) == [True, True]
        on_all(group, "saver.close()")
    pairs = eval(_PAIRS)
    with stoker.Checkpointer(tmp_path, rank=0, world_size=1) as saver:
        done = saver.restore(same=None, partial=True)
        assert done is not None
        assert repr(done.trees["same"]) == repr([pair[0] for pair in pairs])
        for i in range(len(pairs)):
            own: dict[str, Any] = {f"own{i}": None}
            with pytest.raises(ValueError, match=rf"own{i}\[0\].*: each of the 2 ranks has saved"):
                saver.restore(**own)


def test_slices_that_overlap_or_lie_outside_are_refused(
    tmp_path: Path, ranks: Any, on_all: Any
) -> None:
    with pytest.raises(ValueError, match=r"\(2, 3\) at \(6, 0\) is not inside \(7, 3\)"):
        stoker.Slice(np.zeros((2, 3)), (7, 3), (6, 0))
    with pytest.raises(ValueError, match="1, 2 and 1 dimensions"):
        stoker.Slice(np.zeros(2), (7, 3), (6,))
    with pytest.raises(TypeError, match="not list"):
        stoker.Slice([1], (7,), (0,))
    with ranks(tmp_path, 2) as group:
        program = "result = saver.save(1, state=stoker.Slice(np.zeros(4), (6,), (rank,))).wait()"
        assert all("overlap" in answer for answer in on_all(group, program))
        assert on_all(group, "saver.wait()") == [None, None]  # it was told
        gap = "result = saver.save(2, state=stoker.Slice(np.zeros(2), (6,), (rank * 3,))).wait()"
        for answer in on_all(group, gap):
            assert '"state" of shape [6]: no rank has saved its elements [2:3]' in answer
            assert answer.startswith("ValueError")
        assert on_all(group, "result = saver.steps()") == [[], []]


def test_an_error_that_every_rank_was_told_does_not_cost_the_next_save(
    tmp_path: Path, ranks: Any, on_all: Any
) -> None:
    def lose_staging() -> None:
        (owner,) = tmp_path.glob("owner-*")
        shutil.rmtree(owner)

    with ranks(tmp_path, 2) as group:
        assert on_all(group, _SAVE.format(1)) == [True, True]
        lose_staging()
        assert all("save step 2: " in answer for answer in on_all(group, _SAVE.format(2)))
        assert on_all(group, _SAVE.format(3)) == [True, True]
        lose_staging()
        group[0].tell(_SAVE.format(4))
        group[1].tell("pending = saver.save(4, state=state)")
        assert "save step 4: " in group[0].hear()
        assert group[1].hear() is None
        told = on_all(group, _SAVE.format(5))
        assert all("save step 4: " in answer for answer in told), "rank 1 had not asked"
        assert on_all(group, _SAVE.format(5)) == [True, True]
        assert on_all(group, "result = saver.steps()") == [[1, 3, 5]] * 2


def test_ranks_are_found_as_a_loader_finds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    saver = stoker.Checkpointer(tmp_path, deadline=0.2)
    with pytest.raises(stoker.LateError, match="rank 0 did not answer"):
        saver.save(1, state=1)
    assert saver.due(4, every_steps=2)
    alone = stoker.Checkpointer(tmp_path, rank=0, world_size=1)
    assert alone.save(1, state=1).wait()
    with pytest.raises(ValueError, match="belong together"):
        stoker.Checkpointer(tmp_path, rank=0)


def test_ctrl_c_ends_the_wait_for_other_ranks(tmp_path: Path, ranks: Any) -> None:
    with ranks(tmp_path, 2, count=1) as (rank,):
        rank.tell(
            "try:\n  print('\"waiting\"', flush=True); saver.save(1, state=state)\n"
            "except KeyboardInterrupt:\n  result = 'interrupted'"
        )
        assert rank.process.stdout.readline() == '"waiting"\n'
        while not list(tmp_path.glob(".meeting-*/welcome-*")):
            os.sched_yield()  # it does not wait yet
        rank.process.send_signal(signal.SIGINT)
        assert rank.hear() == "interrupted"


def test_defaultdicts_with_other_factories_are_not_the_same_on_all_ranks() -> None:
    one: Any = collections.defaultdict(int, a=1)
    other: Any = collections.defaultdict(lambda: 0, a=1)
    same = tree_of_all([one, collections.defaultdict(int, a=1)], lambda name: (name,))
    assert same == one
    assert same.default_factory is int
    assert isinstance(tree_of_all([one, other], lambda name: (name,)), Differs)
    nested = tree_of_all([{"d": one}, {"d": other}], lambda name: (name,))
    assert isinstance(nested["d"], Differs)
