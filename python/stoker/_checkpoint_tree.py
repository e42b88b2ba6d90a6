"""State that is no tensor, to JSON and back: docs/formats/checkpoint.md has the tags."""

from __future__ import annotations

import base64
import json
import math
import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stoker._checkpoint_memory import Memory, UnsupportedValueError, memory_of
from stoker._checkpoint_slice import Box, Slice
from stoker._corrupt import corrupt_error
from stoker._native import OpenCheckpoint
from stoker._torch import is_tensor

_INT_MAX = 2**53  # what every JSON parser reads exactly
_DEPTH_MAX = 60
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


@dataclass(frozen=True, eq=False)
class TensorNode:
    """A place in a tree that holds a tensor.

    Attributes:
        name: Of the tensor, in the files.
        is_torch: It was a torch tensor, not a NumPy array.
        element: NumPy's name of the elements' type where safetensors has none.
        is_scalar: It was a NumPy scalar, not an array without dimensions.
        is_slice: It was the part of that tensor that a rank had, a stoker.Slice.
    """

    name: str
    is_torch: bool = False
    element: str | None = None
    is_scalar: bool = False
    is_slice: bool = False


def has_state_dict(value: Any) -> bool:
    """Whether it is an object that keeps its own state, as modules, optimizers and loaders do."""
    kind = type(value)
    return callable(getattr(kind, "state_dict", None)) and callable(
        getattr(kind, "load_state_dict", None)
    )


class TreeEncoder:
    """Makes JSON of trees and collects their tensors. Equal memory is one tensor.

    ``prefix`` begins the names of all tensors but slices, which belong to all ranks.

    Attributes:
        tensors: What is to be saved, by name.
        slices: Of those that are slices: offsets and shape of the whole tensor.
    """

    def __init__(self, *, arrays: bool = True, prefix: str = "") -> None:
        self.tensors: dict[str, Memory] = {}
        self.slices: dict[str, Box] = {}
        self._arrays = arrays
        self._prefix = prefix
        self._names: dict[tuple[Any, ...], str] = {}

    def encode(self, tree: Any, name: str) -> str:
        """The JSON of one tree; ``name`` begins the names of its tensors."""
        return json.dumps(self.node(tree, name, name, 1), ensure_ascii=False, allow_nan=False)

    def encode_all(self, trees: dict[str, Any]) -> str:
        """The JSON of several trees by name: a dict of them."""
        nodes = {name: self.node(tree, name, name, 2) for name, tree in trees.items()}
        return json.dumps(nodes, ensure_ascii=False, allow_nan=False)

    def node(self, value: Any, path: str, name: str, depth: int) -> Any:
        """What stands for ``value`` in JSON."""
        if depth > _DEPTH_MAX:
            raise _refusal(value, path, f"nested deeper than {_DEPTH_MAX}, or in itself")
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is int:
            return value if -_INT_MAX <= value <= _INT_MAX else {"!int": str(value)}
        if kind is float:
            return value if math.isfinite(value) else {"!float": str(value)}
        if kind is str:
            return _text(value, path)
        if kind is bytes:
            return {"!bytes": base64.b64encode(value).decode()}
        if kind is complex:
            parts = (value.real, value.imag)
            return {"!complex": [self.node(part, path, name, depth) for part in parts]}
        if isinstance(value, np.generic):
            return {"!scalar": self._tensor(np.asarray(value), path, name)}
        if isinstance(value, np.ndarray) or is_tensor(value):
            return self._tensor(value, path, name)
        if isinstance(value, Slice):
            return self._slice(value, path, name)
        if isinstance(value, dict):
            return self._dict(value, path, name, depth)
        if isinstance(value, (list, tuple)):
            step = 1 if isinstance(value, list) else 2
            items = [
                self.node(item, f"{path}[{i}]", f"{name}.{i}", depth + step)
                for i, item in enumerate(value)
            ]
            return items if isinstance(value, list) else {"!tuple": items}
        if has_state_dict(value):
            return self.node(value.state_dict(), path, name, depth + 1)
        raise _refusal(value, path, _advice(value))

    def _dict(self, value: dict[Any, Any], path: str, name: str, depth: int) -> Any:
        is_plain = all(type(key) is str and not key.startswith("!") for key in value)
        step = 1 if is_plain else 3
        nodes = [
            (key, self.node(item, f"{path}[{key!r}]", f"{name}.{_name_of(key)}", depth + step))
            for key, item in value.items()
        ]
        if is_plain:
            return {_text(key, f"{path}[{key!r}]"): node for key, node in nodes}
        keys = TreeEncoder(arrays=False)
        return {
            "!dict": [
                [keys.node(key, f"{path}: key {key!r}", "", depth + step), node]
                for key, node in nodes
            ]
        }

    def _tensor(self, value: Any, path: str, name: str) -> Any:
        memory = self._memory(value, path)
        stored = self._names.get(memory.key) if 0 not in memory.shape else None
        if stored is None:
            stored = self._add(memory, self._prefix + name, path)
            self._names[memory.key] = stored
        return _leaf(value, stored, memory)

    def _slice(self, value: Slice, path: str, name: str) -> Any:
        memory = self._memory(value.array, path)
        stored = name
        if not value.is_empty:
            stored = self._add(memory, name, path)
            self.slices[stored] = value.place(memory)
        return {"!slice": _leaf(value.array, stored, memory)}

    def _memory(self, value: Any, path: str) -> Memory:
        try:
            if not self._arrays:
                raise UnsupportedValueError("no arrays here: they belong into a tree of their own")
            memory = memory_of(value)
        except UnsupportedValueError as error:
            raise _refusal(value, path, str(error)) from None
        assert memory is not None
        return memory

    def _add(self, memory: Memory, name: str, path: str) -> str:
        stored, number = _text(name, path), 1
        while stored in self.tensors:  # a key with a dot, or 1 beside "1"
            number += 1
            stored = f"{name}~{number}"
        self.tensors[stored] = memory
        return stored


