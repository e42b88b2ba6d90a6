"""Converts state trees to JSON, and collects their tensors: docs/formats/checkpoint.md."""

from __future__ import annotations

import argparse
import collections
import contextlib
import enum
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import numpy as np

from stoker._checkpoint.state.modules import bare_state, is_parts, merged_state
from stoker._checkpoint.state.nodes import decode_node
from stoker._checkpoint.state.objects import is_module, is_optimizer
from stoker._checkpoint.state.parameters import ParameterNames, named_state
from stoker._checkpoint.state.per_rank import PerRank
from stoker._checkpoint.state.rng import RngStates
from stoker._checkpoint.state.trainable import fingerprint, frozen_names, is_all_frozen, is_frozen
from stoker._checkpoint.state.values import (
    NOT_A_LEAF,
    advice,
    checked_keys,
    checked_text,
    leaf_node,
    refusal,
    shown,
    wrap_mapping,
    wrapping_depth,
)
from stoker._checkpoint.tensors.distributed import (
    buffers_of_others,
    is_distributed,
    is_placed,
    part_on_this_rank,
)
from stoker._checkpoint.tensors.flattened import (
    FlattenedPart,
    description_of,
    inner_tensors,
    is_flattenable,
)
from stoker._checkpoint.tensors.memory import (
    Memory,
    UnsupportedValueError,
    array_layout,
    memory_of,
    quick_memory,
)
from stoker._checkpoint.tensors.slice import Box, Slice
from stoker._checkpoint.tensors.torch_elements import name_of_torch
from stoker._common.collector import paused_collector
from stoker._common.torch import is_tensor

_log = logging.getLogger("stoker")
_DEPTH_MAX = 60
_TAG_DEPTH_MAX = 4  # of a leaf: {"!elements": [{"!slice": {"!torch": ...}}, ...]}


def has_state_dict(value: Any) -> bool:
    """Whether the object keeps its own state, as modules, optimizers and loaders do."""
    kind = type(value)
    return callable(getattr(kind, "state_dict", None)) and callable(
        getattr(kind, "load_state_dict", None)
    )


