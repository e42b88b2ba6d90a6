"""What columns and samples are without fields=: the types of a Dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

OPTIONS: dict[str, Any] = {"batch_size": 4, "shuffle": "off", "torch": False}


def same(sample: Any, rng: np.random.Generator) -> Any:
    return sample


def gathered(samples: list[Any]) -> dict[str, Any]:
    return {"samples": samples}


def seen_by_map(data: Any, where: Any, **options: Any) -> list[dict[str, Any]]:
    settings = OPTIONS | {"map": same, "collate": gathered, "map_in": where, "map_workers": 2}
    with stoker.Loader(data, **(settings | options)) as loader:
        return [sample for batch in loader for sample in batch["samples"]]


def alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two samples have the same fields, types and values."""
    return one.keys() == other.keys() and all(
        type(value) is type(other[name]) and np.array_equal(value, other[name])
        for name, value in one.items()
    )


@pytest.fixture
def labels(tmp_path: Path, write_tar: Any) -> Path:
    samples = {
        f"k{i}": {
            "jpg": b"\xff\xd8" * i,
            "cls": b"%d\n" % i,
            "image.id": b"%d" % (1000 + i),
            "txt": f"tëxt {i}".encode(),
            "json": b'{"n": %d}' % i,
        }
        for i in range(4, 12)
    }
    return write_tar(tmp_path / "labels.tar", samples)  # type: ignore[no-any-return]


def test_a_tars_labels_are_int_in_a_dataset(labels: Path) -> None:
    sample = stoker.Dataset(labels)[0]
    assert (sample["cls"], type(sample["cls"])) == (4, int)
    assert (sample["image.id"], type(sample["image.id"])) == (1004, int)
    assert sample["txt"] == "tëxt 4"
    assert sample["json"] == {"n": 4}
    assert sample["jpg"].dtype == np.uint8


def test_a_label_that_is_no_integer_is_text(tmp_path: Path, write_tar: Any) -> None:
    samples = {"a": {"cls": b"cat"}, "b": {"cls": b"\xff"}, "c": {"id": b"9" * 30}}
    data = stoker.Dataset(write_tar(tmp_path / "odd.tar", samples))
    assert data[0]["cls"] == "cat"
    assert bytes(data[1]["cls"]) == b"\xff"
    assert data[2]["id"] == "9" * 30


@pytest.mark.parametrize("where", ["thread", "process"])
def test_map_sees_what_a_dataset_gives(labels: Path, where: Any) -> None:
    data = stoker.Dataset(labels)
    seen = seen_by_map(data, where)
    assert [int(sample["cls"]) for sample in seen] == list(range(4, 12))
    assert all(alike(one, other) for one, other in zip(seen, data, strict=True))
    assert not seen[0]["jpg"].flags.writeable


def test_columns_have_the_types_of_a_dataset(labels: Path) -> None:
    batch = next(iter(stoker.Loader(labels, **OPTIONS)))
    assert (batch["cls"].dtype, batch["cls"].tolist()) == (np.dtype(np.int64), [4, 5, 6, 7])
    assert batch["image.id"].tolist() == [1004, 1005, 1006, 1007]
    assert batch["txt"] == [f"tëxt {i}" for i in range(4, 8)]
    assert batch["json"] == [{"n": i} for i in range(4, 8)]
    assert isinstance(batch["jpg"], stoker.BytesColumn)
    tensor = next(iter(stoker.Loader(labels, **(OPTIONS | {"torch": True}))))["cls"]
    assert str(tensor.dtype) == "torch.int64"


def test_names_alone_are_columns_as_they_are(labels: Path) -> None:
    batch = next(iter(stoker.Loader(labels, fields=["cls", "txt", "jpg"], **OPTIONS)))
    assert list(batch) == ["cls", "txt", "jpg", "__key__"]
    assert batch["cls"].tolist() == [4, 5, 6, 7]
    assert batch["txt"][1] == "tëxt 5"
    assert bytes(batch["jpg"][0]) == b"\xff\xd8" * 4
    named = {"label": stoker.Field("nope;cls", None), "raw": stoker.Field("cls")}
    batch = next(iter(stoker.Loader(labels, fields=named, **OPTIONS)))
    assert batch["label"].tolist() == [4, 5, 6, 7]
    assert bytes(batch["raw"][0]) == b"4\n"


def typed(folder: Path, format: Any) -> stoker.Dataset:  # noqa: A002
    samples = (
        {"n": i, "w": i / 2, "x": np.arange(3, dtype=np.float32) + i, "t": f"t{i}"}
        for i in range(8)
    )
    stoker.ingest(samples, folder, format=format)
    return stoker.Dataset(folder)


@pytest.mark.parametrize("where", ["thread", "process"])
@pytest.mark.parametrize("format", ["mds", "tfrecord"])
def test_numbers_of_typed_formats_are_numbers(tmp_path: Path, format: Any, where: Any) -> None:  # noqa: A002
    data = typed(tmp_path / "data", format)
    batch = next(iter(stoker.Loader(data, **OPTIONS)))
    shape = (4,) if format == "mds" else (4, 1)  # a TFRecord has lists alone
    assert (batch["n"].dtype, batch["n"].shape) == (np.dtype(np.int64), shape)
    assert batch["w"].ravel().tolist() == [0, 0.5, 1, 1.5]
    assert batch["x"].shape == (4, 3)
    assert batch["x"].dtype == np.float32
    seen = seen_by_map(data, where)
    assert all(alike(one, other) for one, other in zip(seen, data, strict=True))
    if format == "mds":
        assert batch["t"] == ["t0", "t1", "t2", "t3"]
        assert {int(sample["n"]): sample["n"] for sample in seen}.keys() == set(range(8))
        assert {sample["n"] for sample in seen} == set(range(8))  # numbers can be hashed


