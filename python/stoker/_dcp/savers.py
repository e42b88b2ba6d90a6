"""The Checkpointers that save for torch.distributed.checkpoint: one per directory and process.

A DcpWriter may live for one save only, or be sent to another process; what a run continues, and
where its ranks meet, must outlive it.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from stoker import _native
from stoker._checkpoint.checkpointer import Checkpointer
from stoker._checkpoint.ranks.job import distributed_store
from stoker._checkpoint.save.pending import Pending
from stoker._checkpoint.save.writer import Encoded, Seen
from stoker._checkpoint.single import next_step
from stoker._dcp.place import Place


class Loaded(NamedTuple):
    """A checkpoint that was loaded, which later saves in its directory continue.

    Attributes:
        parent: Its step, generation and line.
        seen: The greatest generation of each line that was there.
    """

    parent: tuple[int, int, str]
    seen: Seen


class _Saver:
    def __init__(self, made: Checkpointer, store: Any) -> None:
        self.made, self.store = made, store
        self.loaded: Loaded | None = None  # what was loaded before the last save


_SAVERS_MAX = 64
_lock = threading.Lock()
os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)
_savers: dict[tuple[Any, ...], _Saver] = {}
_counts: dict[str, int] = {}  # how many were made for a directory: the same on every rank
_loaded: dict[str, Loaded] = {}  # by directory


def note_loaded(directory: str, checkpoint: _native.OpenCheckpoint) -> None:
    """The next save in the directory continues this checkpoint."""
    try:
        found = _native.list_checkpoints(os.fsencode(directory))
    except (OSError, ValueError):
        return  # it was loaded; what is beside it is no reason to fail
    seen: Seen = {}
    for _, _, _, generation, _, line in found:
        seen[line] = max(generation, seen.get(line, 0))
    parent = checkpoint.step, checkpoint.generation, checkpoint.line
    _loaded[os.path.realpath(directory)] = Loaded(parent, seen)


def all_loaded() -> dict[str, Loaded]:
    """Returns what was loaded in this process, by directory."""
    return dict(_loaded)


def save_in(
    place: Place,
    ranks: tuple[int, int],
    settings: dict[str, Any],
    loaded: dict[str, Loaded],
    encode: Callable[[], Encoded],
) -> Pending:
    """Saves what ``encode`` returns, and waits until it is durable.

    The lock and the memory are released after every save: the next one may come from another
    process, as those of ``async_save`` do.
    """
    saver = _saver_for(place, ranks, settings)
    made = saver.made
    writer = made._writer
    known = loaded.get(os.path.realpath(place.directory))
    if place.step is not None and known is not None and known != saver.loaded:
        with writer.turns.take():
            writer.release(known.parent, (), dict(known.seen))
        saver.loaded = known
    try:
        step = place.step
        if step is None:
            step = next_step(made)
        pending = made._save(step, encode)
        pending.wait()
        return pending
    finally:
        with writer.turns.take():
            writer.release(None)


def _saver_for(place: Place, ranks: tuple[int, int], settings: dict[str, Any]) -> _Saver:
    rank, world_size = ranks
    key = (os.getpid(), place.directory, ranks, repr(sorted(settings.items())))
    store = _store_of(ranks)
    with _lock:
        saver = _savers.pop(key, None)
        if saver is None or saver.store is not store:
            made = Checkpointer(place.directory, rank=rank, world_size=world_size, **settings)
            made._writer.is_told = not any(name.startswith("keep_") for name in settings)
            if store is not None:
                # Not by the count of all meetings: other threads make those at any time.
                number = _counts[place.directory] = _counts.get(place.directory, 0) + 1
                told = f"{place.directory}\0{number}".encode()
                word = hashlib.blake2b(told, digest_size=12).hexdigest()
                made._meetings.set_key(f"stoker/dcp-{word}")
            saver = _Saver(made, store)
        _savers[key] = saver  # the last one that is dropped
        oldest = _savers.pop(next(iter(_savers))) if len(_savers) > _SAVERS_MAX else None
    if oldest is not None:
        oldest.made.close()
    return saver


def _store_of(ranks: tuple[int, int]) -> Any:
    """Returns the store of torch.distributed if these are its ranks; None for other groups."""
    distributed = sys.modules["torch.distributed"]
    if ranks[1] == 1 or not distributed.is_available() or not distributed.is_initialized():
        return None
    own = distributed.get_rank(), distributed.get_world_size()
    return distributed_store() if own == ranks else None
