"""Values that JSON lacks, and their nodes: docs/formats/checkpoint.md.

Nothing here creates a class that a file names: this module defines what each tag makes.
"""

from __future__ import annotations

import argparse
import base64
import collections
import collections.abc
import enum
import importlib
import math
import pathlib
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

_INT_MAX = 2**53  # what every JSON parser reads exactly
_DIGITS_MAX = 4000  # Python rejects more than 4300
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_FACTORIES = {kind.__name__: kind for kind in (bool, int, float, str, list, tuple, dict, set)}
_OTHER_FACTORY = "other"
_MAPPINGS = {"!counter": collections.Counter, "!ordered_dict": collections.OrderedDict}
_PATH, _PURE_PATH = type(pathlib.Path()), type(pathlib.PurePath())
_SAME_HASH_MAX = 256  # each key is compared with all earlier keys of the same hash
NOT_A_LEAF = object()


class Unresolved:
    """A value of torch that cannot be made here: torch is missing, or lacks it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def refusal(value: Any, path: str, why: str) -> TypeError:
    """Returns what to raise for a value that cannot be saved."""
    return TypeError(f"{path}: object of type {type(value).__name__} can't be saved: {why}")


def shown(value: Any) -> str:
    """Returns repr() of a key; Python refuses to convert long integers."""
    try:
        return repr(value)
    except ValueError:
        return f"<{type(value).__name__}>"


def advice(value: Any) -> str:
    """Returns what to do with a value that has no tag."""
    if isinstance(value, np.random.Generator):
        return "save its bit_generator.state, which is a dict"
    if isinstance(value, (bytearray, range)):
        return "make a list or bytes of it"
    if isinstance(value, (int, float, str, bytes)):
        return "a subclass would come back as what it is derived from: convert it"
    if isinstance(value, pathlib.PurePath):
        return "a path of another system or library: save str() of it"
    if isinstance(value, np.dtype):
        return "a type that NumPy's short name does not say"
    if isinstance(value, collections.abc.Mapping):
        return "make a dict of it (of OmegaConf's with OmegaConf.to_container)"
    return (
        "only dicts, lists, tuples, sets, numbers, str, bytes, None, paths, enums, Namespaces, "
        "arrays, and what has state_dict()"
    )


def checked_text(value: str, path: str) -> str:
    """Returns a str if the files can store it; raises otherwise."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise refusal(value, path, "it is not UTF-8: save bytes") from None
    return value


def _is_torch(value: Any, name: str) -> bool:
    torch = sys.modules.get("torch")  # loaded if the value is one of torch's
    return torch is not None and isinstance(value, getattr(torch, name))


def is_torch_size(value: Any) -> bool:
    """Whether it is a torch.Size, which is a tuple but counts as one value."""
    return isinstance(value, tuple) and _is_torch(value, "Size")


def leaf_node(value: Any, path: str) -> Any:
    """Returns the node of a value without parts; NOT_A_LEAF for any other.

    Tags that a reader may reject are decoded here: what no restore could read is not saved.
    """
    node = _leaf_node(value, path)
    if type(node) is dict:
        ((tag, body),) = node.items()
        if tag not in _ALWAYS_READABLE:
            try:
                LEAVES[tag](body)
            except (ValueError, TypeError) as error:
                raise refusal(value, path, f"no restore could read it: {error}") from None
    return node


def _leaf_node(value: Any, path: str) -> Any:
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is int:
        return value if -_INT_MAX <= value <= _INT_MAX else _int_node(value, path)
    if kind is float:
        return _float_node(value)
    if kind is str:
        return checked_text(value, path)
    if kind is bytes:
        return {"!bytes": base64.b64encode(value).decode()}
    if kind is complex:
        return {"!complex": [_float_node(value.real), _float_node(value.imag)]}
    if kind is _PATH or kind is _PURE_PATH:
        tag = "!path" if kind is _PATH else "!pure_path"
        return {tag: checked_text(str(value), path)}
    if isinstance(value, np.dtype):
        is_named = not value.hasobject and np.dtype(value.str) == value
        return {"!numpy_dtype": value.str} if is_named else NOT_A_LEAF
    if _is_torch(value, "dtype"):
        return {"!torch_dtype": str(value).removeprefix("torch.")}
    if _is_torch(value, "device"):
        return {"!torch_device": str(value)}
    if is_torch_size(value):
        return {"!torch_size": list(value)}
    return NOT_A_LEAF


def _int_node(value: int, path: str) -> Any:
    try:
        return {"!int": str(value)}
    except ValueError:  # Python's own limit
        raise refusal(value, path, f"it has more than {_DIGITS_MAX} digits") from None


def _float_node(value: float) -> Any:
    return value if math.isfinite(value) else {"!float": str(value)}


def wrap_mapping(value: dict[Any, Any], node: Any) -> Any:
    """Returns the node of a dict with a tag for its kind."""
    for tag, kind in _MAPPINGS.items():
        if isinstance(value, kind):
            return {tag: node}
    if not isinstance(value, collections.defaultdict):
        return node
    factory = value.default_factory
    name = None if factory is None else getattr(factory, "__name__", "")
    if factory is not None and _FACTORIES.get(str(name)) is not factory:
        name = _OTHER_FACTORY
    return {"!default_dict": [name, node]}


def wrapping_depth(value: dict[Any, Any]) -> int:
    """Returns how much deeper ``wrap_mapping`` makes a dict."""
    if isinstance(value, collections.defaultdict):
        return 2
    return 1 if isinstance(value, tuple(_MAPPINGS.values())) else 0


