"""Which checkpoint is restored: the newest that is valid on every rank."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, Protocol, TypeVar

from stoker import _native
from stoker._checkpoint.job import Meetings
from stoker._checkpoint.users import UsersError
from stoker._common.ranks import Ranks
from stoker._loader.cursors import CursorDifference, CursorMismatch


class Checked(Protocol):
    """A checkpoint that fits; nothing was touched so far."""

    def read(self, checkpoint: _native.OpenCheckpoint) -> None:
        """Fills what is to be restored."""


Attempt = TypeVar("Attempt", bound=Checked)
Given = TypeVar("Given")
Try = Callable[[_native.OpenCheckpoint], Attempt]
Chosen = tuple[str, list[tuple[str, str]]]  # its name, and those that were passed over
_FAREWELL_SECONDS = 10.0
_SEEN_SECONDS = 5.0
_LOOK_SECONDS = 0.1
_left_open: list[_native.Session] = []  # of restores that a rank did not hear the end of
_PLACE = ("path", "offset", "tensor")  # of a CorruptError
# The first that an error is an instance of.
_KINDS: dict[str, type[Exception]] = {
    "CursorMismatch": CursorMismatch,
    "ValueError": ValueError,
    "TypeError": TypeError,
}


def choose(directory: str, name: str, finite: bool, attempt: Try[Attempt]) -> tuple[Chosen, Any]:
    """Of one process: the newest that ``attempt`` can read, and what that gave.

    The name is empty if there is none.
    """

    def check_and_read(checkpoint: _native.OpenCheckpoint) -> Attempt:
        made = attempt(checkpoint)
        made.read(checkpoint)
        return made

    return _choose(directory, name, finite, check_and_read)


def _choose(directory: str, name: str, finite: bool, use: Try[Attempt]) -> tuple[Chosen, Any]:
    gave: list[Attempt] = []
    tensors: dict[str | None, str | None] = {}  # that are damaged, by the path of the file
    is_tried = False

    def try_one(checkpoint: _native.OpenCheckpoint) -> None:
        nonlocal is_tried
        is_tried = True
        try:
            gave[:] = [use(checkpoint)]
        except _native.CorruptError as error:
            tensors.setdefault(error.path, error.tensor)
            raise

    try:
        chosen = _native.choose_checkpoint(os.fsencode(directory), name, finite, try_one)
    except _native.CorruptError as error:  # if none holds: a new one, with the path of the first
        error.tensor = tensors.get(error.path)
        raise
    except FileNotFoundError:
        if name or is_tried:
            raise
        return ("", []), None  # there is no such directory
    return chosen, gave[0] if gave else None


def choose_together(
    directory: str,
    choice: tuple[str, bool],
    attempt: Try[Attempt],
    ranks: Ranks,
    meetings: Meetings,
    timeout: float,
) -> tuple[Chosen, Any]:
    """The same by all ranks of a run. ``choice``: name and finite.

    If ``refuse_together`` is called instead on one rank it raises on all of them.

    Raises:
        UsersError: Code of the caller's has failed on this rank.
    """
    if ranks.world_size == 1:
        return choose(directory, *choice, attempt)
    together = Together(directory, ranks, meetings, timeout)
    try:
        return together.choose(*choice, attempt)
    finally:
        together.close()


def refuse_together(
    error: Exception, directory: str, ranks: Ranks, meetings: Meetings, timeout: float
) -> NoReturn:
    """Raises ``error``, which is about what this rank was asked to restore, on every rank."""
    if ranks.world_size > 1:
        with contextlib.suppress(OSError, ValueError):  # this one's error is the cause
            together = Together(directory, ranks, meetings, timeout)
            try:
                together.refuse(error)
            finally:
                together.close()
    raise error


def _is_damage(error: BaseException) -> bool:
    if isinstance(error, _native.CorruptError):
        return True
    return isinstance(error, OSError) and error.errno == errno.EIO


class _OtherGenerationError(Exception):
    """A name leads to another checkpoint than rank 0 has seen there."""


class _ThenError(Exception):
    """What has failed when the ranks had agreed on something: it is not tried again."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class _Refused(Exception):  # noqa: N818 (what others said)
    """Another rank has found that the checkpoint does not fit, or is damaged."""

    def __init__(self, verdict: dict[str, Any]) -> None:
        super().__init__(verdict["message"])
        self.verdict = verdict


