"""Token files between us, Megatron's indexed dataset and NumPy, in both directions.

Run in the environment of peers/requirements.txt; STOKER_TOKENS_TOOL names tokens_tool.
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

TOOL = os.environ.get("STOKER_TOKENS_TOOL", "")
pytestmark = pytest.mark.skipif(not TOOL, reason="STOKER_TOKENS_TOOL names no tokens_tool")

np = pytest.importorskip("numpy")

MEGATRON_DTYPES = ["uint8", "int8", "int16", "int32", "int64", "float64", "float32", "uint16"]
NUMPY_DTYPES = [*MEGATRON_DTYPES, "uint32", "uint64", "float16", "bool"]


def run(*words: object, data: bytes = b"") -> bytes:
    done = subprocess.run([TOOL, *map(str, words)], input=data, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def refused(*words: object, data: bytes = b"") -> str:
    done = subprocess.run([TOOL, *map(str, words)], input=data, capture_output=True, timeout=120)
    assert done.returncode == 1
    return done.stderr.decode()


@pytest.fixture(scope="module")
def megatron() -> Any:
    """The real module: megatron.core.datasets.indexed_dataset."""
    pytest.importorskip("torch")
    return pytest.importorskip("megatron.core.datasets.indexed_dataset")


def random_documents(seed: int, dtype: str) -> list[list[Any]]:
    chance = np.random.default_rng(seed)
    documents = []
    for _ in range(chance.integers(1, 12)):
        lengths = chance.integers(0, 40, chance.integers(0, 4))
        documents.append([chance.integers(0, 120, n).astype(dtype) for n in lengths])
    documents.append([np.ones(3, dtype)])  # an empty .bin cannot be mapped by the peer
    return documents


def lines_of(documents: list[list[Any]], modes: list[list[int]] | None = None) -> bytes:
    lines = []
    for i, document in enumerate(documents):
        line = {"sequences": [sequence.tobytes().hex() for sequence in document]}
        line["modes"] = modes[i] if modes else [0] * len(document)
        lines.append(json.dumps(line))
    return "\n".join(lines).encode()


def write_by_megatron(
    megatron: Any, prefix: Path, dtype: str, documents: list[Any], modes: list[Any] | None = None
) -> None:
    import torch

    builder = megatron.IndexedDatasetBuilder(
        f"{prefix}.bin", dtype=getattr(np, dtype), multimodal=modes is not None
    )
    for i, document in enumerate(documents):
        for k, sequence in enumerate(document):
            wide = sequence.astype(np.int32) if dtype == "uint16" else sequence
            builder.add_item(torch.from_numpy(wide), mode=modes[i][k] if modes else 0)
        builder.end_document()
    builder.finalize(f"{prefix}.idx")


def random_modes(documents: list[list[Any]]) -> list[list[int]]:
    chance = random.Random(1)
    return [[chance.randrange(-128, 128) for _ in document] for document in documents]


@pytest.mark.parametrize("dtype", MEGATRON_DTYPES)
@pytest.mark.parametrize("multimodal", [False, True])
def test_megatron_datasets_are_the_same_bytes(
    megatron: Any, tmp_path: Path, dtype: str, multimodal: bool
) -> None:
    for seed in range(3):
        documents = random_documents(seed, dtype)
        modes = random_modes(documents) if multimodal else None
        lines = lines_of(documents, modes)
        write_by_megatron(megatron, tmp_path / "theirs", dtype, documents, modes)
        flag = ["multimodal"] if multimodal else []
        run("write-megatron", dtype, tmp_path / "ours", *flag, data=lines)
        for suffix in ("idx", "bin"):
            ours = (tmp_path / f"ours.{suffix}").read_bytes()
            assert ours == (tmp_path / f"theirs.{suffix}").read_bytes()
        first, *rest = run("read-megatron", tmp_path / "theirs").decode().splitlines()
        assert json.loads(first)["dtype"] == dtype
        assert json.loads(first)["multimodal"] == multimodal
        assert [json.loads(line) for line in rest] == [
            json.loads(line) for line in lines.splitlines()
        ]


@pytest.mark.parametrize("mmap", [True, False])
def test_megatron_reads_what_we_wrote(megatron: Any, tmp_path: Path, mmap: bool) -> None:
    documents = random_documents(7, "uint16")
    run("write-megatron", "uint16", tmp_path / "ours", data=lines_of(documents))
    dataset = megatron.IndexedDataset(str(tmp_path / "ours"), mmap=mmap)
    sequences = [sequence for document in documents for sequence in document]
    assert len(dataset) == len(sequences)
    for i, sequence in enumerate(sequences):
        assert dataset[i].dtype == np.uint16
        np.testing.assert_array_equal(dataset[i], sequence)
    counts = np.cumsum([0] + [len(document) for document in documents])
    np.testing.assert_array_equal(dataset.document_indices, counts)


def test_megatrons_merged_datasets_read(megatron: Any, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_by_megatron(megatron, tmp_path / name, "int32", random_documents(ord(name), "int32"))
    builder = megatron.IndexedDatasetBuilder(str(tmp_path / "all.bin"), dtype=np.int32)
    builder.add_index(str(tmp_path / "a"))
    builder.add_index(str(tmp_path / "b"))
    builder.finalize(str(tmp_path / "all.idx"))
    _, *rest = run("read-megatron", tmp_path / "all").decode().splitlines()
    both = lines_of(random_documents(ord("a"), "int32") + random_documents(ord("b"), "int32"))
    assert [json.loads(line) for line in rest] == [json.loads(line) for line in both.splitlines()]


def test_what_megatron_asserts_we_name(megatron: Any, tmp_path: Path) -> None:
    # Sequences after the last document: its writer lets them through, its reader stops.
    import torch

    builder = megatron.IndexedDatasetBuilder(str(tmp_path / "x.bin"), dtype=np.int32)
    builder.add_item(torch.tensor([1, 2]))
    builder.finalize(str(tmp_path / "x.idx"))
    with pytest.raises(AssertionError):
        megatron.IndexedDataset(str(tmp_path / "x"))
    message = refused("read-megatron", tmp_path / "x")
    assert "the last document ends at sequence 0 of 1" in message


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_npy_files_are_the_same_bytes(tmp_path: Path, dtype: str) -> None:
    for shape in [(1, 1), (3, 5), (0, 4), (1000, 7)]:
        array = np.arange(shape[0] * shape[1]).reshape(shape).astype(dtype)
        np.save(tmp_path / "theirs.npy", array)
        run("write", "npy", dtype, *shape, tmp_path / "ours.npy", data=array.tobytes())
        assert (tmp_path / "ours.npy").read_bytes() == (tmp_path / "theirs.npy").read_bytes()
        np.testing.assert_array_equal(np.load(tmp_path / "ours.npy", mmap_mode=None), array)
        layout = json.loads(run("read", "npy", tmp_path / "theirs.npy"))
        assert layout["dtype"] == dtype
        assert layout["token_count"] == array.size
        assert layout["data_offset_bytes"] % 64 == 0


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("shape", [(), (0,), (7,), (2, 3, 4), (2, 0, 4)])
def test_every_version_and_shape_of_npy_reads(
    tmp_path: Path, version: tuple[int, int], shape: tuple[int, ...]
) -> None:
    array = np.zeros(shape, np.uint16)
    with (tmp_path / "a.npy").open("wb") as file:
        np.lib.format.write_array(file, array, version=version)
    layout = json.loads(run("read", "npy", tmp_path / "a.npy"))
    assert layout["token_count"] == array.size
    rows = shape[0] if len(shape) > 1 else 1
    assert layout["sequence_count"] == (rows if array.size else 0)


def test_pickles_are_refused_by_name(tmp_path: Path) -> None:
    np.save(tmp_path / "o.npy", np.array([{}], dtype=object), allow_pickle=True)
    assert "pickle" in refused("read", "npy", tmp_path / "o.npy")


def test_memmaps_and_headered_arrays_are_what_numpy_and_struct_make(tmp_path: Path) -> None:
    array = np.arange(15, dtype="<i4").reshape(3, 5)
    data, floats = array.tobytes(), array.astype("<f4").tobytes()
    expected = {
        ("raw", "int32"): data,
        ("counted", "int32"): struct.pack("<QQQ", 3, 5, 0) + data,
        ("shard001", "float32"): b"SHARD001" + struct.pack(">QQ", 3, 5) + bytes(40) + floats,
    }
    for (name, dtype), file in expected.items():
        path = tmp_path / name
        run("write", name, dtype, 3, 5, path, data=floats if dtype == "float32" else data)
        assert path.read_bytes() == file
        words = ["read", name, path] + ([dtype] if name == "raw" else [])
        layout = json.loads(run(*words))
        assert (layout["dtype"], layout["token_count"]) == (dtype, 15)
        mapped = np.memmap(
            path, f"<{dtype[0]}4", "r", offset=layout["data_offset_bytes"], shape=(15,)
        )
        np.testing.assert_array_equal(mapped, array.ravel())
    np.memmap(tmp_path / "m", "<u2", "w+", shape=(9,))[:] = 1
    assert json.loads(run("read", "raw", tmp_path / "m", "uint16"))["token_count"] == 9
