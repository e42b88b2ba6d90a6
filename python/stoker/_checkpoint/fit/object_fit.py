"""Matches saved states with the objects that load them: modules, optimizers, the caller's own."""

from __future__ import annotations

import collections
import copy
import logging
from collections.abc import Sequence
from typing import Any, Protocol

from stoker._checkpoint.fit.meta import MetaTensors
from stoker._checkpoint.fit.misfits import Misfits
from stoker._checkpoint.fit.optimizer_fit import (
    NewTensors,
    check_groups,
    check_shapes,
    with_distributed,
    without_parts_of_others,
)
from stoker._checkpoint.fit.optimizer_names import numbered_state
from stoker._checkpoint.fit.prefix import match_names, prefix_hint
from stoker._checkpoint.fit.tensor_fit import PART_ADVICE, Misfit, TensorFit
from stoker._checkpoint.state.containers import set_apart
from stoker._checkpoint.state.modules import collision, is_one
from stoker._checkpoint.state.nodes import TensorNode
from stoker._checkpoint.state.objects import is_module, is_optimizer, load_state, loads_as_torch
from stoker._checkpoint.state.parameters import ParameterNames
from stoker._checkpoint.state.rank_states import Differs
from stoker._checkpoint.state.trainable import Trainable, fingerprint, frozen_names, is_frozen
from stoker._checkpoint.state.wrappers import bare_names
from stoker._common.torch import is_tensor
from stoker._common.users import users_code

_log = logging.getLogger("stoker")
_EXTRA_STATE = "_extra_state"  # torch's name for what get_extra_state() returns


class Fits(Protocol):
    """Fits trees; see ``TreeFit``."""

    def check(self, saved: Any, have: Any, path: str, *, strict: bool = True) -> None:
        """Collects the reasons why ``saved`` cannot replace ``have``; changes nothing."""

    def keep(self, have: dict[Any, Any], keys: list[Any]) -> None:
        """Has ``apply`` keep items of a dict that were not saved."""

    def apply(self, saved: Any, have: Any) -> Any:
        """Returns the new value for ``have``."""


