"""Continues a run at a saved position."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from stoker import _native
from stoker._common.numbers import whole_number

# Where the saved position is of no use, as after the dataset has grown.
ANEW = (
    ". To continue training with this loader, leave the position out: call restore() without "
    "loader= and with partial=True, and continue with loader.steps(start=done), where done is what "
    "restore() returned. The data then start from the beginning"
)
State: TypeAlias = Mapping[str, Any] | _native.Cursor | bytes | str
_FRAMEWORK_EPOCH = "framework_epoch"


class CursorDifference(NamedTuple):
    """One field of a cursor that differs.

    Attributes:
        field: Its name, as in ``state_dict()``.
        was: Its value in the saved run.
        now: Its value in this run.
        may_be_allowed: Whether ``allow={field}`` permits the difference.
    """

    field: str
    was: str
    now: str
    may_be_allowed: bool


class CursorMismatch(ValueError):  # noqa: N818 (the name says enough)
    """A saved state is from another run: different data, order or batches.

    Attributes:
        differences: Every field that differs, allowed or not.
    """

    def __init__(self, message: str, differences: Iterable[CursorDifference] = ()) -> None:
        super().__init__(message)
        self.differences = tuple(differences)

    def __reduce__(self) -> tuple[Any, ...]:
        return CursorMismatch, (str(self), self.differences)


def cursor_of(state: State) -> _native.Cursor:
    """Returns the cursor in the result of ``state_dict()``, or in a cursor's bytes or JSON."""
    state = _without_text(state)
    if isinstance(state, _native.Cursor):
        return state
    if isinstance(state, (bytes, bytearray, memoryview)):
        return _native.Cursor.decode(bytes(state))
    if isinstance(state, Mapping):
        if "version" not in state:
            names = ", ".join(map(repr, state)) or "nothing"
            raise ValueError(
                f"this is not the state of a Loader: it has {names}. Give what state_dict() of a "
                "stoker.Loader returned"
            )
        fields = {name: _plain(value) for name, value in state.items()}
        fields.pop(_FRAMEWORK_EPOCH, None)
        state = json.dumps(fields)
    if not isinstance(state, str):
        raise TypeError(
            f"a state is what state_dict() gave, or a cursor, its bytes or its JSON, not {state!r}"
        )
    return _native.Cursor.parse(state)


def _plain(value: Any) -> Any:
    """Converts a number that a checkpoint stored as a tensor or an array."""
    return value.item() if hasattr(value, "item") else value


def _without_text(state: State) -> State:
    """Returns a dict for JSON that has more than a cursor in it."""
    if isinstance(state, str) and f'"{_FRAMEWORK_EPOCH}"' in state:
        fields = json.loads(state)
        return fields if isinstance(fields, dict) else state
    return state


def framework_epoch_of(state: State) -> int | None:
    """Returns the epoch that a framework had named when it asked for this state."""
    state = _without_text(state)
    if not isinstance(state, Mapping) or state.get(_FRAMEWORK_EPOCH) is None:
        return None
    return whole_number(_FRAMEWORK_EPOCH, _plain(state[_FRAMEWORK_EPOCH]))


def state_of(cursor: _native.Cursor, framework_epoch: int | None = None) -> dict[str, Any]:
    """Returns a state that any checkpoint can store: a dict of str and int."""
    state: dict[str, Any] = json.loads(str(cursor))
    if framework_epoch is not None:
        state[_FRAMEWORK_EPOCH] = framework_epoch
    return state


def check_cursor(cursor: _native.Cursor, run: _native.Cursor, allow: Iterable[str]) -> list[str]:
    """Raises CursorMismatch if ``run`` cannot continue from ``cursor``; returns what is allowed."""
    if isinstance(allow, str):
        raise TypeError(f"allow is a set of names: {{{allow!r}}}")
    allowed = list(allow)
    if message := cursor.check(run, allowed):
        differences = [CursorDifference(*found) for found in cursor.differences(run)]
        if all(one.may_be_allowed for one in differences):
            names = ", ".join(f'"{name}"' for name in sorted({one.field for one in differences}))
            message += f"; to continue anyway, pass allow={{{names}}}"
        else:
            message += ANEW
        raise CursorMismatch(message, differences)
    return allowed
