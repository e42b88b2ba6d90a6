"""The parts of a Loader that are the same in every run."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from stoker import _native
from stoker._common.numbers import whole_number
from stoker._common.ranks import Ranks
from stoker._dataset.fields import Columns
from stoker._dataset.sources import Parts
from stoker._loader.cursors import check_cursor
from stoker._loader.extras import Extras
from stoker._loader.order import GivenOrder

Tail = Literal["drop", "keep", "wrap", "pad"]
_BATCH_MAX = 2**32
_log = logging.getLogger("stoker")
_THREADS_MAX, _DEPTH_MAX = 256, 4096  # limits of the core, checked before the first batch
_TAILS = ("drop", "keep", "wrap", "pad")


@dataclass(frozen=True)
class Settings:
    """The arguments of a Loader except data and order; the core replaces None by defaults."""

    batch_size: int | None
    global_batch_size: int | None
    micro_batch_size: int | None
    tail: str | None
    on_error: str
    memory_bytes: int | str | None
    threads: int | Literal["auto"]
    depth: int | Literal["auto"]
    held_limits_s: tuple[float, float]

    def put_into(self, request: _native.LoaderRequest) -> None:
        """Checks arguments by name; the core checks the rest."""
        for name in ("batch_size", "global_batch_size", "micro_batch_size"):
            if (given := getattr(self, name)) is not None:
                setattr(request, name, whole_number(name, given, 1, _BATCH_MAX))
        if self.tail is not None and self.tail not in _TAILS:
            raise ValueError(f"tail={self.tail!r}: one of {', '.join(_TAILS)}")
        request.set_tail(self.tail)
        request.set_on_error(self.on_error)
        request.threads = _count_of("threads", self.threads, _THREADS_MAX)
        request.depth = _count_of("depth", self.depth, _DEPTH_MAX)
        request.set_held_limits(*self.held_limits_s)
        if isinstance(self.memory_bytes, str):
            request.memory_bytes = _native.parse_bytes(self.memory_bytes)
        elif self.memory_bytes is not None:
            request.memory_bytes = whole_number("memory_bytes", self.memory_bytes)
        if engine := os.environ.get("STOKER_ENGINE"):
            try:
                request.set_engine(engine)
            except ValueError as error:
                raise ValueError(f"STOKER_ENGINE: {error}") from None


def _count_of(name: str, given: int | str, most: int) -> int:
    if given == "auto":
        return 0
    if isinstance(given, str):
        raise ValueError(f'{name}={given!r}: must be "auto", or a whole number')
    return whole_number(name, given, 1, most, '"auto", or ')


class LoaderPlan:
    """Data, order, batches and memory of a loader; makes the options of its runs.

    Attributes:
        ranks: Which part of each batch this process has.
        seed: Seed of the order and of all random choices.
        is_endless: Whether a run continues from epoch to epoch; with a sampler it does not.
        is_same_each_epoch: Whether every epoch has the same batches.
        memory_needed: The least memory that it needs.
        memory_bytes: This process's share of the machine's memory.
    """

    def __init__(
        self,
        parts: Parts,
        order: _native.OrderOptions,
        given: GivenOrder | None,
        columns: Columns,
        ranks: Ranks,
        settings: Settings,
    ) -> None:
        request = _native.LoaderRequest(parts.natives, order)
        request.fields = parts.fields(columns)
        request.rank, request.world_size = ranks.rank, ranks.world_size
        request.local_world_size = ranks.local_world_size
        settings.put_into(request)
        if given is not None:
            request.set_items(given.items(0), given.is_per_epoch)
        self._setup = _native.LoaderSetup.make(request)
        self._parts = parts
        self._given = given
        self._columns = columns
        self._epoch = 0
        self.ranks = ranks
        self.seed = order.seed
        self.is_endless = given is None or not given.is_per_epoch
        is_stored = order.shuffle == "off" and not parts.is_mixed
        self.is_same_each_epoch = self.is_endless and is_stored
        if forecast := self._setup.cache_forecast:
            _log.info("%s", forecast)
        self.memory_needed = self._setup.memory_needed
        self.memory_bytes = self._setup.memory_bytes

    @property
    def cut(self) -> _native.BatchCut:
        """How the positions of an epoch are divided into batches."""
        return self._setup.cut

    def go_to_epoch(self, epoch: int) -> None:
        """Sets the order of this epoch: a sampler may give a different list for each."""
        if self._given is not None and self._given.is_per_epoch and epoch != self._epoch:
            self._setup.set_items(self._given.items(epoch))
            self._epoch = epoch

    def cursor(self, epoch: int, position: int) -> _native.Cursor:
        """Returns a cursor of this run."""
        return self._setup.cursor(epoch, position)

    def check(self, cursor: _native.Cursor, allow: Iterable[str]) -> list[str]:
        """Raises CursorMismatch if it is from another run; returns what is allowed."""
        return check_cursor(cursor, self._setup.wanted(cursor), allow)

    def resume(self, cursor: _native.Cursor, allow: Iterable[str]) -> None:
        """Takes from the cursor what the arguments left open: lanes and their distribution."""
        self._setup.resume(cursor, self.check(cursor, allow))

    def options(self, cursor: _native.Cursor) -> _native.LoaderOptions:
        """Returns options from ``cursor``: without end, or to the end of a sampler's epoch."""
        return self._setup.options_at(cursor)

    def extras(self, options: _native.LoaderOptions) -> Extras:
        """Returns what a run with these options may read in addition to its own samples."""
        return Extras(
            options,
            self._setup.order,
            self.seed,
            self._parts.selections if self._given is None else None,
            show_columns=self._columns.are_shown_by_samples,
        )

    def batches_in_epoch(self) -> int:
        """Returns the batches or micro-batches in an epoch, the same number on every rank."""
        return self.cut.micro_batches_from(0)

    def steps_in_epoch(self) -> int:
        """Returns the global batches in an epoch."""
        return self.cut.batches_from(0)
