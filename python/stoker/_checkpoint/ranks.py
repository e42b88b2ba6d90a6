"""One checkpoint of several ranks: which part belongs to which rank."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from stoker._checkpoint.nodes import TensorNode
from stoker._checkpoint.values import Unresolved, parts_of, with_parts
from stoker._common.ranks import Ranks
from stoker._native import OpenCheckpoint


def own_prefix(ranks: Ranks) -> str:
    """Returns the prefix of a rank's own tensors, which keeps them apart from those of others."""
    return f"rank-{ranks.rank:05}." if ranks.world_size > 1 else ""


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


def tree_of_all(trees: list[Any], identity: Identity) -> Any:
    """Returns what the trees of all ranks have in common; Differs where they differ.

    A tensor that has the same bytes on every rank is replicated: any copy represents all.
    """
    first = trees[0]
    if len(trees) == 1:
        return first
    if any(_kind_of(tree) != _kind_of(first) for tree in trees):
        return Differs(len(trees))
    if isinstance(first, TensorNode):
        return first if _is_one(trees, identity) else Differs(len(trees))
    parts = [parts_of(tree) for tree in trees]
    if parts[0] is not None:
        keys = [[_exact(key) for key, _ in own or ()] for own in parts]
        if any(own != keys[0] for own in keys):
            return Differs(len(trees))
        rows = zip(*([part for _, part in own or ()] for own in parts), strict=True)
        return with_parts(first, [tree_of_all(list(row), identity) for row in rows])
    return first if len({_exact(tree) for tree in trees}) == 1 else Differs(len(trees))


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
    if first.is_slice:
        return all(node.name == first.name for node in nodes)
    return len({identity(node.name) for node in nodes}) == 1
