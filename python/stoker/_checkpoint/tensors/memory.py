"""The memory of an array or tensor, and the name of its element type in safetensors."""

from __future__ import annotations

import functools
import importlib
import math
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stoker import _native
from stoker._checkpoint.tensors.by_parts import copy_between, copy_to_host
from stoker._checkpoint.tensors.torch_elements import (
    copied_plainly,
    name_of_torch,
    stored_torch,
    torch_element,
    with_plain_elements,
)
from stoker._common.torch import is_tensor

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
    # torch's own types, and those of ml_dtypes with the same names
    "bfloat16": "BF16",
    "float8_e5m2": "F8_E5M2",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e8m0fnu": "F8_E8M0",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
}
_NAMES = {tensor_type: name for name, tensor_type in _TYPES.items()}
_COMPLEX128 = "<c16"
_HUGE_FROM_BYTES = 4 << 20  # as in NumPy


class UnsupportedValueError(ValueError):
    """A value cannot be saved, or restored into; says why, but not where it is."""


@functools.cache
def _bits_of(tensor_type: str) -> int:
    return 64 if tensor_type == "C64" else int(tensor_type.split("_")[0].lstrip("BOLUIF") or 8)


def size_bytes_of(tensor_type: str, shape: tuple[int, ...]) -> int:
    """Returns the size of all elements of a stored tensor."""
    return math.prod(shape) * _bits_of(tensor_type) // 8


class Memory(NamedTuple):
    """The memory of an array's elements.

    Attributes:
        type: The stored type, as in safetensors.
        shape: The stored shape.
        strides: In bytes; None if contiguous.
        address: Address of the first element, on its device.
        element: Name of an element type that safetensors lacks. NumPy's: ``<c16`` is stored as
            pairs of F64, times as I64, others as bytes in a last dimension. Names of torch begin
            with ``torch.``: ``torch_elements.py``.
        owner: Keeps the memory alive.
        device: The device, as torch names it; None for host memory.
    """

    type: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    address: int
    element: str | None
    owner: Any
    device: str | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for two views of the same elements."""
        return self.device, self.address, self.type, self.shape, self.strides, self.element

    def to_save(self, has_cuda: bool) -> Memory:
        """Returns the elements where the core can read them.

        With ``has_cuda`` that may be a CUDA device, where they have no gaps: if they have, they are
        copied on the device's current stream, or to the host if the device has no memory for that.
        """
        if not has_cuda or self.device is None or not self.device.startswith("cuda:"):
            return self.on_host()
        if self.strides is None:
            return self
        try:
            copy = copied_plainly(self.owner, lambda plain: plain.contiguous())
        except sys.modules["torch"].OutOfMemoryError:
            return self.on_host()
        return _memory_of_strided(copy)._replace(owner=(copy, self.owner), device=self.device)

    def on_host(self) -> Memory:
        """Returns the elements in host memory: itself, or a copy from the device.

        The copy is complete on return, and includes the work queued on the device's current stream.
        It also keeps the device memory alive, so that an address identifies one tensor.
        """
        if self.device is None:
            return self
        copy = copied_plainly(self.owner, copy_to_host)
        return _memory_of_strided(copy)._replace(owner=(copy, self.owner))

    @property
    def size_bytes(self) -> int:
        """Size of all elements."""
        return size_bytes_of(self.type, self.shape)

    @property
    def bounds(self) -> tuple[int, int]:
        """Address and size of all memory that contains the elements."""
        count = math.prod(self.shape)
        if count == 0 or self.strides is None:
            return self.address, self.size_bytes
        reach = [(n - 1) * step for n, step in zip(self.shape, self.strides, strict=True)]
        below = sum(step for step in reach if step < 0)
        above = sum(step for step in reach if step > 0)
        return self.address + below, above - below + self.size_bytes // count

    @property
    def may_overlap(self) -> bool:
        """Whether two elements may share bytes: a stride is smaller than the span inside it."""
        if self.strides is None or 0 in self.shape:
            return False
        span = self.size_bytes // math.prod(self.shape)
        steps = zip(self.strides, self.shape, strict=True)
        for step, count in sorted((abs(step), count) for step, count in steps if count > 1):
            if step < span:
                return True
            span += (count - 1) * step
        return False

    def describe(self) -> str:
        """Returns a text for messages: "float32 (3, 4)"."""
        return describe(self.type, self.shape, self.element)


def describe(tensor_type: str, shape: tuple[int, ...], element: str | None) -> str:
    """Returns type and shape of the array, not of the stored tensor."""
    name = _NAMES.get(tensor_type, tensor_type)
    if (of_torch := name_of_torch(element)) is not None:
        name, shape = of_torch, _torch_shape(of_torch, tensor_type, shape)
    elif element is not None:
        dtype, shape = array_layout(tensor_type, shape, element)
        name = dtype.name
    return f"{name} {shape}"


def _dtype_of(element: str) -> np.dtype[Any]:
    """Returns the dtype for a name from a file; only names that we write are accepted."""
    try:
        dtype = np.dtype(element)
    except Exception:  # NumPy parses it in many ways, with different exceptions
        raise UnsupportedValueError(f"NumPy has no elements of type {element!r}") from None
    if dtype.str != element or dtype.hasobject or dtype.fields is not None:
        raise UnsupportedValueError(f"no elements of type {element!r} are stored")
    return dtype


def _shape_of(dtype: np.dtype[Any], tensor_type: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of the array that is stored as a tensor of that type and shape."""
    stored, last, _ = stored_as(dtype)
    if stored != tensor_type or shape[len(shape) - len(last) :] != last:
        raise UnsupportedValueError(f"{tensor_type} {shape} are not elements of type {dtype.str}")
    return shape[: len(shape) - len(last)]


