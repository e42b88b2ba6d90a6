"""Matches the tensors of saved trees with the arrays in memory."""

from __future__ import annotations

from typing import Any

from stoker import _native
from stoker._checkpoint.device.cuda_load import is_filled_directly
from stoker._checkpoint.device.targets import Place, Targets
from stoker._checkpoint.state.nodes import TensorNode, manifest_path
from stoker._checkpoint.tensors.memory import (
    Memory,
    UnsupportedValueError,
    array_layout,
    check_writable,
    describe,
    memory_of,
    new_array,
    new_tensor,
    torch_layout,
)
from stoker._checkpoint.tensors.slice import Box, Slice
from stoker._common.corrupt import corrupt_error
from stoker._common.torch import is_tensor

PART_ADVICE = (
    "To restore what fits: strict=False leaves out names that were not saved or are not in memory. "
    "It does not cover shapes: for those, pass a dict of what fits in place of the module, such as "
    "{name: one for name, one in model.state_dict().items() if not name.startswith('head.')}. Its "
    "tensors are those of the module"
)
_META_ADVICE = 'restore(device="cpu") gives memory to tensors of modules on meta'
_TYPE_ADVICE = (
    "Types are never converted: restore into the type that was saved, and convert afterwards"
)


class Misfit(ValueError):  # noqa: N818 (its message is one of a list)
    """A place in memory that does not fit what was saved.

    Attributes:
        advice: What to do, the same for all places of a kind; may be empty.
    """

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.advice = advice


class TensorFit:
    """Collects the memory to read tensors into, after checking each.

    ``is_staged``: the caller's arrays are filled by ``copy``, not while reading.

    Attributes:
        arrays: The array for each place of a tree that has a tensor.
        fills_arrays: Whether the caller's memory is read into: damage would leave it partly filled.
    """

    def __init__(
        self, checkpoint: _native.OpenCheckpoint, source: str, *, is_staged: bool = False
    ) -> None:
        self._source = source
        self._manifest = manifest_path(checkpoint)
        self._stored = {name: (kind, shape) for name, kind, shape in checkpoint.tensors()}
        self._made: dict[tuple[str, bool], tuple[str | None, Any]] = {}  # one per tensor
        self._checkpoint = checkpoint
        self._is_staged = is_staged
        self._targets = Targets()
        self._resolved: list[tuple[Any, ...]] | None = None
        self._own: set[int] = set()  # ids of arrays that were created here
        self.arrays: dict[TensorNode, Any] = {}
        self.fills_arrays = False

    def _find(self, node: TensorNode, path: str) -> tuple[str, tuple[int, ...]]:
        if node.name not in self._stored:
            message = f"{path}: {self._source} has no tensor {node.name}"
            raise corrupt_error(message, self._manifest, 0)
        if node.element is not None:
            try:
                array_layout(*self._stored[node.name], node.element)
            except UnsupportedValueError as error:
                raise Misfit(f"{path}: cannot be restored: {error}") from None
        return self._stored[node.name]

    def shape_of(self, node: TensorNode, path: str) -> tuple[int, ...]:
        """Of a stored tensor; Misfit if it cannot be restored."""
        return self._find(node, path)[1]

    def torch_type_of(self, node: TensorNode, path: str) -> tuple[Any, tuple[int, ...]]:
        """Of a stored tensor: torch's type, None if it has none, and its shape in torch."""
        kind, shape = self._find(node, path)
        try:
            return torch_layout(kind, shape, node.element)
        except (UnsupportedValueError, ImportError):
            return None, shape

    def _memory(self, have: Any, path: str, memory: Memory | None = None) -> Memory:
        try:
            if memory is None:
                memory = memory_of(have)
            assert memory is not None
            check_writable(memory, have)
        except UnsupportedValueError as error:
            advice = _META_ADVICE if is_tensor(have) and have.is_meta else ""
            raise Misfit(f"{path}: cannot be restored into: {error}", advice) from None
        return memory

    def _add(
        self, path: str, node: TensorNode, box: Box | None, array: Any, memory: Memory
    ) -> None:
        is_own = id(array) in self._own
        is_staged = not is_filled_directly(memory) or (self._is_staged and not is_own)
        self.fills_arrays = self.fills_arrays or not (is_staged or is_own)
        self._targets.add(Place(path, node.name, box, array, memory, is_staged))

    def fill(self, node: TensorNode, have: Any, path: str, memory: Memory | None = None) -> None:
        """Reads into an existing array or tensor. Misfit if its type or shape differs.

        ``memory``: its memory, if known.
        """
        if node.is_slice and node.name not in self._stored and 0 in have.shape:
            self.arrays[node] = have
            return  # versions before 0.2 stored nothing for a distributed tensor without elements
        kind, shape = self._find(node, path)
        memory = self._memory(have, path, memory)
        if (memory.type, memory.shape, memory.element) != (kind, shape, node.element):
            stored = describe(kind, shape, node.element)
            advice = PART_ADVICE if memory.shape != shape else _TYPE_ADVICE
            raise Misfit(f"{path}: {memory.describe()}, but {stored} in {self._source}", advice)
        self.arrays[node] = have
        self._add(path, node, None, have, memory)

    def fill_slice(self, node: TensorNode, have: Slice, path: str) -> None:
        """Reads the part of the tensor that this rank has."""
        self.arrays[node] = have
        if have.is_empty:
            return  # ranks with elements check whether it fits
        kind, shape = self._find(node, path)
        memory = self._memory(have.array, path)
        offsets, whole = have.place(memory)
        if (memory.type, whole, memory.element) != (kind, shape, node.element):
            mine = describe(memory.type, whole, memory.element)
            stored = describe(kind, shape, node.element)
            raise Misfit(f"{path}: a slice of {mine}, but {stored} in {self._source}")
        self._add(path, node, (offsets, memory.shape), have.array, memory)

    def make(self, node: TensorNode, path: str) -> None:
        """Reads into a new array: one per tensor, even if several places have it."""
        if node.is_slice and not node.is_torch:
            raise Misfit(f"{path}: a slice, which is restored into a stoker.Slice alone")
        kind, shape = self._find(node, path)
        element, made = self._made.get((node.name, node.is_torch), (node.element, None))
        if element != node.element:
            raise Misfit(f"{path}: cannot be restored: elements of two types in one tensor")
        if made is None:
            make = new_tensor if node.is_torch else new_array
            try:
                made = make(kind, shape, node.element)
            except (UnsupportedValueError, ImportError) as error:
                raise Misfit(f"{path}: cannot be restored: {error}") from None
            self._made[node.name, node.is_torch] = element, made
            self._own.add(id(made))
            memory = memory_of(made)
            assert memory is not None
            self._add(path, node, None, made, memory)
        self.arrays[node] = made

    @property
    def targets(self) -> list[tuple[Any, ...]]:
        """What to read, after all checks; use it while the checkpoint is open."""
        if self._resolved is None:
            self._resolved = self._targets.resolve(self._checkpoint)
        return self._resolved

    def copy(self) -> None:
        """Fills arrays from staging memory, after everything was read."""
        self._targets.copy()
