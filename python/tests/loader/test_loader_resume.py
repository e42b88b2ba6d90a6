"""Going on where a run stood, exactly: at every cut, on any number of ranks."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

BATCH = 8


def load(data: Any, **options: Any) -> stoker.Loader:
    settings: dict[str, Any] = {"fields": {"cls": int}, "torch": False, "seed": 7, "epochs": 2}
    return stoker.Loader(data, **({"global_batch_size": BATCH} | settings | options))


def batches(loader: Any) -> list[list[int]]:
    return [batch["cls"].tolist() for batch in loader]


def world(data: Any, size: int, **options: Any) -> list[stoker.Loader]:
    return [load(data, rank=rank, world_size=size, **options) for rank in range(size)]


ORDERS: dict[str, dict[str, Any]] = {
    "global": {},
    "off": {"shuffle": "off"},
    "resampled": {"shuffle": "resampled"},
    "block": {"shuffle": stoker.BlockShuffle(2, 2)},
    "given": {"order": np.random.default_rng(0).permutation(50)},
    "wrap": {"tail": "wrap"},
    "keep": {"tail": "keep"},
    "endless": {"epochs": None},
}


@pytest.mark.parametrize("name", ORDERS)
def test_any_cut_is_resumed_exactly_on_any_number_of_ranks(shards: Path, name: str) -> None:
    options = ORDERS[name]
    whole = load(shards, **options)
    expected, cursors = [], []
    for batch in whole:
        expected.append(batch["cls"].tolist())
        cursors.append(batch.cursor)
        if len(expected) == 14:
            break
    for cut in range(len(cursors)):
        for size in (1, 2, 4) if cut % 3 == 0 else (2,):
            ranks = world(shards, size, **options)
            for loader in ranks:
                loader.load_state_dict(cursors[cut])
            rest = len(expected) - cut - 1
            streams = [iter(loader) for loader in ranks] if rest else []
            seen = [
                [n for stream in streams for n in next(stream)["cls"].tolist()] for _ in range(rest)
            ]
            assert seen == expected[cut + 1 :], (cut, size)
            for loader in ranks:
                loader.close()


def test_the_state_is_that_of_what_was_handed_out_not_of_what_was_prepared(shards: Path) -> None:
    loader = load(shards, depth=8)
    assert loader.state_dict()["position"] == 0
    for number, batch in enumerate(loader, 1):
        state = loader.state_dict()
        assert state == stoker._loader.cursors.state_of(batch.cursor)
        assert state["epoch"] * 48 + state["position"] == number * BATCH


def test_the_state_is_plain_and_small_and_survives_any_keeper(shards: Path) -> None:
    loader = load(shards)
    stream = iter(loader)
    next(stream)
    state = loader.state_dict()
    assert all(type(value) in (int, str) for value in state.values())
    cursor = loader.cursor
    assert len(bytes(cursor)) <= 128
    expected = batches(stream)
    for kept in (
        state,
        json.loads(json.dumps(state)),
        pickle.loads(pickle.dumps(state)),
        {key: np.int64(v) if key == "position" else v for key, v in state.items()},
        cursor,
        pickle.loads(pickle.dumps(cursor)),
        bytes(cursor),
        str(cursor),
    ):
        again = load(shards)
        again.load_state_dict(kept)
        assert batches(again) == expected
    assert pickle.loads(pickle.dumps(cursor)) == cursor
    assert hash(pickle.loads(pickle.dumps(cursor))) == hash(cursor)
    assert cursor != "cursor"


def test_a_state_loaded_twice_or_saved_again_is_the_same(shards: Path) -> None:
    loader = load(shards)
    stream = iter(loader)
    next(stream)
    state = loader.state_dict()
    expected = batches(stream)
    again = load(shards)
    again.load_state_dict(state)
    again.load_state_dict(state)
    assert again.state_dict() == state  # before a batch was taken
    first = iter(again)
    assert next(first)["cls"].tolist() == expected[0]
    third = load(shards)
    third.load_state_dict(again.state_dict())  # a resumed run, saved and resumed once more
    assert batches(third) == expected[1:]


def test_loading_ends_an_iteration_and_applies_to_the_next(shards: Path) -> None:
    loader = load(shards)
    stream = iter(loader)
    state = loader.state_dict()
    first = next(stream)["cls"].tolist()
    loader.load_state_dict(state)
    with pytest.raises(RuntimeError, match="is over"):
        next(stream)
    assert batches(loader)[0] == first


def test_after_the_last_batch_of_an_epoch_comes_the_next_epoch(shards: Path) -> None:
    loader = load(shards, epochs=1)
    epochs = [batches(loader) for _ in range(3)]
    for tail in ("drop", "keep"):
        loader = load(shards, epochs=1, tail=tail)
        expected = [batches(loader) for _ in range(2)]
        loader.set_epoch(0)
        batches(loader)
        again = load(shards, epochs=1, tail=tail)
        again.load_state_dict(loader.state_dict())
        assert batches(again) == expected[1]
    again = load(shards, epochs=1)
    again.load_state_dict(load_to(shards, 6).state_dict())
    again.set_epoch(1)  # as a framework says: it is the current one
    assert batches(again) == epochs[1]
    assert batches(again) == epochs[2]


def load_to(shards: Path, count: int) -> stoker.Loader:
    loader = load(shards, epochs=1)
    stream = iter(loader)
    for _ in range(count):
        next(stream)
    return loader


def test_set_epoch_does_not_set_back_a_resumed_epoch(shards: Path) -> None:
    loader = load(shards, epochs=1)
    batches(loader)
    stream = iter(loader)
    next(stream)
    again = load(shards, epochs=1)
    again.load_state_dict(loader.state_dict())
    again.set_epoch(1)
    assert batches(again) == batches(stream)
    assert len(again) == 6  # of a whole iter(): progress bars do not jump


def test_a_run_of_several_epochs_ends_where_it_would_have(shards: Path) -> None:
    loader = load(shards, epochs=3)
    stream = iter(loader)
    for _ in range(8):
        next(stream)
    again = load(shards, epochs=3)
    again.load_state_dict(loader.state_dict())
    rest = batches(stream)
    assert len(rest) == 10
    assert batches(again) == rest
    assert batches(again) == batches(loader)


def one_ahead(loader: Any) -> Iterator[Any]:
    """As accelerate and others do."""
    stream = iter(loader)
    ahead = next(stream)
    for following in stream:
        yield ahead
        ahead = following
    yield ahead


def test_a_batch_has_its_own_cursor_for_those_who_fetch_one_ahead(shards: Path) -> None:
    loader = load(shards)
    *_, batch = islice(one_ahead(loader), 5)
    assert loader.cursor.position == 6 * BATCH
    again = load(shards)
    again.load_state_dict(batch.cursor)
    assert batches(again)[0] == batches(load(shards))[5]


def test_steps_count_what_was_received_over_all_runs(shards: Path) -> None:
    loader = load(shards, epochs=1)
    assert [step for step, _ in loader.steps()] == [1, 2, 3, 4, 5, 6]
    stream = loader.steps()
    assert next(stream)[0] == 7
    again = load(shards, epochs=1)
    again.load_state_dict(loader.state_dict())
    assert [step for step, _ in again.steps()] == [8, 9, 10, 11, 12]
    assert [step for step, _ in again.steps(start=100)] == [101, 102, 103, 104, 105, 106]


def test_steps_under_accumulation_go_up_with_the_last_batch_of_each(shards: Path) -> None:
    loader = load(shards, epochs=1)
    assert [step for step, _ in loader.steps(every=2)] == [0, 1, 1, 2, 2, 3]
    assert [step for step, _ in loader.steps(start=3, every=4)] == [3, 3, 3, 4, 4, 4]
    with pytest.raises(ValueError, match="every=0"):
        next(loader.steps(every=0))


def test_another_run_is_refused_and_every_difference_named(shards: Path) -> None:
    state = load(shards).state_dict()
    other = load(stoker.Dataset(shards)[:40], seed=8, global_batch_size=4, tail="keep")
    with pytest.raises(stoker.CursorMismatch) as raised:
        other.load_state_dict(state)
    found = {d.field: (d.was, d.now, d.may_be_allowed) for d in raised.value.differences}
    assert found["seed"] == ("7", "8", False)
    assert found["epoch_samples"] == ("50", "40", False)
    assert found["global_batch_size"] == ("8", "4", True)
    assert found["tail"][2]
    assert found["fingerprint"][2]
    for field in found:
        assert field in str(raised.value)
    assert isinstance(raised.value, ValueError)
    again = pickle.loads(pickle.dumps(raised.value))
    assert again.differences == raised.value.differences


def test_a_changed_batch_goes_on_where_it_stood_if_allowed(shards: Path) -> None:
    loader = load(shards, epochs=1)
    stream = iter(loader)
    for _ in range(3):
        next(stream)
    rest = [n for batch in batches(stream) for n in batch]
    again = load(shards, epochs=1, global_batch_size=4)
    with pytest.raises(stoker.CursorMismatch, match="global_batch_size"):
        again.load_state_dict(load_to(shards, 3).state_dict())
    again.load_state_dict(load_to(shards, 3).state_dict(), allow={"global_batch_size"})
    assert [n for batch in batches(again) for n in batch][: len(rest)] == rest
    with pytest.raises(ValueError, match="seed"):
        again.load_state_dict(load_to(shards, 3).state_dict(), allow={"seed"})
    with pytest.raises(TypeError, match="set of names"):
        again.load_state_dict(load_to(shards, 3).state_dict(), allow="tail")


def test_a_changed_batch_keeps_the_lanes_of_block_order(shards: Path) -> None:
    shuffle = stoker.BlockShuffle(block_samples=2, window_blocks=2)
    loader = load(shards, shuffle=shuffle, epochs=1)
    stream = iter(loader)
    next(stream)
    state = loader.state_dict()
    rest = [n for batch in batches(stream) for n in batch]
    again = load(shards, shuffle=shuffle, epochs=1, global_batch_size=5)
    again.load_state_dict(state, allow={"global_batch_size"})
    assert [n for batch in batches(again) for n in batch] == rest
    assert again.state_dict()["deal_samples"] == 8


def test_lanes_that_were_given_are_kept_with_a_batch_that_they_do_not_divide(
    shards: Path,
) -> None:
    shuffle = stoker.BlockShuffle(block_samples=2, window_blocks=2, lanes=6)
    loader = load(shards, shuffle=shuffle, epochs=1, global_batch_size=12)
    stream = iter(loader)
    next(stream)
    state = loader.state_dict()
    rest = [n for batch in batches(stream) for n in batch]
    again = load(shards, shuffle=shuffle, epochs=1, global_batch_size=8)
    again.load_state_dict(state, allow={"global_batch_size"})
    seen = [n for batch in batches(again) for n in batch]
    assert seen[: len(rest)] == rest[: len(seen)]
    assert len(seen) == 32
    assert (again.state_dict()["lanes"], again.state_dict()["deal_samples"]) == (6, 12)
    with pytest.raises(ValueError, match="6 lanes do not divide the 8 samples"):
        iter(load(shards, shuffle=shuffle, global_batch_size=8))


def test_blocks_are_sized_by_bytes_and_a_resumed_run_keeps_them(
    tmp_path: Path, write_tar: Any
) -> None:
    samples = {f"k{i:04}": {"cls": b"%d" % i} for i in range(2048)}  # 1 KiB each in a tar
    dataset = stoker.Dataset(write_tar(tmp_path / "a.tar", samples))
    options: dict[str, Any] = {"shuffle": "block", "seed": 5, "fields": {"cls": int}}
    loader = stoker.Loader(dataset, batch_size=8, torch=False, **options)
    assert loader.state_dict()["block_samples"] == 16  # 16 for each of 8 lanes
    few_lanes = stoker.BlockShuffle(lanes=1)
    one = stoker.Loader(dataset, batch_size=8, torch=False, **(options | {"shuffle": few_lanes}))
    assert one.state_dict()["block_samples"] == 128
    given = stoker.BlockShuffle(block_samples=100)
    by_hand = stoker.Loader(dataset, batch_size=8, torch=False, **(options | {"shuffle": given}))
    assert by_hand.state_dict()["block_samples"] == 100

    batches = [(batch["cls"].tolist(), batch.cursor) for batch in loader]
    # Another version may choose otherwise: what counts is what the cursor says.
    hundreds = [(batch["cls"].tolist(), batch.cursor) for batch in by_hand]
    for ran in (batches, hundreds):
        other = stoker.Loader(dataset, batch_size=8, torch=False, **options)
        other.load_state_dict(ran[99][1])
        assert [batch["cls"].tolist() for batch in other] == [batch for batch, _ in ran[100:]]
    with pytest.raises(stoker.CursorMismatch, match="block_samples was 16 and is 100"):
        by_hand.load_state_dict(batches[99][1])


def test_what_is_no_state_is_refused(shards: Path) -> None:
    loader = load(shards)
    state = loader.state_dict()
    for wrong in ({}, b"", "", {**state, "extra": 1}, {**state, "version": 99}, b"x" * 104):
        with pytest.raises((ValueError, OSError)):
            loader.load_state_dict(wrong)
    assert batches(loader) == batches(load(shards))


def test_a_sampler_that_gives_another_order_cannot_be_resumed(shards: Path) -> None:
    class Sampler:
        def __init__(self, seed: int) -> None:
            self.seed = seed

        def __iter__(self) -> Iterator[int]:
            return iter(np.random.default_rng(self.seed).permutation(50).tolist())

    loader = load(shards, order=Sampler(0), epochs=1)
    stream = iter(loader)
    next(stream)
    state = loader.state_dict()
    again = load(shards, order=Sampler(0), epochs=1)
    again.load_state_dict(state)
    assert batches(again) == batches(stream)
    with pytest.raises(stoker.CursorMismatch, match="fingerprint"):
        load(shards, order=Sampler(1), epochs=1).load_state_dict(state)
