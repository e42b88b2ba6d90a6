"""Callbacks of saves: they may do anything, even wait for other saves."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

_PATIENCE_S = 60.0  # a test that waits so long has failed


_SLOW: dict[str, Any] = {
    "in_flight": 2,
    "rate_limit": "20MB",
}  # the first is not over when it gets its callback
_STATE = {"w": np.zeros(1 << 18)}


def test_a_callback_may_wait_for_all_saves(tmp_path: Path) -> None:
    """The thread that had to notice their end ran the callback, and waited for itself."""
    both, over = threading.Event(), threading.Event()
    errors: list[Exception] = []
    with stoker.Checkpointer(tmp_path, **_SLOW) as saver:

        def wait_for_all(_: Any) -> None:
            try:
                both.wait(_PATIENCE_S)
                saver.wait(_PATIENCE_S)
            except Exception as error:
                errors.append(error)
            over.set()

        saver.save(1, state=_STATE).add_done_callback(wait_for_all)
        later = saver.save(2, state=_STATE)
        both.set()
        assert over.wait(2 * _PATIENCE_S)
        assert later.outcome == "committed"
    assert not errors


def test_a_callback_may_ask_the_next_save(tmp_path: Path) -> None:
    results: list[str] = []
    with stoker.Checkpointer(tmp_path, **_SLOW) as saver:
        first, second = (saver.save(step, state=_STATE) for step in (1, 2))
        first.add_done_callback(lambda _: results.append(second.result(_PATIENCE_S)))
    assert results == ["committed"]  # close() waits for callbacks


def test_callbacks_run_in_order_once_and_survive_each_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[Any] = []
    with stoker.Checkpointer(tmp_path) as saver:
        for step in range(3):
            pending = saver.save(step, state={"w": np.zeros(1 << 18)})
            pending.add_done_callback(lambda done: calls.append((done.step, done.result())))  # type: ignore[attr-defined]
            pending.add_done_callback(lambda done: 1 // 0)
    assert calls == [(step, "committed") for step in range(3)]
    assert any("callback" in record.getMessage() for record in caplog.records)
    pending.add_done_callback(lambda done: calls.append("at once"))
    assert calls[-1] == "at once"


def test_a_callback_may_close_the_checkpointer(tmp_path: Path) -> None:
    closed = threading.Event()
    saver = stoker.Checkpointer(tmp_path)

    def close(_: Any) -> None:
        saver.close()
        closed.set()

    saver.save(1, state={"w": np.zeros(1 << 20)}).add_done_callback(close)
    assert closed.wait(_PATIENCE_S)
    with pytest.raises(ValueError, match="is closed"):
        saver.wait()


def test_a_save_can_be_awaited(tmp_path: Path) -> None:
    async def save() -> list[str]:
        with stoker.Checkpointer(tmp_path, in_flight=2) as saver:
            return [await saver.save(step, state={"w": np.zeros(1000)}) for step in (1, 2)]

    assert asyncio.run(save()) == ["committed", "committed"]
