"""Copies batches ahead to a GPU."""

from __future__ import annotations

import functools
import logging
import sys
from typing import Any

from stoker import _native
from stoker._common.numbers import whole_number
from stoker._dataset.columns import KEY, ColumnMaker
from stoker._loader.batch import Batch
from stoker._loader.host_memory import in_one_piece, move_tensors

_log = logging.getLogger("stoker")
_DEPTH_MAX = 64
_ROOMS_MAX, _ROOM_BYTES = 8, 16 << 20


class Sending:
    """A batch on its way to a GPU, with its tensors in new memory of torch's there.

    Attributes:
        native: The core's batch.
        batch: What the caller will get.
        sent: The copies, once they were begun.
    """

    def __init__(self, native: _native.Batch, feed: DeviceFeed, maker: ColumnMaker) -> None:
        self.native = native
        self.sent: list[_native.CudaCopy] = []
        self._feed = feed
        self._pieces: list[tuple[int, int, int]] = []
        self.batch = Batch._of(native, maker, native.cursor)
        names = [name for name in maker.names(native) if name != KEY]
        # Views of the core's memory. They are gone when the copies have begun: nobody else may
        # have them, since only this feed knows when that memory is used again.
        self._sources = {name: maker.column(native, name) for name in names}
        self.batch.update(move_tensors(self._sources, self._rooms, self._note))

    def _rooms(self, tensors: list[Any]) -> list[Any]:
        if len(tensors) == 1:  # no views are needed, of which each costs more than the copy's call
            self._memory = self._feed.room(tensors[0].shape, tensors[0].dtype)
            return [self._memory]
        return in_one_piece(tensors, self._bytes)

    def _bytes(self, size: int) -> Any:
        self._memory = self._feed.room((size,))
        return self._memory

    def _note(self, tensor: Any, placed: Any) -> None:
        assert tensor.is_contiguous()
        self._pieces.append((placed.data_ptr(), tensor.data_ptr(), tensor.nbytes))

    def send(self) -> None:
        """Begins the copies, once: the core's batch has no arrays afterwards."""
        if not self.sent:
            self._feed.native.send(self.native, self._pieces, self.sent)
        self._sources.clear()

    def arrive(self) -> None:
        """Makes the caller's current stream wait for the tensors, and torch for the stream.

        May be called again, if the caller has another stream.
        """
        self._feed.hand_over(self.sent[0], self._memory)


@functools.cache
def _stream_on(device: int) -> Any:
    """Returns a stream of ours: those of torch are 32, which it hands out in turn."""
    torch = sys.modules["torch"]
    if not torch.cuda.is_available():
        raise RuntimeError("torch finds no CUDA device")
    torch.empty(1, device=f"cuda:{device}")  # torch creates the context, and nobody else
    return torch.cuda.ExternalStream(_native.new_cuda_stream(device), device=device)


class CurrentStream:
    """Finds the current stream of a device; torch makes a new object each time, which takes longer.

    Thread safety: any thread.
    """

    def __init__(self, torch: Any, device: Any) -> None:
        self._torch = torch
        self._device = device
        self._known: dict[int, Any] = {}
        self._handle_of = getattr(torch._C, "_cuda_getCurrentRawStream", None)

    def get(self) -> Any:
        """Returns it as a torch.cuda.Stream."""
        if self._handle_of is None:
            return self._torch.cuda.current_stream(self._device)
        handle = self._handle_of(self._device.index)
        stream = self._known.get(handle)
        if stream is None:
            stream = self._known[handle] = self._torch.cuda.current_stream(self._device)
        return stream


class DeviceFeed:
    """The copies to one GPU, on a stream of their own.

    Thread safety: by one thread at a time; close() from any.
    """

    def __init__(self, torch: Any, device: Any) -> None:
        self._torch = torch
        self.device = device
        self._stream = _stream_on(device.index)
        self._current = CurrentStream(torch, device)
        self._spare: list[Any] = []
        self.native = _native.CudaFeed(device.index, self._stream.cuda_stream)

    def room(self, shape: Any, dtype: Any = None) -> Any:
        """Returns a new tensor on the GPU, to be written by the stream of the copies.

        Small ones are allocated several at a time: changing torch's current stream costs more than
        an allocation.

        Args:
            shape: Its shape.
            dtype: Its type; bytes by default.
        """
        dtype = dtype or self._torch.uint8
        spare = self._spare
        if not spare or spare[-1].shape != shape or spare[-1].dtype != dtype:
            empty, options = self._torch.empty, {"dtype": dtype, "device": self.device}
            with self._torch.cuda.stream(self._stream):
                one = empty(shape, **options)
                count = min(_ROOMS_MAX, _ROOM_BYTES // max(one.nbytes, 1))
                self._spare = spare = [one, *(empty(shape, **options) for _ in range(1, count))]
        return spare.pop()

    def hand_over(self, copy: _native.CudaCopy, memory: Any) -> None:
        """Lets the caller's current stream use the memory after the copy, and not the host."""
        stream = self._current.get()
        copy.delay(stream.cuda_stream)
        memory.record_stream(stream)  # torch reuses it only after what is enqueued there

    def close(self) -> None:
        """Waits for the copies."""
        self._spare = []
        self.native.close()


class Feeder:
    """Makes the feed of a loader at its first iteration, when the process has chosen its GPU.

    Args:
        torch: The module.
        device: A CUDA device, perhaps without an index.
        depth: Batches that are copied ahead.
    """

    def __init__(self, torch: Any, device: Any, depth: int) -> None:
        self._torch = torch
        self._device = device
        self.depth = depth
        self._feed: DeviceFeed | None = None
        self._has_failed = False

    def feed(self) -> DeviceFeed | None:
        """Returns the feed for the current device; None if there can be none."""
        index = self._device.index
        device = self._torch.device("cuda", self._torch.cuda.current_device()
                                    if index is None else index)  # fmt: skip
        if self._feed is not None and self._feed.device != device:
            self.close()
        if self._feed is None and not self._has_failed:
            try:
                self._feed = DeviceFeed(self._torch, device)
            except (OSError, RuntimeError, ValueError) as error:
                self._has_failed = True
                _log.warning(
                    "loader: batches are copied to the GPU when they are asked for, not ahead: %s",
                    error,
                )
        return self._feed

    def close(self) -> None:
        """Waits for all copies."""
        feed, self._feed = self._feed, None
        if feed is not None:
            feed.close()


def feeder_of(
    device: Any, torch: Any, depth: int, pin_memory: Any, *, is_mapped: bool
) -> Feeder | None:
    """Returns what copies ahead; None if batches are moved when they are handed out.

    That is so for other devices than CUDA's, batches that Python functions make, memory that the
    caller has chosen, and where the driver cannot be loaded.
    """
    depth = whole_number("device_depth", depth, 0, _DEPTH_MAX)
    if device is None or depth == 0 or is_mapped or not (pin_memory is None or pin_memory is True):
        return None
    place = torch.device(device)
    if place.type != "cuda" or _native.cuda_failure() is not None:
        return None
    return Feeder(torch, place, depth)
