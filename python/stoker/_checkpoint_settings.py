"""What a Checkpointer is told, checked and in native words."""

from __future__ import annotations

from typing import Any

from stoker import _native
from stoker._durations import parse_duration
from stoker._ingest import parse_size

_LOCKS = {"wait": None, "fail": 0.0}


def _check_best(best: Any) -> tuple[str, str, int] | None:
    if best is None:
        return None
    metric, order, *count = best
    if order not in ("min", "max") or len(count) > 1:
        raise ValueError(f'keep_best={best!r}: (metric, "min" or "max", count)')
    return str(metric), order, int(count[0]) if count else 1


def make_settings(
    *,
    keep: tuple[int | None, int | None, Any],
    late: tuple[str, int, int | str | None],
    rate_limit: int | str | None,
    lock: tuple[float | str, float | str],
) -> _native.CheckpointerSettings:
    """Of the arguments of a Checkpointer, in groups.

    Raises:
        ValueError: One says nothing, or they contradict each other.
    """
    settings = _native.CheckpointerSettings()
    settings.keep_last, settings.keep_every = keep[:2]
    settings.keep_best = _check_best(keep[2])
    policy, in_flight, memory_bytes = late
    if policy not in ("block", "skip", "replace"):
        raise ValueError(f'late={policy!r}: it is "block", "skip" or "replace"')
    if in_flight < 1 or (policy == "replace" and in_flight < 2):
        raise ValueError(f"in_flight={in_flight}: at least 1, and 2 with late='replace'")
    settings.late, settings.in_flight = policy, in_flight
    settings.memory_bytes = parse_size(memory_bytes)
    limit = rate_limit.removesuffix("/s") if isinstance(rate_limit, str) else rate_limit
    settings.rate_limit = parse_size(limit) or 0
    if isinstance(lock[0], str) and lock[0] in _LOCKS:
        settings.lock_timeout = _LOCKS[lock[0]]
    else:
        settings.lock_timeout = parse_duration(lock[0], "lock")
    settings.lock_ttl = parse_duration(lock[1], "lock_ttl")
    return settings


def number_of(name: str, value: Any) -> float:
    """A number of any kind; TypeError names ``name``."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: a number, not {type(value).__name__}") from None


def name_of(step: int | str) -> str:
    """Of the directory of a step."""
    return step if isinstance(step, str) else f"step-{int(step):012}"
