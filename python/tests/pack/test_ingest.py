"""stoker.ingest and stoker.pack: shards that stoker and Python's own tools read back."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker


def samples(count: int) -> Iterator[dict[str, Any]]:
    for i in range(count):
        yield {
            "__key__": f"k{i:03}",
            "jpg": bytes([i]) * 5,
            "txt": f"text {i} ä",
            "n": i,
            "x": i / 4,
            "vector": np.full((2, 3), i, np.int16),
            "meta.json": {"i": i, "list": [1, None, True]},
        }


REAL = {"x": 0.1, "exact": 0.5, "a": np.array([1.0, 0.3]), "l": [0.1, 2.0], "w": np.float32(0.1)}
ROUNDED = {f'field "{name}": float64 numbers were rounded to float32' for name in ("a", "l", "x")}


SHAPELESS = 'field "{}": arrays were stored without their shape'


def told_of(caught: Any) -> list[str]:
    return sorted(str(one.message).split(", because")[0] for one in caught)


def test_fields_whose_numbers_tfrecord_rounds_are_named_once(
    tmp_path: Path, recwarn: pytest.WarningsRecorder, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = [REAL] * 5
    stoker.ingest(rows, tmp_path / "tar")
    stoker.ingest(rows, tmp_path / "mds", format="mds")
    stoker.ingest([{"exact": 0.5}], tmp_path / "exact", format="tfrecord")
    assert not recwarn.list
    stoker.ingest(rows, tmp_path / "tfrecord", format="tfrecord", samples_per_shard=2)
    assert told_of(recwarn.list) == sorted(ROUNDED)

    lines = tmp_path / "a.jsonl"
    lines.write_text('{"x": 0.1, "exact": 0.5, "l": [0.1, 2]}\n{"x": 7.1, "exact": 1, "l": []}\n')
    expected = sorted(one for one in ROUNDED if '"a"' not in one)
    with pytest.warns(UserWarning, match="rounded to float32") as caught:
        stoker.pack(lines, tmp_path / "one", format="tfrecord")
    assert told_of(caught) == expected
    settings: Any = {"format": "tfrecord", "samples_per_shard": 1}
    for task in range(2):
        with pytest.warns(UserWarning, match="rounded to float32"):
            stoker.pack(lines, tmp_path / "two", task=(task, 2), **settings)
    with pytest.warns(UserWarning, match="rounded to float32") as caught:  # the shards of all tasks
        stoker.merge_pack(tmp_path / "two")
    assert told_of(caught) == expected

    command = Path(__file__).parents[3] / "build" / "release" / "stoker"
    for verb, source in (("pack", lines), ("convert", tmp_path / "mds")):
        arguments: list[str | Path] = [
            command,
            verb,
            source,
            tmp_path / verb,
            "--format",
            "tfrecord",
        ]
        subprocess.run(arguments, check=True)
        remarks = [line for line in capfd.readouterr().err.splitlines() if "rounded" in line]
        assert [line.split(",")[0] for line in remarks][-1] == max(ROUNDED)


def test_fields_whose_shape_tfrecord_loses_are_named_once(
    tmp_path: Path, recwarn: pytest.WarningsRecorder, capfd: pytest.CaptureFixture[str]
) -> None:
    row = {"image": np.ones((2, 3), np.uint8), "x": np.ones((1, 2), np.float32)}
    row |= {"flat": np.arange(3), "one": np.array(1), "json": [[1, 2], [3, 4]]}
    stoker.ingest([row] * 3, tmp_path / "tar")
    stoker.ingest([row] * 3, tmp_path / "mds", format="mds")
    assert not recwarn.list
    stoker.ingest([row] * 3, tmp_path / "new", format="tfrecord", samples_per_shard=1)
    told = [SHAPELESS.format("image"), SHAPELESS.format("x")]
    assert told_of(recwarn.list) == told
    fields: Any = {"image": stoker.Array(np.int64, (2, 3)), "x": stoker.Array(np.float32, (1, 2))}
    batch = next(iter(stoker.Loader(tmp_path / "new", batch_size=3, fields=fields)))
    assert [tuple(batch[name].shape) for name in fields] == [(3, 2, 3), (3, 1, 2)]

    command = Path(__file__).parents[3] / "build" / "release" / "stoker"
    words: list[str | Path] = [command, "convert", tmp_path / "mds", tmp_path / "out"]
    words += ["--format", "tfrecord"]
    subprocess.run(words, check=True)
    remarks = capfd.readouterr().err.splitlines()
    assert [line.split(", because")[0] for line in remarks] == told


def test_a_tar_is_read_back_by_pythons_tarfile(tmp_path: Path) -> None:
    report = stoker.ingest(samples(25), tmp_path / "out", samples_per_shard=10)
    assert (report.shard_count, report.sample_count, report.is_complete) == (3, 25, True)
    names = sorted(path.name for path in (tmp_path / "out").iterdir() if path.name[0] != ".")
    assert names == ["manifest.json", *(f"shard-{i:06}.tar" for i in range(3))]
    with tarfile.open(tmp_path / "out" / "shard-000002.tar") as archive:
        content = {m.name: archive.extractfile(m).read() for m in archive}  # type: ignore[union-attr]
    assert content["k024.jpg"] == bytes([24]) * 5
    assert content["k024.txt"] == "text 24 ä".encode()
    assert content["k024.n"] == b"24"
    assert content["k024.x"] == b"6"
    assert json.loads(content["k024.meta.json"]) == {"i": 24, "list": [1, None, True]}
    vector = np.load(io.BytesIO(content["k024.vector.npy"]))
    assert vector.dtype == np.int16
    assert np.array_equal(vector, np.full((2, 3), 24))


def test_what_is_ingested_verifies_and_has_checksums(tmp_path: Path) -> None:
    stoker.ingest(samples(12), tmp_path / "out", samples_per_shard=5)
    ds = stoker.Dataset(tmp_path / "out", verify="full", checksums=True)
    assert len(ds) == 12
    assert ds[7]["__key__"] == "k007"
    assert ds[7]["meta.json"] == {"i": 7, "list": [1, None, True]}


def test_mds_keeps_every_type(tmp_path: Path) -> None:
    rows = ({key: v for key, v in s.items() if key != "jpg"} for s in samples(6))
    stoker.ingest(rows, tmp_path / "out", format="mds", samples_per_shard=4)
    ds = stoker.Dataset(tmp_path / "out", verify="full")
    sample = ds[5]
    assert (ds.format, len(ds)) == ("mds", 6)
    assert (sample["__key__"], ds.keys(5)) == ("k005", ["k005"])
    assert sample["txt"] == "text 5 ä"
    assert (sample["n"].shape, int(sample["n"]), float(sample["x"])) == ((), 5, 1.25)
    assert sample["n"].dtype == np.int64
    assert np.array_equal(sample["vector"], np.full((2, 3), 5, np.int16))
    assert sample["vector"].dtype == np.int16
    assert sample["meta.json"] == {"i": 5, "list": [1, None, True]}


def test_mds_refuses_text_in_a_column_of_numbers(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the value is text"):
        stoker.ingest([{"a": 1}, {"a": "abcdefgh"}], tmp_path, format="mds")
    assert list(tmp_path.iterdir()) == []


def test_tfrecord_keeps_lists(tmp_path: Path) -> None:
    rows = ({"n": i, "v": np.arange(i, dtype=np.float32), "b": b"x"} for i in range(4))
    stoker.ingest(rows, tmp_path / "out", format="tfrecord")
    sample = stoker.Dataset(tmp_path / "out", verify="full")[3]
    assert sample["n"].tolist() == [3]
    assert sample["v"].tolist() == [0.0, 1.0, 2.0]
    assert sample["b"].tobytes() == b"x"
    assert sample["__key__"] == "000000003"


def test_big_endian_arrays_become_little(tmp_path: Path) -> None:
    rows = [{"v": np.array([[1, 258]], ">i4")}]
    stoker.ingest(rows, tmp_path / "out", format="mds")
    assert stoker.Dataset(tmp_path / "out")[0]["v"].tolist() == [[1, 258]]


def test_tokens_keep_their_dtype(tmp_path: Path) -> None:
    rows = ({"tokens": np.arange(i + 1, dtype=np.uint16)} for i in range(5))
    stoker.ingest(rows, tmp_path / "out", format="tokens", samples_per_shard=2)
    ds = stoker.Dataset(tmp_path / "out")
    assert (ds.format, len(ds)) == ("megatron", 5)
    assert ds[4]["tokens"].dtype == np.uint16
    assert ds[4]["tokens"].tolist() == [0, 1, 2, 3, 4]


def test_a_dataset_can_be_ingested_again(shards: Path, tmp_path: Path) -> None:
    ds = stoker.Dataset(shards)
    stoker.ingest(ds.select([40, 3]), tmp_path / "out")
    again = stoker.Dataset(tmp_path / "out")
    assert again.keys() == ["s040", "s003"]
    assert again[0]["bin"].tobytes() == ds[40]["bin"].tobytes()
    assert again[0]["cls"] == 40


def test_samples_without_keys_are_numbered(tmp_path: Path) -> None:
    stoker.ingest([{"n": 1}, {"n": np.float32(2)}], tmp_path / "out")
    assert stoker.Dataset(tmp_path / "out").keys() == ["000000000", "000000001"]


def test_shards_are_cut_by_size_too(tmp_path: Path) -> None:
    rows = ({"bin": bytes(1024)} for _ in range(10))
    assert stoker.ingest(rows, tmp_path / "out", shard_size="3KiB").shard_count == 4


def test_if_the_iterable_raises_nothing_is_left(tmp_path: Path) -> None:
    def broken() -> Iterator[dict[str, Any]]:
        yield from samples(5)
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke") as raised:
        stoker.ingest(broken(), tmp_path / "out", samples_per_shard=2)
    assert raised.tb is not None  # its frames, and what is in them, are still there
    assert list((tmp_path / "out").iterdir()) == []
    assert stoker.ingest(samples(5), tmp_path / "out").sample_count == 5


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), "object has no form"),
        ({"x": object()}, "is not JSON"),
        (float, "type has no form"),
        (2**70, "does not fit a signed 64-bit integer"),
        (2**64 - 1, "does not fit a signed 64-bit integer"),
        (np.array([1 + 2j]), "complex|<c16"),
        ([float("nan")], "is not JSON"),
    ],
)
def test_what_has_no_form_is_named(tmp_path: Path, value: object, message: str) -> None:
    with pytest.raises((ValueError, OSError), match=message) as raised:
        stoker.ingest([{"a": 1}, {"field": value}], tmp_path / "out")
    assert "sample 1" in str(raised.value)
    assert "field" in str(raised.value)


def test_arguments_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no samples"):
        stoker.ingest([], tmp_path / "none")
    with pytest.raises(ValueError, match="cannot be written"):
        stoker.ingest([{}], tmp_path / "x", format="zip")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 1"):
        stoker.ingest([{}], tmp_path / "x", samples_per_shard=0)
    with pytest.raises(TypeError, match=r"^samples_per_shard=1\.5: must be a whole number$"):
        stoker.ingest([{}], tmp_path / "x", samples_per_shard=1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="give dicts"):
        stoker.ingest([b"x"], tmp_path / "y")  # type: ignore[list-item]
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_bytes(b"")
    with pytest.raises(FileExistsError, match="not empty"):
        stoker.ingest(samples(1), tmp_path / "full")
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["file"]


def test_a_forked_child_takes_nothing_back(tmp_path: Path) -> None:
    def forking() -> Iterator[dict[str, Any]]:
        for sample in samples(4):
            yield sample
            child = os.fork()
            if child == 0:
                raise SystemExit  # through ingest(), as in the parent
            os.waitpid(child, 0)

    try:
        report = stoker.ingest(forking(), tmp_path / "out", samples_per_shard=1)
    except SystemExit:
        os._exit(0)
    assert report.shard_count == 4
    assert len(stoker.Dataset(tmp_path / "out", verify="full")) == 4


def test_lists_of_numbers_are_numbers_in_a_tfrecord(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"i": [1, -2], "f": (1, 0.5), "empty": [], "m": [1, "x"], "large": [2**63], "n": [[1]]},
        {"i": [3], "f": [2.5], "empty": [], "m": [2, None], "large": [2**64], "n": [[2]]},
    ]
    stoker.ingest(rows, tmp_path / "out", format="tfrecord")
    first, second = stoker.Dataset(tmp_path / "out")
    assert (first["i"].dtype, first["i"].tolist()) == (np.int64, [1, -2])
    assert (first["f"].dtype, first["f"].tolist()) == (np.float32, [1, 0.5])
    assert first["empty"].size == 0
    assert (second["i"].tolist(), second["f"].tolist()) == ([3], [2.5])
    assert bytes(second["m"]) == b"[2,null]"
    assert bytes(second["large"]) == b"[18446744073709551616]"
    assert bytes(second["n"]) == b"[[2]]"


def image_tree(folder: Path) -> Path:
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        for i in range(6):
            (folder / name / f"{i}.jpg").write_bytes(name.encode() + bytes([i]))
    return folder


def test_pack_takes_a_tree_of_classes(tmp_path: Path) -> None:
    report = stoker.pack(image_tree(tmp_path / "src"), tmp_path / "out", samples_per_shard=5)
    assert (report.sample_count, report.shard_count, report.format) == (12, 3, "tar")
    assert repr(report).startswith("PackReport(format='tar', shard_count=3, sample_count=12")
    ds = stoker.Dataset(tmp_path / "out", verify="full")
    assert sorted(bytes(sample["jpg"][:3]) for sample in ds) == [b"cat"] * 6 + [b"dog"] * 6
    again = stoker.pack(tmp_path / "src", tmp_path / "out", samples_per_shard=5)
    assert again.shards_found == 3


def test_pack_in_tasks_is_merged(tmp_path: Path) -> None:
    source = image_tree(tmp_path / "src")
    for i in range(2):
        report = stoker.pack(source, tmp_path / "out", samples_per_shard=3, task=(i, 2))
        assert not report.is_complete
    assert stoker.merge_pack(tmp_path / "out").sample_count == 12
    assert len(stoker.Dataset(tmp_path / "out", verify="full")) == 12


def test_pack_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        stoker.pack(tmp_path / "nowhere", tmp_path / "out")
    with pytest.raises(ValueError, match="12 parsecs"):
        stoker.pack(image_tree(tmp_path / "src"), tmp_path / "out", shard_size="12 parsecs")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("samples_per_shard", 0),
        ("samples_per_shard", -1),
        ("threads", -1),
        ("shuffle_seed", -1),
        ("shuffle_seed", 2**64),
        ("sequence_length", 0),
        ("task", (2, 2)),
        ("task", (-1, 2)),
    ],
)
def test_pack_refuses_numbers_in_a_sentence(tmp_path: Path, name: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"^{name}=.*from 0|^{name}=.*: from [01] to") as raised:
        stoker.pack(tmp_path, tmp_path / "out", **{name: value})  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("samples_per_shard", 1.5),
        ("samples_per_shard", "x"),
        ("threads", 1.5),
        ("shard_size", 1.5),
        ("task", -1),
        ("task", (0, 1, 2)),
        ("task", (0.5, 2)),
    ],
)
def test_pack_refuses_what_is_no_whole_number(tmp_path: Path, name: str, value: object) -> None:
    with pytest.raises(TypeError, match=rf"^{name}=.*whole number") as raised:
        stoker.pack(tmp_path, tmp_path / "out", **{name: value})  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)
    with pytest.raises(ValueError, match=r"^shard_size=0: must be at least 1$"):
        stoker.pack(tmp_path, tmp_path / "out", shard_size=0)


@pytest.mark.parametrize(("layout", "dtype"), [("counted", "uint8"), ("shard001", "uint8")])
def test_arrays_of_one_length_in_a_headered_layout(tmp_path: Path, layout: Any, dtype: Any) -> None:
    rows = [np.full(5, i, dtype) for i in range(10)]
    stoker.ingest(({"tokens": row} for row in rows), tmp_path / "out", format=layout)
    dataset = stoker.Dataset(tmp_path / "out", dtype=dtype)
    assert [dataset[i]["tokens"].tolist() for i in range(10)] == [row.tolist() for row in rows]
    uneven = ({"tokens": np.zeros(5 + i, dtype)} for i in range(2))
    with pytest.raises(ValueError, match=f"6 elements .* {layout} holds rows of one length"):
        stoker.ingest(uneven, tmp_path / "uneven", format=layout)
    assert list((tmp_path / "uneven").iterdir()) == []


def test_a_mask_is_not_lost(tmp_path: Path) -> None:
    ma: Any = np.ma
    masked = ma.array([1, 2, 3], mask=[False, True, False])
    with pytest.raises(ValueError, match="'x': a masked array, whose mask would be lost"):
        stoker.ingest([{"x": masked}], tmp_path / "out")
    stoker.ingest([{"x": ma.array([1, 2, 3])}], tmp_path / "whole")