def _leaf(value: Any, stored: str, memory: Memory) -> Any:
    tag = "!torch" if is_tensor(value) else "!tensor"
    if memory.element is None:
        return {tag: stored}
    return {tag if tag == "!torch" else "!array": [stored, memory.element]}


def _refusal(value: Any, path: str, why: str) -> TypeError:
    return TypeError(f"{path}: object of type {type(value).__name__} can't be saved: {why}")


def _advice(value: Any) -> str:
    if isinstance(value, np.random.Generator):
        return "save its bit_generator.state, which is a dict"
    if isinstance(value, (set, frozenset, bytearray, range)):
        return "make a list or bytes of it"
    if isinstance(value, (int, float, str, bytes)):
        return "a subclass would come back as what it is derived from: convert it"
    return "only dicts, lists, tuples, numbers, str, bytes, None, arrays, and what has state_dict()"


def _text(value: str, path: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _refusal(value, path, "it is not UTF-8: save bytes") from None
    return value


def _name_of(key: Any) -> str:
    return key if isinstance(key, str) else str(key)


def _untag(tag: str, body: Any) -> Any:
    if tag == "!tensor":
        return TensorNode(body)
    if tag == "!torch":
        return (
            TensorNode(body, True) if isinstance(body, str) else TensorNode(body[0], True, body[1])
        )
    if tag == "!array":
        return TensorNode(body[0], False, body[1])
    if tag == "!scalar":
        node = _decode(body)
        return TensorNode(node.name, False, node.element, True)
    if tag == "!slice":
        return replace(_decode(body), is_slice=True)
    if tag == "!tuple":
        return tuple(_decode(item) for item in body)
    if tag == "!dict":
        return {_decode(key): _decode(item) for key, item in body}
    if tag == "!float":
        return _FLOATS[body]
    if tag == "!int":
        return int(body)
    if tag == "!bytes":
        return base64.b64decode(body, validate=True)
    if tag == "!complex":
        return complex(*(_decode(part) for part in body))
    raise KeyError(tag)


def _decode(node: Any) -> Any:
    if isinstance(node, list):
        return [_decode(item) for item in node]
    if not isinstance(node, dict):
        return node
    if len(node) == 1:
        ((tag, body),) = node.items()
        if tag.startswith("!"):
            return _untag(tag, body)
    return {key: _decode(item) for key, item in node.items()}


def manifest_path(checkpoint: OpenCheckpoint) -> str:
    """Where a checkpoint says what it holds."""
    return os.path.join(checkpoint.directory, "manifest.json")  # noqa: PTH118 (a string, as others)


def decode_tree(text: str, what: str, path: str) -> Any:
    """The tree of a JSON text in the manifest ``path``, with a TensorNode for each tensor.

    Raises:
        CorruptError: It is no such text; names ``what``.
    """
    try:
        return _decode(json.loads(text))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise corrupt_error(f"{path}: {what}: no state tree: {reason}", path, 0) from None
