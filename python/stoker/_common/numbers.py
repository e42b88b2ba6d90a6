"""Checks numbers from the caller; errors name the argument."""

from __future__ import annotations

import operator
from typing import Any

_MOST = 2**64 - 1  # the largest number that the core can store


def whole_number(name: str, given: Any, least: int = 0, most: int = _MOST, hint: str = "") -> int:
    """Returns ``given`` as an int. Nothing is rounded: 2.5 and True are errors.

    ``hint`` says what else it may be, before the text about the limits.

    Raises:
        TypeError: It is not a whole number.
        ValueError: It is less than ``least`` or more than ``most``.
    """
    try:
        if isinstance(given, bool):
            raise TypeError  # an int for Python, but not meant as a number
        number = operator.index(given)
    except TypeError:
        raise TypeError(f"{name}={given!r}: must be {hint}a whole number") from None
    if not least <= number <= most:
        limit = f"at least {least}" if number < least else f"at most {most}"
        raise ValueError(f"{name}={number}: must be {hint}{limit}")
    return number
