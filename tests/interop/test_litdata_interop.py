"""We read what litdata writes, in all of its forms that are data.

Run in the environment of peers/requirements.txt; STOKER_DATASET_TOOL names dataset_tool.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent / "peers" / "standins"))

TOOL = os.environ.get("STOKER_DATASET_TOOL", "")
pytestmark = pytest.mark.skipif(not TOOL, reason="STOKER_DATASET_TOOL names no dataset_tool")

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
pytest.importorskip("litdata")
from litdata.streaming.item_loader import TokensLoader  # noqa: E402
from litdata.streaming.writer import BinaryWriter  # noqa: E402


def write_by_peer(out: Path, samples: list[Any], **options: Any) -> None:
    options = {"chunk_size": 5, **options} if "chunk_bytes" not in options else options
    writer = BinaryWriter(str(out), **options)
    for i, sample in enumerate(samples):
        writer[i] = sample
    writer.done()
    writer.merge()


def run(path: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    command = [TOOL, "read", "litdata", str(path), *words]
    return subprocess.run(command, capture_output=True, timeout=120)


def read_by_us(path: Path, *words: str) -> list[dict[str, Any]]:
    done = run(path, *words)
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


def value(field: dict[str, Any]) -> Any:
    data = bytes.fromhex(field["hex"])
    match field["type"]:
        case "text":
            return data.decode()
        case "json":
            return json.loads(data)
        case "int64":
            return int.from_bytes(data, "little", signed=True)
        case "float64":
            return float(np.frombuffer(data, "<f8")[0])
        case "array":
            return np.frombuffer(data, field["dtype"]).reshape(field["shape"])
    return data


def tree(i: int) -> dict[str, Any]:
    return {
        "int": i - 3,
        "float": i / 3,
        "bool": i % 2 == 0,
        "str": "\u00e9" * i,
        "bytes": bytes(i),
        "pair": (
            np.arange(6 * i, dtype=np.int16).reshape(i, 2, 3),
            torch.arange(2 * i, dtype=torch.float64).reshape(2, i),
        ),
        "scalar": torch.tensor(i),
        "flat": torch.ones(i, dtype=torch.uint8),
        "numpy": np.arange(i, dtype=np.uint32),
    }


@pytest.mark.parametrize(
    ("compression", "level"),
    [(None, None), ("zstd", None), ("zstd:9", "chunk"), ("zstd", "batch"), ("zstd:9", "sample")],
)
def test_we_read_trees_whatever_their_compression(
    tmp_path: Path, compression: str | None, level: str | None
) -> None:
    samples = [tree(i) for i in range(1, 13)]
    write_by_peer(
        tmp_path / "d",
        samples,
        compression=compression,
        compression_level=level,
        compression_batch_size=2 if compression else None,
    )
    if compression == "zstd":  # batches are the default
        assert (tmp_path / "d" / "chunk-0-0.bin").read_bytes().startswith(b"LDFZ01")
    for want, got in zip(samples, read_by_us(tmp_path / "d"), strict=True):
        for name in ("int", "float", "str", "bytes"):
            assert value(got[name]) == want[name]
        assert value(got["bool"]).tolist() is want["bool"]
        pairs = [("pair.0", want["pair"][0]), ("pair.1", want["pair"][1].numpy())]
        pairs += [("scalar", want["scalar"].numpy()), ("flat", want["flat"].numpy())]
        for name, array in [*pairs, ("numpy", want["numpy"])]:
            ours = value(got[name])
            assert (ours.dtype, ours.shape) == (array.dtype, array.shape)
            assert np.array_equal(ours, array)


@pytest.mark.parametrize("level", ["chunk", "batch", "sample"])
def test_we_read_flat_samples_that_the_peer_left_uncompressed(tmp_path: Path, level: str) -> None:
    """Its index says zstd; the file of text and numbers is plain, and its own reader fails."""
    samples = [{"a": i, "b": f"hi{i}" * 20} for i in range(7)]
    write_by_peer(tmp_path / "d", samples, compression="zstd", compression_level=level)
    got = read_by_us(tmp_path / "d")
    assert [{name: value(field) for name, field in one.items()} for one in got] == samples


def test_nested_values_become_json(tmp_path: Path) -> None:
    nested = [
        [],
        ["a", "\u2603"],
        [1, -(2**63)],
        [0.1, 1e300, 3.0, math.inf],
        [True, False],
        [1, "mixed", None],
        {"x": {"y": [1.5]}, "z": None, "t": True, "s": 'q"\\', "f": 2.0, "i": 7},
        [{"k": 1, "v": "a"}, {"k": None, "v": "b"}],
        [[1], [2, [3]]],
    ]
    write_by_peer(tmp_path / "d", [{"n": one, "t": torch.ones(2)} for one in nested])
    assert [value(one["n"]) for one in read_by_us(tmp_path / "d")] == nested


@pytest.mark.parametrize(
    "dtype",
    ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bool", "uint16"],
)
def test_every_type_of_tensor(tmp_path: Path, dtype: str) -> None:
    samples = [
        {
            "flat": torch.ones(3, dtype=getattr(torch, dtype)),
            "deep": torch.zeros(2, 2, dtype=getattr(torch, dtype)),
            "numpy": np.ones((2, 3), dtype=dtype),
        }
    ]
    write_by_peer(tmp_path / "d", samples)
    (got,) = read_by_us(tmp_path / "d")
    assert value(got["flat"]).tolist() == samples[0]["flat"].tolist()
    assert value(got["deep"]).tolist() == samples[0]["deep"].tolist()
    assert value(got["numpy"]).dtype == samples[0]["numpy"].dtype


@pytest.mark.parametrize("compression", [None, "zstd"])
@pytest.mark.parametrize(
    "make",
    [
        lambda i: torch.arange(i, i + 10 + i, dtype=torch.int32),
        lambda i: np.arange(i, i + 10 + i, dtype=np.uint16),
    ],
    ids=["torch", "numpy"],
)
def test_tokens_come_as_written_and_in_blocks(
    tmp_path: Path, compression: str | None, make: Any
) -> None:
    items = [make(i) for i in range(9)]
    write_by_peer(
        tmp_path / "d",
        items,
        chunk_bytes=200,
        item_loader=TokensLoader(),
        compression=compression,
        compression_level="chunk" if compression else None,
    )
    got = read_by_us(tmp_path / "d")
    assert [value(one["item"]).tolist() for one in got] == [one.tolist() for one in items]

    index = json.loads((tmp_path / "d" / "index.json").read_text())
    assert len(index["chunks"]) > 1
    tokens = iter(token for one in items for token in one.tolist())
    blocks = []
    for chunk in index["chunks"]:
        of_chunk = [next(tokens) for _ in range(chunk["dim"])]
        blocks += [of_chunk[at : at + 7] for at in range(0, len(of_chunk) - 6, 7)]
    assert [value(one["item"]).tolist() for one in read_by_us(tmp_path / "d", "7")] == blocks


def test_a_sample_may_be_one_leaf_or_a_list(tmp_path: Path) -> None:
    write_by_peer(tmp_path / "leaf", [b"x" * i for i in range(3)])
    assert [value(one["item"]) for one in read_by_us(tmp_path / "leaf")] == [b"", b"x", b"xx"]
    write_by_peer(tmp_path / "list", [[1, (2, "b")]])
    (got,) = read_by_us(tmp_path / "list")
    assert {name: value(field) for name, field in got.items()} == {"0": 1, "1.0": 2, "1.1": "b"}


def test_a_pickle_is_refused_by_the_name_of_its_leaf(tmp_path: Path) -> None:
    write_by_peer(tmp_path / "d", [(1, {2, 3})])
    done = run(tmp_path / "d")
    assert done.returncode == 1
    assert b"unsupported" in done.stderr
    assert b'leaf "1"' in done.stderr
