"""One checkpoint of several ranks: which part belongs to which rank."""

from __future__ import annotations

import collections
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from stoker._checkpoint.state.kinds import item_at
from stoker._checkpoint.state.nodes import TensorNode, decode_tree
from stoker._checkpoint.state.parameters import numbers_in
from stoker._checkpoint.state.per_rank import PerRank
from stoker._checkpoint.state.values import Unresolved, members_of, parts_of, with_parts
from stoker._checkpoint.tensors.flattened import Flattened
from stoker._native import OpenCheckpoint


class Differs:
    """Marks a place in a tree where the saved values of the ranks differ."""

    def __init__(self, count: int) -> None:
        self._count = count

    def refusal(self, where: str) -> str:
        """Returns the message if the value is needed."""
        return (
            f"{where}: each of the {self._count} ranks has saved another value, and this run has "
            "another number of ranks"
        )


# Returns, by a tensor's name, what is equal for two tensors of the same type, shape and bytes.
Identity = Callable[[str], tuple[Any, ...]]


def identity_in(checkpoint: OpenCheckpoint) -> Identity:
    """Returns the identity of tensors of one checkpoint: type, shape and digest."""
    stored = {name: (kind, shape) for name, kind, shape in checkpoint.tensors()}
    return lambda name: (*stored.get(name, ()), checkpoint.digests([name]).get(name))


def states_of(checkpoint: OpenCheckpoint, manifest: str) -> list[Any]:
    """Returns the states of all ranks, with the names of stored tensors.

    A name in the state of a rank refers to the rank's own tensor, or else to a shared one. States
    of equal texts are one object.
    """
    stored = {name for name, _, _ in checkpoint.tensors()}
    has_own = any(name.startswith("rank-") for name in stored)
    decoded: dict[tuple[str, int], Any] = {}
    states = []
    for rank, text in enumerate(checkpoint.state):
        key = text, rank if has_own else 0
        if key not in decoded:
            tree = decode_tree(text, "state", manifest)
            decoded[key] = _with_own_names(tree, f"rank-{rank:05}.", stored) if has_own else tree
        states.append(decoded[key])
    return states


def _with_own_names(node: Any, prefix: str, stored: set[str]) -> Any:
    if isinstance(node, TensorNode):
        own = prefix + node.name
        return replace(node, name=own) if own in stored else node
    parts = parts_of(node)
    if parts is None:
        return node
    return with_parts(node, [_with_own_names(part, prefix, stored) for _, part in parts])


def tree_of_all(
    trees: list[Any], identity: Identity, own: int | None = None, have: Any = None
) -> Any:
    """Returns what the trees of all ranks have in common.

    A tensor that has the same bytes on every rank is replicated: any copy represents all. Names of
    a module's state, and parameters of an optimizer, that only some ranks have belong to all, as
    for the stages of a pipeline. A rank with an empty dict, where one rank has items, takes those:
    torch's ``full_state_dict=True`` gives a state to rank 0 alone. Where values differ, that of
    rank ``own`` is taken; ``Differs`` if there is none. ``have``: the tree in memory.
    """
    return _merge(dict(enumerate(trees)), identity, own, len(trees), have)


def tree_of_some(
    held: dict[int, Any], identity: Identity, own: int | None, count: int, have: Any
) -> Any:
    """Likewise, of ``count`` ranks of which some have saved such a tree: it is that of all."""
    return _merge(held, identity, own, count, have)


def _merge(
    held: dict[int, Any], identity: Identity, own: int | None, count: int, have: Any = None
) -> Any:
    """Merges the values of those ranks that have one."""
    held = _without_empty(held, own, have)
    values = list({id(value): value for value in held.values()}.values())
    first = values[0]
    if len(values) == 1:
        return first
    other = held[own] if own in held else Differs(count)
    if any(_kind_of(value) != _kind_of(first) for value in values):
        return other
    if isinstance(first, TensorNode):  # a rank's own tensor is taken without a comparison
        return first if own not in held and _is_one(values, identity) else other
    if all(numbers_in(value, str) is not None for value in values):
        return _merge_optimizers(held, identity, own, count)
    if type(first) is collections.OrderedDict:  # the state of a module
        return collections.OrderedDict(_merge_items(held, identity, own, count))
    if parts_of(first) is None:
        return first if len({_exact(value) for value in values}) == 1 else other
    parts = {id(value): parts_of(value) or [] for value in values}
    keys = [[_exact(key) for key, _ in one] for one in parts.values()]
    if any(one != keys[0] for one in keys):
        return other
    if isinstance(first, Flattened) and any(
        _exact_tree({**value, "tensors": None}) != _exact_tree({**first, "tensors": None})
        for value in values
    ):
        return other
    made = []
    for number in range(len(keys[0])):
        items = {rank: parts[id(value)][number][1] for rank, value in held.items()}
        there = _item_of(have, parts[id(first)][number][0])
        made.append(_merge(items, identity, own, count, there))
    return with_parts(first, made)


