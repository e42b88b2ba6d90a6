"""Whether an optimizer can take the state that another one has saved."""

from __future__ import annotations

from typing import Any

from stoker._checkpoint.fit_tensors import Misfit

# Of torch's optimizers; others are everybody's, a scheduler's, or the caller's own.
_OPTIMIZER_SETTINGS = {
    *("alpha", "amsgrad", "beta2_decay", "betas", "centered", "d", "dampening", "eps", "etas"),
    *("history_size", "initial_accumulator_value", "lambd", "line_search_fn", "lr_decay"),
    *("max_eval", "max_iter", "momentum", "momentum_decay", "nesterov", "ns_steps", "rho"),
    *("step_sizes", "t0", "tolerance_change", "tolerance_grad"),
}


def check_groups(saved: Any, state: Any, path: str, optimizer: str, source: str) -> None:
    """What load_state_dict() of an optimizer would refuse, after others were restored."""
    counts = [_group_sizes(one) for one in (state, saved)]
    if counts[0] != counts[1]:
        raise Misfit(f"{path}: groups of {counts[0]} parameters, but of {counts[1]} in {source}")
    mine, theirs = (_settings_in(one) for one in (state, saved))
    if mine - theirs and theirs - mine:  # one way alone is another version of torch
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
    """What tells the optimizer of a state apart from others, of the settings of its groups."""
    try:
        return {name for group in state["param_groups"] for name in group} & _OPTIMIZER_SETTINGS
    except (KeyError, TypeError):
        return set()
