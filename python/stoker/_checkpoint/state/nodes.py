"""Decodes the JSON of state trees: tags are in docs/formats/checkpoint.md.

Nothing here creates a class that a file names: this module defines what each tag makes.
"""

from __future__ import annotations

import io
import json
import os
from dataclasses import dataclass, replace
from typing import Any

from stoker._checkpoint.state.trainable import check_trainable
from stoker._checkpoint.state.values import LEAVES, checked_keys, is_mapping_tag, unwrap_mapping
from stoker._checkpoint.tensors.flattened import check_flattened
from stoker._checkpoint.tensors.torch_elements import torch_element
from stoker._common.corrupt import corrupt_error
from stoker._native import OpenCheckpoint


@dataclass(frozen=True, eq=False)
class TensorNode:
    """A place in a tree that has a tensor.

    Attributes:
        name: Name of the tensor in the files.
        is_torch: It was a torch tensor, not a NumPy array.
        element: Name of an element type that safetensors lacks, as in Memory.
        is_scalar: It was a NumPy scalar, not an array without dimensions.
        is_slice: It was a stoker.Slice: the part of the tensor on one rank.
        is_stream: It was an io.BytesIO.
    """

    name: str
    is_torch: bool = False
    element: str | None = None
    is_scalar: bool = False
    is_slice: bool = False
    is_stream: bool = False

    @property
    def is_array(self) -> bool:
        """Whether it was an array, a tensor or a slice."""
        return not self.is_scalar and not self.is_stream

    def value_of(self, array: Any) -> Any:
        """Returns the value, from the array that was read."""
        if self.is_stream:
            return io.BytesIO(array.tobytes())
        return array[()] if self.is_scalar else array


class _UnknownTagError(ValueError):
    """A tag that no version up to this one writes."""


def _tensor_node(tag: str, body: Any) -> TensorNode:
    if tag in ("!scalar", "!slice", "!bytes_io"):
        ((inner, name),) = body.items()
        node = _tensor_node(inner, name)
        is_torch = tag != "!slice" and node.is_torch
        if not node.is_array or node.is_slice or is_torch:
            raise ValueError(f"no {inner} in {tag}")
        if tag == "!bytes_io":
            return replace(node, is_stream=True)
        return replace(node, is_scalar=tag == "!scalar", is_slice=tag == "!slice")
    name, element = (body, None) if tag != "!array" and isinstance(body, str) else body
    if (
        type(name) is not str
        or not isinstance(element, str | None)
        or (tag == "!tensor" and element)
    ):
        raise ValueError(f"{tag} of no tensor")
    return TensorNode(name, tag == "!torch", element)


def _elements_node(body: Any) -> TensorNode:
    outer, name = body
    ((tag, inner),) = outer.items()
    node = _tensor_node(tag, inner)
    if not node.is_torch or node.element is not None or type(name) is not str:
        raise ValueError("!elements of no tensor of torch")
    element = torch_element(name)
    if element is None:
        raise _UnknownTagError(f"elements of type {name} are unknown: a later version wrote them")
    return replace(node, element=element)


def _untag(tag: str, body: Any, arrays: bool) -> Any:
    if tag in LEAVES:
        return LEAVES[tag](body)
    if tag in ("!tensor", "!torch", "!array", "!scalar", "!slice", "!bytes_io", "!elements"):
        if not arrays:
            raise ValueError("a tensor where none can be")
        return _elements_node(body) if tag == "!elements" else _tensor_node(tag, body)
    if tag == "!flattened":
        return check_flattened(decode_node(body, arrays))
    if tag == "!trainable":
        return check_trainable(decode_node(body, arrays))
    if is_mapping_tag(tag):
        return unwrap_mapping(tag, body, lambda node: decode_node(node, arrays))
    if tag == "!enum":
        return decode_node(body, arrays)  # the value in memory has the enum's class
    if tag not in ("!tuple", "!set", "!frozenset", "!dict"):
        raise _UnknownTagError(f"the tag {tag} is unknown: a later version has written it")
    if not isinstance(body, list):
        raise ValueError(f"no list in {tag}")
    if tag == "!tuple":
        return tuple(decode_node(item, arrays) for item in body)
    if tag in ("!set", "!frozenset"):
        items = checked_keys([decode_node(item, False) for item in body])
        return set(items) if tag == "!set" else frozenset(items)
    keys = checked_keys([decode_node(key, False) for key, _ in body])
    made = {key: decode_node(item, arrays) for key, (_, item) in zip(keys, body, strict=True)}
    if len(made) != len(body):
        raise ValueError("a duplicate key")
    return made


def decode_node(node: Any, arrays: bool) -> Any:
    """Returns the value of a node. ValueError for a tensor if not ``arrays``."""
    if isinstance(node, list):
        return [decode_node(item, arrays) for item in node]
    if not isinstance(node, dict):
        return node
    if len(node) == 1:
        ((tag, body),) = node.items()
        if tag.startswith("!"):
            return _untag(tag, body, arrays)
    return {key: decode_node(item, arrays) for key, item in node.items()}


def manifest_path(checkpoint: OpenCheckpoint) -> str:
    """Returns the path of a checkpoint's manifest."""
    return os.path.join(checkpoint.directory, "manifest.json")  # noqa: PTH118 (a string, as others)


def decode_tree(text: str, what: str, path: str, *, arrays: bool = True) -> Any:
    """Decodes the tree of a JSON text in the manifest ``path``, with a TensorNode per tensor.

    Raises:
        CorruptError: The text is invalid, or has tensors without ``arrays``; names ``what``.
        ValueError: It has a tag that this version does not know. That is not damage, for which an
            older checkpoint would be used.
    """
    try:
        return decode_node(json.loads(text), arrays)
    except _UnknownTagError as error:
        raise ValueError(f"{path}: {what}: {error}") from None
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise corrupt_error(f"{path}: {what}: no state tree: {reason}", path, 0) from None
