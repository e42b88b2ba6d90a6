"""Signals in next(): whatever their handlers raise, no batch is lost, and none comes again."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import stoker
from stoker._loader import iteration as _iteration
from stoker._loader import steps as _steps

ALL = [list(range(i, i + 5)) for i in range(0, 50, 5)]
PACKAGE = str(Path(stoker.__file__).parent)


def load(data: Any, **options: Any) -> stoker.Loader:
    settings: dict[str, Any] = {"batch_size": 5, "shuffle": "off", "fields": {"cls": int}}
    return stoker.Loader(data, **(settings | {"torch": False} | options))


def _is_ours(frame: Any) -> bool:
    return bool(frame.f_code.co_filename.startswith(PACKAGE))


def _is_in_condition(frame: Any) -> bool:
    """Whether it is a method of threading.Condition, which is written in Python."""
    return isinstance(frame.f_locals.get("self"), threading.Condition)


class InterruptAt:
    """Raises KeyboardInterrupt in the package's code at one of the points where Python does.

    Also in methods of threading.Condition that it calls.

    These are the begin of functions and the return from them. That from the iterators' own next()
    is left out: the batch is the caller's then.
    """

    def __init__(self, point: int) -> None:
        self.left = point
        self.outermost = {
            _iteration.Iteration.__next__.__code__,
            _steps.Steps.__next__.__code__,
        }

    def __call__(self, frame: Any, event: str, _: Any) -> None:
        """As sys.setprofile() calls it."""
        if not (_is_ours(frame) or (_is_in_condition(frame) and _is_ours(frame.f_back))):
            return
        if event == "c_call" or (event == "return" and frame.f_code in self.outermost):
            return
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def interrupted(stream: Iterator[Any], point: int) -> tuple[Any, bool]:
    """The next item, and whether it was interrupted on its way."""
    sys.setprofile(InterruptAt(point))
    try:
        item = next(stream)
    except KeyboardInterrupt:
        sys.setprofile(None)
        return next(stream), True
    finally:
        sys.setprofile(None)
    return item, False


def plus(sample: dict[str, Any], _: Any) -> dict[str, Any]:
    """A map that changes nothing."""
    return dict(sample)


@pytest.mark.parametrize("options", [{}, {"map": plus}], ids=["plain", "map"])
@pytest.mark.parametrize("is_last", [False, True], ids=["in the middle", "at the end"])
def test_an_interrupt_at_any_point_of_next_loses_nothing(
    shards: Path, options: dict[str, Any], is_last: bool
) -> None:
    at = len(ALL) - 1 if is_last else 3
    loader = load(shards, **options)
    was_interrupted = True
    for point in itertools.count(1):
        loader.set_epoch(0)
        stream = iter(loader)
        seen = [next(stream)["cls"].tolist() for _ in range(at)]
        before = loader.state_dict()
        batch, was_interrupted = interrupted(stream, point)
        assert loader.state_dict()["position"] == before["position"] + 5
        seen.append(batch["cls"].tolist())
        seen += [batch["cls"].tolist() for batch in stream]
        assert seen == ALL, point
        if not was_interrupted:
            break
    assert point > 5  # there were points


def test_an_interrupt_at_any_point_of_a_wait_for_a_map_loses_nothing(shards: Path) -> None:
    for point in itertools.count(1):
        may_map = threading.Event()

        def when_told(sample: dict[str, Any], _: Any, told: threading.Event = may_map) -> Any:
            told.wait(10)
            return sample

        with load(shards, map=when_told, map_workers=2) as loader:
            stream = iter(loader)
            timer = threading.Timer(0.02, may_map.set)  # next() has to wait until then
            timer.start()
            first, was_interrupted = interrupted(stream, point)
            seen = [batch["cls"].tolist() for batch in itertools.chain([first], stream)]
            timer.join()
        assert seen == ALL, point
        if not was_interrupted:
            break
    assert point > 5  # there were points


def test_numbered_batches_survive_an_interrupt_too(shards: Path) -> None:
    for point in itertools.count(1):
        stream = load(shards).steps()
        first, was_interrupted = interrupted(stream, point)
        seen = [(step, batch["cls"].tolist()) for step, batch in itertools.chain([first], stream)]
        assert seen == list(enumerate(ALL, 1)), point
        if not was_interrupted:
            break


def test_micro_batches_keep_their_steps_after_an_interrupt(shards: Path) -> None:
    for point in itertools.count(1):
        stream = load(shards, batch_size=10, micro_batch_size=5).steps()
        first = next(stream)
        last, was_interrupted = interrupted(stream, point)  # the last of step 1
        items = itertools.chain([first, last], stream)
        seen = [(step, batch["cls"].tolist(), batch.last) for step, batch in items]
        assert seen == [(1 + i // 2, ALL[i], i % 2 == 1) for i in range(len(ALL))], point
        if not was_interrupted:
            break
    assert point > 5  # there were points


@pytest.fixture
def on_alarm() -> Iterator[Callable[[], None]]:
    """A call of it is an alarm, for which a handler raises TimeoutError."""

    def handle(*_: object) -> None:
        raise TimeoutError("too late")

    before = signal.signal(signal.SIGALRM, handle)
    yield lambda: os.kill(os.getpid(), signal.SIGALRM)
    signal.signal(signal.SIGALRM, before)


def test_what_a_handler_raises_is_raised_once(shards: Path, on_alarm: Callable[[], None]) -> None:
    alarms = [on_alarm]

    def first_is_late(sample: dict[str, Any], _: Any) -> dict[str, Any]:
        if sample["cls"] == 0 and alarms:
            alarms.pop()()  # the caller waits for this batch
        return sample

    stream = iter(load(shards, map=first_is_late))
    with pytest.raises(TimeoutError, match="too late"):
        next(stream)
    assert [batch["cls"].tolist() for batch in stream] == ALL


def test_what_a_handler_raises_while_a_batch_is_copied_is_raised_once(
    shards: Path, on_alarm: Callable[[], None]
) -> None:
    torch = pytest.importorskip("torch")
    asked: list[int] = []

    def memory(size: int) -> Any:
        asked.append(size)
        if len(asked) == 2:
            on_alarm()
        return torch.empty(size, dtype=torch.uint8)

    stream = iter(load(shards, torch=True, pin_memory=memory))
    first = next(stream)["cls"].tolist()
    with pytest.raises(TimeoutError, match="too late"):
        next(stream)
    assert [first, *(batch["cls"].tolist() for batch in stream)] == ALL
