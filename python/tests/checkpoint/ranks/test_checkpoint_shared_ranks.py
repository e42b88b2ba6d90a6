"""What several ranks have is stored once; what differs is kept for each rank."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from stoker._checkpoint.state import rank_states as _ranks
from stoker._checkpoint.state.nodes import TensorNode
from stoker._checkpoint.state.rank_states import tree_of_all
from stoker._checkpoint.state.values import parts_of

_SAVE = "result = saver.save({}, {}).wait()"


def _names(step: Path) -> dict[str, int]:
    """The tensors of a checkpoint, and how often each is stored."""
    manifest = json.loads((step / "manifest.json").read_text())
    names = [tensor["name"] for tensor in manifest["tensors"]]
    return {name: names.count(name) for name in names}


def test_equal_tensors_are_stored_once_by_ranks_that_share_the_work(
    tmp_path: Path, ranks: Any, on_all: Any
) -> None:
    with ranks(tmp_path, 3) as group:
        on_all(group, "state = {f'w{i}': np.full(1000, i) for i in range(9)}")
        for step in (1, 2, 3):
            assert on_all(group, _SAVE.format(step, "state=state")) == [True] * 3
            on_all(group, "state['w0'] += 1")
        on_all(group, "saver.close()")
    for step in (1, 2, 3):
        folder = tmp_path / f"step-{step:012}"
        assert _names(folder) == {f"state.w{i}": 1 for i in range(9)}
        sizes = [path.stat().st_size for path in sorted(folder.glob("*.safetensors"))]
        assert max(sizes) - min(sizes) < 8000, "each has stored three"
    loaded = stoker.load(tmp_path)
    assert [int(loaded[f"state.w{i}"][0]) for i in range(9)] == [2, *range(1, 9)]
    with stoker.Checkpointer(tmp_path, rank=0, world_size=1) as saver:
        done = saver.restore(3, state=None)
    assert done is not None
    assert done.trees["state"]["w8"][0] == 8


def test_a_tensor_that_diverges_fails_one_save_and_is_then_stored_for_each_rank(
    tmp_path: Path, ranks: Any, on_all: Any
) -> None:
    with ranks(tmp_path, 2) as group:
        on_all(group, "state = {'w': np.arange(4.0), 'v': np.ones(3)}")
        on_all(group, _SAVE.format(1, "state=state"))
        on_all(group, "state['w'][2] += rank")
        for said in on_all(group, _SAVE.format(2, "state=state")):
            assert 'tensor "state.w": ranks' in said
            assert "the next save stores it for each rank" in said
        assert on_all(group, _SAVE.format(3, "state=state")) == [True, True]
        on_all(group, "state['w'][:] = -1")
        on_all(group, "saver.restore(state=state)")
        assert on_all(group, "result = state['w'].tolist()") == [[0, 1, 2, 3], [0, 1, 3, 3]]
        on_all(group, "saver.close()")
    assert [path.name for path in sorted(tmp_path.glob("step-*"))] == [
        "step-000000000001",
        "step-000000000003",
    ]
    names = {"rank-00000.state.w": 1, "rank-00001.state.w": 1, "state.v": 1}
    assert _names(tmp_path / "step-000000000003") == names
    refused = pytest.raises(ValueError, match=r"state\['w'\]: each of the 2 ranks")
    with stoker.Checkpointer(tmp_path, rank=0, world_size=1) as saver, refused:
        saver.restore(state=None)


def test_what_differs_is_named_once_by_the_first_rank_that_has_it(
    tmp_path: Path, ranks: Any, on_all: Any
) -> None:
    program = """
import logging
class Lines(logging.Handler):
    def emit(self, record): told.append(record.getMessage())
