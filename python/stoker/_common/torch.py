"""torch, if it is there and wanted. Importing stoker never imports it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt


def torch_if_wanted(wanted: bool | None) -> Any:
    """The module, imported now; None where there is none or it is not wanted.

    Raises:
        ModuleNotFoundError: It is wanted expressly, and there is none.
    """
    if wanted is False:
        return None
    try:
        return importlib.import_module("torch")
    except ModuleNotFoundError as error:
        if wanted or error.name != "torch":  # one that is broken is not one that is missing
            raise
        return None


def tensor_of(array: npt.NDArray[Any], torch: Any, *, is_bfloat16: bool = False) -> Any:
    """A tensor over the array's memory; the array itself without torch."""
    if torch is None:
        return array
    if is_bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def is_tensor(value: Any) -> bool:
    """Whether it is one of torch's. Without an import: what is a tensor has imported torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def tell_autograd(changed: Iterable[Any]) -> None:
    """Of tensors whose memory was written to: what needs their old values raises, as after copy_().

    Arrays among them are passed over, and so are tensors of inference mode, which have no version.
    """
    tensors = [value for value in changed if is_tensor(value) and not value.is_inference()]
    if not tensors:
        return
    graph = importlib.import_module("torch.autograd.graph")
    if hasattr(graph, "increment_version"):  # older versions of torch have none
        for tensor in tensors:
            graph.increment_version(tensor)
