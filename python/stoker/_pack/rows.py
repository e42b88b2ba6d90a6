"""Packs a RowInput: plans shards, reads rows in threads, passes them to the native writers."""

from __future__ import annotations

import os
import string
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from stoker import _native
from stoker._common.plain_files import OwnFolder
from stoker._pack.importers import open_source
from stoker._pack.importers.contract import RowInput, Rows
from stoker._pack.ingest import ARRAY_FORMATS, FORMATS, to_sample
from stoker._pack.staged_rows import Packed, StagedRows

_OWN = ".stoker"  # folder of a dataset that only Stoker reads
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_WAIT_S = 0.1  # between two checks for signals and progress

_Job = TypeVar("_Job")


@dataclass(frozen=True)
class Progress:
    """Progress of a pack; bytes are those of samples packed in this run."""

    samples_done: int
    sample_count: int
    samples_found: int
    bytes_done: int
    token_bytes: int = 0  # size of one token, if samples are tokens
    is_staging: bool = False  # in the first of the two passes that some shuffles need


@dataclass(frozen=True)
class RowPack:
    """The arguments of stoker.pack()."""

    format: str
    samples_per_shard: int
    shard_bytes: int
    shuffle_seed: int | None = None
    threads: int = 0
    task: tuple[int, int] = (0, 1)
    prefix: str = "shard"
    progress: Callable[[Progress], None] | None = None
    note: Callable[[str], None] | None = None


class _StoppedError(Exception):
    """Another thread has failed, or the user pressed Ctrl-C."""


def make_runs(
    session: _native.ImportSession, pending: list[int], starts: npt.NDArray[np.int64] | None
) -> list[list[int]]:
    """Returns lists of shards that one thread packs one after another.

    Adjacent shards that begin in the same piece of the source (a row group) are read together,
    because otherwise each would read that piece again.
    """
    if starts is None:
        return [[shard] for shard in pending]
    runs: list[list[int]] = []
    last = (-2, -1)  # shard, piece
    for shard in pending:
        piece = int(np.searchsorted(starts, session.range(shard)[0], side="right"))
        if last == (shard - 1, piece):
            runs[-1].append(shard)
        else:
            runs.append([shard])
        last = (shard, piece)
    return runs


class _RowPacker:
    """Runs one job. Thread safety: pack_run() from any thread, the rest from one."""

    def __init__(self, source: RowInput, session: _native.ImportSession, plan: RowPack) -> None:
        self._source = source
        self._session = session
        self._plan = plan
        self._staged: StagedRows | None = None
        self._folder: OwnFolder | None = None
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._samples = 0
        self._bytes = 0

    def _batches(self, rows: Rows) -> Iterator[list[Packed]]:
        if self._staged is not None:
            assert not isinstance(rows, range)
            yield from self._staged.read(rows)
            return
        at = 0
        for batch in self._source.read(rows):
            numbers = rows[at : at + len(batch)]
            yield [
                to_sample(int(number), sample, keep_arrays=self._plan.format in ARRAY_FORMATS)
                for number, sample in zip(numbers, batch, strict=True)
            ]
            at += len(batch)

    def pack_run(self, shards: list[int]) -> None:
        """Packs adjacent shards."""
        rows: Rows = range(self._session.range(shards[0])[0], self._session.range(shards[-1])[1])
        if self._plan.shuffle_seed is not None:
            rows = np.concatenate([self._session.order(shard) for shard in shards])
        batches = self._batches(rows)
        samples: list[Packed] = []
        for shard in shards:
            begin, end = self._session.range(shard)
            writer = self._session.begin_shard(shard)
            try:
                while begin < end:
                    samples = samples or next(batches, [])
                    if not samples:
                        raise OSError(
                            f"{self._source.path}: fewer rows than were counted; pack it "
                            "when no other process writes to it"
                        )
                    part, samples = samples[: end - begin], samples[end - begin :]
                    writer.append(part)
                    begin += len(part)
                    self._count(part)
                writer.finish()
            finally:
                writer.abandon()

    def _count(self, samples: list[Packed]) -> None:
        """Counts a batch; also raises here if the thread must stop."""
        if self._stop.is_set():
            raise _StoppedError
        size = sum(len(field[4]) for _, fields in samples for field in fields)
        with self._lock:
            self._samples += len(samples)
            self._bytes += size

    def _report(self, found: int, is_staging: bool) -> None:
        if self._plan.progress is None:
            return
        with self._lock:
            done, size = self._samples, self._bytes
        count = self._session.sample_count
        token_bytes = self._source.token_bytes
        self._plan.progress(Progress(done + found, count, found, size, token_bytes, is_staging))

    def _run_all(
        self, work: Callable[[_Job], None], jobs: list[_Job], report: Callable[[], None]
    ) -> None:
        """Runs jobs in threads; the first error ends them all."""
        workers = min(self._plan.threads or os.cpu_count() or 1, max(1, len(jobs)))
        pool = ThreadPoolExecutor(workers, thread_name_prefix="stoker-pack")
        try:
            todo = iter(jobs)
            left: set[Future[None]] = set()
            while True:
                more = islice(todo, 2 * workers - len(left))
                left |= {pool.submit(work, job) for job in more}
                if not left:
                    break
                done, left = wait(left, timeout=_WAIT_S, return_when=FIRST_COMPLETED)
                while done:
                    done.pop().result()  # no variable: a future here would keep its error alive
                report()
        except BaseException:
            self._stop.set()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _stage(self, staged: StagedRows) -> None:
        """Runs the first pass over a source that cannot be read in random order."""
        missing = staged.find_missing()
        rows = sum(len(staged.rows_of(piece)) for piece in missing)
        found = self._session.sample_count - rows
        self._run_all(
            lambda piece: staged.stage(piece, self._count),
            missing,
            lambda: self._report(found, is_staging=True),
        )
        staged.load()
        self._samples = self._bytes = 0
        self._staged = staged

    def run(self, directory: str, staging: str) -> _native.PackReport:
        """Packs all missing shards, then writes the manifest.

        ``staging`` names a folder in the directory's ``.stoker`` that may be used.
        """
        pending = self._session.find_pending()
        spans = (self._session.range(shard) for shard in pending)
        found = self._session.sample_count - sum(end - begin for begin, end in spans)
        starts = self._source.starts
        if self._plan.shuffle_seed is not None:
            starts = None
            if pending and self._source.is_sequential:
                wanted = np.sort(np.concatenate([self._session.order(s) for s in pending]))
                is_array = self._plan.format in ARRAY_FORMATS
                self._folder = OwnFolder(directory, _OWN, staging)
                self._stage(StagedRows(self._source, self._folder, wanted, keep_arrays=is_array))
        runs = make_runs(self._session, pending, starts)
        self._run_all(self.pack_run, runs, lambda: self._report(found, is_staging=False))
        return self._session.close()

    def close(self) -> None:
        """Closes the folder, which is kept."""
        if self._folder is not None:
            self._folder.close()


