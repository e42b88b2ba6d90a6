"""Datasets of several directories, and those whose index has no place on disk."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

import stoker

WriteTar = Callable[[Path, Mapping[str, Mapping[str, bytes]]], Path]

_NOBODY = 65534  # root writes everywhere
_READ_AS_NOBODY = f"""
import os, sys, warnings
import numpy as np
import stoker
os.setgroups([])
os.setgid({_NOBODY})
os.setuid({_NOBODY})
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    dataset = stoker.Dataset(sys.argv[1])
    keys = [sample["__key__"] for sample in dataset]
print(keys)
print(told[0].category.__name__, told[0].message)
"""


@pytest.fixture
def open_dir() -> Iterator[Path]:
    """A directory that another user can come to, and cannot write to."""
    path = Path(tempfile.mkdtemp(prefix="stoker-test-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.mark.parametrize("home", ["/proc/nowhere", "/dev/null", None])
def test_read_only_data_without_a_home_is_read_with_a_warning(
    open_dir: Path, write_tar: WriteTar, home: str | None
) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root, to become another user")
    write_tar(open_dir / "a.tar", {"x": {"txt": b"1"}, "y": {"txt": b"2"}, "z": {"txt": b"3"}})
    environment = {n: v for n, v in os.environ.items() if n not in ("HOME", "XDG_CACHE_HOME")}
    if home is not None:
        environment["HOME"] = home
    done = subprocess.run(
        [sys.executable, "-c", _READ_AS_NOBODY, str(open_dir)],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    keys, warning = done.stdout.splitlines()
    assert keys == "['x', 'y', 'z']"
    assert warning.startswith(f"RuntimeWarning {open_dir}: the index is kept in memory")
    assert "set XDG_CACHE_HOME" in warning
    assert not (open_dir / ".stoker").exists()


def test_several_directories_are_one_dataset_in_their_order(
    tmp_path: Path, write_tar: WriteTar
) -> None:
    for name in ("de", "en"):
        (tmp_path / name).mkdir()
        write_tar(tmp_path / name / "x.tar", {f"{name}1": {"txt": b"1"}, f"{name}2": {"txt": b"2"}})
    listed = stoker.Dataset([tmp_path / "en", tmp_path / "de"])
    assert listed.keys() == ["en1", "en2", "de1", "de2"]
    assert stoker.Dataset(tmp_path / "*").keys() == ["de1", "de2", "en1", "en2"]
    with pytest.raises(FileNotFoundError, match="en has no manifest"):
        stoker.Dataset([tmp_path / "en", tmp_path / "de"], verify="manifest")
    stoker.Dataset([tmp_path / "en", tmp_path / "de"], verify="full")
