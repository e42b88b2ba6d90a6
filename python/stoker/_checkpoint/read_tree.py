"""Reads saved trees into memory: new arrays and tensors, each byte once."""

from __future__ import annotations

import os
from typing import Any

from stoker import _native
from stoker._checkpoint.device.targets import Place, Targets
from stoker._checkpoint.state.nodes import TensorNode
from stoker._checkpoint.state.rank_states import Differs
from stoker._checkpoint.state.trainable import Trainable
from stoker._checkpoint.state.values import parts_of, with_parts
from stoker._checkpoint.tensors.flattened import Flattened
from stoker._checkpoint.tensors.memory import (
    UnsupportedValueError,
    memory_of,
    new_array,
    new_tensor,
    size_bytes_of,
)
from stoker._common.corrupt import corrupt_error, tensor_in


class Stored:
    """Types and shapes of the tensors of a checkpoint.

    The core knows that they are there; but slices may not cover their tensor, and no memory is
    taken for one that the files cannot have.
    """

    def __init__(self, checkpoint: _native.OpenCheckpoint) -> None:
        self._directory = checkpoint.directory
        self._layouts = {name: (kind, shape) for name, kind, shape in checkpoint.tensors()}
        with os.scandir(self._directory) as entries:
            self._size = sum(entry.stat().st_size for entry in entries)

    def layout_of(self, name: str, path: str) -> tuple[str, tuple[int, ...]]:
        """Returns type and shape; ``path`` is for messages.

        Raises:
            CorruptError: It is larger than all files.
        """
        kind, shape = self._layouts[name]
        if size_bytes_of(kind, shape) > self._size:
            where = self._directory
            raise corrupt_error(f"{where}: {path}: {name} is larger than all files", where)
        return kind, shape


class TreeReader:
    """Makes values of saved trees. Names of one tensor are one array, as they were."""

    def __init__(self, checkpoint: _native.OpenCheckpoint) -> None:
        self._checkpoint = checkpoint
        self._stored = Stored(checkpoint)
        self._made: dict[tuple[str, bool, str | None], Any] = {}
        self._targets = Targets()

    def make(self, node: Any, path: str) -> Any:
        """Returns the tree with new arrays, which ``read`` fills.

        Raises:
            ValueError: A part of it can only be restored into an object; names its place.
        """
        if isinstance(node, Differs):
            raise ValueError(f"{path}: each rank has saved its own: restore it with a Checkpointer")
        if isinstance(node, Flattened):
            raise ValueError(
                f"{path}: a tensor subclass, which needs the object that it is restored into: "
                "restore it with a Checkpointer"
            )
        if isinstance(node, TensorNode):
            return self._array(node, path)
        if isinstance(node, Trainable):
            return self.make(node["state"], path)
        parts = parts_of(node)
        if parts is None:
            return node
        return with_parts(node, [self.make(item, f"{path}[{key!r}]") for key, item in parts])

    def read(self) -> None:
        """Fills all arrays; CorruptError has the name of a damaged tensor."""
        wanted = self._targets.resolve(self._checkpoint)
        try:
            self._targets.read(self._checkpoint, wanted)
        except _native.CorruptError as error:
            error.tensor = tensor_in(str(error), [target[0] for target in wanted])
            raise
        self._targets.copy()
        self._targets = Targets()

    def value(self, node: Any, path: str) -> Any:
        """Returns the tree with its contents."""
        made = self.make(node, path)
        self.read()
        return self.finish(node, made)

    def finish(self, node: Any, made: Any) -> Any:
        """Returns ``made`` after ``read``, with the values that are not arrays."""
        if isinstance(node, TensorNode):
            return made if node.is_array else node.value_of(made)
        node = node["state"] if isinstance(node, Trainable) else node
        parts, items = parts_of(node), parts_of(made)
        if parts is None or items is None:
            return made
        pairs = zip(parts, items, strict=True)
        return with_parts(made, [self.finish(part, item) for (_, part), (_, item) in pairs])

    def _array(self, node: TensorNode, path: str) -> Any:
        key = node.name, node.is_torch, node.element
        if key not in self._made:
            kind, shape = self._stored.layout_of(node.name, path)
            try:
                made = (new_tensor if node.is_torch else new_array)(kind, shape, node.element)
                memory = memory_of(made)
            except UnsupportedValueError as error:
                raise ValueError(f"{path}: {error}") from None
            assert memory is not None
            self._targets.add(Place(path, node.name, None, made, memory))
            self._made[key] = made
        return self._made[key]
