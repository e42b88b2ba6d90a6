"""Directories with shards of several kinds: none of them is silently left out."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import stoker

WriteTar = Callable[..., object]
_STOKER = Path(__file__).parents[3] / "build" / "release" / "stoker"
pytestmark = pytest.mark.skipif(not _STOKER.exists(), reason="the command is not built: make build")


def run(*words: object) -> subprocess.CompletedProcess[str]:
    command = [str(_STOKER), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.fixture
def mixed(tmp_path: Path, write_tar: WriteTar) -> Path:
    """A directory with one tar of two samples."""
    folder = tmp_path / "mix"
    folder.mkdir()
    write_tar(folder / "b.tar", {"x": {"txt": b"1"}, "y": {"txt": b"2"}})
    return folder


def _add(folder: Path, name: str) -> None:
    tar = (folder / "b.tar").read_bytes()
    if name.endswith(("gz", "tgz")):
        (folder / name).write_bytes(gzip.compress(tar))
    else:
        (folder / name).write_bytes(tar)


@pytest.mark.parametrize(
    "name",
    [
        "a.tar.gz",
        "a.tgz",
        "a.tar.zst",
        "a.tar.bz2",
        "a.tar.xz",
        "c.TAR",
        "C.Tar.Gz",
        "s.tfrecord",
        "s.tfrecord-00000-of-00001",
        "s.tfrecord.gz",
    ],
)
def test_files_that_look_like_shards_are_not_left_out(mixed: Path, name: str) -> None:
    _add(mixed, name)
    with pytest.raises(ValueError, match=f"mix: .*left out: {name}; move them"):
        stoker.Dataset(mixed)
    done = run("verify", mixed)
    assert done.returncode != 0
    assert name in done.stderr + done.stdout
    done = run("convert", mixed, mixed.parent / "out", "--format", "mds")
    assert done.returncode != 0
    assert name in done.stderr


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "s.tfrecord"])
def test_other_shards_beside_mds_are_not_left_out(mixed: Path, name: str) -> None:
    folder = mixed.parent / "mds"
    stoker.ingest([{"y": i} for i in range(7)], folder, format="mds")
    (folder / "manifest.json").unlink()
    assert len(stoker.Dataset(folder)) == 7
    shutil.copy(mixed / "b.tar", folder / name)
    with pytest.raises(ValueError, match=f"left out: {name}; move them"):
        stoker.Dataset(folder)
    assert len(stoker.Dataset(folder, format="mds")) == 7


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "b.idx",
        "stats.npy",
        "classes.json",
        "b.tar.sha256",
        "b.json",
        ".a.tar.gz",
        "b.tar.part",
        "00000.parquet",
        "notes.gz",
    ],
)
def test_other_files_beside_shards_are_ignored(mixed: Path, name: str) -> None:
    _add(mixed, name)
    assert len(stoker.Dataset(mixed)) == 2


def test_folders_with_names_of_shards_are_ignored(mixed: Path) -> None:
    (mixed / "old.tar.gz").mkdir()
    assert len(stoker.Dataset(mixed)) == 2


def test_a_named_format_leaves_out_other_formats_only(mixed: Path) -> None:
    _add(mixed, "s.tfrecord")
    assert len(stoker.Dataset(mixed, format="tar")) == 2
    _add(mixed, "a.tar.gz")
    with pytest.raises(ValueError, match=r"a\.tar\.gz"):
        stoker.Dataset(mixed, format="tar")


def test_named_files_of_both_kinds_are_converted(mixed: Path) -> None:
    _add(mixed, "a.tar.gz")
    out = mixed.parent / "out"
    run("convert", mixed / "*.tar*", out, "--format", "tar").check_returncode()
    assert len(stoker.Dataset(out)) == 4


def test_compressed_tars_beside_tfrecords_are_not_converted_alone(mixed: Path) -> None:
    _add(mixed, "a.tar.gz")
    shutil.move(mixed / "b.tar", mixed / "s.tfrecord")
    done = run("convert", mixed, mixed.parent / "out", "--format", "mds")
    assert done.returncode != 0
    assert "s.tfrecord" in done.stderr


def test_megatron_shards_beside_tars_are_not_left_out(
    mixed: Path, write_megatron: Callable[..., object]
) -> None:
    write_megatron(mixed, "tokens", [np.arange(3, dtype=np.uint16)])
    with pytest.raises(ValueError, match=r"left out: tokens\.idx"):
        stoker.Dataset(mixed)