class Together:
    """One restore by several ranks: all of them restore the same checkpoint, or all raise.

    First they compare what was asked for; a rank that refuses what it was asked for says so. Then
    rank 0 goes through the checkpoints. Of each it tells the others name and generation. Everybody
    checks it, touching nothing, and says how that went; rank 0 says what follows. Then everybody
    reads it, and they agree on that in the same way. If it is damage on one rank all pass it over,
    and any other error is everybody's.
    """

    def __init__(self, directory: str, ranks: Ranks, meetings: Meetings, timeout: float) -> None:
        self._directory, self._ranks = directory, ranks
        self._end = time.monotonic() + timeout
        self._session = meetings.meet("restore", timeout)
        self._round = 0
        self._is_told = False  # an error that everybody knows
        self._is_lost = False  # a rank is missing: there is nobody to wait for

    def _left(self) -> float:
        return max(0.0, self._end - time.monotonic())

    def _tell(self, what: str, value: Any = None) -> Any:
        """Rank 0's words, on every rank."""
        with self._listening():
            key = f"{what}-{self._round}"
            return json.loads(self._session.broadcast(key, json.dumps(value), self._left()))

    def _hear(self, value: Any) -> list[Any]:
        """Everybody's words, on rank 0; on others nothing."""
        with self._listening():
            texts = self._session.gather(f"tried-{self._round}", json.dumps(value), self._left())
            return [json.loads(text) for text in texts]

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._is_lost = True
            raise

    def choose(self, name: str, finite: bool, attempt: Try[Attempt]) -> tuple[Chosen, Any]:
        """The same as the function, agreed by all."""
        self._compare({"asked": [name, finite]})
        if self._ranks.rank != 0:
            return self._follow(attempt)
        try:
            chosen, gave = _choose(self._directory, name, finite, lambda c: self._lead(c, attempt))
        except _ThenError as told:
            raise told.error from None
        except BaseException as error:
            if not self._is_told and not self._is_lost:
                self._round += 1
                self._tell("try", {"error": _describe(error)})
            raise
        self._round += 1
        self._tell("try", {"chosen": chosen})
        return chosen, gave

    def refuse(self, error: Exception) -> None:
        """Tells the others that this rank cannot even ask."""
        self._compare({"refused": _describe(error)})

    def _compare(self, wish: dict[str, Any]) -> None:
        """Raises on every rank if one is refused, or asks for another checkpoint than rank 0."""
        self._round += 1
        said = self._hear(wish)
        refused = [(rank, one["refused"]) for rank, one in enumerate(said) if "refused" in one]
        others = [rank for rank, one in enumerate(said) if one != wish]
        verdict = None
        if refused:
            verdict = {"rank": refused[0][0], **refused[0][1]}
        elif others:
            what = [
                f"rank {rank} restores {_wish(*said[rank]['asked'])}" for rank in (0, others[0])
            ]
            verdict = {"differing": " and ".join(what)}
        verdict = self._tell("compared", verdict)
        if verdict is None or "refused" in wish:
            return
        if "rank" in verdict:
            raise _error_of(verdict)
        raise ValueError(f"{self._directory}: {verdict['differing']}: all ranks restore the same")

    def _lead(self, checkpoint: _native.OpenCheckpoint, attempt: Try[Attempt]) -> Attempt:
        self._round += 1
        name = os.path.basename(checkpoint.directory)  # noqa: PTH119
        self._tell("try", {"name": name, "place": [checkpoint.generation, checkpoint.line]})
        made = self._lead_in(lambda: attempt(checkpoint))
        self._round += 1
        self._lead_in(lambda: made.read(checkpoint))
        return made

    def _lead_in(self, act: Callable[[], Given]) -> Given:
        """Acts as all others do, and says what follows from all that went wrong."""
        gave, error = None, None
        try:
            gave = act()
        except Exception as raised:
            error = raised
        said = self._hear(None)
        said[0] = _report(error)
        failed = [(rank, report) for rank, report in enumerate(said) if report is not None]
        # Errors first: they end it. What is gone on one rank is looked for again by all.
        failed.sort(key=lambda pair: (pair[1]["is_damage"], pair[1]["is_gone"]))
        verdict = {"rank": failed[0][0], **failed[0][1]} if failed else None
        self._tell("said", verdict)
        if verdict is not None:
            self._is_told = not verdict["is_damage"] and not verdict["is_gone"]
            if error is not None and verdict["rank"] == 0:
                raise error
            told = _error_of(verdict)
            raise _ThenError(told) if self._is_told else told  # not to be taken for damage here
        return gave  # type: ignore[return-value]

    def _agreed(self, error: Exception | None) -> dict[str, Any] | None:
        """What rank 0 says when it has heard how it went here; None if it went well everywhere."""
        self._hear(_report(error))
        verdict: dict[str, Any] | None = self._tell("said")
        return verdict

    def _follow(self, attempt: Try[Attempt]) -> tuple[Chosen, Any]:
        gave = None
        while True:
            self._round += 1
            word = self._tell("try")
            if "chosen" in word:
                name, passed_over = word["chosen"]
                return (name, [(one, why) for one, why in passed_over]), gave
            if "error" in word:
                raise _error_of({"rank": 0, **word["error"]})
            error: Exception | None = None
            try:
                _, gave = self._choose_named(word["name"], word["place"], attempt)
                verdict = self._agreed(None)
            except _Refused as refused:
                verdict = refused.verdict
            except Exception as raised:
                error = raised.error if isinstance(raised, _ThenError) else raised
                if self._is_lost:
                    raise error from None
                verdict = self._agreed(error)
            if verdict is not None and not verdict["is_damage"] and not verdict["is_gone"]:
                if error is not None and verdict["rank"] == self._ranks.rank:
                    raise error
                raise _error_of(verdict)

    def _choose_named(
        self, name: str, place: list[Any], attempt: Try[Attempt]
    ) -> tuple[Chosen, Any]:
        """Other machines may see a new name, or what it leads to, some seconds later."""
        end = min(self._end, time.monotonic() + _SEEN_SECONDS)

        def try_one(checkpoint: _native.OpenCheckpoint) -> Attempt:
            if [checkpoint.generation, checkpoint.line] != place:
                found = f"generation {checkpoint.generation} of {checkpoint.line}, not "
                found += f"{place[0]} of {place[1]}"
                raise _OtherGenerationError(f"{checkpoint.directory}: {found}")
            made = attempt(checkpoint)
            try:
                verdict = self._agreed(None)
                if verdict is not None:
                    raise _Refused(verdict)
                self._round += 1
                made.read(checkpoint)
            except _Refused:
                raise
            except Exception as error:
                raise _ThenError(error) from error
            return made

        while True:
            try:
                return _choose(self._directory, name, False, try_one)
            except (FileNotFoundError, _OtherGenerationError) as error:
                if time.monotonic() >= end:
                    raise FileNotFoundError(errno.ENOENT, str(error)) from None
                time.sleep(_LOOK_SECONDS)

    def close(self) -> None:
        """Ends the session, when nobody reads its messages any more."""
        self._round += 1
        self._end = min(self._end, time.monotonic() + _FAREWELL_SECONDS)
        if not self._is_lost:
            with contextlib.suppress(OSError):
                self._hear(None)
        if self._is_lost:  # who did not hear the end still needs them
            _left_open.append(self._session)


