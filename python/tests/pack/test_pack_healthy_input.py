"""Input that other programs accept: it is packed unchanged, or refused with what to do."""

from __future__ import annotations

import io
import json
import struct
import tarfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

WriteTar = Callable[..., Path]


def raw_fields(shard: Path) -> dict[str, bytes]:
    with tarfile.open(shard) as archive:
        return {m.name: archive.extractfile(m).read() for m in archive}  # type: ignore[union-attr]


@pytest.mark.parametrize("format", ["tar", "mds"])
def test_jsonl_keeps_the_order_of_members(tmp_path: Path, format: Any) -> None:  # noqa: A002
    source = tmp_path / "a.jsonl"
    source.write_text('{"meta": {"z": 1, "a": {"y": 2, "b": [{"k": 1, "c": 2}]}}, "a": 1}\n')
    stoker.pack(source, tmp_path / "out", format=format)
    meta = stoker.Dataset(tmp_path / "out")[0]["meta"]
    assert json.dumps(meta) == '{"z": 1, "a": {"y": 2, "b": [{"k": 1, "c": 2}]}}'
    if format == "tar":
        raw = raw_fields(tmp_path / "out" / "shard-000000.tar")
        assert raw["000000000.meta"] == b'{"z":1,"a":{"y":2,"b":[{"k":1,"c":2}]}}'


def test_jsonl_with_a_byte_order_mark_is_packed(tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    source.write_bytes(b'\xef\xbb\xbf{"a": "x"}\r\n{"a": "y"}\r\n')
    stoker.pack(source, tmp_path / "out")
    assert [sample["a"] for sample in stoker.Dataset(tmp_path / "out")] == ["x", "y"]
    source.write_bytes(b'{"a": "x"}\n\xef\xbb\xbf{"a": "y"}\n')
    with pytest.raises(stoker.CorruptError, match="line 2: byte 0: a byte-order mark"):
        stoker.pack(source, tmp_path / "again")


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ('{"a": NaN}', r"line 1: byte 6: not valid JSON \(JSON has no NaN.*write null"),
        ('{"a": [1, -Infinity]}', "not valid JSON .*in quotes"),
        ('{"a": "\\ud800"}', "line 1: .*surrogate pair.*; replace it"),
    ],
)
def test_what_only_python_takes_for_json_is_refused_with_what_to_do(
    tmp_path: Path, line: str, advice: str
) -> None:
    (tmp_path / "a.jsonl").write_text(line + "\n")
    with pytest.raises(stoker.CorruptError, match=advice):
        stoker.pack(tmp_path / "a.jsonl", tmp_path / "out")