def _without_empty(held: dict[int, Any], own: int | None, have: Any) -> dict[int, Any]:
    """Leaves out empty dicts where one rank's has items.

    Not if this rank has saved one, and still has one; nor in a PerRank.
    """
    left = {rank: value for rank, value in held.items() if type(value) is not dict or value}
    if len(left) == len(held) or len({id(value) for value in left.values()}) != 1:
        return held
    if not all(isinstance(value, dict) for value in left.values()):
        return held
    is_mine = own in held and own not in left and type(have) is dict and not have
    return held if is_mine or isinstance(have, PerRank) else left


def _item_of(have: Any, key: Any) -> Any:
    if isinstance(have, PerRank):
        return have
    is_list = isinstance(have, (list, tuple)) and isinstance(key, int)
    return item_at(have, key) if is_list or members_of(have) is not None else None


def _merge_items(
    held: dict[int, Any], identity: Identity, own: int | None, count: int
) -> dict[Any, Any]:
    """Merges dicts of which each rank may have other keys."""
    items: dict[Any, dict[int, Any]] = {}
    for rank, value in held.items():
        for key, item in value.items():
            items.setdefault(key, {})[rank] = item
    return {key: _merge(found, identity, own, count) for key, found in items.items()}


def _merge_optimizers(
    held: dict[int, Any], identity: Identity, own: int | None, count: int
) -> dict[str, Any]:
    """Merges the states of optimizers by parameter name."""
    states = {rank: value["state"] for rank, value in held.items()}
    rest = {
        rank: {key: item for key, item in value.items() if key not in ("state", "param_groups")}
        for rank, value in held.items()
    }
    merged = _merge(rest, identity, own, count)
    return {
        **(merged if isinstance(merged, dict) else {}),
        "state": _merge_items(states, identity, own, count),
        "param_groups": _merge_groups(held, own, count),
    }


def _merge_groups(held: dict[int, Any], own: int | None, count: int) -> list[Any] | Differs:
    """Merges the groups of optimizers: those of rank ``own``, and the other ranks' parameters.

    Groups with equal settings are one. ``Differs`` if a parameter that rank ``own`` does not have
    has different settings on other ranks.
    """
    groups: list[dict[str, Any]] = []
    place_of: dict[str, dict[str, Any]] = {}  # the group that each parameter is in
    if own in held:
        groups = [{**group, "params": list(group["params"])} for group in held[own]["param_groups"]]
        place_of = {name: group for group in groups for name in group["params"]}
    mine = set(place_of)
    for value in {id(value): value for value in held.values()}.values():
        for group in value["param_groups"]:
            names = [name for name in group["params"] if name not in mine]
            if not names and group["params"]:
                continue
            into = next((one for one in groups if _settings(one) == _settings(group)), None)
            if into is None:
                into = {**group, "params": []}
                groups.append(into)
            for name in names:
                if place_of.setdefault(name, into) is not into:
                    return Differs(count)
            known = set(into["params"])
            into["params"] += [name for name in names if name not in known]
    return groups


def _settings(group: dict[str, Any]) -> Any:
    return _exact_tree({k: v for k, v in group.items() if k not in ("params", "param_names")})


def _exact_tree(tree: Any) -> Any:
    """Returns a value that is equal only for equal trees."""
    if isinstance(tree, TensorNode):
        return tree.name
    parts = parts_of(tree)
    if parts is None:
        return _exact(tree)
    return type(tree), [(_exact(key), _exact_tree(part)) for key, part in parts]


def _kind_of(tree: Any) -> tuple[Any, ...]:
    """Returns its type, and the factory of a defaultdict."""
    return type(tree), getattr(tree, "default_factory", None)


def _exact(value: Any) -> Any:
    """Returns a value that is equal only for values of the same type and bits.

    ``==`` considers True equal to 1, 1 to 1.0 and -0.0 to 0.0, also in a set, and no NaN to
    another.
    """
    if isinstance(value, (float, complex)):
        return type(value), struct.pack("<dd", value.real, value.imag)
    if isinstance(value, tuple):
        return type(value), *map(_exact, value)
    if isinstance(value, (set, frozenset)):
        return type(value), frozenset(map(_exact, value))
    return type(value), repr(value) if isinstance(value, Unresolved) else value


def _is_one(nodes: list[TensorNode], identity: Identity) -> bool:
    """Whether the nodes are one tensor: slices of it, or copies."""
    first = nodes[0]
    if any(vars(replace(node, name=first.name)) != vars(first) for node in nodes):
        return False
    if len({node.name for node in nodes}) == 1:
        return True
    if first.is_slice:
        return False
    return len({identity(node.name) for node in nodes}) == 1
