"""stoker.torch.DcpWriter: saves of torch.distributed.checkpoint, as checkpoints of Stoker."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import uuid
from typing import Any

from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner, WriteItem, WriteItemType
from torch.distributed.checkpoint.storage import StorageWriter, WriteResult
from torch.futures import Future

from stoker._checkpoint.device.cuda import check_capture, has_cuda, streams_of
from stoker._checkpoint.foreign.dcp_items import ITEMS, PATHS, SAVED_BY, is_split, tree_node
from stoker._checkpoint.foreign.torch_files import load_plain_values
from stoker._checkpoint.save.writer import Encoded
from stoker._checkpoint.single import SINGLE
from stoker._checkpoint.state.tree import TreeEncoder
from stoker._checkpoint.tensors.flattened import is_flattenable
from stoker._checkpoint.tensors.memory import Memory
from stoker._checkpoint.tensors.slice import Box, Slice
from stoker._dcp.place import Place, is_store, place_of
from stoker._dcp.savers import Loaded, all_loaded, save_in

_MEMORY = "256MiB"


class DcpWriter(StorageWriter):
    """Saves what ``dcp.save`` and ``dcp.async_save`` are given as a checkpoint of Stoker.

    >>> dcp.save(state, checkpoint_id=f"run/step-{step}", storage_writer=DcpWriter("run"))

    The checkpoint is committed when the files of all ranks are durable and checked, before
    ``dcp.save`` returns; if a rank fails, there is none. It can be loaded with ``DcpReader``, by
    any number of ranks, and is like any other for ``stoker.load`` and ``stoker checkpoint``.
    Nothing is pickled. Values that are not tensors are those that a Checkpointer saves. It can be
    pickled, as ``async_save`` does for another process.

    Args:
        path: The checkpoint, unless ``checkpoint_id`` is given: ``run/step-100`` or ``run/100`` is
            step 100 in the directory ``run``. Any other path is a directory with one checkpoint,
            which every save replaces.
        keep_last: These and the following are settings of ``stoker.Checkpointer``.
        keep_every: As there. Rules are for saves at paths with a step.
        lock: As there.
        deadline: As there.
        rate_limit: As there.
        memory_bytes: Memory that the state passes through.
        job: As there; for a ``process_group`` with ranks on several machines.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        keep_last: int | None = None,
        keep_every: int | None = None,
        lock: str | float = "wait",
        deadline: float | str = "30min",
        rate_limit: int | str | None = None,
        memory_bytes: int | str | None = _MEMORY,
        job: str | None = None,
    ) -> None:
        super().__init__()
        given = {
            "keep_last": keep_last,
            "keep_every": keep_every,
            "lock": lock,
            "deadline": deadline,
            "rate_limit": rate_limit,
            "memory_bytes": memory_bytes,
            "job": job,
        }
        self._settings = {name: value for name, value in given.items() if value is not None}
        self._given = os.fspath(path)
        self._place: Place | None = None
        self._sent: dict[str, Loaded] = {}  # what the process that pickled this has loaded
        self._save_id = uuid.uuid4().hex
        if is_store(path):
            place_of(path)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_sent": self._sent | all_loaded()}

    @property
    def checkpoint_id(self) -> str:
        """The path of the checkpoint."""
        return self._given if self._place is None else self._place.path

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Called by torch before a save."""
        self._place = None if checkpoint_id is None else place_of(checkpoint_id)
        self._save_id = uuid.uuid4().hex

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether it is a path."""
        return bool(os.fspath(checkpoint_id)) and not is_store(checkpoint_id)

    def storage_meta(self) -> StorageMeta:
        """Says which checkpoint is saved."""
        return StorageMeta(checkpoint_id=self.checkpoint_id, save_id=self._save_id)

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Checks the place on every rank, before anything is written."""
        del is_coordinator, args
        if kwargs.get("use_collectives") is False:
            raise ValueError(
                "use_collectives=False: the ranks of a checkpoint agree on it; leave that out"
            )
        self._place = self._place or place_of(self._given)
        self._place.refuse_other()
        if self._place.step is None and self._settings.keys() & {"keep_last", "keep_every"}:
            raise ValueError(
                f"{self.checkpoint_id}: no step at its end, so every save replaces the one before, "
                "and keep_last= and keep_every= have no meaning: give checkpoint_id='run/step-100'"
            )

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Changes nothing."""
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Tells every rank its number among those that save."""
        numbers = range(len(plans))
        return [
            dataclasses.replace(plan, storage_data=(number, len(plans)))
            for number, plan in zip(numbers, plans, strict=True)
        ]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Saves with the other ranks; durable when it returns."""
        place = self._place or place_of(self._given)
        ranks = plan.storage_data
        if not isinstance(ranks, tuple) or len(ranks) != 2:
            raise TypeError(f"{type(planner).__name__} has lost the plan's storage_data")
        settings = dict(self._settings)
        if place.step is None:
            settings |= {"keep_last": 1}
        sizes: dict[str, int] = {}

        def encode() -> Encoded:
            items = _Items(planner, is_all=ranks[1] == 1)
            for item in plan.items:
                items.add(item)
            sizes.update(items.sizes)
            return items.encoded(plan.planner_data, is_single=place.step is None)

        loaded = self._sent | all_loaded()
        save_in(place, ranks, settings, loaded, encode)
        future: Future[list[WriteResult]] = Future()
        future.set_result(
            [WriteResult(item.index, sizes[item.index.fqn], None) for item in plan.items]
        )
        return future

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Does nothing: the checkpoint was committed when all ranks had written theirs."""


class _Items:
    """The items of one rank."""

    def __init__(self, planner: SavePlanner, *, is_all: bool) -> None:
        self._planner = planner
        self._is_all = is_all
        # torch's own pickles values only for writers that want bytes.
        self._is_stock = isinstance(planner, DefaultSavePlanner) and all(
            getattr(type(planner), name) is getattr(DefaultSavePlanner, name)
            for name in ("resolve_data", "transform_object")
        )
        self._nodes: dict[str, Any] = {}
        self._split: list[str] = []
        self._tensors: dict[str, Memory] = {}
        self._slices: dict[str, Box] = {}
        self.sizes: dict[str, int] = {}

    def add(self, item: WriteItem) -> None:
        """Encodes an item; raises TypeError or ValueError if it cannot be saved."""
        name = item.index.fqn
        if name in self._nodes:
            raise ValueError(
                f"{name}: this rank has several separate parts of it, and a file has one of a name"
            )
        encoder = TreeEncoder(is_one_of=not self._is_all, has_cuda=has_cuda())
        self._nodes[name] = encoder.node(self._value_of(item), name, name, 1)
        for stored, memory in encoder.tensors.items():
            if stored in self._tensors:
                raise ValueError(f"{name}: another item has a tensor of the name {stored}")
            self._tensors[stored] = memory
        self._slices |= encoder.slices
        self.sizes[name] = item.tensor_storage_size() or 0

    def _value_of(self, item: WriteItem) -> Any:
        name = item.index.fqn
        if item.type == WriteItemType.BYTE_IO:
            if self._is_stock and isinstance(self._planner, DefaultSavePlanner):
                value = self._planner.lookup_object(item.index)
            else:
                data = self._planner.resolve_data(item)
                if not isinstance(data, io.BytesIO):
                    raise TypeError(f"{name}: the planner gave {type(data).__name__}, not BytesIO")
                value = load_plain_values(data, name)
            if is_split(value):
                self._split.append(name)
            return value
        tensor = self._planner.resolve_data(item)
        if is_flattenable(tensor):
            raise TypeError(
                f"{name}: object of type {type(tensor).__name__} can't be saved: a tensor "
                "subclass, which a restore could only fill in place: save it with a Checkpointer"
            )
        if item.type == WriteItemType.TENSOR or item.tensor_data is None:
            return tensor
        size, chunk = item.tensor_data.size, item.tensor_data.chunk
        if 0 in size or not size:  # no rank would store a slice of it
            return tensor
        # An empty part may be said to begin behind the end.
        return Slice(tensor, size, [min(*one) for one in zip(chunk.offsets, size, strict=True)])

    def encoded(self, paths: Any, *, is_single: bool) -> Encoded:
        """Returns all items. ``paths``: of these and of other ranks' items, if they have some."""
        is_flat = not isinstance(paths, dict)
        if self._split and not is_flat:
            raise TypeError(
                f"{self._split[0]}: a dict or list of tensors, which the planner's "
                "paths have no parts of"
            )
        known = {} if is_flat else dict(paths)
        for name in self._nodes:
            known.setdefault(name, (name,))
        state = tree_node(self._nodes, known, is_all=self._is_all)
        extra: dict[str, Any] = {SAVED_BY: ITEMS if is_flat else PATHS}
        extra |= {SINGLE: True} if is_single else {}
        texts = (
            json.dumps(state, ensure_ascii=False, allow_nan=False),
            json.dumps(extra or None),
            "null",
        )
        check_capture()
        streams = streams_of((memory.device for memory in self._tensors.values()), None)
        return Encoded((self._tensors, self._slices, set()), texts, {}, streams)
