"""safetensors files between us and the real package, in both directions.

Run in the environment of peers/requirements.txt; STOKER_SAFETENSORS_TOOL names safetensors_tool.
"""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

TOOL = os.environ.get("STOKER_SAFETENSORS_TOOL", "")
pytestmark = pytest.mark.skipif(
    not TOOL, reason="STOKER_SAFETENSORS_TOOL names no safetensors_tool"
)

np = pytest.importorskip("numpy")
safetensors = pytest.importorskip("safetensors")
safetensors_numpy = pytest.importorskip("safetensors.numpy")

DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2",
    "I8": "i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?", "C64": "<c8",
}  # fmt: skip
# Every name we know, with the bits of an element; NumPy has no type for many of them.
BITS = {
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8,
    "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip


def run(*words: object, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([TOOL, *map(str, words)], input=data, capture_output=True, timeout=120)


def header(document: str) -> bytes:
    return struct.pack("<Q", len(document.encode())) + document.encode()


def real_takes(file: bytes) -> bool:
    """Whether the real package accepts the header; `deserialize` looks at nothing else."""
    try:
        safetensors.deserialize(file)
    except safetensors.SafetensorError:
        return False
    return True


@pytest.mark.parametrize("align", [1, 8, 4096])
def test_the_real_package_reads_what_we_wrote(tmp_path: Path, align: int) -> None:
    chance = np.random.default_rng(align)
    arrays = {
        f'{dtype} "é"{shape}': chance.integers(0, 2, shape).astype(numpy_dtype)
        for dtype, numpy_dtype in DTYPES.items()
        for shape in [(), (3,), (0, 5), (2, 3, 4)]
    }
    lines = [
        {"name": name, "dtype": name.split()[0], "shape": a.shape, "data": a.tobytes().hex()}
        for name, a in arrays.items()
    ]
    done = run("write", align, tmp_path / "f", data="\n".join(map(json.dumps, lines)).encode())
    assert done.returncode == 0, done.stderr
    theirs = safetensors_numpy.load_file(tmp_path / "f")
    assert theirs.keys() == arrays.keys()
    for name, array in arrays.items():
        assert theirs[name].dtype == array.dtype
        np.testing.assert_array_equal(theirs[name], array)
    with safetensors.safe_open(tmp_path / "f", "numpy") as opened:
        assert opened.metadata() == {"format": "pt"}


def test_we_read_what_the_real_package_wrote(tmp_path: Path) -> None:
    arrays = {dtype: np.ones((2, 3), numpy) for dtype, numpy in DTYPES.items()}
    safetensors_numpy.save_file(arrays, tmp_path / "f", metadata={"a": "b"})
    read = json.loads(run("read", tmp_path / "f").stdout)
    assert read["metadata"] == {"a": "b"}
    assert read["tensors"] == {
        dtype: {"dtype": dtype, "shape": [2, 3], "data": array.tobytes().hex()}
        for dtype, array in arrays.items()
    }


@pytest.mark.parametrize("dtype", BITS)
def test_types_have_the_sizes_that_the_real_package_gives_them(tmp_path: Path, dtype: str) -> None:
    for elements in (1, 2, 3, 4, 8):
        for size in {elements * BITS[dtype] // 8, elements}:
            tensor = {"dtype": dtype, "shape": [elements], "data_offsets": [0, size]}
            file = header(json.dumps({"t": tensor})) + bytes(size)
            (tmp_path / "f").write_bytes(file)
            assert (run("read", tmp_path / "f").returncode == 0) == real_takes(file)


def mutated(chance: random.Random, file: bytes) -> bytes:
    data = bytearray(file)
    for _ in range(chance.randrange(1, 3)):
        at = chance.randrange(8, len(data))
        data[at] = chance.choice(
            [*b'0123456789[]{},:" -.eE\\', data[at] ^ (1 << chance.randrange(8))]
        )
    return bytes(data)


def test_what_we_take_the_real_package_takes(tmp_path: Path) -> None:
    chance = random.Random(7)
    tensor: dict[str, Any] = {"dtype": "U8", "shape": [2, 5], "data_offsets": [0, 10]}
    other: dict[str, Any] = {"dtype": "F32", "shape": [], "data_offsets": [10, 14]}
    file = header(json.dumps({"__metadata__": {"a": "b"}, "t": tensor, "u": other})) + bytes(14)
    taken = 0
    for _ in range(600):
        changed = mutated(chance, file)
        (tmp_path / "f").write_bytes(changed)
        ours = run("read", tmp_path / "f").returncode == 0
        taken += ours
        if ours:
            assert real_takes(changed), changed
    assert 0 < taken < 600
