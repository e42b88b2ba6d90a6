"""stoker.pack() of Arrow, Petastorm, HDF5 and LMDB: files that the real packages wrote."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

PNG = b"\x89PNG\r\n\x1a\n" + b"pixels"

Files = Callable[[Path], dict[str, bytes]]


def npy(array: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def error_of(source: Path, folder: Path) -> str | None:
    """What stoker.pack() raises, if it does."""
    try:
        stoker.pack(source, folder)
    except (ValueError, OSError) as error:
        return str(error)
    return None


def write_arrow(arrow: Any, path: Path, table: Any, *, is_stream: bool, rows: int) -> Path:
    new = arrow.ipc.new_stream if is_stream else arrow.ipc.new_file
    with path.open("wb") as file, new(file, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=rows):
            writer.write_batch(batch)
    return path


def arrow_table(arrow: Any, count: int) -> Any:
    return arrow.table(
        {
            "n": list(range(count)),
            "image": [{"bytes": bytes([i]), "path": f"{i}.png"} for i in range(count)],
            "kind": arrow.array([f"kind {i % 3}" for i in range(count)]),
        }
    )


@pytest.mark.parametrize("is_stream", [True, False])
@pytest.mark.parametrize("dictionary", [True, False])
def test_a_single_arrow_file_is_packed_by_batches(
    tmp_path: Path, arrow: Any, is_stream: bool, dictionary: bool
) -> None:
    table = arrow_table(arrow, 50)
    if dictionary:
        encoded = table["kind"].combine_chunks().dictionary_encode()
        table = table.set_column(2, "kind", encoded)
    path = write_arrow(arrow, tmp_path / "a.arrow", table, is_stream=is_stream, rows=7)
    stoker.pack(path, tmp_path / "out", samples_per_shard=10, where="n != 20", threads=3)
    ds = stoker.Dataset(tmp_path / "out", verify="full")
    assert [int(s["n"]) for s in ds] == [i for i in range(50) if i != 20]
    assert ds[11]["image"].tobytes() == b"\x0b"
    assert ds[11]["kind"] == "kind 2"


def test_a_dataset_dict_names_its_splits(tmp_path: Path, arrow: Any) -> None:
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    (tmp_path / "train").mkdir()
    write_arrow(
        arrow, tmp_path / "train" / "d.arrow", arrow_table(arrow, 3), is_stream=True, rows=2
    )
    with pytest.raises(ValueError, match=r"the splits train, test; name one, as .*train"):
        stoker.pack(tmp_path, tmp_path.with_name(tmp_path.name + "-out"), kind="hf")
    with pytest.raises(ValueError, match="the splits train, test"):
        stoker.pack(tmp_path, tmp_path.with_name(tmp_path.name + "-out"))
    assert stoker.pack(tmp_path / "train", tmp_path / "out").sample_count == 3


def test_arrow_that_is_damaged_is_corrupt(tmp_path: Path, arrow: Any) -> None:
    path = write_arrow(arrow, tmp_path / "a.arrow", arrow_table(arrow, 9), is_stream=True, rows=4)
    whole = path.read_bytes()
    for cut in range(9, len(whole) - 16, 97):
        path.write_bytes(whole[:cut])
        with pytest.raises((stoker.CorruptError, ValueError), match=r"a\.arrow"):
            stoker.pack(path, tmp_path / f"out{cut}")
    for place in range(0, 400, 3):
        data = bytearray(whole)
        data[place] ^= 0x5A
        path.write_bytes(data)
        message = error_of(path, tmp_path / f"flip{place}")
        assert message is None or "a.arrow" in message


def test_an_image_that_is_only_a_path_is_refused(tmp_path: Path, arrow: Any) -> None:
    table = arrow.table({"image": [{"bytes": b"x", "path": None}, {"bytes": None, "path": "/p"}]})
    path = write_arrow(arrow, tmp_path / "a.arrow", table, is_stream=True, rows=5)
    with pytest.raises(ValueError, match=r"column 'image': only the path of a file \(/p\)"):
        stoker.pack(path, tmp_path / "out")


def test_arrow_files_of_one_folder_have_the_same_columns(tmp_path: Path, arrow: Any) -> None:
    write_arrow(arrow, tmp_path / "a.arrow", arrow.table({"n": [1]}), is_stream=True, rows=5)
    write_arrow(arrow, tmp_path / "b.arrow", arrow.table({"m": [1]}), is_stream=True, rows=5)
    with pytest.raises(ValueError, match=r"b\.arrow: no column 'n', which .*a\.arrow has"):
        stoker.pack(tmp_path, tmp_path.with_name(tmp_path.name + "-out"))


class _Hostile:
    """What unpickling would run."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self._path,)