def _check(plan: RowPack, kind: str, source: RowInput) -> None:
    if plan.format not in FORMATS:
        raise ValueError(f"format {plan.format!r} cannot be written: one of {', '.join(FORMATS)}")
    if (kind == "text") != (plan.format == "tokens") and kind == "text":
        raise ValueError(f"a tokenizer makes tokens, not {plan.format}: leave the format out")
    if source.count == 0:
        raise ValueError(f"{source.path}: no rows to pack")
    lowered = [name.translate(_LOWER) for name in source.fields]
    twice = [name for name in lowered if lowered.count(name) > 1]
    if plan.format == "tar" and twice:
        same = [name for name in source.fields if name.translate(_LOWER) == twice[0]]
        raise ValueError(
            f"{source.path}: {' and '.join(map(repr, same))} are one name in a tar, whose readers "
            "turn names into lower case; rename one (rename=, --rename OLD=NEW)"
        )


def _pack(
    source: RowInput, session: _native.ImportSession, plan: RowPack, directory: str, staging: str
) -> _native.PackReport:
    packer = _RowPacker(source, session, plan)
    try:
        return packer.run(directory, staging)
    except ValueError:  # invalid data: if no shard is packed, nothing is left behind
        if len(session.find_pending()) == session.shard_count:
            _remove_staged(directory, staging)
            session.withdraw()
        raise
    finally:
        packer.close()


def _remove_staged(directory: str, staging: str) -> None:
    own = OwnFolder(directory, _OWN)
    try:
        own.remove_all(staging)
    finally:
        own.close()


def pack_rows(
    kind: str, path: str, directory: str, source_options: dict[str, object], plan: RowPack
) -> _native.PackReport:
    """Packs the files of an importer; raises as stoker.pack() does."""
    _native.check_apart(path, directory)
    with open_source(kind, path, source_options) as source:
        _check(plan, kind, source)
        options = _native.ImportOptions()
        options.format = plan.format
        options.prefix = plan.prefix
        options.set_shards(plan.samples_per_shard, plan.shard_bytes)
        options.set_task(*plan.task)
        options.set_rows(source.count, source.size_bytes // source.count, source.fingerprint)
        if plan.shuffle_seed is not None:
            options.set_shuffle_seed(plan.shuffle_seed)
        if source.sizes is not None:
            options.set_sizes(source.sizes)
        staging = "rows-{}-of-{}".format(*plan.task)
        try:
            first = next(source.read(range(1)))[:1]
            sample = to_sample(0, first[0], keep_arrays=plan.format in ARRAY_FORMATS)
            session = _native.open_import(directory, options, [sample])
            report = session.finished or _pack(source, session, plan, directory, staging)
            _remove_staged(directory, staging)
        except _native.CorruptError:
            raise
        except ValueError as error:
            message = str(error)
            raise ValueError(message if path in message else f"{path}: {message}") from None
        for note in [*source.notes(), *report.remarks] if plan.note is not None else []:
            plan.note(note)  # type: ignore[misc]
        return report