class TreeEncoder:
    """Converts trees to JSON and collects their tensors. Equal memory is one tensor.

    ``keys``: encodes keys of a dict or elements of a set, which a restore must recreate without a
    value in memory. ``parameters``: names for the state of optimizers, which otherwise has numbers.
    ``is_trainable_only``: modules are saved without their frozen parameters. ``is_one_of``: other
    ranks save other parts of modules. ``has_cuda``: tensors on CUDA devices stay there; otherwise
    they are copied to the host.

    Attributes:
        tensors: The tensors to save, by name, where the core can read them.
        slices: For slices: offsets and shape of the whole tensor.
        per_rank: Names of tensors that belong to this rank alone. Others with the same name and
            bytes on several ranks are stored once.
    """

    def __init__(
        self,
        *,
        arrays: bool = True,
        keys: bool = False,
        parameters: ParameterNames | None = None,
        is_trainable_only: bool = False,
        is_one_of: bool = False,
        has_cuda: bool = False,
    ) -> None:
        self.tensors: dict[str, Memory] = {}
        self.slices: dict[str, Box] = {}
        self.per_rank: set[str] = set()
        self._arrays = arrays
        self._is_per_rank = False  # while in a PerRank
        self._others: set[int] = set()  # addresses of buffers that another rank saves
        self._stored_there: set[str] = set()  # their names
        self._keys = keys
        self._parameters = parameters
        self._is_trainable_only = is_trainable_only
        self._is_one_of = is_one_of  # of several ranks
        self._has_cuda = has_cuda
        self._names: dict[tuple[Any, ...], str] = {}
        self._placeless: list[Any] = []

    def encode(self, tree: Any, name: str) -> str:
        """Returns the JSON of one tree; ``name`` begins the names of its tensors."""
        return json.dumps(self.node(tree, name, name, 1), ensure_ascii=False, allow_nan=False)

    @paused_collector()
    def encode_all(self, trees: dict[str, Any]) -> str:
        """Returns the JSON of several trees: a dict by name. A list of modules is one module."""
        nodes = {
            checked_text(name, f"the name {name!r}"): self._module(tree, name, name, 2)
            if is_parts(tree)
            else self.node(tree, name, name, 2)
            for name, tree in trees.items()
        }
        return json.dumps(nodes, ensure_ascii=False, allow_nan=False)

    def node(self, value: Any, path: str, name: str, depth: int) -> Any:
        """Returns the JSON node of ``value``."""
        if depth > _DEPTH_MAX:
            raise refusal(value, path, f"nested deeper than {_DEPTH_MAX}, or in itself")
        if self._keys and isinstance(value, (float, complex)) and value != value:
            raise refusal(value, path, "a NaN equals no other: it could not be found again")
        if isinstance(value, (PerRank, RngStates)) and not self._is_per_rank:
            return self._own(value, path, name, depth)
        node = leaf_node(value, path)
        if node is NOT_A_LEAF and is_distributed(value):
            value = _part_of(value, path)
        if node is NOT_A_LEAF:
            node = self._array(value, path, name)
        if node is NOT_A_LEAF and (isinstance(value, FlattenedPart) or is_flattenable(value)):
            node = self._flattened(value, path, name, depth)
        if node is NOT_A_LEAF:
            node = self._container(value, path, name, depth)
        # Tags add depth, which matters only near the limit.
        if depth + _TAG_DEPTH_MAX > _DEPTH_MAX and depth - 1 + _nesting(node) > _DEPTH_MAX:
            raise refusal(value, path, f"nested deeper than {_DEPTH_MAX}")
        return node

    def _own(self, value: Any, path: str, name: str, depth: int) -> Any:
        inner = value.value if isinstance(value, PerRank) else value
        with self._for_each_rank():
            return self.node(inner, path, name, depth)

    @contextlib.contextmanager
    def _for_each_rank(self) -> Iterator[None]:
        """Tensors inside belong to this rank alone."""
        was, self._is_per_rank = self._is_per_rank, True
        try:
            yield
        finally:
            self._is_per_rank = was

    def _array(self, value: Any, path: str, name: str) -> Any:
        if isinstance(value, np.generic):
            if isinstance(value, (np.bytes_, np.str_)) and value[-1:] in (b"\0", "\0"):
                raise refusal(value, path, "NumPy drops the zeros at its end: save bytes or str")
            return {"!scalar": self._tensor(np.asarray(value), path, name)}
        if isinstance(value, np.ndarray) or (is_tensor(value) and not is_flattenable(value)):
            return self._tensor(value, path, name)
        if type(value) is io.BytesIO:
            data = np.frombuffer(value.getvalue(), np.uint8)
            return {"!bytes_io": self._tensor(data, path, name)}
        return self._slice(value, path, name) if isinstance(value, Slice) else NOT_A_LEAF

    def _container(self, value: Any, path: str, name: str, depth: int) -> Any:
        if isinstance(value, enum.Enum):
            if self._keys:
                raise refusal(value, path, "an enum would come back as its value: use that")
            plain = TreeEncoder(arrays=False)
            return {"!enum": plain.node(value.value, path, name, depth + 1)}
        if isinstance(value, dict):
            node = self._dict(value, path, name, depth + wrapping_depth(value))
            return wrap_mapping(value, node)
        if isinstance(value, argparse.Namespace):
            for key in vars(value):
                if type(key) is not str:
                    raise refusal(value, path, f"{shown(key)} is not a name: use a str")
            return {"!namespace": self._dict(vars(value), path, name, depth + 1)}
        if isinstance(value, (list, tuple)):
            step = 1 if isinstance(value, list) else 2
            items = [
                self.node(item, f"{path}[{i}]", f"{name}.{i}", depth + step)
                for i, item in enumerate(value)
            ]
            return items if isinstance(value, list) else {"!tuple": items}
        if isinstance(value, (set, frozenset)):
            nodes = _key_nodes(value, list(value), path, depth + 2)
            tag = "!set" if isinstance(value, set) else "!frozenset"
            return {tag: sorted(nodes, key=json.dumps)}  # equal sets give equal text
        if has_state_dict(value) and not self._keys:
            return self._state(value, path, name, depth)
        raise refusal(value, path, advice(value))

    def _state(self, value: Any, path: str, name: str, depth: int) -> Any:
        if is_module(value):
            return self._module([value], path, name, depth + 1)
        if is_optimizer(value) and self._parameters is not None:
            state = named_state(value, self._parameters)
        else:
            state = value.state_dict()
            if isinstance(state, collections.OrderedDict):  # only for its order, as every dict's
                return self._dict(state, path, name, depth)
        return self.node(state, path, name, depth + 1)

    def _module(self, parts: Any, path: str, name: str, depth: int) -> Any:
        self._others = set().union(*map(buffers_of_others, parts))
        try:
            return self._module_state(parts, path, name, depth)
        finally:
            self._others = set()

    def _module_state(self, parts: Any, path: str, name: str, depth: int) -> Any:
        state = bare_state(parts[0]) if len(parts) == 1 else merged_state(parts, path)
        if not self._is_trainable_only or not isinstance(state, dict):
            return self.node(state, path, name, depth)
        if is_all_frozen(parts) and not self._is_left_out(path):
            return self.node(state, path, name, depth)
        frozen = frozen_names(parts)
        kept = {key: item for key, item in state.items() if not is_frozen(key, frozen)}
        base = {key: item for key, item in state.items() if key not in kept}
        if not base:
            return self.node(state, path, name, depth)
        node = self.node(collections.OrderedDict(kept), path, name, depth + 2)
        return {"!trainable": {"base": fingerprint(base), "state": node}}

    def _is_left_out(self, path: str) -> bool:
        """Whether a module that is frozen as a whole is a base, or a part of one; else it is saved.

        Raises:
            ValueError: Nothing in the call is trained, and no other rank may have what is.
        """
        if self._parameters is not None and self._parameters.has_trainable():
            _log.info(
                "%s: all of it is frozen, and other modules are trained: only='trainable' saves it "
                "whole, as an average of the weights. Leave out a base that never changes",
                path,
            )
            return False
        if not self._is_one_of:
            raise ValueError(
                f"{path}: all of its parameters are frozen, and those of every other module too: "
                "only='trainable' would save none of them. Save without only=, or leave it out"
            )
        return True

    def _dict(self, value: dict[Any, Any], path: str, name: str, depth: int) -> Any:
        keys: list[Any] = list(value)
        items = list(value.values())
        has_names = all(type(key) is str and not key.startswith("!") for key in keys)
        step = 1 if has_names else 3
        if has_names:
            _check_names(keys, path)
        key_nodes = keys if has_names else _key_nodes(value, keys, path, depth + step)
        nodes = [
            self._item(item, key, path, name, depth + step)
            for key, item in zip(keys, items, strict=True)
        ]
        pairs = zip(key_nodes, nodes, strict=True)
        return dict(pairs) if has_names else {"!dict": [list(pair) for pair in pairs]}

    def _item(self, item: Any, key: Any, path: str, name: str, depth: int) -> Any:
        """Returns the node of an item of a dict.

        There may be many tensors: for most of them nothing else is looked at, and no path is made.
        """
        name = f"{name}.{_name_of(key)}"
        if self._arrays and depth + _TAG_DEPTH_MAX <= _DEPTH_MAX:
            memory = quick_memory(item, self._has_cuda)
            if memory is not None and not is_placed(item):
                return self._stored(item, memory, name)
        return self.node(item, f"{path}[{key!r}]", name, depth)

    def _tensor(self, value: Any, path: str, name: str) -> Any:
        return self._stored(value, self._memory(value, path), name)

    def _stored(self, value: Any, memory: Memory, name: str) -> Any:
        """Returns the node of an array or a tensor, which is collected unless it is known."""
        # Some devices have no addresses, and an empty tensor has no memory.
        has_place = memory.address != 0 and 0 not in memory.shape
        key = memory.key if has_place else (id(value),)
        if not has_place:
            self._placeless.append(value)  # so that no other object gets its id
        stored = self._names.get(key)
        if stored is None and has_place and memory.address in self._others:
            # By the rank that saves it, which meets the same places in the same order.
            stored = self._names[key] = self._unused(name)
            self._stored_there.add(stored)
        elif stored is None:
            stored = self._names[key] = self._add(memory, name)
        return _leaf(value, stored, memory)

    def _slice(self, value: Slice, path: str, name: str) -> Any:
        memory = self._memory(value.array, path)
        if value.is_empty:
            return _leaf(value.array, checked_text(name, path), memory, is_slice=True)
        place = value.place(memory)
        key = *memory.key, place
        stored = self._names.get(key) if memory.address != 0 else None
        if stored is None:
            stored = self._add(memory, name)
            self.slices[stored] = place
            self._names[key] = stored
        return _leaf(value.array, stored, memory, is_slice=True)

    def _flattened(self, value: Any, path: str, name: str, depth: int) -> Any:
        if not self._arrays:
            raise refusal(value, path, "no arrays here: save them in a tree")
        plain = TreeEncoder(arrays=False)
        node = plain.node(description_of(value), f"{path}: context", name, depth + 1)
        is_part = isinstance(value, FlattenedPart)
        with self._for_each_rank() if is_part else contextlib.nullcontext():
            tensors = self._dict(inner_tensors(value), path, name, depth + 2)
        return {"!flattened": {"tensors": tensors} | node}

    def _memory(self, value: Any, path: str) -> Memory:
        try:
            if not self._arrays:
                raise UnsupportedValueError("no arrays here: save them in a tree")
            memory = memory_of(value)
            if memory is not None and memory.element is not None:
                array_layout(memory.type, memory.shape, memory.element)  # checks as a restore does
        except UnsupportedValueError as error:
            raise refusal(value, path, str(error)) from None
        assert memory is not None
        return memory

    def _unused(self, name: str) -> str:
        stored, number = checked_text(name, name), 1
        while stored in self.tensors or stored in self._stored_there:
            number += 1  # a key with a dot, or both 1 and "1"
            stored = f"{name}~{number}"
        return stored

    def _add(self, memory: Memory, name: str) -> str:
        stored = self._unused(name)
        self.tensors[stored] = memory.to_save(self._has_cuda)
        if self._is_per_rank:
            self.per_rank.add(stored)
        return stored


