"""mosaicml-streaming reads what we write, we read what it writes, and the bytes are the same.

Run in the environment of peers/requirements.txt; STOKER_DATASET_TOOL names dataset_tool.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent / "peers" / "standins"))

TOOL = os.environ.get("STOKER_DATASET_TOOL", "")
pytestmark = pytest.mark.skipif(not TOOL, reason="STOKER_DATASET_TOOL names no dataset_tool")

np = pytest.importorskip("numpy")
streaming = pytest.importorskip("streaming")
from PIL import Image  # noqa: E402
from streaming.base.format import reader_from_json  # noqa: E402

COLUMNS = {
    "a_int": "int",
    "b_str": "str",
    "c_bytes": "bytes",
    "d_json": "json",
    "e_f32": "float32",
    "f_f64": "float64",
    "g_u16": "uint16",
    "h_any": "ndarray",
    "i_typed": "ndarray:int16",
    "j_fixed": "ndarray:float32:2,3",
    "k_str_int": "str_int",
    "l_str_float": "str_float",
    "m_decimal": "str_decimal",
    "n_pil": "pil",
    "o_png": "png",
    "p_jpeg": "jpeg",
    "q_jpegs": "jpeg_array",
    "r_list": "list[png]",
    "s_i8": "int8",
    "t_f16": "float16",
    "\u00fcml\u00e4ut \U0001f600": "str",
}
SHAPES = [(1,), (255,), (256,), (2, 300), (70000,), (2, 1, 3, 1)]


def image(i: int) -> Image.Image:
    return Image.fromarray(np.full((4 + i, 5, 3), 17 * i % 256, np.uint8))


def jpeg_bytes(i: int) -> bytes:
    out = io.BytesIO()
    image(i).save(out, format="JPEG")
    return out.getvalue()


def sample(i: int) -> dict[str, Any]:
    shape = SHAPES[i % len(SHAPES)]
    return {
        "a_int": -(2**62) + i,
        "b_str": "z\u00e9" * i,
        "c_bytes": bytes(range(i % 256)),
        "d_json": {"n": [i, None, 1.5], "t": "\u2603"},
        "e_f32": i / 3,
        "f_f64": i / 7,
        "g_u16": 65535 - i,
        "h_any": np.arange(np.prod(shape))
        .astype([np.uint8, np.float64, np.int64][i % 3])
        .reshape(shape),
        "i_typed": np.arange(np.prod(shape)).astype(np.int16).reshape(shape),
        "j_fixed": np.full((2, 3), i, np.float32),
        "k_str_int": 10**40 + i,
        "l_str_float": i / 11,
        "m_decimal": Decimal(i) / Decimal(8),
        "n_pil": image(i),
        "o_png": image(i),
        "p_jpeg": image(i),
        "q_jpegs": [jpeg_bytes(i), jpeg_bytes(i + 1)],
        "r_list": [image(0), image(i)],
        "s_i8": i - 128,
        "t_f16": i / 4,
        "\u00fcml\u00e4ut \U0001f600": "\U0001f600" * (i % 3),
    }


def write_by_peer(
    out: Path, samples: list[dict[str, Any]], columns: dict[str, str], **options: Any
) -> None:
    with streaming.MDSWriter(columns=columns, out=str(out), **options) as writer:
        for one in samples:
            writer.write(one)


def read_by_us(path: Path) -> list[dict[str, Any]]:
    done = subprocess.run([TOOL, "read", "mds", str(path)], capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


def write_by_us(out: Path, samples: list[dict[str, Any]], **options: Any) -> None:
    out.mkdir()
    dataset = json.dumps({"samples": samples, **options}).encode()
    command = [TOOL, "write", "mds", str(out)]
    done = subprocess.run(command, input=dataset, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()


def read_by_peer(path: Path) -> list[dict[str, Any]]:
    index = json.loads((path / "index.json").read_text())
    samples = []
    for entry in index["shards"]:
        reader = reader_from_json(str(path), "", entry)
        if entry["zip_data"]:
            from streaming.base.compression import decompress

            zipped = (path / entry["zip_data"]["basename"]).read_bytes()
            raw = decompress(entry["compression"], zipped)
            (path / entry["raw_data"]["basename"]).write_bytes(raw)
        samples += [reader[i] for i in range(entry["samples"])]
    return samples


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


def raw_files(path: Path) -> list[dict[str, Any]]:
    return [entry["raw_data"] for entry in json.loads((path / "index.json").read_text())["shards"]]


def payload(field: dict[str, Any]) -> bytes:
    return bytes.fromhex(field["hex"])


OPTIONS = [
    {},
    {"size_limit": 20000},
    {"hashes": ["md5", "sha1", "sha256", "xxh128", "xxh64"], "size_limit": 50000},
    {"hashes": ["blake2b", "blake2s", "sha3_256", "sha512", "xxh32", "xxh3_64"]},
    {"compression": "zstd", "hashes": ["sha256"]},
    {"compression": "zstd:22", "hashes": ["sha256"]},
    {"compression": "gz:4", "size_limit": 30000},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options) or "plain")
def test_we_read_what_the_peer_wrote_and_write_it_again_byte_for_byte(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    samples = [sample(i) for i in range(12)]
    theirs = tmp_path / "theirs"
    write_by_peer(theirs, samples, COLUMNS, **options)
    ours = read_by_us(theirs)
    assert len(ours) == len(samples)
    for want, got in zip(samples, ours, strict=True):
        assert list(got) == sorted(COLUMNS)
        assert int.from_bytes(payload(got["a_int"]), "little", signed=True) == want["a_int"]
        assert got["b_str"]["type"] == "text"
        assert payload(got["b_str"]).decode() == want["b_str"]
        assert payload(got["c_bytes"]) == want["c_bytes"]
        assert json.loads(payload(got["d_json"])) == want["d_json"]
        for name in ("h_any", "i_typed", "j_fixed"):
            array = np.frombuffer(payload(got[name]), got[name]["dtype"])
            array = array.reshape(got[name]["shape"])
            assert array.dtype == want[name].dtype
            assert np.array_equal(array, want[name])
        assert payload(got["e_f32"]) == np.float32(want["e_f32"]).tobytes()
        assert (got["g_u16"]["dtype"], got["g_u16"]["shape"]) == ("<u2", [])
        assert int(payload(got["k_str_int"])) == want["k_str_int"]
        assert payload(got["q_jpegs"]).endswith(b"".join(want["q_jpegs"]))

    again = tmp_path / "ours"
    write_by_us(again, ours, columns=COLUMNS, **options)
    if "compression" not in options:
        assert contents(again) == contents(theirs)
    else:  # another zstd or zlib may compress otherwise; what is inside is the same
        assert raw_files(again) == raw_files(theirs)
    for want, got in zip(read_by_peer(theirs), read_by_peer(again), strict=True):
        assert want["a_int"] == got["a_int"]
        assert np.array_equal(want["h_any"], got["h_any"])
        assert want["m_decimal"] == got["m_decimal"]
        assert want["o_png"].tobytes() == got["o_png"].tobytes()


def test_the_peer_reads_columns_that_we_chose(tmp_path: Path) -> None:
    array = np.arange(600, dtype=np.float32).reshape(2, 300)
    ours = {
        "text": {"type": "text", "hex": "grün".encode().hex()},
        "blob": {"type": "bytes", "hex": "00ff"},
        "doc": {"type": "json", "hex": b'{"a": [1, 2]}'.hex()},
        "number": {"type": "int64", "hex": np.int64(-5).tobytes().hex()},
        "numbers": {"type": "int64", "hex": np.arange(3).tobytes().hex()},
        "half": {"type": "float64", "hex": np.float64(0.5).tobytes().hex()},
        "small": {"type": "array", "dtype": "|u1", "shape": [], "hex": "07"},
        "array": {"type": "array", "dtype": "<f4", "shape": [2, 300], "hex": array.tobytes().hex()},
    }
    write_by_us(tmp_path / "ours", [ours] * 3)
    for got in read_by_peer(tmp_path / "ours"):
        assert (got["text"], got["blob"], got["doc"]) == ("grün", b"\x00\xff", {"a": [1, 2]})
        assert (got["number"], got["half"], got["small"]) == (-5, 0.5, 7)
        assert got["numbers"].tolist() == [0, 1, 2]
        assert np.array_equal(got["array"], array)
    dataset = streaming.StreamingDataset(local=str(tmp_path / "ours"), shuffle=False, batch_size=1)
    assert [one["number"] for one in dataset] == [-5, -5, -5]


def test_a_pickle_is_refused_by_the_name_of_its_column(tmp_path: Path) -> None:
    write_by_peer(tmp_path / "theirs", [{"x": {1, 2}}], {"x": "pkl"})
    done = subprocess.run([TOOL, "read", "mds", str(tmp_path / "theirs")], capture_output=True)
    assert done.returncode == 1
    assert b"unsupported" in done.stderr
    assert b'column "x"' in done.stderr


def test_a_flipped_byte_is_found_by_the_digest(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    write_by_peer(theirs, [{"x": "text"}], {"x": "str"}, hashes=["xxh128"])
    shard = theirs / "shard.00000.mds"
    shard.write_bytes(shard.read_bytes()[:-1] + b"?")
    done = subprocess.run([TOOL, "read", "mds", str(theirs)], capture_output=True)
    assert done.returncode == 1
    assert b"corrupt: shard.00000.mds: bytes 0 to" in done.stderr
