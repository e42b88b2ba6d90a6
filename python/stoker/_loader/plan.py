"""Everything about a Loader that does not change from run to run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

from stoker import _native
from stoker._common.numbers import whole_number
from stoker._common.ranks import Ranks
from stoker._dataset.fields import Columns
from stoker._dataset.sources import Parts
from stoker._loader.extras import Extras
from stoker._loader.line import Line

Tail = Literal["drop", "keep", "wrap", "pad"]
_MEMORY_DEFAULT = 512 << 20
_BATCH_MAX = 2**32
_THREADS_MAX, _DEPTH_MAX = 256, 4096  # of the core, which would say so at the first batch
_TAILS = ("drop", "keep", "wrap", "pad")


@dataclass(frozen=True)
class Settings:
    """What the core is told besides data and order."""

    global_batch_size: int
    tail: str
    seed: int
    on_error: str
    memory_bytes: int | str | None
    threads: int | Literal["auto"]
    depth: int | Literal["auto"]
    held_limits_s: tuple[float, float]


def global_batch(batch_size: int | None, global_batch_size: int | None, ranks: Ranks) -> int:
    """Samples of a step over all ranks."""
    if (batch_size is None) == (global_batch_size is None):
        raise ValueError(
            "give batch_size, of each rank, or global_batch_size, of all together"
            + ("" if batch_size is None else ", not both")
        )
    if global_batch_size is None:
        return whole_number("batch_size", batch_size, 1, _BATCH_MAX) * ranks.world_size
    size = whole_number("global_batch_size", global_batch_size, 1, _BATCH_MAX)
    if size % ranks.world_size != 0:
        raise ValueError(
            f"global_batch_size={size} cannot be divided among {ranks.world_size} ranks"
        )
    return size


def tail_of(tail: str | None, is_shuffled: bool) -> str:
    """``tail``, or the default: what is shuffled is for training."""
    if tail is None:
        return "drop" if is_shuffled else "keep"
    if tail not in _TAILS:
        raise ValueError(f"tail={tail!r}: one of {', '.join(_TAILS)}")
    return tail


def _count_of(name: str, given: int | str, most: int) -> int:
    if given == "auto":
        return 0
    if isinstance(given, str):
        raise ValueError(f'{name}={given!r}: must be "auto", or a whole number')
    return whole_number(name, given, 1, most, '"auto", or ')


class LoaderPlan:
    """Data, order, batches and memory of a loader; makes the options of its runs."""

    def __init__(
        self,
        parts: Parts,
        line: Line,
        wanted: _native.OrderOptions,
        columns: Columns,
        ranks: Ranks,
        settings: Settings,
    ) -> None:
        if settings.on_error == "skip" and (line.is_given or not parts.is_whole):
            raise ValueError(
                'on_error="skip" chooses among all samples of a dataset, also those that were not '
                "selected: it is for whole datasets only"
            )
        self.ranks = ranks
        self.settings = settings
        self._parts = parts
        self._line = line
        self._wanted = wanted
        self._columns = columns
        self._fields = self._field_specs(columns)
        self._unfit: ValueError | None = None
        try:
            self._set_order(wanted)
        except ValueError as error:
            if wanted.lanes == 0:
                raise
            # Lanes that do not divide this batch may be those of a run with another one.
            self._set_order(_with_lanes(wanted, 0))
            self._unfit = error
        self._epoch = 0
        self.memory_needed = self.options(self.cursor(0, 0)).memory_needed()
        self.memory_bytes = self._memory()

    def _field_specs(self, columns: Columns) -> list[_native.FieldSpec]:
        if self._parts.windows or self._parts.packs:
            if columns.specs:
                raise ValueError("Tokens have one column, tokens: leave fields out; Tokens(dtype=)")
            spec = _native.FieldSpec("tokens", "tokens")
            spec.pad_value = self._parts.pad
            if self._parts.dtype:
                spec.dtype = self._parts.dtype
            return [spec]
        specs = list(columns.specs)
        if specs and all(native.has_key_field for native in self._parts.natives):
            specs.append(_native.FieldSpec("__key__", "text"))
        return specs

    def _set_order(self, wanted: _native.OrderOptions) -> None:
        if wanted.shuffle == "block" and wanted.deal_samples == 0 and not self._line.is_mixed:
            wanted = _with_deal(wanted, self.settings.global_batch_size)
        if wanted.shuffle == "block" and wanted.block_samples == 0:
            wanted = self._with_blocks(wanted)
        self.order_options = self._line.resolve(wanted)
        self.order = self._line.make(self.order_options)
        self.cut = _native.BatchCut.make(
            self.settings.global_batch_size,
            self.ranks.rank,
            self.ranks.world_size,
            self.settings.tail,
            self.order.epoch_samples,
        )

    def _with_blocks(self, wanted: _native.OrderOptions) -> _native.OrderOptions:
        """Blocks of so many bytes. From what is the same on all ranks; a cursor keeps it."""
        resolved = self._line.resolve(wanted)
        copy = _copied(wanted, wanted.sample_count)
        copy.block_samples = _native.choose_block_samples(
            min(self._line.sample_count or resolved.sample_count, *self._parts.whole_counts),
            self._parts.sample_bytes,
            resolved.lanes,
        )
        return copy

    def _memory(self) -> int:
        """This process's share of the machine's."""
        given, local = self.settings.memory_bytes, self.ranks.local_world_size
        if given is None:
            return max(_MEMORY_DEFAULT // local, self.memory_needed)
        total = (
            _native.parse_bytes(given)
            if isinstance(given, str)
            else whole_number("memory_bytes", given)
        )
        if total // local < self.memory_needed:
            among = f", {total // local:,} for each of {local} processes" if local > 1 else ""
            raise ValueError(
                f"memory_bytes is {total:,}{among}, and {self.memory_needed * local:,} are needed: "
                f"three batches of {self.cut.rank_batch_size} samples, each as large as it can "
                "get, and the largest sample"
                + (f", {local} times" if local > 1 else "")
                + ". Raise memory_bytes, lower the batch size, or leave memory_bytes out"
            )
        return total // local

    def check_order(self) -> None:
        """Raises if the order that was asked for is none, and no cursor has brought another."""
        if self._unfit is not None:
            raise self._unfit

    def go_to_epoch(self, epoch: int) -> None:
        """Has the order of this epoch: a sampler may give another list for each."""
        if epoch != self._epoch:
            before = self._line.fingerprint
            self._line = self._line.at_epoch(epoch)
            self._epoch = epoch
            if self._line.fingerprint != before:
                self._wanted = _with_count(self._wanted, self._line.sample_count)
                self._set_order(self._wanted)

    def adopt(self, cursor: _native.Cursor) -> None:
        """Takes what the run left open from a cursor that was checked: lanes and their deal."""
        self._set_order(cursor.order)
        self._unfit = None

    def cursor(self, epoch: int, position: int) -> _native.Cursor:
        """A cursor of this run."""
        return self._cursor_with(self.order_options).at(epoch, position)

    def wanted_cursor(self, saved: _native.Cursor) -> _native.Cursor:
        """One that leaves open what was not asked for, and what an old cursor does not say."""
        is_old = saved.fingerprint != self._line.fingerprint and (
            saved.fingerprint == self._line.old_fingerprint
        )
        return self._cursor_with(self._wanted, saved.fingerprint if is_old else None)

    def _cursor_with(
        self, options: _native.OrderOptions, fingerprint: str | None = None
    ) -> _native.Cursor:
        settings = self.settings
        if options.sample_count == 0:  # of a mixture
            options = _with_count(options, self.order.epoch_samples)
        return _native.Cursor(
            options,
            fingerprint or self._line.fingerprint,
            settings.tail,
            settings.global_batch_size,
        )

    def options(self, cursor: _native.Cursor) -> _native.LoaderOptions:
        """A run from ``cursor`` on: endless, or to the end of an epoch that a sampler gave."""
        settings = self.settings
        options = _native.LoaderOptions(self._parts.natives, self.order, self.cut)
        options.set_windows(self._parts.windows)
        options.set_packs(self._parts.packs)
        options.fields = self._fields
        options.cursor = cursor
        options.end_epoch = cursor.epoch + 1 if self._line.is_per_epoch else None
        options.on_error = settings.on_error
        options.seed = settings.seed
        options.threads = _count_of("threads", settings.threads, _THREADS_MAX)
        options.depth = _count_of("depth", settings.depth, _DEPTH_MAX)
        options.memory_bytes = getattr(self, "memory_bytes", 0)
        options.set_held_limits(*settings.held_limits_s)
        if engine := os.environ.get("STOKER_ENGINE"):
            try:
                options.engine = engine
            except ValueError as error:
                raise ValueError(f"STOKER_ENGINE: {error}") from None
        return options

    def extras(self, options: _native.LoaderOptions) -> Extras:
        """What a run with these options may read beside its own samples."""
        selections = None if self._line.is_given else self._parts.selections
        return Extras(
            options,
            self.order,
            self.settings.seed,
            selections,
            show_columns=self._columns.are_shown_by_samples,
        )

    @property
    def is_endless(self) -> bool:
        """Whether a run goes on from epoch to epoch."""
        return not self._line.is_per_epoch

    @property
    def is_same_each_epoch(self) -> bool:
        """Whether every epoch has the same batches."""
        is_mixed = self._line.is_mixed
        return self.is_endless and not is_mixed and self.order_options.shuffle == "off"

    def batches_in_epoch(self) -> int:
        """Of this rank, which are as many on every rank."""
        return self.cut.batches_from(0)


def _copied(options: _native.OrderOptions, sample_count: int) -> _native.OrderOptions:
    copy = _native.OrderOptions(options.shuffle, options.seed, sample_count)
    copy.block_samples = options.block_samples
    copy.window_blocks = options.window_blocks
    copy.lanes = options.lanes
    copy.deal_samples = options.deal_samples
    return copy


def _with_count(options: _native.OrderOptions, sample_count: int) -> _native.OrderOptions:
    return _copied(options, sample_count)


def _with_lanes(options: _native.OrderOptions, lanes: int) -> _native.OrderOptions:
    copy = _copied(options, options.sample_count)
    copy.lanes = lanes
    return copy


def _with_deal(options: _native.OrderOptions, deal_samples: int) -> _native.OrderOptions:
    copy = _copied(options, options.sample_count)
    copy.deal_samples = deal_samples
    return copy