@pytest.mark.parametrize("beside", [(), ("manifest.json", "00000.parquet.json", "README.md")])
@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tfrecord", "shard.00000.mds"])
def test_shards_are_not_packed_as_files(
    tmp_path: Path, write_tar: WriteTar, name: str, beside: tuple[str, ...]
) -> None:
    folder = tmp_path / "shards"
    folder.mkdir()
    shard = write_tar(folder / name, {"x": {"txt": b"1"}})
    for other in beside:
        (folder / other).write_text("{}")
    for source in (folder, shard):
        with pytest.raises(ValueError, match=f"{name}: these are shards already: .*convert"):
            stoker.pack(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stoker.pack(folder, tmp_path / "out", kind="tree")
    field = name.partition(".")[2]
    found = [sample[field] for sample in stoker.Dataset(tmp_path / "out") if field in sample]
    assert [data.tobytes() for data in found] == [shard.read_bytes()]


def test_tars_with_tables_beside_them_are_not_packed_as_tables(
    tmp_path: Path, write_tar: WriteTar
) -> None:
    """As img2dataset writes them."""
    folder = tmp_path / "shards"
    folder.mkdir()
    for i in range(3):
        write_tar(folder / f"0000{i}.tar", {f"{i}": {"txt": b"1"}})
        (folder / f"0000{i}.parquet").write_bytes(b"PAR1")
        (folder / f"0000{i}_stats.json").write_text("{}")
    with pytest.raises(ValueError, match="these are shards already"):
        stoker.pack(folder, tmp_path / "out")
    assert len(stoker.Dataset(folder)) == 3


def test_a_tree_of_samples_may_have_a_tar(tmp_path: Path, write_tar: WriteTar) -> None:
    folder = tmp_path / "tree"
    folder.mkdir()
    for i in range(3):
        (folder / f"{i}.wav").write_bytes(b"1")
    write_tar(folder / "0.tar", {"x": {"txt": b"1"}})
    assert stoker.pack(folder, tmp_path / "out").sample_count == 3


def write_mds(folder: Path, columns: dict[str, str], rows: list[list[bytes]]) -> None:
    """An MDS shard of columns of variable size."""
    config = {
        "column_encodings": list(columns.values()),
        "column_names": list(columns),
        "column_sizes": [None] * len(columns),
        "compression": None,
        "format": "mds",
        "hashes": [],
        "size_limit": 1 << 26,
        "version": 2,
    }
    text = json.dumps(config, sort_keys=True).encode()
    records = [struct.pack(f"<{len(row)}I", *map(len, row)) + b"".join(row) for row in rows]
    begin = 4 * (len(records) + 2) + len(text)
    ends = np.cumsum([begin, *map(len, records)]).astype("<u4")
    data = struct.pack("<I", len(records)) + ends.tobytes() + text + b"".join(records)
    folder.mkdir()
    (folder / "shard.00000.mds").write_bytes(data)
    raw = {"basename": "shard.00000.mds", "bytes": len(data), "hashes": {}}
    shard = {**config, "raw_data": raw, "samples": len(records), "zip_data": None}
    (folder / "index.json").write_text(json.dumps({"shards": [shard], "version": 2}))


def test_mds_numbers_that_are_stored_as_text_are_numbers(tmp_path: Path) -> None:
    columns = {"d": "str_decimal", "f": "str_float", "i": "str_int"}
    rows = [[b"1.50", b"0.5", b"-7"], [b"2", b"1e-05", b"10000000000000000000000001"]]
    write_mds(tmp_path / "mds", columns, rows)
    first, second = stoker.Dataset(tmp_path / "mds")
    assert (first["d"], first["f"], first["i"]) == ("1.50", 0.5, -7)
    assert isinstance(first["f"], np.float64)
    assert isinstance(first["i"], np.int64)
    assert (second["f"], second["i"]) == (1e-05, 10**25 + 1)
    loader = stoker.Loader(tmp_path / "mds", batch_size=2, shuffle="off", fields={"f": float})
    assert next(iter(loader))["f"].tolist() == [0.5, 1e-05]


def test_booleans_are_a_column_of_bool(tmp_path: Path, write_tar: WriteTar) -> None:
    texts = [b"true", b"false", b"True", b" 0\n"]
    samples = {f"s{i}": {"flag": text, "json": b'{"a": 1}'} for i, text in enumerate(texts)}
    tar = write_tar(tmp_path / "a.tar", samples)
    options: dict[str, Any] = {"batch_size": 4, "shuffle": "off", "torch": False}
    for fields in ({"flag": bool}, {"flag": stoker.Field("flag", bool)}):
        batch = next(iter(stoker.Loader(tar, fields=fields, **options)))
        assert batch["flag"].dtype == np.bool_
        assert batch["flag"].tolist() == [True, False, True, False]
    for kind in (np.bool_, "bool"):
        with pytest.raises(ValueError, match=r"'flag'|\"flag\"") as refused:
            next(iter(stoker.Loader(tar, fields={"flag": kind}, **options)))
        assert "ask for bool" in str(refused.value)
    with pytest.raises(ValueError, match="not true or false"):
        next(iter(stoker.Loader(tar, fields={"json": bool}, **options)))


def test_booleans_of_typed_formats_and_arrays_are_a_column_of_bool(tmp_path: Path) -> None:
    options: dict[str, Any] = {"batch_size": 2, "shuffle": "off", "torch": False}
    samples = [{"flag": True, "n": 1, "two": 2}, {"flag": False, "n": 0, "two": 2}]
    for format in ("tar", "mds"):  # noqa: A001
        stoker.ingest(samples, tmp_path / format, format=format)
        fields = {"flag": bool, "n": bool}
        batch = next(iter(stoker.Loader(tmp_path / format, fields=fields, **options)))
        assert batch["flag"].tolist() == batch["n"].tolist() == [True, False]
        with pytest.raises(ValueError, match="ask for int or float"):
            next(iter(stoker.Loader(tmp_path / format, fields={"two": bool}, **options)))
        with pytest.raises(ValueError, match="ask for bool"):
            next(iter(stoker.Loader(tmp_path / format, fields={"flag": np.bool_}, **options)))
    stoker.ingest([{"mask": np.array([True, False])}] * 2, tmp_path / "array")
    mask = {"mask.npy": np.bool_}
    batch = next(iter(stoker.Loader(tmp_path / "array", fields=mask, **options)))
    assert batch["mask.npy"].tolist() == [[True, False]] * 2


@pytest.mark.parametrize("format", ["tar", "mds", "tfrecord"])
def test_strings_of_numpy_are_text_and_bytes(tmp_path: Path, format: Any) -> None:  # noqa: A002
    sample = {"__key__": np.str_("k"), "txt": np.str_("ä"), "bin": np.bytes_(b"\xff\0b")}
    stoker.ingest([sample], tmp_path / "out", format=format)
    (found,) = stoker.Dataset(tmp_path / "out")
    text = found["txt"] if format != "tfrecord" else found["txt"].tobytes().decode()
    assert (found["__key__"], text, found["bin"].tobytes()) == ("k", "ä", b"\xff\0b")


def test_a_tar_behind_a_skippable_frame_of_zstd_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.zst"
    path.write_bytes(b"\x50\x2a\x4d\x18" + struct.pack("<I", 4) + b"size" + b"\x28\xb5\x2f\xfd")
    with pytest.raises(OSError, match=r"zstd cannot be read at random; .*stoker convert"):
        stoker.Dataset(path)


def test_a_single_value_in_hdf5_is_left_out(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(3)
        file["version"] = 2
    with pytest.warns(UserWarning, match="version: a single value, not rows"):
        stoker.pack(tmp_path / "a.h5", tmp_path / "out")
    assert [sample["x"] for sample in stoker.Dataset(tmp_path / "out")] == [0, 1, 2]
    with pytest.raises(ValueError, match=r"'version' is a single value .*--datasets"):
        stoker.pack(tmp_path / "a.h5", tmp_path / "named", datasets=["x", "version"])


@pytest.mark.parametrize("view", ["list_view", "large_list_view"])
def test_a_list_view_of_numbers_is_an_array(tmp_path: Path, arrow: Any, view: str) -> None:
    if not hasattr(arrow, view):
        pytest.skip("this pyarrow has no list views")
    rows = [[1, 2], None, [], [3]]
    column = arrow.array(rows, getattr(arrow, view)(arrow.int16()))
    table = arrow.table({"n": [0, 1, 2, 3], "x": column}).slice(0, 4)
    path = str(tmp_path / "a.arrow")
    with arrow.OSFile(path, "wb") as file, arrow.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    stoker.pack(tmp_path / "a.arrow", tmp_path / "out")
    with tarfile.open(tmp_path / "out" / "shard-000000.tar") as archive:
        member = archive.extractfile("000000000.x.npy")
        assert member is not None
        first = np.load(io.BytesIO(member.read()))
    assert (first.dtype, first.tolist()) == (np.int16, [1, 2])
    found = [sample.get("x.npy") for sample in stoker.Dataset(tmp_path / "out")]
    assert [None if x is None else x.tolist() for x in found] == rows


@pytest.mark.parametrize("folder", ["data", "k=1", "."])
def test_a_folder_of_parquet_may_have_a_readme(tmp_path: Path, folder: str) -> None:
    """As a snapshot of Hugging Face has it."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    tree = tmp_path / "tree"
    (tree / folder).mkdir(parents=True)
    parquet.write_table(arrow.table({"a": [1, 2]}), tree / folder / "train.parquet")
    for name in ("README.md", "LICENSE", "data.md5"):
        (tree / name).write_text("about the data")
    (tree / folder / "stats.json").write_text("{}")
    if folder != ".":
        (tree / "data.md5").unlink()
    stoker.pack(tree, tmp_path / "out")
    assert [sample["a"] for sample in stoker.Dataset(tmp_path / "out")] == [1, 2]


def test_files_beside_shards_are_no_shards(tmp_path: Path, write_tar: WriteTar) -> None:
    tars = tmp_path / "tars"
    tars.mkdir()
    write_tar(tars / "a.tar", {"x": {"txt": b"1"}})
    (tars / "index.json").write_text('{"wids_version": 1, "shardlist": []}')
    assert len(stoker.Dataset(tars)) == 1
    records = tmp_path / "records"
    stoker.ingest([{"x": b"1"}], records, format="tfrecord")
    (records / "manifest.json").unlink()
    shard = next(records.glob("*.tfrecord*"))
    for ending in ("idx", "index", "md5", "json"):
        (records / f"{shard.name}.{ending}").write_text("beside")
    assert len(stoker.Dataset(records)) == 1
