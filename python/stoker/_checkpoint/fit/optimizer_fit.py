"""Checks whether an optimizer can take the state that another one has saved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stoker._checkpoint.fit.optimizer_names import Numbered
from stoker._checkpoint.fit.tensor_fit import Misfit
from stoker._checkpoint.state.nodes import TensorNode
from stoker._checkpoint.state.parameters import parameters_of
from stoker._checkpoint.state.values import parts_of, with_parts
from stoker._checkpoint.tensors.distributed import is_dtensor, new_like
from stoker._checkpoint.tensors.flattened import Flattened

# Settings of torch's optimizers; others are common to all, a scheduler's, or the caller's own.
_OPTIMIZER_SETTINGS = {
    *("alpha", "amsgrad", "beta2_decay", "betas", "centered", "d", "dampening", "eps", "etas"),
    *("history_size", "initial_accumulator_value", "lambd", "line_search_fn", "lr_decay"),
    *("max_eval", "max_iter", "momentum", "momentum_decay", "nesterov", "ns_steps", "rho"),
    *("step_sizes", "t0", "tolerance_change", "tolerance_grad"),
}
_ORDER_ADVICE = (
    "; give the optimizer its parameters and groups in the order in which they were saved"
)
# State of torch's optimizers that has the shape of its parameter.
_LIKE_PARAMETER = {
    *("acc_delta", "ax", "exp_avg", "exp_avg_sq", "exp_inf", "grad_avg", "max_exp_avg_sq"),
    *("momentum_buffer", "prev", "square_avg", "step_size", "sum"),
}


def without_parts_of_others(
    numbered: Numbered,
    optimizer: Any,
    path: str,
    shape_of: Callable[[TensorNode, str], tuple[int, ...]],
) -> None:
    """Leaves out the state of plain parameters that have no elements on this rank.

    FSDP1 distributes elements of parameters over the ranks by itself: only ranks that have some of
    a parameter have a state of it.
    """
    saved = numbered.state
    states = saved.get("state") if isinstance(saved, dict) else None
    if not isinstance(states, dict):
        return
    parameters = parameters_of(optimizer)

    def is_of_others(number: Any, state: Any) -> bool:
        if type(number) is not int or not 0 <= number < len(parameters):
            return False
        mine = parameters[number]
        if mine.numel() > 0 or is_dtensor(mine) or not isinstance(state, dict):
            return False
        place = f"{path}['state'][{numbered.labels.get(number, number)!r}]"
        nodes = {name: state[name] for name in _LIKE_PARAMETER & state.keys()}
        return any(
            isinstance(node, TensorNode)
            and not node.is_slice
            and shape_of(node, f"{place}[{name!r}]") != tuple(mine.shape)
            for name, node in nodes.items()
        )

    left = {number: state for number, state in states.items() if not is_of_others(number, state)}
    numbered.state = {**saved, "state": left}


def check_shapes(
    numbered: Numbered,
    optimizer: Any,
    path: str,
    shape_of: Callable[[TensorNode, str], tuple[int, ...]],
    source: str,
) -> None:
    """Refuses the state of other parameters, which a fresh optimizer has nothing to compare with.

    Args:
        numbered: The saved state.
        optimizer: Only those of torch are known.
        path: Its place.
        shape_of: The shape of a saved tensor, and its place.
        source: The checkpoint.
    """
    saved = numbered.state
    states = saved.get("state") if isinstance(saved, dict) else None
    if not type(optimizer).__module__.startswith("torch.optim.") or not isinstance(states, dict):
        return
    parameters = parameters_of(optimizer)
    for number, state in states.items():
        if type(number) is not int or not 0 <= number < len(parameters):
            continue  # load_state_dict() knows what to do with it
        mine = tuple(parameters[number].shape)
        for name, node in state.items() if isinstance(state, dict) else ():
            is_plain = isinstance(node, TensorNode) and node.element is None
            label = numbered.labels.get(number, number)
            place = f"{path}['state'][{label!r}][{name!r}]"
            if name not in _LIKE_PARAMETER or not is_plain or shape_of(node, place) == mine:
                continue
            raise Misfit(
                f"{place}: of shape {shape_of(node, place)} in {source}, but parameter {label} of "
                f"{type(optimizer).__name__} is of shape {mine}"
                + ("" if numbered.labels else _ORDER_ADVICE)
            )


@dataclass(frozen=True)
class NewTensors:
    """Makes the DTensors of an optimizer that has none so far.

    Attributes:
        type_of: The torch type and the shape of a saved tensor.
        device: Where the state of parameters on meta is.
        source: The checkpoint.
    """

    type_of: Callable[[TensorNode, str], tuple[Any, Any]]
    device: Any
    source: str

    def like(self, saved: Any, parameter: Any, place: str) -> Any:
        """Returns what a saved value is restored into; None if it needs nothing in memory.

        Raises:
            Misfit: A part of a tensor of another shape: how it is distributed is unknown.
        """
        if isinstance(saved, Flattened):
            return None
        if isinstance(saved, TensorNode):
            dtype, shape = self.type_of(saved, place) if saved.is_torch else (None, ())
            if dtype is not None and shape == tuple(parameter.shape):
                return new_like(parameter, dtype, self.device)
            if saved.is_slice:
                raise Misfit(
                    f"{place}: distributed over ranks in {self.source}, with shape {shape}, and "
                    f"its parameter has shape {tuple(parameter.shape)}: how this optimizer "
                    "distributes it is known after its first step: make one before restore()"
                )
            return None
        parts = parts_of(saved) or []
        made = [self.like(part, parameter, f"{place}[{key!r}]") for key, part in parts]
        return with_parts(saved, made) if any(one is not None for one in made) else None


def with_distributed(
    numbered: Numbered, state: Any, optimizer: Any, path: str, new: NewTensors
) -> Any:
    """Returns the state of an optimizer, with new DTensors where it has none so far.

    A saved tensor of the shape of a parameter that is a DTensor is distributed as the parameter,
    also in lists and dicts.
    """
    saved = numbered.state
    entries = saved.get("state") if isinstance(saved, dict) else None
    have = state.get("state") if isinstance(state, dict) else None
    if not isinstance(entries, dict) or not isinstance(have, dict):
        return state
    parameters = parameters_of(optimizer)
    made: dict[Any, Any] = {}
    for number, entry in entries.items():
        if type(number) is not int or not 0 <= number < len(parameters):
            continue
        parameter, mine = parameters[number], have.get(number, {})
        if not is_dtensor(parameter) or not isinstance(entry, dict) or type(mine) is not dict:
            continue
        place = f"{path}['state'][{numbered.labels.get(number, number)!r}]"
        found = {
            name: new.like(item, parameter, f"{place}[{name!r}]")
            for name, item in entry.items()
            if name not in mine
        }
        kept = {name: item for name, item in found.items() if item is not None}
        if kept:
            made[number] = {**mine, **kept}
    return {**state, "state": {**have, **made}} if made else state


def check_groups(saved: Any, state: Any, path: str, optimizer: str, source: str) -> None:
    """Raises Misfit for what load_state_dict() would refuse, before anything is restored."""
    counts = [_group_sizes(one) for one in (state, saved)]
    if counts[0] != counts[1]:
        raise Misfit(f"{path}: groups of {counts[0]} parameters, but of {counts[1]} in {source}")
    mine, theirs = (_settings_in(one) for one in (state, saved))
    if mine - theirs and theirs - mine:  # in one direction only: another version of torch
        raise Misfit(
            f"{path}: another optimizer has saved it: {optimizer} has "
            f"{', '.join(sorted(mine - theirs))} in its param_groups, and {source} has "
            f"{', '.join(sorted(theirs - mine))}; restore into an optimizer of the same class, "
            f"or leave {path} out and start it anew"
        )


def _group_sizes(state: Any) -> list[int]:
    try:
        return [len(group["params"]) for group in state["param_groups"]]
    except (KeyError, TypeError):
        return []


def _settings_in(state: Any) -> set[str]:
    """Returns the settings in its groups that distinguish the optimizer from others."""
    try:
        return {name for group in state["param_groups"] for name in group} & _OPTIMIZER_SETTINGS
    except (KeyError, TypeError):
        return set()
