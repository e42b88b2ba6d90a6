"""The native writer of a checkpointer: made when it is first needed, ended when it is not."""

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
from stoker._checkpoint.best import BestWatch
from stoker._checkpoint.job import Meetings
from stoker._checkpoint.late import telling_late
from stoker._checkpoint.pending import Pending, Watcher
from stoker._checkpoint.place import tell_place
from stoker._checkpoint.tree import TreeEncoder
from stoker._checkpoint.turns import Turns
from stoker._common.ranks import Ranks

# Who has, or had, the lock of a directory in this process: it is handed over, so that a notebook's
# cell that is run again does not wait for itself.
_holders: weakref.WeakValueDictionary[tuple[str, int], Writer] = weakref.WeakValueDictionary()
_holders_lock = threading.Lock()  # for a moment only; a fork waits for it
os.register_at_fork(
    before=_holders_lock.acquire,
    after_in_parent=_holders_lock.release,
    after_in_child=_holders_lock.release,
)

_log = logging.getLogger("stoker")
Seen: TypeAlias = dict[str, int]  # of each line of checkpoints the greatest generation
_FAILED_KNOWN = 100  # failures whose pendings are asked whether the caller has read them
_EXIT_SECONDS = 5.0  # for threads that are still in save(), which has promised nothing yet


def _list(directory: str) -> list[tuple[str, int, bool, int, str | None, str]]:
    try:
        return _native.list_checkpoints(os.fsencode(directory))
    except OSError:  # what is not known to be there is left alone
        return []


def _left(end: float | None) -> float | None:
    return None if end is None else max(0.0, end - time.monotonic())


def end_with_worker(end: Callable[[], object]) -> None:
    """Has ``end`` called when this process ends, if multiprocessing has forked it.

    Such a process runs no atexit handlers, but what is registered like this.
    """
    util = sys.modules.get("multiprocessing.util")
    process = sys.modules.get("multiprocessing.process")
    if util is not None and process is not None and process.parent_process() is not None:
        util.Finalize(None, end, exitpriority=10)


class Progress(NamedTuple):
    """Of the save that is being written; zeros if there is none."""

    step: int = 0
    size_bytes: int = 0
    staged_bytes: int = 0
    written_bytes: int = 0
    in_flight: int = 0


