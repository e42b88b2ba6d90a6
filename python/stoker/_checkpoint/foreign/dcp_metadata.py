"""The metadata of torch's distributed checkpoints: a pickle, read without running it.

The unpickler has only the opcodes that make plain values. A module and name in the pickle become a
word: no class or function of Python or torch is ever on the stack, so a pickle can neither call nor
change one. Some words stand for a value (a dtype), some make one (a size, a path), and those of the
metadata's own classes make instances, of which only the fields can be set.
"""

from __future__ import annotations

import dataclasses
import importlib
import io
import math
import pickle
import struct
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any, ClassVar

_DCP = "torch.distributed.checkpoint"
_RECORDS = {
    f"{_DCP}.metadata": (
        *("Metadata", "MetadataIndex", "StorageMeta", "TensorProperties"),
        *("TensorStorageMetadata", "BytesStorageMetadata", "ChunkStorageMetadata"),
    ),
    f"{_DCP}.filesystem": ("_StorageInfo",),
}
_OPCODES = (
    *("PROTO", "FRAME", "STOP", "MARK", "POP", "POP_MARK", "DUP", "NONE", "NEWTRUE", "NEWFALSE"),
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "FLOAT", "BINFLOAT"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_LIST", "LIST", "EMPTY_DICT"),
    *("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE", "GET", "BINGET", "LONG_BINGET"),
    *("GLOBAL", "STACK_GLOBAL"),
)
_INT_MAX = 2**63 - 1


class RefusedPickleError(ValueError):
    """A file has more than tensors and plain values: only its own code could restore it."""


