"""Batches on the device that a model computes on."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
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


class Pair(NamedTuple):
    """A tuple whose items have names."""

    left: Any
    right: Any


def nested(samples: Any) -> Any:
    numbers = torch.tensor([int(sample["cls"]) for sample in samples])
    return {"d": {"e": numbers}, "l": [numbers, "x"], "t": (1, numbers), "p": Pair(numbers, [])}


def tensors_of(batch: Any) -> list[Any]:
    return [batch["d"]["e"], batch["l"][0], batch["t"][1], batch["p"].left]


def test_tensors_inside_of_dicts_lists_and_tuples_are_moved_too(shards: Path) -> None:
    batch = next(iter(load(shards, device="meta", collate=nested)))
    assert [one.device.type for one in tensors_of(batch)] == ["meta"] * 4
    assert (batch["l"][1], batch["t"][0], batch["p"].right) == ("x", 1, [])
    mapped = load(shards, device="meta", map=lambda sample, rng: {"a": {"b": np.arange(3)}})
    assert next(iter(mapped))["a"]["b"].device.type == "meta"
    plain = next(iter(load(shards, collate=nested)))
    assert [one.device.type for one in tensors_of(plain.to("meta"))] == ["meta"] * 4
    copies = zip(tensors_of(plain.clone()), tensors_of(plain), strict=True)
    assert all(new.equal(old) and new.data_ptr() != old.data_ptr() for new, old in copies)


@pytest.mark.parametrize("tail", ["drop", "pad"])
def test_arrays_that_would_stay_behind_are_refused_with_the_right_advice(
    shards: Path, tail: Any
) -> None:
    for made in ({"a": np.arange(3)}, {"a": {"b": np.arange(3)}}):
        loader = load(shards, device="meta", tail=tail, collate=lambda _, made=made: dict(made))
        with pytest.raises(TypeError, match=r"'a' is a NumPy array; make tensors in collate=, or"):
            next(iter(loader))


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


@pytest.mark.parametrize("device", ["gpu", object(), torch.float16, "cuda:x"])
def test_what_names_no_device_is_refused_by_the_constructor(shards: Path, device: Any) -> None:
    with pytest.raises(ValueError, match=r'device=.*: "cuda", "cuda:1" or a torch\.device'):
        load(shards, device=device)


def test_a_device_that_is_not_here_is_refused_by_the_constructor(
    shards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    with pytest.raises(ValueError, match=r"device='cuda:9': torch has 8 GPUs here"):
        load(shards, device="cuda:9")

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("not compiled in")

    monkeypatch.setattr(torch, "empty", refuse)
    with pytest.raises(ValueError, match=r"device='xpu': torch cannot use it here: not compiled"):
        load(shards, device="xpu")


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


def needs_gpu() -> None:
    if not torch.cuda.is_available():
        pytest.skip("torch has no GPU here")


def test_with_a_gpu_batches_are_copied_ahead_and_counted(shards: Path) -> None:
    needs_gpu()
    expected = [batch["bin"].tolist() for batch in load(shards, epochs=20, pin_memory=False)]
    loader = load(shards, epochs=20, device="cuda")
    stream: Any = iter(loader)
    assert type(stream._run).__name__ == "AheadRun"
    seen = [batch["bin"] for batch in stream]
    assert [one.tolist() for one in seen] == expected
    stats = loader.stats()
    assert stats.device_bytes > 0
    assert stats.device_copy_s > 0
    feeder: Any = loader._runs._feeder
    assert feeder.feed().native.memory_failure() is None
    loader.close()


def test_with_a_gpu_large_batches_under_pressure_are_what_was_read(tmp_path: Path) -> None:
    """The loader's memory is reused many times while the GPU is late with everything."""
    needs_gpu()
    tokens = np.random.default_rng(5).integers(0, 1 << 16, 4_000_000, dtype=np.uint16)
    np.save(tmp_path / "corpus.npy", tokens)
    windows = stoker.Tokens(tmp_path / "corpus.npy", window=50_000, dtype="int64")
    settings: dict[str, Any] = {"batch_size": 4, "seed": 3, "epochs": 10}
    sums = [batch["tokens"].sum().item() for batch in stoker.Loader(windows, **settings)]
    for side in (torch.cuda.current_stream(), torch.cuda.Stream()):
        seen = []
        with torch.cuda.stream(side):
            for batch in stoker.Loader(windows, device="cuda", **settings):
                torch.cuda._sleep(2_000_000)
                seen.append(batch["tokens"].sum())
                del batch
        side.synchronize()
        assert [one.item() for one in seen] == sums


def test_with_a_gpu_the_streams_of_several_threads_wait_for_their_batches(shards: Path) -> None:
    needs_gpu()
    expected = sorted(n for b in load(shards, epochs=20) for n in b["cls"].tolist())
    stream = iter(load(shards, epochs=20, device="cuda"))
    seen: list[list[Any]] = [[], []]

    def take(mine: list[Any]) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            mine.extend((batch["cls"] + 0).cpu() for batch in stream)

    threads = [threading.Thread(target=take, args=(mine,)) for mine in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(n for mine in seen for one in mine for n in one.tolist()) == expected


def test_with_a_gpu_an_early_end_frees_everything(shards: Path) -> None:
    needs_gpu()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(5):
        with load(shards, epochs=None, device="cuda", device_depth=8) as loader:
            next(iter(loader))
    assert torch.cuda.memory_allocated() == before


def test_with_a_gpu_what_stays_on_the_host_is_not_page_locked(shards: Path) -> None:
    """Because torch would copy from it asynchronously, and not know when the loader reuses it."""
    needs_gpu()
    held = [batch for batch, _ in zip(load(shards, device="cuda"), range(3), strict=False)]
    for batch in held:
        for one in batch["json"]:
            assert not torch.as_tensor(np.asarray(one)).is_pinned()


def test_with_a_gpu_a_batch_that_was_kept_is_not_overwritten(shards: Path) -> None:
    needs_gpu()
    loader = load(shards, epochs=30, device="cuda")
    kept = list(loader)
    expected = [batch["cls"].tolist() for batch in load(shards, epochs=30)]
    assert [batch["cls"].tolist() for batch in kept] == expected
    assert all(len(batch["__key__"]) == batch.size for batch in kept)
