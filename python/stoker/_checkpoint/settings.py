"""Checks the arguments of a Checkpointer and converts them to native settings."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from stoker import _native
from stoker._checkpoint.device.cuda import SnapshotMemory
from stoker._checkpoint.state.values import checked_text
from stoker._common.durations import parse_duration
from stoker._common.numbers import whole_number
from stoker._pack.ingest import parse_size

_LOCKS = {"wait": None, "fail": 0.0}


def _check_best(best: Any) -> tuple[str, str, int] | None:
    if best is None:
        return None
    is_pair = isinstance(best, (tuple, list)) and len(best) in (2, 3)
    if not is_pair or not isinstance(best[0], str) or best[1] not in ("min", "max"):
        raise ValueError(f'keep_best={best!r}: (metric, "min" or "max", count)')
    metric, order, *count = best
    return metric, order, whole_number("keep_best: count", count[0], 1) if count else 1


def _count(name: str, given: int | None) -> int | None:
    return None if given is None else whole_number(name, given, 1)


def _size(name: str, given: int | str | None, hint: str = "") -> int | None:
    if given is None:
        return None
    try:
        size = parse_size(given)
    except ValueError as error:
        raise ValueError(f"{name}: {hint}{error}") from None
    return whole_number(name, size, 1, hint=hint)


def _lock_timeout(lock: float | str) -> float | None:
    if isinstance(lock, str) and lock in _LOCKS:
        return _LOCKS[lock]
    try:
        return parse_duration(lock, "lock")
    except (TypeError, ValueError) as error:
        raise type(error)(f'lock={lock!r}: "wait", "fail", or a time such as "90s"') from None


def make_settings(
    *,
    keep: tuple[int | None, int | None, Any],
    late: tuple[str, int, int | str | None],
    rate_limit: int | str | None,
    lock: tuple[float | str, float | str],
) -> _native.CheckpointerSettings:
    """Makes settings from the arguments of a Checkpointer, in groups.

    Raises:
        ValueError: An argument is invalid, or they contradict each other.
    """
    settings = _native.CheckpointerSettings()
    settings.keep_last = _count("keep_last", keep[0])
    settings.keep_every = _count("keep_every", keep[1])
    settings.keep_best = _check_best(keep[2])
    policy, in_flight, memory_bytes = late
    if policy not in ("block", "skip", "replace"):
        raise ValueError(f'late={policy!r}: it is "block", "skip" or "replace"')
    if policy == "replace" and in_flight == 1:
        raise ValueError("in_flight=1: must be at least 2 with late='replace'")
    settings.late, settings.in_flight = policy, whole_number("in_flight", in_flight, 1, 2**16)
    settings.memory_bytes = _size("memory_bytes", memory_bytes)
    limit = rate_limit.removesuffix("/s") if isinstance(rate_limit, str) else rate_limit
    settings.rate_limit = _size("rate_limit", limit, "None for no limit, or ") or 0
    settings.lock_timeout = _lock_timeout(lock[0])
    settings.lock_ttl = parse_duration(lock[1], "lock_ttl")
    if settings.lock_ttl == 0:
        raise ValueError(f"lock_ttl={lock[1]!r}: every other writer would count as dead at once")
    return settings


def make_snapshots(stage: Any, device_memory: int | str | None) -> SnapshotMemory:
    """Checks ``stage=`` and ``device_memory=``; ValueError if they are invalid."""
    if stage not in ("auto", "host", "device"):
        raise ValueError(f'stage={stage!r}: it is "auto", "host" or "device"')
    if stage == "host" and device_memory is not None:
        raise ValueError("device_memory= is for snapshots on the device, not for stage='host'")
    return SnapshotMemory(stage, _size("device_memory", device_memory))


def check_disks(disks: Any) -> bool:
    """Returns whether every node has a directory of its own; ValueError for another value."""
    if disks not in ("shared", "private"):
        raise ValueError(f'disks={disks!r}: it is "shared" or "private"')
    return bool(disks == "private")


def number_of(name: str, value: Any) -> float:
    """Converts a number of any kind; TypeError, or ValueError if too large, names ``name``."""
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name}: too large for a float") from None
    except (TypeError, ValueError):
        raise TypeError(f"{name}: a number, not {type(value).__name__}") from None


def numbers_of(reference: Any) -> dict[str, float]:
    """Returns the reference numbers by name; TypeError names one that is invalid."""
    if reference is None:
        return {}
    if not isinstance(reference, Mapping):
        raise TypeError(f"reference: numbers by name, a dict, not {type(reference).__name__}")
    for name in reference:
        if not isinstance(name, str):
            raise TypeError(f"reference: the name {name!r} is not a str")
        checked_text(name, f"reference: the name {name!r}")
    return {name: number_of(f"reference[{name!r}]", value) for name, value in reference.items()}


def name_of(step: int | str) -> str:
    """Returns the directory name of a step. "" is an error: the caller has lost a value."""
    if step == "":
        raise ValueError('step="": "latest", a number, or the name of a checkpoint')
    if isinstance(step, str):
        return f"step-{int(step):012}" if re.fullmatch("[0-9]{1,20}", step) else step
    return f"step-{step_number(step):012}"


def step_number(step: Any) -> int:
    """Returns the number of a step, from 0; fractions are an error."""
    return whole_number("step", step)


def check_allow(allow: Iterable[str], loader: Any) -> list[str]:
    """Returns what may differ in the state of a loader, which must be given if not empty."""
    if isinstance(allow, str):
        raise TypeError(f"allow is a set of names: {{{allow!r}}}")
    names = list(allow)
    if names and loader is None:
        raise ValueError("allow= is about the loader: pass loader= as well")
    return names


def check_only(only: Any) -> bool:
    """Returns whether only trainable parameters are saved; ValueError for another value."""
    if only not in (None, "trainable"):
        raise ValueError(f'only={only!r}: it is "trainable", or None for everything')
    return only is not None


def check_verify(verify: Any) -> None:
    """Raises ValueError if it is no value of ``verify=``."""
    if verify not in ("during", "before"):
        raise ValueError(f'verify={verify!r}: it is "during" or "before"')


def check_device(device: Any) -> None:
    """Raises ValueError if it is no device of torch; no tensor may be there that would say so."""
    torch = sys.modules.get("torch")
    if device is None or torch is None:
        return
    try:
        if isinstance(device, bool):
            raise TypeError
        torch.device(device)
    except (TypeError, RuntimeError):
        raise ValueError(f'device={device!r}: a device of torch, as "cpu" or "cuda:0"') from None


def check_loader(loader: Any, method: str) -> None:
    """Raises TypeError if the loader lacks the method to save or restore its position."""
    if loader is not None and not callable(getattr(loader, method, None)):
        raise TypeError(f"loader is what has {method}(), not {type(loader).__name__}")
