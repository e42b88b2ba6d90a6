"""What kinds of values are in trees, saved and in memory."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from stoker._checkpoint.state.nodes import TensorNode
from stoker._checkpoint.state.values import members_of
from stoker._checkpoint.tensors.flattened import Flattened
from stoker._checkpoint.tensors.slice import Slice
from stoker._common.torch import is_tensor

CONTAINERS = (dict, list, tuple, set, frozenset, argparse.Namespace)


def item_at(have: Any, key: Any) -> Any:
    """Returns the item of a container in memory; None if it has none."""
    members = members_of(have)
    if members is not None:
        return members.get(key)  # not by [key]: a defaultdict would create it
    return have[key] if key < len(have) else None


def family_of(value: Any) -> type | None:
    """Returns the kind of container or tensor, which must match; None for a single value."""
    if isinstance(value, (TensorNode, Flattened, np.ndarray, Slice)) or is_tensor(value):
        return TensorNode
    return next((kind for kind in CONTAINERS if isinstance(value, kind)), None)


def kind_of(value: Any) -> str:
    """Returns the kind of a value, for messages."""
    if isinstance(value, TensorNode):
        return "an array" if value.is_array else "a stream" if value.is_stream else "a NumPy scalar"
    if isinstance(value, Flattened):
        return "a tensor subclass"
    return "None" if value is None else f"of type {type(value).__name__}"
