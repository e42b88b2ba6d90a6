"""Sends objects between processes: arrays are in an anonymous file in memory, copied once.

A packet is a memfd, whose descriptor is sent through a socket. It contains the sizes of all parts,
the pickled object without its buffers, and the buffers. The receiver maps it: arrays are views of
the mapping and keep it alive. Nothing has a name, so nothing is left when a process is killed.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import socket
import struct
from typing import Any

import numpy as np

from stoker._common.torch import is_tensor

_ALIGN = 64
_MESSAGE = b"packet"


class _Pickler(pickle.Pickler):
    """Keeps the elements of arrays and tensors out of the stream."""

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is np.ndarray and not obj.dtype.hasobject and not obj.flags.forc:
            return obj.copy().__reduce_ex__(5)  # only contiguous arrays are kept out
        if is_tensor(obj) and type(obj).__name__ == "Tensor" and _is_plain(obj):
            import torch

            is_bfloat16 = obj.dtype == torch.bfloat16
            array = obj.contiguous().view(torch.int16) if is_bfloat16 else obj.contiguous()
            return _tensor, (array.numpy(), is_bfloat16)
        return NotImplemented


def _is_plain(tensor: Any) -> bool:
    import torch

    return (
        tensor.device.type == "cpu" and tensor.layout == torch.strided and not tensor.requires_grad
    )


def _tensor(array: Any, is_bfloat16: bool) -> Any:
    from stoker._common.torch import tensor_of, torch_if_wanted

    return tensor_of(array, torch_if_wanted(True), is_bfloat16=is_bfloat16)


def _aligned(offset: int) -> int:
    return (offset + _ALIGN - 1) // _ALIGN * _ALIGN


def pack(value: Any) -> int:
    """Returns the descriptor of a memfd that contains ``value``. The caller closes it."""
    buffers: list[pickle.PickleBuffer] = []
    stream = io.BytesIO()
    _Pickler(stream, protocol=5, buffer_callback=buffers.append).dump(value)
    parts = [stream.getbuffer(), *(buffer.raw() for buffer in buffers)]
    head = struct.pack(f"<{1 + len(parts)}Q", len(parts), *(part.nbytes for part in parts))
    offsets = []
    end = len(head)
    for part in parts:
        offsets.append(_aligned(end))
        end = offsets[-1] + part.nbytes
    descriptor = os.memfd_create("stoker-packet", os.MFD_CLOEXEC)
    try:
        os.ftruncate(descriptor, end)
        room = np.frombuffer(mmap.mmap(descriptor, end), np.uint8)
    except OSError:
        os.close(descriptor)
        raise
    room[: len(head)] = np.frombuffer(head, np.uint8)
    for offset, part in zip(offsets, parts, strict=True):
        room[offset : offset + part.nbytes] = np.frombuffer(part, np.uint8)  # without the GIL
    return descriptor


def unpack(descriptor: int) -> Any:
    """Returns the object of pack(), with arrays in the mapped file. Closes the descriptor."""
    try:
        room = memoryview(mmap.mmap(descriptor, 0))
    finally:
        os.close(descriptor)
    (count,) = struct.unpack_from("<Q", room)
    sizes = struct.unpack_from(f"<{count}Q", room, 8)
    end = 8 * (1 + count)
    parts = []
    for size in sizes:
        start = _aligned(end)
        end = start + size
        parts.append(room[start:end])
    return pickle.loads(parts[0], buffers=parts[1:])


def send(connection: socket.socket, value: Any) -> None:
    """Sends an object; the receiver owns its memory."""
    descriptor = pack(value)
    try:
        socket.send_fds(connection, [_MESSAGE], [descriptor])
    finally:
        os.close(descriptor)


def receive(connection: socket.socket) -> Any:
    """Returns the next object; EOFError if the other side is gone."""
    message, descriptors, _, _ = socket.recv_fds(connection, len(_MESSAGE), 1)
    if not message or not descriptors:
        raise EOFError
    return unpack(descriptors[0])
