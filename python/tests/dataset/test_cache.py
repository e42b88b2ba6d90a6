"""stoker.Cache: shards that are read through a local disk."""

from __future__ import annotations

import logging
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

import stoker

SIZE = "64MiB"


def keys_of(loader: stoker.Loader) -> list[list[str]]:
    return [list(batch["__key__"]) for batch in loader]


def test_samples_are_those_of_the_shards_and_are_read_from_them_once(
    shards: Path, tmp_path: Path
) -> None:
    plain = stoker.Dataset(shards)
    for run in range(2):
        cache = stoker.Cache(tmp_path / "cache", SIZE)
        ds = stoker.Dataset(shards, cache=cache)
        for i in range(len(plain)):
            assert bytes(ds[i]["bin"]) == bytes(plain[i]["bin"])
            assert ds[i]["__key__"] == plain[i]["__key__"]
        stats = cache.stats()
        assert (stats["fetches"] > 0) == (run == 0)
        assert stats["hits"] > 0
        assert stats["used_bytes"] > 0 or run == 0
        assert cache.trouble == ""


def test_batches_are_those_without_a_cache_and_the_log_says_what_is_read(
    shards: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = keys_of(stoker.Loader(shards, batch_size=8, seed=7))
    cache = stoker.Cache(tmp_path / "cache", SIZE)
    with caplog.at_level(logging.INFO, "stoker"):
        loader = stoker.Loader(shards, batch_size=8, seed=7, cache=cache)
    assert "from the source in its first epoch" in caplog.text
    assert keys_of(loader) == expected
    fetched = cache.stats()["fetched_bytes"]
    assert fetched == sum(shard.size_bytes for shard in stoker.Dataset(shards).shards)
    again = stoker.Loader(stoker.Dataset(shards, cache=cache), batch_size=8, seed=7)
    assert keys_of(again) == expected
    assert cache.stats()["fetched_bytes"] == fetched


def test_a_pickled_dataset_opens_the_same_cache(shards: Path, tmp_path: Path) -> None:
    cache = stoker.Cache(tmp_path / "cache", SIZE)
    ds = stoker.Dataset(shards, cache=cache)
    other = pickle.loads(pickle.dumps(ds))
    assert bytes(other[3]["bin"]) == bytes(ds[3]["bin"])
    assert repr(other._arguments.cache) == repr(cache)


def test_a_forked_child_reads_through_the_cache(shards: Path, tmp_path: Path) -> None:
    ds = stoker.Dataset(shards, cache=stoker.Cache(tmp_path / "cache", SIZE))
    expected = bytes(ds[3]["bin"])
    child = os.fork()
    if child == 0:
        os._exit(0 if bytes(ds[3]["bin"]) == expected else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_what_cannot_be_a_cache_is_refused(shards: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a cache of 1 MiB is too small; the minimum is 32 MiB"):
        stoker.Cache(tmp_path / "cache", "1MiB")
    with pytest.raises(ValueError, match="not empty and not a cache"):
        stoker.Cache(shards, SIZE)
    with pytest.raises(TypeError, match=r"a stoker\.Cache"):
        stoker.Dataset(shards, cache=tmp_path)  # type: ignore[arg-type]
    cache = stoker.Cache(tmp_path / "cache", SIZE)
    with pytest.raises(ValueError, match="give it to the Dataset"):
        stoker.Loader(stoker.Dataset(shards), batch_size=2, cache=cache)


def test_a_cache_that_fails_is_a_warning_once_and_costs_no_sample(
    shards: Path, tmp_path: Path
) -> None:
    cache = stoker.Cache(tmp_path / "cache", SIZE)
    # The folder of new chunks is gone, and a file stands in its place.
    (tmp_path / "cache" / "new").rmdir()
    (tmp_path / "cache" / "new").write_text("")
    loader = stoker.Loader(shards, batch_size=8, seed=7, epochs=1, cache=cache)
    plain = keys_of(stoker.Loader(shards, batch_size=8, seed=7))
    with pytest.warns(RuntimeWarning, match="read from the source") as seen:
        epochs = [keys_of(loader) for _ in range(3)]
    assert len(seen) == 1
    assert epochs[0] == plain
    assert [len(epoch) for epoch in epochs] == [len(plain)] * 3
    assert "new" in cache.trouble


def test_a_damaged_chunk_is_healed(shards: Path, tmp_path: Path) -> None:
    expected = [
        bytes(sample["bin"]) for sample in map(stoker.Dataset(shards).__getitem__, range(5))
    ]
    ds = stoker.Dataset(shards, cache=stoker.Cache(tmp_path / "cache", SIZE))
    assert [bytes(ds[i]["bin"]) for i in range(5)] == expected
    for chunk in (tmp_path / "cache" / "chunks").glob("*/*"):
        content = np.fromfile(chunk, np.uint8)
        content[5000] ^= 1
        content.tofile(chunk)
    cache = stoker.Cache(tmp_path / "cache", SIZE)
    ds = stoker.Dataset(shards, cache=cache)
    assert [bytes(ds[i]["bin"]) for i in range(5)] == expected
    assert cache.stats()["healed"] == 1