def _part_of(value: Any, path: str) -> Any:
    try:
        return part_on_this_rank(value)
    except UnsupportedValueError as error:
        raise refusal(value, path, str(error)) from None


def _check_names(keys: list[str], path: str) -> None:
    """Checks keys of a dict as ``checked_text`` does, all at once."""
    try:
        "".join(keys).encode()
    except UnicodeEncodeError:
        for key in keys:
            checked_text(key, f"{path}[{key!r}]")


def _key_nodes(value: Any, keys: list[Any], path: str, depth: int) -> list[Any]:
    """Returns nodes of the keys of a dict or the elements of a set, checked to be unique."""
    encoder = TreeEncoder(arrays=False, keys=True)
    what = "key " if isinstance(value, dict) else ""
    nodes = [encoder.node(key, f"{path}: {what}{shown(key)}", "", depth) for key in keys]
    try:
        count = len(set(checked_keys([decode_node(node, False) for node in nodes])))
    except (ValueError, TypeError) as error:
        raise refusal(value, path, f"no restore could read its keys: {error}") from None
    if count != len(keys):
        raise refusal(value, path, "some keys would come back as equal ones")
    return nodes


def _leaf(value: Any, stored: str, memory: Memory, *, is_slice: bool = False) -> Any:
    tag = "!tensor" if isinstance(value, np.ndarray) else "!torch"
    of_torch = name_of_torch(memory.element)
    node: dict[str, Any] = {tag: stored}
    if memory.element is not None and of_torch is None:
        node = {tag if tag == "!torch" else "!array": [stored, memory.element]}
    if is_slice:
        node = {"!slice": node}
    # Outermost: versions that do not know the tag must not take it for damage.
    return node if of_torch is None else {"!elements": [node, of_torch]}


def _nesting(node: Any) -> int:
    """Returns the nesting depth of a leaf's node."""
    if not isinstance(node, (dict, list)):
        return 0
    items = node.values() if isinstance(node, dict) else node
    return 1 + max((_nesting(item) for item in items), default=0)


def _name_of(key: Any) -> str:
    return key if isinstance(key, str) else str(key)
