"""Restores the newest checkpoint that is valid on every rank. The core chooses it."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from collections.abc import Callable
from typing import Any, Generic, NoReturn, Protocol, TypeVar

from stoker import _native
from stoker._checkpoint.ranks.job import Meetings
from stoker._common.corrupt import error_text, is_damage
from stoker._common.ranks import Ranks
from stoker._common.users import UsersError
from stoker._loader.cursors import CursorDifference, CursorMismatch


class Checked(Protocol):
    """A checkpoint that fits; nothing was changed so far."""

    @property
    def lacking(self) -> list[str]:
        """Lines about what it has and this rank lacks; some rank must have it, if it is strict."""

    @property
    def is_strict(self) -> bool:
        """Whether the restore fails if no rank has it."""

    def add_unexpected(self, lines: list[str]) -> None:
        """Takes those lines that are from all ranks, if it is not strict."""

    def read(self, checkpoint: _native.OpenCheckpoint) -> None:
        """Fills the arrays to restore."""


Attempt = TypeVar("Attempt", bound=Checked)
Try = Callable[[_native.OpenCheckpoint], Attempt]
# Its name, the skipped ones, and the generations of those whose data is damaged.
Chosen = tuple[str, list[tuple[str, str]], list[int]]
Report = tuple[str, str, str, bool]  # in the form of the core
_PLACE = ("path", "offset", "tensor")  # attributes of a CorruptError
# The first one that an error is an instance of.
_KINDS: dict[str, type[Exception]] = {
    "CursorMismatch": CursorMismatch,
    "ValueError": ValueError,
    "TypeError": TypeError,
}


def choose_together(
    directory: str,
    choice: tuple[str, bool],
    attempt: Try[Attempt],
    ranks: Ranks,
    meetings: Meetings,
    timeout: float,
) -> tuple[Chosen, Any]:
    """Returns what all ranks restore, and the attempt. ``choice``: name and finite.

    The name is empty if there is no checkpoint. If one rank calls ``refuse_together`` instead, this
    raises on all of them.

    Raises:
        UsersError: The caller's own code failed on this rank.
    """
    end = time.monotonic() + timeout
    session = meetings.meet("restore", timeout) if ranks.world_size > 1 else None
    left = max(0.0, end - time.monotonic())
    trial = _Trial(attempt)
    name, passed_over, damaged, failure, unused = _native.restore_checkpoint(
        os.fsencode(directory),
        *choice,
        session,
        (trial.check, trial.read),
        left,
        meetings.is_private,
    )
    if failure is not None:
        is_own, message, detail = failure
        if is_own and trial.error is not None:
            raise trial.error
        raise _error_of(message, json.loads(detail)) if detail else ValueError(message)
    if unused and trial.made is not None:
        trial.made.add_unexpected(unused)
    return (name, passed_over, damaged), trial.made


def refuse_together(
    error: Exception, directory: str, ranks: Ranks, meetings: Meetings, timeout: float
) -> NoReturn:
    """Raises ``error``, about the arguments of this rank, on every rank."""
    if ranks.world_size > 1:
        with contextlib.suppress(OSError, ValueError):  # `error` is the cause
            session = meetings.meet("restore", timeout)
            _native.refuse_restore(session, _report(error), timeout)
    raise error


class _Trial(Generic[Attempt]):
    """Checks and reads checkpoints for the core.

    Attributes:
        made: The attempt for the checkpoint that was checked last.
        error: Why the last trial failed; None if it did not.
    """

    def __init__(self, attempt: Try[Attempt]) -> None:
        self._attempt = attempt
        self.made: Attempt | None = None
        self.error: Exception | None = None

    def check(self, checkpoint: _native.OpenCheckpoint) -> Report | None:
        """Checks whether the checkpoint fits; changes nothing."""
        self.made = None

        def act() -> None:
            self.made = self._attempt(checkpoint)

        report = self._reported(act)
        if report is None and self.made is not None and self.made.lacking:
            kind = "lacks" if self.made.is_strict else "unexpected"
            return kind, "\0".join(self.made.lacking), "", False
        return report

    def read(self, checkpoint: _native.OpenCheckpoint) -> Report | None:
        """Fills the arrays from the checkpoint that was checked last."""
        made = self.made
        return None if made is None else self._reported(lambda: made.read(checkpoint))

    def _reported(self, act: Callable[[], None]) -> Report | None:
        self.error = None
        try:
            act()
        except Exception as error:
            self.error = error
            return _report(error)
        return None


def _report(error: Exception) -> Report:
    """Returns the report for the core and the other ranks."""
    is_callers = isinstance(error, UsersError)
    if isinstance(error, UsersError):
        error = error.error
    is_damaged = is_damage(error)
    detail = {
        "kind": next((name for name, kind in _KINDS.items() if isinstance(error, kind)), ""),
        "errno": error.errno if isinstance(error, OSError) else None,
        "place": {name: getattr(error, name, None) for name in _PLACE} if is_damaged else None,
        "differences": error.differences if isinstance(error, CursorMismatch) else (),
    }
    kind = "failed"
    if isinstance(error, FileNotFoundError):
        kind, detail["errno"] = "gone", error.errno or errno.ENOENT
    message = error_text(error)
    return (
        "damaged" if is_damaged else kind,
        message.encode("utf-8", "backslashreplace").decode(),
        json.dumps(detail),
        is_callers,
    )


def _error_of(message: str, detail: dict[str, Any]) -> Exception:
    """Returns the error that a report describes."""
    if detail["place"] is not None:
        error = _native.CorruptError(message)
        vars(error).update(detail["place"])
        return error
    if detail["errno"] is not None:
        return OSError(detail["errno"], message)  # Python selects the subclass
    if detail["kind"] == "CursorMismatch":
        return CursorMismatch(message, [CursorDifference(*one) for one in detail["differences"]])
    return _KINDS.get(detail["kind"], RuntimeError)(message)
