"""Packs that are refused or unfinished: what they leave behind, and what is said of them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

COMMAND = Path(__file__).parents[3] / "build" / "release" / "stoker"


def left_in(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def test_a_table_that_is_refused_leaves_the_directory_to_the_next(
    tmp_path: Path, arrow: Any
) -> None:
    source, out = tmp_path / "a.parquet", tmp_path / "out"
    lists = arrow.array([[1, 2], [3, None]], arrow.list_(arrow.int32()))
    arrow.parquet.write_table(arrow.table({"n": [0, 1], "x": lists}), source)
    for seed in (None, 5):
        with pytest.raises(ValueError, match="a null in a list"):
            stoker.pack(source, out, shuffle_seed=seed, samples_per_shard=2)
        assert not left_in(out)
    assert stoker.pack(source, out, columns=["n"]).sample_count == 2


def test_jsonl_that_is_refused_leaves_the_directory_to_the_next(tmp_path: Path) -> None:
    source, out = tmp_path / "a.jsonl", tmp_path / "out"
    source.write_text('{"n": 0.5}\n{"n": 16777217}\n')
    with pytest.raises(ValueError, match=r"line 2: field \"?n\"?: 16777217 is an integer"):
        stoker.pack(source, out, format="tfrecord")
    assert not left_in(out)
    stoker.pack(source, out, format="mds")
    assert [float(s["n"]) for s in stoker.Dataset(out)] == [0.5, 16777217]


def test_a_refused_pack_keeps_the_shards_that_an_earlier_one_finished(tmp_path: Path) -> None:
    source, out = tmp_path / "a.jsonl", tmp_path / "out"
    source.write_text('{"n": [0.5]}\n{"n": [16777217]}\n')
    with pytest.raises(ValueError, match="16777217 is an integer"):
        stoker.pack(source, out, format="tfrecord", samples_per_shard=1, threads=1)
    assert (out / "shard-000000.tfrecord").exists()
    with pytest.raises(FileExistsError, match="another pack job"):
        stoker.pack(source, out, format="tar")


@pytest.mark.parametrize("format", ["tar", "mds", "tfrecord", "counted"])
@pytest.mark.parametrize("task", [(0, 2), None])
def test_an_unfinished_pack_is_called_that(
    tmp_path: Path,
    format: Any,  # noqa: A002
    task: tuple[int, int] | None,
) -> None:
    out = tmp_path / "out"
    if format == "counted":
        source = tmp_path / "t.bin"
        source.write_bytes(np.arange(64, dtype=np.uint16).tobytes())
        options: dict[str, Any] = {"dtype": "uint16", "sequence_length": 8, "kind": "raw"}
    else:
        source = tmp_path / "a.jsonl"
        source.write_text("".join(f'{{"n": {i}}}\n' for i in range(8)))
        options = {}
    stoker.pack(source, out, format=format, samples_per_shard=2, task=(0, 2), **options)
    shards = [
        path for path in out.iterdir() if path.suffix in (".tar", ".mds", ".tfrecord", ".bin")
    ]
    if task is None:  # killed before its first shard was whole
        for shard in shards:
            shard.rename(shard.with_name(f"{shard.name}.staged-1-0"))
    elif format == "tfrecord":
        (out / "shard-000009.tfrecord.staged-1-0").write_bytes(b"")
    with pytest.raises((ValueError, OSError), match="packing was not finished"):
        stoker.Dataset(out)
    ran = subprocess.run([COMMAND, "verify", out], capture_output=True, text=True, check=False)
    assert ran.returncode == 1, ran.stderr
    assert f"{out}: packing was not finished" in ran.stdout
    assert not ran.stderr


def test_text_is_refused_with_the_option_that_it_needs(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("some text")
    with pytest.raises(ValueError, match="Text needs --tokenizer FILE"):
        stoker.pack(tmp_path / "corpus.txt", tmp_path / "out")


def test_an_argument_that_is_misspelled_is_told_what_may_be_meant(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"n": 1}\n')
    for given, meant in (("shufle_seed", "shuffle_seed"), ("colums", "columns")):
        misspelled: Any = {given: 3}
        message = rf"pack\(\) has no argument '{given}'; did you mean '{meant}'\?"
        with pytest.raises(TypeError, match=message):
            stoker.pack(tmp_path / "a.jsonl", tmp_path / "out", **misspelled)
    assert not (tmp_path / "out").exists()


def test_a_source_that_is_missing_is_told_whatever_the_options(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"n": 1}\n')
    with pytest.raises(ValueError, match="columns: these files have no such option"):
        stoker.pack(tmp_path / "a.jsonl", tmp_path / "out", columns=["n"])
    with pytest.raises(FileNotFoundError, match="rows"):
        stoker.pack(tmp_path / "rows", tmp_path / "out", columns=["n"])
    assert not (tmp_path / "out").exists()


def test_a_bucket_as_destination_is_refused_and_no_directory_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = "^s3://b/x: Python writes to directories; `stoker pack` and `stoker cp` write"
    with pytest.raises(ValueError, match=refused):
        stoker.pack(tmp_path, "s3://b/x")
    with pytest.raises(ValueError, match=refused):
        stoker.ingest([{"x": 1}], "s3://b/x")
    with pytest.raises(ValueError, match=refused):
        stoker.merge_pack("s3://b/x")
    assert not list(tmp_path.iterdir())
