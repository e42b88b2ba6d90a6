"""Objects that load their own state: modules and optimizers of torch, and the caller's."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable
from typing import Any

from stoker._checkpoint.state.values import with_parts
from stoker._checkpoint.tensors.distributed import is_filled_inside
from stoker._common.torch import is_tensor


def is_module(value: Any) -> bool:
    """Whether it is a torch.nn.Module."""
    return _is_torch_kind(value, "torch.nn", "Module")


def is_optimizer(value: Any) -> bool:
    """Whether it is a torch.optim.Optimizer."""
    return _is_torch_kind(value, "torch.optim", "Optimizer")


def _is_torch_kind(value: Any, module: str, name: str) -> bool:
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(value, getattr(loaded, name))


def load_state(have: Any, state: Any, path: str) -> None:
    """Calls load_state_dict(). The types of an optimizer's state are preserved.

    Torch expects a state in the form that it writes, and raises various errors for others.
    """
    try:
        if is_optimizer(have) and loads_as_torch(have):
            _load_optimizer(have, state)
        elif is_module(have) and loads_as_torch(have):
            # Subclasses of tensors are filled, and may lack copy_(). All names were checked.
            flat = {name for name, item in state.items() if is_filled_inside(item)}
            for name in flat:
                del state[name]
            have.load_state_dict(state, strict=not flat)
        else:
            have.load_state_dict(state)
    except (TypeError, LookupError, AttributeError, ArithmeticError) as error:
        if not is_optimizer(have) and not is_module(have):
            raise  # the caller's own class may raise anything
        what = f"{type(error).__name__}: {error}"
        raise ValueError(f"{path}: {type(have).__name__} refuses its state: {what}") from error


def loads_as_torch(value: Any) -> bool:
    """Whether it is a module or an optimizer with torch's own load_state_dict().

    A class that overrides it is responsible for itself.
    """
    loads = getattr(value.load_state_dict, "__func__", None)
    if is_optimizer(value):
        return loads is sys.modules["torch.optim"].Optimizer.load_state_dict
    return is_module(value) and loads is sys.modules["torch.nn"].Module.load_state_dict


class _Hidden:
    """A value that torch's load_state_dict() would iterate over: this hides its items."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _load_optimizer(optimizer: Any, state: Any) -> None:
    """Undoes the cast in torch's load_state_dict().

    Torch casts the state of a parameter to the parameter's type: float32 moments of a bfloat16
    parameter, and 8-bit states, would lose bits. A str would become a generator. The first hook
    runs last before the cast, the second first after it: hooks of others see what torch and
    ``__setstate__`` of a subclass would give them, except for the types.
    """
    given: dict[Any, Any] = {}  # by parameter

    def note(_: Any, state: dict[str, Any]) -> dict[str, Any]:
        names = itertools.chain.from_iterable(group["params"] for group in state["param_groups"])
        weights = itertools.chain.from_iterable(g["params"] for g in optimizer.param_groups)
        by_name = dict(zip(names, weights, strict=False))  # torch rejects different counts
        entries = dict(state["state"])
        for name, entry in entries.items():
            if name in by_name:
                given[by_name[name]] = entry
                entries[name] = _hide(entry)
        return {**state, "state": entries}

    def put_back(_: Any) -> None:
        for weight, entry in given.items():
            if weight in optimizer.state:
                optimizer.state[weight] = _uncast(entry, optimizer.state[weight])

    hooks = [
        optimizer.register_load_state_dict_pre_hook(note),
        optimizer.register_load_state_dict_post_hook(put_back, prepend=True),
    ]
    try:
        optimizer.load_state_dict(state)
    finally:
        for hook in hooks:
            hook.remove()


def _hide(value: Any) -> Any:
    """Returns a copy in which only plain tensors and plain containers are iterable."""
    if isinstance(value, dict):
        return {key: _hide(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_hide, value))
    is_plain = is_tensor(value) and not is_filled_inside(value)
    return _Hidden(value) if isinstance(value, Iterable) and not is_plain else value


def _uncast(given: Any, now: Any) -> Any:
    """Returns ``now`` without the cast. Keeps what ``__setstate__`` has set."""
    if isinstance(now, _Hidden):
        return now.value
    if is_tensor(given) and is_tensor(now) and given.dtype != now.dtype:
        cast = given.to(device=now.device, dtype=now.dtype)
        return given.to(device=now.device) if _is_same(cast, now) else now
    if isinstance(given, dict) and type(now) is dict:
        for key, item in now.items():
            now[key] = _uncast(given.get(key), item)
        is_kind_lost = type(given) is not dict and given.keys() == now.keys()
        return with_parts(given, [now[key] for key in given]) if is_kind_lost else now
    if type(given) in (list, tuple) and type(now) is type(given) and len(now) == len(given):
        return type(given)(map(_uncast, given, now))
    return now


def _is_same(left: Any, right: Any) -> bool:
    """Whether both are equal bit by bit: a NaN equals itself."""
    if left.shape != right.shape:
        return False
    torch = sys.modules["torch"]
    flat = [tensor.detach().contiguous().reshape(-1).view(torch.uint8) for tensor in (left, right)]
    return bool(torch.equal(*flat))
