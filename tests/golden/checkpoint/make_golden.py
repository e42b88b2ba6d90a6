"""Writes manifest.json of this folder from docs/formats/checkpoint.md alone, with xxhash 4.1.0.

Run in an environment that has it: `python make_golden.py`; `--check` compares instead of writing.
The manifest is that of `example_manifest()` in tests/checkpoint/manifest_support.h.
"""

import json
import sys
from pathlib import Path
from typing import Any

import xxhash

FILE = Path(__file__).parent / "manifest.json"

MEMBERS: dict[str, Any] = {
    "format": "stoker-checkpoint",
    "format_version": "2.0",
    "tool": "stoker 0.1.0",
    "step": 1000,
    "generation": 2**53,
    "line": "00112233445566778899aabbccddeeff",
    "time": "2025-11-15T21:21:08.250Z",
    "time_s": 1763241668.25,
    "world_size": 2,
    "parent": {
        "step": 900,
        "generation": 2**53 - 1,
        "line": "ffeeddccbbaa99887766554433221100",
    },
    "checksum": "xxh3_128",
    "chunk_bytes": 4 << 20,
}


def file(name: str, size: int, links: int, *chunks: int) -> dict[str, Any]:
    return {
        "name": name,
        "size_bytes": size,
        "link_count": links,
        "chunks": [f"{chunk:032x}" for chunk in chunks],
    }


def tensor(name: str, dtype: str, shape: list[int], **members: Any) -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "shape": shape, **members}


ONE = 0xFEDCBA98765432100123456789ABCDEF
FILES = [
    file("rank-00000.safetensors", (4 << 20) + 1, 3, ONE, 2),
    file("rank-00001.safetensors", 4160, 0, 2),
]
UPPER: dict[str, Any] = {"global_shape": [4, 4], "offsets": [0, 0]}
LOWER: dict[str, Any] = {"global_shape": [4, 4], "offsets": [2, 0]}
W = {"begin_bytes": 4096, "end_bytes": 4128}
TENSORS = [
    tensor("w", "F32", [2, 4], **UPPER, file=0, **W, nonfinite_count=1),
    tensor("w", "F32", [2, 4], **LOWER, file=1, **W),
    tensor(*('b "é"', "BF16", [3]), file=0, begin_bytes=4128, end_bytes=4134, digest=f"{ONE:032x}"),
    tensor("empty", "F8_E4M3", [0, 7], file=0, begin_bytes=4134, end_bytes=4134),
    tensor("scalar", "I64", [], file=1, begin_bytes=4128, end_bytes=4136),
]
REFERENCE = {"grad_norm": {"!float": "inf"}, "loss": 0.1, "tokens": 3.0}
STATE = [{"z": 1, "a": {"!tuple": [1.0, 2**53 + 1]}}, None]


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def on_lines(key: str, values: list[Any]) -> str:
    return f'"{key}": [\n' + ",\n".join(map(dump, values)) + "\n],\n"


def manifest() -> bytes:
    """The whole text, checksum included."""
    text = "{\n" + "".join(f'"{key}": {dump(value)},\n' for key, value in MEMBERS.items())
    text += on_lines("files", FILES) + on_lines("tensors", TENSORS)
    extra = {"note": 'x, "y" ]}'}
    for key, value in {"reference": REFERENCE, "extra": extra, "cursor": "AAAA"}.items():
        text += f'"{key}": {dump(value)},\n'
    body = (text + on_lines("state", STATE)).encode()
    return body + f'"xxh3_128": "{xxhash.xxh3_128_hexdigest(body)}"}}\n'.encode()


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if FILE.read_bytes() == manifest() else f"{FILE} is another one")
    FILE.write_bytes(manifest())
