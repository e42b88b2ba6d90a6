"""The items of torch.distributed.checkpoint, as trees of state, and the inverse.

DCP flattens a state to items by name, "model.0.weight", with the path of each:
("model", "0.weight"). A path has a str for each dict and an int for each list. Each rank saves the
items that DCP has assigned to it, in a tree with the paths. The trees of all ranks together have
all items: dicts are of the kind whose names belong to all ranks (docs/formats/checkpoint.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from stoker._checkpoint.state.nodes import TensorNode
from stoker._checkpoint.state.trainable import Trainable
from stoker._checkpoint.state.values import checked_text
from stoker._checkpoint.tensors.flattened import Flattened
from stoker._common.torch import is_tensor

Path = tuple[str | int, ...]

# In `extra`: a DcpWriter has saved the checkpoint, and its trees are PATHS, or whole ITEMS.
SAVED_BY = "torch.distributed.checkpoint"
PATHS, ITEMS = "paths", "items"

_DEPTH_MAX = 50  # of containers; a file has 64 levels, of which a leaf may take some
_GAPS_MAX = 1000  # items of a list that have nothing in them, and are therefore not saved
_NUMBER = re.compile(r"(\[*)\[(0|[1-9][0-9]{0,8})\](\]*)")


class _Branch(dict[str | int, Any]):
    """Parts of a path that begin alike. Its items are branches, or nodes of leaves."""


_ELSEWHERE = object()  # a leaf that another rank saves


def tree_node(nodes: Mapping[str, Any], paths: Mapping[str, Path], *, is_all: bool) -> Any:
    """Returns the JSON node of a tree with the nodes of leaves, by name.

    Args:
        nodes: The leaves that this rank saves.
        paths: The paths of these, and of leaves that other ranks save.
        is_all: Whether no other rank saves anything.
    """
    root = _Branch()
    for name in [*nodes, *(name for name in paths if name not in nodes)]:
        path = paths.get(name, (name,))
        branch = root
        for part in path[:-1]:
            branch = branch.setdefault(part, _Branch())
            if type(branch) is not _Branch:
                raise ValueError(f"{name}: its path leads through another item")
        if path[-1] in branch:
            raise ValueError(f"{name}: another item has its path")
        branch[path[-1]] = nodes.get(name, _ELSEWHERE)
    return _node_of(root, is_all)


def _node_of(branch: Any, is_all: bool, depth: int = 1) -> Any:
    if type(branch) is not _Branch:
        return branch
    depth += 1 if is_all else 2  # the tag
    if depth > _DEPTH_MAX:
        raise ValueError(f"the state is nested too deep: at most {_DEPTH_MAX} levels can be saved")
    # In the order of the paths on all ranks, whoever saves what.
    numbers = range(len(branch))
    is_list = branch and set(branch) == set(numbers) and all(type(key) is int for key in branch)
    if is_list and (is_all or all(type(item) is _Branch for item in branch.values())):
        return [_node_of(branch[number], is_all, depth) for number in numbers]
    items = [
        (_key_of(part), _node_of(item, is_all, depth))
        for part, item in branch.items()
        if item is not _ELSEWHERE
    ]
    has_names = not any(key.startswith("!") for key, _ in items)
    node = dict(items) if has_names else {"!dict": [list(item) for item in items]}
    return node if is_all else {"!ordered_dict": node}


def _key_of(part: str | int) -> str:
    """A key for a number in a list whose items are on several ranks: "[0]"."""
    if type(part) is int:
        return f"[{part}]"
    text = checked_text(str(part), f"the key {part!r}")
    return f"[{text}]" if _NUMBER.fullmatch(text) else text


def _part_of(key: Any) -> str | int:
    found = _NUMBER.fullmatch(key) if type(key) is str else None
    if found is None:
        return str(key)
    return int(found[2]) if not found[1] and not found[3] else key[1:-1]


def saved_by_dcp(extra: Any) -> str | None:
    """Returns PATHS or ITEMS; None if something else has saved the checkpoint."""
    kind = extra.get(SAVED_BY) if isinstance(extra, dict) else None
    return kind if kind in (PATHS, ITEMS) else None


def with_lists(tree: Any) -> Any:
    """Returns a tree of PATHS, merged from all ranks, with the lists that it had."""
    if isinstance(tree, list):
        return [with_lists(item) for item in tree]
    if not isinstance(tree, dict) or isinstance(tree, Flattened):
        return tree
    items = {_part_of(key): with_lists(item) for key, item in tree.items()}
    if items and all(type(part) is int for part in items) and set(items) == set(range(len(items))):
        return [items[number] for number in range(len(items))]
    return type(tree)(zip(map(str, items), items.values(), strict=True))


def leaves_of(trees: list[Any], kind: str | None) -> dict[str, tuple[Path, Any]]:
    """Returns path and saved value of each item, by name, as DCP would name them.

    If ranks have saved an item each, the first one's is taken. ``kind``: of ``saved_by_dcp``.
    """
    found: dict[str, tuple[Path, Any]] = {}
    for tree in {id(tree): tree for tree in trees}.values():
        walk = _items(tree) if kind == ITEMS else _walk((), tree, is_ours=kind == PATHS)
        for path, value in walk:
            found.setdefault(".".join(map(str, path)), (path, value))
    # torch makes a list as long as the greatest number.
    longest = len(found) + _GAPS_MAX
    for name, (path, _) in found.items():
        if any(type(part) is int and part > longest for part in path):
            raise ValueError(f"{name}: an item of a list that has not so many")
    return found


def _items(tree: dict[Any, Any]) -> Iterator[tuple[Path, Any]]:
    yield from (((str(key),), item) for key, item in tree.items())


def _walk(path: Path, value: Any, *, is_ours: bool) -> Iterator[tuple[Path, Any]]:
    """Visits what torch's traverse_state_dict() would."""
    if isinstance(value, Trainable):
        value = value["state"]
    if isinstance(value, dict) and not isinstance(value, Flattened):
        for key, item in value.items():
            part = _part_of(key) if is_ours else str(key)
            yield from _walk((*path, part), item, is_ours=is_ours)
    elif is_split(value):
        for number, item in enumerate(value):
            yield from _walk((*path, number), item, is_ours=is_ours)
    else:
        yield path, value


def is_split(value: Any) -> bool:
    """Whether torch makes several items of it: a dict, or a list with tensors or dicts in it."""
    if isinstance(value, list):
        return any(is_tensor(item) or is_tensor_node(item) or is_split(item) for item in value)
    return isinstance(value, dict) and not isinstance(value, Flattened)


def is_tensor_node(value: Any) -> bool:
    """Whether it is a saved tensor of torch, not an array of NumPy or a stream."""
    return isinstance(value, TensorNode) and value.is_torch and value.is_array