def write_petastorm(arrow: Any, folder: Path, values: list[Any] | None = None) -> Path:
    """As Petastorm lays a dataset out: codecs' bytes in binary columns, the schema pickled."""
    folder.mkdir()
    arrays = values or [np.full((2, 3), i, np.float32) for i in range(12)]
    table = arrow.table(
        {
            "id": list(range(len(arrays))),
            "array": [npy(array) if isinstance(array, np.ndarray) else array for array in arrays],
            "image": [PNG + bytes([i]) for i in range(len(arrays))],
        }
    )
    for part in range(2):
        half = table.slice(part * len(arrays) // 2, len(arrays) // 2)
        arrow.parquet.write_table(half, folder / f"part-{part}.parquet", row_group_size=4)
    metadata = {
        b"dataset-toolkit.unischema.v1": pickle.dumps(_Hostile(folder / "unpickled")),
        b"dataset-toolkit.num_row_groups_per_file.v1": b"{}",
    }
    schema = table.schema.with_metadata(metadata)
    arrow.parquet.write_metadata(schema, folder / "_common_metadata")
    return folder


def test_petastorm_is_recognised_and_its_pickle_left_alone(tmp_path: Path, arrow: Any) -> None:
    folder = write_petastorm(arrow, tmp_path / "peta")
    stoker.pack(folder, tmp_path / "out", format="mds", samples_per_shard=5)
    ds = stoker.Dataset(tmp_path / "out", verify="full")
    assert np.array_equal(ds[7]["array"], np.full((2, 3), 7, np.float32))
    assert ds[7]["array"].dtype == np.float32
    assert ds[7]["image"].tobytes() == PNG + b"\x07"
    assert int(ds[7]["id"]) == 7
    assert not (folder / "unpickled").exists()


def test_petastorm_takes_the_users_schema(tmp_path: Path, arrow: Any) -> None:
    folder = write_petastorm(arrow, tmp_path / "peta")
    schema = {
        "array": {"codec": "ndarray", "dtype": "float32", "shape": [2, None]},
        "image": {"codec": "compressed_image", "dtype": "uint8", "shape": [1, 1, 3]},
        "id": {"codec": "scalar", "dtype": "int64"},
    }
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    for i, given in enumerate((schema, str(tmp_path / "schema.json"))):
        stoker.pack(folder, tmp_path / f"{i}", kind="petastorm", schema=given, where="id < 6")
        sample = stoker.Dataset(tmp_path / f"{i}")[5]
        assert sample["array.npy"].tolist() == [[5.0] * 3] * 2
        assert sample["image"].tobytes() == PNG + b"\x05"


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"array": {"codec": "pickle"}}, 'needs a "codec": one of ndarray'),
        ({"array": 3}, 'needs a "codec"'),
        ({"array": {"codec": "ndarray", "size": 3}}, "has 'size', which is not known"),
        ({"array": {"codec": "ndarray", "dtype": "int47"}}, "'int47' is not a dtype"),
        ({"array": {"codec": "ndarray", "shape": "2x3"}}, "a list of numbers and nulls"),
        ({"nope": {"codec": "scalar"}}, "no column 'nope'"),
        ({"array": {"codec": "ndarray", "dtype": "int8"}}, "float32, where the schema says int8"),
        ({"array": {"codec": "ndarray", "shape": [3, 2]}}, r"shape \(2, 3\), where the schema"),
        ({"image": {"codec": "ndarray"}}, "column 'image': not an array as NdarrayCodec"),
        ({"array": {"codec": "compressed_image"}}, "neither a PNG nor a JPEG"),
    ],
)
def test_petastorm_schemas_that_do_not_fit_are_refused(
    tmp_path: Path, arrow: Any, schema: Any, message: str
) -> None:
    folder = write_petastorm(arrow, tmp_path / "peta")
    with pytest.raises(ValueError, match=message):
        stoker.pack(folder, tmp_path / "out", kind="petastorm", schema=schema)


def test_petastorm_arrays_of_objects_are_refused(tmp_path: Path, arrow: Any) -> None:
    hostile = npy(np.array([_Hostile(tmp_path / "unpickled")]), allow_pickle=True)
    huge = npy(np.zeros(3)).replace(b"(3,), }" + b" " * 12, b"(999999999999,), } ")
    assert huge != npy(np.zeros(3))
    cases = {"objects": hostile, "huge": huge, "cut": npy(np.zeros(9))[:-1], "none": npy(1)[:7]}
    for name, value in cases.items():
        folder = write_petastorm(arrow, tmp_path / name, [value] * 4)
        with pytest.raises(ValueError, match="column 'array': not an array as NdarrayCodec"):
            stoker.pack(folder, tmp_path / "out")
    assert not (tmp_path / "unpickled").exists()


def hdf5_file(path: Path, count: int = 60, **options: Any) -> Path:
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    with h5py.File(path, "w") as file:
        file.create_dataset("image", data=np.arange(count * 6, dtype=np.uint8).reshape(-1, 2, 3),
                            **options)  # fmt: skip
        file["label"] = np.arange(count)
        file["name"] = [f"n{i}" for i in range(count)]
        jpg = file.create_dataset("jpg", count, dtype=h5py.vlen_dtype(np.uint8))
        for i in range(count):
            jpg[i] = np.full(i + 1, i, np.uint8)
        file.create_group("more")["deep"] = np.arange(count)
    return path


