"""The native writer of a checkpointer: created on demand, closed when not needed."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from stoker import _native
from stoker._checkpoint.device.cuda import SnapshotMemory, Streams
from stoker._checkpoint.ranks.job import JobConflict, Meetings
from stoker._checkpoint.save.best import BestWatch
from stoker._checkpoint.save.pending import LentMemory, Pending, SaveTimes, Shapes, Watcher
from stoker._checkpoint.save.place import tell_place
from stoker._checkpoint.save.turns import Turns
from stoker._checkpoint.tensors.memory import Memory
from stoker._checkpoint.tensors.slice import Box
from stoker._common.late import LateError, telling_late
from stoker._common.ranks import Ranks

# The writer that has, or had, the lock of a directory in this process: the lock is handed over, so
# that a notebook cell that is run again does not wait for itself.
_holders: weakref.WeakValueDictionary[tuple[str, int], Writer] = weakref.WeakValueDictionary()
_holders_lock = threading.Lock()  # held briefly; a fork waits for it
os.register_at_fork(
    before=_holders_lock.acquire,
    after_in_parent=_holders_lock.release,
    after_in_child=_holders_lock.release,
)

_log = logging.getLogger("stoker")
Seen: TypeAlias = dict[str, int]  # the greatest generation of each line of checkpoints
_FAILED_KNOWN = 100  # failed pendings that are kept, to know whether the caller read the error
_EXIT_SECONDS = 5.0  # for threads that are still in save(), which has not returned yet


def _list(directory: str) -> list[tuple[str, int, bool, int, str | None, str]]:
    try:
        return _native.list_checkpoints(os.fsencode(directory))
    except OSError:  # nothing that is not known to be there is removed
        return []


def _left(end: float | None) -> float | None:
    return None if end is None else max(0.0, end - time.monotonic())


def end_with_worker(end: Callable[[], object]) -> None:
    """Has ``end`` called when this process ends, if it was started by multiprocessing.

    Such a process does not run atexit handlers, only finalizers registered in this way.
    """
    util = sys.modules.get("multiprocessing.util")
    process = sys.modules.get("multiprocessing.process")
    if util is not None and process is not None and process.parent_process() is not None:
        util.Finalize(None, end, exitpriority=10)


class Progress(NamedTuple):
    """Progress of the save that is being written; zeros if there is none."""

    step: int = 0
    size_bytes: int = 0
    staged_bytes: int = 0
    written_bytes: int = 0
    in_flight: int = 0


class Encoded(NamedTuple):
    """What is saved.

    Attributes:
        tensors: The tensors by name; those that are slices, with their place; and the names of
            those that belong to this rank alone.
        texts: The JSON of the state, of ``extra``, and of the loader's position.
        reference: Numbers to compare with.
        streams: Of the devices that have tensors.
    """

    tensors: tuple[dict[str, Memory], dict[str, Box], set[str]]
    texts: tuple[str, str, str]
    reference: dict[str, float]
    streams: Streams


class Writer:
    """Saves of one checkpointer, in order.

    ``save``, ``refusing`` and ``release`` need the turn; everything else may be called by any
    thread.

    Attributes:
        turns: Serializes the threads.
        last_step: The step that was saved or restored last.
        last_time: When that was, on the monotonic clock; initially the time of creation.
    """

    def __init__(
        self,
        directory: str,
        settings: _native.CheckpointerSettings,
        ranks: Ranks,
        meetings: Meetings,
        snapshots: SnapshotMemory,
    ) -> None:
        self.directory = directory
        self._snapshots = snapshots
        self._is_pinning_told = self._is_gather_told = self._is_differing_told = False
        self._settings = settings
        self._ranks = ranks
        self._meetings = meetings
        settings.notices = meetings.notices
        self.turns = Turns()
        self._pid = os.getpid()
        self._native: _native.Checkpointer | None = None
        self._watcher: Watcher | None = None
        self._pendings_lock = threading.RLock()  # a signal handler may save, here as well
        self._pendings: list[Pending] = []
        self._begun: list[_native.PendingSave] = []  # begun by the core, not in _pendings yet
        self._begun_shapes: Shapes = []
        self._begun_times = SaveTimes(0.0, 0.0)
        self._newest: Pending | None = None  # the newest that was begun
        self._failed: deque[Pending] = deque(maxlen=_FAILED_KNOWN)
        self._error: BaseException | None = None
        self._in_flight = settings.in_flight
        self._waits = settings.late == "block"
        self._is_place_told = False
        self.is_told = False  # about checkpoints that it does not continue
        self._best = BestWatch(directory, settings)
        self._seen: Seen | None = None  # what existed at a restore
        self.last_step: int | None = None
        self.last_time = time.monotonic()

    @property
    def is_here(self) -> bool:
        """Whether this is the process that created it, not a forked child."""
        return os.getpid() == self._pid

    def check_process(self) -> None:
        """Raises in a forked child."""
        if not self.is_here:
            raise RuntimeError(
                f"this Checkpointer belongs to process {self._pid}, of which this is a fork: "
                "saving is for the process that made it"
            )

    @contextlib.contextmanager
    def refusing(self, step: Any) -> Iterator[None]:
        """Reports an exception inside to the other ranks, which would wait for this one.

        Ctrl-C and the end of the program are reported as well. ``step`` may be invalid.
        """
        try:
            yield
        except BaseException as error:
            if self._ranks.world_size > 1:
                text = str(error) or type(error).__name__
                text = text.encode(errors="backslashreplace").decode()
                number = step if type(step) is int and 0 <= step < 2**64 else 0
                end = time.monotonic() + self._settings.deadline
                with contextlib.suppress(OSError, ValueError):  # `error` is the cause
                    native = self._begin()
                    texts = "null", "null", "null"
                    native.save(number, ({}, {}, set()), texts, {}, [], text, _left(end))
            raise

    def save(self, step: int, given: Encoded, called: float) -> Pending:
        """Copies and returns; raises the error of an earlier save instead, once.

        ``called``: when the caller began to wait, on the monotonic clock.

        If a signal handler raises in here, the save may have begun: ``in_flight`` has it then.
        """
        self.raise_error()
        if self._waits:
            # Wait here and not in native code, so that Ctrl-C ends the wait.
            while len(pendings := self.in_flight()) >= self._in_flight:
                pendings[0].await_end(None)
        end = time.monotonic() + self._settings.deadline
        native = self._begin()  # the ranks may meet in here, which is part of the deadline
        if self._watcher is None:
            self._watcher = Watcher(self._meetings.notices)
        self._learn_begun()
        by_name = given.tensors[0]
        self._begun_shapes = [(m.type, m.shape) for m in by_name.values()]
        self._begun_times = SaveTimes(called, time.monotonic(), self._ranks.rank == 0)
        lent = LentMemory([by_name])
        try:
            lent.begin_call()
            with telling_late():
                native.save(
                    step,
                    given.tensors,
                    given.texts,
                    given.reference,
                    self._begun,
                    deadline=_left(end),
                    devices=(given.streams, self._snapshots.lender(lent.add)),
                    lent=lent,
                )
        except LateError:
            session = self._settings.session
            if session is not None and session.conflict:
                raise JobConflict(session.conflict) from None
            raise
        finally:
            lent.end_call()
        self._learn_begun()
        self._tell_slower(native)
        self._tell_differing(native)
        pending = self._newest
        assert pending is not None
        if self._ranks.rank == 0:
            self._tell_others(pending)  # now that it holds the lock
            self._best.saved()
        return pending

    def _begin(self) -> _native.Checkpointer:
        if self._native is None:
            self._take_over()
            with telling_late():
                if self._ranks.world_size > 1:
                    session = self._meetings.meet("save", self._settings.deadline)
                    self._settings.session = session
                self._native = _native.Checkpointer(os.fsencode(self.directory), self._settings)
            if self._ranks.rank == 0 and not self._is_place_told:
                self._is_place_told = True
                tell_place(self.directory)
        return self._native

    def _tell_slower(self, native: _native.Checkpointer) -> None:
        """Warns once if the driver has not pinned the staging memory, or has no kernel."""
        if not self._is_gather_told and (problem := native.gather_problem):
            self._is_gather_told = True
            _log.warning(
                "small tensors are copied from the device one by one, which takes longer: %s",
                problem,
            )
        if not self._is_pinning_told and (problem := native.pin_problem):
            self._is_pinning_told = True
            _log.warning(
                "the staging memory is not pinned, so copies from the device take longer: %s. "
                "Raise the limit of locked memory (ulimit -l), or set memory_bytes=",
                problem,
            )

    def _tell_differing(self, native: _native.Checkpointer) -> None:
        """Warns once about tensors that only the same number of ranks can restore."""
        if self._is_differing_told or not (names := native.differing):
            return
        self._is_differing_told = True
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        text = "different on the ranks, and stored for each of them: %s%s. Only as many ranks can "
        text += "restore this. If it should be equal, the ranks have diverged; if it should not, "
        text += "stoker.PerRank(value) says so"
        _log.warning(text, names[0], more)

    def _tell_others(self, own: Pending) -> None:
        """Warns about checkpoints that this run does not continue."""
        seen, self._seen = self._seen, None
        if self.is_told and seen is None:
            return
        there = _list(self.directory)
        own_place = own.generation, own.line  # read after the listing
        there = [c for c in there if (c[3], c[5]) != own_place]
        if self._settings.parent is None and not self.is_told:
            found = there
            text = "%s: an earlier run has saved %s here, the newest %s, and this run has "
            text += "not restored it: it starts over. They are kept regardless of keep_last=; "
            text += "`stoker checkpoint prune` removes them. To continue, call restore() first"
        else:
            found = [] if seen is None else [c for c in there if c[3] > seen.get(c[5], 0)]
            text = "%s: another run has saved %s since this one restored, the newest %s. This run "
            text += "does not continue them. They are kept regardless of keep_last=, so two runs "
            text += "continue here: end one of them"
        self.is_told = True
        if found:
            count = f"{len(found)} checkpoint{'s' if len(found) > 1 else ''}"
            _log.warning(text, self.directory, count, found[0][0])

    def _take_over(self) -> None:
        key = os.path.realpath(self.directory), self._ranks.rank
        while True:
            with _holders_lock:
                holder = _holders.get(key)
                if holder is None or holder is self or holder._pid != self._pid:
                    _holders[key] = self
                    return
            # In the holder's turn, so that it does not return before this one has the lock. No
            # deadlock: a writer that waits here is not the holder.
            with holder.turns.take_from():
                if _holders.get(key) is holder:
                    holder.release(None)
                    _holders[key] = self
                    return

    def _learn_begun(self) -> None:
        """Creates pendings for the saves that the core has begun.

        A signal handler may raise in here as well: a save stays in the list until all is done.
        """
        with self._pendings_lock:
            while self._begun:
                native = self._begun[0]
                if self._newest is None or self._newest._native is not native:
                    self._newest = Pending(native, self._begun_shapes, self._begun_times)
                if self._newest not in self._pendings:
                    self._pendings.append(self._newest)
                self.last_step, self.last_time = native.step, time.monotonic()
                if self._watcher is not None:
                    self._watcher.watch(self._newest)
                if native in self._begun:  # otherwise a signal handler that saves has done this
                    self._begun.remove(native)

    def in_flight(self) -> list[Pending]:
        """Returns saves that have not ended, oldest first. Registers the results of others."""
        if not self.is_here:
            return []  # they belong to the parent
        self._learn_begun()
        over = [pending for pending in list(self._pendings) if pending.done()]
        if over:
            with self._pendings_lock:
                for pending in over:
                    if pending in self._pendings:  # otherwise another thread has done this
                        self._forget(pending)
        return list(self._pendings)

    def _forget(self, pending: Pending) -> None:
        self._pendings.remove(pending)
        if pending.error is not None:
            self._failed.append(pending)
        if pending.durable:
            self._settings.parent = pending.step, pending.generation, pending.line

    def await_all(self, timeout: float | None) -> bool:
        """Waits at most ``timeout`` seconds; returns whether all have ended. Raises nothing."""
        end = None if timeout is None else time.monotonic() + timeout
        return all(pending.await_end(_left(end)) for pending in self.in_flight())

    def await_holder(self) -> None:
        """Waits for saves of another object of this process: a cell of a notebook ran again."""
        holder = _holders.get((os.path.realpath(self.directory), self._ranks.rank))
        if holder is not None and holder is not self and holder.is_here:
            holder.await_all(None)

    def progress(self) -> Progress:
        """Returns the progress of the oldest save."""
        native = self._native
        return Progress(*native.progress()) if native is not None else Progress()

    def raise_error(self) -> None:
        """Raises the error of a writer that was closed meanwhile."""
        error, self._error = self._error, None
        if error is not None and not self._was_read(error):
            raise error

    def _was_read(self, error: BaseException) -> bool:
        """Whether the caller got the error from the pending of the failed save."""
        same = [pending for pending in self._failed if str(pending.error) == str(error)]
        return bool(same) and all(pending.is_read for pending in same)

    def wait(self, timeout: float | None) -> None:
        """Waits for all saves; raises an error that was not raised yet, or LateError."""
        is_over = self.await_all(timeout)
        self.raise_error()
        native = self._native
        if native is not None:
            with telling_late():
                native.wait(None if is_over else 0.0)

    def what_is_there(self) -> Seen:
        """Returns the greatest generation of each line of checkpoints."""
        there: Seen = {}
        for _, _, _, generation, _, line in _list(self.directory):
            there[line] = max(generation, there.get(line, 0))
        return there

    def release(
        self,
        parent: tuple[int, int, str] | None,
        damaged: Sequence[int] = (),
        seen: Seen | None = None,
    ) -> None:
        """Closes the native writer, which releases the lock; the next save creates another.

        An error is raised by the next call. Without ``parent`` it continues its own last
        checkpoint. ``damaged``: the generations of checkpoints whose data a restore has found
        damaged. ``seen``: what existed before the restore began: a large restore takes minutes, in
        which others may save.
        """
        self.await_all(None)
        self.in_flight()  # registers the last one
        is_known = set(damaged) <= set(self._settings.damaged)
        # Several ranks must all close or none, and what they know of the last save may differ.
        is_alone = self._ranks.world_size == 1
        if is_alone and parent is not None and parent == self._settings.parent and is_known:
            return  # it continues from there anyway
        try:
            self._close_native(None)
        except (OSError, ValueError) as error:
            self._error = error
        self._settings.damaged = sorted({*self._settings.damaged, *damaged})
        if parent is not None:
            self._settings.parent = parent
            seen = dict(seen or {})
            seen[parent[2]] = max(parent[1], seen.get(parent[2], 0))
            self._seen = self._settings.seen = seen

    def _close_native(self, timeout: float | None) -> None:
        native, self._native = self._native, None
        try:
            if native is not None:
                with telling_late():
                    native.close(timeout)
        finally:
            self._settings.session = None

    def close(self, timeout: float | None, patience: float | None = None) -> None:
        """Waits, closes everything, and raises an error that was not raised yet.

        ``patience``: how long to wait for other threads that save or restore; default: ``timeout``.
        """
        end = None if timeout is None else time.monotonic() + timeout
        watcher = None
        try:
            with self.turns.take_last(timeout if patience is None else patience):
                is_over = self.await_all(_left(end))  # Ctrl-C changes nothing here
                self.turns.is_closed = True
                watcher, self._watcher = self._watcher, None
                self._close_native(_left(end) if is_over else 0.0)
                self.raise_error()
        finally:
            if watcher is not None:
                # Not in its turn: a callback that it waits for may need one.
                watcher.stop(_left(end))

    def close_at_end(self, timeout: float | None) -> None:
        """Called when the checkpointer is collected or the interpreter exits: prints errors."""
        if not self.is_here:
            return  # a forked child has neither the threads nor the lock
        try:
            self.close(timeout, _EXIT_SECONDS)
        except (OSError, ValueError) as error:
            is_known = False
            if not self.turns.is_closed:  # a thread waits in save(), for example for the lock
                is_over, newest = self.await_all(timeout), self._newest
                is_known = is_over and newest is not None and newest.is_read
            self.in_flight()  # registers those that failed
            is_known = is_known and all(pending.is_read for pending in self._failed)
            if not is_known and not self._was_read(error):
                print(f"stoker.Checkpointer({self.directory!r}): {error}", file=sys.stderr)