def test_every_scalar_of_mds_is_one_number_for_each_sample(tmp_path: Path) -> None:
    kinds = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]
    kinds += ["float16", "float32", "float64"]
    columns = {f"c_{kind}": kind for kind in kinds} | {"c_int": "int"}
    folder = tmp_path / "mds"
    write_mds_scalars(folder, columns, 6)
    data = stoker.Dataset(folder)
    for name, kind in columns.items():
        dtype = np.dtype("int64" if kind == "int" else kind)
        assert (data[1][name].shape, data[1][name].dtype) == ((), dtype)
        for fields in (None, [name], {name: dtype}, {name: stoker.Array()}):
            batch = next(iter(stoker.Loader(data, fields=fields, **OPTIONS)))
            assert (batch[name].shape, batch[name].dtype) == ((4,), dtype), (name, fields)
            assert batch[name].tolist() == [0, 1, 2, 3]


def write_mds_scalars(folder: Path, columns: dict[str, str], count: int) -> None:
    """As MosaicML's writer does: fixed sizes in the order of the column names."""
    import json
    import struct

    folder.mkdir()
    names = sorted(columns)
    dtypes = [np.dtype("int64" if columns[name] == "int" else columns[name]) for name in names]
    config = {
        "version": 2,
        "format": "mds",
        "compression": None,
        "hashes": [],
        "size_limit": 1 << 26,
        "column_names": names,
        "column_encodings": [columns[name] for name in names],
        "column_sizes": [dtype.itemsize for dtype in dtypes],
    }
    rows = [b"".join(dtype.type(i).tobytes() for dtype in dtypes) for i in range(count)]
    head = json.dumps(config, sort_keys=True).encode()
    first = 4 + 4 * (count + 1) + len(head)
    offsets = np.cumsum([first, *(len(row) for row in rows)]).astype("<u4")
    data = struct.pack("<I", count) + offsets.tobytes() + head + b"".join(rows)
    (folder / "shard.00000.mds").write_bytes(data)
    raw = {"basename": "shard.00000.mds", "bytes": len(data), "hashes": {}}
    shard = config | {"samples": count, "raw_data": raw, "zip_data": None}
    (folder / "index.json").write_text(json.dumps({"version": 2, "shards": [shard]}))


def test_numbers_that_are_not_alike_say_so_and_never_become_another_type(
    tmp_path: Path, write_tar: Any
) -> None:
    samples = {f"k{i}": {"cls": b"x" if i == 6 else b"1", "bin": b"."} for i in range(8)}
    del samples["k3"]["cls"]
    first, second = stoker.Loader(write_tar(tmp_path / "a.tar", samples), **OPTIONS)
    with pytest.raises(ValueError, match=r"'cls' is int64 .* 'k0' and missing in 'k3'.* fields="):
        first["cls"]
    assert len(first["bin"]) == 4  # others are not touched by it
    with pytest.raises(ValueError, match=r"'cls' is int64 .* 'k4' and str in 'k6'"):
        second["cls"]


@pytest.fixture
def some(tmp_path: Path, write_tar: Any) -> Path:
    """Eight samples, of which some have a label, some a text, and some neither."""
    samples = {
        f"k{i}": {"bin": bytes([i])}
        | ({"cls": b"%d" % i} if i % 2 else {})
        | ({"txt": b""} if i % 3 == 0 else {})
        | ({"json": b"null"} if i == 5 else {})
        for i in range(8)
    }
    return write_tar(tmp_path / "some.tar", samples)  # type: ignore[no-any-return]


@pytest.mark.parametrize("where", ["thread", "process"])
@pytest.mark.parametrize("batch_size", [1, 2, 8])
def test_a_sample_has_exactly_the_fields_it_has(some: Path, where: Any, batch_size: int) -> None:
    data = stoker.Dataset(some)
    assert [sorted(sample) for sample in data][:2] == [
        ["__key__", "bin", "txt"],
        ["__key__", "bin", "cls"],
    ]
    seen = seen_by_map(data, where, batch_size=batch_size)
    assert len(seen) == 8
    assert all(alike(one, other) for one, other in zip(seen, data, strict=True))
    assert seen[5]["json"] is None  # a value, and not a lack of one


def test_columns_of_text_and_bytes_have_none_for_a_sample_without_the_field(some: Path) -> None:
    batch = next(iter(stoker.Loader(some, **(OPTIONS | {"batch_size": 8}))))
    assert batch["txt"] == ["", None, None, "", None, None, "", None]


@pytest.mark.parametrize("form", ["tar", "mds", "tfrecord"])
def test_a_batch_has_the_keys_that_the_dataset_has(tmp_path: Path, form: Any) -> None:
    samples = ({"__key__": f"k/{i}", "n": i, "text": f"t{i}"} for i in range(20))
    stoker.ingest(samples, tmp_path / "d", format=form, samples_per_shard=7)
    data = stoker.Dataset(tmp_path / "d")
    keys = [sample["__key__"] for sample in data]
    for fields in (None, {"n": int}):
        loader = stoker.Loader(data, batch_size=3, shuffle=False, tail="keep", fields=fields)
        assert [key for batch in loader for key in batch["__key__"]] == keys
    assert len(set(keys)) == 20
