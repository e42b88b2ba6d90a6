"""stoker.ingest_*: files that the real packages wrote."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

import stoker


def test_parquet_columns_filters_and_keys(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = arrow.table(
        {
            "id": [f"row{i}" for i in range(20)],
            "label": list(range(20)),
            "image": [{"bytes": bytes([i]), "path": None} for i in range(20)],
            "vector": arrow.array([[i, i + 0.5] for i in range(20)], arrow.list_(arrow.float32())),
            "text": [f"t{i}" if i % 2 else None for i in range(20)],
            "unused": [0] * 20,
        }
    )
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=4)
    report = stoker.ingest_parquet(
        tmp_path / "a.parquet",
        tmp_path / "out",
        columns=["label", "image", "vector", "text"],
        row_filter=[("label", ">=", 15)],
        key="id",
        samples_per_shard=2,
    )
    assert (report.sample_count, report.shard_count) == (5, 3)
    ds = stoker.Dataset(tmp_path / "out", verify="full")
    assert ds.keys() == [f"row{i}" for i in range(15, 20)]
    assert set(ds[0]) == {"__key__", "label", "image", "vector.npy", "text"}
    assert set(ds[1]) == {"__key__", "label", "image", "vector.npy"}
    assert ds[1]["image"].tobytes() == b"\x10"
    assert ds[1]["label"] == 16


def test_parquet_types_survive_in_mds(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    vectors = arrow.array([[1, 2], [3, 4]], arrow.list_(arrow.int16(), 2))
    table = arrow.table({"v": vectors, "n": [5, 6], "x": [0.5, 1.5]})
    parquet.write_table(table, tmp_path / "a.parquet")
    stoker.ingest_parquet(tmp_path / "a.parquet", tmp_path / "out", format="mds")
    sample = stoker.Dataset(tmp_path / "out")[1]
    assert sample["v"].dtype == np.int16
    assert sample["v"].tolist() == [3, 4]
    assert (int(sample["n"]), float(sample["x"])) == (6, 1.5)


def test_a_key_column_that_is_missing_is_named(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"n": [1]}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="no column 'id'; it has 'n'"):
        stoker.ingest_parquet(tmp_path / "a.parquet", tmp_path / "out", key="id")


@pytest.mark.parametrize("kind", ["stream", "file"])
def test_arrow_folders_come_in_the_order_of_their_state(tmp_path: Path, kind: str) -> None:
    arrow = pytest.importorskip("pyarrow")
    new = arrow.ipc.new_stream if kind == "stream" else arrow.ipc.new_file
    names = ["data-00001.arrow", "data-00000.arrow"]  # not by name: as state.json has them
    for start, name in zip((0, 2), names, strict=True):
        table = arrow.table({"n": [start, start + 1], "other": ["a", "b"]})
        with (tmp_path / name).open("wb") as file, new(file, table.schema) as writer:
            writer.write_table(table)
    state = {"_data_files": [{"filename": name} for name in names]}
    (tmp_path / "state.json").write_text(json.dumps(state))
    out = tmp_path.with_name(tmp_path.name + "-out")
    stoker.ingest_arrow(tmp_path, out, columns=["n"], format="mds")
    ds = stoker.Dataset(out)
    assert [int(sample["n"]) for sample in ds] == [0, 1, 2, 3]
    assert "other" not in ds[0]


def test_an_arrow_state_names_no_files_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "state.json").write_text('{"_data_files": [{"filename": "../x.arrow"}]}')
    with pytest.raises(ValueError, match="outside of the folder"):
        stoker.ingest_arrow(tmp_path, tmp_path.with_name(tmp_path.name + "-out"))


def test_hdf5_rows_are_samples(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    images = np.arange(5 * 2 * 3, dtype=np.uint8).reshape(5, 2, 3)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["image"] = images
        file["label"] = np.arange(5)
        file["name"] = [f"n{i}" for i in range(5)]
    stoker.ingest_hdf5(tmp_path / "a.h5", tmp_path / "out", format="mds", samples_per_shard=2)
    sample = stoker.Dataset(tmp_path / "out", verify="full")[4]
    assert np.array_equal(sample["image"], images[4])
    assert (int(sample["label"]), sample["name"]) == (4, "n4")


def test_hdf5_datasets_of_different_lengths_are_named(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"] = np.zeros(3)
        file["b"] = np.zeros(4)
    with pytest.raises(ValueError, match="'a': 3, 'b': 4"):
        stoker.ingest_hdf5(tmp_path / "a.h5", tmp_path / "out")
    stoker.ingest_hdf5(tmp_path / "a.h5", tmp_path / "out", datasets=["b"])
    assert len(stoker.Dataset(tmp_path / "out")) == 4


def test_lmdb_values_are_samples(tmp_path: Path) -> None:
    lmdb = pytest.importorskip("lmdb")
    with lmdb.open(str(tmp_path / "db")) as environment, environment.begin(write=True) as txn:
        for i in range(5):
            txn.put(f"{i:04}".encode(), bytes([i]) * 3)
    stoker.ingest_lmdb(tmp_path / "db", tmp_path / "out", field="jpg", samples_per_shard=2)
    ds = stoker.Dataset(tmp_path / "out", verify="full")
    assert ds.keys() == ["0000", "0001", "0002", "0003", "0004"]
    assert ds[3]["jpg"].tobytes() == b"\x03" * 3


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("ingest_parquet", "parquet"),
        ("ingest_arrow", "parquet"),
        ("ingest_hdf5", "hdf5"),
        ("ingest_lmdb", "lmdb"),
    ],
)
def test_a_missing_package_comes_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, extra: str
) -> None:
    def missing(package: str) -> None:
        raise ImportError(f"No module named {package!r}")

    (tmp_path / "x").write_bytes(b"")
    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ImportError, match=rf"pip install '\.\[{extra}\]' in a checkout"):
        getattr(stoker, name)(tmp_path / "x", tmp_path / "out")
