"""What importers leave out is named; keys and values that have no form are refused by place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from stoker._commands import pack as _pack_command


def test_parquet_that_arrow_passes_over_is_named(
    tmp_path: Path, arrow: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    source = tmp_path / "in"
    names = ("a.parquet", "_b.parquet", ".c.parquet", "_more/d.parquet", "x/_e.parquet")
    for name in names:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(arrow.table({"x": [1]}), source / name)
    for name in ("_SUCCESS", "_metadata", ".a.parquet.crc"):
        (source / name).touch()
    reason = "left out: _more, .c.parquet, _b.parquet, x/_e.parquet: Parquet passes over names"
    with pytest.warns(UserWarning, match=reason):
        stoker.pack(source, tmp_path / "out")
    with pytest.warns(UserWarning, match=reason):
        stoker.ingest_parquet(source, tmp_path / "ingested")
    assert _pack_command.main([str(source), str(tmp_path / "command")]) == 0
    assert f"stoker pack: {reason}" in capsys.readouterr().err


def test_hdf5_links_are_datasets_or_are_named(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = np.arange(2)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(2)
        file["group/y"] = np.arange(2) + 5
        file["soft"] = h5py.SoftLink("/group/y")
        file["hard"] = file["x"]
        file["group/circle"] = file["/"]
        file["again"] = h5py.SoftLink("/group")
        file["dangling"] = h5py.SoftLink("/nothing")
        file["outside"] = h5py.ExternalLink("other.h5", "/x")
        file["through"] = h5py.SoftLink("/outside")
    with pytest.warns(UserWarning, match="left out: ") as warned:
        stoker.pack(tmp_path / "a.h5", tmp_path / "out", format="mds")
    sample = stoker.Dataset(tmp_path / "out")[1]
    assert {name: int(value) for name, value in sample.items() if name != "__key__"} == {
        "x": 1,
        "hard": 1,
        "group.y": 6,
        "soft": 6,
    }
    text = str(warned[0].message)
    for part in (
        "again: a link to the group /group",
        "dangling: a link that leads to /nothing, which is not there",
        "group/circle: a link to a group that has another name",
        "outside: a link to other.h5; pack that file",
        "through: a link that leads to /outside, which is in another file",
    ):
        assert part in text


def test_hdf5_references_are_refused_by_name(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        refs = np.array([file.ref, file.ref], h5py.ref_dtype)
        file.create_dataset("refs", data=refs, dtype=h5py.ref_dtype)
        file.create_dataset("pair", 2, np.dtype([("n", "i8"), ("r", h5py.ref_dtype)]))
        lists = file.create_dataset("lists", 2, h5py.vlen_dtype(np.int32))
        lists[:] = [np.arange(1), np.arange(2)]
    for name in ("refs", "pair"):
        with pytest.raises(ValueError, match=rf"a\.h5: dataset '{name}' holds .*--datasets"):
            stoker.pack(tmp_path / "a.h5", tmp_path / "no", datasets=[name])
    stoker.pack(tmp_path / "a.h5", tmp_path / "out", datasets=["lists"])
    assert len(stoker.Dataset(tmp_path / "out")) == 2


def test_arrays_of_booleans_are_bytes_in_an_mds(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.array([[True, False], [False, False]])
    stoker.pack(tmp_path / "a.h5", tmp_path / "out", format="mds")
    stoker.ingest([{"x": np.array([True, False])}], tmp_path / "ingested", format="mds")
    for folder in ("out", "ingested"):
        array = stoker.Dataset(tmp_path / folder)[0]["x"]
        assert (array.dtype, array.tolist()) == (np.uint8, [1, 0])


def test_keys_are_text_or_numbers(tmp_path: Path, arrow: Any) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {
        "binary": [b"ab", "ä".encode()],
        "number": [7, 8],
        "broken": [b"ab", b"\xff"],
        "flag": [True, False],
        "list": [[1], [2]],
        "struct": [{"a": 1}, {"a": 2}],
    }
    parquet.write_table(arrow.table(columns), tmp_path / "a.parquet")
    for key, expected in (("binary", ["ab", "ä"]), ("number", ["7", "8"])):
        stoker.pack(tmp_path / "a.parquet", tmp_path / key, columns=["flag"], key=key)
        assert stoker.Dataset(tmp_path / key).keys() == expected
    refusals = {
        "broken": r"row 1: key='broken': b'\\xff' is not UTF-8",
        "flag": "row 0: key='flag': a bool is not a key",
        "list": "row 0: key='list': a ndarray is not a key",
        "struct": "row 0: key='struct': a dict is not a key",
    }
    for key, message in refusals.items():
        with pytest.raises(ValueError, match=message):
            stoker.pack(tmp_path / "a.parquet", tmp_path / "no", columns=["flag"], key=key)


def test_a_null_tensor_is_left_out_and_a_null_in_one_is_refused(tmp_path: Path, arrow: Any) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    kind = arrow.fixed_shape_tensor(arrow.float32(), [2])

    def write(name: str, values: list[Any]) -> Path:
        storage = arrow.array(values, arrow.list_(arrow.float32(), 2))
        table = arrow.table({"id": [0, 1], "x": arrow.ExtensionArray.from_storage(kind, storage)})
        parquet.write_table(table, tmp_path / name)
        return tmp_path / name

    stoker.pack(write("a.parquet", [None, [1, 2]]), tmp_path / "out")
    first, second = stoker.Dataset(tmp_path / "out")
    assert "x.npy" not in first
    assert second["x.npy"].tolist() == [1, 2]
    with pytest.raises(ValueError, match="column 'x': a null inside a tensor; store"):
        stoker.pack(write("b.parquet", [[1, None], [1, 2]]), tmp_path / "no")


def test_tensors_that_are_no_arrays_are_refused_by_sample(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    tensors = [
        torch.ones(2, dtype=torch.bfloat16),
        torch.ones(2, dtype=torch.float8_e4m3fn),
        torch.ones(2, requires_grad=True),
    ]
    for number, tensor in enumerate(tensors):
        samples = [{"__key__": "a", "x": np.ones(2)}, {"__key__": "b", "x": tensor}]
        with pytest.raises(ValueError, match=r"sample 1 \('b'\): field 'x': Tensor of torch\."):
            stoker.ingest(samples, tmp_path / str(number))