told = []
logging.getLogger("stoker").addHandler(Lines(logging.WARNING))
"""
    with ranks(tmp_path, 3) as group:
        on_all(group, program)
        on_all(group, "state = {'same': np.ones(2), 'v': np.ones(2), 'w': np.ones(2)}")
        on_all(group, "if rank > 0: state['v'] *= rank; state['w'] *= rank")
        on_all(group, "if rank == 0: del state['v'], state['w']")
        on_all(group, "own = stoker.PerRank({'x': np.full(2, rank)})")
        for step in (1, 2):
            on_all(group, _SAVE.format(step, "state=state, own=own"))
            on_all(group, "state[f'more{rank}'] = np.ones(1)")
        first, second, third = on_all(group, "result = told")
        on_all(group, "saver.close()")
    assert (first, third) == ([], [])
    (line,) = second
    assert "stored for each of them: state.v and 1 more." in line


def test_several_tensors_that_diverge_are_counted(tmp_path: Path, ranks: Any, on_all: Any) -> None:
    with ranks(tmp_path, 2) as group:
        on_all(group, "state = {name: np.arange(4.0) for name in 'abc'}")
        on_all(group, _SAVE.format(1, "state=state"))
        on_all(group, "state['a'][2] += rank; state['c'][2] += rank")
        for said in on_all(group, _SAVE.format(2, "state=state")):
            assert '" and 1 more: ranks' in said
            assert "the next save stores them for each rank" in said
        on_all(group, "saver.close()")


def test_names_that_appear_on_one_rank_are_counted_again(
    tmp_path: Path, ranks: Any, on_all: Any
) -> None:
    with ranks(tmp_path, 2) as group:
        on_all(group, "state = {'w': np.arange(4.0)}")
        on_all(group, _SAVE.format(1, "state=state"))
        on_all(group, "state |= {'more': np.ones(2)} if rank == 1 else {}")
        assert on_all(group, _SAVE.format(2, "state=state")) == [True, True]
        on_all(group, "saver.close()")
    assert _names(tmp_path / "step-000000000002") == {"state.w": 1, "state.more": 1}


def test_what_is_per_rank_is_never_shared(tmp_path: Path, ranks: Any, on_all: Any) -> None:
    with ranks(tmp_path, 2) as group:
        on_all(group, "own = stoker.PerRank({'w': np.zeros(2), 'n': rank})")
        for step in (1, 2):
            assert on_all(group, _SAVE.format(step, "own=own")) == [True, True]
            on_all(group, "own.value['w'] += rank; own.value['n'] += 10")
        on_all(group, "saver.restore(own=own)")
        seen = on_all(group, "result = [own.value['w'].tolist(), own.value['n']]")
        assert seen == [[[0, 0], 10], [[1, 1], 11]]
        on_all(group, "saver.close()")
    for step in (1, 2):
        names = {"rank-00000.own.w": 1, "rank-00001.own.w": 1}
        assert _names(tmp_path / f"step-{step:012}") == names


def test_a_value_that_is_per_rank_may_be_immutable(tmp_path: Path) -> None:
    count = stoker.PerRank(3)
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, count=count)
        count.value = 5
        saver.restore(count=count)
    assert count.value == 3


def test_equal_slices_are_stored_once_and_different_ones_refused(
    tmp_path: Path, ranks: Any, on_all: Any
) -> None:
    part = "stoker.Slice(w[2 * (rank // 2):][:2], [4], [2 * (rank // 2)])"
    with ranks(tmp_path, 4) as group:
        on_all(group, "w = np.arange(4.0)")
        assert on_all(group, _SAVE.format(1, f"s={{'w': {part}}}")) == [True] * 4
        on_all(group, "w[3] += rank")
        for said in on_all(group, _SAVE.format(2, f"s={{'w': {part}}}")):
            assert "ranks 2 and 3" in said or "ranks 3 and 2" in said
            assert "They have the same slice of it" in said
        for said in on_all(group, _SAVE.format(3, f"s={{'w': {part}}}")):
            assert "several ranks have the same slice of it, with different bytes" in said
        on_all(group, "saver.close()")
    assert _names(tmp_path / "step-000000000001") == {"s.w": 2}
    assert np.array_equal(stoker.load(tmp_path)["s.w"][...], np.arange(4.0))


def test_a_rank_may_have_a_part_of_a_module_but_no_name_is_left_out_by_all(
    tmp_path: Path, ranks: Any, on_all: Any
) -> None:
    program = """
