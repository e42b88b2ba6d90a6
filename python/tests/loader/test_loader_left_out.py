"""Samples that map leaves out, and ranks whose part of a last batch is empty."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

WHERE = ["thread", "process"]


def odd_only(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any] | None:
    if sample["cls"] % 2 == 0:
        return None
    return {"n": sample["cls"], "noise": rng.random(), "x": np.full((2, 3), 1.5, np.float32)}


def nothing(sample: dict[str, Any], rng: np.random.Generator) -> None:
    sample["new"] = 1  # and "return sample" is forgotten


def failing_on_third(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any] | None:
    if sample["cls"] % 2 == 0:
        return None
    raise LookupError(sample["__key__"])


def as_tuple(sample: dict[str, Any], rng: np.random.Generator) -> tuple[int, str]:
    return sample["cls"], sample["__key__"]


def pairs(samples: list[Any]) -> Any:
    assert samples, "collate was called for nothing"
    return [sample[0] for sample in samples], [sample[1] for sample in samples]


def listed(samples: list[Any]) -> Any:
    assert samples, "collate was called for nothing"
    pixels = np.stack([np.full((2, 3), sample["cls"], np.float32) for sample in samples])
    return {"n": [s["cls"] for s in samples], "in": {"x": pixels}, "mean": np.float32(0.5)}


def load(data: Any, **options: Any) -> stoker.Loader:
    settings: dict[str, Any] = {"global_batch_size": 10, "seed": 5, "torch": False}
    if "map" in options or "collate" in options:
        settings["map_workers"] = 2
    return stoker.Loader(data, **(settings | options))


def plain(batch: Any) -> dict[str, Any]:
    return {name: np.asarray(value).tolist() for name, value in batch.items()}


@pytest.mark.parametrize("where", WHERE)
def test_what_is_left_out_is_replaced_and_batches_keep_their_size(shards: Path, where: Any) -> None:
    with load(shards, map=odd_only, map_in=where) as loader:
        batches = list(loader)
        stats = loader.stats()
    assert [batch.size for batch in batches] == [10] * 5
    numbers = [n for batch in batches for n in batch["n"].tolist()]
    assert len(numbers) == 50
    assert all(n % 2 for n in numbers)
    keys = [key for batch in batches for key in batch["__key__"]]
    assert keys == [f"s{n:03}" for n in numbers]  # those of the samples that are there
    assert set(range(1, 50, 2)) <= set(numbers)  # who was not left out stands where it stood
    assert stats.replaced >= 25
    noise = [one for batch in batches for one in batch["noise"].tolist()]
    assert len(set(noise)) == 50


def test_the_choice_is_the_same_whatever_ranks_threads_and_processes(shards: Path) -> None:
    with load(shards, map=odd_only, epochs=2) as loader:
        whole = [(plain(batch), batch.cursor) for batch in loader]
    for where, workers in (("thread", 1), ("process", 2)):
        with load(shards, map=odd_only, map_in=where, map_workers=workers, epochs=2) as loader:
            assert [plain(batch) for batch in loader] == [batch for batch, _ in whole]
    ranks = [load(shards, map=odd_only, rank=r, world_size=5, epochs=2) for r in range(5)]
    for loader in ranks:
        loader.load_state_dict(whole[2][1])  # and a resumed run continues alike
    for parts, (batch, _) in zip(zip(*ranks, strict=True), whole[3:], strict=True):
        columns = [plain(part) for part in parts]
        assert {name: [v for c in columns for v in c[name]] for name in batch} == batch
    for loader in ranks:
        loader.close()


def test_a_part_of_a_dataset_an_order_and_a_mixture_are_kept_to(shards: Path) -> None:
    data = stoker.Dataset(shards)
    part = data.select(range(10, 30))
    numbers = [n for b in load(part, map=odd_only, epochs=3) for n in b["n"].tolist()]
    assert set(numbers) == set(range(11, 30, 2))
    numbers = [n for b in load(data, map=odd_only, order=[*range(20)]) for n in b["n"].tolist()]
    assert set(numbers) == set(range(1, 20, 2))
    mix = stoker.Mixture([(data.select(range(25)), 0.5), (data.select(range(25, 50)), 0.5)])
    numbers = [n for b in load(mix, map=odd_only, epochs=4) for n in b["n"].tolist()]
    assert all(n % 2 for n in numbers)
    assert abs(sum(n < 25 for n in numbers) / len(numbers) - 0.5) < 0.1  # shares stay


@pytest.mark.parametrize("where", WHERE)
def test_a_function_that_returns_nothing_at_all_is_told_so(shards: Path, where: Any) -> None:
    with (
        load(shards, map=nothing, map_in=where) as loader,
        pytest.raises(stoker.MapError, match=r"returned None.*Does the function return the sample"),
    ):
        next(iter(loader))


def test_an_error_names_the_sample_that_stands_in(shards: Path) -> None:
    with (
        load(shards, map=failing_on_third, shuffle="off") as loader,
        pytest.raises(stoker.MapError) as raised,
    ):
        next(iter(loader))
    error = raised.value
    assert str(error.key) in str(error.__cause__)
    number = int(str(error.key)[1:])
    assert error.path == str(shards / f"train-{0 if number < 30 else 1:03}.tar")
    assert error.offset == (number % 30) * 6 * 512


# Empty parts: 50 samples in global batches of 42, so that the last one has 8, over 6 ranks.


def last_parts(shards: Path, **options: Any) -> list[Any]:
    parts = []
    for rank in range(6):
        settings = {"global_batch_size": 42, "tail": "keep", "rank": rank, "world_size": 6}
        if "map" in options or "collate" in options:
            settings["map_workers"] = 1  # a process takes longer to start than to do this
        with load(shards, **(settings | options)) as loader:
            batches = list(loader)
        assert len(batches) == 2
        parts.append(batches[-1])
    return parts


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("fields", [None, ["cls", "bin"], {"cls": int, "bin": bytes}])
def test_an_empty_part_has_the_columns_of_the_map(shards: Path, fields: Any, where: Any) -> None:
    parts = last_parts(shards, map=odd_only, map_in=where, fields=fields)
    assert [part.size for part in parts] == [7, 1, 0, 0, 0, 0]
    for part in parts[2:]:
        assert isinstance(part, stoker.Batch)
        assert list(part) == list(parts[0])
        assert (part["x"].shape, part["x"].dtype) == ((0, 2, 3), np.dtype(np.float32))
        assert (part["n"].shape, part["n"].dtype) == ((0,), parts[0]["n"].dtype)
        assert part["__key__"] == []
        assert part.cursor == parts[0].cursor


@pytest.mark.parametrize("where", WHERE)
def test_collate_is_not_called_for_an_empty_part(shards: Path, where: Any) -> None:
    parts = last_parts(shards, collate=listed, map_in=where, fields={"cls": int})
    assert [part.size for part in parts] == [7, 1, 0, 0, 0, 0]
    assert len(parts[0]["n"]) == 7
    for part in parts[2:]:  # a rank that looks for another column would leave the others waiting
        assert isinstance(part, stoker.Batch)
        assert list(part) == list(parts[0])
        assert part["n"] == part["__key__"] == []
        assert part["in"]["x"].shape == (0, 2, 3)
        assert part["in"]["x"].dtype == np.float32
        assert part["mean"] == np.float32(0.5)
        assert part.cursor == parts[0].cursor
    parts = last_parts(shards, map=as_tuple, collate=pairs, map_in=where)
    assert len(parts[0][0]) == 7
    assert parts[3].size == len(parts[3]["cls"]) == 0


def test_an_empty_part_does_not_see_what_the_caller_changes(shards: Path) -> None:
    settings: Any = {"global_batch_size": 42, "tail": "keep", "rank": 5, "world_size": 6}
    with load(shards, collate=listed, fields={"cls": int}, epochs=2, **settings) as loader:
        sizes = []
        for batch in loader:
            assert list(batch) == ["n", "in", "mean", "__key__"]
            sizes.append(batch.size)
            batch["n"].append(1)
            batch.clear()
        assert sizes == [7, 0, 7, 0]


def test_an_empty_part_that_comes_first_has_the_columns_of_the_samples(shards: Path) -> None:
    settings: Any = {"global_batch_size": 42, "tail": "keep", "rank": 5, "world_size": 6}
    with load(shards, collate=listed, fields={"cls": int}, **settings) as loader:
        state = next(iter(loader)).cursor
    with load(shards, collate=listed, fields={"cls": int}, **settings) as loader:
        loader.load_state_dict(state)
        (only,) = loader
    assert list(only) == ["cls", "__key__"]
    assert only["cls"].shape == (0,)


@pytest.mark.parametrize("fields", [None, ["cls", "bin", "json"]])
@pytest.mark.parametrize("torch", [False, True])
def test_an_empty_part_has_all_columns_without_a_map_too(
    shards: Path, fields: Any, torch: bool
) -> None:
    full, *_, empty = last_parts(shards, fields=fields, torch=torch)
    assert list(empty) == list(full)
    assert empty.size == 0
    assert empty["cls"].shape == (0,)
    assert empty["cls"].dtype == full["cls"].dtype
    assert isinstance(empty["bin"], stoker.BytesColumn)
    assert len(empty["bin"]) == 0
    assert empty["json"] == empty["__key__"] == []


def test_tokens_have_empty_parts_and_samples_to_leave_out_too(tmp_path: Path) -> None:
    np.save(tmp_path / "tokens.npy", np.arange(500, dtype=np.uint16))
    windows = stoker.Tokens(tmp_path / "tokens.npy", window=10)

    def late(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any] | None:
        return sample if sample["tokens"][0] >= 100 else None

    parts = last_parts(windows, map=late)  # type: ignore[arg-type]
    assert parts[5]["tokens"].shape == (0, 10)
    assert (parts[0]["tokens"][:, 0] >= 100).all()
