"""Shards in file systems of fsspec, here the one in memory."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

import stoker

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")


@pytest.fixture
def uri(shards: Path, tmp_path: Path) -> str:
    """The folder of shards, copied."""
    folder = f"memory://{tmp_path.name}"
    memory = fsspec.filesystem("memory")
    for shard in sorted(shards.iterdir()):
        memory.pipe(f"{folder}/{shard.name}", shard.read_bytes())
    return folder


def keys_of(loader: stoker.Loader) -> list[list[str]]:
    return [list(batch["__key__"]) for batch in loader]


@pytest.mark.parametrize("pattern", ["", "/", "/*.tar", "/train-{000..001}.tar"])
def test_samples_and_batches_are_those_of_the_files(shards: Path, uri: str, pattern: str) -> None:
    here, there = stoker.Dataset(shards), stoker.Dataset(uri + pattern)
    assert there.fingerprint == here.fingerprint
    assert there.directory == uri
    assert [bytes(s["bin"]) for s in there] == [bytes(s["bin"]) for s in here]
    expected = keys_of(stoker.Loader(shards, batch_size=8, seed=7))
    assert keys_of(stoker.Loader(uri + pattern, batch_size=8, seed=7)) == expected
    assert pickle.loads(pickle.dumps(there)).fingerprint == here.fingerprint


def test_they_are_cached_by_what_tells_versions_apart(uri: str, tmp_path: Path) -> None:
    cache = stoker.Cache(tmp_path / "cache", "64MiB")
    first = bytes(stoker.Dataset(uri, cache=cache)[3]["bin"])
    fetched = cache.stats()["fetched_bytes"]
    assert bytes(stoker.Dataset(uri, cache=cache)[3]["bin"]) == first
    assert cache.stats()["fetched_bytes"] == fetched > 0
    memory = fsspec.filesystem("memory")
    shard = f"{uri}/train-000.tar"
    memory.pipe(shard, memory.cat_file(shard).replace(first, b"replaced"))
    assert bytes(stoker.Dataset(uri, cache=cache)[3]["bin"]) == b"replaced"


def test_a_forked_child_reads_them_too(uri: str) -> None:
    ds = stoker.Dataset(uri)
    expected = bytes(ds[3]["bin"])
    child = os.fork()
    if child == 0:
        os._exit(0 if bytes(ds[3]["bin"]) == expected else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert bytes(ds[3]["bin"]) == expected


def test_what_is_missing_or_fails_is_named(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError, match=r"memory://nothing"):
        stoker.Dataset("memory://nothing")
    with pytest.raises(ValueError, match=r"none://: no such store; .* s3://"):
        stoker.Dataset("none://bucket/a.tar")
    with pytest.raises(ValueError, match="in one place"):
        stoker.Dataset([uri, "s3://bucket/a.tar"])
    with pytest.raises(ValueError, match=r"stoker verify"):
        stoker.Dataset(uri, verify="manifest")
    ds = stoker.Dataset(uri)

    def refuse(*_: Any, **__: Any) -> bytes:
        raise PermissionError(13, "refused")

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "cat_file", refuse)
    with pytest.raises(PermissionError, match=r"train-000\.tar"):
        ds[3]


def test_a_pipe_is_refused_and_the_error_names_what_to_use() -> None:
    with pytest.raises(OSError, match=r"s3://bucket/prefix"):
        stoker.Dataset("pipe:cat a.tar")
