"""Containers in memory that get other items; those of the caller's own classes may refuse them."""

from __future__ import annotations

import collections
import copy
from collections.abc import Sequence
from typing import Any

from stoker._checkpoint.values import is_torch_size, members_of

# What refill() calls. A class that has its own may raise there.
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
    """Itself with other items, where it can be changed; else a new one of its kind."""
    members = members_of(have)
    if members is not None:
        members.clear()
        for key, item in zip(keys, items, strict=True):  # not update(): that of a Counter adds
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
    """Whether ``refill`` may raise: it calls code of a class that is not Python's."""
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
    """Raises what ``refill`` would, and changes nothing."""
    into = have if isinstance(have, tuple) else copy.copy(have)
    if into is not have or isinstance(have, tuple):
        refill(into, keys, items)
