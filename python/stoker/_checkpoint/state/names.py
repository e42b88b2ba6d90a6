"""Which names trees may have, and whether a tree is empty."""

from __future__ import annotations

import argparse
import difflib
import inspect
import logging
import numbers
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stoker._checkpoint.state.values import members_of

_log = logging.getLogger("stoker")
_CALLS = ("save()", "restore()")
_NEAR = 0.7  # "onyl" is near to "only", "state" is not near to "step"
# Settings of saving and restoring in other libraries.
_LIKE_SETTINGS = {
    *("assign", "blocking", "force", "map_location", "non_blocking", "overwrite"),
    *("sync", "timeout", "wait", "weights_only"),
}


def settings_of(functions: Mapping[str, Callable[..., Any]]) -> dict[str, str]:
    """Returns the names of the functions' arguments, each with the function that has it."""
    names: dict[str, str] = {}
    for what, function in functions.items():
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                names[name] = what
    return names


def why_no_name(name: str, settings: Mapping[str, str]) -> str | None:
    """Returns why no tree can have this name; None if one can."""
    if name in settings:
        return f"it is a setting of {settings[name]}"
    if name in _LIKE_SETTINGS:
        return "it reads like a setting, and save() and restore() have none of that name"
    if not name or name.startswith("!"):
        return "a name is not empty and does not begin with '!'"
    return None


def check_names(trees: Iterable[str], settings: Mapping[str, str]) -> None:
    """Raises ValueError for a name that was probably meant as a setting."""
    for name in trees:
        why = why_no_name(name, settings)
        if why is not None:
            raise ValueError(f"{name!r} cannot be the name of a tree: {why}")


def check_slips(call: str, trees: Mapping[str, Any], settings: Mapping[str, str]) -> None:
    """Raises TypeError for a tree that was probably meant as a setting, by its name and value.

    None is a tree of ``restore()``, which it creates.
    """
    known = ["rng", *(name for name, what in settings.items() if what in _CALLS)]
    for name, value in trees.items():
        if isinstance(value, (bool, str)) or (value is None and call == "save()"):
            near = [] if name == "rng" else difflib.get_close_matches(name, known, 1, _NEAR)
            if near:
                what = f", a setting of {settings[near[0]]}" if near[0] in settings else ""
                raise TypeError(
                    f"{name}={value!r}: {call} has no setting of that name; did you mean "
                    f"{near[0]!r}{what}?"
                )
        if name == "rng" and isinstance(value, (int, str)) and value is not True:
            raise TypeError(f"rng={value!r}: it is True, or a tree of your own, such as a dict")


def check_any(trees: Mapping[str, Any], loader: Any) -> None:
    """Raises TypeError if there is nothing to save: retention would remove others for it."""
    if not trees and loader is None:
        raise TypeError("there is nothing to save: give trees by name: save(step, model=model)")


def check_named(call: str, step: Any, unnamed: tuple[Any, ...]) -> None:
    """Raises TypeError if a tree was given without its name, perhaps in place of the step."""
    is_step = isinstance(step, (str, numbers.Number)) or hasattr(type(step), "__index__")
    if unnamed or not is_step:
        what = type(unnamed[0] if unnamed else step).__name__
        raise TypeError(f"{what} without a name: give trees by name: {call}")


class EmptyTrees:
    """Warns about empty trees, once per name.

    Only plain containers: the state of an object may be empty, such as that of a GradScaler.
    On other ranks than 0 a dict may be empty on purpose: torch's ``full_state_dict=True``.
    """

    def __init__(self, rank: int = 0) -> None:
        self._rank = rank
        self._told: set[str] = set()

    def tell(self, step: int, trees: Mapping[str, Any]) -> None:
        """Warns about trees that are about to be saved."""
        found = {name: f"the tree {name} is empty" for name in trees if _is_empty(trees[name])}
        for name, what in found.items():
            if name in self._told:
                continue
            self._told.add(name)
            if self._rank > 0 and type(trees[name]) is dict:
                text = "step %d: %s on rank %d: if one rank has items, a restore gives them to all"
                _log.info(text, step, what, self._rank)
            else:
                _log.warning("step %d: %s", step, what)


def _is_empty(tree: Any) -> bool:
    if isinstance(tree, (dict, argparse.Namespace)):
        return not members_of(tree)
    return isinstance(tree, (list, tuple, set, frozenset)) and not tree