@dataclasses.dataclass(frozen=True)
class _Word:
    """A module and name in a pickle."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _INT_MAX


class _Torch:
    """The meaning of words."""

    def __init__(self) -> None:
        torch = importlib.import_module("torch")
        modules = {module: importlib.import_module(module) for module in _RECORDS}
        self.records = {
            _Word(module, name): getattr(modules[module], name)
            for module, names in _RECORDS.items()
            for name in names
        }
        self.meta = modules[f"{_DCP}.metadata"]
        self.info = modules[f"{_DCP}.filesystem"]._StorageInfo
        self.size, self.dtype, self.layout = torch.Size, torch.dtype, torch.layout
        self.encoding = self.meta._MEM_FORMAT_ENCODING
        encoding = _Word(self.meta.__name__, "_MEM_FORMAT_ENCODING")
        self.values = {
            _Word("torch", name): value
            for name, value in vars(torch).items()
            if isinstance(value, torch.dtype)
        }
        self._layouts = {str(v): v for v in vars(torch).values() if isinstance(v, torch.layout)}
        self.makers: dict[_Word, Callable[..., Any]] = {
            _Word("torch", "Size"): self._make_size,
            _Word("torch.serialization", "_get_layout"): self._layouts.__getitem__,
            _Word("collections", "OrderedDict"): dict[Any, Any],
            encoding: self.encoding,
        }
        for name in ("PosixPath", "PurePosixPath"):
            for module in ("pathlib", "pathlib._local"):
                self.makers[_Word(module, name)] = self._make_path
        for module in ("builtins", "__builtin__"):  # how pickle writes a member of an enum
            self.makers[_Word(module, "getattr")] = lambda kind, name: self._member(
                kind == encoding, name
            )

    def _make_size(self, numbers: Any) -> Any:
        if type(numbers) not in (tuple, list) or not all(map(_is_count, numbers)):
            raise TypeError("torch.Size of something other than numbers")
        return self.size(numbers)

    @staticmethod
    def _make_path(*parts: Any) -> str:
        if not all(type(part) is str for part in parts):
            raise TypeError("a path of something other than words")
        return str(PurePosixPath(*parts))

    def _member(self, is_encoding: bool, name: Any) -> Any:
        if not is_encoding or type(name) is not str:
            raise RefusedPickleError("getattr of anything but a memory format")
        return self.encoding[name]


# The Python version: opcodes cannot be removed from the one in C.
_PythonUnpickler: Any = pickle._Unpickler


class _Machine(_PythonUnpickler):  # type: ignore[misc]
    """The unpickler with a restricted set of opcodes."""

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        code: _PythonUnpickler.dispatch[code]
        for code in (getattr(pickle, name)[0] for name in _OPCODES)
    }

    def __init__(self, data: bytes, torch: _Torch) -> None:
        super().__init__(io.BytesIO(data))
        self._torch = torch
        self._kinds = set(torch.records.values())

    def find_class(self, module: Any, name: Any) -> Any:
        word = _Word(module, name)
        if word in self._torch.values:
            return self._torch.values[word]
        if word in self._torch.records or word in self._torch.makers:
            return word
        raise RefusedPickleError(str(word))

    def _newobj(self) -> None:
        arguments, word = self.stack.pop(), self.stack.pop()
        kind = self._torch.records.get(word) if type(word) is _Word else None
        if kind is None or arguments != ():
            raise RefusedPickleError(f"object of {word}")
        self.append(kind.__new__(kind))

    def _reduce(self) -> None:
        arguments, word = self.stack.pop(), self.stack.pop()
        make = self._torch.makers.get(word) if type(word) is _Word else None
        if make is None or type(arguments) is not tuple:
            raise RefusedPickleError(f"call of {word}")
        if make == dict[Any, Any] and arguments:
            raise RefusedPickleError("OrderedDict of anything")
        self.append(make(*arguments))

    def _build(self) -> None:
        state = self.stack.pop()
        record = self.stack[-1]
        kind = type(record)
        if kind not in self._kinds:
            raise RefusedPickleError(f"state of {record}")
        if kind is self._torch.meta.TensorProperties:
            kinds = [type(value) for value in state] if type(state) is tuple else []
            torch = self._torch
            if kinds != [torch.dtype, torch.layout, bool, torch.encoding, bool]:
                raise RefusedPickleError("such properties of a tensor")
            record.__setstate__(state)
            return
        fields = {field.name for field in dataclasses.fields(kind)}
        if type(state) is not dict or not state.keys() <= fields:
            raise RefusedPickleError(f"such state of {kind.__name__}")
        for name, value in state.items():
            object.__setattr__(record, name, value)

    def _is_key(self, key: Any) -> bool:
        """Accepts only keys that are quick to hash."""
        if type(key) is not self._torch.meta.MetadataIndex:
            return type(key) in (str, int)
        return type(key.fqn) is str and type(key.offset) in (type(None), self._torch.size)

    def _set(self, items: list[Any]) -> None:
        mapping = self.stack[-1]
        if type(mapping) is not dict or not all(map(self._is_key, items[::2])):
            raise RefusedPickleError("such a mapping")
        mapping.update(zip(items[::2], items[1::2], strict=True))

    def _setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._set([key, value])

    def _setitems(self) -> None:
        self._set(self.pop_mark())

    def _add(self, items: list[Any]) -> None:
        if type(self.stack[-1]) is not list:
            raise RefusedPickleError("such a list")
        self.stack[-1].extend(items)

    def _append(self) -> None:
        self._add([self.stack.pop()])

    def _appends(self) -> None:
        self._add(self.pop_mark())

    dispatch.update(
        {
            pickle.NEWOBJ[0]: _newobj,
            pickle.REDUCE[0]: _reduce,
            pickle.BUILD[0]: _build,
            pickle.SETITEM[0]: _setitem,
            pickle.SETITEMS[0]: _setitems,
            pickle.APPEND[0]: _append,
            pickle.APPENDS[0]: _appends,
        }
    )


def parse_metadata(data: bytes) -> Any:
    """Returns the ``Metadata`` in the bytes of a ``.metadata`` file.

    Raises:
        RefusedPickleError: The bytes name, call or change something else.
        ValueError: They are not such a pickle, or not what torch writes.
    """
    torch = _Torch()
    try:
        metadata = _Machine(data, torch).load()
        if type(metadata) is not torch.meta.Metadata:
            raise ValueError("it holds something else")
        _check(metadata, torch)
    except RefusedPickleError:
        raise
    except KeyError as error:  # the unpickler has no such opcode
        raise RefusedPickleError(f"instruction {error}") from None
    except (
        *(pickle.UnpicklingError, EOFError, TypeError, AttributeError, IndexError, OverflowError),
        *(AssertionError, MemoryError, ValueError, ArithmeticError, struct.error),
    ) as error:
        raise ValueError(str(error) or type(error).__name__) from None
    return metadata


def _check(metadata: Any, torch: _Torch) -> None:
    """Checks the types of all parts, and that no tensor is larger than its stored data."""
    stored: dict[str, int] = {}
    packed: set[str] = set()  # transformed, so that their size is unknown
    for index, info in metadata.storage_data.items():
        is_number = _is_count(info.offset) and _is_count(info.length)
        if type(index) is not torch.meta.MetadataIndex or type(info) is not torch.info:
            raise TypeError("places of something else")
        if type(info.relative_path) is not str or not is_number:
            raise TypeError(f"the place of {index.fqn} is invalid")
        forms = info.transform_descriptors or []
        if type(forms) not in (list, tuple) or not all(type(form) is str for form in forms):
            raise TypeError(f"{index.fqn} is stored in a form that has no name")
        packed |= {index.fqn} if forms else set()
        stored[index.fqn] = stored.get(index.fqn, 0) + info.length
    for name, entry in metadata.state_dict_metadata.items():
        if type(name) is not str or name not in stored:
            raise ValueError(f"{name!r} is stored nowhere")
        if type(entry) is torch.meta.BytesStorageMetadata:
            continue
        sizes = [entry.size, *(s for c in entry.chunks for s in (c.sizes, c.offsets))]
        if any(type(size) is not torch.size for size in sizes):
            raise TypeError(f"{name} has no shape")
        size_bytes = math.prod(entry.size) * entry.properties.dtype.itemsize
        if name not in packed and size_bytes > stored[name]:
            raise ValueError(f"{name} is larger than what is stored of it")
