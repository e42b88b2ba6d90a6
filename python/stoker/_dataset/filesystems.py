"""File systems of fsspec (``gs://``, ``az://`` and others), as stores that are only read.

The slow path: each range goes through Python, and nothing ties it to a version. What the core wants
is done by threads of Python, because those of the core never take the GIL.
"""

from __future__ import annotations

import errno
import os
import re
import threading
from typing import Any

from stoker import _native

_NATIVE = frozenset(("file", "s3", "http", "https", "pipe"))
_SCHEME = re.compile(r"[a-z0-9+_.-]+://")
_PASSWORD = re.compile(r"[^:]+://[^/@]*:[^@]*@")
_THREADS = 8  # of each file system

_stores: dict[str, _native.ServedStore] = {}  # by scheme, as long as the process
_lock = threading.Lock()

# What tells versions of a file apart, the best first.
_VERSIONS = ("ETag", "etag", "md5Hash", "generation", "checksum", "mtime", "LastModified")
_TIMES = ("last_modified", "updated", "modified", "created")


def store_of(patterns: tuple[str, ...]) -> tuple[_native.ServedStore | None, tuple[str, ...]]:
    """Returns the store of these URIs and the keys in it; None for those that the core reads."""
    others = sorted({p.partition("://")[0] for p in patterns if _SCHEME.match(p)} - _NATIVE)
    if not others:
        return None, patterns
    if any(_PASSWORD.match(pattern) for pattern in patterns):
        raise ValueError(f"{others[0]}://...: a password in a URI is not supported")
    if len(others) > 1 or not all(pattern.startswith(f"{others[0]}://") for pattern in patterns):
        raise ValueError(
            f"{patterns[0]} and {patterns[-1]}: the shards of a dataset are in one place; open "
            "several datasets, and mix them"
        )
    scheme = others[0]
    start = len(scheme) + len("://")
    return _store(scheme), tuple(p[start:].rstrip("/") or "." for p in patterns)


def _store(scheme: str) -> _native.ServedStore:
    with _lock:
        if scheme not in _stores:
            _filesystem(scheme)  # raises here, and not in a thread
            _stores[scheme] = _native.ServedStore(scheme)
            _start_threads(scheme)
        return _stores[scheme]


def _filesystem(scheme: str) -> Any:
    try:
        import fsspec
    except ImportError:
        raise ValueError(f"{scheme}:// is read through fsspec: pip install fsspec") from None
    try:
        return fsspec.filesystem(scheme)
    except (ImportError, TypeError, ValueError) as error:  # TypeError: it needs to know a host
        raise ValueError(
            f"{scheme}://: no such store; there are paths, file:, s3://, http://, https:// and, "
            f"read through fsspec, the file systems it has ({error})"
        ) from None


def _start_threads(scheme: str) -> None:
    store = _stores[scheme]
    for _ in range(_THREADS):
        threading.Thread(target=_serve, args=(scheme, store), daemon=True).start()


def _serve(scheme: str, store: _native.ServedStore) -> None:
    """Does errands, for as long as the process lives."""
    filesystem = _filesystem(scheme)
    while True:
        errand = _native.take_errand(store)
        try:
            _do(filesystem, errand)
        except FileNotFoundError:
            errand.failed(errno.ENOENT, "no such file")
        except OSError as error:
            errand.failed(error.errno or errno.EIO, str(error))
        except BaseException as error:  # whatever it is, somebody waits
            errand.failed(errno.EIO, f"{type(error).__name__}: {error}")


def _do(filesystem: Any, errand: _native.Errand) -> None:
    key = "" if errand.key == "." else errand.key
    if errand.kind == "read":
        errand.came(filesystem.cat_file(key, errand.offset, errand.offset + errand.size))
    elif errand.kind == "look":
        filesystem.invalidate_cache(filesystem._parent(key))
        info = filesystem.info(key)
        errand.found(info["type"] == "directory", int(info.get("size") or 0), _version(info))
    else:
        entries = filesystem.ls(key, detail=True, refresh=True)
        root = filesystem._strip_protocol(key).rstrip("/")
        names = [
            (entry["name"].rstrip("/").rpartition("/")[2], entry["type"] == "directory")
            for entry in entries
            if entry["name"].rstrip("/") != root  # the folder itself, as some list it
        ]
        errand.listed(names)


def _version(info: dict[str, Any]) -> str:
    """Returns a text that changes with the file; empty if nothing tells."""
    for name in (*_VERSIONS, *_TIMES):
        if info.get(name):
            return f"{name} {info[name]} {info.get('size')}"
    return ""


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    for scheme, store in _stores.items():
        store.begin_anew()
        _start_threads(scheme)


os.register_at_fork(after_in_child=_after_fork)
