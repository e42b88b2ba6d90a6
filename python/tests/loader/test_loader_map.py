"""Python functions over samples: in threads and processes, in order, resumable."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest

import stoker
from stoker._loader.map.job import SampleRng

FIELDS = {"bin": bytes, "cls": int, "json": stoker.Json("n", float)}
WHERE = ["thread", "process"]


def noisy(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Uses every kind of value, and the generator."""
    pixels = sample["bin"].astype(np.float32).reshape(2, 4) + sample["cls"]
    return {"x": pixels, "noise": rng.random(), "n": int(sample["json"]), "name": sample["__key__"]}


def with_pid(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return {"pid": os.getpid(), "thread": threading.get_ident()}


def failing(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    if sample["cls"] == 17:
        raise LookupError("seventeen")
    return sample


def dying(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    if sample["cls"] == 17:
        os.kill(os.getpid(), signal.SIGKILL)
    return sample


def unpicklable(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return {"x": lambda: sample}


def unpicklable_batch(samples: list[dict[str, Any]]) -> Any:
    return lambda: samples


def total(samples: list[dict[str, Any]]) -> int:
    return sum(sample["cls"] for sample in samples)


def load(shards: Path, **options: Any) -> stoker.Loader:
    settings: dict[str, Any] = {"batch_size": 8, "seed": 3, "fields": FIELDS, "torch": False}
    if "map" in options or "collate" in options:
        settings["map_workers"] = 2
    return stoker.Loader(shards, **(settings | options))


def plain(batch: Any) -> dict[str, Any]:
    return {name: np.asarray(value).tolist() for name, value in batch.items()}


@pytest.mark.parametrize("where", WHERE)
def test_samples_are_mapped_stacked_and_in_order(shards: Path, where: Any) -> None:
    reference = list(load(shards, shuffle="off"))
    with load(shards, shuffle="off", map=noisy, map_in=where) as loader:
        batches = list(loader)
    assert [batch["n"].tolist() for batch in batches] == [b["cls"].tolist() for b in reference]
    batch = batches[1]
    assert isinstance(batch, stoker.Batch)
    assert batch["x"].shape == (8, 2, 4)
    assert batch["x"].dtype == np.float32
    assert batch["x"][3].tolist() == [[22.0] * 4] * 2
    assert batch["name"] == batch["__key__"] == [f"s{i:03}" for i in range(8, 16)]
    assert [b.cursor for b in batches] == [b.cursor for b in reference]
    assert [b.size for b in batches] == [8] * 6 + [2]


def test_threads_and_processes_and_any_number_of_them_agree(shards: Path) -> None:
    runs = []
    for where, workers in (("thread", 1), ("thread", 3), ("process", 1), ("process", 2)):
        with load(shards, map=noisy, map_in=where, map_workers=workers, epochs=2) as loader:
            runs.append([plain(batch) for batch in loader])
    assert runs[0] == runs[1] == runs[2] == runs[3]
    noise = [n for batch in runs[0] for n in batch["noise"]]
    assert len(set(noise)) == len(noise) == 96


def test_they_run_where_they_are_asked_to(shards: Path) -> None:
    with load(shards, map=with_pid) as loader:
        batches = list(loader)
    assert {pid for batch in batches for pid in batch["pid"].tolist()} == {os.getpid()}
    assert threading.get_ident() not in {t for b in batches for t in b["thread"].tolist()}
    with load(shards, map=with_pid, map_in="process", epochs=4) as loader:
        pids = {pid for batch in loader for pid in batch["pid"].tolist()}
        again = {pid for batch in loader for pid in batch["pid"].tolist()}
    assert os.getpid() not in pids
    assert len(pids | again) <= 2  # they stay from iter() to iter()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)  # and end with the loader


@pytest.mark.parametrize("where", WHERE)
def test_a_resumed_run_maps_alike_on_any_number_of_ranks(shards: Path, where: Any) -> None:
    whole = [(plain(batch), batch.cursor) for batch in load(shards, map=noisy)]
    ranks = [
        load(
            shards,
            map=noisy,
            map_in=where,
            batch_size=None,
            global_batch_size=8,
            rank=rank,
            world_size=2,
            map_workers=1,
        )
        for rank in range(2)
    ]
    for loader in ranks:
        loader.load_state_dict(whole[1][1])
    seen = [[plain(part) for part in parts] for parts in zip(*ranks, strict=True)]
    for loader in ranks:
        loader.close()
    assert len(seen) == 4
    for parts, (batch, _) in zip(seen, whole[2:], strict=True):
        assert {name: parts[0][name] + parts[1][name] for name in batch} == batch


def test_the_generator_is_that_of_seed_epoch_and_position() -> None:
    rng = SampleRng(7)
    first = rng.at(1, 2).random(3).tolist()
    assert rng.at(1, 3).random(3).tolist() != first
    assert rng.at(2, 2).random(3).tolist() != first
    rng.at(1, 2).integers(0, 5, dtype=np.uint8)  # leaves half-used words behind
    assert rng.at(1, 2).random(3).tolist() == first
    assert SampleRng(8).at(1, 2).random(3).tolist() != first
    assert SampleRng(2**64 - 1).at(1, 2).random() < 1
    # Fixed for ever: Philox's stream is part of NumPy's promise.
    assert rng.at(1, 2).bit_generator.random_raw(2).tolist() == [
        14723831545294547417,
        9526373336440150934,
    ]


@pytest.mark.parametrize("where", WHERE)
def test_an_error_surfaces_at_its_batch_with_the_key(shards: Path, where: Any) -> None:
    with load(shards, shuffle="off", map=failing, map_in=where) as loader:
        stream = iter(loader)
        assert [next(stream).size for _ in range(2)] == [8, 8]
        for _ in range(2):  # and stays
            with pytest.raises(stoker.MapError, match=r"'s017' \(epoch 0, position 17\)") as raised:
                next(stream)
        error = raised.value
        assert error.path == str(shards / "train-000.tar")
        assert error.offset == 17 * 6 * 512  # a header and a block for each of three members
        assert f"{error.path} at byte {error.offset}" in str(error)
        assert (error.key, error.epoch, error.position) == ("s017", 0, 17)
        assert "LookupError: 'seventeen'" in str(error) or "seventeen" in str(error)
        assert "seventeen" in str(error.__cause__)
        assert loader.state_dict()["position"] == 16
        assert pickle.loads(pickle.dumps(error)).key == "s017"


def test_a_worker_that_dies_is_an_error_not_a_hang(shards: Path) -> None:
    with (
        load(shards, shuffle="off", map=dying, map_in="process", map_workers=1) as loader,
        pytest.raises(RuntimeError, match=r"map worker .* died: signal 9"),
    ):
        list(loader)


def test_what_cannot_leave_a_process_is_said_early(shards: Path) -> None:
    with pytest.raises(TypeError, match=r'map_in="thread"'):
        load(shards, map=lambda sample, rng: sample, map_in="process")
    with (
        load(shards, map=unpicklable, map_in="process", map_workers=1) as loader,
        pytest.raises(stoker.MapError, match=r"field 'x' cannot be sent .*pickle") as raised,
    ):
        next(iter(loader))
    assert raised.value.key in stoker.Dataset(shards).keys()  # noqa: SIM118 (not a dict)
    assert raised.value.position == 0
    with (
        load(shards, collate=unpicklable_batch, map_in="process", map_workers=1) as loader,
        pytest.raises(stoker.MapError, match=r"collate: .*at position 0 cannot be sent .*pickle"),
    ):
        next(iter(loader))


@pytest.mark.parametrize("where", WHERE)
def test_collate_makes_what_it_likes(shards: Path, where: Any) -> None:
    with load(shards, shuffle="off", collate=total, map_in=where, tail="drop") as loader:
        assert list(loader) == [sum(range(i, i + 8)) for i in range(0, 48, 8)]
        assert loader.cursor.position == 48


def test_without_collate_fields_are_stacked_by_what_they_are(shards: Path) -> None:
    def make(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        return {
            "array": np.arange(3),
            "number": 1.5,
            "flag": True,
            "text": "t",
            "nested": {"a": np.zeros(2), "b": None},
            "bin": sample["bin"],
        }

    batch = next(iter(load(shards, map=make)))
    assert batch["array"].shape == (8, 3)
    assert batch["number"].dtype == np.float64
    assert batch["flag"].dtype == np.bool_
    assert batch["text"] == ["t"] * 8
    assert batch["nested"]["a"].shape == (8, 2)
    assert batch["nested"]["b"] == [None] * 8
    assert isinstance(batch["bin"], list)  # bytes stay bytes, also if they are of one length
    assert len(batch["__key__"]) == 8


def test_what_cannot_be_stacked_says_why(shards: Path) -> None:
    def odd(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        return {"x": np.zeros(1 + sample["cls"] % 2), "__key__": sample["__key__"]}

    with pytest.raises(
        stoker.MapError, match=r"'x' is ndarray \(1,\) of \w+ in sample 's000' and .*\(2,\)"
    ):
        next(iter(load(shards, map=odd, shuffle="off")))
    with pytest.raises(stoker.MapError, match="returned int, not a dict: give collate="):
        next(iter(load(shards, map=lambda sample, rng: 7)))
    with pytest.raises(stoker.MapError, match="has the fields"):
        next(iter(load(shards, map=lambda sample, rng: {str(sample["cls"]): 1})))


def test_padding_is_marked_after_a_map_too(shards: Path) -> None:
    *_, last = load(shards, map=noisy, tail="pad")
    assert last["__valid__"].tolist() == [True] * 2 + [False] * 6


def test_arguments_that_make_no_sense_are_refused(shards: Path) -> None:
    with pytest.raises(ValueError, match="map_in='gpu'"):
        load(shards, map=noisy, map_in="gpu")
    with pytest.raises(ValueError, match="map_workers=0"):
        load(shards, map=noisy, map_workers=0)


def test_mapped_batches_may_be_held_as_long_as_memory_lasts(
    shards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stoker.Loader, "_held_limits_s", (0.01, 0.05))

    def keep(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        return {"bin": sample["bin"]}  # a view: it holds the batch's memory

    loader = load(shards, map=keep, epochs=None, memory_bytes="1MiB")
    held: list[Any] = []
    stream = iter(loader)
    with pytest.raises(BufferError, match="memory_bytes"):
        held.extend(stream)
    count = len(held)
    held.clear()
    for _ in range(count + 20):  # having let go, it continues
        next(stream)


def test_many_workers_over_tiny_batches_neither_hang_nor_lose_one(shards: Path) -> None:
    loader = load(shards, batch_size=1, epochs=40, map=lambda sample, rng: {}, map_workers=12)
    seen: list[str] = []
    thread = threading.Thread(
        target=lambda: seen.extend(batch["__key__"][0] for batch in loader), daemon=True
    )
    thread.start()
    thread.join(120)
    assert not thread.is_alive()
    assert seen == [b["__key__"][0] for b in load(shards, batch_size=1, epochs=40)]
    loader.close()


def test_the_wait_for_a_map_is_counted_as_such(shards: Path) -> None:
    def slow(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        return {"x": float(np.sort(rng.random(20_000)).sum())}

    with load(shards, map=slow, map_workers=1) as loader:
        list(loader)
        stats = loader.stats()
    waits = dict(stats.waited_in_s)
    assert waits.pop("map") > max(waits.values())
    assert stats.samples == 48


def test_the_waits_of_a_caller_are_those_that_it_sees_itself(shards: Path) -> None:
    def holds_the_gil(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        return {"x": sum(i * i for i in range(2_000))}

    with load(shards, map=holds_the_gil, map_workers=3, epochs=10) as loader:
        stream, waits, is_over = iter(loader), [], False
        while not is_over:
            asked = perf_counter()
            is_over = next(stream, None) is None
            waits.append(perf_counter() - asked)
        stats = loader.stats()
    seen = sum(waits[1:-1])  # the last one was for the end
    told = stats.stall_share * (stats.seconds - stats.first_wait_s)
    assert 0.6 * seen < told < 1.01 * seen
    assert 0 < stats.first_wait_s < 1.01 * waits[0]
    assert stats.worst_stage == "map"
    assert sum(stats.waited_in_s.values()) == pytest.approx(told)


def of_any_length(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any] | None:
    if sample["cls"] == 2:
        return None
    return {"x": np.zeros(sample["cls"]), "part": {"y": np.zeros(3)}}


@pytest.mark.parametrize("where", WHERE)
def test_arrays_of_different_shapes_are_told_with_their_keys(shards: Path, where: Any) -> None:
    loader = stoker.Loader(
        shards, batch_size=4, shuffle="off", fields={"cls": int}, map=of_any_length, map_in=where
    )
    keys = [stoker.Dataset(shards)[i]["__key__"] for i in (0, 1)]
    with pytest.raises(stoker.MapError) as raised:
        next(iter(loader))
    text = f"'x' is ndarray (0,) of float64 in sample {keys[0]!r} and ndarray (1,) of float64 in "
    text += repr(keys[1])
    assert text in str(raised.value)


@pytest.mark.parametrize(
    ("even", "odd"),
    [
        (5, "a"),
        (0.5, 2**53 + 1),
        (np.uint64(2**64 - 1), -1),
        (np.array([1, 2]), np.array(["a", "bb"])),
        (np.zeros(2, np.float32), np.zeros(2)),
    ],
)
def test_values_of_other_types_are_not_converted(shards: Path, even: Any, odd: Any) -> None:
    def make(sample: Any, rng: Any) -> dict[str, Any]:
        return {"x": odd if int(sample["__key__"][1:]) % 2 else even}

    with (
        pytest.raises(
            stoker.MapError,
            match=r"field 'x' is .* in sample 's000' and .* in 's001': give them one shape",
        ),
        stoker.Loader(shards, batch_size=4, shuffle="off", map=make, torch=False) as loader,
    ):
        list(loader)


def test_numbers_of_other_types_that_stay_what_they_are_become_one_array(shards: Path) -> None:
    def make(sample: Any, rng: Any) -> dict[str, Any]:
        return {"x": 0.5 if int(sample["__key__"][1:]) % 2 else 3}

    with stoker.Loader(shards, batch_size=2, shuffle="off", map=make, torch=False) as loader:
        assert next(iter(loader))["x"].tolist() == [3.0, 0.5]
