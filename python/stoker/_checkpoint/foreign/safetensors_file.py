"""Reads slices of tensors from any safetensors file."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker import _native
from stoker._checkpoint.tensors.memory import new_array
from stoker._common.corrupt import corrupt_error
from stoker._common.plain_files import open_plain


class SafetensorsFile:
    """Checks the header; reads tensors on demand.

    Attributes:
        tensors: Type and shape by name.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self.tensors: dict[str, tuple[str, tuple[int, ...]]] = {}
        self._begin: dict[str, int] = {}
        for name, kind, shape, begin in _native.list_safetensors(os.fsencode(path)):
            self.tensors[name] = kind, shape
            self._begin[name] = begin

    def read_box(
        self,
        name: str,
        box: tuple[tuple[int, ...], tuple[int, ...]] | None,
        into: npt.NDArray[Any],
    ) -> None:
        """Reads the rows that contain the box, and copies the box from them."""
        kind, shape = self.tensors[name]
        offsets, sizes = box if box is not None else (tuple(0 for _ in shape), shape)
        rows, first = into, 0
        if sizes[1:] != shape[1:]:
            rows = new_array(kind, (sizes[0], *shape[1:]), None)
        if shape:
            first = offsets[0] * into.itemsize * int(np.prod(shape[1:], dtype=np.int64))
        self._read(rows.reshape(-1).view(np.uint8), self._begin[name] + first)
        if rows is not into:
            inner = tuple(slice(o, o + s) for o, s in zip(offsets[1:], sizes[1:], strict=True))
            into[...] = rows[(slice(None), *inner)]

    def _read(self, view: npt.NDArray[np.uint8], offset: int) -> None:
        with open_plain(self._path, buffering=0) as file:
            done = 0
            while done < view.size:
                got = os.preadv(file.fileno(), [view[done:].data], offset + done)
                if got == 0:
                    end = offset + done
                    raise corrupt_error(f"{self._path}: ends at byte {end}", self._path, end)
                done += got