import torch
def make(names): return torch.nn.ParameterDict({n: torch.full((3,), float(ord(n))) for n in names})
"""
    with ranks(tmp_path, 2) as group:
        on_all(group, program)
        on_all(group, _SAVE.format(1, "model=make('ab'[rank])"))
        on_all(group, "whole = make('ab')\nfor p in whole.parameters(): p.data.zero_()")
        on_all(group, "saver.restore(model=whole)")
        assert (
            on_all(group, "result = [whole['a'][0].item(), whole['b'][0].item()]") == [[97, 98]] * 2
        )
        assert on_all(group, "result = int(saver.restore(model=make('ba'[rank])))") == [1, 1]
        for said in on_all(group, "saver.restore(model=make('a'))"):
            assert "no rank has these:\n  model['b']: in step 1, but the module has none" in said
        for said in on_all(group, "saver.restore(model=make('abc'[rank:]))"):
            assert "model['c']: not in step 1" in said
        on_all(group, "saver.close()")


def test_with_strict_false_only_what_no_rank_has_is_unexpected(
    tmp_path: Path, ranks: Any, on_all: Any
) -> None:
    program = """
import torch
def make(names): return torch.nn.ParameterDict({n: torch.full((3,), float(ord(n))) for n in names})
"""
    told = (
        "done = saver.restore(model=model, strict=False); result = [done.missing, done.unexpected]"
    )
    with ranks(tmp_path, 2) as group:
        on_all(group, program)
        on_all(group, _SAVE.format(1, "model=make('abc')"))
        on_all(group, "model = make('ad'[rank]); [p.data.zero_() for p in model.parameters()]")
        assert on_all(group, told) == [
            [[], ["model.b", "model.c"]],
            [["model.d"], ["model.b", "model.c"]],
        ]
        assert on_all(group, "result = [p.sum().item() for p in model.parameters()]") == [
            [291],
            [0],
        ]
        on_all(group, "model = make(['ab', 'c'][rank])")
        assert on_all(group, told) == [[[], []]] * 2, "a stage of a pipeline"
        on_all(group, "saver.close()")


def test_verify_before_leaves_all_ranks_untouched_if_one_finds_damage(
    tmp_path: Path, ranks: Any, on_all: Any
) -> None:
    with ranks(tmp_path, 2) as group:
        on_all(group, "state = stoker.PerRank({'w': np.full(1000, rank + 1.0)})")
        on_all(group, _SAVE.format(1, "state=state"))
        folder = tmp_path / "step-000000000001"
        (theirs,) = folder.glob("rank-00001*.safetensors")
        data = bytearray(theirs.read_bytes())
        data[-1] ^= 1
        theirs.write_bytes(data)
        on_all(group, "state.value['w'][:] = -1")
        for said in on_all(group, "saver.restore(state=state, verify='before')"):
            assert "checksum" in said
        assert on_all(group, "result = state.value['w'].tolist() == [-1] * 1000") == [True, True]
        on_all(group, "saver.close()")


def test_a_state_that_rank_0_alone_has_is_for_all(tmp_path: Path, ranks: Any, on_all: Any) -> None:
    made = "state = {{'model': {{'w': np.arange(3.0)}} if {} else {{}}, 'epoch': 3}}"
    empty = "fresh = {'model': {'w': np.zeros(3)}, 'epoch': 0}"
    seen = "saver.restore(state=fresh); result = [fresh['model']['w'].tolist(), fresh['epoch']]"
    with ranks(tmp_path, 2) as group:
        on_all(group, made.format("rank == 0"))
        assert on_all(group, _SAVE.format(1, "state=state, bare=state['model']")) == [True] * 2
        on_all(group, empty)
        assert (
            on_all(group, f"saver.restore(state=fresh, partial=True); {seen}")
            == [[[0, 1, 2], 3]] * 2
        )
        on_all(group, "mine = {'model': {'w': np.zeros(3)} if rank == 0 else {}, 'epoch': 0}")
        on_all(group, "saver.restore(state=mine, partial=True)")
        assert on_all(group, "result = len(mine['model'])") == [1, 0], "it asks for nothing"
        on_all(group, "done = saver.restore(bare=None, partial=True)")
        assert on_all(group, "result = done.trees['bare']['w'].tolist()") == [[0, 1, 2]] * 2
        on_all(group, "saver.close()")
    with ranks(tmp_path, 3) as group:
        on_all(group, empty)
        assert on_all(group, seen) == [[[0, 1, 2], 3]] * 3
        on_all(group, "saver.close()")


def test_a_tree_that_only_some_ranks_have_is_restored_by_all_that_ask(
    tmp_path: Path, ranks: Any, on_all: Any
) -> None:
    """As stages of a pipeline that are saved under names of their own."""
    program = """
