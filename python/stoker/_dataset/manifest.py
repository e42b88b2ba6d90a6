"""manifest.json: sizes and SHA-256 of a dataset's files, and the check against them."""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from stoker._common.corrupt import corrupt_error
from stoker._common.plain_files import open_plain

NAME = "manifest.json"


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open_plain(path, buffering=0) as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def is_in(directory: Path) -> bool:
    """Whether the directory has a manifest; datasets written by other programs have none."""
    return (directory / NAME).exists()


def check_pin(directory: Path, sha256: str) -> None:
    """Raises ValueError with both values if the manifest's SHA-256 is not ``sha256``.

    Raises FileNotFoundError if there is no manifest.
    """
    path = directory / NAME
    if not path.exists():
        message = f"{directory} has no manifest, as packed datasets have, for manifest_sha256"
        raise FileNotFoundError(errno.ENOENT, message, str(path))
    found = _sha256(path)
    if found != sha256.lower():
        raise ValueError(f"{path}: its SHA-256 is {found}, and manifest_sha256 says {sha256}")


def _read_entries(path: Path) -> tuple[dict[str, tuple[int, str]], list[str]]:
    """Returns size and SHA-256 of every file in the manifest, and the names of other files."""
    if not path.exists():
        message = f"{path.parent} has no manifest, as only packed datasets have: use verify='full'"
        raise FileNotFoundError(errno.ENOENT, message, str(path))
    with open_plain(path) as file:
        text = file.read()
    try:
        manifest: dict[str, Any] = json.loads(text)
        version = manifest["version"]
        others = manifest.get("files", [])
        files = [*manifest["shards"], *others]
        entries = {
            str(file["name"]): (int(file["size_bytes"]), str(file["sha256"])) for file in files
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise corrupt_error(f"{path}: not a manifest: {error!r}", str(path)) from None
    if version != 1:
        raise ValueError(f"{path}: version {version} is newer than this Stoker: update it")
    for name in entries:
        if Path(name).name != name:
            raise corrupt_error(f"{path}: {name!r} is not a file beside it", str(path))
    return entries, [str(file["name"]) for file in others]


def _check_file(path: Path, size_bytes: int, sha256: str) -> None:
    found_bytes = path.stat().st_size
    if found_bytes != size_bytes:
        raise corrupt_error(
            f"{path}: {found_bytes} bytes, and the manifest says {size_bytes}", str(path)
        )
    found = _sha256(path)
    if found != sha256.lower():
        raise corrupt_error(f"{path}: SHA-256 {found}, and the manifest says {sha256}", str(path))


def verify(directory: Path, shards: Sequence[str] | None) -> None:
    """Compares files with the manifest, several at a time.

    Args:
        directory: The directory of the manifest; FileNotFoundError, with what to do, if it has
            none.
        shards: The names to compare, in addition to all files that are not shards; None: all
            shards.

    Raises:
        CorruptError: The first file, in the order of the manifest, that does not match.
        FileNotFoundError: A file is missing.
        ValueError: A shard is not in the manifest.
    """
    entries, others = _read_entries(directory / NAME)
    names = list(entries) if shards is None else [*shards, *others]
    for name in names:
        if name not in entries:
            raise ValueError(f"{directory / name}: not in the manifest: pack the dataset again")
    with ThreadPoolExecutor(max_workers=min(8, len(names) or 1)) as pool:
        checks = [pool.submit(_check_file, directory / name, *entries[name]) for name in names]
        try:
            for check in checks:
                check.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
