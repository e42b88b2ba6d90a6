"""stoker.Tokens: windows over token arrays, as a dataset and in a Loader."""

from __future__ import annotations

import os
import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

TOKENS = np.arange(1000, dtype=np.uint16)


@pytest.fixture
def corpus(tmp_path: Path, write_megatron: Callable[..., Path]) -> Path:
    """1,000 tokens in three documents."""
    return write_megatron(tmp_path, "corpus", [TOKENS[:100], TOKENS[100:101], TOKENS[101:]])


def test_windows_are_samples(corpus: Path) -> None:
    tokens = stoker.Tokens(corpus, window=64)
    assert isinstance(tokens, stoker.Dataset)
    assert len(tokens) == 15
    assert tokens.token_count == 1000
    sample = tokens[3]
    assert sample["__key__"] == "3"
    assert sample["tokens"].dtype == np.uint16
    assert np.array_equal(sample["tokens"], TOKENS[192:256])
    assert np.array_equal(tokens[-1]["tokens"], TOKENS[14 * 64 : 15 * 64])
    assert [s["tokens"][0] for s in tokens.__getitems__([5, 0])] == [320, 0]
    assert np.array_equal(tokens.gather([1, 0])[:, 0], [64, 0])
    with pytest.raises(IndexError):
        tokens[15]


def test_stride_and_extra_tokens(corpus: Path) -> None:
    tokens = stoker.Tokens(corpus, window=100, stride=50, extra=1)
    assert len(tokens) == 18
    assert np.array_equal(tokens[2]["tokens"], TOKENS[100:201])
    assert np.array_equal(tokens[17]["tokens"], TOKENS[850:951])


