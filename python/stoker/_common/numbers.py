"""Numbers that callers give, checked where they are given and named in what is raised."""

from __future__ import annotations

import operator
from typing import Any

_MOST = 2**64 - 1  # what the core has room for


def whole_number(name: str, given: Any, least: int = 0, most: int = _MOST, hint: str = "") -> int:
    """``given`` as an int, which it must be: of 2.5 nothing is cut off, and True is not 1.

    ``hint`` says what else it may be, before what is said of the limits.

    Raises:
        TypeError: It is no whole number.
        ValueError: It is less than ``least`` or more than ``most``.
    """
    try:
        if isinstance(given, bool):
            raise TypeError  # which Python counts as 0 and 1, and no caller means as that
        number = operator.index(given)
    except TypeError:
        raise TypeError(f"{name}={given!r}: must be {hint}a whole number") from None
    if not least <= number <= most:
        limit = f"at least {least}" if number < least else f"at most {most}"
        raise ValueError(f"{name}={number}: must be {hint}{limit}")
    return number
