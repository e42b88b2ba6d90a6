"""The datasets that loaders are compared on, made once and kept next to the results.

Bytes are random, so that compressing storage gains nothing; sizes and order are the same on every
machine.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

SHARDS = 8  # enough for two workers to share evenly


def fsync(path: Path) -> None:
    """Makes a file, or the names in a directory, durable."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def made_once(folder: Path, recipe: dict[str, Any], make: Callable[[Path], dict[str, Any]]) -> dict:
    """Calls ``make`` on ``folder`` unless it was made with this recipe; returns its facts."""
    note = folder / "made.json"
    if note.exists():
        known = json.loads(note.read_text(encoding="utf-8"))
        if known["recipe"] == recipe:
            return known["facts"]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    facts = make(folder)
    os.sync()
    note.write_text(json.dumps({"recipe": recipe, "facts": facts}), encoding="utf-8")
    return facts


def samples_of(total_bytes: int, sample_bytes: int) -> Iterator[tuple[str, bytes, int]]:
    """Yields key, image and class; images vary in size by up to a quarter and are not aligned."""
    noise = np.random.default_rng(1).bytes(4 * sample_bytes + (1 << 20))
    draw = np.random.default_rng(2)
    number = done = 0
    while done < total_bytes:
        size = int(draw.integers(sample_bytes * 3 // 4, sample_bytes * 5 // 4 + 1))
        start = int(draw.integers(len(noise) - size))
        yield f"{number:08}", noise[start : start + size], number % 1000
        number += 1
        done += size


def member(name: str, data: bytes) -> bytes:
    """Returns one member of a tar."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    return info.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % 512)


def make_tars(folder: Path, total_bytes: int, sample_bytes: int) -> dict[str, Any]:
    """Makes WebDataset shards with the fields jpg and cls."""

    def make(into: Path) -> dict[str, Any]:
        count = size = 0
        shard = None
        for key, image, label in samples_of(total_bytes, sample_bytes):
            if shard is None or shard.tell() >= total_bytes // SHARDS:
                close_tar(shard)
                shard = (into / f"train-{len(list(into.iterdir())):06}.tar").open("wb")
            shard.write(member(f"{key}.jpg", image) + member(f"{key}.cls", b"%d" % label))
            count += 1
            size += len(image)
        close_tar(shard)
        return {"samples": count, "bytes": size}

    recipe = {"kind": "tar", "total": total_bytes, "sample": sample_bytes, "version": 1}
    return made_once(folder, recipe, make)


def close_tar(shard: Any) -> None:
    """Writes the two empty blocks that end a tar, and closes it."""
    if shard is not None:
        shard.write(bytes(1024))
        shard.close()


def make_mds(folder: Path, total_bytes: int, sample_bytes: int) -> dict[str, Any]:
    """Makes MDS shards with streaming's own writer and the same samples as the tars."""

    def make(into: Path) -> dict[str, Any]:
        from streaming import MDSWriter  # imports torch, so only when it is needed

        count = size = 0
        columns = {"jpg": "bytes", "cls": "int"}
        with MDSWriter(columns=columns, out=str(into), size_limit=total_bytes // SHARDS) as writer:
            for _, image, label in samples_of(total_bytes, sample_bytes):
                writer.write({"jpg": image, "cls": label})
                count += 1
                size += len(image)
        return {"samples": count, "bytes": size}

    recipe = {"kind": "mds", "total": total_bytes, "sample": sample_bytes, "version": 1}
    return made_once(folder, recipe, make)


def make_many(folder: Path, count: int) -> dict[str, Any]:
    """Makes MDS shards of very many samples of 8 bytes, each shard written at once."""
    per_shard = min(count, 1_000_000)

    def make(into: Path) -> dict[str, Any]:
        shards = []
        for number in range(count // per_shard):
            head: dict[str, Any] = {
                "column_encodings": ["int"],
                "column_names": ["x"],
                "column_sizes": [8],
                "compression": None,
                "format": "mds",
                "hashes": [],
                "size_limit": 1 << 26,
                "version": 2,
            }
            text = json.dumps(head, sort_keys=True).encode()
            first = 4 + 4 * (per_shard + 1) + len(text)
            offsets = first + 8 * np.arange(per_shard + 1, dtype=np.uint32)
            values = np.arange(per_shard, dtype=np.int64) + number * per_shard
            parts = [np.uint32(per_shard).tobytes(), offsets.astype("<u4").tobytes(), text]
            data = b"".join([*parts, values.tobytes()])
            name = f"shard.{number:05}.mds"
            (into / name).write_bytes(data)
            raw = {"basename": name, "bytes": len(data), "hashes": {}}
            shards.append({**head, "raw_data": raw, "samples": per_shard, "zip_data": None})
        (into / "index.json").write_text(json.dumps({"shards": shards, "version": 2}))
        return {"samples": count // per_shard * per_shard, "bytes": 8 * count}

    return made_once(folder, {"kind": "many", "count": count, "version": 1}, make)


def make_tokens(folder: Path, total_bytes: int) -> dict[str, Any]:
    """Makes one .npy of uint16 tokens."""

    def make(into: Path) -> dict[str, Any]:
        count = total_bytes // 2
        array = np.lib.format.open_memmap(into / "tokens.npy", "w+", np.uint16, (count,))
        draw = np.random.default_rng(3)
        for start in range(0, count, 1 << 24):
            part = array[start : start + (1 << 24)]
            part[:] = draw.integers(0, 50_000, len(part), dtype=np.uint16)
        array.flush()
        return {"samples": count // 2048, "bytes": 2 * count}

    return made_once(folder, {"kind": "tokens", "total": total_bytes, "version": 1}, make)


def files_of(folder: Path) -> list[Path]:
    """Returns all files of a dataset, including the index."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "made.json")


def warm(folder: Path) -> None:
    """Reads every file once."""
    for path in files_of(folder):
        with path.open("rb", buffering=0) as file:
            while file.read(1 << 22):
                pass


def settle() -> None:
    """Waits until writeback has ended and the disks are idle, but at most 10 s.

    With the mount option discard, blocks of removed files are still discarded in the background
    when sync has returned, which would slow down the next writer.
    """
    os.sync()
    end = time.monotonic() + 10
    before = ""
    while (now := Path("/proc/diskstats").read_text()) != before and time.monotonic() < end:
        before = now
        time.sleep(0.3)


def evict(folder: Path) -> None:
    """Drops every file from the page cache."""
    for path in files_of(folder):
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)