def test_parts_of_it_are_tokens_too(corpus: Path) -> None:
    train, held_out = stoker.Tokens(corpus, window=64).split([0.8, 0.2], seed=1)
    assert isinstance(train, stoker.Tokens)
    seen = sorted(int(s["tokens"][0]) // 64 for part in (train, held_out) for s in part)
    assert seen == list(range(15))
    loader = stoker.Loader(held_out, batch_size=3, torch=False)
    assert sorted(n // 64 for b in loader for n in b["tokens"][:, 0].tolist()) == sorted(
        int(s["tokens"][0]) // 64 for s in held_out
    )


@pytest.mark.parametrize("dtype", [None, "int64", np.int64])
def test_a_loader_reads_windows_into_one_array(corpus: Path, dtype: Any) -> None:
    tokens = stoker.Tokens(corpus, window=64, extra=1, dtype=dtype)
    loader = stoker.Loader(tokens, batch_size=4, shuffle="off", torch=False)
    rows = np.concatenate([batch["tokens"] for batch in loader])
    assert rows.dtype == (np.uint16 if dtype is None else np.int64)
    assert np.array_equal(rows, np.stack([TOKENS[i : i + 65] for i in range(0, 960, 64)]))
    assert tokens[2]["tokens"].dtype == rows.dtype
    batch = next(iter(loader))
    assert list(batch) == ["tokens", "__key__"]
    assert batch["__key__"] == ["0", "1", "2", "3"]


def test_ranks_divide_shuffled_windows_and_resume(corpus: Path) -> None:
    tokens = stoker.Tokens(corpus, window=16)
    options: dict[str, Any] = {"global_batch_size": 8, "seed": 2, "torch": False}

    def starts(batch: Any) -> list[int]:
        return [int(n) for n in batch["tokens"][:, 0]]

    whole = [(starts(batch), batch.cursor) for batch in stoker.Loader(tokens, **options)]
    assert sorted(n for batch, _ in whole for n in batch) != list(range(0, 896, 16))
    ranks = [stoker.Loader(tokens, rank=r, world_size=2, **options) for r in range(2)]
    for loader in ranks:
        loader.load_state_dict(whole[2][1])
    seen = [starts(a) + starts(b) for a, b in zip(*ranks, strict=True)]
    assert seen == [batch for batch, _ in whole[3:]]


def test_other_windows_are_another_run(corpus: Path) -> None:
    def state(**cut: int) -> Any:
        return stoker.Loader(stoker.Tokens(corpus, **cut), batch_size=2, torch=False).state_dict()  # type: ignore[arg-type]

    loader = stoker.Loader(stoker.Tokens(corpus, window=50), batch_size=2, torch=False)
    loader.load_state_dict(state(window=50))
    for other in ({"window": 50, "stride": 49}, {"window": 49, "stride": 50, "extra": 1}):
        with pytest.raises(stoker.CursorMismatch, match="fingerprint"):
            loader.load_state_dict(state(**other))


def test_any_token_file_will_do(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", TOKENS.astype(np.int32))
    assert np.array_equal(stoker.Tokens(tmp_path / "a.npy", window=8)[1]["tokens"], range(8, 16))
    TOKENS.astype(np.uint8).tofile(tmp_path / "b.bin")
    raw = stoker.Dataset(tmp_path / "b.bin", format="raw", dtype="uint8")
    tokens = stoker.Tokens(raw, window=8)
    assert np.array_equal(tokens[2]["tokens"], range(16, 24))
    with pytest.raises(ValueError, match="whole dataset"):
        stoker.Tokens(raw[:0], window=8)


def test_pickled_and_forked_tokens_are_the_same(corpus: Path) -> None:
    tokens = stoker.Tokens(corpus, window=64, dtype="int64")[3:]
    again = pickle.loads(pickle.dumps(tokens))
    assert again.fingerprint == tokens.fingerprint
    assert np.array_equal(again[0]["tokens"], TOKENS[192:256])
    assert again[0]["tokens"].dtype == np.int64
    child = os.fork()
    if child == 0:
        os._exit(0 if int(tokens[1]["tokens"][0]) == 256 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_what_cannot_be_cut_is_refused(corpus: Path, shards: Path) -> None:
    with pytest.raises(ValueError, match="token"):
        stoker.Tokens(shards, window=8)
    for cut in ({"window": 0}, {"window": 8, "stride": 0}, {"window": 8, "extra": -1}):
        with pytest.raises(ValueError, match=r"(window|stride|extra)=-?\d: must be at least"):
            stoker.Tokens(corpus, **cut)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="window"):
        stoker.Tokens(corpus, window=1001)
    with pytest.raises(ValueError, match="int64, or as stored, which is uint16"):
        stoker.Tokens(corpus, window=8, dtype="int32")
    with pytest.raises(ValueError, match="one column, tokens"):
        stoker.Loader(
            stoker.Tokens(corpus, window=8), batch_size=2, fields={"tokens": int}, torch=False
        )


def test_repr_says_how_they_are_cut(corpus: Path) -> None:
    text = repr(stoker.Tokens(corpus, window=64, extra=1))
    assert text.startswith("Tokens(")
    assert "window=64, stride=64, extra=1, dtype='uint16')" in text


def test_a_batch_of_empty_documents_has_the_field(tmp_path: Path) -> None:
    arrays = [np.array([], np.uint16), np.array([5, 6], np.uint16)]
    stoker.ingest(({"tokens": array} for array in arrays), tmp_path / "t", format="tokens")
    options: dict[str, Any] = {"batch_size": 1, "shuffle": "off", "torch": False}
    got = [batch["tokens"] for batch in stoker.Loader(tmp_path / "t", **options)]
    assert [array.shape for array in got] == [(1, 0), (1, 2)]
    assert [array.dtype for array in got] == [np.uint16, np.uint16]
    counts = stoker.Loader(tmp_path / "t", map=lambda s, rng: {"n": len(s["tokens"])}, **options)
    assert [batch["n"].tolist() for batch in counts] == [[0], [2]]
    raw = stoker.Loader(tmp_path / "t", fields={"tokens": bytes}, **options)
    assert [batch["tokens"][0].tobytes() for batch in raw] == [b"", arrays[1].tobytes()]


def test_an_array_without_a_header_is_told_how_to_be_opened(tmp_path: Path) -> None:
    file = tmp_path / "corpus.bin"
    np.arange(100, dtype=np.uint16).tofile(file)
    with pytest.raises(ValueError, match="not a shard of a known format") as raised:
        stoker.Tokens(file, window=8)
    assert 'stoker.Dataset(..., format="raw", dtype="uint16")' in str(raised.value)
    with pytest.raises(ValueError, match='dtype="uint16" in Python'):
        stoker.Dataset(file, format="raw")
    assert len(stoker.Tokens(stoker.Dataset(file, format="raw", dtype="uint16"), window=8)) == 12


def test_stream_does_not_advise_checksums_for_windows(tmp_path: Path) -> None:
    command = Path(__file__).parents[3] / "build" / "release" / "stoker"
    if not command.exists():
        pytest.skip("the command is not built: make build")
    np.save(tmp_path / "t.npy", np.arange(4000, dtype=np.uint16))
    words = [str(command), "stream", str(tmp_path / "t.npy"), "--window", "64", "--batch-size", "8"]
    ran = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "rows unchecked: parts of documents have no checksum" in ran.stdout + ran.stderr
