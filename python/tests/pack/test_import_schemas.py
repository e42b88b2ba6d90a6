"""Folders whose files have different schemas: what would lose values is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker


def write_files(folder: Path, *tables: Any) -> Path:
    parquet = pytest.importorskip("pyarrow.parquet")
    folder.mkdir()
    for name, table in zip("abcdef", tables, strict=False):
        parquet.write_table(table, folder / f"{name}.parquet")
    return folder


def different_tables(arrow: Any) -> dict[str, tuple[Any, Any, str]]:
    """Two tables, and the place that a message names."""

    def column(*values: Any, kind: Any = None) -> Any:
        return arrow.table({"x": arrow.array(list(values), kind)})

    zone = arrow.timestamp("us", "Europe/Berlin")
    return {
        "a column more": (column(1), arrow.table({"x": [1], "y": ["kept"]}), "'y'"),
        "a column less": (arrow.table({"x": [1], "y": ["kept"]}), column(1), "'y'"),
        "a column twice": (
            column(1),
            arrow.Table.from_arrays([arrow.array([1]), arrow.array([2])], ["x", "x"]),
            "'x'",
        ),
        "precision": (column(1.5, kind=arrow.float32()), column(1e300), "'x'"),
        "text": (column(1), column("0x10"), "'x'"),
        "booleans": (column(True), column(5), "'x'"),
        "width": (column(1, kind=arrow.int32()), column(2), "'x'"),
        "elements": (column([1]), column(["a"]), r"'x\[\]'"),
        "lengths": (column([1, 2], kind=arrow.list_(arrow.int64(), 2)), column([1, 2]), "'x'"),
        "members": (column({"a": 1}), column({"a": 2, "b": 3}), "'x'"),
        "a member's type": (column({"a": 1}), column({"a": "b"}), r"'x\.a'"),
        "zones": (column(0, kind=arrow.timestamp("us")), column(0, kind=zone), "'x'"),
        "units": (
            column(1, kind=arrow.duration("s")),
            column(1, kind=arrow.duration("ms")),
            "'x'",
        ),
        "coded text": (column(1), column("a", kind=arrow.dictionary(arrow.int8(), arrow.string())),
                       "'x'"),
    }  # fmt: skip


def test_files_that_differ_are_refused_before_anything_is_written(
    tmp_path: Path, arrow: Any
) -> None:
    for number, (name, (one, other, place)) in enumerate(different_tables(arrow).items()):
        source = write_files(tmp_path / f"in{number}", one, other)
        out = tmp_path / f"out{number}"
        with pytest.raises(ValueError, match=place) as raised:
            stoker.pack(source, out)
        assert "a.parquet" in str(raised.value), name
        assert "b.parquet" in str(raised.value), name
        assert not out.exists(), name


def test_a_column_that_is_left_out_may_differ(tmp_path: Path, arrow: Any) -> None:
    source = write_files(
        tmp_path / "in",
        arrow.table({"x": [1], "n": [1.5]}),
        arrow.table({"x": [2], "n": ["text"], "more": [1]}),
    )
    stoker.pack(source, tmp_path / "out", columns=["x"])
    assert [s["x"] for s in stoker.Dataset(tmp_path / "out")] == [1, 2]
    with pytest.raises(ValueError, match="column 'n' is string, but double in"):
        stoker.pack(source, tmp_path / "filtered", columns=["x"], where="n > 1")


def test_differences_that_lose_nothing_are_packed(tmp_path: Path, arrow: Any) -> None:
    parts = arrow.struct({"a": arrow.int64(), "b": arrow.string()})
    empty = arrow.struct({"a": arrow.int64(), "b": arrow.null()})
    first = arrow.table(
        {
            "text": arrow.array(["one"]).dictionary_encode(),
            "large": arrow.array(["one"]),
            "late": arrow.nulls(1),
            "struct": arrow.array([{"a": 1, "b": None}], empty),
            "list": arrow.array([[1.5]], arrow.large_list(arrow.float64())),
        }
    ).replace_schema_metadata({"of": "the first"})
    second = arrow.table(
        {
            "list": arrow.array([[2.5, 3.5]]),
            "struct": arrow.array([{"a": 2, "b": "b"}], parts),
            "late": arrow.array(["late"]),
            "large": arrow.array(["two"], arrow.large_string()),
            "text": arrow.array(["two"]),
        }
    )
    for name, tables in {"forth": (first, second), "back": (second, first)}.items():
        source = write_files(tmp_path / name, *tables)
        stoker.pack(source, tmp_path / f"{name}-out", format="tfrecord")
        samples = sorted(stoker.Dataset(tmp_path / f"{name}-out"), key=lambda s: len(s["list"]))
        assert [bytes(s["text"]) for s in samples] == [b"one", b"two"]
        assert [bytes(s["large"]) for s in samples] == [b"one", b"two"]
        assert "late" not in samples[0]
        assert bytes(samples[1]["late"]) == b"late"
        texts = [json.loads(bytes(s["struct"])) for s in samples]
        assert texts == [{"a": 1, "b": None}, {"a": 2, "b": "b"}]
        assert np.array_equal(samples[1]["list"], [2.5, 3.5])


def test_arrow_files_that_differ_are_named_with_the_column(tmp_path: Path, arrow: Any) -> None:
    for name, kind in (("a", arrow.int32()), ("b", arrow.int64())):
        table = arrow.table({"n": arrow.array([1], kind)})
        with arrow.ipc.new_file(tmp_path / f"{name}.arrow", table.schema) as writer:
            writer.write_table(table)
    with pytest.raises(
        ValueError, match=r"b\.arrow: column 'n' is int64, but int32 in .*a\.arrow;"
    ):
        stoker.pack(tmp_path, tmp_path.with_name(tmp_path.name + "-out"))


def test_arrays_of_different_shapes_are_not_one_column(tmp_path: Path, arrow: Any) -> None:
    tables = []
    for shape in ([2, 3], [3, 2]):
        feature = {"_type": "Array2D", "shape": shape, "dtype": "int64"}
        metadata = {"huggingface": json.dumps({"info": {"features": {"x": feature}}})}
        values = [np.zeros(shape, np.int64).tolist()]
        tables.append(arrow.table({"x": values}).replace_schema_metadata(metadata))
    source = write_files(tmp_path / "in", *tables)
    with pytest.raises(ValueError, match=r"column 'x' is of shape \(3, 2\), but of shape \(2, 3\)"):
        stoker.pack(source, tmp_path / "out")


def test_what_lies_beside_arrow_files_is_named(tmp_path: Path, arrow: Any) -> None:
    ipc = pytest.importorskip("pyarrow.ipc")
    table = arrow.table({"x": [1]})
    (tmp_path / "in" / "sub").mkdir(parents=True)
    for name in ("a.arrow", "b.ARROW", "sub/c.arrow"):
        with ipc.new_file(tmp_path / "in" / name, table.schema) as writer:
            writer.write_table(table)
    with pytest.warns(UserWarning, match=r"left out: b\.ARROW, sub: only the folder's own"):
        report = stoker.pack(tmp_path / "in", tmp_path / "out")
    assert report.sample_count == 1
