"""The columns of a batch: what fields= makes of a sample's fields."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker


def npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def rows(i: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.full((i % 4, 2), i, np.float32)


@pytest.fixture
def arrays(tmp_path: Path, write_tar: Any) -> Path:
    """Twelve samples with fields of every kind."""
    samples = {
        f"k{i}": {
            "npy": npy(np.full((2, 3), i, np.int16)),
            "rows.npy": npy(rows(i)),
            "raw": np.full(3, i, np.float64).tobytes(),
            "x": b" 1.5e%d\n" % i,
            "json": b'{"a": {"b": [%d, %d.5]}, "name": "n\\u00e4me %d", "whole": 7}' % (i, i, i),
            "txt": f"tëxt {i}".encode(),
        }
        for i in range(12)
    }
    return write_tar(tmp_path / "arrays.tar", samples)  # type: ignore[no-any-return]


def first(path: Any, fields: Any, **options: Any) -> stoker.Batch:
    settings: dict[str, Any] = {"batch_size": 4, "shuffle": "off", "torch": False}
    with stoker.Loader(path, fields=fields, **(settings | options)) as loader:
        return next(iter(loader))  # type: ignore[no-any-return]


def test_numbers_are_read_from_text(shards: Path, arrays: Path) -> None:
    batch = first(shards, {"cls": int})
    assert (batch["cls"].dtype, batch["cls"].tolist()) == (np.dtype("int64"), [0, 1, 2, 3])
    batch = first(arrays, {"x": float})
    assert batch["x"].dtype == np.float64
    assert batch["x"].tolist() == [1.5, 15.0, 150.0, 1500.0]


def test_text_is_str(arrays: Path) -> None:
    assert first(arrays, {"txt": str})["txt"] == [f"tëxt {i}" for i in range(4)]


def test_json_values_are_found_by_path(arrays: Path) -> None:
    batch = first(
        arrays,
        {
            "b": stoker.Json("a.b.0", int, field="json"),
            "half": stoker.Json("a.b.1", float, field="json"),
            "name": stoker.Json("name", str, field="json"),
            "json": stoker.Json("whole", int),
        },
    )
    assert batch["b"].tolist() == [0, 1, 2, 3]
    assert batch["half"].tolist() == [0.5, 1.5, 2.5, 3.5]
    assert batch["name"] == [f"näme {i}" for i in range(4)]
    assert batch["json"].tolist() == [7] * 4


def test_json_of_python_with_nan_is_read_as_a_dataset_reads_it(
    tmp_path: Path, write_tar: Any
) -> None:
    document = b'{"a": NaN, "b": 1, "name": "\\u00e9", "low": -Infinity, "high": Infinity}'
    path = write_tar(tmp_path / "nan.tar", {"k0": {"json": document}})
    fields = {
        "a": stoker.Json("a", float, field="json"),
        "b": stoker.Json("b", int, field="json"),
        "name": stoker.Json("name", str, field="json"),
        "low": stoker.Json("low", float, field="json"),
        "high": stoker.Json("high", float, field="json"),
    }
    batch = first(path, fields, batch_size=1)
    expected = stoker.Dataset(path)[0]["json"]
    plain = first(path, None, batch_size=1)["json"][0]
    for name in fields:
        assert np.array_equal(batch[name][0], expected[name], equal_nan=name == "a")
        assert np.array_equal(plain[name], expected[name], equal_nan=name == "a")
    with pytest.raises(ValueError, match="not an integer"):
        first(path, {"a": stoker.Json("a", int, field="json")}, batch_size=1)


def test_npy_arrays_are_stacked(arrays: Path) -> None:
    batch = first(arrays, {"npy": stoker.Npy()})
    assert batch["npy"].dtype == np.int16
    assert np.array_equal(batch["npy"], np.stack([np.full((2, 3), i) for i in range(4)]))
    assert batch["npy"].flags.c_contiguous


@pytest.mark.parametrize("kind", [np.float64, "float64", np.dtype("<f8"), stoker.Array("float64")])
def test_plain_elements_take_their_dtype_from_the_caller(arrays: Path, kind: Any) -> None:
    batch = first(arrays, {"raw": kind})
    assert batch["raw"].dtype == np.float64
    assert batch["raw"].tolist() == [[i] * 3 for i in range(4)]


def test_an_array_may_be_told_its_shape(arrays: Path) -> None:
    batch = first(arrays, {"v": stoker.Array(np.float64, (3, 1), field="raw")})
    assert batch["v"].shape == (4, 3, 1)


def test_ragged_arrays_are_values_and_offsets(arrays: Path) -> None:
    column = first(arrays, {"rows.npy": stoker.Ragged(np.float32)})["rows.npy"]
    assert isinstance(column, stoker.RaggedColumn)
    assert column.offsets.tolist() == [0, 0, 1, 3, 6]
    assert column.values.shape == (6, 2)
    assert len(column) == 4
    for i, array in enumerate(column):
        assert np.array_equal(array, rows(i))
        assert np.array_equal(column[i], rows(i))
    assert np.array_equal(column[-1], rows(3))
    assert [len(array) for array in column[1:3]] == [1, 2]
    assert np.shares_memory(column[3], column.values)
    with pytest.raises(IndexError):
        column[4]
    again = pickle.loads(pickle.dumps(column))
    assert again.offsets.tolist() == [0, 0, 1, 3, 6]


def test_padded_arrays_say_their_lengths(arrays: Path) -> None:
    batch = first(arrays, {"r": stoker.Pad(3, value=-1, field="rows.npy")})
    assert batch["r"].shape == (4, 3, 2)
    assert batch["r_length"].tolist() == [0, 1, 2, 3]
    assert batch["r"][1].tolist() == [[1, 1], [-1, -1], [-1, -1]]
    cut = first(arrays, {"r": stoker.Pad(1, cut=True, field="rows.npy")})
    assert cut["r"].shape == (4, 1, 2)
    assert cut["r_length"].tolist() == [0, 1, 1, 1]


def test_a_row_that_does_not_fit_is_named_with_its_sample(arrays: Path) -> None:
    with pytest.raises(ValueError, match=r"k2.*'?rows\.npy") as raised:
        first(arrays, {"r": stoker.Pad(1, field="rows.npy")})
    assert "arrays.tar" in str(raised.value)


def test_what_is_no_number_is_named_with_its_sample(shards: Path) -> None:
    with pytest.raises(ValueError, match=r'train-000\.tar: .* byte 0: key "s000"') as raised:
        first(shards, {"bin": int})
    assert not isinstance(raised.value, stoker.CorruptError)  # nothing is damaged


@pytest.mark.parametrize("kind", [int, float, np.int64, np.float32])
def test_what_is_no_number_is_told_with_what_to_ask_for(
    tmp_path: Path, write_tar: Any, kind: Any
) -> None:
    jpeg = b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(range(128, 151))
    path = write_tar(tmp_path / "x.tar", {"k7": {"txt": b"a cat 0", "jpg": jpeg}})
    with pytest.raises(
        ValueError, match=r'x\.tar: .*key "k7": field "txt": "a cat 0" is not'
    ) as text:
        first(path, {"txt": kind}, batch_size=1)
    assert "ask for str, or for bytes and decode them in map=" in str(text.value)
    with pytest.raises(ValueError, match=r'x\.tar: .*key "k7": field "jpg"') as image:
        first(path, {"jpg": kind}, batch_size=1)
    assert "encoded file, such as an image, ask for bytes and decode them" in str(image.value)


@pytest.mark.parametrize(
    "fields", [{"jpg": bytes}, ["cls", "jpg"], {"cls": stoker.Json("n", int, field="jpg")}]
)
def test_a_field_that_no_sample_has_is_refused_at_once_with_those_there_are(
    shards: Path, fields: Any
) -> None:
    data = stoker.Dataset(shards)
    mixture = stoker.Mixture([(data, 1)])
    for source in (data, data.select([3, 4]), mixture):
        with pytest.raises(ValueError, match=r"no 'jpg' in sample 's00.'; it has bin, cls, json"):
            stoker.Loader(source, batch_size=2, fields=fields, torch=False)


def test_a_field_that_some_samples_lack_is_an_error_of_their_batch(
    tmp_path: Path, write_tar: Any
) -> None:
    samples = {f"k{i}": {"x": b"1"} | ({"y": b"2"} if 0 < i < 5 else {}) for i in range(6)}
    tar = write_tar(tmp_path / "some.tar", samples)
    options: dict[str, Any] = {"batch_size": 2, "fields": {"y": int}, "torch": False}
    with pytest.raises(ValueError, match='"y": the sample has no such field; it has "x"') as raised:
        list(stoker.Loader(stoker.Dataset(tar)[:5], shuffle="off", **options))
    assert not isinstance(raised.value, stoker.CorruptError)
    assert len(list(stoker.Loader(tar, on_error="skip", **options))) == 3
    assert len(list(stoker.Loader(tar, order=[1, 2], **options))) == 1


def test_a_sample_that_cannot_be_read_is_left_to_its_batch(shards: Path) -> None:
    data = stoker.Dataset(shards)
    tar = shards / "train-000.tar"
    tar.write_bytes(tar.read_bytes() + bytes(512))
    loader = stoker.Loader(data, batch_size=2, shuffle="off", fields={"nope": int}, torch=False)
    with pytest.raises(OSError, match="changed since the dataset was opened"):
        next(iter(loader))


def test_healthy_data_of_another_kind_than_asked_for_is_a_value_error(
    tmp_path: Path, write_tar: Any
) -> None:
    big = b"18446744073709551615"
    sample = {"n": big, "id": big, "jpg": b"\xff\xd8", "json": b'{"a": "b", "n": 1e30}'}
    tar = write_tar(tmp_path / "a.tar", {"k": sample})
    for fields, message in (
        ({"n": int}, "18446744073709551615 does not fit in an int64: ask for np.uint64"),
        ({"id": np.int32}, "18446744073709551615 is out of range for int32"),
        ({"jpg": str}, "it is not UTF-8: ask for bytes"),
        ({"json": stoker.Json("c", int)}, 'its JSON has no "c"'),
        ({"json": stoker.Json("a", int)}, "its JSON value is string"),
        ({"json": stoker.Json("n", int)}, "not an integer of 64 bits"),
    ):
        with pytest.raises(ValueError, match=message) as raised:
            first(tar, fields, batch_size=1)
        assert not isinstance(raised.value, stoker.CorruptError), fields
    assert first(tar, {"id": np.uint64}, batch_size=1)["id"].tolist() == [2**64 - 1]


def test_a_name_may_list_alternatives(tmp_path: Path, write_tar: Any) -> None:
    kinds = ["jpg", "jpeg", "png"]
    samples = {f"k{i}": {kinds[i % 3]: b"%d" % i, "cls": b"%d" % i} for i in range(6)}
    tar = write_tar(tmp_path / "mixed.tar", samples)
    name = "jpg;jpeg;png"
    fields = {name: bytes, "image": stoker.Field(name), "n": stoker.Field(name, int)}
    batch = first(tar, fields, batch_size=6)
    assert [bytes(one) for one in batch[name]] == [b"%d" % i for i in range(6)]
    assert batch["image"].tolist() == batch[name].tolist()
    assert batch["n"].tolist() == list(range(6))
    codes = stoker.Array(np.uint8, (1,), field=name)
    assert first(tar, {"x": codes}, batch_size=6)["x"].tolist() == [[48 + i] for i in range(6)]
    assert len(first(tar, [name, "cls"], batch_size=6)[name]) == 6
    with pytest.raises(ValueError, match=r"no 'gif;bmp' in sample 'k0'; it has jpg, cls"):
        first(tar, {"gif;bmp": bytes})
    with pytest.raises(ValueError, match=r'"jpg": the sample has no such field.*"jpg;jpeg;png"'):
        first(tar, {"jpg": bytes}, order=[0, 1])


@pytest.mark.parametrize("format", ["tar", "mds", "tfrecord"])
def test_one_number_becomes_the_dtype_that_is_asked_for(tmp_path: Path, format: Any) -> None:  # noqa: A002
    torch = pytest.importorskip("torch")
    samples = ({"__key__": f"k{i}", "cls": i, "w.txt": f"{i}.25", "y.cls": i} for i in range(4))
    stoker.ingest(samples, tmp_path / "data", format=format)
    for kind, name in (
        (np.int32, "int32"),
        ("uint8", "uint8"),
        (np.float32, "float32"),
        (np.dtype("f8"), "float64"),
        (torch.int64, "int64"),
        (torch.float32, "float32"),
    ):
        column = first(tmp_path / "data", {"cls": kind})["cls"]
        assert str(column.dtype) == name
        assert column.ravel().tolist() == [0, 1, 2, 3]
        assert column.shape == ((4, 1) if format == "tfrecord" else (4,))
    if format != "tfrecord":  # whose text is bytes
        column = first(tmp_path / "data", {"w.txt": torch.float32})["w.txt"]
        assert (column.dtype, column.tolist()) == (np.dtype(np.float32), [0.25, 1.25, 2.25, 3.25])
        with pytest.raises(ValueError, match=r'"0.25" is not an integer'):
            first(tmp_path / "data", {"w.txt": np.int64})


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (list(range(10)), np.uint8),  # each digit could be an element too
        (list(range(95, 105)), np.uint8),
        ([1990, 1991, 1992, 2024], np.int32),
        ([20240131, 20240201], np.int64),
        ([1.25, 0.5, 2.75], np.float32),
        ([1.25, 0.5, 2.75], "float64"),
    ],
)
def test_a_dtype_reads_a_number_in_text_whatever_the_field_is_called(
    tmp_path: Path, values: list[Any], kind: Any
) -> None:
    samples = ({"__key__": f"k{i}", "label": value} for i, value in enumerate(values))
    stoker.ingest(samples, tmp_path / "tar")
    for field in (kind, stoker.Array(kind), stoker.Array(kind, ())):
        loader = stoker.Loader(
            tmp_path / "tar",
            batch_size=2,
            shuffle="off",
            torch=False,
            fields={"label": field},
        )
        columns = [batch["label"] for batch in loader]
        assert {column.dtype for column in columns} == {np.dtype(kind)}
        assert np.concatenate(columns).tolist() == values


def test_bytes_are_numbers_in_text_or_elements_in_all_samples(
    tmp_path: Path, write_tar: Any
) -> None:
    def tar(*values: bytes) -> Path:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.tar"
        return write_tar(path, {f"k{i}": {"v": v} for i, v in enumerate(values)})  # type: ignore[no-any-return]

    elements = tar(b"\x07", b"5")
    assert first(elements, {"v": np.uint8}, batch_size=2)["v"].tolist() == [[7], [53]]
    with pytest.raises(ValueError, match=r'"k1".*is not an integer'):
        first(tar(b"5", b"\x07"), {"v": np.uint8}, batch_size=2)
    with pytest.raises(
        ValueError, match=r"text, but not a number.*stoker.Array\(\"float32\", shape\)"
    ):
        first(tar(b"none", b"1.25"), {"v": np.float32}, batch_size=2)
    told = first(tar(b"1990"), {"v": stoker.Array("int32", (1,))}, batch_size=1)["v"]
    assert told.tolist() == [[int.from_bytes(b"1990", "little")]]


@pytest.mark.parametrize("format", ["mds", "tfrecord"])
def test_a_mixture_reads_a_number_in_text_beside_a_typed_one(tmp_path: Path, format: Any) -> None:  # noqa: A002
    kinds: dict[str, Any] = {"typed": format, "text": "tar"}
    for name, kind in kinds.items():
        samples = ({"__key__": f"{name}{i}", "year": 1990 + i} for i in range(4))
        stoker.ingest(samples, tmp_path / name, format=kind)
    both = stoker.Mixture([(tmp_path / "typed", 0.5), (tmp_path / "text", 0.5)])
    years = first(both, {"year": np.int32}, batch_size=8)["year"]
    assert set(years.ravel().tolist()) <= {1990, 1991, 1992, 1993}


def same(sample: dict[str, Any], rng: Any) -> dict[str, Any]:
    return sample


def test_a_map_keeps_the_dtype_of_a_number(shards: Path) -> None:
    batch = first(shards, {"cls": np.float32}, map=same)
    assert (batch["cls"].dtype, batch["cls"].tolist()) == (np.dtype(np.float32), [0, 1, 2, 3])


def test_one_field_may_be_several_columns(shards: Path) -> None:
    batch = first(shards, {"cls": int, "n": stoker.Json("n", int, field="json"), "json": bytes})
    assert batch["n"].tolist() == batch["cls"].tolist()
    assert bytes(batch["json"][2]) == b'{"n": 2}'


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"cls": list}, r"fields\['cls'\] is <class 'list'>: give bytes"),
        ({"cls": dict}, r"give bytes, str"),
        ({"cls": stoker.Json("n", list)}, "int, float or str"),
        ("cls", r"give \['cls'\]"),
        ({}, "empty"),
        ({"__key__": str}, "leave it out"),
        ({"r": stoker.Pad(3), "r_length": int}, "lengths of 'r'"),
        ({"r": stoker.Pad(0)}, "length"),
    ],
)
def test_fields_that_make_no_sense_are_refused_at_once(
    shards: Path, fields: Any, message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        stoker.Loader(shards, batch_size=2, fields=fields, torch=False)


def test_field_kinds_can_be_pickled_and_compared() -> None:
    for kind in (stoker.Json("a", int), stoker.Npy(), stoker.Ragged("int32"), stoker.Pad(3)):
        assert pickle.loads(pickle.dumps(kind)) == kind
    assert stoker.Pad(3) != stoker.Pad(4)


@pytest.mark.parametrize(
    ("value", "spec", "fits"),
    [
        (16777217, np.float32, False),
        (16777216, np.float32, True),
        (-16777217, np.float32, False),
        (2**53 + 1, float, False),
        (2**53 + 2, float, True),
        (2**53 + 1, np.float64, False),
        (2**63 - 1, np.float64, False),
        (2**60, np.float32, True),
        (16777217.5, np.float32, True),
        (1e30, np.float32, True),
    ],
)
@pytest.mark.parametrize("format", ["tar", "mds"])
def test_an_integer_is_not_rounded_to_a_real_number(
    tmp_path: Path,
    value: float,
    spec: Any,
    fits: bool,
    format: Any,  # noqa: A002
) -> None:
    samples = [{"__key__": f"key{i}", "n.txt": n} for i, n in enumerate([type(value)(1), value])]
    stoker.ingest(samples, tmp_path / "d", format=format)
    fields = {"n.txt": spec}
    with stoker.Loader(tmp_path / "d", batch_size=2, shuffle="off", fields=fields) as loader:
        if fits:
            assert float(next(iter(loader))["n.txt"][1]) == float(np.array(value, spec))
            return
        with pytest.raises(ValueError, match=rf"sample 1 .*{value} is an integer that float"):
            next(iter(loader))


def test_an_integer_in_json_is_not_rounded(tmp_path: Path) -> None:
    stoker.ingest([{"__key__": "first", "m.json": {"n": 2**53 + 1, "x": 0.1}}], tmp_path / "d")
    fields = {
        "x": stoker.Json("x", float, field="m.json"),
        "n": stoker.Json("n", int, field="m.json"),
    }
    with stoker.Loader(tmp_path / "d", batch_size=1, fields=fields) as loader:
        batch = next(iter(loader))
        assert (batch["x"][0], batch["n"][0]) == (0.1, 2**53 + 1)
    fields = {"n": stoker.Json("n", float, field="m.json")}
    with (
        pytest.raises(ValueError, match="is an integer that float64 would round"),
        stoker.Loader(tmp_path / "d", batch_size=1, fields=fields) as loader,
    ):
        next(iter(loader))
