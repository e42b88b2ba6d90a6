"""stoker.probe: what the storage under a directory can do."""

from __future__ import annotations

import os

from stoker import _native
from stoker._common.paths import path_text


def probe(path: str | os.PathLike[str] = ".") -> _native.StorageProbe:
    """Finds out what the storage under a directory can do, by trying.

    Scratch files are made in ``path`` and are gone on return; it takes some milliseconds on a local
    filesystem. STOKER_ENGINE, where set, decides ``engine``.

    Raises:
        OSError: The directory cannot be written to, or the engine that STOKER_ENGINE names does not
            work.
        ValueError: STOKER_ENGINE is not the name of an engine.
    """
    return _native.probe(path_text(path))
