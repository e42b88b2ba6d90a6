"""TFRecords between us, the tfrecord package and TensorBoard's reader, in both directions.

Run in the environment of peers/requirements.txt; STOKER_FORMAT_TOOL names format_tool.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import random
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

TOOL = os.environ.get("STOKER_FORMAT_TOOL", "")
pytestmark = pytest.mark.skipif(not TOOL, reason="STOKER_FORMAT_TOOL names no format_tool")

np = pytest.importorskip("numpy")
pytest.importorskip("tfrecord")
pytest.importorskip("tensorboard")
from tensorboard.compat.tensorflow_stub import errors  # noqa: E402
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import PyRecordReader_New  # noqa: E402
from tensorboard.summary.writer.record_writer import RecordWriter  # noqa: E402
from tfrecord import example_pb2  # noqa: E402
from tfrecord.reader import example_loader  # noqa: E402
from tfrecord.writer import TFRecordWriter  # noqa: E402

INT64_EDGES = [0, 1, -1, 127, 128, 2**31, -(2**31), 2**63 - 1, -(2**63)]
EXAMPLES: list[dict[str, tuple[Any, str]]] = [
    {"image": (bytes(range(256)) * 40, "byte"), "label": (3, "int"), "caf\u00e9": (b"x", "byte")},
    {"ints": (INT64_EDGES, "int"), "floats": ([0.0, -0.0, 1.5, float("inf"), 1e-45], "float")},
    {"empty": (b"", "byte")},
    {"none": ([], "byte"), "no_ints": ([], "int"), "no_floats": ([], "float")},
    {"many": ([b"a", b"", bytes(300)], "byte")},
    {},
]


def run(*words: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([TOOL, *words], input=data, capture_output=True, timeout=120)


def read_by_us(path: Path, format_name: str = "tfrecord") -> list[dict[str, Any]]:
    done = run("read", format_name, str(path))
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


def write_by_us(path: Path, lines: list[dict[str, Any]], format_name: str = "tfrecord") -> None:
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    done = run("write", format_name, str(path), data=data)
    assert done.returncode == 0, done.stderr.decode()


def bytes_list(data: bytes) -> list[bytes]:
    return list(example_pb2.BytesList.FromString(data).value)


def values(line: dict[str, Any]) -> dict[str, tuple[list[Any], str]]:
    """What we read, as the lists of an Example."""
    out = {}
    for name, text in line["fields"].items():
        data = base64.b64decode(text)
        kind = line["types"].get(name, {"type": "bytes"})
        match kind["type"]:
            case "bytes":
                out[name] = ([data], "byte")
            case "int64":
                out[name] = (np.frombuffer(data, "<i8").tolist(), "int")
            case "float32":
                out[name] = (np.frombuffer(data, "<f4").tolist(), "float")
            case "array":
                assert kind["dtype"] == "tf.BytesList"
                out[name] = (bytes_list(data), "byte")
                assert kind["shape"] == [len(out[name][0])]
    return out


def as_lists(example: dict[str, tuple[Any, str]]) -> dict[str, tuple[list[Any], str]]:
    """An Example to write, with every value a list, floats rounded as float32 rounds them."""
    out = {}
    for name, (value, kind) in example.items():
        value = value if isinstance(value, list) else [value]
        out[name] = (np.array(value, "<f4").tolist() if kind == "float" else value, kind)
    return out


def line_of(example: dict[str, tuple[Any, str]]) -> dict[str, Any]:
    """An Example as format_tool wants a sample."""
    fields, types = {}, {}
    for name, (value, kind) in as_lists(example).items():
        if kind == "byte" and len(value) == 1:
            data = value[0]
        elif kind == "byte":
            data = example_pb2.BytesList(value=value).SerializeToString()
            types[name] = {"type": "array", "dtype": "tf.BytesList", "shape": [len(value)]}
        else:
            data = np.array(value, "<i8" if kind == "int" else "<f4").tobytes()
            types[name] = {"type": "int64" if kind == "int" else "float32"}
        fields[name] = base64.b64encode(data).decode()
    return {"key": "", "fields": fields, "types": types}


def records_by_tensorboard(path: Path) -> list[bytes]:
    """The data of each record; this reader checks both checksums."""
    reader = PyRecordReader_New(str(path))
    records = []
    while True:
        try:
            reader.GetNext()
        except errors.OutOfRangeError:
            return records
        records.append(reader.record())


def random_example(chance: random.Random) -> dict[str, tuple[Any, str]]:
    example: dict[str, tuple[Any, str]] = {}
    for i in range(chance.randrange(8)):
        count = chance.randrange(6)
        match chance.choice(["byte", "int", "float"]):
            case "byte":
                lists = [chance.randbytes(chance.randrange(200)) for _ in range(count)]
                example[f"name{i}"] = (lists, "byte")
            case "int":
                shift = chance.randrange(64)
                numbers = [chance.randrange(-(2**63), 2**63) >> shift for _ in range(count)]
                example[f"name{i}"] = (numbers, "int")
            case "float":
                example[f"name{i}"] = ([chance.uniform(-1, 1) for _ in range(count)], "float")
    return example


ALL = EXAMPLES + [random_example(random.Random(seed)) for seed in range(200)]


def test_we_read_what_the_tfrecord_package_wrote(tmp_path: Path) -> None:
    path = tmp_path / "peer.tfrecord"
    writer = TFRecordWriter(str(path))
    for example in ALL:
        writer.write(example)
    writer.close()
    lines = read_by_us(path)
    assert [values(line) for line in lines] == [as_lists(example) for example in ALL]


def test_tensorboard_and_protobuf_read_what_we_wrote(tmp_path: Path) -> None:
    path = tmp_path / "ours.tfrecord"
    write_by_us(path, [line_of(example) for example in ALL])
    records = records_by_tensorboard(path)
    assert len(records) == len(ALL)
    for record, example in zip(records, ALL, strict=True):
        expected = TFRecordWriter.serialize_tf_example(example)
        message = example_pb2.Example.FromString(expected)
        assert record == message.SerializeToString(deterministic=True)


def test_the_tfrecord_package_reads_what_we_wrote(tmp_path: Path) -> None:
    # Its loader takes the first field that is set of each feature, and fails on a feature of none.
    examples = [{"b": (b"\x00\xff", "byte"), "i": ([1, -2], "int"), "f": ([0.5], "float")}] * 3
    path = tmp_path / "ours.tfrecord"
    write_by_us(path, [line_of(example) for example in examples])
    loaded = list(example_loader(str(path), None))
    assert len(loaded) == 3
    for example in loaded:
        assert example["b"] == b"\x00\xff"
        assert example["i"].tolist() == [1, -2]
        assert example["f"].tolist() == [0.5]


def test_we_write_byte_for_byte_what_the_peers_write(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    write_by_us(ours, [line_of(example) for example in ALL])
    framed = RecordWriter(theirs.open("wb"))
    for example in ALL:
        message = example_pb2.Example.FromString(TFRecordWriter.serialize_tf_example(example))
        framed.write(message.SerializeToString(deterministic=True))
    framed.close()
    assert ours.read_bytes() == theirs.read_bytes()


def test_raw_records_go_both_ways(tmp_path: Path) -> None:
    data = [b"", b"hello", bytes(35615), random.Random(1).randbytes(100_000)]
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    fields = [{"fields": {"data": base64.b64encode(item).decode()}} for item in data]
    write_by_us(ours, fields, "tfrecord-raw")
    framed = RecordWriter(theirs.open("wb"))
    for item in data:
        framed.write(item)
    framed.close()
    assert ours.read_bytes() == theirs.read_bytes()
    assert records_by_tensorboard(ours) == data
    read = read_by_us(theirs, "tfrecord-raw")
    assert [base64.b64decode(line["fields"]["data"]) for line in read] == data


def test_every_flipped_byte_that_tensorboard_finds_we_find(tmp_path: Path) -> None:
    path = tmp_path / "damaged"
    framed = RecordWriter(path.open("wb"))
    framed.write(TFRecordWriter.serialize_tf_example(EXAMPLES[1]))
    framed.close()
    whole = path.read_bytes()
    for i in range(len(whole)):
        path.write_bytes(whole[:i] + bytes([whole[i] ^ 0x10]) + whole[i + 1 :])
        with pytest.raises(errors.DataLossError):
            records_by_tensorboard(path)
        done = run("read", "tfrecord", str(path))
        assert done.returncode == 1
        assert b"record at offset 0" in done.stderr


def test_merged_messages_read_as_protobuf_merges_them(tmp_path: Path) -> None:
    # Concatenated messages are merged ones: here two Examples in one record.
    chance = random.Random(5)
    path = tmp_path / "merged"
    framed = RecordWriter(path.open("wb"))
    expected = []
    for _ in range(200):
        both = b"".join(
            TFRecordWriter.serialize_tf_example(random_example(chance)) for _ in range(2)
        )
        framed.write(both)
        lists = {}
        for name, feature in example_pb2.Example.FromString(both).features.feature.items():
            kind = feature.WhichOneof("kind")
            short = {"bytes_list": "byte", "int64_list": "int", "float_list": "float"}[kind]
            lists[name] = (list(getattr(feature, kind).value), short)
        expected.append(lists)
    framed.close()
    assert [values(line) for line in read_by_us(path)] == expected


def test_a_compressed_file_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "all.tfrecord.gz"
    path.write_bytes(gzip.compress(struct.pack("<Q", 0) * 100))
    done = run("read", "tfrecord", str(path))
    assert done.returncode == 1
    assert b"decompress it first" in done.stderr
