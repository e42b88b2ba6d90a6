"""torch, if it is installed and wanted. Importing stoker never imports it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt


def torch_if_wanted(wanted: bool | None) -> Any:
    """Imports and returns torch; None if it is not installed or not wanted.

    Raises:
        ModuleNotFoundError: It is explicitly wanted, but not installed.
    """
    if wanted is False:
        return None
    try:
        return importlib.import_module("torch")
    except ModuleNotFoundError as error:
        if wanted or error.name != "torch":  # a broken torch is not a missing one
            raise
        return None


def tensor_of(array: npt.NDArray[Any], torch: Any, *, is_bfloat16: bool = False) -> Any:
    """Returns a tensor over the array's memory; without torch the array itself."""
    if torch is None:
        return array
    if is_bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def is_tensor(value: Any) -> bool:
    """Whether it is a torch tensor. Imports nothing: if it is one, torch is imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def tell_autograd(changed: Iterable[Any]) -> None:
    """Marks tensors as changed: as after copy_(), using their old values raises.

    Arrays are ignored, and so are tensors of inference mode, which have no version.
    """
    tensors = [value for value in changed if is_tensor(value) and not value.is_inference()]
    if not tensors:
        return
    graph = importlib.import_module("torch.autograd.graph")
    if hasattr(graph, "increment_version"):  # missing in older versions of torch
        for tensor in tensors:
            graph.increment_version(tensor)
