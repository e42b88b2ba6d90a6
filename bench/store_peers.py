#!/usr/bin/env python3
"""Compares stoker.Loader on a bucket with other clients of S3, and its cache: figures P13 and P14.

The server is a Ceph gateway on this machine (tests/servers/ceph.sh), with objects in memory. Every
round runs all sides one after the other, in alternating order, and the ratio within a round counts.
The raw side is libcurl with presigned URLs and nothing else (bench/ranged_gets.cc). Run it with the
interpreter of build/peers (tools/setup_peers.sh creates it) and PYTHONPATH=python. Writes
build/bench/store.json and prints a Markdown table. A missed target is not an error.
"""

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import importlib.util
import random
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "tools")]

from peers import bucket, data, report  # noqa: E402
from peers.command import make_parser, publish  # noqa: E402
from peers.report import Row  # noqa: E402
from peers.turns import Answer, ProcessSide, SideError, in_turns  # noqa: E402

from bench_fio import parse_size, size_text  # noqa: E402

IMAGE_BYTES, PART_BYTES = 110 << 10, 8 << 20
SIDE = Path(__file__).parent / "peers" / "store_side.py"
OURS, RAW, LOCAL = "stoker", "libcurl, ranged GETs", "the local path, cold"
STREAM = {
    "obstore": "obstore_ranges",
    "s3dlio": "s3dlio_ranges",
    "s3torchconnector": "s3torchconnector_objects",
}
RANDOM = {
    "obstore": "obstore_ranges",
    "s3dlio": "s3dlio_ranges",
    "s3torchconnector": "s3torchconnector_ranges",
}


def side(name: str, **options: Any) -> ProcessSide:
    """Starts a side of store_side.py."""
    return ProcessSide(name, side=SIDE, **options)


