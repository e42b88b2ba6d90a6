"""Elements of torch that safetensors lacks: how they are stored, and how they are copied."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

_PREFIX = "torch."
_BITS = ("float4_e2m1fn_x2", "bits8", "bits1x8", "bits2x4", "bits4x2")
_INTEGERS = tuple(f"{kind}{bits}" for kind in ("int", "uint") for bits in range(1, 8))
# By name: the stored type, and a last dimension. One element of torch is one or two of these.
_STORED: dict[str, tuple[str, tuple[int, ...]]] = {
    "complex32": ("F16", (2,)),
    "bits16": ("U16", ()),
    **dict.fromkeys((*_BITS, *_INTEGERS), ("U8", ())),
}


def torch_element(name: str) -> str | None:
    """Returns how such an element type is called in Memory.element; None for other types."""
    return _PREFIX + name if name in _STORED else None


def name_of_torch(element: str | None) -> str | None:
    """Returns the inverse of ``torch_element``; None for NumPy's names."""
    if element is None or not element.startswith(_PREFIX):
        return None
    return element.removeprefix(_PREFIX)


def stored_torch(name: str) -> tuple[str, tuple[int, ...]]:
    """Returns the stored type, and the last dimension that a stored tensor has more."""
    return _STORED[name]


def with_plain_elements(tensor: Any) -> Any:
    """Returns a view of the same memory with elements that torch can copy."""
    torch = sys.modules["torch"]
    name = str(tensor.dtype).removeprefix(_PREFIX)
    if name not in _STORED or name == "complex32":
        return tensor
    return tensor.view(torch.int16 if tensor.element_size() == 2 else torch.uint8)


def copied_plainly(tensor: Any, copy: Callable[[Any], Any]) -> Any:
    """Returns the copy that ``copy`` makes of such a view, with the elements of the tensor."""
    plain = with_plain_elements(tensor)
    made = copy(plain)
    return made if plain is tensor else made.view(tensor.dtype)