def _torch_shape(name: str, tensor_type: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Likewise, for elements of torch."""
    stored, last = stored_torch(name)
    if stored != tensor_type or shape[len(shape) - len(last) :] != last:
        raise UnsupportedValueError(f"{tensor_type} {shape} are not elements of type torch.{name}")
    return shape[: len(shape) - len(last)]


def stored_as(dtype: np.dtype[Any]) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """Returns how element types that safetensors lacks are stored: type, and a last dimension."""
    if dtype.str == _COMPLEX128:
        return "F64", (2,), (8,)
    if dtype.kind in "mM" and dtype.isnative:
        return "I64", (), ()
    return "U8", (dtype.itemsize,), (1,)


def _numpy_type(dtype: np.dtype[Any]) -> str | None:
    is_ours = dtype.kind in "biufc" or dtype.kind == "V"  # ml_dtypes have kind V
    return _TYPES.get(dtype.name) if is_ours and dtype.isnative else None


def memory_of_array(array: npt.NDArray[Any]) -> Memory:
    """Returns the memory of a NumPy array of any layout."""
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


def _is_on_host(tensor: Any) -> bool:
    return bool(tensor.device.type == "cpu")


@functools.cache
def _plain_kinds() -> tuple[type, ...]:
    torch = sys.modules["torch"]
    buffer = getattr(torch.nn, "Buffer", None)  # missing in older versions of torch
    return (torch.Tensor, torch.nn.Parameter, *(() if buffer is None else (buffer,)))


@functools.cache
def _torch_types() -> dict[Any, str]:
    torch = sys.modules["torch"]
    return {getattr(torch, name): kind for name, kind in _TYPES.items() if hasattr(torch, name)}


def quick_memory(value: Any, has_cuda: bool = False) -> Memory | None:
    """Returns the memory of most arrays and tensors in one native call.

    With ``has_cuda`` also of those on CUDA devices, of which ``on_host`` cannot be called. None for
    those that take a closer look, and for anything else: ``memory_of`` then says why a
    value cannot be saved.
    """
    if type(value) is np.ndarray:
        try:
            memory = memory_of_array(value)
        except UnsupportedValueError:
            return None
        return memory if memory.element is None else None
    torch = sys.modules.get("torch")
    if torch is None or type(value) not in _plain_kinds():
        return None
    found = _native.host_memory(value, torch.strided, _torch_types(), has_cuda)
    return None if found is None else Memory._make(found)


def memory_of_tensor(tensor: Any) -> Memory:
    """Returns the memory of a torch tensor on any device that has memory."""
    torch = sys.modules["torch"]  # already loaded: there is a tensor
    if type(tensor) not in _plain_kinds():
        raise UnsupportedValueError(
            f"a subclass of torch.Tensor, {type(tensor).__name__}, without __tensor_flatten__: "
            "save the tensors that it is made of, by themselves"
        )
    if tensor.is_quantized:
        raise UnsupportedValueError("a quantized tensor: give .int_repr() of it, scale and offset")
    if tensor.is_nested:
        raise UnsupportedValueError("a nested tensor: give its parts one by one, .unbind()")
    if tensor.layout is not torch.strided:
        raise UnsupportedValueError(f"a tensor of layout {tensor.layout}")
    if tensor.device.type == "meta":
        raise UnsupportedValueError("a tensor on meta, which has no elements")
    tensor = tensor.detach()
    _check_storage(tensor)
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    memory = _memory_of_strided(tensor)
    return memory if _is_on_host(tensor) else memory._replace(device=str(tensor.device))


def _memory_of_strided(tensor: Any) -> Memory:
    name = str(tensor.dtype).removeprefix("torch.")
    size = tensor.element_size()
    shape, element = tuple(tensor.shape), None
    strides = tuple(size * step for step in tensor.stride())
    tensor_type = _TYPES.get(name)
    if name == "complex128":
        tensor_type, element = "F64", _COMPLEX128
        shape, strides = (*shape, 2), (*strides, 8)
    if (found := torch_element(name)) is not None:
        element = found
        tensor_type, last = stored_torch(name)
        shape, strides = shape + last, strides + tuple(size // 2 for _ in last)
    if tensor_type is None:
        raise UnsupportedValueError(f"a tensor of {tensor.dtype}, which safetensors lacks")
    where = None if tensor.is_contiguous() else strides
    return Memory(tensor_type, shape, where, tensor.data_ptr(), element, tensor)


def _check_storage(tensor: Any) -> None:
    """Checks that the storage has all elements: it may have been resized, as FSDP does."""
    if tensor.numel() == 0:
        return
    try:
        have = tensor.untyped_storage().nbytes()
    except (NotImplementedError, RuntimeError):  # a device whose tensors have no storage
        return
    if tensor.is_contiguous():
        reach = tensor.numel() - 1
    else:
        reach = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    need = (tensor.storage_offset() + reach + 1) * tensor.element_size()
    if have < need:
        raise UnsupportedValueError(
            f"its storage has {have} bytes, and its elements need {need}: it was resized or freed"
        )


def memory_of(value: Any) -> Memory | None:
    """Returns the memory of an array or a tensor; None for anything else."""
    if isinstance(value, np.ndarray):
        return memory_of_array(value)
    return memory_of_tensor(value) if is_tensor(value) else None


def check_writable(memory: Memory, array: Any) -> None:
    """Raises if the array cannot be read into."""
    if isinstance(array, np.ndarray) and not array.flags.writeable:
        raise UnsupportedValueError("is read-only")
    if is_tensor(array) and (array.is_conj() or array.is_neg()):
        raise UnsupportedValueError("is a lazy conjugate or negation: call resolve_conj()")
    if memory.may_overlap:
        raise UnsupportedValueError("has elements that share memory, as after expand()")


def array_layout(
    tensor_type: str, shape: tuple[int, ...], element: str | None
) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Returns dtype and shape of the array for a stored tensor.

    NumPy lacks bfloat16 and float8: they become integers. Elements that only torch has become what
    they are stored as.
    """
    if (of_torch := name_of_torch(element)) is not None:
        _torch_shape(of_torch, tensor_type, shape)
    elif element is not None:
        dtype = _dtype_of(element)
        return dtype, _shape_of(dtype, tensor_type, shape)
    name = _NAMES.get(tensor_type, "")
    if tensor_type == "BF16" or tensor_type.startswith("F8_"):
        name = "uint16" if tensor_type == "BF16" else "uint8"
    if not name:
        raise UnsupportedValueError(f"elements of type {tensor_type} have less than a byte")
    return np.dtype(name), shape


def new_array(tensor_type: str, shape: tuple[int, ...], element: str | None) -> npt.NDArray[Any]:
    """Returns a new array for a stored tensor."""
    dtype, shape = array_layout(tensor_type, shape, element)
    made: npt.NDArray[Any] = _new("array", lambda: np.empty(shape, dtype))
    return made


def torch_layout(
    tensor_type: str, shape: tuple[int, ...], element: str | None
) -> tuple[Any, tuple[int, ...]]:
    """Returns torch's dtype, and the shape of the torch tensor, for a stored tensor."""
    torch = importlib.import_module("torch")
    name = _NAMES.get(tensor_type, "")
    if (of_torch := name_of_torch(element)) is not None:
        name, shape = of_torch, _torch_shape(of_torch, tensor_type, shape)
    elif element is not None:
        if element != _COMPLEX128:
            raise UnsupportedValueError(f"torch has no elements of type {element!r}")
        name, shape = "complex128", _shape_of(np.dtype(element), tensor_type, shape)
    if not hasattr(torch, name):
        raise UnsupportedValueError(f"this torch has no elements of type {name or tensor_type}")
    return getattr(torch, name), shape


def new_tensor(tensor_type: str, shape: tuple[int, ...], element: str | None) -> Any:
    """Returns a new torch tensor for a stored tensor; on the CPU, not the default device."""
    dtype, shape = torch_layout(tensor_type, shape, element)
    return _new("tensor", lambda: empty_tensor(shape, dtype, "cpu"))


def empty_tensor(shape: tuple[int, ...], dtype: Any, device: Any) -> Any:
    """Returns a torch tensor with any elements; on the host in huge pages, as NumPy's arrays."""
    tensor = importlib.import_module("torch").empty(shape, dtype=dtype, device=device)
    if _is_on_host(tensor) and tensor.nbytes >= _HUGE_FROM_BYTES:
        _native.advise_huge_pages(tensor.data_ptr(), tensor.nbytes)
    return tensor


def _new(what: str, make: Callable[[], Any]) -> Any:
    try:
        return make()
    except (ValueError, RuntimeError, TypeError) as error:  # too many elements, even of size 0
        if "allocate memory" in str(error):  # torch has no specific exception for it
            raise MemoryError(str(error)) from None
        raise UnsupportedValueError(f"no {what} has such a shape: {error}") from None


def new_staging(array: Any) -> Any:
    """Returns contiguous host memory for the elements of an array or a tensor."""
    if isinstance(array, np.ndarray):
        return np.empty(array.shape, array.dtype)
    return empty_tensor(tuple(array.shape), array.dtype, "cpu")


def copy_into(array: Any, staging: Any) -> None:
    """Fills an array or a tensor from its staging memory.

    Complete on return, unless both are on one device: then it is enqueued on the current stream.
    """
    if isinstance(array, np.ndarray):
        array[...] = staging
    else:
        copy_between(with_plain_elements(array.detach()), with_plain_elements(staging))
