"""Parses times such as 90, "90s", "30min", "2h"."""

from __future__ import annotations

import numbers
import re

_SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_duration(duration: float | str, what: str) -> float:
    """Returns seconds.

    Raises:
        ValueError: It is not a time, or negative; names ``what``.
        TypeError: It is neither a number nor a str.
    """
    if isinstance(duration, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", duration)
        if match is None or match[2] not in _SECONDS:
            raise ValueError(f'{what}: {duration!r} is not a time such as "90s", "30min" or "2h"')
        return float(match[1]) * _SECONDS[match[2]]
    if isinstance(duration, bool) or not isinstance(duration, numbers.Real):
        raise TypeError(f'{what}: {duration!r} is not a time: seconds, or such as "30min"')
    if not duration >= 0:
        raise ValueError(f"{what}: {duration!r} is not a time: seconds, from 0 on")
    return float(duration)
