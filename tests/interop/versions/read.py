"""Reads a dataset of ours with the version of a peer that Python finds.

    python read.py PEER PATH

prints a JSON line for each sample: its values by name, arrays as lists, bytes as hexadecimal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Samples = Iterator[dict[str, Any]]


def read_mds(path: Path) -> Samples:
    import streaming

    # Some versions divide an epoch among 64 nodes, and repeat samples where there are fewer.
    yield from streaming.StreamingDataset(
        local=str(path), shuffle=False, batch_size=1, num_canonical_nodes=1
    )


def read_tar(path: Path) -> Samples:
    import webdataset

    for shard in sorted(path.glob("*.tar")):
        for sample in webdataset.WebDataset(str(shard), shardshuffle=False):
            yield {n: v for n, v in sample.items() if n == "__key__" or not n.startswith("__")}


def read_tfrecord(path: Path) -> Samples:
    from tfrecord.reader import example_loader

    for shard in sorted(path.glob("*.tfrecord")):
        for sample in example_loader(str(shard), None):
            # Old versions show bytes as an array of uint8, which no feature of numbers is.
            yield {
                name: value.tobytes() if getattr(value, "dtype", None) == "uint8" else value
                for name, value in sample.items()
            }


def read_safetensors(path: Path) -> Samples:
    from safetensors.numpy import load_file

    yield load_file(str(path))


READERS = {
    "mosaicml-streaming": read_mds,
    "webdataset": read_tar,
    "tfrecord": read_tfrecord,
    "safetensors": read_safetensors,
}


def plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, bytes):
        return value.hex()
    return value.tolist() if hasattr(value, "tolist") else value


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1] / "peers" / "standins"))
    for sample in READERS[sys.argv[1]](Path(sys.argv[2])):
        print(json.dumps({name: plain(value) for name, value in sample.items()}))
