"""Names with braces, dots and control characters: the one that exists is the one that is meant."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

import stoker

COMMAND = Path(__file__).parents[3] / "build" / "release" / "stoker"


def run(*arguments: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, check=False)


def test_an_existing_name_with_braces_is_opened_itself(tmp_path: Path, write_tar: Any) -> None:
    for name in ("g{1..2}", "g1", "g2"):
        write_tar(tmp_path / f"{name}.tar", {name.replace(".", "-"): {"txt": b"x"}})
    assert [s["__key__"] for s in stoker.Dataset(tmp_path / "g{1..2}.tar")] == ["g{1--2}"]


@pytest.mark.parametrize("name", ["e{1,2}", "f{1..2}"])
def test_a_dataset_is_written_to_a_name_with_braces(tmp_path: Path, name: str) -> None:
    for other in ("e1", "f1", "e2"):
        stoker.ingest([{"__key__": other, "cls": 9}], tmp_path / other)
    stoker.ingest([{"__key__": f"k{i}", "cls": i} for i in range(3)], tmp_path / name)
    assert [s["cls"] for s in stoker.Dataset(tmp_path / name)] == [0, 1, 2]
    packed = tmp_path / "more" / name
    packed.parent.mkdir()
    source = tmp_path / "a.jsonl"
    source.write_text('{"n": 1}\n' * 3)
    done = run("pack", source, packed)
    assert done.returncode == 0, done.stderr
    assert b"3 samples" in run("verify", packed).stdout


@pytest.mark.parametrize("format", ["mds", "tfrecord"])
def test_an_error_has_the_samples_own_key(tmp_path: Path, format: Any) -> None:  # noqa: A002
    samples = [{"__key__": f"img{i}", "label": 1.5} for i in range(2)]
    stoker.ingest(samples, tmp_path / "d", format=format)
    loader = stoker.Loader(tmp_path / "d", batch_size=2, shuffle="off", fields={"label": int})
    with pytest.raises(ValueError, match='key "img0"'):
        next(iter(loader))


def test_cat_finds_a_key_with_a_dot_beside_one_without(tmp_path: Path) -> None:
    samples = [{"__key__": "a", "x": 1, "b.x": 2}, {"__key__": "a.b", "x": 3, "b.x": 4}]
    stoker.ingest(samples, tmp_path / "d", format="mds")
    assert b'"key":"a.b"' in run("cat", tmp_path / "d", "a.b").stdout.replace(b" ", b"")
    assert run("cat", tmp_path / "d", "a.x").returncode == 0
    assert b"has no field" in run("cat", tmp_path / "d", "a.nope").stderr


def test_verify_prints_no_control_characters_of_a_key(tmp_path: Path) -> None:
    samples = [{"__key__": "k\x1b[31mred", "txt": "text" * 100}]
    stoker.ingest(samples, tmp_path / "d", format="mds")
    shard = next((tmp_path / "d").glob("*.mds"))
    data = bytearray(shard.read_bytes())
    data[-5] ^= 1
    shard.write_bytes(data)
    done = run("verify", tmp_path / "d")
    assert done.returncode == 1
    assert b"[31mred" in done.stdout
    assert b"\x1b" not in done.stdout