class ObjectFit:
    """Fits saved states to objects, in two passes: ``check``, and ``apply`` after reading."""

    def __init__(
        self,
        trees: Fits,
        tensors: TensorFit,
        misfits: Misfits,
        source: str,
        parameters: ParameterNames,
        device: Any,
    ) -> None:
        self._trees = trees
        self._meta = MetaTensors(device)
        self._parameters = parameters
        self._tensors = tensors
        self._misfits = misfits
        self._source = source
        self._states: dict[int, tuple[Any, str]] = {}  # state and path of objects, by id
        self._renamed: dict[tuple[int, int], Any] = {}  # saved states under the names in memory

    def __contains__(self, have: Any) -> bool:
        return id(have) in self._states

    def check(self, saved: Any, have: Any, path: str) -> None:
        """Checks the state of one object."""
        state = self._state_of(have, path)
        if is_module(have) and isinstance(saved, dict) and isinstance(state, dict):
            self._check_module(saved, have, state, path)
            return
        if is_optimizer(have):
            self._check_optimizer(saved, have, state, path)
        else:
            self._trees.check(saved, state, path)

    def _state_of(self, have: Any, path: str) -> Any:
        with users_code():
            state = _state_to_load(have)
        self._states[id(have)] = state, path
        if is_module(have) and isinstance(state, dict):
            self._meta.replace(have, state, path)
        return state

    def _check_optimizer(self, saved: Any, have: Any, state: Any, path: str) -> None:
        groups = saved.get("param_groups") if isinstance(saved, dict) else None
        if isinstance(groups, Differs):
            self._misfits.add_differing(f"{path}['param_groups']", groups)
            return
        made = numbered_state(saved, state, have, self._parameters, (path, self._source))
        self._misfits.add_missing(path, made.missing)
        why = "the optimizer does not have this parameter"
        is_refused = self._misfits.add_unexpected(path, made.unexpected, why)
        if is_refused or (self._misfits.is_strict and made.missing):
            return
        check_groups(made.state, state, path, type(have).__name__, self._source)
        without_parts_of_others(made, have, path, self._tensors.shape_of)
        check_shapes(made, have, path, self._tensors.shape_of, self._source)
        # An optimizer has no state before its first step, and a rewound one has too much.
        new = NewTensors(self._tensors.torch_type_of, self._meta.device, self._source)
        state = with_distributed(made, state, have, path, new)
        self._states[id(have)] = state, path
        self._trees.check(made.state, state, path, strict=False)
        self._renamed[id(saved), id(have)] = made.state

    def _check_module(
        self, saved: dict[Any, Any], have: Any, state: dict[str, Any], path: str
    ) -> None:
        names = bare_names(have, state)
        key = id(saved), id(have)
        base, saved = _opened(saved)
        is_bare = isinstance(saved, collections.OrderedDict)
        matched = match_names(saved, names, is_bare=is_bare)
        if any(one not in (name, names[name]) for one, name in matched.items()):
            _log.info("%s: prefixes of wrappers in %s are ignored", path, self._source)
        # Messages have the names without wrappers.
        labels = {one: names[name] for one, name in matched.items()}
        found = {labels.get(one, one): item for one, item in saved.items()}
        mine = {names[name]: item for name, item in state.items()}
        left_out = self._check_base(base, found, mine, [have], path)
        self._check_names(found, mine, path, left_out)
        for one, name in matched.items():
            _forget_opaque(saved[one], state, name)
            self._trees.check(saved[one], state[name], f"{path}[{names[name]!r}]")
        found_here = {name: saved[one] for one, name in matched.items()}
        self._renamed[key] = found_here
        self._keep(state, names, found_here, left_out, path)

    def check_parts(self, saved: dict[Any, Any], parts: Sequence[Any], path: str) -> None:
        """Checks modules that share the names of one saved state: each gets its own of them."""
        places: dict[str, list[tuple[int, str]]] = {}  # parts and their own names, by bare names
        states: list[dict[str, Any]] = []
        names: list[dict[str, str]] = []
        renamed: list[dict[str, Any]] = [{} for _ in parts]
        whole = id(saved)
        base, saved = _opened(saved)
        for number, part in enumerate(parts):
            state = self._state_of(part, path)
            states.append(state)
            self._renamed[whole, id(part)] = renamed[number]
            names.append(bare_names(part, state))
            for name, bare in names[-1].items():
                places.setdefault(bare, []).append((number, name))
        for bare, ((first, one), *others) in places.items():
            for number, name in others:
                if not is_one(states[first][one], states[number][name]):
                    raise Misfit(collision(path, bare, first, number))
        is_bare = isinstance(saved, collections.OrderedDict)
        matched = match_names(saved, {bare: bare for bare in places}, is_bare=is_bare)
        found = {matched.get(one, one): item for one, item in saved.items()}
        mine = {bare: states[number][name] for bare, ((number, name), *_) in places.items()}
        left_out = self._check_base(base, found, mine, parts, path)
        self._check_names(found, mine, path, left_out)
        for one, bare in matched.items():
            for number, name in places[bare]:
                _forget_opaque(saved[one], states[number], name)
                self._trees.check(saved[one], states[number][name], f"{path}[{bare!r}]")
                renamed[number][name] = saved[one]
        for state, own, mapped in zip(states, names, renamed, strict=True):
            self._keep(state, own, mapped, left_out, path)

    def _check_base(
        self,
        base: str | Differs | None,
        saved: dict[Any, Any],
        have: dict[str, Any],
        modules: Sequence[Any],
        path: str,
    ) -> set[str]:
        """Returns the names that were left out, after comparing them with the base."""
        if base is None:
            return set()
        frozen = frozen_names(modules)
        left = {name: have[name] for name in have if name not in saved and is_frozen(name, frozen)}
        is_known = not any(item in self._meta for item in left.values())
        if isinstance(base, Differs):
            _log.warning(
                "%s: each rank that saved %s had other frozen parameters, as stages of a pipeline "
                "have: they are not compared with those in memory",
                path,
                self._source,
            )
        elif is_known and fingerprint(left) != base:
            text = (
                f"{path}: its frozen parameters are not those that {self._source} was trained with"
            )
            if self._misfits.is_strict:
                self._misfits.add(f"{text}; load that base first, or pass strict=False")
            else:
                _log.warning("%s", text)
        return set(left)

    def _check_names(
        self, saved: dict[Any, Any], have: dict[Any, Any], path: str, left_out: set[str]
    ) -> None:
        """Adds names of a module's state that were not saved, and those that it lacks."""
        told = prefix_hint(saved, have, self._source, of_module=True)
        if told is not None:
            raise Misfit(f"{path}: {told}")
        missing = [key for key in have if key not in saved and key not in left_out]
        self._misfits.add_missing(path, missing)
        lacking = [key for key in saved if key not in have]
        is_refused = self._misfits.add_unexpected(path, lacking, "the module has none")
        if missing or is_refused:
            self._misfits.advise(PART_ADVICE)

    def _keep(
        self,
        state: dict[str, Any],
        names: dict[str, str],
        found: dict[str, Any],
        left_out: set[str],
        path: str,
    ) -> None:
        """Keeps what was not saved, unless it has no value: ``names`` are those of messages."""
        kept = [name for name in state if name not in found]
        for name in kept:
            is_missing = self._misfits.is_strict and names[name] not in left_out  # told already
            if state[name] in self._meta and not is_missing:
                text = f"on meta, and not in {self._source}"
                self._misfits.add(f"{path}[{names[name]!r}]: {text}: nothing to fill it with")
        self._trees.keep(state, kept)

    def assign_memory(self) -> None:
        """Gives memory that was read into to tensors on meta; call it before ``apply``."""
        self._meta.assign()

    def apply(self, saved: Any, have: Any) -> Any:
        """Has the object load its state; returns it."""
        state, path = self._states[id(have)]
        saved = self._renamed.get((id(saved), id(have)), saved)
        load_state(have, self._trees.apply(saved, state), path)
        return have


def _opened(saved: dict[Any, Any]) -> tuple[str | Differs | None, dict[Any, Any]]:
    """Returns the fingerprint of what was left out, and the saved state of a module."""
    return (saved["base"], saved["state"]) if isinstance(saved, Trainable) else (None, saved)


def _forget_opaque(saved: Any, state: dict[str, Any], name: str) -> None:
    """Has a module get the bytes of its get_extra_state() as new ones, whatever it has now."""
    if name.rpartition(".")[2] == _EXTRA_STATE and isinstance(saved, (bytes, TensorNode)):
        state[name] = None


def _state_to_load(have: Any) -> Any:
    """Returns the state of an object, to be filled and then passed to its load_state_dict().

    load_state_dict() may clear the object's state before it reads its argument, or add to it, so it
    gets copies. Modules and optimizers of torch do neither: their tensors are filled in place.
    """
    state = have.state_dict()
    if not loads_as_torch(have):
        return set_apart(state)
    if is_optimizer(have):
        return state
    apart = copy.copy(state)
    for key, item in state.items():
        if not is_tensor(item) or key.endswith("_extra_state"):
            apart[key] = set_apart(item)
    return apart
