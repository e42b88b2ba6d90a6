"""stoker.Dataset against its manifest: pinned, verified, refused."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

import stoker


def write_manifest(folder: Path, **changes: Any) -> str:
    shards = [
        {
            "name": path.name,
            "size_bytes": path.stat().st_size,
            "samples": 0,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in sorted(folder.glob("*.tar"))
    ]
    manifest = {"version": 1, "format": "tar", "shards": shards, **changes}
    text = json.dumps(manifest).encode()
    (folder / "manifest.json").write_bytes(text)
    return hashlib.sha256(text).hexdigest()


def test_the_manifest_can_be_pinned(shards: Path) -> None:
    pin = write_manifest(shards)
    ds = stoker.Dataset(shards, manifest_sha256=pin)
    write_manifest(shards, comment="changed")
    with pytest.raises(ValueError, match=f"SHA-256 is .*, and manifest_sha256 says {pin}"):
        stoker.Dataset(shards, manifest_sha256=pin)
    with pytest.raises(ValueError, match=pin):
        pickle.loads(pickle.dumps(ds))


def test_a_pin_without_a_manifest_is_not_found(shards: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"manifest\.json"):
        stoker.Dataset(shards, manifest_sha256="0" * 64)


@pytest.mark.parametrize("verify", ["manifest", "full"])
def test_good_shards_verify(shards: Path, verify: Any) -> None:
    write_manifest(shards)
    assert len(stoker.Dataset(shards, verify=verify)) == 50
    assert len(stoker.Dataset(shards / "train-001.tar", verify=verify)) == 20


def test_a_changed_byte_is_found(shards: Path) -> None:
    write_manifest(shards)
    path = shards / "train-001.tar"
    data = bytearray(path.read_bytes())
    data[data.index(b"\x1f" * 8)] ^= 1
    path.write_bytes(data)
    assert len(stoker.Dataset(shards)) == 50
    with pytest.raises(stoker.CorruptError, match="SHA-256") as raised:
        stoker.Dataset(shards, verify="manifest")
    assert raised.value.path == str(path)
    assert len(stoker.Dataset(shards / "train-000.tar", verify="manifest")) == 30


def test_a_changed_size_is_found(shards: Path) -> None:
    write_manifest(shards)
    with (shards / "train-000.tar").open("ab") as file:
        file.write(bytes(10240))
    with pytest.raises(stoker.CorruptError, match=r"bytes, .* the manifest says"):
        stoker.Dataset(shards, verify="manifest")


def test_a_lost_or_foreign_shard_is_found(shards: Path) -> None:
    write_manifest(shards)
    (shards / "train-001.tar").rename(shards / "train-002.tar")
    with pytest.raises(ValueError, match="not in the manifest"):
        stoker.Dataset([shards / "train-000.tar", shards / "train-002.tar"], verify="manifest")
    with pytest.raises(FileNotFoundError, match=r"train-001\.tar"):
        stoker.Dataset(shards, verify="manifest")


def test_a_dataset_does_not_open_without_one_of_its_shards(tmp_path: Path) -> None:
    stoker.ingest(({"x": bytes([i])} for i in range(10)), tmp_path, samples_per_shard=4)
    pin = hashlib.sha256((tmp_path / "manifest.json").read_bytes()).hexdigest()
    assert len(stoker.Dataset(tmp_path, manifest_sha256=pin)) == 10
    (tmp_path / "shard-000001.tar").unlink()
    for options in ({}, {"manifest_sha256": pin}, {"verify": "manifest"}):
        with pytest.raises(FileNotFoundError, match=r"shard-000001\.tar: missing, but listed"):
            stoker.Dataset(tmp_path, **options)  # type: ignore[arg-type]


def test_without_a_manifest_full_reads_the_samples_and_manifest_says_so(shards: Path) -> None:
    assert len(stoker.Dataset(shards, verify="full")) == 50
    with pytest.raises(FileNotFoundError, match="has no manifest"):
        stoker.Dataset(shards, verify="manifest")
    with pytest.raises(FileNotFoundError, match=r"has no manifest.*manifest_sha256"):
        stoker.Dataset(shards, manifest_sha256="0" * 64)


def test_files_beside_the_shards_are_compared_too(shards: Path) -> None:
    (shards / "classes.json").write_text("{}")
    good = {"name": "classes.json", "size_bytes": 2, "sha256": hashlib.sha256(b"{}").hexdigest()}
    write_manifest(shards, files=[good])
    stoker.Dataset(shards / "train-*.tar", verify="manifest")
    (shards / "classes.json").write_text("[]")
    for source in (shards, shards / "train-*.tar"):
        with pytest.raises(stoker.CorruptError, match=r"classes\.json: SHA-256"):
            stoker.Dataset(source, verify="manifest")


def test_full_reads_every_sample(shards: Path) -> None:
    stoker.Dataset(shards, checksums=True)
    path = shards / "train-001.tar"
    times = path.stat()
    data = bytearray(path.read_bytes())
    data[data.index(b"\x1f" * 8)] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    write_manifest(shards)  # of the damaged bytes: only the samples' checksums know
    stoker.Dataset(shards, checksums=True, verify="manifest")
    with pytest.raises(stoker.CorruptError, match="sample 31"):
        stoker.Dataset(shards, checksums=True, verify="full")


@pytest.mark.parametrize("text", ["", "[]", '{"version": 1}', '{"version": 1, "shards": [{}]}'])
def test_what_is_no_manifest_is_corrupt(shards: Path, text: str) -> None:
    (shards / "manifest.json").write_text(text)
    with pytest.raises(stoker.CorruptError, match=r"not a manifest|not valid JSON"):
        stoker.Dataset(shards, verify="manifest")


def test_a_newer_manifest_is_refused(shards: Path) -> None:
    write_manifest(shards, version=2)
    with pytest.raises(ValueError, match="version 2 is newer"):
        stoker.Dataset(shards, verify="manifest")


def test_a_manifest_names_no_files_elsewhere(shards: Path) -> None:
    entry = {"name": "../x", "size_bytes": 0, "sha256": "0" * 64}
    write_manifest(shards, files=[entry])
    with pytest.raises(stoker.CorruptError, match="not a file beside it"):
        stoker.Dataset(shards, verify="manifest")
