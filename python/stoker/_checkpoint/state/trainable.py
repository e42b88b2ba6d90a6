"""save(only="trainable"): modules without their frozen parameters, as for LoRA.

What is left out is the base. A fingerprint of it is saved, so that another base is noticed. A
module that is frozen as a whole beside one that is trained, such as an average of the weights, is
no base: it is saved as it is.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from stoker._checkpoint.state.wrappers import bare_names
from stoker._checkpoint.tensors.distributed import is_distributed
from stoker._checkpoint.tensors.flattened import inner_tensors, is_flattenable
from stoker._common.torch import is_tensor

_SAMPLES = 256  # bytes or elements of each tensor, which a fingerprint includes
_MEMBERS = {"base", "state"}


class Trainable(dict[str, Any]):
    """The saved part of a module: its ``state``, and the fingerprint of its ``base``."""


def check_trainable(body: Any) -> Trainable:
    """Returns a decoded node of a file; ValueError if it has another form."""
    is_form = isinstance(body, dict) and set(body) == _MEMBERS
    if not is_form or not isinstance(body["base"], str) or not isinstance(body["state"], dict):
        raise ValueError("no trainable part")
    return Trainable(body)


def frozen_names(modules: Iterable[Any]) -> set[str]:
    """Returns the names of parameters without a gradient, without wrappers' prefixes."""
    found: set[str] = set()
    for module in modules:
        parameters = dict(module.named_parameters(remove_duplicate=False))
        names = bare_names(module, parameters)
        found |= {names[name] for name, one in parameters.items() if not one.requires_grad}
    return found


def is_all_frozen(modules: Iterable[Any]) -> bool:
    """Whether the modules have parameters, and none of them has a gradient."""
    have = [one.requires_grad for module in modules for one in module.parameters()]
    return bool(have) and not any(have)


def is_frozen(name: str, frozen: set[str]) -> bool:
    """Whether a name of a state belongs to a frozen parameter.

    Some classes, such as those of bitsandbytes, add names below that of the parameter.
    """
    if name in frozen:
        return True
    head = name
    while "." in head:
        head = head.rpartition(".")[0]
        if head in frozen:
            return True
    return False


def fingerprint(tensors: Mapping[str, Any]) -> str:
    """Returns a number that tells one base from another: names, types, shapes and some bytes.

    It takes a few bytes of each tensor, from its beginning to its end: the whole of a large model
    would take longer than the save. A base in which single elements were changed may look the same.
    """
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(repr(name).encode())
        _add(tensors[name], digest)
    return digest.hexdigest()[:32]


def _add(value: Any, digest: Any) -> None:
    if is_flattenable(value):
        for name, inner in sorted(inner_tensors(value).items()):
            digest.update(name.encode())
            _add(inner, digest)
    elif is_tensor(value):
        digest.update(f"{value.dtype}{tuple(value.shape)}".encode())
        if not is_distributed(value):  # each layout has other bytes on this rank
            digest.update(_sample(value))


def _sample(tensor: Any) -> bytes:
    """Returns elements of a tensor on any device, evenly spaced; none if it has no plain ones."""
    torch = sys.modules["torch"]
    count = tensor.numel()
    if count == 0 or tensor.is_meta or tensor.is_quantized or tensor.layout is not torch.strided:
        return b""
    plain = tensor.detach()
    if plain.is_contiguous():
        plain = plain.reshape(-1).view(torch.uint8)
        count = plain.numel()
    wanted = np.unique(np.linspace(0, count - 1, _SAMPLES).astype(np.int64))
    places = np.unravel_index(wanted, tuple(plain.shape))
    found = plain[tuple(torch.from_numpy(one).to(plain.device) for one in places)]
    return bytes(found.cpu().contiguous().view(torch.uint8).numpy().tobytes())
