"""Importers: what a filter, a folder's name, a schema or a key must not change without a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import stoker

NAN = float("nan")


def parquet(arrow: Any, path: Path, **columns: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    arrow.parquet.write_table(arrow.table(columns), path, row_group_size=3)
    return path


def ids_of(folder: Path) -> list[int]:
    return [int(sample["n"]) for sample in stoker.Dataset(folder)]


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("b != 7", [1, 3, 4, 5]),
        ("b < 10", [0, 2, 3, 5]),
        ("b >= 7", [0, 2, 3, 5]),
        ("b == 7", [0, 2]),
        ("n > 0 and b < 100", [2, 3, 5]),
    ],
)
def test_a_filter_sees_nan_where_statistics_do_not(
    tmp_path: Path, arrow: Any, where: str, ids: list[int]
) -> None:
    # The first row group's statistics are 7 to 7: they leave NaN out.
    values = arrow.array([7.0, NAN, 7.0, 8.0, NAN, 9.0], arrow.float32())
    source = parquet(arrow, tmp_path / "a.parquet", n=list(range(6)), b=values)
    stoker.pack(source, tmp_path / "out", where=where)
    assert ids_of(tmp_path / "out") == ids
    stoker.pack(source, tmp_path / "mixed", where=where, shuffle_seed=3)
    assert sorted(ids_of(tmp_path / "mixed")) == ids


def test_an_expression_of_arrow_sees_nan_in_a_struct(tmp_path: Path, arrow: Any) -> None:
    pc = pytest.importorskip("pyarrow.compute")
    rows = arrow.array([{"x": 7.0}, {"x": NAN}, {"x": 7.0}])
    source = parquet(arrow, tmp_path / "a.parquet", n=[0, 1, 2], s=rows)
    stoker.pack(source, tmp_path / "out", where=pc.field("s", "x") != 7.0, columns=["n"])
    assert ids_of(tmp_path / "out") == [1]
    stoker.pack(source, tmp_path / "first", where=pc.field(0) < 2, columns=["n"])
    assert ids_of(tmp_path / "first") == [0, 1]


def test_a_renamed_partition_is_another_pack_job(tmp_path: Path, arrow: Any) -> None:
    for k in (1, 2):
        parquet(arrow, tmp_path / f"src/k={k}/f.parquet", n=[k, 10 + k])
    src, out = tmp_path / "src", tmp_path / "out"
    stoker.pack(src, out, samples_per_shard=2, task=(0, 2))
    (src / "k=2").rename(src / "k=7")
    with pytest.raises(FileExistsError, match="another pack job"):
        stoker.pack(src, out, samples_per_shard=2, task=(1, 2))
    (src / "k=7").rename(src / "k=2")
    stoker.pack(src, out, samples_per_shard=2, task=(1, 2))
    stoker.merge_pack(out)
    assert [int(sample["k"]) for sample in stoker.Dataset(out)] == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("folders", "message"),
    [
        (("k=1", "j=3"), r"j=3.*'j'.*'k'|k=1.*'k'.*'j'"),
        (("k=1", "plain"), r"columns"),
        (("k=1", "k=01"), r"k=01.*k=1|k=1.*k=01"),
    ],
)
def test_folders_that_are_other_columns_or_one_number_are_refused(
    tmp_path: Path, arrow: Any, folders: tuple[str, ...], message: str
) -> None:
    for folder in folders:
        parquet(arrow, tmp_path / "src" / folder / "f.parquet", n=[1])
    with pytest.raises(ValueError, match=message):
        stoker.pack(tmp_path / "src", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("value", "dtype", "fits"),
    [
        (300.7, "int64", False),
        (300, "uint8", False),
        (-1, "uint64", False),
        (True, "int8", False),
        ("False", "bool", False),
        (1, "bool", False),
        (0.1, "float32", False),
        (1e300, "float32", False),
        (16777217, "float32", False),
        (2**53 + 1, "float64", False),
        (5, "<U1", False),
        (200, "uint8", True),
        (True, "bool", True),
        (0.5, "float32", True),
        (NAN, "float32", True),
        (0.1, "float64", True),
        ("five", "str", True),
    ],
)
def test_a_petastorm_scalar_is_checked_and_not_converted(
    tmp_path: Path, arrow: Any, value: Any, dtype: str, fits: bool
) -> None:
    parquet(arrow, tmp_path / "src/f.parquet", n=[0, 1], v=arrow.array([value, value]))
    schema = {"v": {"codec": "scalar", "dtype": dtype}}
    if not fits:
        with pytest.raises(ValueError, match=rf"(?s)rows 0 to .*'v'.*{dtype}"):
            stoker.pack(tmp_path / "src", tmp_path / "out", kind="petastorm", schema=schema)
        return
    stoker.pack(tmp_path / "src", tmp_path / "out", kind="petastorm", schema=schema, format="mds")
    plain = tmp_path / "plain"
    stoker.pack(tmp_path / "src", plain, kind="petastorm", format="mds")
    same = (list(stoker.Dataset(folder)) for folder in (tmp_path / "out", plain))
    for one, other in zip(*same, strict=True):
        assert repr(one["v"]) == repr(other["v"])


@pytest.mark.parametrize(
    "value",
    [
        {1: "a", "1": "b"},
        {True: "a", "true": "b"},
        {None: 0, "null": 1},
        {"deep": [{1.5: "a", "1.5": "b"}]},
    ],
)
def test_keys_that_are_one_in_json_are_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(ValueError, match=r"sample 1 \('000000001'\): field 'm'.*more than once"):
        stoker.ingest([{"m": {1: "a", "2": "b"}}, {"m": value}], tmp_path / "out")


def test_shards_do_not_go_into_the_folder_that_is_packed(tmp_path: Path, arrow: Any) -> None:
    src = tmp_path / "src"
    parquet(arrow, src / "f.parquet", n=[1, 2])
    before = sorted(src.iterdir())
    for dst in (src, src / "out", tmp_path):
        with pytest.raises(ValueError, match="the directory for the shards"):
            stoker.pack(src, dst)
        with pytest.raises(ValueError, match="the directory for the shards"):
            stoker.ingest_parquet(src, dst)
    assert sorted(src.iterdir()) == before


def test_a_null_key_is_named_by_its_row(tmp_path: Path, arrow: Any) -> None:
    source = parquet(arrow, tmp_path / "a.parquet", k=["a", "b", None], n=[0, 1, 2])
    with pytest.raises(ValueError, match=r"row 2: key='k'"):
        stoker.pack(source, tmp_path / "out", key="k")
