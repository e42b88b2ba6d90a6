"""Going on where a run stood."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from stoker import _native

State: TypeAlias = Mapping[str, Any] | _native.Cursor | bytes | str


class CursorDifference(NamedTuple):
    """One field of a cursor that is not as it was.

    Attributes:
        field: Its name, as in ``state_dict()``.
        was: In the run that was saved.
        now: In this one.
        may_be_allowed: Whether ``allow={field}`` would do.
    """

    field: str
    was: str
    now: str
    may_be_allowed: bool


class CursorMismatch(ValueError):  # noqa: N818 (a name that says it all)
    """A saved state is that of another run: other data, another order, or other batches.

    Attributes:
        differences: Every field that differs, allowed or not.
    """

    def __init__(self, message: str, differences: Iterable[CursorDifference] = ()) -> None:
        super().__init__(message)
        self.differences = tuple(differences)

    def __reduce__(self) -> tuple[Any, ...]:
        return CursorMismatch, (str(self), self.differences)


def cursor_of(state: State) -> _native.Cursor:
    """The cursor in what ``state_dict()`` gave, or in a cursor's bytes or JSON."""
    if isinstance(state, _native.Cursor):
        return state
    if isinstance(state, (bytes, bytearray, memoryview)):
        return _native.Cursor.decode(bytes(state))
    if isinstance(state, Mapping):
        if "version" not in state:
            names = ", ".join(map(repr, state)) or "nothing"
            raise ValueError(
                f"this is no state of a Loader: it has {names}. Give what state_dict() of a "
                "stoker.Loader returned"
            )
        state = json.dumps({name: _plain(value) for name, value in state.items()})
    if not isinstance(state, str):
        raise TypeError(
            f"a state is what state_dict() gave, or a cursor, its bytes or its JSON, not {state!r}"
        )
    return _native.Cursor.parse(state)


def _plain(value: Any) -> Any:
    """A number again, of one that a checkpoint has kept as a tensor or an array."""
    return value.item() if hasattr(value, "item") else value


def state_of(cursor: _native.Cursor) -> dict[str, Any]:
    """What anybody can keep: a dict of str and int."""
    state: dict[str, Any] = json.loads(str(cursor))
    return state


def check_cursor(cursor: _native.Cursor, run: _native.Cursor, allow: Iterable[str]) -> list[str]:
    """Raises CursorMismatch if ``run`` cannot go on from ``cursor``; gives what was allowed."""
    if isinstance(allow, str):
        raise TypeError(f"allow is a set of names: {{{allow!r}}}")
    allowed = list(allow)
    if message := cursor.check(run, allowed):
        differences = [CursorDifference(*found) for found in cursor.differences(run)]
        if all(one.may_be_allowed for one in differences):
            names = ", ".join(f'"{name}"' for name in sorted({one.field for one in differences}))
            message += f"; to continue all the same, pass allow={{{names}}}"
        raise CursorMismatch(message, differences)
    return allowed
