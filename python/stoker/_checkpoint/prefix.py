"""Detects names of a module's state that differ because one of the two was wrapped."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

# Wrappers, by the prefix that they add to the names of the module inside.
_WRAPPERS = {"module": "DistributedDataParallel", "_orig_mod": "torch.compile()"}


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
