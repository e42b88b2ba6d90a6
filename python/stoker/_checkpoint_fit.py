"""A saved tree and the one in memory: what goes where, before the first byte moves."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from stoker import _native
from stoker._checkpoint_memory import (
    Memory,
    UnsupportedValueError,
    check_writable,
    describe,
    memory_of,
    new_array,
    new_tensor,
)
from stoker._checkpoint_ranks import Differs
from stoker._checkpoint_slice import Slice
from stoker._checkpoint_tree import (
    TensorNode,
    has_state_dict,
    manifest_path,
)
from stoker._corrupt import corrupt_error
from stoker._torch import is_tensor


def _is_torch_kind(value: Any, module: str, name: str) -> bool:
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(value, getattr(loaded, name))


class TreeFit:
    """Fits saved trees to those in memory, in two passes over both.

    ``check`` finds what does not fit and collects where tensors are read to: arrays in memory
    are filled where they are, and new ones are made where there are none. When they have been read,
    ``apply`` sets everything else.
    """

    def __init__(self, checkpoint: _native.OpenCheckpoint, source: str) -> None:
        self._source = source
        self._manifest = manifest_path(checkpoint)
        self._stored = {name: (kind, shape) for name, kind, shape in checkpoint.tensors()}
        self._arrays: dict[TensorNode, Any] = {}
        self._states: dict[int, Any] = {}
        self.targets: list[tuple[Any, ...]] = []

    def check(self, saved: Any, have: Any, path: str, *, strict: bool = True) -> None:
        """Raises what is wrong with putting ``saved`` where ``have`` is; changes nothing.

        ``strict``: a key of ``have`` that was not saved is an error.
        """
        if isinstance(saved, Differs):
            raise saved.refusal(path)
        if has_state_dict(have) and not isinstance(have, (dict, list, tuple)):
            self._check_object(saved, have, path)
        elif isinstance(have, Slice):
            if not isinstance(saved, TensorNode) or saved.is_scalar:
                raise ValueError(f"{path}: a slice, but {_kind(saved)} in {self._source}")
            self._fill_slice(saved, have, path)
        elif isinstance(have, np.ndarray) or is_tensor(have):
            if not isinstance(saved, TensorNode) or saved.is_scalar:
                raise ValueError(f"{path}: an array, but {_kind(saved)} in {self._source}")
            self._fill(saved, have, path)
        elif isinstance(saved, TensorNode):
            if isinstance(have, (dict, list, tuple)):
                raise ValueError(f"{path}: {_kind(have)}, but an array in {self._source}")
            self._make(saved, path)
        elif isinstance(have, (dict, list, tuple)):
            if _family(have) is not _family(saved):
                raise ValueError(f"{path}: {_kind(have)}, but {_kind(saved)} in {self._source}")
            self._check_items(saved, have, path, strict)
        else:
            self._check_new(saved, path)

    def _check_items(self, saved: Any, have: Any, path: str, strict: bool) -> None:
        if isinstance(have, dict):
            missing = [key for key in have if key not in saved] if strict else []
            if missing:
                raise ValueError(f"{path}[{missing[0]!r}]: not in {self._source}")
            pairs = [(key, item, have.get(key)) for key, item in saved.items()]
        else:
            for i, item in enumerate(have[len(saved) :], len(saved)):
                if _holds_arrays(item):
                    raise ValueError(f"{path}[{i}]: not in {self._source}")
            padded = [*have[: len(saved)], *[None] * (len(saved) - len(have))]
            pairs = list(zip(range(len(saved)), saved, padded, strict=True))
        for key, item, there in pairs:
            self.check(item, there, f"{path}[{key!r}]", strict=strict)

    def _check_object(self, saved: Any, have: Any, path: str) -> None:
        state = have.state_dict()
        self._states[id(have)] = state
        if _is_torch_kind(have, "torch.nn", "Module") and isinstance(saved, dict):
            unexpected = [key for key in saved if key not in state]
            if unexpected:
                raise ValueError(
                    f"{path}[{unexpected[0]!r}]: in {self._source}, but the module has none"
                )
        # An optimizer has no state before its first step, and a rewound one has too much.
        strict = not _is_torch_kind(have, "torch.optim", "Optimizer")
        self.check(saved, state, path, strict=strict)

    def _check_new(self, saved: Any, path: str) -> None:
        if isinstance(saved, Differs):
            raise saved.refusal(path)
        if isinstance(saved, TensorNode):
            self._make(saved, path)
        elif isinstance(saved, dict):
            for key, item in saved.items():
                self._check_new(item, f"{path}[{key!r}]")
        elif isinstance(saved, (list, tuple)):
            for i, item in enumerate(saved):
                self._check_new(item, f"{path}[{i}]")

    def _find(self, node: TensorNode, path: str) -> tuple[str, tuple[int, ...]]:
        if node.name not in self._stored:
            message = f"{path}: {self._source} has no tensor {node.name}"
            raise corrupt_error(message, self._manifest, 0)
        return self._stored[node.name]

    def _memory(self, have: Any, path: str) -> Memory:
        try:
            memory = memory_of(have)
            assert memory is not None
            check_writable(memory, have)
        except UnsupportedValueError as error:
            raise ValueError(f"{path}: cannot be restored into: {error}") from None
        return memory

    def _fill(self, node: TensorNode, have: Any, path: str) -> None:
        kind, shape = self._find(node, path)
        memory = self._memory(have, path)
        if (memory.type, memory.shape, memory.element) != (kind, shape, node.element):
            stored = describe(kind, shape, node.element)
            raise ValueError(f"{path}: {memory.describe()}, but {stored} in {self._source}")
        self._arrays[node] = have
        self.targets.append((node.name, None, memory.address, memory.strides))

    def _fill_slice(self, node: TensorNode, have: Slice, path: str) -> None:
        self._arrays[node] = have
        if have.is_empty:
            return  # whoever has elements of it knows whether it fits
        kind, shape = self._find(node, path)
        memory = self._memory(have.array, path)
        offsets, whole = have.place(memory)
        if (memory.type, whole, memory.element) != (kind, shape, node.element):
            mine = describe(memory.type, whole, memory.element)
            stored = describe(kind, shape, node.element)
            raise ValueError(f"{path}: a slice of {mine}, but {stored} in {self._source}")
        self.targets.append((node.name, (offsets, memory.shape), memory.address, memory.strides))

    def _make(self, node: TensorNode, path: str) -> None:
        if node.is_slice:
            raise ValueError(f"{path}: a slice, which is restored into a stoker.Slice alone")
        make = new_tensor if node.is_torch else new_array
        try:
            made = make(*self._find(node, path), node.element)
        except (UnsupportedValueError, ImportError) as error:
            raise ValueError(f"{path}: cannot be restored: {error}") from None
        memory = memory_of(made)
        assert memory is not None
        self._arrays[node] = made
        self.targets.append((node.name, None, memory.address, None))

    def apply(self, saved: Any, have: Any) -> Any:
        """What is in ``have``'s place from now on: itself, changed, where it can be changed."""
        if isinstance(saved, TensorNode):
            array = self._arrays[saved]
            return array[()] if saved.is_scalar else array
        if id(have) in self._states:
            have.load_state_dict(self.apply(saved, self._states[id(have)]))
            return have
        if isinstance(saved, dict):
            old = have if isinstance(have, dict) else {}
            new = {key: self.apply(item, old.get(key)) for key, item in saved.items()}
            if not isinstance(have, dict):
                return new
            for key in [key for key in have if key not in new]:
                del have[key]
            have.update(new)
            return have
        if not isinstance(saved, (list, tuple)):
            return saved
        known = have if isinstance(have, (list, tuple)) else ()
        items = [
            self.apply(item, known[i] if i < len(known) else None) for i, item in enumerate(saved)
        ]
        if isinstance(have, list):
            have[:] = items
            return have
        if isinstance(saved, list):
            return items
        return type(have)._make(items) if hasattr(type(have), "_make") else tuple(items)


def _family(value: Any) -> type | None:
    return next((kind for kind in (dict, list, tuple) if isinstance(value, kind)), None)


def _kind(value: Any) -> str:
    if isinstance(value, TensorNode):
        return "a NumPy scalar" if value.is_scalar else "an array"
    return "None" if value is None else f"of type {type(value).__name__}"


def _holds_arrays(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_holds_arrays(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return any(_holds_arrays(item) for item in value)
    return isinstance(value, np.ndarray) or is_tensor(value)
