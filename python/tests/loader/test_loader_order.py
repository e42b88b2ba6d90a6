"""Which samples come, in which batches: shuffles, tails, epochs, ranks, given orders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker


def load(data: Any, **options: Any) -> stoker.Loader:
    settings: dict[str, Any] = {"fields": {"cls": int}, "torch": False, "seed": 7}
    if "global_batch_size" not in options:
        settings["batch_size"] = 8
    return stoker.Loader(data, **(settings | options))


def numbers(loader: Any) -> list[int]:
    return [n for batch in loader for n in batch["cls"].tolist()]


@pytest.mark.parametrize("shuffle", ["global", "block", True, stoker.BlockShuffle(4, 2)])
def test_an_epoch_has_every_sample_once_in_another_order(shards: Path, shuffle: Any) -> None:
    loader = load(shards, shuffle=shuffle, tail="keep")
    epochs = [numbers(loader) for _ in range(3)]
    for epoch in epochs:
        assert sorted(epoch) == list(range(50))
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    again = load(shards, shuffle=shuffle, tail="keep")
    assert [numbers(again) for _ in range(3)] == epochs
    assert numbers(load(shards, shuffle=shuffle, tail="keep", seed=8)) != epochs[0]


def test_off_is_stored_order_and_resampled_draws_with_replacement(shards: Path) -> None:
    for off in ("off", False):
        loader = load(shards, shuffle=off)
        assert numbers(loader) == numbers(loader) == list(range(50))
    drawn = numbers(load(shards, shuffle="resampled", tail="keep"))
    assert len(drawn) == 50
    assert len(set(drawn)) < 50


@pytest.mark.parametrize(
    ("tail", "count", "sizes"),
    [("drop", 6, [8] * 6), ("keep", 7, [8] * 6 + [2]), ("wrap", 7, [8] * 7), ("pad", 7, [8] * 7)],
)
def test_the_tail_is_as_asked_for(shards: Path, tail: Any, count: int, sizes: list[int]) -> None:
    loader = load(shards, tail=tail)
    batches = list(loader)
    assert len(loader) == count
    assert [batch.size for batch in batches] == sizes
    assert ("__valid__" in batches[0]) == (tail == "pad")
    if tail == "pad":
        assert batches[0]["__valid__"].all()
        assert batches[-1]["__valid__"].tolist() == [True] * 2 + [False] * 6
        assert batches[0]["__valid__"].dtype == np.bool_
    if tail in ("wrap", "pad"):
        assert batches[-1]["cls"][2:].tolist() == batches[0]["cls"][:6].tolist()


def test_what_is_shuffled_is_dropped_and_what_is_not_is_kept_unless_said(shards: Path) -> None:
    assert len(load(shards)) == 6
    assert len(load(shards, shuffle="off")) == 7
    assert len(load(shards, order=range(50))) == 7


def test_a_dataset_smaller_than_a_batch_is_an_error_not_an_endless_loop(shards: Path) -> None:
    with pytest.raises(ValueError, match="50"):
        load(shards, batch_size=51)
    assert [batch.size for batch in load(shards, batch_size=51, tail="keep")] == [50]


@pytest.mark.parametrize("shuffle", ["global", "off", "resampled", stoker.BlockShuffle(2, 2)])
@pytest.mark.parametrize("tail", ["drop", "keep", "wrap", "pad"])
def test_every_world_size_gives_the_same_global_batches(
    shards: Path, shuffle: Any, tail: Any
) -> None:
    def global_batches(world_size: int) -> list[list[int]]:
        ranks = [
            load(
                shards,
                global_batch_size=8,
                rank=rank,
                world_size=world_size,
                shuffle=shuffle,
                tail=tail,
                epochs=2,
            )
            for rank in range(world_size)
        ]
        assert len({len(loader) for loader in ranks}) == 1  # nobody waits for the others
        return [
            [n for batch in parts for n in batch["cls"].tolist()]
            for parts in zip(*ranks, strict=True)
        ]

    expected = global_batches(1)
    for world_size in (2, 4, 8):
        assert global_batches(world_size) == expected


def test_a_short_batch_is_short_or_empty_on_every_rank(shards: Path) -> None:
    sizes = [
        [batch.size for batch in load(shards, batch_size=4, rank=r, world_size=3, tail="keep")][-1]
        for r in range(3)
    ]
    assert sizes == [2, 0, 0]


def test_batch_sizes_that_make_no_sense_are_refused(shards: Path) -> None:
    for options in ({"batch_size": None}, {"batch_size": 2, "global_batch_size": 2}):
        with pytest.raises(ValueError, match="give batch_size"):
            stoker.Loader(shards, torch=False, **options)
    with pytest.raises(ValueError, match="batch_size=0: must be at least 1"):
        load(shards, batch_size=0)
    with pytest.raises(ValueError, match="global_batch_size=9 cannot be divided among 2 ranks"):
        load(shards, global_batch_size=9, rank=0, world_size=2)
    with pytest.raises(ValueError, match="tail='last'"):
        load(shards, tail="last")
    with pytest.raises(ValueError, match="off, global, block"):
        load(shards, shuffle="all")
    with pytest.raises(ValueError, match="seed=-1"):
        load(shards, seed=-1)
    with pytest.raises(ValueError, match="epochs=0"):
        load(shards, epochs=0)


def test_one_iter_runs_its_epochs_and_the_next_goes_on(shards: Path) -> None:
    single = load(shards)
    epochs = [numbers(single) for _ in range(4)]
    double = load(shards, epochs=2)
    assert len(double) == 12
    assert numbers(double) == epochs[0] + epochs[1]
    assert numbers(double) == epochs[2] + epochs[3]


def test_endless_has_no_length_and_no_end(shards: Path) -> None:
    loader = load(shards, epochs=None)
    with pytest.raises(TypeError, match="epochs=None"):
        len(loader)
    batches = iter(loader)
    seen = [n for _ in range(60) for n in next(batches)["cls"].tolist()]
    single = load(shards)
    assert seen == [n for _ in range(10) for n in numbers(single)]


def test_an_iteration_that_was_broken_off_is_followed_by_the_next_epoch(shards: Path) -> None:
    single = load(shards)
    epochs = [numbers(single) for _ in range(6)]
    loader = load(shards)
    for _ in loader:
        break
    assert numbers(loader) == epochs[1]
    iter(loader)  # asked for nothing, so nothing is lost
    assert numbers(loader) == epochs[2]
    double = load(shards, epochs=2)
    for _ in double:
        break
    assert numbers(double) == epochs[2] + epochs[3]


def test_a_new_iter_ends_the_one_before(shards: Path) -> None:
    loader = load(shards)
    first = iter(loader)
    next(first)
    second = iter(loader)
    with pytest.raises(RuntimeError, match="iterated again"):
        next(first)
    assert len(list(second)) == 6
    with pytest.raises(StopIteration):
        next(second)


def test_set_epoch_chooses_the_epoch_unless_it_is_the_current_one(shards: Path) -> None:
    single = load(shards)
    epochs = [numbers(single) for _ in range(4)]
    loader = load(shards)
    loader.set_epoch(3)
    assert numbers(loader) == epochs[3]
    loader.set_epoch(0)
    assert numbers(loader) == epochs[0]
    loader.set_epoch(0)  # again, on purpose
    assert numbers(loader) == epochs[0]
    for epoch in range(1, 4):  # as frameworks do
        loader.set_epoch(epoch)
        assert numbers(loader) == epochs[epoch]
    batches = iter(loader)
    next(batches)
    loader.set_epoch(4)  # it is running
    assert len(list(batches)) == 5
    with pytest.raises(ValueError, match="-1"):
        loader.set_epoch(-1)


def test_an_order_is_a_list_of_samples(shards: Path) -> None:
    for order in ([5, 5, 49, 0], np.array([5, 5, 49, 0], np.int32), (5, 5, 49, 0)):
        loader = load(shards, order=order, batch_size=3)
        assert numbers(loader) == numbers(loader) == [5, 5, 49, 0]
        assert len(loader) == 2


class Sampler:
    """As torch's: another order for each epoch."""

    def __init__(self) -> None:
        self.epoch = -1

    def set_epoch(self, epoch: int) -> None:
        """As DistributedSampler has it."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        return iter(np.random.default_rng(self.epoch).permutation(50)[: 20 + self.epoch].tolist())


def test_a_sampler_gives_an_order_for_each_epoch(shards: Path) -> None:
    loader = load(shards, order=Sampler(), tail="keep")
    expected = [np.random.default_rng(e).permutation(50)[: 20 + e].tolist() for e in range(3)]
    assert [numbers(loader) for _ in range(3)] == expected
    with pytest.raises(ValueError, match="one epoch at a time"):
        load(shards, order=Sampler(), epochs=2)


def test_orders_that_make_no_sense_are_refused(shards: Path) -> None:
    with pytest.raises(
        ValueError, match="item 1 of the order is sample 50, but the dataset's sample count is 50"
    ):
        load(shards, order=[0, 50])
    with pytest.raises(ValueError, match="sample -1"):
        load(shards, order=[0, -1])
    with pytest.raises(ValueError, match="empty"):
        load(shards, order=[])
    for order in ([0.5], [[0, 1], [2, 3]], [[0, 1], [2]]):
        with pytest.raises(TypeError, match="one by one"):
            load(shards, order=order)
    with pytest.raises(ValueError, match="not both"):
        load(shards, order=[0], shuffle="global")
    sampler = Sampler()
    sampler.num_replicas = 2  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="already divided"):
        load(shards, order=sampler)


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        (lambda ds: ds[10:20], range(10, 20)),
        (lambda ds: ds[40:5:-5], range(40, 5, -5)),
        (lambda ds: ds.select([3, 3, 49, 1]), [3, 3, 49, 1]),
        (lambda ds: ds[10:].select([0, 39])[1:], [49]),
    ],
)
def test_a_part_of_a_dataset_is_loaded_alone(shards: Path, select: Any, expected: Any) -> None:
    part = select(stoker.Dataset(shards))
    assert numbers(load(part, shuffle="off", batch_size=3)) == list(expected)
    assert sorted(numbers(load(part, tail="keep", batch_size=3))) == sorted(expected)
    assert numbers(load(part, order=[0], batch_size=1)) == [next(iter(expected))]


def test_the_parts_of_a_split_share_nothing(shards: Path) -> None:
    train, held_out = stoker.Dataset(shards).split([0.8, 0.2], seed=1)
    seen = numbers(load(train, tail="keep")), numbers(load(held_out, tail="keep", batch_size=5))
    assert sorted(seen[0] + seen[1]) == list(range(50))
    assert len(seen[1]) == 10


def test_skip_never_chooses_what_was_not_selected(shards: Path) -> None:
    part = stoker.Dataset(shards)[:10]
    for options in ({}, {"order": [0, 1]}):
        with pytest.raises(ValueError, match="whole datasets only"):
            load(part, on_error="skip", batch_size=2, **options)


def test_a_path_is_enough(shards: Path) -> None:
    assert numbers(load(str(shards / "train-{000..001}.tar"), shuffle="off")) == list(range(50))
    assert numbers(load([shards / "train-001.tar"], shuffle="off")) == list(range(30, 50))


def test_repr_says_where_it_stands(shards: Path) -> None:
    loader = load(shards, rank=1, world_size=2)
    next(iter(loader))
    text = repr(loader)
    assert "rank=1 of 2" in text
    assert "global_batch_size=16" in text
    assert "at=epoch 0, position 16" in text
    assert "<th>batches</th><td>3</td>" in loader._repr_html_()
