#!/usr/bin/env python3
"""Compares ``stoker pack`` with GNU tar and webdataset's ShardWriter: from files to durable shards.

A folder of image-like files in class folders becomes tar shards; the clock stops when shards and
their names are fsynced. GNU tar gets a list of files for each shard, with one process per core;
ShardWriter is one process, as its users run it. Ours also writes the class of each sample,
checksums, an index and a manifest with SHA-256. The limit is a copy of the same bytes, with and
without SHA-256 (peers/raw_copy.py). Rounds are interleaved, as in loader_peers.py. Run it with the
interpreter of build/peers (tools/setup_peers.sh).
"""

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "tools")]

from peers import data, raw_copy, report  # noqa: E402
from peers.command import make_parser, publish  # noqa: E402
from peers.data import fsync  # noqa: E402
from peers.report import Row  # noqa: E402
from peers.turns import Answer, CallSide, ProcessSide, Side, in_turns  # noqa: E402

from bench_fio import parse_size, size_text  # noqa: E402

IMAGE_BYTES = 110 << 10
OURS, TAR, WRITER = "stoker pack", "GNU tar", "webdataset ShardWriter"
COPY, HASHED_COPY = "limit: copy", "limit: copy and SHA-256"
CLASSES = 20


def make_files(folder: Path, total_bytes: int) -> dict[str, Any]:
    """Makes class folders with files of about the size of an ImageNet JPEG."""

    def make(into: Path) -> dict[str, Any]:
        for number in range(CLASSES):
            (into / "files" / f"class{number:02}").mkdir(parents=True)
        count = size = 0
        for key, image, _ in data.samples_of(total_bytes, IMAGE_BYTES):
            (into / "files" / f"class{count % CLASSES:02}" / f"{key}.jpg").write_bytes(image)
            count += 1
            size += len(image)
        return {"samples": count, "bytes": size}

    return data.made_once(folder, {"kind": "files", "total": total_bytes, "version": 1}, make)


class Bench:
    """The sides, and where they work."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.folder = Path(args.path)
        self.source = self.folder / "files"
        self.target = self.folder.with_name(self.folder.name + "-shards")
        self.facts = make_files(self.folder, args.size)

    def clear(self, *, cold: bool) -> None:
        """Runs before every side: removes the shards, syncs, and makes the source cold or warm."""
        shutil.rmtree(self.target, ignore_errors=True)
        self.target.mkdir()
        os.sync()
        (data.evict if cold else data.warm)(self.source)

    def checked(self, seconds: float) -> Answer:
        """Returns the answer; exits if the shards are too small."""
        written = sum(path.stat().st_size for path in self.target.rglob("*.tar"))
        if written < self.facts["bytes"]:
            sys.exit(f"pack_peers: {written} bytes of shards for {self.facts['bytes']} of files")
        return {"mb_per_s": self.facts["bytes"] / seconds / 1e6, "seconds": seconds}

    def pack(self) -> Answer:
        """Runs stoker pack."""
        command = [self.args.stoker, "pack", str(self.source), str(self.target), "--format", "tar"]
        options = ["--shard-size", str(self.args.shard)]
        begin = time.perf_counter()
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"pack_peers: {' '.join(command)}\n{done.stderr}")
        return self.checked(time.perf_counter() - begin)

    def tar(self) -> Answer:
        """Runs one tar for each shard, as many at a time as there are cores."""
        begin = time.perf_counter()
        names = sorted(str(p.relative_to(self.source)) for p in self.source.glob("*/*.jpg"))
        per_shard = max(1, self.args.shard // (IMAGE_BYTES + 1024))
        lists = [names[i : i + per_shard] for i in range(0, len(names), per_shard)]

        def one(number: int) -> None:
            shard = self.target / f"shard-{number:06}.tar"
            command = ["tar", "--format=ustar", "-C", str(self.source), "-cf", str(shard)]
            files = "\n".join(lists[number])
            subprocess.run([*command, "-T", "-"], input=files, text=True, check=True)
            fsync(shard)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(one, range(len(lists))))
        fsync(self.target)
        return self.checked(time.perf_counter() - begin)

    def copy(self, *, cold: bool, hashed: bool) -> Answer:
        """Reads and writes the same bytes without packing them."""
        begin = time.perf_counter()
        paths = sorted(self.source.glob("*/*.jpg"))
        raw_copy.copy(paths, self.target, direct=cold, hashed=hashed)
        return self.checked(time.perf_counter() - begin)

    def compare(self, *, cold: bool) -> list[Row]:
        """Runs all rounds with a cold or a warm source."""
        writer = functools.partial(
            ProcessSide,
            "webdataset_pack",
            source=str(self.source),
            target=str(self.target),
            shard_bytes=self.args.shard,
        )
        sides: dict[str, Callable[[], Side]] = {
            OURS: lambda: CallSide(self.pack),
            TAR: lambda: CallSide(self.tar),
            WRITER: writer,
            COPY: lambda: CallSide(functools.partial(self.copy, cold=cold, hashed=False)),
            HASHED_COPY: lambda: CallSide(functools.partial(self.copy, cold=cold, hashed=True)),
        }
        clear = functools.partial(self.clear, cold=cold)
        answers = in_turns(sides, self.args.rounds, before=clear, warm_up=False)
        rates = {
            label: [self.facts["bytes"] / answer["seconds"] / 1e6 for answer in found]
            for label, found in answers.items()
        }
        work = f"{self.facts['samples']:,} files of 110 KiB, {'cold' if cold else 'warm'}"
        for label, found in rates.items():
            print(f"pack_peers: {work}: {label}: {found[-1]:,.0f} MB/s", file=sys.stderr)
        peers = [label for label in rates if label != OURS]
        return [Row("A1", work, peer, "MB/s", rates[OURS], rates[peer]) for peer in peers]


def facts_of(args: argparse.Namespace) -> dict[str, str]:
    """Returns where and how the figures were measured."""
    tar = subprocess.run(["tar", "--version"], capture_output=True, text=True, check=True)
    sizes = f"--size {size_text(args.size)} --shard {size_text(args.shard)}"
    return {
        **report.machine_facts(Path(args.path)),
        "against": f"{tar.stdout.splitlines()[0]}, webdataset "
        + importlib.metadata.version("webdataset"),
        "command": f"bench/pack_peers.py {sizes} --rounds {args.rounds}",
        "cache": "cold: pages of the source evicted before each run, names not; warm: read once",
        "rounds": f"{args.rounds}, interleaved; all sides end with shards and directory fsynced",
    }


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = make_parser(__doc__, "pack", "2 rounds of 64 MiB")
    parser.add_argument(
        "stoker", nargs="?", default="build/bench/stoker", help="path of the stoker command"
    )
    parser.add_argument(
        "--size", type=parse_size, default=512 << 20, help="size of all files, default 512MiB"
    )
    parser.add_argument(
        "--shard", type=parse_size, default=64 << 20, help="size of a shard, default 64MiB"
    )
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.size, args.shard = 2, 64 << 20, 16 << 20
    if not Path(args.stoker).exists():
        parser.error(f"{args.stoker} does not exist: run `make bench`")
    return args


def main() -> None:
    """Runs the comparison."""
    args = parse_args()
    bench = Bench(args)
    try:
        rows = bench.compare(cold=True) + bench.compare(cold=False)
    finally:
        shutil.rmtree(bench.target, ignore_errors=True)
    publish("pack_peers", args, facts_of(args), rows)


if __name__ == "__main__":
    main()
