"""Somebody who may write to a dataset's directory has taken the names that Stoker uses there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stoker
from stoker._common.plain_files import OwnFolder, create_plain, open_plain
from stoker._pack import rows as _pack_rows
from stoker._pack import staged_rows as _staged_rows

ROWS = 40
TEXT = "precious"


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Somebody's folder, in which nothing may change."""
    folder = tmp_path / "other"
    (folder / "rows-0-of-1").mkdir(parents=True)
    for name in ("file", "rows-0-of-1/000000.rows", "rows-0-of-1/000000.part"):
        (folder / name).write_text(TEXT)
    return folder


def assert_unharmed(other: Path) -> None:
    files = {str(path.relative_to(other)): path for path in other.rglob("*") if path.is_file()}
    assert sorted(files) == ["file", "rows-0-of-1/000000.part", "rows-0-of-1/000000.rows"]
    assert all(path.read_text() == TEXT for path in files.values())


@pytest.fixture
def pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """Packs rows that have to be staged, into the folder ``out``."""
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pytest.importorskip("pyarrow.parquet").write_table(
        arrow.table({"n": list(range(ROWS))}), tmp_path / "t.parquet", row_group_size=7
    )
    monkeypatch.setattr(_staged_rows, "_PIECE_BYTES", 64)
    (tmp_path / "out").mkdir()
    return lambda: stoker.pack(
        tmp_path / "t.parquet", tmp_path / "out", samples_per_shard=10, shuffle_seed=1
    )


def test_rows_are_staged_through_no_planted_link(
    pack: Callable[[], Any], tmp_path: Path, other: Path
) -> None:
    staging = tmp_path / "out" / ".stoker" / "rows-0-of-1"
    staging.mkdir(parents=True)
    (staging / "000000.part").symlink_to(other / "file")
    (staging / "000001.rows").symlink_to(other / "file")
    os.mkfifo(staging / "000002.rows")
    os.mkfifo(staging / "000002.part")
    assert pack().sample_count == ROWS
    assert_unharmed(other)
    assert not staging.exists()


def test_a_linked_staging_folder_is_refused_and_not_emptied(
    pack: Callable[[], Any], tmp_path: Path, other: Path
) -> None:
    own = tmp_path / "out" / ".stoker"
    own.symlink_to(other)
    with pytest.raises((OSError, ValueError), match="symbolic link"):
        pack()
    own.unlink()
    own.mkdir()
    (own / "rows-0-of-1").symlink_to(other / "rows-0-of-1")
    with pytest.raises(OSError, match="rows-0-of-1"):
        pack()
    assert_unharmed(other)


def test_the_staged_rows_of_others_are_not_removed(
    pack: Callable[[], Any], tmp_path: Path, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove = _pack_rows._remove_staged

    def swap(directory: str, staging: str) -> None:
        place = Path(directory, ".stoker", staging)
        place.rename(tmp_path / "moved")
        place.symlink_to(other / "rows-0-of-1")
        remove(directory, staging)

    monkeypatch.setattr(_pack_rows, "_remove_staged", swap)
    assert pack().sample_count == ROWS
    assert_unharmed(other)


def test_an_ingest_refuses_linked_folders(tmp_path: Path, other: Path) -> None:
    for inner in (".stoker", ".stoker/pack"):
        out = tmp_path / inner.replace("/", "-")
        (out / inner).parent.mkdir(parents=True)
        (out / inner).symlink_to(other)
        with pytest.raises((OSError, ValueError), match="symbolic link"):
            stoker.ingest([{"n": 1}], out)
        assert_unharmed(other)


def test_the_index_of_a_dataset_is_not_written_through_a_link(
    tmp_path: Path, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    stoker.ingest([{"n": i} for i in range(5)], tmp_path / "data")
    for path in (tmp_path / "data" / ".stoker").iterdir():
        path.unlink()
    (tmp_path / "data" / ".stoker").rmdir()
    (tmp_path / "data" / ".stoker").symlink_to(other)
    assert len(stoker.Dataset(tmp_path / "data")) == 5
    assert_unharmed(other)
    assert any((tmp_path / "cache").rglob("index-*"))


def test_fifos_are_not_waited_for(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(OSError, match="not a regular file"):
        open_plain(fifo)
    for name in ("x.parquet", "x.h5", "x.arrow", "data.mdb"):
        os.mkfifo(tmp_path / name)
        kind: Any = {"x.h5": "hdf5", "data.mdb": "lmdb"}.get(name, name.partition(".")[2])
        with pytest.raises(OSError, match="not a regular file"):
            stoker.pack(tmp_path / name, tmp_path / "out", kind=kind)
    (tmp_path / "split").mkdir()
    os.mkfifo(tmp_path / "split" / "state.json")
    with pytest.raises(OSError, match="not a regular file"):
        stoker.pack(tmp_path / "split", tmp_path / "out", kind="arrow")
    stoker.ingest([{"n": 1}], tmp_path / "data")
    (tmp_path / "data" / "manifest.json").unlink()
    os.mkfifo(tmp_path / "data" / "manifest.json")
    with pytest.raises((OSError, ValueError), match="not a regular file"):
        stoker.Dataset(tmp_path / "data", manifest_sha256="0" * 64)


def test_a_folder_of_our_own_follows_no_link(tmp_path: Path, other: Path) -> None:
    (tmp_path / "link").symlink_to(other)
    with pytest.raises(OSError, match="link"):
        OwnFolder(tmp_path, "link")
    folder = OwnFolder(tmp_path / "link", "own")  # the way to it may be one
    (other / "own" / "a").symlink_to(other / "file")
    with pytest.raises(OSError, match="a"):
        folder.open("a")
    with folder.create("a") as file:
        file.write(b"x")
    folder.rename("a", "b")
    assert (other / "own" / "b").read_text() == "x"
    folder.remove("b")
    folder.remove("b")
    folder.close()
    (other / "own").rmdir()
    assert_unharmed(other)
    (tmp_path / "taken").symlink_to(other / "file")
    with pytest.raises(FileExistsError):
        create_plain(tmp_path / "taken")


_MOUNTED = """
import os, sys, ctypes
from stoker._common.plain_files import OwnFolder
root, other = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 4096, 16384, 1 << 18
mounted = (
    libc.unshare(CLONE_NEWNS) == 0
    and libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) == 0
    and libc.mount(other.encode(), f"{root}/own/mounted".encode(), None, MS_BIND, None) == 0
)
if not mounted:
    sys.exit(77)
OwnFolder(root, "own").remove_all("mounted")
"""


def test_what_is_mounted_in_a_folder_of_our_own_is_not_emptied(tmp_path: Path, other: Path) -> None:
    (tmp_path / "own" / "mounted").mkdir(parents=True)
    words = [sys.executable, "-c", _MOUNTED, str(tmp_path), str(other)]
    code = subprocess.run(words, check=False).returncode
    if code == 77:
        pytest.skip("only root may mount")
    assert code == 0
    assert_unharmed(other)
