"""Prints mds_golden.h: what mosaicml-streaming 0.13.0 writes.

Run in the environment of tests/interop/peers/requirements.txt:
    PYTHONPATH=tests/interop/peers/standins python tests/golden/mds/generate.py
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from streaming import MDSWriter

CASES: list[tuple[str, dict[str, str], list[dict[str, Any]], dict[str, Any]]] = [
    ("Plain", {"a": "int", "b": "str"}, [{"a": 1, "b": "hi"}, {"a": 2, "b": ""}], {}),
    (
        "Arrays",
        {"any": "ndarray", "fixed": "ndarray:int16:2", "typed": "ndarray:float32", "u": "uint8"},
        [
            {
                "any": np.arange(300, dtype=np.uint8).reshape(300, 1),
                "fixed": np.array([1, -1], np.int16),
                "typed": np.array([[0.5, 1.5]], np.float32),
                "u": 200,
            }
        ],
        {"size_limit": None},
    ),
    ("Zstd", {"x": "bytes"}, [{"x": b"z" * 100}], {"compression": "zstd:7", "hashes": ["sha256"]}),
    ("Gzip", {"x": "bytes"}, [{"x": b"z" * 100}], {"compression": "gz", "hashes": ["xxh128"]}),
    ("Brotli", {"x": "bytes"}, [{"x": b"z" * 100}], {"compression": "br:4", "hashes": ["xxh64"]}),
    ("Bzip2", {"x": "bytes"}, [{"x": b"z" * 100}], {"compression": "bz2", "hashes": ["xxh64"]}),
    ("Snappy", {"x": "bytes"}, [{"x": b"z" * 100}], {"compression": "snappy", "hashes": ["md5"]}),
]


def literal(text: str) -> str:
    lines = [text[at : at + 90] for at in range(0, len(text), 90)]
    return "\n".join(f'    "{line}"' for line in lines)


def main() -> None:
    """Prints the header."""
    print("/// \\file")
    print("/// Written by generate.py, with mosaicml-streaming 0.13.0: shards in hexadecimal, and")
    print("/// their index.json.\n#pragma once\n")
    print("namespace stoker::testing {\n\n// clang-format off")
    for name, columns, samples, options in CASES:
        with tempfile.TemporaryDirectory() as folder:
            with MDSWriter(columns=columns, out=f"{folder}/out", **options) as writer:
                for sample in samples:
                    writer.write(sample)
            index = Path(folder, "out", "index.json").read_text()
            entry = json.loads(index)["shards"][0]
            file = (entry["zip_data"] or entry["raw_data"])["basename"]
            shard = Path(folder, "out", file).read_bytes()
        print(f"inline constexpr char kMds{name}Shard[] =\n{literal(shard.hex())};")
        print(f'inline constexpr char kMds{name}Index[] = R"json({index})json";\n')
    print("// clang-format on\n\n}  // namespace stoker::testing")


if __name__ == "__main__":
    main()
