"""stoker.pack() of Parquet: parallel, in tasks, killed and restarted, always the same bytes."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from stoker._pack import importers as _importers
from stoker._pack import rows as _pack_rows
from stoker._pack.importers.parquet import ParquetRows

ROWS = 230

Files = Callable[[Path], dict[str, bytes]]


def write_rows(path: Path, *, row_group_size: int = 17, first: int = 0, rows: int = ROWS) -> Path:
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    numbers = range(first, first + rows)
    table = arrow.table(
        {
            "id": [f"row{i:05}" for i in numbers],
            "label": list(numbers),
            "image": [bytes([i % 256]) * (i % 97 + 1) for i in numbers],
            "text": [None if i % 5 == 0 else f"text {i}" for i in numbers],
        }
    )
    parquet.write_table(table, path, row_group_size=row_group_size)
    return path


def pack(source: Path, folder: Path, **options: Any) -> dict[str, bytes]:
    stoker.pack(source, folder, **{"samples_per_shard": 20, "key": "id", **options})
    return {p.name: p.read_bytes() for p in folder.iterdir() if not p.name.startswith(".")}


@pytest.mark.parametrize("row_group_size", [1, 7, 20, 64, 1000])
@pytest.mark.parametrize("threads", [1, 5])
def test_row_groups_and_threads_change_nothing(
    tmp_path: Path, row_group_size: int, threads: int
) -> None:
    whole = pack(write_rows(tmp_path / "a.parquet"), tmp_path / "one", threads=1)
    source = write_rows(tmp_path / "b.parquet", row_group_size=row_group_size)
    assert pack(source, tmp_path / "two", threads=threads) == whole
    ds = stoker.Dataset(tmp_path / "two", verify="full")
    assert ds.keys() == [f"row{i:05}" for i in range(ROWS)]
    assert ds[101]["image"].tobytes() == bytes([101]) * 5
    assert ds[101]["label"] == 101


def test_a_folder_is_read_in_the_order_of_its_names(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for start in (200, 0, 100):
        write_rows(folder / f"part-{start:03}.parquet", first=start, rows=100)
    pack(folder, tmp_path / "out")
    assert stoker.Dataset(tmp_path / "out").keys() == [f"row{i:05}" for i in range(300)]


def test_folders_called_name_and_value_are_columns(tmp_path: Path) -> None:
    for year in (2023, 2024):
        (tmp_path / "in" / f"year={year}").mkdir(parents=True)
        write_rows(tmp_path / "in" / f"year={year}" / "a.parquet", first=year, rows=3)
    pack(tmp_path / "in", tmp_path / "out", columns=["year"], where="year > 2023")
    ds = stoker.Dataset(tmp_path / "out")
    assert [(s["__key__"], s["year"]) for s in ds] == [
        (f"row{i:05}", 2024) for i in range(2024, 2027)
    ]


def test_a_filter_counts_before_it_cuts(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "a.parquet")
    report = stoker.pack(
        source,
        tmp_path / "out",
        columns=["label"],
        where="label >= 50 and label < 143 and text != 'text 99'",
        samples_per_shard=20,
    )
    wanted = [i for i in range(50, 143) if i % 5 and i != 99]
    assert (report.sample_count, report.shard_count) == (len(wanted), -(-len(wanted) // 20))
    ds = stoker.Dataset(tmp_path / "out", verify="full")
    assert [int(sample["label"]) for sample in ds] == wanted
    assert set(ds[0]) == {"__key__", "label"}
    assert ds.keys(0, 2) == ["000000000", "000000001"]


@pytest.mark.parametrize("written", ["tar", "tfrecord", "mds"])
def test_tasks_that_are_merged_equal_one_run(
    tmp_path: Path, written: str, visible_files: Files
) -> None:
    source = write_rows(tmp_path / "a.parquet")
    options: dict[str, Any] = {"format": written, "columns": ["label", "image"]}
    whole = pack(source, tmp_path / "one", **options)
    for i in (2, 0, 1):
        report = stoker.pack(
            source, tmp_path / "n", samples_per_shard=20, key="id", task=(i, 3), **options
        )
        assert (report.is_complete, report.shard_count) == (False, 4)
    with pytest.raises(FileExistsError, match="another pack job"):
        stoker.pack(source, tmp_path / "n", samples_per_shard=21, key="id", **options)
    assert stoker.merge_pack(tmp_path / "n").sample_count == ROWS
    assert visible_files(tmp_path / "n") == whole


def test_more_tasks_than_shards_and_a_missing_one(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "a.parquet", rows=30)
    for i in range(4):
        stoker.pack(source, tmp_path / "n", samples_per_shard=20, key="id", task=(i, 5))
        if i == 0:
            with pytest.raises(OSError, match="1 of 2 shards are not packed yet"):
                stoker.merge_pack(tmp_path / "n")
    assert stoker.merge_pack(tmp_path / "n").shard_count == 2


def test_a_kill_and_a_restart_give_the_same_bytes(
    tmp_path: Path, visible_files: Files, pack_until_killed: Callable[..., None]
) -> None:
    source = write_rows(tmp_path / "a.parquet")
    whole = pack(source, tmp_path / "one")
    before = 0
    for samples in (15, 61, 199 - 60):
        pack_until_killed(samples, source, tmp_path / "two", samples_per_shard=20, key="id")
        left = visible_files(tmp_path / "two")
        assert "manifest.json" not in left
        assert left.items() <= whole.items()
        assert len(left) == before + samples // 20
        before = len(left)
    report = stoker.pack(source, tmp_path / "two", samples_per_shard=20, key="id")
    assert report.shards_found == 9
    assert visible_files(tmp_path / "two") == whole
    assert not [p for p in (tmp_path / "two").rglob("*") if "staged" in p.name]
    again = stoker.pack(source, tmp_path / "two", samples_per_shard=20, key="id")
    assert (again.shards_found, again.is_complete) == (12, True)


def test_a_shard_size_becomes_a_number_of_samples(tmp_path: Path, arrow: Any) -> None:
    table = arrow.table({"bin": [bytes([i]) * 10_000 for i in range(100)]})
    arrow.parquet.write_table(
        table, tmp_path / "a.parquet", row_group_size=10, use_dictionary=False
    )
    report = stoker.pack(tmp_path / "a.parquet", tmp_path / "out", shard_size="128KiB")
    assert report.shard_count == 10
    assert max(s.size_bytes for s in stoker.Dataset(tmp_path / "out").shards) <= 131072


def test_neighbouring_shards_of_a_row_group_are_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_rows(tmp_path / "a.parquet", row_group_size=64)  # begin at 0, 64, 128, 192
    reads: list[range] = []

    class Watched(ParquetRows):
        def read(self, rows: Any) -> Any:
            reads.append(rows)
            return super().read(rows)

    monkeypatch.setitem(_importers._KINDS, "parquet", (Watched, ("key",)))
    pack(source, tmp_path / "out", threads=1)
    assert reads == [
        range(1), range(80), range(80, 140), range(140, 200), range(200, 230)
    ]  # fmt: skip


def test_a_failing_row_leaves_whole_shards_and_is_named(
    tmp_path: Path, arrow: Any, visible_files: Files
) -> None:
    keys = [f"k{i}" for i in range(50)]
    keys[31] = "k30"
    arrow.parquet.write_table(arrow.table({"id": keys, "n": range(50)}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"a\.parquet: sample 31 \('k30'\): .*same key"):
        stoker.pack(tmp_path / "a.parquet", tmp_path / "out", key="id", samples_per_shard=10)
    left = visible_files(tmp_path / "out")
    assert {"shard-000000.tar", "shard-000001.tar", "shard-000002.tar"} >= left.keys()
    assert not [p for p in (tmp_path / "out").rglob("*") if "staged" in p.name]


def test_nulls_are_left_out_and_mds_says_which(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "a.parquet", rows=10)
    pack(source, tmp_path / "out")
    ds = stoker.Dataset(tmp_path / "out")
    assert "text" not in ds[5]
    assert ds[6]["text"] == "text 6"
    with pytest.raises(ValueError, match=r"sample 4 \('row00005'\): .*no field \"text\""):
        pack(source, tmp_path / "mds", format="mds", where="label > 0", threads=1)
    with pytest.raises(ValueError, match=r"sample 1 .*a field \"text\", which .* before it lack"):
        pack(source, tmp_path / "first", format="mds", threads=1)


def test_types_of_arrow_have_a_form(tmp_path: Path, arrow: Any) -> None:
    table = arrow.table(
        {
            "nested": [[[1, 2], [3]], [[], [4]]],
            "holes": [[1.5, None], [2, 3]],
            "map": [{"a": 1}, {"a": 2}],
            "when": [datetime.datetime(2024, 1, 2, 3, 4, 5), None],
            "day": [datetime.date(2024, 1, 2)] * 2,
            "price": [decimal.Decimal("1.50")] * 2,
            "took": arrow.array([7, 8], arrow.duration("ms")),
            "kind": arrow.array(["x", "y"]).dictionary_encode(),
            "vector": arrow.array([[1, 2], [3, 4]], arrow.list_(arrow.int16(), 2)),
            "empty": arrow.array([[], [1.5]], arrow.list_(arrow.float32())),
            "flag": [True, False],
        }
    )
    arrow.parquet.write_table(table, tmp_path / "a.parquet")
    stoker.pack(tmp_path / "a.parquet", tmp_path / "out")
    with tarfile.open(tmp_path / "out" / "shard-000000.tar") as archive:
        content = {m.name: archive.extractfile(m).read() for m in archive}  # type: ignore[union-attr]
    first = {n.partition(".")[2]: c for n, c in content.items() if n.startswith("000000000")}
    assert json.loads(first["nested"]) == [[1, 2], [3]]
    holes = np.load(io.BytesIO(first["holes.npy"]))
    assert np.array_equal(holes, [1.5, np.nan], equal_nan=True)
    assert json.loads(first["map"]) == {"a": 1}
    assert first["when"].startswith(b"2024-01-02 03:04:05")
    assert first["day"] == b"2024-01-02"
    assert (first["price"], first["took"], first["kind"]) == (b"1.50", b"7", b"x")
    assert first["flag"] == b"true"
    vector = stoker.Dataset(tmp_path / "out")[1]["vector.npy"]
    assert np.array_equal(vector, [3, 4])


def test_a_column_of_tokens_becomes_tokens(tmp_path: Path, arrow: Any) -> None:
    ids = arrow.array([list(range(i + 1)) for i in range(9)], arrow.list_(arrow.uint16()))
    arrow.parquet.write_table(arrow.table({"input_ids": ids}), tmp_path / "a.parquet")
    stoker.pack(tmp_path / "a.parquet", tmp_path / "out", format="tokens", samples_per_shard=4)
    ds = stoker.Dataset(tmp_path / "out", verify="full")
    assert (ds.format, ds[8]["tokens"].dtype) == ("megatron", np.uint16)
    assert [sample["tokens"].tolist() for sample in ds] == [list(range(i + 1)) for i in range(9)]


@pytest.mark.parametrize("name", ["../../up", "a/b", "/etc/x", "x\0y", "", "a.b", ".", "🦊", "a b"])
@pytest.mark.parametrize("written", ["tar", "mds", "tfrecord"])
def test_hostile_column_names_are_fields_or_errors(
    tmp_path: Path, name: str, written: Any, arrow: Any
) -> None:
    arrow.parquet.write_table(arrow.table({name: [b"1", b"2"]}), tmp_path / "a.parquet")
    message = ""
    try:
        stoker.pack(tmp_path / "a.parquet", tmp_path / "in" / "out", format=written)
    except ValueError as error:
        message = str(error)
    if message:
        assert "a.parquet" in message
    else:
        ds = stoker.Dataset(tmp_path / "in" / "out", verify="full")
        assert ds[1][name].tobytes() == b"2"
    names = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert all(n.startswith(("shard", "manifest", "index", "pack", "a.parquet")) for n in names)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["label", "nope"]}, "no column 'nope'; it has 'id', 'label'"),
        ({"columns": []}, "no columns to pack"),
        ({"key": "nope"}, "no column 'nope'"),
        ({"key": "text"}, "key='text': there is no such column, or it is null"),
        ({"where": "nope < 3"}, "no column 'nope'"),
        ({"where": "label < 'x'"}, "does not fit the columns"),
        ({"where": "label <"}, "COLUMN OPERATOR LITERAL"),
        ({"where": "label < 0"}, "no rows to pack"),
        ({"format": "zip"}, "cannot be written"),
        ({"format": "tokens"}, "tokens"),
        ({"field": "jpg"}, "parquet has no option field; it has columns, where, key"),
        ({"dtype": "uint16"}, "for arrays of tokens"),
        ({"task": (3, 3)}, "counts from 0"),
        ({"shard_size": 0}, "shard_size=0: must be at least 1"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    source = write_rows(tmp_path / "a.parquet", rows=10)
    with pytest.raises(ValueError, match=message):
        stoker.pack(source, tmp_path / "out", **options)
    assert not list(tmp_path.glob("out/shard*"))


def test_damage_is_corrupt_and_names_the_file(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "a.parquet")
    data = bytearray(source.read_bytes())
    (tmp_path / "tail.parquet").write_bytes(data[:-100])
    data[4:400] = bytes(396)
    (tmp_path / "head.parquet").write_bytes(data)
    for name in ("tail", "head"):
        with pytest.raises((stoker.CorruptError, OSError), match=rf"{name}\.parquet"):
            stoker.pack(tmp_path / f"{name}.parquet", tmp_path / name)
    with pytest.raises(FileNotFoundError, match=r"none\.parquet"):
        stoker.pack(tmp_path / "none.parquet", tmp_path / "none", kind="parquet")


def test_a_source_that_lost_rows_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_rows(tmp_path / "a.parquet")
    with _importers.open_source("parquet", str(source), {}) as rows:
        rows.count += 5
        monkeypatch.setattr(_pack_rows, "open_source", lambda *_: rows)
        with pytest.raises(OSError, match="fewer rows than were counted"):
            pack(source, tmp_path / "out")
