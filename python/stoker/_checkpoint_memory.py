"""Where the elements of an array or tensor lie, and what safetensors calls their type."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker._torch import is_tensor

_TYPES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "uint16": "U16",
    "int16": "I16",
    "uint32": "U32",
    "int32": "I32",
    "uint64": "U64",
    "int64": "I64",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
    # torch's own, and ml_dtypes' under the same names
    "bfloat16": "BF16",
    "float8_e5m2": "F8_E5M2",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e8m0fnu": "F8_E8M0",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
}
_NAMES = {tensor_type: name for name, tensor_type in _TYPES.items()}
_COMPLEX128 = "<c16"


class UnsupportedValueError(ValueError):
    """It cannot be saved, or not be restored into; says why, but not where it is."""


@dataclass(frozen=True)
class Memory:
    """The elements of an array, as they lie in memory.

    Attributes:
        type: Of what is stored, as safetensors spells it.
        shape: Of what is stored.
        strides: In bytes; None where there are no gaps.
        address: Of the first element.
        element: NumPy's name of the elements' type where safetensors has none: ``<c16`` is stored
            as pairs of F64, times as I64, the rest as bytes in a last dimension.
        owner: Keeps the memory.
    """

    type: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    address: int
    element: str | None
    owner: Any

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for the same elements, seen twice."""
        return self.address, self.type, self.shape, self.strides, self.element

    @property
    def size_bytes(self) -> int:
        """Of all elements."""
        bits = 64 if self.type == "C64" else int(self.type.split("_")[0].lstrip("BOLUIF") or 8)
        return int(np.prod(self.shape, dtype=np.int64)) * bits // 8

    def describe(self) -> str:
        """For messages: "float32 (3, 4)"."""
        return describe(self.type, self.shape, self.element)


def describe(tensor_type: str, shape: tuple[int, ...], element: str | None) -> str:
    """Type and shape as the array has them, not as they are stored."""
    name = _NAMES.get(tensor_type, tensor_type)
    if element is not None:
        name = np.dtype(element).name
        shape = shape if stored_as(np.dtype(element))[0] == "I64" else shape[:-1]
    return f"{name} {shape}"


def stored_as(dtype: np.dtype[Any]) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """How elements of a type that safetensors lacks are stored: type, and a last dimension."""
    if dtype.str == _COMPLEX128:
        return "F64", (2,), (8,)
    if dtype.kind in "mM" and dtype.isnative:
        return "I64", (), ()
    return "U8", (dtype.itemsize,), (1,)


def _numpy_type(dtype: np.dtype[Any]) -> str | None:
    is_ours = dtype.kind in "biufc" or dtype.kind == "V"  # ml_dtypes call themselves V
    return _TYPES.get(dtype.name) if is_ours and dtype.isnative else None


def memory_of_array(array: npt.NDArray[Any]) -> Memory:
    """Of a NumPy array of any layout."""
    if type(array) is not np.ndarray and type(array) is not np.memmap:
        raise UnsupportedValueError("a subclass of ndarray would come back as an ndarray")
    dtype = array.dtype
    if dtype.hasobject:
        raise UnsupportedValueError("an array of Python objects: only pickle could do that")
    if dtype.fields is not None or dtype.subdtype is not None:
        raise UnsupportedValueError("a structured array: give its fields one by one, a[name]")
    tensor_type, shape, element = _numpy_type(dtype), array.shape, None
    strides = None if array.flags.c_contiguous else array.strides
    if tensor_type is None:
        element = dtype.str
        tensor_type, more, step = stored_as(dtype)
        strides = None if strides is None else strides + step
        shape += more
    address = array.__array_interface__["data"][0]
    return Memory(tensor_type, shape, strides, address, element, array)


def memory_of_tensor(tensor: Any) -> Memory:
    """Of a torch tensor on the CPU."""
    torch = importlib.import_module("torch")  # loaded, since there is a tensor
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter, getattr(torch.nn, "Buffer", None)):
        raise UnsupportedValueError("a subclass of torch.Tensor")
    if tensor.is_quantized:
        raise UnsupportedValueError("a quantized tensor: give .int_repr() of it, scale and offset")
    if tensor.layout is not torch.strided:
        raise UnsupportedValueError(f"a tensor of layout {tensor.layout}")
    if tensor.device.type != "cpu":
        raise UnsupportedValueError(f"a tensor on {tensor.device}: give .cpu() of it")
    tensor = tensor.detach()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    name = str(tensor.dtype).removeprefix("torch.")
    size = tensor.element_size()
    shape, element = tuple(tensor.shape), None
    strides = tuple(size * step for step in tensor.stride())
    tensor_type = _TYPES.get(name)
    if name == "complex128":
        tensor_type, element = "F64", _COMPLEX128
        shape, strides = (*shape, 2), (*strides, 8)
    if tensor_type is None:
        raise UnsupportedValueError(f"a tensor of {tensor.dtype}")
    where = None if tensor.is_contiguous() else strides
    return Memory(tensor_type, shape, where, tensor.data_ptr(), element, tensor)


def memory_of(value: Any) -> Memory | None:
    """Of an array or a tensor; None of anything else."""
    if isinstance(value, np.ndarray):
        return memory_of_array(value)
    return memory_of_tensor(value) if is_tensor(value) else None


def check_writable(memory: Memory, array: Any) -> None:
    """Whether a tensor can be read into it."""
    if isinstance(array, np.ndarray) and not array.flags.writeable:
        raise UnsupportedValueError("is read-only")
    if is_tensor(array) and (array.is_conj() or array.is_neg()):
        raise UnsupportedValueError("is a lazy conjugate or negation: call resolve_conj()")
    if memory.strides is not None and 0 not in memory.shape:
        repeats = (s == 0 and n > 1 for s, n in zip(memory.strides, memory.shape, strict=True))
        if any(repeats):
            raise UnsupportedValueError("has elements that share memory, as after expand()")


def new_array(tensor_type: str, shape: tuple[int, ...], element: str | None) -> npt.NDArray[Any]:
    """An array for what is stored so. bfloat16 and float8, which NumPy lacks, come as integers."""
    if element is not None:
        dtype = np.dtype(element)
        plain = shape if stored_as(dtype)[0] == "I64" else shape[:-1]
        return np.empty(plain, dtype)
    name = _NAMES.get(tensor_type, "")
    if tensor_type == "BF16" or tensor_type.startswith("F8_"):
        name = "uint16" if tensor_type == "BF16" else "uint8"
    if not name:
        raise UnsupportedValueError(f"elements of type {tensor_type} have less than a byte")
    return np.empty(shape, name)


def new_tensor(tensor_type: str, shape: tuple[int, ...], element: str | None) -> Any:
    """A torch tensor for what is stored so."""
    torch = importlib.import_module("torch")
    if element is not None:
        return torch.empty(shape[:-1], dtype=torch.complex128)
    name = _NAMES.get(tensor_type, "")
    if not hasattr(torch, name):
        raise UnsupportedValueError(f"this torch has no elements of type {tensor_type}")
    return torch.empty(shape, dtype=getattr(torch, name))
