"""Steps in several micro-batches: the same steps, positions and numbers, in less memory."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

GLOBAL = 24
CLASSES = {"cls": int}


def load(data: Any, **options: Any) -> stoker.Loader:
    settings: dict[str, Any] = {"fields": CLASSES, "torch": False, "seed": 7}
    if "batch_size" not in options:
        settings["global_batch_size"] = GLOBAL
    return stoker.Loader(data, **(settings | options))


def steps_of(batches: Iterable[Any]) -> list[list[int]]:
    """Returns the samples of each step, which ends with ``batch.last``."""
    steps: list[list[int]] = [[]]
    for batch in batches:
        steps[-1] += batch["cls"].tolist()
        if batch.last:
            steps.append([])
    assert steps.pop() == []
    return steps


def all_ranks(data: Any, world_size: int, **options: Any) -> list[list[int]]:
    """Returns the samples of each step over all ranks."""
    ranks = [
        steps_of(load(data, rank=rank, world_size=world_size, **options))
        for rank in range(world_size)
    ]
    return [[n for part in step for n in part] for step in zip(*ranks, strict=True)]


@pytest.mark.parametrize("tail", ["drop", "keep", "wrap", "pad"])
def test_steps_are_the_same_on_any_number_of_ranks_in_pieces_of_any_size(
    shards: Path, tail: Any
) -> None:
    whole = [batch["cls"].tolist() for batch in load(shards, tail=tail, epochs=2)]
    for world_size, micro in [(1, 1), (1, 8), (2, 12), (2, 3), (4, 2), (8, 3)]:
        options = {"tail": tail, "micro_batch_size": micro, "epochs": 2}
        assert all_ranks(shards, world_size, **options) == whole


def test_each_rank_counts_its_micro_batches_and_the_steps(shards: Path) -> None:
    loader = load(shards, rank=1, world_size=2, micro_batch_size=4, epochs=2)
    assert len(loader) == 12
    assert loader.batches_per_epoch == 6
    assert loader.steps_per_epoch == 2
    assert loader.micro_batches_per_step == 3
    found = [(step, batch.size, batch.last) for step, batch in loader.steps()]
    assert found == [
        (step, 4, is_last) for step in (1, 2, 3, 4) for is_last in (False, False, True)
    ]
    assert "micro_batch_size=4" in repr(loader)


def test_without_micro_batches_every_batch_is_the_last(shards: Path) -> None:
    loader = load(shards)
    assert all(batch.last for batch in loader)
    assert loader.micro_batches_per_step == 1
    assert loader.steps_per_epoch == loader.batches_per_epoch == 2
    assert stoker.Batch().last
    assert "micro_batch_size" not in repr(loader)


@pytest.mark.parametrize("fields", [CLASSES, None], ids=["typed", "untyped"])
def test_a_short_last_step_has_as_many_micro_batches_on_every_rank(
    shards: Path, fields: Any
) -> None:
    sizes, lasts = [], []
    for rank in range(3):
        loader = load(
            shards,
            batch_size=6,
            micro_batch_size=2,
            tail="keep",
            fields=fields,
            rank=rank,
            world_size=3,
        )
        batches = list(loader)
        assert len(batches) == len(loader) == 3 + 3 + 3  # steps of 18, 18 and 14 samples
        assert all("cls" in batch for batch in batches)
        sizes.append([batch.size for batch in batches[6:]])
        lasts.append([batch.last for batch in batches[6:]])
    assert sizes == [[2, 2, 2], [2, 2, 2], [2, 0, 0]]
    assert lasts == [[False, False, True]] * 3


def test_padding_is_marked_in_each_micro_batch(shards: Path) -> None:
    loader = load(shards, batch_size=8, micro_batch_size=4, tail="pad")
    valid = [batch["__valid__"].tolist() for batch in loader]
    assert valid[-2:] == [[True, True, False, False], [False] * 4]
    assert all(all(one) for one in valid[:-2])


def test_a_position_between_micro_batches_cannot_be_saved(shards: Path, tmp_path: Path) -> None:
    loader = load(shards, micro_batch_size=6)
    before = loader.state_dict()
    iteration = iter(loader)
    with stoker.Checkpointer(tmp_path / "run") as saver:
        for received in (1, 2, 3):
            batch = next(iteration)
            assert not batch.last
            assert not loader.step_is_done
            text = f"between micro-batches: {received} of the 4 .* Save only if batch.last"
            with pytest.raises(RuntimeError, match=text):
                loader.state_dict()
            with pytest.raises(RuntimeError, match=text):
                saver.save(1, loader=loader)
            assert batch.cursor == loader.cursor
            assert batch.cursor.position == before["position"]
        assert next(iteration).last
        assert loader.step_is_done
        assert loader.state_dict() == before | {"position": GLOBAL}
        saver.save(1, loader=loader).wait()
    other = load(shards, micro_batch_size=8)
    with stoker.Checkpointer(tmp_path / "run") as saver:
        assert saver.restore(loader=other) == 1
    step, batch = next(other.steps())
    assert (step, batch.size) == (2, 8)


@pytest.mark.parametrize("done", [1, 2, 3])
def test_a_run_resumes_with_any_size_and_any_number_of_ranks(shards: Path, done: int) -> None:
    whole = [batch["cls"].tolist() for batch in load(shards, epochs=2)]
    loader = load(shards, rank=0, world_size=2, micro_batch_size=3, epochs=2)
    for step, batch in loader.steps():
        if step == done and batch.last:
            break
    state = loader.state_dict()
    plain = load(shards, epochs=2)
    steps = plain.steps()
    while next(steps)[0] < done:
        pass
    assert state == plain.state_dict()  # nothing in it tells about micro-batches
    for world_size, micro in [(1, 4), (4, 6), (2, None)]:
        parts = []
        for rank in range(world_size):
            options = {"rank": rank, "world_size": world_size, "micro_batch_size": micro}
            resumed = load(shards, epochs=2, **options)
            resumed.load_state_dict(state)
            numbers = [step for step, batch in resumed.steps() if batch.last]
            assert numbers == list(range(done + 1, 5))
            resumed.load_state_dict(state)
            parts.append(steps_of(resumed))
        joined = [[n for part in step for n in part] for step in zip(*parts, strict=True)]
        assert joined == whole[done:]


def test_a_step_that_was_left_in_the_middle_begins_again(shards: Path) -> None:
    loader = load(shards, micro_batch_size=6, epochs=None)
    whole = [batch["cls"].tolist() for batch in load(shards)]
    for step, batch in loader.steps():
        if step == 2:
            assert not batch.last
            break
    again = loader.steps()
    first = [next(again) for _ in range(4)]
    assert [step for step, _ in first] == [2] * 4
    assert steps_of(batch for _, batch in first) == whole[1:]
    assert loader.step_is_done


def test_the_warning_counts_the_micro_batches_that_are_left_out(
    shards: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loader = load(shards, micro_batch_size=6)
    next(iter(loader))
    with caplog.at_level(logging.WARNING, "stoker"):
        iter(loader)
    assert "7 of its batches are left out" in caplog.text
    assert loader.step_is_done  # a new iteration begins with a whole step


def test_an_epoch_is_done_with_its_last_micro_batch(shards: Path) -> None:
    loader = load(shards, micro_batch_size=12, epochs=3)
    found = [loader.epoch_is_done for _ in loader]
    assert found == [False, False, False, True] * 3


def test_memory_is_that_of_micro_batches(shards: Path) -> None:
    small = load(shards, batch_size=4)._plan.memory_needed
    whole = load(shards)
    assert whole._plan.memory_needed > small
    with pytest.raises(ValueError, match=r"three batches of 24 samples.*give micro_batch_size"):
        load(shards, memory_bytes=small)
    loader = load(shards, micro_batch_size=4, memory_bytes=small)
    assert loader._plan.memory_needed == small
    assert steps_of(loader) == [batch["cls"].tolist() for batch in whole]


def test_sizes_that_do_not_fit_are_refused_with_both(shards: Path) -> None:
    text = r"global_batch_size=24 is 12 samples for each of 2 ranks, .*micro_batch_size=8"
    with pytest.raises(ValueError, match=text):
        load(shards, rank=0, world_size=2, micro_batch_size=8)
    with pytest.raises(ValueError, match=r"batch_size=4 is not a multiple of micro_batch_size=8"):
        load(shards, batch_size=4, micro_batch_size=8)
    with pytest.raises(ValueError, match="micro_batch_size"):
        load(shards, micro_batch_size=0)
    with pytest.raises(ValueError, match="use one"):
        load(shards, micro_batch_size=8).steps(every=2)


@pytest.mark.parametrize("where", ["thread", "process"])
def test_map_sees_the_same_samples_with_the_same_random_numbers(shards: Path, where: Any) -> None:
    options: dict[str, Any] = {"map": _noisy, "map_in": where, "map_workers": 2}
    whole = [(b["cls"].tolist(), b["noise"].tolist()) for b in load(shards, **options)]
    cut = load(shards, micro_batch_size=8, **options)
    found: list[tuple[list[int], list[float]]] = [([], [])]
    for batch in cut:
        assert batch.size == 8
        found[-1][0].extend(batch["cls"].tolist())
        found[-1][1].extend(batch["noise"].tolist())
        if batch.last:
            found.append(([], []))
    assert found[:-1] == whole
    cut.close()


def _noisy(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return sample | {"noise": float(rng.normal())}


def test_collate_makes_micro_batches_and_the_loader_says_which_is_the_last(shards: Path) -> None:
    loader = load(
        shards, micro_batch_size=8, collate=lambda samples: tuple(s["cls"] for s in samples)
    )
    lasts = []
    for batch in loader:
        assert type(batch) is tuple
        assert len(batch) == 8
        lasts.append(loader.step_is_done)
    assert lasts == [False, False, True] * 2


def test_an_empty_part_is_as_many_empty_micro_batches_after_a_map(shards: Path) -> None:
    loader = load(shards, rank=1, world_size=2, micro_batch_size=4, tail="keep", map=_noisy)
    batches = list(loader)
    assert [batch.size for batch in batches] == [4] * 6 + [0]  # 2 samples are left, on rank 0
    assert batches[-1].last
    assert "noise" in batches[-1]


def test_mixtures_tokens_orders_and_arrays_given_by_the_caller(
    shards: Path, tmp_path: Path
) -> None:
    data = stoker.Dataset(shards)
    mixture = stoker.Mixture([(data, 0.5), (data.select(range(10)), 0.5)])
    whole = [batch["cls"].tolist() for batch in load(mixture)]
    assert steps_of(load(mixture, micro_batch_size=3)) == whole

    order = list(range(49, -1, -1))
    assert steps_of(load(shards, order=order, micro_batch_size=12, tail="drop")) == [
        order[:24],
        order[24:48],
    ]

    np.save(tmp_path / "tokens.npy", np.arange(400, dtype=np.uint16))
    tokens = stoker.Tokens(tmp_path / "tokens.npy", window=4)
    rows = [b["tokens"] for b in load(tokens, fields=None)]
    pieces = [b["tokens"] for b in load(tokens, fields=None, micro_batch_size=6)]
    assert np.array_equal(np.concatenate(pieces), np.concatenate(rows))
    assert {len(piece) for piece in pieces} == {6}

    room = np.zeros(6, np.int64)
    for batch in load(shards, micro_batch_size=6, out={"cls": room}):
        assert batch["cls"].base is room or batch["cls"] is room


def test_what_is_made_of_a_micro_batch_knows_whether_it_is_the_last(shards: Path) -> None:
    for torch in (False, True):
        for batch in load(shards, micro_batch_size=12, torch=torch):
            copies = [batch.copy(), batch.clone(), pickle.loads(pickle.dumps(batch))]
            if torch:
                copies.append(batch.to("cpu"))
            assert {copy.last for copy in copies} == {batch.last}


def test_a_framework_that_fetches_ahead_saves_between_steps_only(shards: Path) -> None:
    loader = load(shards, micro_batch_size=12, epochs=None)
    iteration = iter(loader)
    next(iteration)
    loader.sampler.set_epoch(0)  # as Lightning does, after it has fetched the first
    assert loader.state_dict()["position"] == 0
    next(iteration)  # it has used the first, and has the second
    with pytest.raises(RuntimeError, match="1 of the 2 of this step"):
        loader.state_dict()
    assert not next(iteration).last  # it has used the second
    assert loader.state_dict()["position"] == GLOBAL