def test_hdf5_is_packed_in_tasks_and_shuffled(tmp_path: Path, visible_files: Files) -> None:
    path = hdf5_file(tmp_path / "a.h5")
    options: dict[str, Any] = {"format": "mds", "samples_per_shard": 7, "key": "name"}
    stoker.pack(path, tmp_path / "one", **options)
    ds = stoker.Dataset(tmp_path / "one", verify="full")
    assert ds.keys(0, 60) == [f"n{i}" for i in range(60)]
    assert ds[9]["jpg"].tobytes() == bytes([9]) * 10
    assert ds[9]["image"].tolist() == np.arange(54, 60).reshape(2, 3).tolist()
    assert set(ds[9]) == {"__key__", "image", "label", "jpg", "more.deep"}
    for i in range(2):
        stoker.pack(path, tmp_path / "two", task=(i, 2), **options)
    stoker.merge_pack(tmp_path / "two")
    assert visible_files(tmp_path / "one") == visible_files(tmp_path / "two")
    stoker.pack(path, tmp_path / "three", datasets=["label", "more/deep"], shuffle_seed=3)
    samples = list(stoker.Dataset(tmp_path / "three"))
    shuffled = [int(s["label"]) for s in samples]
    assert sorted(shuffled) == list(range(60)) != shuffled
    assert [int(s["more.deep"]) for s in samples] == shuffled


def test_hdf5_that_cannot_be_packed_says_why(tmp_path: Path) -> None:
    path = hdf5_file(tmp_path / "a.h5", chunks=(7, 2, 3))
    h5py = pytest.importorskip("h5py")
    with pytest.raises(ValueError, match="no dataset 'nope'"):
        stoker.pack(path, tmp_path / "out", datasets=["nope"])
    with pytest.raises(ValueError, match="hdf5 has no option columns; it has datasets, key"):
        stoker.pack(path, tmp_path / "out", columns=["label"])
    (tmp_path / "raw").write_bytes(bytes(80))
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["link"] = h5py.ExternalLink(str(path), "label")
        file.create_dataset("raw", 10, "i8", external=[(str(tmp_path / "raw"), 0, 80)])
    for name in ("link", "raw"):
        with pytest.raises(ValueError, match=f"dataset '{name}' is in another file"):
            stoker.pack(tmp_path / "b.h5", tmp_path / "out", datasets=[name])
    (tmp_path / "c.h5").write_bytes(path.read_bytes()[:3000])
    with pytest.raises((stoker.CorruptError, OSError), match=r"c\.h5"):
        stoker.pack(tmp_path / "c.h5", tmp_path / "out")


def lmdb_folder(path: Path, count: int = 300) -> Path:
    lmdb = pytest.importorskip("lmdb", reason="lmdb is not installed")
    with lmdb.open(str(path), map_size=1 << 24) as environment, environment.begin(write=True) as t:
        for i in range(count):
            t.put(f"{i:05}".encode(), bytes([i % 256]) * (i % 50))
    return path


def test_lmdb_is_packed_in_tasks_and_shuffled(tmp_path: Path, visible_files: Files) -> None:
    path = lmdb_folder(tmp_path / "db")
    stoker.pack(path, tmp_path / "one", field="jpg", samples_per_shard=33)
    ds = stoker.Dataset(tmp_path / "one", verify="full")
    assert ds.keys() == [f"{i:05}" for i in range(300)]
    assert ds[199]["jpg"].tobytes() == bytes([199]) * 49
    for i in range(3):
        stoker.pack(path / "data.mdb", tmp_path / "two", field="jpg", samples_per_shard=33,
                    task=(i, 3))  # fmt: skip
    stoker.merge_pack(tmp_path / "two")
    assert visible_files(tmp_path / "one") == visible_files(tmp_path / "two")
    stoker.pack(path, tmp_path / "three", samples_per_shard=33, shuffle_seed=5)
    shuffled = stoker.Dataset(tmp_path / "three").keys()
    assert sorted(shuffled) == ds.keys() != shuffled


def test_lmdb_that_cannot_be_packed_says_why(tmp_path: Path) -> None:
    lmdb = pytest.importorskip("lmdb")
    with lmdb.open(str(tmp_path / "db")) as environment, environment.begin(write=True) as txn:
        txn.put(b"\xff\xfe", b"x")
    with pytest.raises(ValueError, match=r"the key b'\\xff\\xfe' is not UTF-8.*key.hex\(\)"):
        stoker.pack(tmp_path / "db", tmp_path / "out")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "data.mdb").write_bytes(b"no database" * 1000)
    with pytest.raises(stoker.CorruptError, match=r"data\.mdb"):
        stoker.pack(tmp_path / "bad", tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="not an LMDB environment"):
        stoker.pack(tmp_path / "empty", tmp_path / "out", kind="lmdb")
    with pytest.raises(ValueError, match="lmdb has no option where; it has field, database"):
        stoker.pack(tmp_path / "db", tmp_path / "out", where="a < 1")
