#!/usr/bin/env python3
"""The limit of a disk: durable writes and reads with O_DIRECT, and nothing beside them.

The comparisons on a GPU machine, which has no fio, divide by these. Where fio is installed,
``raw_disk.py FOLDER`` shows how close to it they come: both write and read files of the same size,
in turn, and the ratio of each round counts.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import itertools
import json
import mmap
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

CHUNK_BYTES = 4 << 20
WRITERS, READERS = 8, 16


def memories(count: int) -> list[mmap.mmap]:
    """Returns memory for the chunk of each thread, touched and filled with noise."""
    made = [mmap.mmap(-1, CHUNK_BYTES) for _ in range(count)]
    for memory in made:
        memory.write(os.urandom(CHUNK_BYTES))
    return made


def each_chunk(
    sizes: Sequence[int],
    memories: Sequence[mmap.mmap],
    work: Callable[[int, int, mmap.mmap], object],
) -> None:
    """Calls work(number of the file, offset, memory) for each chunk, one thread for each memory."""
    chunks = [
        (number, at) for number, size in enumerate(sizes) for at in range(0, size, CHUNK_BYTES)
    ]
    left = iter(chunks)

    def run(memory: mmap.mmap) -> None:
        for number, at in left:  # next() of a list's iterator is atomic
            work(number, at, memory)

    with concurrent.futures.ThreadPoolExecutor(len(memories)) as pool:
        for done in [pool.submit(run, memory) for memory in memories]:
            done.result()


def write_direct(path: Path, size: int) -> float:
    """Writes a new file of whole chunks, and syncs it. Returns the seconds.

    The file stays, like those of a save: a disk may be slower where nothing was written before.
    """
    size = size // CHUNK_BYTES * CHUNK_BYTES
    file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_DIRECT, 0o644)

    def write(number: int, at: int, memory: mmap.mmap) -> None:
        if os.pwrite(file, memory, at) != CHUNK_BYTES:
            raise OSError("a short write")

    try:
        noise = memories(WRITERS)
        began = time.perf_counter()
        os.posix_fallocate(file, 0, size)
        each_chunk([size], noise, write)
        os.fsync(file)
        return time.perf_counter() - began
    finally:
        os.close(file)


def read_direct(files: Sequence[Path], space: Sequence[mmap.mmap]) -> float:
    """Reads files past the page cache, with one thread for each memory. Returns the seconds."""
    fds = [os.open(file, os.O_RDONLY | os.O_DIRECT) for file in files]
    try:
        began = time.perf_counter()
        each_chunk(
            [os.fstat(fd).st_size for fd in fds],
            space,
            lambda number, at, memory: os.preadv(fds[number], [memory], at),
        )
        return time.perf_counter() - began
    finally:
        for fd in fds:
            os.close(fd)


def fio(path: Path, mode: str, size: int) -> float:
    """Returns the seconds that fio takes for the same."""
    shape = f"--rw={mode} --size={size} --bs={CHUNK_BYTES} --iodepth={WRITERS} --direct=1"
    options = "--ioengine=io_uring --output-format=json --end_fsync=1 --name=raw"
    run = ["fio", *options.split(), *shape.split(), f"--filename={path}"]
    job = json.loads(subprocess.run(run, check=True, stdout=subprocess.PIPE).stdout)["jobs"][0]
    return size / float(job[mode]["bw_bytes"])


def main() -> None:
    """Compares both sides in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size-mib", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    size = args.size_mib << 20
    space = memories(READERS)
    ratios: dict[str, list[float]] = {"write": [], "read": []}
    rates: dict[str, list[float]] = {"write": [], "read": []}
    for number in range(args.rounds):
        ours, peer = args.folder / f"ours-{number}", args.folder / f"fio-{number}"
        sides = [("ours", ours), ("fio", peer)]
        seconds: dict[tuple[str, str], float] = {}
        for mode, (side, path) in itertools.product(
            ("write", "read"), sides if number % 2 == 0 else sides[::-1]
        ):
            if side == "fio":
                seconds[side, mode] = fio(path, mode, size)
            else:
                seconds[side, mode] = (
                    write_direct(path, size) if mode == "write" else read_direct([path], space)
                )
        for mode in ratios:
            ratios[mode].append(seconds["fio", mode] / seconds["ours", mode])
            rates[mode].append(size / seconds["ours", mode])
        ours.unlink()
        peer.unlink()
    for mode, found in ratios.items():
        print(
            f"raw O_DIRECT {mode}: {statistics.median(rates[mode]) / 1e9:.2f} GB/s, "
            f"{statistics.median(found):.2f} of fio ({min(found):.2f} to {max(found):.2f})"
        )


if __name__ == "__main__":
    main()
