"""Batches in memory that an allocator gives, page-locked where there is a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")

FIELDS = {"cls": int, "bin": stoker.Array("uint8", [8]), "json": bytes}


class Plain:
    """Gives ordinary memory, and remembers what it gave."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    def __call__(self, size: int) -> Any:
        """As torch's own would."""
        self.given.append(torch.empty(size, dtype=torch.uint8))
        return self.given[-1]


def load(shards: Path, **options: Any) -> stoker.Loader:
    settings: dict[str, Any] = {"batch_size": 8, "seed": 3, "fields": FIELDS}
    return stoker.Loader(shards, **(settings | options))


def plain(batch: Any) -> dict[str, Any]:
    return {
        name: column.tolist() if hasattr(column, "tolist") else column
        for name, column in batch.items()
    }


def inside(tensor: Any, memory: Any) -> bool:
    start = tensor.data_ptr() - memory.data_ptr()
    return bool(start >= 0 and start + tensor.nbytes <= memory.nbytes)


def test_every_batch_has_new_memory_with_the_same_columns(shards: Path) -> None:
    allocate = Plain()
    expected = [plain(batch) for batch in load(shards, tail="pad")]
    batches = list(load(shards, tail="pad", pin_memory=allocate))
    assert [plain(batch) for batch in batches] == expected
    assert len(allocate.given) == len(batches)
    assert len({memory.data_ptr() for memory in allocate.given}) == len(batches)
    for batch, memory in zip(batches, allocate.given, strict=True):
        for name in ("cls", "bin", "__valid__"):
            assert inside(batch[name], memory), name
            assert batch[name].data_ptr() % 64 == memory.data_ptr() % 64
        assert batch["cls"].dtype == torch.int64


def test_batches_that_are_held_do_not_hold_the_loaders_memory(
    shards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stoker.Loader, "_held_limits_s", (0.01, 0.05))
    fields = {"cls": int, "bin": stoker.Array("uint8", [8])}
    loader = load(shards, fields=fields, epochs=200, pin_memory=Plain())
    tight = load(shards, fields=fields, epochs=200, pin_memory=Plain(),
                 memory_bytes=loader._plan.memory_needed)  # fmt: skip
    held = list(tight)
    assert len(held) == 1200  # more than its memory has pages
    assert tight.stats().held_warnings == 0
    assert all(len(batch["__key__"]) == 8 for batch in held)


def test_ragged_tokens_and_mapped_batches_too(shards: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "corpus.npy", np.arange(1000, dtype=np.uint16))
    allocate = Plain()
    tokens = stoker.Tokens(tmp_path / "corpus.npy", pack=64, dtype="int64")
    batch = next(iter(stoker.Loader(tokens, batch_size=2, pin_memory=allocate)))
    assert all(inside(batch[name], allocate.given[0]) for name in ("tokens", "document_ids"))

    allocate = Plain()
    ragged = {"bin": stoker.Ragged("uint8")}
    batch = next(iter(load(shards, fields=ragged, pin_memory=allocate)))
    expected = next(iter(load(shards, fields=ragged)))
    assert [row.tolist() for row in batch["bin"]] == [row.tolist() for row in expected["bin"]]
    assert inside(batch["bin"].values, allocate.given[0])
    assert inside(batch["bin"].offsets, allocate.given[0])

    allocate = Plain()
    loader = load(shards, map=lambda sample, rng: {"n": sample["cls"]}, pin_memory=allocate)
    batch = next(iter(loader))
    assert any(inside(batch["n"], memory) for memory in allocate.given)
    loader.close()


def test_what_several_threads_copy_is_what_was_read(tmp_path: Path) -> None:
    tokens = np.random.default_rng(5).integers(0, 1 << 16, 1_500_000, dtype=np.uint16)
    np.save(tmp_path / "corpus.npy", tokens)
    windows = stoker.Tokens(tmp_path / "corpus.npy", window=300_001, dtype="int64")
    allocate = Plain()
    batch = next(iter(stoker.Loader(windows, batch_size=4, shuffle="off", pin_memory=allocate)))
    assert allocate.given[0].nbytes > 8 << 20
    assert inside(batch["tokens"], allocate.given[0])
    expected = tokens[: 4 * 300_001].astype(np.int64).reshape(4, 300_001)
    assert np.array_equal(batch["tokens"].numpy(), expected)


