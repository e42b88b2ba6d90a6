"""The names of parameters, from all modules of one call of save() or restore().

The saved state of an optimizer has them in place of the numbers that torch uses.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from stoker._checkpoint.state.modules import is_parts
from stoker._checkpoint.state.objects import is_module, is_optimizer
from stoker._checkpoint.state.values import members_of
from stoker._checkpoint.state.wrappers import bare_names
from stoker._common.torch import is_tensor

_DEPTH_MAX = 60  # of a tree; one that is deeper, or in itself, is refused later


class ParameterNames:
    """Names such as ``model.0.weight``: the tree, and the name without wrappers' prefixes.

    Thread safety: use one object in one thread. The trees must not change meanwhile.
    """

    def __init__(self, trees: dict[str, Any]) -> None:
        self._trees = trees
        self._names: dict[int, list[str]] | None = None  # by id, found when first needed

    def of(self, parameter: Any) -> list[str]:
        """Returns all names of a parameter: several if it is tied, none if no module has it."""
        if self._names is None:
            self._names = {}
            for tree, value in self._trees.items():
                for name, found in _parameters_in(value, tree, 1):
                    names = self._names.setdefault(id(found), [])
                    if name not in names:
                        names.append(name)
        return self._names.get(id(parameter), [])

    def has_trainable(self) -> bool:
        """Whether some module has a parameter that is trained."""
        return any(
            parameter.requires_grad
            for tree, value in self._trees.items()
            for _, parameter in _parameters_in(value, tree, 1)
        )

    def keyed(self, tree: Any, path: str, saved: Any = ()) -> Any:
        """Returns a dict of optimizers by parameter as one by the parameters' names.

        Other trees are returned as they are. The dict has the same optimizers. Of several names of
        a parameter, one in ``saved`` is preferred.

        Raises:
            ValueError: No module in the call has the parameter.
        """
        if not isinstance(tree, dict) or not tree:
            return tree
        if not all(is_tensor(key) and is_optimizer(item) for key, item in tree.items()):
            return tree
        made: dict[str, Any] = {}
        for number, (parameter, item) in enumerate(tree.items()):
            names = self.of(parameter)
            if not names:
                raise ValueError(
                    f"{path}: a dict by parameters, and no module in this call has its parameter "
                    f"{number}, of shape {tuple(parameter.shape)}: pass the module as well"
                )
            known = saved if isinstance(saved, dict) else ()
            made[next((name for name in names if name in known), names[0])] = item
        return made


def _parameters_in(value: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    if is_module(value):
        _reshard(value)
        found = dict(value.named_parameters(remove_duplicate=False))
        for name, bare in bare_names(value, found).items():
            yield f"{path}.{bare}", found[name]
        return
    if depth > _DEPTH_MAX:
        return
    members = members_of(value)
    if members is not None:
        for key, item in members.items():
            if isinstance(key, (str, int)):
                yield from _parameters_in(item, f"{path}.{key}", depth + 1)
    elif isinstance(value, (list, tuple)):
        is_one = depth == 1 and is_parts(value)  # the parts of one model share their names
        for number, item in enumerate(value):
            yield from _parameters_in(item, path if is_one else f"{path}.{number}", depth + 1)


def _reshard(module: Any) -> None:
    """Has FSDP2 put back the parameters that optimizers have, as ``state_dict()`` does.

    After a forward pass without a backward pass, such as an evaluation, modules may still have the
    whole parameters, which are other objects.
    """
    kind = getattr(sys.modules.get("torch.distributed.fsdp"), "FSDPModule", None)
    if kind is not None:
        for part in module.modules():
            if isinstance(part, kind):
                part.reshard()


def numbers_in(state: Any, kind: type) -> list[Any] | None:
    """Returns what the groups of a state have for their parameters, if it is of that kind."""
    groups = state.get("param_groups") if isinstance(state, dict) else None
    if not isinstance(groups, list) or not isinstance(state.get("state"), dict):
        return None
    found: list[Any] = []
    for group in groups:
        numbers = group.get("params") if isinstance(group, dict) else None
        if not isinstance(numbers, list) or not all(type(one) is kind for one in numbers):
            return None
        found += numbers
    return found if len(set(found)) == len(found) else None


def parameters_of(optimizer: Any) -> list[Any]:
    """Returns the parameters of all groups, in torch's order of numbers."""
    return [one for group in optimizer.param_groups for one in group["params"]]


def named_state(optimizer: Any, names: ParameterNames) -> Any:
    """Returns the state of an optimizer, with names in place of the numbers of parameters.

    The numbers stay if a parameter is in no module of the call, or if the class has its own
    state_dict().
    """
    state = optimizer.state_dict()
    saves = getattr(optimizer.state_dict, "__func__", None)
    numbers = numbers_in(state, int)
    if saves is not sys.modules["torch.optim"].Optimizer.state_dict or numbers is None:
        return state
    known = [names.of(parameter) for parameter in parameters_of(optimizer)]
    if len(known) != len(numbers) or not all(known):
        return state
    by_number = {number: one[0] for number, one in zip(numbers, known, strict=True)}
    entries = {_name_of(key, by_number): entry for key, entry in state["state"].items()}
    groups = [
        {**group, "params": [by_number[one] for one in group["params"]]}
        for group in state["param_groups"]
    ]
    return {**state, "state": entries, "param_groups": groups}


def _name_of(key: Any, names: dict[int, str]) -> Any:
    return names.get(key, key) if type(key) is int else key
