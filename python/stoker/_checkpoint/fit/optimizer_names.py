"""Converts the saved state of an optimizer, by names of parameters, to the numbers of torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from stoker._checkpoint.fit.tensor_fit import Misfit
from stoker._checkpoint.state.containers import is_same
from stoker._checkpoint.state.parameters import ParameterNames, numbers_in, parameters_of

_OF_ORDER = ("params", "param_names")  # in a group: they follow the order of the parameters


@dataclass
class Numbered:
    """A saved state, with the numbers of parameters in memory.

    Attributes:
        state: The state, as the optimizer in memory loads it.
        labels: The names of parameters, by number.
        missing: Names of parameters in memory that were not saved.
        unexpected: Names of saved parameters that the optimizer does not have.
    """

    state: Any
    labels: dict[int, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)


def numbered_state(
    saved: Any, state: Any, optimizer: Any, names: ParameterNames, where: tuple[str, str]
) -> Numbered:
    """Converts a saved state; one by numbers is returned as it is.

    Parameters are found by their names, in any order and in any groups whose settings agree. If no
    module in the call has them, their order decides.

    Args:
        saved: The saved state.
        state: The state in memory.
        optimizer: The optimizer in memory.
        names: The names of its parameters.
        where: Its place, and the checkpoint, for messages.

    Raises:
        Misfit: Parameters of one group were saved in groups with other settings.
    """
    theirs, mine = numbers_in(saved, str), numbers_in(state, int)
    parameters = parameters_of(optimizer)
    if theirs is None or mine is None or len(mine) != len(parameters):
        return Numbered(saved)
    known = [names.of(parameter) for parameter in parameters]
    if not all(known):
        return Numbered(_in_order(saved, theirs))
    group_of = {
        name: number
        for number, group in enumerate(saved["param_groups"])
        for name in group["params"]
    }
    found: dict[int, str] = {}
    made = Numbered(None)
    for number, aliases in zip(mine, known, strict=True):
        name = next((one for one in aliases if one in group_of), None)
        made.labels[number] = aliases[0] if name is None else name
        if name is None:
            made.missing.append(aliases[0])
        else:
            found[number] = name
    used = set(found.values())
    made.unexpected = [name for name in theirs if name not in used]
    entries = {key: entry for key, entry in saved["state"].items() if key not in group_of}
    for number, name in found.items():
        if name in saved["state"]:
            entries[number] = saved["state"][name]
    groups = []
    for number, group in enumerate(state["param_groups"]):
        sources = sorted({group_of[found[one]] for one in group["params"] if one in found})
        settings = [_settings_of(saved["param_groups"][source]) for source in sources]
        if any(not is_same(settings[0], one) for one in settings[1:]):
            raise Misfit(
                f"{where[0]}: parameters of its group {number} are in groups "
                f"{', '.join(map(str, sources))} of {where[1]}, whose settings differ"
            )
        chosen = settings[0] if settings else _settings_of(group)
        groups.append({**chosen, "params": group["params"]})
    made.state = {**saved, "state": entries, "param_groups": groups}
    return made


def _settings_of(group: dict[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in group.items() if key not in _OF_ORDER}


def _in_order(saved: Any, theirs: list[str]) -> Any:
    """Returns a saved state with numbers in the order of the names."""
    numbers = {name: number for number, name in enumerate(theirs)}
    entries = {
        numbers.get(key, key) if type(key) is str else key: entry
        for key, entry in saved["state"].items()
    }
    groups = [
        {**group, "params": [numbers[name] for name in group["params"]]}
        for group in saved["param_groups"]
    ]
    return {**saved, "state": entries, "param_groups": groups}
