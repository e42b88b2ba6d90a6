"""Recognizes well-known files that are not checkpoints, and says what to do with them."""

from __future__ import annotations

import os
import shlex
import zipfile
from pathlib import Path

from stoker import _native
from stoker._common.plain_files import open_plain

_HEAD_BYTES = 512
_TAR_MAGIC = 257  # where a tar header says "ustar"
# The magic number of torch.save() before version 1.6, pickled.
_OLD_TORCH = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
IMPORT = "`stoker checkpoint import DIR {name} --step N` makes a checkpoint of it"
_BEGINNINGS = (
    (_OLD_TORCH, f"a file of torch.save(): {IMPORT}"),
    (b"\x93NUMPY", "a NumPy array: numpy.load() reads it"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file: read it with h5py, and save the arrays"),
    (b"GGUF", "a GGUF file, as llama.cpp uses: read it with the gguf package, and save the arrays"),
    (b"PAR1", "a Parquet file: `stoker pack` makes a dataset of it"),
    (b"version https://git-lfs", "a pointer of Git LFS: `git lfs pull` fetches the file itself"),
    (b"\x1f\x8b", "compressed with gzip: decompress it first"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd: decompress it first"),
    (b"\xfd7zXZ\0", "compressed with xz: decompress it first"),
    *((start, "a web page, and no file of tensors") for start in (b"<!DOCTYPE", b"<html")),
    *(
        (bytes((0x80, protocol)), "a pickle, which is not read: that would run the code in it")
        for protocol in range(2, 6)
    ),
)
_ENDINGS = {
    ".safetensors.index.json": "an index of safetensors files: stoker.load() reads them",
    ".onnx": "an ONNX model: read it with the onnx package, and save the arrays",
    ".msgpack": "a msgpack file, as Flax writes: read it with flax, and save the arrays",
    ".index": "a file of a TensorFlow checkpoint: read it with tensorflow, and save the arrays",
}


def foreign_file(path: str | os.PathLike[str]) -> str | None:
    """Returns what the file is and what to do with it; None if unknown."""
    with open_plain(path) as file:
        head = file.read(_HEAD_BYTES)
    known = None
    if head.startswith(b"PK\x03\x04"):
        known = _kind_of_zip(path)
    elif head[_TAR_MAGIC:].startswith(b"ustar"):
        known = "a tar archive: stoker.Dataset reads the samples in one"
    else:
        known = next((what for start, what in _BEGINNINGS if head.startswith(start)), None)
    if known is None:
        name = os.fspath(path)
        known = next((what for end, what in _ENDINGS.items() if str(name).endswith(end)), None)
    return None if known is None else known.format(name=shlex.quote(os.fsdecode(path)))


def _kind_of_zip(path: str | os.PathLike[str]) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError):
        return "a zip archive that is cut off or damaged, perhaps a file of torch.save()"
    last = {name.rpartition("/")[2] for name in names}
    if "constants.pkl" in last:
        return "a TorchScript archive: torch.jit.load() reads it; save the state_dict() of that"
    if "data.pkl" in last:
        return f"a file of torch.save(): {IMPORT}"
    if names and all(name.endswith(".npy") for name in names):
        return "a file of numpy.savez(): numpy.load() reads it"
    return "a zip archive"


def is_dataset(path: str | os.PathLike[str]) -> bool:
    """Whether the directory's manifest.json was written by `stoker pack`."""
    return _native.is_dataset(os.fsencode(path))


def foreign_directory(path: str | os.PathLike[str]) -> str | None:
    """Like foreign_file(), for a directory without checkpoints."""
    names = {entry.name for entry in Path(path).iterdir()}
    if ".metadata" in names:
        return f"a distributed checkpoint of torch: {IMPORT}".format(
            name=shlex.quote(os.fsdecode(path))
        )
    if any(name.endswith(".safetensors") for name in names):
        return f"a directory with safetensors files: stoker.load({os.fspath(path)!r}) reads them"
    return None