def _wish(name: str, finite: bool) -> str:
    return (name or "the newest checkpoint") + (" that is finite" if finite else "")


def _describe(error: BaseException) -> dict[str, Any]:
    is_users = isinstance(error, UsersError)
    if isinstance(error, UsersError):
        error = error.error
    return {
        "kind": next((name for name, kind in _KINDS.items() if isinstance(error, kind)), ""),
        "errno": error.errno if isinstance(error, OSError) else None,
        "message": str(error) or type(error).__name__,
        "is_damage": _is_damage(error) and not is_users,
        "is_gone": isinstance(error, FileNotFoundError) and not is_users,
        "place": {name: getattr(error, name, None) for name in _PLACE},
        "differences": error.differences if isinstance(error, CursorMismatch) else (),
    }


def _report(error: BaseException | None) -> dict[str, Any] | None:
    return None if error is None else _describe(error)


def _error_of(report: dict[str, Any]) -> Exception:
    message = f"rank {report['rank']}: {report['message']}"
    if report["is_damage"]:
        error = _native.CorruptError(message)
        vars(error).update(report["place"])
        return error
    if report["errno"] is not None or report["is_gone"]:
        return OSError(report["errno"] or errno.ENOENT, message)  # Python makes the right kind
    if report["kind"] == "CursorMismatch":
        return CursorMismatch(message, [CursorDifference(*one) for one in report["differences"]])
    return _KINDS.get(report["kind"], RuntimeError)(message)
