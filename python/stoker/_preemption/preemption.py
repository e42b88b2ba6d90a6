"""stoker.Preemption: all ranks stop at the same step, in time for a last checkpoint."""

from __future__ import annotations

import logging
import math
import operator
import os
import signal
import time
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, SupportsIndex

from stoker._checkpoint.ranks.job import find_job
from stoker._checkpoint.ranks.job_board import open_board
from stoker._common.agreed_step import AgreedStep
from stoker._common.durations import parse_duration
from stoker._common.paths import path_text
from stoker._common.ranks import Ranks, find_ranks
from stoker._common.unknown_arguments import refuse_arguments
from stoker._preemption import slurm
from stoker._preemption.handlers import Handlers, signal_numbers

if TYPE_CHECKING:
    from typing_extensions import Never

_log = logging.getLogger("stoker")
_LOOK_SECONDS = 1.0  # between two looks at the file and the clock
_AGAIN_SECONDS = 30.0  # after the ranks did not agree
_wall_clock = time.time


class Preemption:
    """Notices that the job will be stopped, and lets all ranks stop at the same step.

    Use it as a ``with`` block around the training loop; call ``requested(step)`` in every step, on
    every rank. A signal, ``request()``, the file or Slurm's end time on any rank makes it True, on
    all ranks at the same step: save a last checkpoint there and leave the loop. A call costs a
    microsecond or so, and no collective.

    Several ranks agree through torch.distributed's store, or through small files. If they do not
    agree in time, because a process has ended, ``requested`` stays False and the signal takes its
    course: the previous handler, or the default action, which ends the process.

    Thread safety: ``requested`` is for one thread, the training loop. Any thread and any signal
    handler may call ``request``. Forked children, such as workers of a DataLoader, have the
    previous signal handlers; ``requested`` raises in them.

    Args:
        signals: Names or numbers of signals that mean a stop. The previous handlers are restored at
            the end of the block.
        grace: How much time there is from the signal to the end of the job, and how long before
            ``SLURM_JOB_END_TIME`` to stop.
        file: A path: the stop is requested as soon as something exists there. Rank 0 looks once per
            second. The file is not removed.
        agree_within: How long several ranks may need to agree on a step.
        rank: Number of this process among ``world_size`` that stop together.
        world_size: Number of ranks. Both are detected as by a Loader if not given.
        job: As for a Checkpointer.
        meeting: A directory that all ranks can write to. Only needed if they are on several
            machines and do not use torch.distributed.

    Attributes:
        reason: Why the stop was requested, such as "SIGTERM on rank 1"; empty before.
        stopped: Whether ``requested`` has returned True.
    """

    def __init__(
        self,
        *,
        signals: Iterable[str | int] = ("SIGTERM", "SIGUSR1"),
        grace: float | str = "90s",
        file: str | os.PathLike[str] | None = None,
        agree_within: float | str = "5s",
        rank: int | None = None,
        world_size: int | None = None,
        job: str | None = None,
        meeting: str | os.PathLike[str] | None = None,
        **unknown: Never,
    ) -> None:
        refuse_arguments(unknown, Preemption)
        self._handlers = Handlers(signal_numbers(signals), self._note_signal)
        self._grace = parse_duration(grace, "grace")
        self._within = parse_duration(agree_within, "agree_within")
        self._file = None if file is None else os.path.abspath(path_text(file))  # noqa: PTH100
        self._given = rank, world_size, job
        self._place = None if meeting is None else os.path.abspath(path_text(meeting))  # noqa: PTH100
        self._ranks: Ranks | None = None
        self._agreement: AgreedStep | None = None
        self._process = 0  # that has entered the block
        self._end_time = math.inf
        self._next_look = -math.inf
        self._signal: int | None = None  # that was noted last
        self._deadline = math.inf  # on the monotonic clock
        self._is_asked = False
        self.reason = ""
        self.stopped = False

    def __enter__(self) -> Preemption:
        if self._process:
            raise RuntimeError("a stoker.Preemption is for one block: make another")
        rank, world_size, job = self._given
        self._ranks = find_ranks(rank, world_size, who="preemption")
        self._end_time = slurm.end_time()
        if self._ranks.world_size > 1:
            board = open_board(find_job(self._ranks, job), self._ranks, "preemption", self._place)
            self._agreement = AgreedStep(
                board,
                self._ranks,
                within=self._within,
                on_agreed=self._agreed,
                on_refused=self._refused,
                look=self._look if self._ranks.rank == 0 else str,
                is_once=True,
            )
        try:
            self._handlers.install()
        except BaseException:
            self._close()
            raise
        self._process = os.getpid()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if os.getpid() == self._process:  # a forked child has neither the thread nor the handlers
            self._handlers.restore()
            self._close()
            if self._is_asked and not self.stopped and error is None:
                _log.warning("preemption: the loop ended before the stop: %s", self.reason)

    def _close(self) -> None:
        if self._agreement is not None:
            self._agreement.close()

    def requested(self, step: SupportsIndex) -> bool:
        """Whether to save a last checkpoint and leave the loop. Call it in every step, in order.

        Args:
            step: The number of this step, which increases over the whole run, not from 0 in each
                epoch, and is the same on all ranks.

        Raises:
            RuntimeError: This is not inside of the block, or this is a forked child.
        """
        if self.stopped:
            return True
        number = operator.index(step)
        agreement = self._agreement
        if os.getpid() != self._process:
            raise RuntimeError(
                f"this Preemption belongs to process {self._process}, of which this is a fork"
                if self._process
                else "requested() is for the inside of a block: with stoker.Preemption() as stop:"
            )
        if agreement is not None:
            self.stopped = agreement.reached(number)
        else:
            if found := self._look():
                self._ask(found)
            self.stopped = self._is_asked
        if self.stopped and (self._ranks is None or self._ranks.rank == 0):
            _log.warning("preemption: %s: stop after step %d", self.reason, number)
        return self.stopped

    def request(self) -> None:
        """Requests the stop, on all ranks. Returns at once."""
        self._ask("request()")

    @property
    def remaining(self) -> float:
        """Seconds until the end of the grace; infinity before the stop was requested.

        The end is that of Slurm's job if it comes first.
        """
        if not self._is_asked:
            return math.inf
        return max(0.0, min(self._deadline - time.monotonic(), self._end_time - _wall_clock()))

    def requeue(self) -> None:
        """Has Slurm requeue this job: call it on every rank, last. Rank 0 does it.

        Slurm then ends the job, so everything must be saved before. Not needed for a job that
        Slurm requeues itself (``PreemptMode=REQUEUE``).

        Raises:
            RuntimeError: This is not a Slurm job, or ``scontrol`` is missing or refuses.
        """
        if self._ranks is None or self._ranks.rank == 0:
            slurm.requeue()

    def _note_signal(self, number: int) -> None:
        """Called by a signal handler: takes no lock."""
        if self._signal is None:
            self._signal = number
        self._ask(signal.Signals(number).name)

    def _ask(self, reason: str) -> None:
        if self._is_asked:
            return
        self._deadline = time.monotonic() + self._grace
        self.reason, self._is_asked = reason, True
        if self._agreement is not None and self._ranks is not None:
            self._agreement.ask(f"{reason} on rank {self._ranks.rank}")

    def _look(self) -> str:
        """Returns a reason to stop that is found by looking for it; "" if there is none."""
        now = time.monotonic()
        if now < self._next_look or self._is_asked:
            return ""
        self._next_look = now + _LOOK_SECONDS
        if _wall_clock() >= self._end_time - self._grace:
            return "SLURM_JOB_END_TIME"
        if self._file is not None and os.path.lexists(self._file):
            return f"file {self._file}"
        return ""

    # Called by the thread of the agreement:

    def _agreed(self, step: int, reason: str) -> None:
        if not self._is_asked:
            self._deadline = time.monotonic() + self._grace
        self.reason, self._is_asked = reason, True

    def _refused(self, reason: str, why: str) -> None:
        number, self._signal = self._signal, None
        self._next_look = time.monotonic() + _AGAIN_SECONDS
        signal_name = "" if number is None else signal.Signals(number).name
        then = signal_name and f"; {signal_name} is handled as if Stoker had not caught it"
        if number is not None or (self._ranks is not None and self._ranks.rank == 0):
            _log.warning("preemption: %s: no step agreed, no save: %s%s", reason, why, then)
        self.reason, self._is_asked = "", False
        if number is not None:
            self._handlers.pass_on(number)
