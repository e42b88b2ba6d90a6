"""Matches names of a module's state that differ because one of the two was wrapped."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from typing import Any

# Wrappers, by the prefix that they add to the names of the module inside.
_WRAPPERS = {"module": "DistributedDataParallel", "_orig_mod": "torch.compile()"}
_PREFIXES = {*_WRAPPERS, "_checkpoint_wrapped_module", "_fsdp_wrapped_module"}
_PREFIXES_MAX = 8  # in one name; every subset of them is tried


def _wrappers_of(names: Collection[Any]) -> list[str]:
    """Returns the wrappers whose prefixes begin all names, the outermost first."""
    found: list[str] = []
    if not names or not all(isinstance(name, str) for name in names):
        return found
    while True:
        prefix = "".join(f"{wrapper}." for wrapper in found)
        for wrapper in _WRAPPERS:
            if all(name.startswith(f"{prefix}{wrapper}.") for name in names):
                found.append(wrapper)
                break
        else:
            return found


def prefix_hint(
    saved: Collection[Any], have: Collection[Any], source: str, *, of_module: bool
) -> str | None:
    """Returns what to do if the names differ by a wrapper's prefix; None if they do not.

    ``saved`` are the names in the checkpoint ``source``, ``have`` those of a module or a dict in
    memory.
    """
    there, here = _wrappers_of(saved), _wrappers_of(have)
    if there == here:
        return None
    prefixes = ["".join(f"{wrapper}." for wrapper in found) for found in (there, here)]
    bare = [
        {name.removeprefix(prefix) for name in names}
        for names, prefix in zip((saved, have), prefixes, strict=True)
    ]
    if bare[0].isdisjoint(bare[1]):
        return None
    words = [repr(prefix) if prefix else "no prefix" for prefix in prefixes]
    causes = " and ".join(
        f"{_WRAPPERS[name]} adds {name + '.'!r}" for name in dict.fromkeys([*there, *here])
    )
    return (
        f"all names differ by a prefix: {words[0]} in {source}, {words[1]} in memory ({causes}); "
        + (_cure_of_module(there, here) if of_module else f"use names that begin with {words[0]}")
    )


def _cure_of_module(there: list[str], here: list[str]) -> str:
    inner = ".".join(["model", *here])
    target = inner
    for wrapper in reversed(there):
        target = f"torch.nn.ModuleDict({{{wrapper!r}: {target}}})"
    cure = f"restore into {target} instead"
    return f"{cure}, and save {inner} from now on" if there else cure


def match_names(
    saved: Collection[Any], names: Mapping[str, str], *, is_bare: bool
) -> dict[Any, str]:
    """Returns saved names of a module's state, each with the name in memory that it belongs to.

    Args:
        saved: The names in the checkpoint. What belongs to none in memory is left out.
        names: The names in memory, each with the name that it has without wrappers.
        is_bare: Whether the names were saved without wrappers' prefixes. Versions that did not take
            them off recorded no types: only then a prefix is recognised by its text, and only if
            the name without it is one in memory.
    """
    by_bare = {bare: name for name, bare in names.items()}
    matched = {one: by_bare[one] for one in saved if one in by_bare}
    whole = {one: one for one in saved if one in names}
    if len(whole) > len(matched):
        matched = whole
    if is_bare or len(matched) == len(saved):
        return matched
    found = [(one, _without_prefixes(one, by_bare)) for one in saved]
    guessed = {one: by_bare[bare] for one, bare in found if bare is not None}
    is_unique = len(set(guessed.values())) == len(guessed)
    return guessed if is_unique and len(guessed) > len(matched) else matched


def _without_prefixes(name: Any, known: Collection[str]) -> str | None:
    """Returns the only known name that is ``name`` without some of the wrappers' prefixes."""
    if name in known or not isinstance(name, str):
        return name if name in known else None
    parts = name.split(".")
    places = [i for i, part in enumerate(parts[:-1]) if part in _PREFIXES][:_PREFIXES_MAX]
    found = set()
    for count in range(1, len(places) + 1):
        for left_out in itertools.combinations(places, count):
            found.add(".".join(part for i, part in enumerate(parts) if i not in left_out))
    found.intersection_update(known)
    return found.pop() if len(found) == 1 else None
