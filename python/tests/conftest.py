"""What every test here shares."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import pytest

WriteTar: TypeAlias = Callable[[Path, Mapping[str, Mapping[str, bytes]]], Path]


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Tests see the defaults, whatever the shell that runs them has exported."""
    monkeypatch.delenv("STOKER_ENGINE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))


@pytest.fixture
def write_tar() -> WriteTar:
    """Writes a WebDataset shard with Python's tarfile: {key: {extension: bytes}}."""

    def write(path: Path, samples: Mapping[str, Mapping[str, bytes]]) -> Path:
        with tarfile.open(path, "w") as archive:
            for key, fields in samples.items():
                for extension, data in fields.items():
                    member = tarfile.TarInfo(f"{key}.{extension}")
                    member.size = len(data)
                    archive.addfile(member, io.BytesIO(data))
        return path

    return write


@pytest.fixture
def shards(tmp_path: Path, write_tar: WriteTar) -> Path:
    """A folder of two tars with 30 and 20 samples: s000 to s049."""
    folder = tmp_path / "data"
    folder.mkdir()
    for shard, numbers in enumerate((range(30), range(30, 50))):
        samples = {
            f"s{i:03}": {"bin": bytes([i]) * 8, "cls": b"%d" % i, "json": b'{"n": %d}' % i}
            for i in numbers
        }
        write_tar(folder / f"train-{shard:03}.tar", samples)
    return folder
