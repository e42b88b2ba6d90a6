"""Prints litdata_golden.h: what litdata 0.2.76 writes. With 0.2.20 it is litdata_old_golden.h.

Run in the environment of tests/interop/peers/requirements.txt:
    PYTHONPATH=tests/interop/peers/standins python tests/golden/litdata/generate.py
and with build/peer-versions/litdata-0.2.20 in front of that PYTHONPATH.
"""

from __future__ import annotations

import json
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from litdata.streaming.item_loader import TokensLoader
from litdata.streaming.writer import BinaryWriter


def tree(i: int) -> dict[str, Any]:
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    return {"a": i, "b": f"hi{i}", "c": ["x", "y"], "d": (array, torch.arange(4).reshape(2, 2))}


TREES = [tree(i) for i in range(3)]
TOKENS = [torch.arange(5, dtype=torch.int32), torch.arange(7, dtype=torch.int32)]
CASES: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("Tree", TREES, {"chunk_size": 10}),
    ("Tokens", TOKENS, {"chunk_bytes": 1000, "item_loader": TokensLoader(block_size=1)}),
    ("Whole", TREES, {"chunk_size": 10, "compression": "zstd:4", "compression_level": "chunk"}),
    (
        "Batch",
        TREES,
        {
            "chunk_size": 10,
            "compression": "zstd",
            "compression_level": "batch",
            "compression_batch_size": 2,
        },
    ),
    ("Sample", TREES, {"chunk_size": 10, "compression": "zstd", "compression_level": "sample"}),
]
# chunk_bytes without the table of offsets, tokens without the name of their loader, and headers
# of tensors in little-endian order.
OLD_CASES: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("OldWhole", [{"a": i, "b": f"hi{i}"} for i in range(3)], {"compression": "zstd"}),
    ("OldTree", [{"t": torch.arange(4).reshape(2, 2), "z": torch.ones(1, 2, 1).bool()}], {}),
    ("OldTokens", TOKENS, {}),
    ("OldTokensWhole", TOKENS, {"compression": "zstd"}),
]


def literal(text: str) -> str:
    lines = [text[at : at + 90] for at in range(0, len(text), 90)]
    return "\n".join(f'    "{line}"' for line in lines)


def main() -> None:
    """Prints the header."""
    is_old = version("litdata") == "0.2.20"
    print("/// \\file")
    print(f"/// Written by generate.py, with litdata {version('litdata')}:")
    print("/// chunks in hexadecimal, and their index.json.\n#pragma once\n")
    print("namespace stoker::testing {\n\n// clang-format off")
    for name, samples, options in OLD_CASES if is_old else CASES:
        with tempfile.TemporaryDirectory() as folder:
            writer = BinaryWriter(folder, **{"chunk_size": 100} | options if is_old else options)
            for i, sample in enumerate(samples):
                writer[i] = sample
            writer.done()
            writer.merge()
            index = json.loads(Path(folder, "index.json").read_text())
            if not is_old:
                index["updated_at"] = "0"
            chunk = Path(folder, index["chunks"][0]["filename"]).read_bytes()
        print(f"inline constexpr char kLitdata{name}Chunk[] =\n{literal(chunk.hex())};")
        print(f'inline constexpr char kLitdata{name}Index[] = R"json({json.dumps(index)})json";\n')
    print("// clang-format on\n\n}  // namespace stoker::testing")


if __name__ == "__main__":
    main()
