"""Imported columns have one name and one type in all rows, and come back as what they were."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from stoker._commands import pack as _pack_command

GOLDEN = Path(__file__).parents[3] / "tests" / "golden" / "huggingface"


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else bytes(value).decode()


def array_of(sample: dict[str, Any], name: str) -> Any:
    """An array of a tar, where the field is a NumPy file, or of another format."""
    return sample[name] if name in sample else sample[f"{name}.npy"]


def value_of(value: Any) -> Any:
    return json.loads(text_of(value)) if isinstance(value, (str, np.ndarray)) else value


@pytest.mark.parametrize("written", ["tar", "mds"])
@pytest.mark.parametrize("source", ["folder", "rows.parquet"])
def test_what_hugging_face_wrote_comes_back(
    tmp_path: Path, arrow: Any, source: str, written: Any
) -> None:
    options: dict[str, Any] = {"key": "id", "json_columns": ["seq"]}  # MDS has no empty arrays
    stoker.pack(GOLDEN / source, tmp_path / "out", format=written, **options)
    ds = stoker.Dataset(tmp_path / "out", verify="full")
    assert ds.keys() == ["row0", "row1", "row2"]
    for i, sample in enumerate(ds):
        images = [base64.b64decode(image) for image in value_of(sample["images"])]
        assert len(images) == i
        assert all(image.startswith(b"\x89PNG") for image in images)
        assert [base64.b64decode(b) for b in value_of(sample["blobs"])] == [bytes([i]), b"\xff\0"]
        raw = base64.b64encode(bytes([200 + i])).decode()
        meta = {"raw": raw, "day": f"2024-01-0{i + 1}", "price": f"{i}.50"}
        assert value_of(sample["meta"]) == meta
        assert text_of(sample["day"]) == f"2024-02-0{i + 1}"
        assert text_of(sample["price"]) == f"{i}.25"
        assert text_of(sample["when"]) == f"2024-01-02 03:04:05.00000{6 + i}000Z"
        assert value_of(sample["times"]) == ["2024-01-02 03:04:05.000000"] * i
        matrix = array_of(sample, "matrix")
        assert (matrix.dtype, matrix.shape) == (np.float32, (2, 3))
        assert np.array_equal(matrix, np.arange(6).reshape(2, 3) + i)
        video = array_of(sample, "video")
        assert (video.dtype, video.tolist()) == (np.uint8, np.full((i + 1, 2, 2), i).tolist())
        assert value_of(sample["seq"]) == list(range(i))


def rows_with_a_null(arrow: Any, path: Path, kind: Any, count: int = 3000) -> Path:
    rows: list[Any] = [[i, i + 1] for i in range(count)]
    rows[2000] = [7, None]
    rows[2001] = None
    rows[2002] = []
    table = arrow.table({"x": arrow.array(rows, arrow.list_(kind)), "n": range(count)})
    arrow.parquet.write_table(table, path)
    return path


def test_a_null_in_a_list_changes_no_names(tmp_path: Path, arrow: Any) -> None:
    source = rows_with_a_null(arrow, tmp_path / "a.parquet", arrow.float32())
    stoker.pack(source, tmp_path / "out")
    samples = list(stoker.Dataset(tmp_path / "out"))
    assert [i for i, sample in enumerate(samples) if "x.npy" not in sample] == [2001]
    assert not any("x" in sample for sample in samples)
    seen = array_of(samples[2000], "x")
    assert seen.dtype == np.float32
    assert np.array_equal(seen, [7, np.nan], equal_nan=True)
    assert array_of(samples[2002], "x").shape == (0,)


def test_a_null_among_integers_is_named_with_the_cure(tmp_path: Path, arrow: Any) -> None:
    source = rows_with_a_null(arrow, tmp_path / "a.parquet", arrow.int32())
    message = r"a\.parquet: rows \d+ to \d+: column 'x': a null in a list of int32.*json_columns"
    with pytest.raises(ValueError, match=message):
        stoker.pack(source, tmp_path / "out")
    stoker.pack(source, tmp_path / "json", json_columns=["x"])
    samples = list(stoker.Dataset(tmp_path / "json"))
    assert [i for i, sample in enumerate(samples) if "x" not in sample] == [2001]
    assert value_of(samples[2000]["x"]) == [7, None]
    assert value_of(samples[0]["x"]) == [0, 1]
    with pytest.raises(ValueError, match="json_columns: 'y' is not a column to pack"):
        stoker.pack(source, tmp_path / "none", json_columns=["y"])


def test_tfrecord_features_have_one_type(tmp_path: Path, arrow: Any) -> None:
    table = arrow.table(
        {
            "words": arrow.array([["a"], [], None], arrow.list_(arrow.string())),
            "nested": arrow.array([[[1]], [], [[]]], arrow.list_(arrow.list_(arrow.int64()))),
            "floats": arrow.array([[1.0], [], [None]], arrow.list_(arrow.float64())),
            "flags": arrow.array([[True], [], [False]], arrow.list_(arrow.bool_())),
        }
    )
    arrow.parquet.write_table(table, tmp_path / "a.parquet")
    stoker.pack(tmp_path / "a.parquet", tmp_path / "out", format="tfrecord")
    samples = list(stoker.Dataset(tmp_path / "out"))
    assert [value_of(s["words"]) for s in samples if "words" in s] == [["a"], []]
    assert [value_of(s["nested"]) for s in samples] == [[[1]], [], [[]]]
    assert {s["floats"].dtype for s in samples} == {np.dtype(np.float32)}
    assert {s["flags"].dtype for s in samples} == {np.dtype(np.int64)}


def test_upper_case_columns_are_lower_case_in_a_tar(tmp_path: Path, arrow: Any) -> None:
    table = arrow.table({"URL": ["u"], "TEXT": ["t"], "text_2": ["x"]})
    arrow.parquet.write_table(table, tmp_path / "a.parquet")
    stoker.pack(tmp_path / "a.parquet", tmp_path / "tar")
    assert set(stoker.Dataset(tmp_path / "tar")[0]) == {"__key__", "url", "text", "text_2"}
    stoker.pack(tmp_path / "a.parquet", tmp_path / "mds", format="mds")
    assert set(stoker.Dataset(tmp_path / "mds")[0]) == {"__key__", "URL", "TEXT", "text_2"}
    stoker.ingest([{"Caption": "c"}], tmp_path / "ingested")
    assert set(stoker.Dataset(tmp_path / "ingested")[0]) == {"__key__", "caption"}


def test_columns_that_a_tar_cannot_tell_apart_are_renamed(tmp_path: Path, arrow: Any) -> None:
    table = arrow.table({"URL": ["u"], "url": ["v"]})
    arrow.parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"'URL' and 'url' are one name in a tar.*--rename"):
        stoker.pack(tmp_path / "a.parquet", tmp_path / "out")
    stoker.pack(tmp_path / "a.parquet", tmp_path / "out", rename={"URL": "old.txt"})
    sample = stoker.Dataset(tmp_path / "out")[0]
    assert (sample["old.txt"], text_of(sample["url"])) == ("u", "v")
    for names, message in (
        ({"nope": "x"}, "rename: no field 'nope'; it has 'URL', 'url'"),
        ({"URL": "url"}, "rename: two fields would be called 'url'"),
    ):
        with pytest.raises(ValueError, match=message):
            stoker.pack(tmp_path / "a.parquet", tmp_path / "no", rename=names)


def test_the_command_renames_and_stores_json(tmp_path: Path, arrow: Any) -> None:
    table = arrow.table({"a,b": [[1]], "TEXT": ["t"], "id": ["k"]})
    arrow.parquet.write_table(table, tmp_path / "a.parquet")
    words = [str(tmp_path / "a.parquet"), "--key=id"]
    plain = ["--rename=TEXT=txt", '--json-columns=["a,b"]']
    assert _pack_command.main([*words, str(tmp_path / "one"), *plain]) == 0
    sample = stoker.Dataset(tmp_path / "one")[0]
    assert (sample["__key__"], sample["txt"], sample["a,b"]) == ("k", "t", [1])
    renames = '--rename={"a,b": "c", "TEXT": "d"}'
    assert _pack_command.main([*words, str(tmp_path / "two"), renames]) == 0
    assert set(stoker.Dataset(tmp_path / "two")[0]) == {"__key__", "c.npy", "d"}
    for wrong in ("TEXT", "TEXT=", "{", '{"TEXT": 3}'):
        assert _pack_command.main([*words, str(tmp_path / "three"), f"--rename={wrong}"]) == 2


def test_rows_of_several_hdf5_strings_are_lists(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["fixed"] = np.array([[b"a", b"bc"], [b"", b"d"]])
        file.create_dataset("free", data=[["ä", ""], ["x", "y"]], dtype=h5py.string_dtype())
        file["one"] = ["p", "q"]
    stoker.pack(tmp_path / "a.h5", tmp_path / "out", format="mds", rename={"one": "first"})
    sample = stoker.Dataset(tmp_path / "out")[0]
    assert (sample["fixed"], sample["free"], sample["first"]) == (["a", "bc"], ["ä", ""], "p")
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["bad"] = np.array([b"ok", b"\xff"])
    with pytest.raises(ValueError, match=r"b\.h5: dataset 'bad', row 1: not UTF-8"):
        stoker.pack(tmp_path / "b.h5", tmp_path / "no")


def test_hdf5_datasets_in_groups_are_packed_as_well(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.zeros((3, 2), np.float32)
        file["meta/label"] = np.arange(3)
    stoker.pack(tmp_path / "a.h5", tmp_path / "out", format="mds")
    assert [int(sample["meta.label"]) for sample in stoker.Dataset(tmp_path / "out")] == [0, 1, 2]


def lmdb_with_names(path: Path, names: list[str], *, plain: int = 0) -> Path:
    lmdb = pytest.importorskip("lmdb", reason="lmdb is not installed")
    with lmdb.open(str(path), max_dbs=len(names) + 1, map_size=1 << 24) as environment:
        for name in names:
            database = environment.open_db(name.encode())
            with environment.begin(write=True, db=database) as txn:
                for i in range(100):
                    txn.put(f"{i:03}".encode(), f"{name} {i}".encode())
        with environment.begin(write=True) as txn:
            for i in range(plain):
                txn.put(f"plain{i:03}".encode(), bytes(48))
    return path


def test_named_lmdb_databases_are_packed_one_at_a_time(tmp_path: Path) -> None:
    path = lmdb_with_names(tmp_path / "db", ["images", "labels"], plain=70)
    with pytest.raises(ValueError, match=r"named databases \('images', 'labels'\); .*--database"):
        stoker.pack(path, tmp_path / "out")
    with pytest.raises(ValueError, match="no database 'nope'; it has 'images', 'labels'"):
        stoker.pack(path, tmp_path / "out", database="nope")
    with pytest.raises(ValueError, match="no database 'plain001'"):
        stoker.pack(path, tmp_path / "out", database="plain001")
    words = [str(path), str(tmp_path / "out"), "--database=labels", "--field=txt"]
    assert _pack_command.main([*words, "--shuffle-seed=3"]) == 0
    ds = stoker.Dataset(tmp_path / "out")
    assert sorted(ds.keys(0, 100)) == [f"{i:03}" for i in range(100)]
    assert all(sample["txt"] == f"labels {int(sample['__key__'])}" for sample in ds)


def test_plain_lmdb_values_of_48_bytes_are_samples(tmp_path: Path) -> None:
    path = lmdb_with_names(tmp_path / "db", [], plain=200)
    stoker.pack(path, tmp_path / "out")
    assert len(stoker.Dataset(tmp_path / "out")) == 200
    with pytest.raises(ValueError, match="no database 'x'; it has no named databases"):
        stoker.pack(path, tmp_path / "no", database="x")


def test_many_named_databases_are_not_all_listed(tmp_path: Path) -> None:
    path = lmdb_with_names(tmp_path / "db", [f"d{i:03}" for i in range(80)])
    with pytest.raises(ValueError, match=r"'d000', 'd001', .*, more\)"):
        stoker.pack(path, tmp_path / "out")
    stoker.pack(path, tmp_path / "out", database="d079")
    assert len(stoker.Dataset(tmp_path / "out")) == 100


def test_lmdb_with_several_values_for_a_key_is_refused(tmp_path: Path) -> None:
    lmdb = pytest.importorskip("lmdb", reason="lmdb is not installed")
    with lmdb.open(str(tmp_path / "db"), max_dbs=1) as environment:
        database = environment.open_db(b"many", dupsort=True)
        with environment.begin(write=True, db=database) as txn:
            txn.put(b"k", b"1")
            txn.put(b"k", b"2")
    with pytest.raises(ValueError, match="several values for a key"):
        stoker.pack(tmp_path / "db", tmp_path / "out", database="many")


@pytest.mark.parametrize(
    ("shape", "rows", "refusal"),
    [
        ([None, 2], [[1, 2], None, [3, 4]], "one of its rows is null"),
        ([2, 2], [[1], [2, 3, 4]], r"its rows have \[1, 3\] elements"),
        ([None, 2], [[1, 2, 3, 4]], r"its rows have \[4\] elements"),
    ],
)
def test_rows_that_are_no_array_are_refused(
    tmp_path: Path, arrow: Any, shape: list[int | None], rows: list[Any], refusal: str
) -> None:
    features = {"x": {"shape": shape, "dtype": "int32", "_type": "Array2D"}}
    kind = arrow.list_(arrow.list_(arrow.int32()))
    table = arrow.table({"x": arrow.array([rows], type=kind)})
    table = table.replace_schema_metadata(
        {"huggingface": json.dumps({"info": {"features": features}})}
    )
    arrow.parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=refusal):
        stoker.pack(tmp_path / "a.parquet", tmp_path / "out")


def test_a_key_column_beside_one_that_is_the_key_already_is_refused(
    tmp_path: Path, arrow: Any
) -> None:
    table = arrow.table({"__key__": ["a", "b"], "k": ["k1", "k2"], "x": [1, 2]})
    arrow.parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="a column '__key__' as well, which would be lost"):
        stoker.pack(tmp_path / "a.parquet", tmp_path / "out", key="k")
    stoker.pack(tmp_path / "a.parquet", tmp_path / "own", key="k", columns=["k", "x"])
    assert [sample["__key__"] for sample in stoker.Dataset(tmp_path / "own")] == ["k1", "k2"]
