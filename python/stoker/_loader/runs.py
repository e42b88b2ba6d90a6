"""The runs of a Loader: the active one, and one that waits for the next iter()."""

from __future__ import annotations

import weakref

from stoker._dataset.columns import ColumnMaker
from stoker._loader.ahead_run import AheadRun
from stoker._loader.device import Place as ToDevice
from stoker._loader.feed import Feeder
from stoker._loader.iteration import Iteration, Label, Run
from stoker._loader.map.mapping import Mapping
from stoker._loader.margin import MarginWatch
from stoker._loader.native_run import PlainRun
from stoker._loader.out import Finish
from stoker._loader.plan import LoaderPlan
from stoker._loader.progress import Progress
from stoker._loader.stats import LoaderStats


class Runs:
    """Starts and ends runs.

    A run that has returned all batches of an iteration is kept: it already works on the next epoch,
    with its threads and its memory, so that the transition between epochs costs nothing. A run
    whose iteration ended early is closed.
    """

    def __init__(
        self,
        plan: LoaderPlan,
        progress: Progress,
        maker: ColumnMaker,
        mapping: Mapping | None,
        finish: Finish,
        to_device: ToDevice,
        feeder: Feeder | None = None,
    ) -> None:
        self._plan = plan
        self._progress = progress
        self._maker = maker
        self._mapping = mapping
        self._finish = finish
        self._to_device = to_device
        self._feeder = feeder
        self._iteration: weakref.ref[Iteration] | None = None
        self._idle: tuple[Run, int] | None = None  # and the epoch it will begin with
        self._last_stats = LoaderStats()
        self._margin = MarginWatch()
        self._is_closed = False

    def iterate(self, owner: object, label: Label = lambda _, batch: batch) -> Iteration:
        """Begins the next iter() of ``owner``; ends the previous one."""
        self.end_iteration()
        self._progress.take_up()
        self._plan.ranks.warn_if_outdated()
        run = self._next_run()
        iteration = Iteration(
            owner,
            run,
            self._progress.batches_ahead(),
            self._to_device,
            self._margin,
            self._progress,
            self._ended,
            label,
        )
        self._iteration = weakref.ref(iteration)
        return iteration

    def set_epoch(self, epoch: int, *, by_framework: bool = False) -> None:
        """Makes the next iter(), or one that has handed out nothing yet, begin with this epoch."""
        live = self.live()
        given = None if live is None else live.given
        before = self._progress.next
        if by_framework:
            self._progress.begin_framework_epoch(epoch, given)
        else:
            self._progress.set_epoch(epoch, is_running=bool(given))
        if live is not None and given == 0 and self._progress.next != before:
            live.begin_again(self._next_run, self._progress.batches_ahead)

    def _next_run(self) -> Run:
        """Returns a run that begins where the next iter() does."""
        epoch, position = self._progress.next
        self._plan.go_to_epoch(epoch)
        return self._run_at(epoch, position)

    def _run_at(self, epoch: int, position: int) -> Run:
        feed = self._feeder.feed() if self._feeder is not None and self._mapping is None else None
        idle, self._idle = self._idle, None
        if idle is not None:
            run, at_epoch = idle
            # Another device may be the current one by now.
            if (at_epoch, 0) == (epoch, position) and getattr(run, "feed", None) is feed:
                return run
            run.close()
        options = self._plan.options(self._plan.cursor(epoch, position))
        if self._mapping is not None:
            return self._mapping.start(options, self._maker, self._plan.extras(options))
        extras = self._plan.extras(options)
        if self._feeder is not None and feed is not None:
            return AheadRun(options, feed, self._feeder.depth, self._maker, extras)
        return PlainRun(options, self._finish, extras)

    def _ended(self, run: Run | None, stats: LoaderStats, epoch: int) -> None:
        """Records the end of an iteration; a run at the beginning of this epoch is kept."""
        self._last_stats = stats
        if run is None:
            return
        if self._is_closed or not self._plan.is_endless or self._progress.is_over(epoch):
            run.close()
        else:
            self._idle = (run, epoch)

    def live(self) -> Iteration | None:
        """Returns the iteration that may have more batches."""
        iteration = self._iteration() if self._iteration is not None else None
        return iteration if iteration is not None and iteration.is_live else None

    def stats(self) -> LoaderStats:
        """Returns figures of the live iteration, or of the last one."""
        live = self.live()
        return (live.stats() if live is not None else None) or self._last_stats

    def end_iteration(self) -> None:
        """Closes the live iteration."""
        if (live := self.live()) is not None:
            live.close()

    def end_all(self) -> None:
        """Closes every run, before the order or position changes."""
        self.end_iteration()
        idle, self._idle = self._idle, None
        if idle is not None:
            idle[0].close()

    def close(self) -> None:
        """Closes all runs and the workers of the mapping, permanently."""
        self._is_closed = True
        if self._mapping is not None:
            self._mapping.close()  # first: it wakes threads that wait for a worker
        self.end_all()
        if self._feeder is not None:
            self._feeder.close()
