"""WebDataset shards between us and those who read and write them: webdataset, GNU tar, Python."""

from __future__ import annotations

import base64
import itertools
import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

TOOL = os.environ.get("STOKER_FORMAT_TOOL", "")
pytestmark = pytest.mark.skipif(not TOOL, reason="STOKER_FORMAT_TOOL names no format_tool")
needs_tar = pytest.mark.skipif(not shutil.which("tar"), reason="no tar")

Sample = tuple[str, dict[str, bytes]]

DEEP = "deep/" * 40
SAMPLES: list[Sample] = [
    ("a", {"txt": b"one", "cls": b"1", "seg.png": bytes(range(256)) * 3}),
    ("dir/b", {"empty": b"", "block": b"x" * 512, "json": b'{"x": 2}'}),
    (f"{DEEP}c", {"txt": b"three"}),
    ("k" * 150, {"bin": b"y" * 513}),
    ("v1.2/\u00e9t\u00e9", {"txt": b"four"}),
]


def write(path: Path, samples: Iterable[Sample]) -> Path:
    lines = [
        json.dumps(
            {"key": key, "fields": {n: base64.b64encode(v).decode() for n, v in fields.items()}}
        )
        for key, fields in samples
    ]
    subprocess.run(
        [TOOL, "write", "tar", path], input="\n".join(lines), text=True, check=True, timeout=60
    )
    return path


def read(path: Path) -> list[Sample]:
    done = subprocess.run(
        [TOOL, "read", "tar", path], capture_output=True, text=True, check=True, timeout=60
    )
    samples = [json.loads(line) for line in done.stdout.splitlines()]
    return [
        (s["key"], {name: base64.b64decode(value) for name, value in s["fields"].items()})
        for s in samples
    ]


def read_by_webdataset(path: Path) -> list[Sample]:
    webdataset = pytest.importorskip("webdataset")
    dataset = webdataset.WebDataset(str(path), shardshuffle=False)
    return [
        (sample["__key__"], {n: v for n, v in sample.items() if not n.startswith("__")})
        for sample in dataset
    ]


def test_webdataset_reads_what_we_wrote(tmp_path: Path) -> None:
    assert read_by_webdataset(write(tmp_path / "ours.tar", SAMPLES)) == SAMPLES


def test_we_read_what_webdataset_wrote(tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset")
    path = tmp_path / "theirs.tar"
    with webdataset.TarWriter(str(path), encoder=False) as writer:
        for key, fields in SAMPLES:
            writer.write({"__key__": key, **fields})
    assert read(path) == SAMPLES


def test_python_reads_what_we_wrote(tmp_path: Path) -> None:
    with tarfile.open(write(tmp_path / "ours.tar", SAMPLES)) as tar:
        found = {m.name: (m, tar.extractfile(m)) for m in tar.getmembers()}
        assert len(found) == sum(len(fields) for _, fields in SAMPLES)
        for key, fields in SAMPLES:
            for name, value in fields.items():
                member, content = found[f"{key}.{name}"]
                assert content is not None
                assert content.read() == value
                assert (member.mode, member.mtime, member.uid) == (0o444, 0, 0)


@needs_tar
def test_gnu_tar_extracts_what_we_wrote_without_a_word(tmp_path: Path) -> None:
    path = write(tmp_path / "ours.tar", SAMPLES)
    out = tmp_path / "out"
    out.mkdir()
    done = subprocess.run(
        ["tar", "-x", "-f", path, "-C", out], capture_output=True, check=True, timeout=60
    )
    assert done.stderr == b""
    for key, fields in SAMPLES:
        for name, value in fields.items():
            assert (out / f"{key}.{name}").read_bytes() == value


@needs_tar
@pytest.mark.parametrize("style", ["gnu", "oldgnu", "pax", "ustar", "v7"])
def test_we_read_what_gnu_tar_wrote(tmp_path: Path, style: str) -> None:
    root = tmp_path / "files"
    short = style in ("v7", "ustar")
    samples = [s for s in SAMPLES if not (short and len(s[0]) > 90)]
    names = []
    for key, fields in samples:
        for name in sorted(fields):
            path = root / f"{key}.{name}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(fields[name])
            names.append(f"{key}.{name}")
    shard = tmp_path / "gnu.tar"
    subprocess.run(
        ["tar", f"--format={style}", "-c", "-f", shard, "-C", root, *names], check=True, timeout=60
    )
    assert read(shard) == samples


def test_a_compressed_archive_is_refused_with_the_cure(tmp_path: Path) -> None:
    path = tmp_path / "shard.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(__file__, "a.txt")
    done = subprocess.run(
        [TOOL, "read", "tar", path], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert "unsupported: offset 0: this is gzip data" in done.stderr
    assert "gunzip" in done.stderr


def names_to_split() -> list[str]:
    """All names of up to six characters out of those that matter, and some longer ones."""
    short = ("".join(n) for size in range(1, 7) for n in itertools.product("a./\n_", repeat=size))
    return [*short, "__a__/b.txt", "a/__b__.txt", "A.JPG", "x/y.z/w.seg.PNG", "__a.b__\n"]


def test_names_are_taken_apart_as_by_webdataset() -> None:
    webdataset = pytest.importorskip("webdataset.tariterators")

    def expected(name: str) -> list[str] | None:
        # As in tar_file_iterator: metadata first, then the split.
        prefix, suffix = webdataset.meta_prefix, webdataset.meta_suffix
        if "/" not in name and name.startswith(prefix) and name.endswith(suffix):
            return None
        if re.match(r"__[^/]*__($|/)", name):
            return None
        key, extension = webdataset.base_plus_ext(name)
        return None if key is None else [key, extension]

    names = names_to_split()
    lines = "\n".join(json.dumps(name) for name in names)
    done = subprocess.run(
        [TOOL, "names"], input=lines, capture_output=True, text=True, check=True, timeout=60
    )
    ours: list[Any] = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(ours) == len(names)
    assert [(n, o) for n, o in zip(names, ours, strict=True) if o != expected(n)] == []