import logging
import torch
lines = []
class Lines(logging.Handler):
    def emit(self, record):
        lines.append(record.getMessage())
logging.getLogger("stoker").addHandler(Lines(logging.WARNING))
def make(number): return torch.nn.ParameterDict({"w": torch.full((3,), float(number))})
def values(**trees): saver.restore(**trees); return [t["w"][0].item() for t in trees.values()]
"""
    with ranks(tmp_path, 2) as group:
        on_all(group, program)
        on_all(group, _SAVE.format(1, "**{f'stage{rank}': make(rank + 1)}"))
        mine = "result = values(**{f'stage{rank}': make(0)})"
        assert on_all(group, mine) == [[1], [2]]
        assert on_all(group, "result = lines") == [[], []], "nobody was asked for another's"
        both = "result = values(stage0=make(0), stage1=make(0))"
        assert on_all(group, both) == [[1, 2]] * 2
        for said in on_all(group, "values(stage2={})"):
            assert "has no tree 'stage2'; it has stage0, stage1" in said
        on_all(group, "saver.close()")
    with ranks(tmp_path, 1) as group:
        on_all(group, program)
        assert on_all(group, both) == [[1, 2]]
        on_all(group, "values(stage1=make(0))")
        assert "was not asked for: stage0" in on_all(group, "result = lines")[0][0]
        on_all(group, "saver.close()")


def test_an_empty_dict_of_one_rank_stays_where_it_is_meant(
    tmp_path: Path, ranks: Any, on_all: Any
) -> None:
    with ranks(tmp_path, 2) as group:
        on_all(group, "own = stoker.PerRank({'a': {'w': 1} if rank == 0 else {}})")
        assert on_all(group, _SAVE.format(1, "own=own")) == [True] * 2
        on_all(group, "own.value = {'a': {'w': 2}}")
        first, second = on_all(group, "result = str(saver.restore(own=own))")
        assert "own['a']['w']: not in step 1" in first
        assert "own['a']['w']: not in step 1" in second
        on_all(group, "saver.close()")


def test_long_lists_that_differ_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lists = [[float(i + rank) for i in range(500)] for rank in range(3)]
    looked: list[Any] = []

    def counted(value: Any) -> Any:
        looked.append(value)
        return parts_of(value)

    monkeypatch.setattr(_ranks, "parts_of", counted)
    assert tree_of_all(lists, lambda name: (name,), own=1) == lists[1]
    assert sum(isinstance(value, list) for value in looked) <= 4, "not once for each item"


def test_a_rank_gets_its_own_tensor_whatever_its_digest_says() -> None:
    trees = [{"w": TensorNode(f"rank-0000{rank}.w")} for rank in range(2)]
    assert tree_of_all(trees, lambda name: (), own=1)["w"].name == "rank-00001.w"
    assert tree_of_all(trees, lambda name: ())["w"].name == "rank-00000.w", "they are equal"
