"""Batches on the device that a model computes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import stoker

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")

FIELDS = {"cls": int, "bin": stoker.Array("uint8", [8]), "json": bytes}


def load(shards: Path, **options: Any) -> stoker.Loader:
    settings: dict[str, Any] = {"batch_size": 8, "seed": 3, "fields": FIELDS}
    return stoker.Loader(shards, **(settings | options))


def tuple_of(samples: Any) -> Any:
    return (len(samples),)


@pytest.mark.parametrize("device", ["meta", torch.device("meta")])
def test_tensors_are_there_and_everything_else_is_as_it_was(shards: Path, device: Any) -> None:
    plain = load(shards, tail="pad")
    for batch, expected in zip(load(shards, tail="pad", device=device), plain, strict=True):
        for name in ("cls", "bin", "__valid__"):
            assert batch[name].device.type == "meta"
            assert batch[name].shape == expected[name].shape
        assert batch["__key__"] == expected["__key__"]
        assert [bytes(one) for one in batch["json"]] == [bytes(one) for one in expected["json"]]
        assert (batch.cursor, batch.size) == (expected.cursor, expected.size)


def test_what_a_function_makes_is_moved_too(shards: Path) -> None:
    loader = load(shards, device="meta", map=lambda sample, rng: {"twice": 2 * sample["cls"]})
    assert next(iter(loader))["twice"].device.type == "meta"


def test_it_is_resumed_as_ever(shards: Path) -> None:
    loader = load(shards, device="cpu")
    stream = iter(loader)
    next(stream)
    state = loader.state_dict()
    rest = [batch["cls"].tolist() for batch in stream]
    again = load(shards, device="cpu")
    again.load_state_dict(state)
    assert [batch["cls"].tolist() for batch in again] == rest


def test_where_it_cannot_be_says_why_not(shards: Path) -> None:
    with pytest.raises(ValueError, match="there is no torch, or torch=False"):
        load(shards, device="cpu", torch=False)
    with pytest.raises(ValueError, match=r"out= says where batches go, and device= does"):
        load(shards, device="cpu", out={"cls": torch.empty(8, dtype=torch.int64)})
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match=r"device='cuda:0', and torch\.cuda\.is_available\(\)"):
            load(shards, device="cuda:0")


def test_what_is_no_dict_is_refused_and_the_iteration_is_over(shards: Path) -> None:
    stream = iter(load(shards, device="meta", collate=tuple_of))
    for _ in range(2):
        with pytest.raises(TypeError, match=r"device= moves the tensors of a dict.*made a tuple"):
            next(stream)


def test_with_a_gpu_each_batch_is_whole_in_the_stream_that_asked_for_it(shards: Path) -> None:
    if not torch.cuda.is_available():
        pytest.skip("torch has no GPU here")
    expected = [batch["cls"].tolist() for batch in load(shards, epochs=20)]
    stream = torch.cuda.Stream()
    seen = []
    with torch.cuda.stream(stream):
        for batch in load(shards, epochs=20, device="cuda"):
            assert batch["cls"].device.type == "cuda"
            torch.cuda._sleep(1_000_000)  # the next copies wait in the stream behind this
            seen.append(batch["cls"] + 0)
            del batch  # and with it the host's memory, as far as we are concerned
    stream.synchronize()
    assert [one.tolist() for one in seen] == expected