def is_mapping_tag(tag: str) -> bool:
    """Whether ``unwrap_mapping`` decodes the tag."""
    return tag in _MAPPINGS or tag in ("!default_dict", "!namespace")


def unwrap_mapping(tag: str, body: Any, decode: Callable[[Any], Any]) -> Any:
    """Returns the mapping of a tag around a dict.

    A default factory other than a few builtins is omitted: the dict in memory that is restored into
    has its own.
    """
    factory: Any = None
    if tag == "!default_dict":
        name, body = body
        if name is not None and name != _OTHER_FACTORY:
            factory = _FACTORIES[name]
    items = decode(body)
    if type(items) is not dict:
        raise ValueError(f"no dict in {tag}")
    if tag == "!namespace":
        if not all(type(key) is str for key in items):
            raise ValueError("a name in a namespace that is not a str")
        space = argparse.Namespace()
        vars(space).update(items)
        return space
    made = collections.defaultdict(factory) if tag == "!default_dict" else _MAPPINGS[tag]()
    for key, item in items.items():
        made[key] = item
    return made


def _float(body: Any) -> float:
    if type(body) in (int, float):
        return float(body)
    ((tag, text),) = body.items()
    if tag != "!float":
        raise ValueError(f"{tag} is not a float")
    return _FLOATS[text]


def _digits(body: str) -> int:
    if not re.fullmatch(r"-?[0-9]+", body):
        raise ValueError("no integer")
    if len(body.lstrip("-")) > _DIGITS_MAX:
        raise ValueError(f"it has more than {_DIGITS_MAX} digits")
    return int(body)


def _numpy_dtype(body: str) -> Any:
    if not re.fullmatch(r"[<>|][biufcmMSUV][0-9]{1,9}(\[[0-9]*[a-zA-Z]{1,3}\])?", body):
        raise ValueError("no NumPy type")
    return np.dtype(body)


def _of_torch(what: str, body: Any) -> Any:
    if what == "Size":
        if not all(type(size) is int and 0 <= size < 2**63 for size in body):
            raise ValueError("no sizes")
    elif not re.fullmatch(r"[a-z][a-z0-9_]*(:[0-9]{1,5})?", body):
        raise ValueError(f"no torch.{what}")
    text = f"torch.{body}" if what == "dtype" else f"torch.{what}({body!r})"
    try:
        torch = importlib.import_module("torch")
        made = getattr(torch, body) if what == "dtype" else getattr(torch, what)(body)
    except (ImportError, AttributeError, RuntimeError):
        return Unresolved(text)
    # The name comes from a file: of all names in torch, only a dtype is accepted.
    return made if isinstance(made, getattr(torch, what)) else Unresolved(text)


def _path(kind: Callable[[str], Any], body: Any) -> Any:
    if type(body) is not str or "\0" in body:
        raise ValueError("no path")
    return kind(body)


LEAVES: dict[str, Callable[[Any], Any]] = {
    "!float": _FLOATS.__getitem__,
    "!int": _digits,
    "!bytes": lambda body: base64.b64decode(body, validate=True),
    "!complex": lambda body: complex(*(_float(part) for part in body)),
    "!path": lambda body: _path(pathlib.Path, body),
    "!pure_path": lambda body: _path(pathlib.PurePath, body),
    "!numpy_dtype": _numpy_dtype,
    "!torch_dtype": lambda body: _of_torch("dtype", body),
    "!torch_device": lambda body: _of_torch("device", body),
    "!torch_size": lambda body: _of_torch("Size", body),
}
_ALWAYS_READABLE = ("!float", "!bytes", "!complex")


def checked_keys(keys: list[Any]) -> list[Any]:
    """Checks keys of a dict, or elements of a set, that may come from a file.

    Raises:
        ValueError: Too many have the same hash: a dict of them would take quadratic time.
        TypeError: One has no hash.
    """
    counts = collections.Counter(map(hash, keys))
    if max(counts.values(), default=0) > _SAME_HASH_MAX:
        raise ValueError(f"more than {_SAME_HASH_MAX} keys have the same hash")
    return keys


def is_fixed(value: Any) -> bool:
    """Whether the value is immutable."""
    fixed = (bool, int, float, complex, str, bytes, tuple, frozenset, pathlib.PurePath, enum.Enum)
    return isinstance(value, fixed) or isinstance(_leaf_node(value, ""), dict)


def members_of(value: Any) -> dict[Any, Any] | None:
    """Returns the live dict of a dict or a Namespace; None for anything else."""
    if isinstance(value, dict):
        return value
    return vars(value) if isinstance(value, argparse.Namespace) else None


def parts_of(node: Any) -> list[tuple[Any, Any]] | None:
    """Returns keys and parts of a container in a decoded tree; None for a leaf."""
    members = members_of(node)
    if members is not None:
        return list(members.items())
    if isinstance(node, (list, tuple)) and not is_torch_size(node):
        return list(enumerate(node))
    return None


def with_parts(node: Any, parts: Iterable[Any]) -> Any:
    """Returns a new container of the same kind, with other parts under the same keys."""
    members = members_of(node)
    if members is None:
        return list(parts) if isinstance(node, list) else tuple(parts)
    is_default = isinstance(node, collections.defaultdict)
    made = collections.defaultdict(node.default_factory) if is_default else type(node)()
    into = members_of(made)
    assert into is not None
    for key, part in zip(members, parts, strict=True):
        into[key] = part
    return made
