"""stoker.torch.DcpReader: loads checkpoints of Stoker with torch.distributed.checkpoint."""

from __future__ import annotations

import dataclasses
import io
import os
import uuid
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint._traverse import set_element
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem
from torch.distributed.checkpoint.storage import StorageReader
from torch.futures import Future

from stoker import _native
from stoker._checkpoint.device.cuda_load import is_filled_directly
from stoker._checkpoint.device.targets import Place as TargetPlace
from stoker._checkpoint.device.targets import Targets
from stoker._checkpoint.foreign.dcp_items import is_tensor_node, leaves_of, saved_by_dcp
from stoker._checkpoint.load import open_checkpoint
from stoker._checkpoint.read_tree import Stored, TreeReader
from stoker._checkpoint.state.nodes import TensorNode, decode_tree, manifest_path
from stoker._checkpoint.state.rank_states import states_of
from stoker._checkpoint.tensors.memory import (
    Memory,
    UnsupportedValueError,
    check_writable,
    memory_of,
    torch_layout,
)
from stoker._common.corrupt import corrupt_error, tensor_in
from stoker._dcp.place import Place, is_store, place_of
from stoker._dcp.savers import note_loaded


class DcpReader(StorageReader):
    """Lets ``dcp.load`` load a checkpoint of Stoker, by any number of ranks.

    >>> dcp.load(state, checkpoint_id="run/step-100", storage_reader=DcpReader("run"))

    Every byte is checked before it counts: a damaged checkpoint raises ``stoker.CorruptError``, in
    torch's CheckpointException. It need not have been saved by a DcpWriter. No pickle is read.

    Args:
        path: The checkpoint, unless ``checkpoint_id`` is given: ``run/step-100``, or a directory of
            checkpoints, of which it is the newest.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__()
        self._given = os.fspath(path)
        self._place: Place | None = None
        self._load_id = uuid.uuid4().hex
        self._error: Exception | None = None
        self._open: _Opened | None = None

    @property
    def checkpoint_id(self) -> str:
        """The path of the checkpoint."""
        return self._given if self._place is None else self._place.path

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Called by torch before a load."""
        self._place = None if checkpoint_id is None else place_of(checkpoint_id)
        self._load_id = uuid.uuid4().hex
        self._open, self._error = None, None

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether it is a path."""
        return bool(os.fspath(checkpoint_id)) and not is_store(checkpoint_id)

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Opens the checkpoint.

        torch would replace an exception of this method by one of its own:
        ``set_up_storage_reader`` raises it.
        """
        del args, kwargs
        self._open, self._error = None, None
        try:
            place = self._place or place_of(self._given)
            self._open = _Opened(place)
        except Exception as error:
            self._error = error
            return Metadata({}, {})
        metadata = self._open.metadata()
        metadata.storage_meta = StorageMeta(place.path, load_id=self._load_id)
        return metadata

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """Raises why the checkpoint could not be opened."""
        del metadata, is_coordinator, args, kwargs
        error, self._error = self._error, None
        if error is not None:
            raise error

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Changes nothing."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Tells every rank which checkpoint this one has opened."""
        return [dataclasses.replace(plan, storage_data=self._opened().identity) for plan in plans]

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Fills the tensors of the plan."""
        opened = self._opened()
        if plan.storage_data is not None and plan.storage_data != opened.identity:
            raise ValueError(
                f"{self.checkpoint_id}: this rank has opened {opened.native.directory}, and the "
                "first rank another checkpoint: give a step, as in checkpoint_id='run/step-100'"
            )
        opened.fill(plan, planner)
        opened.note()
        future: Future[None] = Future()
        future.set_result(None)
        return future

    def _opened(self) -> _Opened:
        if self._open is None:
            raise RuntimeError("no metadata was read")
        return self._open


class _Opened:
    """A checkpoint that is open."""

    def __init__(self, place: Place) -> None:
        self.native = open_checkpoint(place.checkpoint)
        manifest = manifest_path(self.native)
        extra = decode_tree(self.native.extra, "extra", manifest, arrays=False)
        kind = saved_by_dcp(extra)
        trees = states_of(self.native, manifest)
        if not all(isinstance(tree, dict) for tree in trees):
            raise corrupt_error(f"{manifest}: state: not trees by name", manifest, 0)
        self._stored = Stored(self.native)
        if not trees:
            raise ValueError(f"{self.native.directory}: it has tensors, and no state")
        try:
            self._leaves = leaves_of(trees, kind)
        except ValueError as error:
            raise corrupt_error(f"{manifest}: state: {error}", manifest, 0) from None
        self._layouts: dict[str, tuple[torch.dtype, tuple[int, ...]]] = {}
        for name, (_, value) in self._leaves.items():
            if is_tensor_node(value):
                self._layouts[name] = self._layout_of(value, name)

    @property
    def identity(self) -> tuple[int, int, str]:
        """Step, generation and line."""
        return self.native.step, self.native.generation, self.native.line

    def _layout_of(self, node: TensorNode, name: str) -> tuple[torch.dtype, tuple[int, ...]]:
        try:
            return torch_layout(*self._stored.layout_of(node.name, name), node.element)
        except UnsupportedValueError as error:
            raise ValueError(f"{name}: {error}") from None

    def metadata(self) -> Metadata:
        """Returns what a planner plans with: one chunk for each tensor, however it was saved."""
        entries: dict[str, Any] = {}
        for name in self._leaves:
            if name not in self._layouts:
                entries[name] = BytesStorageMetadata()
                continue
            dtype, shape = self._layouts[name]
            size = torch.Size(shape)
            whole = ChunkStorageMetadata(torch.Size([0] * len(shape)), size)
            entries[name] = TensorStorageMetadata(TensorProperties(dtype), size, [whole])
        return Metadata(entries, {name: path for name, (path, _) in self._leaves.items()}, {})

    def fill(self, plan: LoadPlan, planner: LoadPlanner) -> None:
        """Reads all tensors at once, then the values."""
        targets, read = Targets(), []
        for item in plan.items:
            if item.type != LoadItemType.BYTE_IO:
                read.append(self._add(targets, item, planner.resolve_tensor(item).detach()))
        wanted = targets.resolve(self.native)
        try:
            targets.read(self.native, wanted)
        except _native.CorruptError as error:
            error.tensor = tensor_in(str(error), [target[0] for target in wanted])
            raise
        targets.copy()
        for item, tensor, staging in read:
            if staging is not tensor:
                tensor.copy_(staging)
            planner.commit_tensor(item, tensor)
        values = TreeReader(self.native)
        for item in plan.items:
            if item.type == LoadItemType.BYTE_IO:
                name = item.storage_index.fqn
                _give(planner, item, values.value(self._leaf(name), name))

    def _leaf(self, name: str) -> Any:
        if name not in self._leaves:
            raise ValueError(f"{self.native.directory} has no {name}")
        return self._leaves[name][1]

    def _add(
        self, targets: Targets, item: ReadItem, tensor: torch.Tensor
    ) -> tuple[ReadItem, torch.Tensor, torch.Tensor]:
        """Adds what one item reads; returns the tensor, and what is read into."""
        name = item.storage_index.fqn
        if name not in self._layouts:
            raise ValueError(f"{self.native.directory} has no tensor {name}")
        if tuple(tensor.shape) != tuple(item.lengths):
            raise ValueError(f"{name}: {tuple(tensor.shape)} of the planner, not {item.lengths}")
        node = self._leaf(name)
        dtype, shape = self._layouts[name]
        stored = self._stored.layout_of(node.name, name)[1]
        more = stored[len(shape) :]  # elements that safetensors lacks
        offsets = (*item.storage_offsets, *(0 for _ in more))
        box = offsets, (*item.lengths, *more)
        into, memory = tensor, self._memory_of(tensor) if tensor.dtype == dtype else None
        if memory is None:  # of another type, as torch's reader converts it
            into = torch.empty(tuple(item.lengths), dtype=dtype)
            memory = memory_of(into)
        assert memory is not None
        where = None if box[1] == stored else box
        if into.numel() > 0:
            is_staged = not is_filled_directly(memory)
            targets.add(TargetPlace(name, node.name, where, into, memory, is_staged))
        return item, tensor, into

    @staticmethod
    def _memory_of(tensor: torch.Tensor) -> Memory | None:
        try:
            memory = memory_of(tensor)
            if memory is not None:
                check_writable(memory, tensor)
        except UnsupportedValueError:
            return None
        return memory

    def note(self) -> None:
        """Later saves beside it continue it."""
        folder = Path(self.native.directory)
        if folder.name.startswith("step-"):
            note_loaded(str(folder.parent), self.native)


def _give(planner: LoadPlanner, item: ReadItem, value: Any) -> None:
    """Hands over a value that is no tensor: as bytes to a planner that is not torch's own."""
    name = item.dest_index.fqn
    is_stock = type(planner).load_bytes is DefaultLoadPlanner.load_bytes
    if not is_stock or not isinstance(planner, DefaultLoadPlanner):
        data = io.BytesIO()
        torch.save(value, data)
        data.seek(0)
        planner.load_bytes(item, data)
    elif planner.flatten_state_dict:
        set_element(planner.original_state_dict, planner.mappings[name], value)
    else:
        planner.state_dict[name] = value
