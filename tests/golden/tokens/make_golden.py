"""Writes the golden token files of this folder, with megatron-core 0.16.1 and NumPy 2.4.6.

Run in an environment that has those and torch 2.13.0: `python make_golden.py`.

uint16.{idx,bin}      documents [[1, 2, 3]], [[4], [5, 65535]], [] (empty) as uint16
multimodal.{idx,bin}  documents [[-1, 2]], [[], [3]] as int32, with modes 0, 1, 2
int32_2d.npy          [[0, 1, 2], [3, 4, 5]] as int32
uint16_1d_v2.npy      [1, 2, 65535] as uint16, in format 2.0
float64_0d_v3.npy     1.5 as a scalar, in format 3.0
objects.npy, fortran.npy, big_endian.npy, structures.npy   what is refused
"""

from pathlib import Path

import numpy as np
import torch
from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder

FOLDER = Path(__file__).parent


def write_megatron() -> None:
    """Writes both indexed datasets."""
    builder = IndexedDatasetBuilder(str(FOLDER / "uint16.bin"), dtype=np.uint16)
    for document in ([[1, 2, 3]], [[4], [5, 65535]], []):
        for sequence in document:
            builder.add_item(torch.tensor(sequence, dtype=torch.int32))
        builder.end_document()
    builder.finalize(str(FOLDER / "uint16.idx"))

    builder = IndexedDatasetBuilder(str(FOLDER / "multimodal.bin"), np.int32, multimodal=True)
    mode = 0
    for document in ([[-1, 2]], [[], [3]]):
        for sequence in document:
            builder.add_item(torch.tensor(sequence, dtype=torch.int32), mode=mode)
            mode += 1
        builder.end_document()
    builder.finalize(str(FOLDER / "multimodal.idx"))


def write_npy() -> None:
    """Writes the arrays."""
    np.save(FOLDER / "int32_2d.npy", np.arange(6, dtype=np.int32).reshape(2, 3))
    with (FOLDER / "uint16_1d_v2.npy").open("wb") as file:
        np.lib.format.write_array(file, np.array([1, 2, 65535], np.uint16), version=(2, 0))
    with (FOLDER / "float64_0d_v3.npy").open("wb") as file:
        np.lib.format.write_array(file, np.array(1.5), version=(3, 0))
    np.save(FOLDER / "objects.npy", np.array([None, 1], dtype=object), allow_pickle=True)
    np.save(FOLDER / "fortran.npy", np.asfortranarray(np.zeros((2, 3), np.int32)))
    np.save(FOLDER / "big_endian.npy", np.array([1, 2], dtype=">i4"))
    np.save(FOLDER / "structures.npy", np.zeros(2, dtype=[("a", "<i4"), ("b", "<f4")]))


if __name__ == "__main__":
    write_megatron()
    write_npy()