def test_tensors_in_dicts_and_lists_are_moved_and_sparse_ones_stay(shards: Path) -> None:
    allocate = Plain()

    def collate(samples: Any) -> Any:
        ones = torch.ones(len(samples))
        return {"a": {"b": ones, "c": [2 * ones]}, "s": ones.to_sparse()}

    batch = next(iter(load(shards, collate=collate, pin_memory=allocate)))
    assert batch["a"]["b"].tolist() == [1.0] * 8
    assert batch["a"]["c"][0].tolist() == [2.0] * 8
    for tensor in (batch["a"]["b"], batch["a"]["c"][0]):
        assert any(inside(tensor, memory) for memory in allocate.given)
    assert batch["s"].is_sparse


def test_what_an_allocator_may_not_give_is_refused(shards: Path) -> None:
    for bad in (
        lambda size: bytearray(size),
        lambda size: torch.empty(size + 1, dtype=torch.uint8),
        lambda size: torch.empty(size, dtype=torch.int16),
        lambda size: torch.empty(size + 1, dtype=torch.uint8)[1:],
    ):
        with pytest.raises(TypeError, match="uint8 tensor of that length"):
            next(iter(load(shards, pin_memory=bad)))


def test_pinning_without_a_gpu_or_without_tensors_says_why_not(shards: Path) -> None:
    with pytest.raises(ValueError, match="makes tensors"):
        load(shards, pin_memory=True, torch=False)
    with pytest.raises(ValueError, match="makes tensors"):
        load(shards, pin_memory=Plain(), torch=False)
    with pytest.raises(ValueError, match="pin_memory= takes it"):
        load(shards, pin_memory=Plain(), out={"cls": torch.empty(8, dtype=torch.int64)})
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match=r"torch\.cuda\.is_available\(\) is False"):
            load(shards, pin_memory=True)
        assert not next(iter(load(shards)))["cls"].is_pinned()


@pytest.mark.parametrize("given", [3, 0, "yes", ""])
def test_what_is_no_answer_and_no_function_is_refused(shards: Path, given: Any) -> None:
    with pytest.raises(TypeError, match=r"pin_memory=.*: a bool, or a function that gives memory"):
        load(shards, pin_memory=given)


def test_where_torch_says_that_there_is_a_gpu_its_pinned_memory_is_asked_for(
    shards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []
    empty = torch.empty

    def recorded(size: int, **options: Any) -> Any:
        asked.append(options)
        return empty(size, dtype=options["dtype"])

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "empty", recorded)
    for options in ({}, {"pin_memory": True}):
        asked.clear()
        assert len(list(load(shards, **options))) == 6
        assert asked == [{"dtype": torch.uint8, "pin_memory": True}] * 6
    asked.clear()
    list(load(shards, pin_memory=False))
    list(load(shards, out={"cls": empty(8, dtype=torch.int64)}))
    list(load(shards, torch=False))
    assert asked == []


def test_with_a_gpu_batches_are_pinned_unless_told_otherwise(shards: Path) -> None:
    if not torch.cuda.is_available():
        pytest.skip("torch has no GPU here")
    batch = next(iter(load(shards)))
    assert batch["cls"].is_pinned()
    assert batch["bin"].is_pinned()
    assert not next(iter(load(shards, pin_memory=False)))["cls"].is_pinned()
    seen = []
    for batch in load(shards):
        seen.append(batch.to("cuda", non_blocking=True)["cls"])
        del batch
    assert torch.cat(seen).tolist() == [n for b in load(shards) for n in b["cls"].tolist()]


def test_with_a_gpu_registered_memory_that_is_reused_reaches_it_with_the_new_bytes() -> None:
    """Why memory that we registered never backs a tensor that a user gets.

    torch takes it for page-locked memory, copies asynchronously, and lets go of it at once.
    """
    if not torch.cuda.is_available():
        pytest.skip("torch has no GPU here")
    memory = np.full(64 << 20, 1, np.uint8)
    runtime = torch.cuda.cudart()
    assert int(runtime.cudaHostRegister(memory.ctypes.data, memory.nbytes, 0)) == 0
    try:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(200_000_000)
            imported = torch.from_numpy(memory)
            assert imported.is_pinned()
            there = imported.to("cuda", non_blocking=True)
            del imported
        memory[:] = 2  # as a loader would, that has its memory back
        stream.synchronize()
        assert there.max().item() == 2
    finally:
        runtime.cudaHostUnregister(memory.ctypes.data)
