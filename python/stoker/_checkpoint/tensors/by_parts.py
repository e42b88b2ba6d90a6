"""Copies of tensors between a device and the host, also if the device has little memory left.

torch copies a tensor with gaps by way of a copy without gaps, on the device.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any


def copy_to_host(tensor: Any) -> Any:
    """Returns a copy in host memory, complete on return."""
    torch = sys.modules["torch"]  # already loaded: there is a tensor
    with contextlib.suppress(torch.OutOfMemoryError):
        return tensor.to("cpu", copy=True)
    host = torch.empty(tuple(tensor.shape), dtype=tensor.dtype, device="cpu")
    copy_between(host, tensor)
    return host


def copy_between(to: Any, source: Any) -> None:
    """Copies one tensor into another; halves of it if the device has no room for a whole copy."""
    torch = sys.modules["torch"]
    try:
        to.copy_(source)
    except torch.OutOfMemoryError:
        if to.numel() < 2:
            raise
    else:
        return
    shape = tuple(to.shape)
    longest = shape.index(max(shape))
    half = shape[longest] // 2
    for begin, count in ((0, half), (half, shape[longest] - half)):
        copy_between(to.narrow(longest, begin, count), source.narrow(longest, begin, count))
