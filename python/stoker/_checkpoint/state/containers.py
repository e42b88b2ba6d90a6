"""Replaces the items of containers in memory; those of the caller's own classes may refuse."""

from __future__ import annotations

import collections
import copy
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from stoker._checkpoint.state.tree import has_state_dict
from stoker._checkpoint.state.values import is_torch_size, members_of, parts_of, with_parts
from stoker._checkpoint.tensors.slice import Slice
from stoker._common.torch import is_tensor

# The methods that refill() calls. A class that overrides one may raise there.
_METHODS: tuple[tuple[type, tuple[type, ...], tuple[str, ...]], ...] = (
    (
        dict,
        (dict, collections.OrderedDict, collections.Counter, collections.defaultdict),
        ("clear", "__setitem__"),
    ),
    (list, (list,), ("__setitem__",)),
    (set, (set,), ("clear", "update")),
)


def refill(have: Any, keys: Sequence[Any], items: Sequence[Any]) -> Any:
    """Replaces the items of a mutable container, or returns a new container of its kind."""
    members = members_of(have)
    if members is not None:
        members.clear()
        for key, item in zip(keys, items, strict=True):  # not update(): Counter.update() adds
            members[key] = item
        return have
    if isinstance(have, list):
        have[:] = items
        return have
    if isinstance(have, set):
        have.clear()
        have.update(items)
        return have
    if is_torch_size(have):
        return type(have)(items)
    return type(have)._make(items) if hasattr(type(have), "_make") else tuple(items)


def may_refuse(have: Any) -> bool:
    """Whether ``refill`` may raise, because it calls code of a class that is not Python's."""
    if isinstance(have, tuple):
        return type(have) is not tuple
    for kind, known, names in _METHODS:
        if isinstance(have, kind):
            return any(
                getattr(type(have), name) not in [getattr(one, name) for one in known]
                for name in names
            )
    return False


def try_refill(have: Any, keys: Sequence[Any], items: Sequence[Any]) -> None:
    """Raises what ``refill`` would raise, without changing ``have``.

    The attributes of its class are copied too, but not its items: they may be large, and are
    replaced as a whole. If an attribute, such as a lock, cannot be copied, all attributes are
    shared. Side effects of its methods elsewhere, such as in a global list or a file, cannot be
    undone.
    """
    if isinstance(have, tuple):
        refill(have, keys, items)
        return
    members = members_of(have)
    shared = list(have) if members is None else list(members.values())
    try:
        into = copy.deepcopy(have, {id(item): item for item in shared})
    except Exception:  # anything the caller's class raises; a refusal is raised below as well
        into = copy.copy(have)
    if into is not have:
        refill(into, keys, items)


def holds_state(value: Any) -> bool:
    """Whether a restore fills anything in it: an array, or an object with a state."""
    parts = parts_of(value)
    if parts is not None:
        return any(holds_state(part) for _, part in parts)
    return isinstance(value, (np.ndarray, Slice)) or is_tensor(value) or has_state_dict(value)


def is_same(one: Any, other: Any) -> bool:
    """Whether two saved trees are exactly equal: 1 is not True, and 0.0 is not -0.0."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    parts, others = parts_of(one), parts_of(other)
    if parts is not None and others is not None:
        return len(parts) == len(others) and all(
            is_same(key, other_key) and is_same(part, other_part)
            for (key, part), (other_key, other_part) in zip(parts, others, strict=True)
        )
    if isinstance(one, (set, frozenset)):
        return sorted(map(repr, one)) == sorted(map(repr, other))
    return repr(one) == repr(other)


def copy_array(array: Any) -> Any:
    """Returns a copy of an array or tensor, of the same kind."""
    if not is_tensor(array):
        return array.copy(order="K")
    made = array.detach().clone().requires_grad_(array.requires_grad)
    parameter = sys.modules["torch"].nn.Parameter
    return parameter(made.detach(), array.requires_grad) if type(array) is parameter else made


def set_apart(value: Any, done: dict[int, tuple[Any, Any]] | None = None) -> Any:
    """Returns a copy with new containers, arrays and slices; other objects are shared.

    One object in two places is one copy in two places. ``done``: originals and copies, by id.
    """
    done = {} if done is None else done
    if id(value) in done:
        return done[id(value)][1]
    made = value
    members = members_of(value)
    if isinstance(value, np.ndarray) or is_tensor(value):
        made = copy_array(value)
    elif isinstance(value, Slice):
        made = Slice(set_apart(value.array, done), value.global_shape, value.offsets)
    elif members is not None or isinstance(value, (list, set)):
        made = copy.copy(value)
    done[id(value)] = value, made
    if members is not None:
        for key, item in members.items():  # bypasses __setitem__ of the caller's class
            dict.__setitem__(members_of(made) or {}, key, set_apart(item, done))
    elif isinstance(value, list):
        list.__setitem__(made, slice(None), [set_apart(item, done) for item in value])
    elif isinstance(value, tuple) and not is_torch_size(value):
        made = refill(value, [], [set_apart(item, done) for item in value])
        done[id(value)] = value, made
    return made


class Applied:
    """Puts values into containers.

    If one container is in two places, and both saved values are exactly equal, it is filled once;
    otherwise the second place gets a new container.
    """

    def __init__(self) -> None:
        self._done: dict[int, tuple[Any, Any, Any]] = {}  # have, saved, replacement

    def refill(self, saved: Any, have: Any, keys: Sequence[Any], items: Sequence[Any]) -> Any:
        """Returns the replacement of ``have``."""
        if id(have) not in self._done:
            self._done[id(have)] = have, saved, refill(have, keys, items)
        elif not is_same(self._done[id(have)][1], saved):
            return set(items) if isinstance(saved, set) else with_parts(saved, items)
        return self._done[id(have)][2]
