"""A "~" at the beginning of a path is the home directory, wherever a path is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


def test_datasets_are_found_and_written_at_home(home: Path, write_tar: Any) -> None:
    stoker.ingest(({"x": i} for i in range(8)), "~/data", format="mds")
    assert (home / "data" / "index.json").exists()
    assert len(stoker.Dataset("~/data")) == len(stoker.Dataset(Path("~/data"))) == 8
    assert len(list(stoker.Loader("~/data", batch_size=4, torch=False))) == 2
    assert len(stoker.Mixture([("~/data", 1)])) == 8
    np.save(home / "tokens.npy", np.arange(100, dtype=np.uint16))
    assert len(stoker.Tokens("~/tokens.npy", window=10)) == 10
    write_tar(home / "a.tar", {"k": {"txt": b"one"}})
    assert stoker.Dataset(["~/a.tar"])[0]["txt"] == "one"
    (home / "tree").mkdir()
    (home / "tree" / "one.txt").write_bytes(b"1")
    stoker.pack("~/tree", "~/packed")
    assert len(stoker.Dataset("~/packed")) == 1
    assert not (home.parent / "~").exists()


def test_checkpoints_are_kept_at_home(home: Path) -> None:
    with stoker.Checkpointer("~/run") as saver:
        saver.save(1, state={"w": np.ones(3)}).wait()
    assert stoker.load("~/run")["state.w"][:].tolist() == [1, 1, 1]
    assert not (home.parent / "~").exists()


def test_plain_files_are_read_and_written_at_home(home: Path) -> None:
    stoker.io.write_durable("~/file", b"abc")
    assert (home / "file").read_bytes() == b"abc"
    assert bytes(stoker.io.read_many([("~/file", 1, 2)])[0]) == b"bc"
    assert stoker.io.residency("~/file").size_bytes == 3
    assert stoker.probe("~").engine