class Writer:
    """Saves of one checkpointer, in order.

    ``save``, ``refusing`` and ``release`` are for who has the turn, the rest for all threads.

    Attributes:
        turns: Whose turn it is.
        last_step: That was saved or restored last.
        last_time: When that was, on the monotonic clock; at first when this was made.
    """

    def __init__(
        self,
        directory: str,
        settings: _native.CheckpointerSettings,
        ranks: Ranks,
        meetings: Meetings,
    ) -> None:
        self.directory = directory
        self._settings = settings
        self._ranks = ranks
        self._meetings = meetings
        settings.notices = meetings.notices
        self.turns = Turns()
        self._pid = os.getpid()
        self._native: _native.Checkpointer | None = None
        self._watcher: Watcher | None = None
        self._pendings_lock = threading.RLock()  # a signal handler may save, in here as well
        self._pendings: list[Pending] = []
        self._begun: list[_native.PendingSave] = []  # by the core, and not in _pendings yet
        self._begun_bytes = 0
        self._newest: Pending | None = None  # that was begun
        self._failed: deque[Pending] = deque(maxlen=_FAILED_KNOWN)
        self._error: BaseException | None = None
        self._in_flight = settings.in_flight
        self._waits = settings.late == "block"
        self._is_place_told = False
        self.is_told = False  # of checkpoints that it does not continue
        self._best = BestWatch(directory, settings)
        self._seen: Seen | None = None  # what was there at a restore
        self.last_step: int | None = None
        self.last_time = time.monotonic()

    @property
    def is_here(self) -> bool:
        """Whether this is the process that made it, and no forked child."""
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
        """Tells the other ranks, who would wait for this one, of what is raised inside.

        Ctrl-C and the end of the program are told as well. ``step`` may be what was wrong.
        """
        try:
            yield
        except BaseException as error:
            if self._ranks.world_size > 1:
                text = str(error) or type(error).__name__
                text = text.encode(errors="backslashreplace").decode()
                number = step if type(step) is int and 0 <= step < 2**64 else 0
                with contextlib.suppress(OSError, ValueError):  # this one's error is the cause
                    self._begin().save(number, [], ("null", "null", "null"), {}, [], text)
            raise

    def save(
        self,
        step: int,
        encoder: TreeEncoder,
        texts: tuple[str, str, str],
        reference: dict[str, float],
    ) -> Pending:
        """Copies and returns; raises the error of an earlier save instead, once.

        If a signal handler raises in here, the save may have begun. Then ``in_flight`` has it.
        """
        self.raise_error()
        tensors = [
            (name, m.type, m.shape, m.address, m.strides, encoder.slices.get(name))
            for name, m in encoder.tensors.items()
        ]
        if self._waits:
            # Here and not in native code: Ctrl-C ends it here.
            while len(pendings := self.in_flight()) >= self._in_flight:
                pendings[0].await_end(None)
        native = self._begin()
        if self._watcher is None:
            self._watcher = Watcher(self._meetings.notices)
        self._learn_begun()
        self._begun_bytes = sum(m.size_bytes for m in encoder.tensors.values())
        with telling_late():
            native.save(step, tensors, texts, reference, self._begun)
        self._learn_begun()
        pending = self._newest
        assert pending is not None
        if self._ranks.rank == 0:
            self._tell_others(pending)  # now that it has the lock
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

    def _tell_others(self, own: Pending) -> None:
        """Warns of checkpoints that this run does not continue."""
        seen, self._seen = self._seen, None
        if self.is_told and seen is None:
            return
        there = _list(self.directory)
        own_place = own.generation, own.line  # asked after what was listed
        there = [c for c in there if (c[3], c[5]) != own_place]
        if self._settings.parent is None and not self.is_told:
            found = there
            text = "%s: an earlier run has saved %s here, the newest %s, and this run has "
            text += "not restored it: it starts anew. They stay, whatever keep_last= says; `stoker "
            text += "checkpoint prune` removes them. To continue, call restore() first"
        else:
            found = [] if seen is None else [c for c in there if c[3] > seen.get(c[5], 0)]
            text = "%s: another run has saved %s since this one restored, the newest %s. This run "
            text += "does not continue them. They stay, whatever keep_last= says, and so two runs "
            text += "go on here: end one of them"
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
            # In its turn, so that it is not back before this one has the lock. Nobody waits in a
            # circle: who waits here is not the holder.
            with holder.turns.take_from():
                if _holders.get(key) is holder:
                    holder.release(None)
                    _holders[key] = self
                    return

    def _learn_begun(self) -> None:
        """Makes pendings of the saves that the core has begun.

        A signal handler may raise in here as well: a save stays in the list until all is done.
        """
        with self._pendings_lock:
            while self._begun:
                native = self._begun[0]
                if self._newest is None or self._newest._native is not native:
                    self._newest = Pending(native, self._begun_bytes)
                if self._newest not in self._pendings:
                    self._pendings.append(self._newest)
                self.last_step, self.last_time = native.step, time.monotonic()
                if self._watcher is not None:
                    self._watcher.watch(self._newest)
                if native in self._begun:  # else a signal handler that saves has done all this
                    self._begun.remove(native)

    def in_flight(self) -> list[Pending]:
        """Saves that are not over, oldest first. Learns from those that are."""
        if not self.is_here:
            return []  # they are the parent's
        self._learn_begun()
        over = [pending for pending in list(self._pendings) if pending.done()]
        if over:
            with self._pendings_lock:
                for pending in over:
                    if pending in self._pendings:  # else another thread has learned of it
                        self._forget(pending)
        return list(self._pendings)

    def _forget(self, pending: Pending) -> None:
        self._pendings.remove(pending)
        if pending.error is not None:
            self._failed.append(pending)
        if pending.durable:
            self._settings.parent = pending.step, pending.generation, pending.line

    def await_all(self, timeout: float | None) -> bool:
        """Whether all are over, after so many seconds at most. Raises nothing."""
        end = None if timeout is None else time.monotonic() + timeout
        return all(pending.await_end(_left(end)) for pending in self.in_flight())

    def progress(self) -> Progress:
        """How far the oldest save is."""
        native = self._native
        return Progress(*native.progress()) if native is not None else Progress()

    def raise_error(self) -> None:
        """The error of a writer that was ended meanwhile."""
        error, self._error = self._error, None
        if error is not None and not self._was_read(error):
            raise error

    def _was_read(self, error: BaseException) -> bool:
        """Whether the caller has it from the pending of the save that failed with it."""
        same = [pending for pending in self._failed if str(pending.error) == str(error)]
        return bool(same) and all(pending.is_read for pending in same)

    def wait(self, timeout: float | None) -> None:
        """Waits for all; raises an error that nobody was told yet, and if some are not over."""
        is_over = self.await_all(timeout)
        self.raise_error()
        native = self._native
        if native is not None:
            with telling_late():
                native.wait(None if is_over else 0.0)

    def what_is_there(self) -> Seen:
        """Of each line of checkpoints the greatest generation."""
        there: Seen = {}
        for _, _, _, generation, _, line in _list(self.directory):
            there[line] = max(generation, there.get(line, 0))
        return there

    def release(
        self,
        parent: tuple[int, int, str] | None,
        damaged: Sequence[str] = (),
        seen: Seen | None = None,
    ) -> None:
        """Ends the native writer, which frees the lock; the next save makes another.

        What went wrong is raised by the next call. Without ``parent`` it continues its own last
        checkpoint. ``damaged``: the names of those that a restore has passed over.
        ``seen``: what was there before the restore began: a large one takes minutes, in which
        others save.
        """
        self.await_all(None)
        self.in_flight()  # notes the last one
        generations = [c[3] for c in _list(self.directory) if c[0] in damaged] if damaged else []
        is_known = set(generations) <= set(self._settings.damaged)
        if parent is not None and parent == self._settings.parent and is_known:
            return  # it goes on from there anyway
        try:
            self._close_native(None)
        except (OSError, ValueError) as error:
            self._error = error
        self._settings.damaged = sorted({*self._settings.damaged, *generations})
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
        """Waits, ends everything, and raises an error that nobody was told yet.

        ``patience``: with other threads that save or restore; else all of the time.
        """
        end = None if timeout is None else time.monotonic() + timeout
        watcher = None
        try:
            with self.turns.take_last(timeout if patience is None else patience):
                is_over = self.await_all(_left(end))  # where Ctrl-C changes nothing
                self.turns.is_closed = True
                watcher, self._watcher = self._watcher, None
                self._close_native(_left(end) if is_over else 0.0)
                self.raise_error()
        finally:
            if watcher is not None:
                # Not in its turn: a callback that it waits for may wait for one.
                watcher.stop(_left(end))

    def close_at_end(self, timeout: float | None) -> None:
        """When the checkpointer is collected or the interpreter exits: errors are printed."""
        if not self.is_here:
            return  # in a forked child: the threads are not here, and the lock is not ours
        try:
            self.close(timeout, _EXIT_SECONDS)
        except (OSError, ValueError) as error:
            is_known = False
            if not self.turns.is_closed:  # a thread waits in save(), for the lock of others say
                is_over, newest = self.await_all(timeout), self._newest
                is_known = is_over and newest is not None and newest.is_read
            self.in_flight()  # learns of those that have failed
            is_known = is_known and all(pending.is_read for pending in self._failed)
            if not is_known and not self._was_read(error):
                print(f"stoker.Checkpointer({self.directory!r}): {error}", file=sys.stderr)
