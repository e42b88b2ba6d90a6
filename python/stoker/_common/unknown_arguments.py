"""Errors for unknown arguments, with the one that may be meant."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_NO_HINTS: Mapping[str, str] = {}


def refuse_arguments(
    names: Iterable[str],
    kind: Callable[..., Any],
    hints: Mapping[str, str] = _NO_HINTS,
    more: Iterable[str] = (),
) -> None:
    """Raises if there are any unknown arguments.

    ``hints``: what to say about arguments of a torch DataLoader. ``more``: arguments that are not
    in the signature.

    Raises:
        TypeError: Names the first of them, and what may be meant.
    """
    for name in names:
        message = f"{kind.__name__}() has no argument {name!r}"
        if name in hints:
            raise TypeError(f"{message}, which a torch DataLoader has: {hints[name]}")
        parameters = inspect.signature(kind).parameters.values()
        known = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY] + [*more]
        near = difflib.get_close_matches(name, known, 1)
        raise TypeError(f"{message}; did you mean {near[0]!r}?" if near else message)