class Bench:
    """The figures, each a method that returns rows."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.folder = Path(args.path)
        self.images = self.folder / "images"
        self.uri = f"s3://{bucket.name()}/images"

    def note(self, text: str) -> None:
        """Prints progress on stderr."""
        print(f"store_peers: {text}", file=sys.stderr, flush=True)

    def fill(self) -> None:
        """Makes the shards, and copies them to the bucket."""
        data.make_tars(self.images, self.args.images, IMAGE_BYTES)
        for path in data.files_of(self.images):
            if path.suffix == ".tar":
                target = f"{self.uri}/{path.name}"
                command = [self.args.stoker, "cp", str(path), target, "--no-verify"]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def ranges(self, *, whole: bool) -> dict[str, str]:
        """Writes the ranges for the raw side and for the peers: whole shards, or each image."""
        found: list[tuple[str, int, int]] = []
        for path in sorted(self.images.glob("*.tar")):
            key = f"images/{path.name}"
            if whole:
                found.append((key, 0, path.stat().st_size))
                continue
            with tarfile.open(path) as tar:
                members = [each for each in tar if each.name.endswith(".jpg")]
                found += [(key, each.offset_data, each.size) for each in members]
        if not whole:
            random.Random(7).shuffle(found)
        stem = self.folder / ("whole" if whole else "images")
        keys, raw = stem.with_suffix(".keys"), stem.with_suffix(".urls")
        keys.write_text("".join(f"{key} {at} {size}\n" for key, at, size in found))
        urls = {key: bucket.presigned(key) for key, _, _ in found}
        raw.write_text(
            "".join(
                f"{urls[key]} {begin} {min(PART_BYTES, at + size - begin)}\n"
                for key, at, size in found
                for begin in range(at, at + size, PART_BYTES)
            )
        )
        return {"keys": str(keys), "raw": str(raw)}

    def turns(self, figure: str, makers: dict[str, Callable[[], Any]], **more: Any) -> Any:
        """Calls in_turns() and prints a line for each side."""
        answers = in_turns(makers, self.args.rounds, **more)
        for label, found in answers.items():
            last = {name: f"{value:,.4g}" for name, value in found[-1].items()}
            self.note(f"{figure}: {label}: {last}")
        return answers

    def against_peers(self, work: str, shuffle: str, peers: dict[str, str]) -> list[Row]:
        """P13: rows of GB/s and of CPU-seconds per GB."""
        lists = self.ranges(whole=shuffle == "off")
        in_flight = self.args.in_flight
        raw = [str(self.args.raw), lists["raw"], str(in_flight)]
        memory = self.args.memory
        makers: dict[str, Callable[[], Any]] = {
            OURS: functools.partial(
                side, "stoker_loader", data=self.uri, shuffle=shuffle, memory=memory
            ),
            RAW: functools.partial(ProcessSide, RAW, raw),
        }
        for label, name in peers.items():
            makers[label] = functools.partial(side, name, ranges=lists["keys"], in_flight=in_flight)
        answers: dict[str, list[Answer]] = self.turns(f"P13, {work}", makers)
        rate = functools.partial(values, answers, name="bytes_per_s", scale=1e9)
        cpu = functools.partial(values, answers, name="cpu_s_per_gb", scale=1)
        rows = [Row("P13", work, RAW, "GB/s", rate(OURS), rate(RAW), at_least=0.9)]
        rows += [Row("P13", work, p, "GB/s", rate(OURS), rate(p), at_least=1) for p in peers]
        name = f"{work}: CPU time"
        rows.append(Row("P13", name, RAW, "s/GB", cpu(OURS), cpu(RAW)))
        return rows + [Row("P13", name, p, "s/GB", cpu(OURS), cpu(p), at_most=0.667) for p in peers]

    def stream(self) -> list[Row]:
        """P13, in stored order."""
        return self.against_peers("streamed in stored order", "off", STREAM)

    def shuffled(self) -> list[Row]:
        """P13, in random order."""
        return self.against_peers("images of 110 KiB, shuffled", "global", RANDOM)

    def second_epoch(self) -> list[Row]:
        """P14."""
        cache = self.folder / "cache"
        shutil.rmtree(cache, ignore_errors=True)
        options = {"shuffle": "global", "memory": self.args.cold_memory}
        cached = {"cache": str(cache), "cache_bytes": 2 * self.args.images + (64 << 20)}
        makers = {
            OURS: functools.partial(side, "stoker_loader", data=self.uri, **options, **cached),
            LOCAL: functools.partial(side, "stoker_loader", data=str(self.images), **options),
        }

        def before() -> None:
            data.evict(self.images)
            data.evict(cache)

        answers = self.turns("P14", makers, before=before)
        rate = functools.partial(values, answers, name="bytes_per_s", scale=1e9)
        work = f"second epoch from the cache, cold, {self.args.cold_memory} of memory"
        return [Row("P14", work, LOCAL, "GB/s", rate(OURS), rate(LOCAL), at_least=0.95)]


def values(answers: dict[str, list[Answer]], label: str, name: str, scale: float) -> list[float]:
    """Returns one figure of a side, round by round."""
    return [answer[name] / scale for answer in answers[label]]


FIGURES: dict[str, Callable[[Bench], list[Row]]] = {
    "P13-stream": Bench.stream,
    "P13-shuffled": Bench.shuffled,
    "P14": Bench.second_epoch,
}


def facts_of(args: argparse.Namespace) -> dict[str, str]:
    """Returns where and how the figures were measured."""
    names = ("obstore", "s3dlio", "s3torchconnector")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    ceph = subprocess.run(["radosgw", "--version"], capture_output=True, text=True, check=True)
    return {
        **report.machine_facts(Path(args.path)),
        "server": " ".join(ceph.stdout.split()[:3]) + ", one OSD in memory, on the same cores",
        "against": versions,
        "command": f"bench/store_peers.py --images {size_text(args.images)} "
        f"--in-flight {args.in_flight} --rounds {args.rounds}",
        "cache": "P14: both files evicted before every run",
        "rounds": f"{args.rounds}, interleaved, after one that is not counted",
    }


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    build = Path("build/release")
    parser = make_parser(__doc__, "store", "2 rounds of 64 MiB")
    parser.add_argument(
        "--images", type=parse_size, default=512 << 20, help="size of the shards, default 512MiB"
    )
    parser.add_argument(
        "--in-flight", type=int, default=16, help="requests in flight of the other sides"
    )
    parser.add_argument("--memory", default="256MiB", help="memory_bytes of our loader in P13")
    parser.add_argument("--cold-memory", default="48MiB", help="the same in P14")
    parser.add_argument("--stoker", default=str(build / "stoker"), help="the command")
    parser.add_argument("--raw", default=build / "bench" / "ranged_gets", help="the raw side")
    parser.add_argument("--figure", choices=list(FIGURES), action="append", help="run only this")
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.images = 2, 64 << 20
    if importlib.util.find_spec("obstore") is None:
        parser.error(
            "the peers are not installed: run tools/setup_peers.sh, then build/peers/bin/python"
        )
    return args


def main() -> None:
    """Runs the figures; reports and omits a figure whose side fails."""
    args = parse_args()
    rows: list[Row] = []
    failed: dict[str, str] = {}
    with bucket.ceph(Path(args.path) / "ceph"):
        bench = Bench(args)
        bench.fill()
        for name in args.figure or FIGURES:
            try:
                rows += FIGURES[name](bench)
            except SideError as error:
                failed[name] = str(error)
                bench.note(f"{name} could not be measured: {error}")
    facts = facts_of(args)
    if failed:
        facts["not taken"] = ", ".join(failed)
    publish("store_peers", args, facts, rows, failed=failed)


if __name__ == "__main__":
    main()
