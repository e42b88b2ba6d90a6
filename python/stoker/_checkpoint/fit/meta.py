"""restore(device=): tensors of modules on meta get memory; their identity and ties stay."""

from __future__ import annotations

import sys
import weakref
from typing import Any

from stoker._checkpoint.fit.tensor_fit import Misfit
from stoker._checkpoint.tensors.distributed import is_dtensor
from stoker._common.torch import is_tensor
from stoker._common.users import users_code

_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")


class MetaTensors:
    """Creates memory for tensors on meta, which ``assign`` gives to them after reading.

    Without a device, none is created.
    """

    def __init__(self, device: Any) -> None:
        self.device = device
        self._sharded: list[Any] = []  # modules with DTensors on meta
        self._made: dict[int, tuple[Any, Any]] = {}  # on meta and on the device, by id
        self._aliases: dict[int, Any] = {}  # what is in states, by id

    def __contains__(self, alias: Any) -> bool:
        return id(alias) in self._aliases

    def replace(self, module: Any, state: dict[str, Any], path: str) -> None:
        """Puts tensors with memory into the state of a module, in place of those on meta.

        Raises:
            Misfit: A tensor cannot be replaced, or is on meta and not in the state.
        """
        if self.device is None:
            return
        known = set()
        with users_code():
            variables = module.state_dict(keep_vars=True)
        for name, tensor in variables.items():
            if is_tensor(tensor) and tensor.is_meta:
                known.add(id(tensor))
                state[name] = self._new(tensor, f"{path}[{name!r}]").detach()
                self._aliases[id(state[name])] = state[name]
                if is_dtensor(tensor) and module not in self._sharded:
                    self._sharded.append(module)
        members = [*module.named_parameters(), *module.named_buffers()]
        left = [name for name, one in members if one.is_meta and id(one) not in known]
        if left:
            raise Misfit(
                f"{path}: on meta, and not part of state_dict(): {', '.join(map(repr, left))}. No "
                "checkpoint has them: create them on a device, as with torch.device(...):"
            )

    def _new(self, tensor: Any, path: str) -> Any:
        if id(tensor) in self._made:
            return self._made[id(tensor)][1]
        torch = sys.modules["torch"]
        why = _why_not(tensor)
        if why is not None:
            raise Misfit(f"{path}: on meta, and cannot get memory: {why}")
        made = torch.empty_like(tensor, device=self.device, requires_grad=False)
        if isinstance(tensor, torch.nn.Parameter):
            made = torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
        else:
            made.requires_grad_(tensor.requires_grad)
            made.__class__ = type(tensor)  # torch.nn.Buffer
        made.__dict__.update(tensor.__dict__)
        self._made[id(tensor)] = tensor, made
        return made

    def assign(self) -> None:
        """Gives the memory to the tensors, which modules and optimizers have already."""
        for tensor, made in self._made.values():
            sys.modules["torch"].utils.swap_tensors(tensor, made)
        self._made.clear()
        for module in self._sharded:
            # FSDP2 looks for the memory of its shards again, as after to_empty().
            module._apply(lambda tensor: tensor)
        self._sharded.clear()


def _why_not(tensor: Any) -> str | None:
    torch = sys.modules["torch"]
    plain = (torch.Tensor, torch.nn.Parameter, getattr(torch.nn, "Buffer", None))
    if type(tensor) not in plain and not is_dtensor(tensor):
        return "a subclass of torch.Tensor"
    if not hasattr(torch.utils, "swap_tensors"):
        return "this version of torch is too old"
    if weakref.getweakrefs(tensor):
        return "other code has weak references to it: restore before"
    if any(getattr(tensor, name, None) for name in _HOOKS):
        return "it has hooks: register them after the restore"
    return None
