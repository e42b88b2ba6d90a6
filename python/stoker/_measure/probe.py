"""stoker.probe: what the storage under a directory can do."""

from __future__ import annotations

import os

from stoker import _native
from stoker._common.paths import path_text


def probe(path: str | os.PathLike[str] = ".") -> _native.StorageProbe:
    """Probes what the storage under a directory can do.

    Creates scratch files in ``path`` and removes them before the return; takes some milliseconds on
    a local filesystem. STOKER_ENGINE, if set, decides ``engine``.

    Raises:
        OSError: The directory is not writable, or the engine that STOKER_ENGINE names does not
            work.
        ValueError: STOKER_ENGINE is not the name of an engine.
    """
    return _native.probe(path_text(path))
