"""stoker.Tokens(pack=): rows of whole documents, as a dataset and in a Loader."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

LENGTH = 32
COLUMNS = ["tokens", "position_ids", "document_ids", "tokens_length", "__key__"]


def documents_of(count: int) -> list[Any]:
    """Documents whose tokens say which one it is; two of them longer than a row, one empty."""
    rng = np.random.default_rng(1)
    lengths = [5, 0, 70, LENGTH, LENGTH + 1, *rng.integers(1, 40, count - 5).tolist()]
    return [np.full(length, 100 + i, np.uint16) for i, length in enumerate(lengths)]


@pytest.fixture
def documents() -> list[Any]:
    return documents_of(80)


@pytest.fixture
def corpus(tmp_path: Path, documents: list[Any], write_megatron: Callable[..., Path]) -> Path:
    return write_megatron(tmp_path, "corpus", documents)


def load(data: Any, **options: Any) -> stoker.Loader:
    return stoker.Loader(data, **({"batch_size": 4, "seed": 2, "torch": False} | options))


def test_every_token_is_in_one_pack_and_documents_can_be_told_apart(
    corpus: Path, documents: list[Any]
) -> None:
    packs = stoker.Tokens(corpus, pack=LENGTH)
    assert packs.token_count == sum(map(len, documents))
    found: dict[int, list[int]] = {}
    for sample in packs:
        length = sample["tokens_length"]
        tokens, documents_ids = sample["tokens"], sample["document_ids"]
        assert tokens.shape == sample["position_ids"].shape == documents_ids.shape == (LENGTH,)
        assert (documents_ids[length:] == -1).all()
        assert (tokens[length:] == 0).all()
        assert documents_ids[:length].tolist() == sorted(documents_ids[:length].tolist())
        for number in [*range(documents_ids.max() + 1), -1]:
            here = documents_ids == number
            assert len(set(tokens[here].tolist())) <= 1
            assert sample["position_ids"][here].tolist() == list(range(here.sum()))
            if number >= 0:
                found.setdefault(int(tokens[here][0]), []).append(int(here.sum()))
    assert {n: sorted(parts) for n, parts in found.items()} == {
        100 + i: sorted([LENGTH] * (len(d) // LENGTH) + [len(d) % LENGTH] * (len(d) % LENGTH > 0))
        for i, d in enumerate(documents)
        if len(d)
    }


@pytest.mark.parametrize(("dtype", "pad"), [(None, 0), (None, 9), ("int64", -100)])
def test_a_loader_has_the_same_rows(corpus: Path, dtype: Any, pad: int) -> None:
    packs = stoker.Tokens(corpus, pack=LENGTH, pad=pad, dtype=dtype)
    loader = load(packs, shuffle="off")
    seen = 0
    for batch in loader:
        assert list(batch) == COLUMNS
        assert batch["tokens"].dtype == (dtype or np.uint16)
        assert batch["position_ids"].dtype == batch["document_ids"].dtype == np.int32
        for row in range(batch.size):
            expected = packs[seen]
            assert batch["__key__"][row] == expected["__key__"] == str(seen)
            for name in COLUMNS[:-1]:
                assert np.array_equal(batch[name][row], expected[name]), name
            assert (expected["tokens"][expected["tokens_length"] :] == pad).all()
            seen += 1
    assert seen == len(packs)
    assert np.array_equal(packs.gather([1, 0], field="document_ids")[1], packs[0]["document_ids"])


@pytest.mark.parametrize("shuffle", ["global", "block", "off"])
def test_global_batches_are_the_same_for_every_world_size_and_every_cut(
    corpus: Path, shuffle: str
) -> None:
    packs = stoker.Tokens(corpus, pack=LENGTH)
    options: dict[str, Any] = {
        "batch_size": None,
        "global_batch_size": 8,
        "shuffle": shuffle,
        "tail": "wrap",
        "epochs": 2,
    }
    whole = [(b["tokens"].tolist(), b.cursor) for b in load(packs, **options)]
    for world in (1, 2, 4, 8):
        for cut in range(len(whole)):
            ranks = [load(packs, rank=r, world_size=world, **options) for r in range(world)]
            for loader in ranks:
                loader.load_state_dict(whole[cut][1])
            for expected, *parts in zip(whole[cut + 1 : cut + 3], *ranks, strict=False):
                rows = [row for part in parts for row in part["tokens"].tolist()]
                assert rows == expected[0], (world, cut)


def test_a_document_that_was_damaged_is_an_error_and_parts_of_one_are_unchecked(
    corpus: Path, documents: list[Any]
) -> None:
    checked = stoker.Dataset(corpus, checksums=True)
    packs = stoker.Tokens(checked, pack=LENGTH)
    loader = load(packs, tail="keep")
    list(loader)
    long = {100 + i for i, d in enumerate(documents) if len(d) > LENGTH}
    cut = sum(bool(long & set(sample["tokens"].tolist())) for sample in packs)
    assert 0 < cut < len(packs)
    assert loader.stats().unchecked == cut
    windows = load(stoker.Tokens(checked, window=LENGTH), tail="keep")
    list(windows)
    assert windows.stats().unchecked == windows.stats().samples  # of any sequence, a part

    stored = corpus.with_suffix(".bin")
    times = stored.stat()
    damaged = bytearray(stored.read_bytes())
    damaged[0] ^= 1
    stored.write_bytes(damaged)
    os.utime(stored, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(stoker.CorruptError, match="checksum"):
        list(load(packs, tail="keep"))
    with pytest.raises(stoker.CorruptError, match="checksum"):
        list(packs)
    skipping = load(packs, tail="keep", on_error="skip")
    list(skipping)
    assert skipping.stats().replaced == 1


def test_other_packs_and_another_padding_are_another_run(corpus: Path) -> None:
    state = load(stoker.Tokens(corpus, pack=LENGTH)).state_dict()
    others = ({"pack": LENGTH + 1}, {"window": LENGTH}, {"pack": LENGTH, "pad": 3})
    for other in others:
        loader = load(stoker.Tokens(corpus, **other))  # type: ignore[arg-type]
        with pytest.raises(stoker.CursorMismatch, match="fingerprint"):
            loader.load_state_dict(state)


def test_cursors_that_do_not_say_the_padding_are_resumed(corpus: Path) -> None:
    packs = stoker.Tokens(corpus, pack=LENGTH, pad=3)
    whole = packs._part().old_fingerprint
    mixed = stoker._native.mixture_fingerprint([whole], [len(packs)], [1])
    parts = (packs, whole), (packs[3:], packs[3:]._part().old_fingerprint)
    for data, fingerprint in (*parts, (stoker.Mixture([(packs, 1)]), mixed)):
        loader = load(data)
        next(iter(loader))
        state = loader.state_dict()
        old = {**state, "fingerprint": fingerprint}
        assert old != state
        again = load(data)
        again.load_state_dict(old)
        assert again.state_dict() == state


def test_parts_mixtures_maps_pickles_and_forks(
    corpus: Path, tmp_path: Path, write_megatron: Any
) -> None:
    packs = stoker.Tokens(corpus, pack=LENGTH, pad=1)
    part = packs[3:]
    again = pickle.loads(pickle.dumps(part))
    assert again.fingerprint == part.fingerprint
    assert np.array_equal(again[0]["tokens"], packs[3]["tokens"])
    other = stoker.Tokens(write_megatron(tmp_path, "other", documents_of(40)), pack=LENGTH, pad=1)
    batch = next(iter(load(stoker.Mixture([(packs, 0.5), (other, 0.5)]))))
    assert list(batch) == COLUMNS
    with pytest.raises(ValueError, match="pack is 0 in dataset 1 and 32 in dataset 0"):
        load(stoker.Mixture([(packs, 0.5), (stoker.Tokens(corpus, window=LENGTH), 0.5)]))
    mapped = next(iter(load(packs, shuffle="off", map=lambda sample, rng: sample)))
    assert np.array_equal(mapped["position_ids"][1], packs[1]["position_ids"])
    assert mapped["tokens_length"].tolist() == [packs[i]["tokens_length"] for i in range(4)]
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(part[0]["tokens"], again[0]["tokens"]) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_what_makes_no_sense_is_refused(corpus: Path, shards: Path) -> None:
    with pytest.raises(ValueError, match="window=, or pack="):
        stoker.Tokens(corpus)
    with pytest.raises(ValueError, match="were both given"):
        stoker.Tokens(corpus, window=8, pack=8)
    for cut in ({"pack": 0}, {"pack": 8, "stride": 4}, {"pack": 8, "extra": 1}):
        with pytest.raises(ValueError, match="pack="):
            stoker.Tokens(corpus, **cut)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="pad= is for packs"):
        stoker.Tokens(corpus, window=8, pad=1)
    with pytest.raises(ValueError, match="pad=-1 is no uint16"):
        stoker.Tokens(corpus, pack=8, pad=-1)
    with pytest.raises(ValueError, match="token"):
        stoker.Tokens(shards, pack=8)
    assert "pack=32, pad=0, dtype='uint16')" in repr(stoker.Tokens(corpus, pack=LENGTH))
