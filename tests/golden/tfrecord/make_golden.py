"""Writes the golden TFRecords of this folder, with tfrecord 1.14.6 and tensorboard 2.21.0.

Run in an environment that has those, crc32c, NumPy and protobuf: `python make_golden.py`.

tfrecord_1_14_6.tfrecord  the tfrecord package's own writer; the order of features is protobuf's
deterministic.tfrecord    the same Examples, serialized deterministically, framed by TensorBoard
unpacked.tfrecord         numbers unpacked, lists in parts, a name twice, a field of the future
not_examples.tfrecord     records of 0 and 5 bytes
"""

from pathlib import Path

from tensorboard.summary.writer.record_writer import RecordWriter
from tfrecord import example_pb2
from tfrecord.writer import TFRecordWriter

FOLDER = Path(__file__).parent

EXAMPLES = [
    {
        "image": (bytes(range(256)), "byte"),
        "label": (7, "int"),
        "weights": ([0.5, -1.25], "float"),
        "caf\u00e9": ("\u20ac".encode(), "byte"),
    },
    {
        "empty": (b"", "byte"),
        "ints": ([-1, 0, 1, 300, 2**63 - 1, -(2**63)], "int"),
        "no_bytes": ([], "byte"),
        "no_floats": ([], "float"),
        "no_ints": ([], "int"),
    },
    {"many": ([b"a", b"", b"ccc"], "byte")},
    {},
]


def delimited(number: int, value: bytes) -> bytes:
    """A length-delimited field; all of ours are shorter than 128 bytes."""
    assert len(value) < 128
    return bytes([number << 3 | 2, len(value)]) + value


def entry(name: str, feature: bytes) -> bytes:
    """One entry of the map of features."""
    return delimited(1, delimited(1, name.encode()) + delimited(2, feature))


def unpacked_example() -> bytes:
    """An Example that protobuf reads as checked in main()."""
    floats = b"\x0d\x00\x00\x80\x3f" + b"\x0d\x00\x00\x00\x40"  # 1.0, 2.0
    ints = b"\x08\x05" + b"\x08" + b"\xff" * 9 + b"\x01" + delimited(1, b"\x06\x07")  # 5, -1, 6, 7
    features = (
        entry("twice", delimited(3, b"\x08\x01"))
        + entry("floats", delimited(2, floats) + delimited(2, delimited(1, floats[1:5])))
        + entry("ints", delimited(9, b"future") + delimited(3, ints))
        + entry("twice", delimited(1, delimited(1, b"x")) + delimited(3, b"\x08\x02"))
        + entry("unset", b"")
    )
    return delimited(1, features) + delimited(7, b"future")


def main() -> None:
    """Writes all four."""
    writer = TFRecordWriter(str(FOLDER / "tfrecord_1_14_6.tfrecord"))
    for example in EXAMPLES:
        writer.write(example)
    writer.close()

    framed = RecordWriter((FOLDER / "deterministic.tfrecord").open("wb"))
    for example in EXAMPLES:
        message = example_pb2.Example.FromString(TFRecordWriter.serialize_tf_example(example))
        framed.write(message.SerializeToString(deterministic=True))
    framed.close()

    unpacked = unpacked_example()
    feature = example_pb2.Example.FromString(unpacked).features.feature
    assert sorted(feature) == ["floats", "ints", "twice", "unset"]
    assert list(feature["floats"].float_list.value) == [1.0, 2.0, 1.0]
    assert list(feature["ints"].int64_list.value) == [5, -1, 6, 7]
    assert list(feature["twice"].int64_list.value) == [2]
    assert feature["unset"].WhichOneof("kind") is None
    framed = RecordWriter((FOLDER / "unpacked.tfrecord").open("wb"))
    framed.write(unpacked)
    framed.close()

    framed = RecordWriter((FOLDER / "not_examples.tfrecord").open("wb"))
    for data in (b"", b"hello"):
        framed.write(data)
    framed.close()


if __name__ == "__main__":
    main()
