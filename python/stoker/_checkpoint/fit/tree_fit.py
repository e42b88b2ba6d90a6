"""Matches a saved tree with the one in memory, before the first byte is read."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from stoker import _native
from stoker._checkpoint.fit.misfits import Misfits
from stoker._checkpoint.fit.object_fit import ObjectFit
from stoker._checkpoint.fit.prefix import prefix_hint
from stoker._checkpoint.fit.tensor_fit import Misfit, TensorFit
from stoker._checkpoint.state.containers import (
    Applied,
    holds_state,
    is_same,
    may_refuse,
    refill,
    try_refill,
)
from stoker._checkpoint.state.kinds import CONTAINERS, family_of, item_at, kind_of
from stoker._checkpoint.state.modules import is_parts
from stoker._checkpoint.state.nodes import TensorNode, decode_tree
from stoker._checkpoint.state.objects import is_module
from stoker._checkpoint.state.parameters import ParameterNames
from stoker._checkpoint.state.per_rank import PerRank
from stoker._checkpoint.state.rank_states import Differs
from stoker._checkpoint.state.trainable import Trainable
from stoker._checkpoint.state.tree import TreeEncoder, has_state_dict
from stoker._checkpoint.state.values import (
    Unresolved,
    members_of,
    parts_of,
    with_parts,
)
from stoker._checkpoint.tensors.distributed import is_distributed, is_placed, part_on_this_rank
from stoker._checkpoint.tensors.flattened import (
    Flattened,
    FlattenedPart,
    description_of,
    inner_tensors,
    is_flattenable,
)
from stoker._checkpoint.tensors.memory import Memory, UnsupportedValueError, quick_memory
from stoker._checkpoint.tensors.slice import Slice
from stoker._common.torch import is_tensor


class TreeFit:
    """Fits saved trees to those in memory, in two passes over both.

    ``check`` collects misfits and the memory to read tensors into: existing arrays are filled in
    place, others are created. ``raise_misfits`` raises all misfits. After the tensors are read,
    ``copy`` fills arrays that were read into staging memory, and ``apply`` sets everything else.

    ``is_strict``: names that were not saved are misfits; otherwise they keep their values.
    ``is_staged``: every array is filled by ``copy``, none while reading. ``device``: where tensors
    of modules on meta get their memory. ``is_one_of``: other ranks restore other parts of modules.
    """

    def __init__(
        self,
        checkpoint: _native.OpenCheckpoint,
        source: str,
        parameters: ParameterNames,
        *,
        is_strict: bool = True,
        is_staged: bool = False,
        device: Any = None,
        is_one_of: bool = False,
    ) -> None:
        self._source = source
        self._tensors = TensorFit(checkpoint, source, is_staged=is_staged)
        self._applied = Applied()
        self._misfits = Misfits(source, is_strict=is_strict, is_one_of=is_one_of)
        self._kept: dict[int, list[Any]] = {}  # keys that were not saved, by the id of the dict
        self._objects = ObjectFit(self, self._tensors, self._misfits, source, parameters, device)

    @property
    def misfits(self) -> Misfits:
        """What does not fit, and which names are missing or unexpected."""
        return self._misfits

    def keep(self, have: dict[Any, Any], keys: list[Any]) -> None:
        """Has ``apply`` keep items of a dict that were not saved."""
        if keys:
            self._kept[id(have)] = keys

    @property
    def fills_arrays(self) -> bool:
        """Whether the caller's memory is read into: damage would leave it partly filled."""
        return self._tensors.fills_arrays

    def check(self, saved: Any, have: Any, path: str, *, strict: bool = True) -> None:
        """Collects the reasons why ``saved`` cannot replace ``have``; changes nothing.

        ``strict``: a key of ``have`` that was not saved is an error, and so is a value of another
        kind.
        """
        try:
            self._check(saved, have, path, strict)
        except Misfit as misfit:
            self._misfits.add(str(misfit))
            self._misfits.advise(misfit.advice)

    def check_tree(self, saved: Any, have: Any, path: str) -> None:
        """Checks a whole tree, as it was given to restore().

        A list of modules shares the names of one module. Versions up to 0.1 saved a list: its items
        belong to the modules in their order.
        """
        if not is_parts(have) or not isinstance(saved, dict):
            self.check(saved, have, path)
            return
        try:
            self._objects.check_parts(saved, have, path)
        except Misfit as misfit:
            self._misfits.add(str(misfit))

    def apply_tree(self, saved: Any, have: Any) -> Any:
        """Returns the new value of a whole tree."""
        if not is_parts(have) or not isinstance(saved, dict):
            return self.apply(saved, have)
        for part in {id(part): part for part in have}.values():
            self._objects.apply(saved, part)
        return have

    def refuse(self, what: str) -> None:
        """Adds another misfit."""
        self._misfits.add(what)

    @property
    def has_misfits(self) -> bool:
        """Whether any misfit was found."""
        return len(self._misfits) > 0

    def raise_misfits(self) -> None:
        """Raises ValueError with the first misfits and their number."""
        self._misfits.raise_all()

    def _check(self, saved: Any, have: Any, path: str, strict: bool) -> None:
        memory = quick_memory(have) if isinstance(saved, TensorNode) else None
        if memory is not None and not is_placed(have):
            self._check_array(saved, have, path, memory)  # first: there may be many
        elif isinstance(saved, (Differs, Unresolved)):
            self._check_new(saved, path)
        elif isinstance(have, PerRank):
            self._check(saved, have.value, path, strict)
        elif isinstance(have, enum.Enum):
            self._check_member(saved, have, path)
        elif not strict and family_of(saved) is not family_of(have):
            self._check_new(saved, path)
        elif isinstance(saved, Trainable) and not is_module(have):
            self._check(saved["state"], have, path, strict)
        elif has_state_dict(have) and not isinstance(have, (dict, list, tuple)):
            self._objects.check(saved, have, path)
        elif isinstance(have, Slice):
            if not isinstance(saved, TensorNode) or not saved.is_array:
                raise Misfit(f"{path}: a slice, but {kind_of(saved)} in {self._source}")
            self._tensors.fill_slice(saved, have, path)
        elif is_distributed(have):
            self._check_distributed(saved, have, path)
        elif is_flattenable(have):
            self._check_flattened(saved, have, path)
        elif isinstance(have, np.ndarray) or is_tensor(have):
            self._check_array(saved, have, path, None)
        elif isinstance(have, CONTAINERS):
            if family_of(have) is not family_of(saved):
                raise Misfit(f"{path}: {kind_of(have)}, but {kind_of(saved)} in {self._source}")
            known = len(self._misfits)
            self._check_items(saved, have, path, strict)
            if may_refuse(have) and len(self._misfits) == known:
                self._try_items(saved, have, path)
        else:
            self._check_new(saved, path)

    def _check_array(self, saved: Any, have: Any, path: str, memory: Memory | None) -> None:
        if not isinstance(saved, TensorNode) or not saved.is_array:
            raise Misfit(f"{path}: an array, but {kind_of(saved)} in {self._source}")
        self._tensors.fill(saved, have, path, memory)

    def _check_items(self, saved: Any, have: Any, path: str, strict: bool) -> None:
        members = members_of(have)
        if members is not None:
            stored = members_of(saved) or {}
            if strict:
                self._check_names(stored, members, path)
            # Not by [key]: a defaultdict would create missing keys.
            pairs = [(key, item, members.get(key)) for key, item in stored.items()]
        elif isinstance(have, (set, frozenset)):
            return
        else:
            fields = getattr(type(have), "_fields", None)
            if fields is not None and len(fields) != len(saved):
                raise Misfit(
                    f"{path}: {type(have).__name__} has {len(fields)} fields, but "
                    f"{len(saved)} are in {self._source}"
                )
            for i, item in enumerate(have[len(saved) :], len(saved)):
                if strict and holds_state(item):
                    self._misfits.add(f"{path}[{i}]: not in {self._source}")
            padded = [*have[: len(saved)], *[None] * (len(saved) - len(have))]
            pairs = list(zip(range(len(saved)), saved, padded, strict=True))
        for key, item, there in pairs:
            self.check(item, there, f"{path}[{key!r}]", strict=strict)

    def _try_items(self, saved: Any, have: Any, path: str) -> None:
        """Checks that a container of the caller's own class, or a torch.Size, accepts the items."""
        parts = parts_of(saved)
        if parts is None and not isinstance(saved, set):
            return  # replaced as a whole
        keys = [key for key, _ in parts or ()]
        items = [self._stand_in(item, item_at(have, key)) for key, item in parts or ()]
        try:
            try_refill(have, keys, list(saved) if parts is None else items)
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise Misfit(
                f"{path}: {type(have).__name__} refuses what is in {self._source}: {what}"
            ) from error

    def _stand_in(self, saved: Any, have: Any) -> Any:
        """Returns what ``apply`` will return, except for values that are not read yet."""
        if isinstance(saved, TensorNode):
            array = self._tensors.arrays[saved]
            return array if saved.is_array else saved.value_of(np.zeros_like(array))
        if isinstance(saved, Flattened):
            return have
        if isinstance(have, enum.Enum):
            return type(have)(saved)
        parts = parts_of(saved)
        if have in self._objects or parts is None:
            return have if have in self._objects else saved
        if family_of(saved) is not family_of(have):
            return with_parts(saved, [self._stand_in(item, None) for _, item in parts])
        if members_of(have) is not None or isinstance(have, list):
            return have
        return refill(have, [], [self._stand_in(item, item_at(have, i)) for i, item in parts])

    def _check_names(self, saved: dict[Any, Any], have: dict[Any, Any], path: str) -> None:
        """Adds names that were not saved."""
        told = prefix_hint(saved, have, self._source, of_module=False)
        if told is not None:
            raise Misfit(f"{path}: {told}")
        missing = [key for key in have if key not in saved]
        self._misfits.add_missing(path, missing)
        self.keep(have, missing)

    def _check_distributed(self, saved: Any, have: Any, path: str) -> None:
        try:
            part = part_on_this_rank(have)
        except UnsupportedValueError as error:
            raise Misfit(f"{path}: cannot be restored into: {error}") from None
        if isinstance(part, FlattenedPart) or is_flattenable(part):
            self._check_flattened(saved, part, path)
            return
        if not isinstance(saved, TensorNode) or not saved.is_array:
            raise Misfit(f"{path}: a tensor, but {kind_of(saved)} in {self._source}")
        fill = self._tensors.fill_slice if isinstance(part, Slice) else self._tensors.fill
        fill(saved, part, path)
        self._tensors.arrays[saved] = have

    def _check_flattened(self, saved: Any, have: Any, path: str) -> None:
        kind = type(have.local if isinstance(have, FlattenedPart) else have).__name__
        if not isinstance(saved, Flattened):
            raise Misfit(f"{path}: a {kind}, but {kind_of(saved)} in {self._source}")
        mine = inner_tensors(have)
        here = TreeEncoder(arrays=False).encode(description_of(have), path)
        there = {name: saved[name] for name in ("context", "dtype", "shape")}
        if set(mine) != set(saved["tensors"]) or not is_same(
            decode_tree(here, "context", path, arrays=False), there
        ):
            raise Misfit(
                f"{path}: a {kind} with {here}, but another tensor subclass, or one with "
                f"{there}, in {self._source}"
            )
        for name, tensor in mine.items():
            self.check(saved["tensors"][name], tensor, f"{path}.{name}")

    def _check_member(self, saved: Any, have: enum.Enum, path: str) -> None:
        try:
            if isinstance(saved, TensorNode):
                raise TypeError
            type(have)(saved)
        except Exception:  # the class may look values up in its own way
            raise Misfit(
                f"{path}: {type(have).__name__} has no member of the value that is in "
                f"{self._source}: {'an array' if isinstance(saved, TensorNode) else repr(saved)}"
            ) from None

    def _check_new(self, saved: Any, path: str) -> None:
        if isinstance(saved, Differs):
            self._misfits.add_differing(path, saved)
            return
        if isinstance(saved, Unresolved):
            raise Misfit(f"{path}: {saved!r} cannot be restored: this needs torch that has it")
        if isinstance(saved, Flattened):
            raise Misfit(
                f"{path}: a tensor subclass, which is restored into an existing one; an optimizer "
                "has its state after its first step"
            )
        if isinstance(saved, TensorNode):
            self._tensors.make(saved, path)
        for key, item in parts_of(saved) or ():
            self.check(item, None, f"{path}[{key!r}]")

    @property
    def targets(self) -> list[tuple[Any, ...]]:
        """What to read, after all checks; use it while the checkpoint is open."""
        return self._tensors.targets

    def copy(self) -> None:
        """Fills arrays from staging memory, after everything was read."""
        self._tensors.copy()
        self._objects.assign_memory()

    def apply(self, saved: Any, have: Any) -> Any:
        """Returns the new value for ``have``: itself, changed, if it is mutable."""
        if isinstance(have, PerRank):
            have.value = self.apply(saved, have.value)
            return have
        if isinstance(saved, TensorNode):
            return saved.value_of(self._tensors.arrays[saved])
        if isinstance(saved, Flattened):
            return have  # its inner tensors are filled
        if isinstance(saved, Trainable) and have not in self._objects:
            return self.apply(saved["state"], have)
        if have in self._objects:
            return self._objects.apply(saved, have)
        if isinstance(have, enum.Enum):
            return type(have)(saved)
        parts = parts_of(saved)
        if parts is None:
            is_set = isinstance(saved, set) and isinstance(have, set)
            return self._applied.refill(saved, have, [], list(saved)) if is_set else saved
        if family_of(saved) is not family_of(have):
            return with_parts(saved, [self.apply(item, None) for _, item in parts])
        keys = [key for key, _ in parts]
        items = [self.apply(item, item_at(have, key)) for key, item in parts]
        members = members_of(have) or {}
        kept = [key for key in self._kept.get(id(members), ()) if key in members]
        keys += kept
        items += [members[key] for key in kept]
        return self._applied.refill(saved, have, keys, items)
