"""model=[part0, part1]: the parts of a model, whose names are merged."""

from __future__ import annotations

import collections
from typing import Any

from stoker._checkpoint.state.objects import is_module
from stoker._checkpoint.state.wrappers import bare_names
from stoker._checkpoint.tensors.memory import UnsupportedValueError, memory_of
from stoker._common.torch import is_tensor


def is_parts(tree: Any) -> bool:
    """Whether it is a list or tuple of modules."""
    return isinstance(tree, (list, tuple)) and bool(tree) and all(map(is_module, tree))


def bare_state(module: Any) -> Any:
    """Returns the state of a module, under its names without the prefixes of wrappers."""
    state = module.state_dict()
    if not isinstance(state, dict):
        return state
    names = bare_names(module, state)
    # Its tag tells a restore that no name has a prefix.
    return collections.OrderedDict((names[key], item) for key, item in state.items())


def merged_state(parts: Any, path: str) -> collections.OrderedDict[str, Any]:
    """Returns the states of all parts as that of one module.

    Raises:
        ValueError: Two parts have different values of the same name.
    """
    merged: collections.OrderedDict[str, Any] = collections.OrderedDict()
    owners: dict[str, int] = {}
    for number, part in enumerate(parts):
        for name, item in bare_state(part).items():
            if name in merged and not is_one(merged[name], item):
                raise ValueError(collision(path, name, owners[name], number))
            merged.setdefault(name, item)
            owners.setdefault(name, number)
    return merged


def collision(path: str, name: str, first: int, second: int) -> str:
    """Returns the message for a name that two parts have."""
    return (
        f"{path}[{first}] and {path}[{second}] both have {name!r}: a list of modules is one model, "
        "and its names are merged. Pass separate modules under names of their own, or in a dict"
    )


def is_one(left: Any, right: Any) -> bool:
    """Whether two values are the same tensor."""
    if left is right:
        return True
    if not is_tensor(left) or not is_tensor(right):
        return False
    try:
        one, other = memory_of(left), memory_of(right)
    except UnsupportedValueError:
        return False
    return one is not None and other is not None and one.address != 0 and one.key == other.key
