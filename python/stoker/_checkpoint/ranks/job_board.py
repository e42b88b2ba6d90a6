"""The board on which the ranks of a job post for each other, outside of saves and restores."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections import Counter
from collections.abc import Iterable
from typing import Any

from stoker._checkpoint.ranks.job import Job, JobConflict, distributed_store, runtime_directory
from stoker._common.boards import Board, FileBoard, StoreBoard, mark_key
from stoker._common.process_mark import is_gone, process_mark
from stoker._common.ranks import Ranks

_ASKED_MAX = 64  # ranks whose marks every rank reads, each a question to the board
_counts: Counter[str] = Counter()  # boards of this process by purpose: as many on every rank


def open_board(job: Job, ranks: Ranks, purpose: str, place: str | None, store: Any = None) -> Board:
    """Returns a new board. All ranks open theirs in the same order, with the same purpose.

    ``store``: that of torch.distributed, if it was found before: torch forgets it in
    ``destroy_process_group()``.

    It is in torch.distributed's store; or in files in ``place``, a directory that all ranks can
    write to; or, if all ranks are on this machine, in files in a directory of this user. Each rank
    has posted the mark of its process there.

    Raises:
        ValueError: There is nothing that all ranks are known to share.
        JobConflict: Another process, which has not ended, has posted as this rank.
        OSError: The directory cannot be written to.
    """
    _counts[purpose] += 1
    name = f"{purpose}-{_counts[purpose]}"
    if job.by_store:
        store = distributed_store() if store is None else store
        # torchrun keeps its store when it starts the ranks again.
        for start in itertools.count():
            board = StoreBoard(store, f"stoker/{name}/{start}/")
            if not _is_left(board, ranks) and _claim(board, ranks):
                return board
    if place is None:
        if not job.is_local:
            raise ValueError(
                f"{ranks.world_size} ranks on several machines, and nothing that they share is "
                f"known, for {purpose}: call torch.distributed.init_process_group() before, or "
                "give meeting=, a directory that all ranks can write to"
            )
        place = runtime_directory()
    told = "\0".join([job.name, name, str(ranks.world_size)])
    word = hashlib.blake2b(told.encode(), digest_size=12).hexdigest()
    # Ranks that one process has started, and starts again after a crash, are one job by name.
    directories = (os.path.join(place, f"{name}-{word}-{n}") for n in itertools.count())  # noqa: PTH118
    files = next(board for board in map(FileBoard, directories) if not _is_left(board, ranks))
    if not _claim(files, ranks):
        raise JobConflict(
            f"rank {ranks.rank} of this job is another process, or was one on another machine. "
            "Give job=, a text that is the same on all ranks of this start and new for every start"
        )
    return files


def _is_left(board: Board, ranks: Ranks) -> bool:
    """Whether a process that has ended has posted there: the board of an earlier start."""
    others: Iterable[int] = range(ranks.world_size)
    if ranks.world_size > _ASKED_MAX:  # only processes of this machine are known to have ended
        first = ranks.rank - ranks.rank % ranks.local_world_size
        others = {0, *range(first, min(first + ranks.local_world_size, ranks.world_size))}
    marks = [board.read_all([mark_key(rank)]) for rank in others]
    return any(is_gone(mark[0]) for mark in marks if mark is not None)


def _claim(board: Board, ranks: Ranks) -> bool:
    """Posts the mark of this process; False if another process has posted as this rank."""
    mark = process_mark()
    return board.post(mark_key(ranks.rank), mark) == mark
