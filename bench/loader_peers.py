#!/usr/bin/env python3
"""Compares stoker.Loader with other loaders: figures P3 to P6, P8 and P9.

Every round runs all sides one after the other, in alternating order. The result is the ratio within
a round; its median and spread over the rounds are shown. The peers are the real packages: run it
with the interpreter of build/peers (tools/setup_peers.sh creates it) and PYTHONPATH=python. Writes
build/bench/loader.json and prints a Markdown table. A missed target is not an error.
"""

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import importlib.util
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "tools")]

from peers import data, report  # noqa: E402
from peers.command import make_parser, publish  # noqa: E402
from peers.report import Row  # noqa: E402
from peers.turns import (  # noqa: E402
    Answer,
    CallSide,
    FreshSide,
    ProcessSide,
    SideError,
    in_turns,
    memcpy_side,
)

from bench_fio import parse_size, run_json, size_text  # noqa: E402

IMAGE_BYTES, SMALL_BYTES = 110 << 10, 2 << 10
OURS = "stoker"
ONE, TWO = "webdataset, one process", "webdataset, DataLoader, 2 workers"
STREAMING, MEMMAP = "mosaicml-streaming, DataLoader, 2 workers", "memmap, DataLoader, 2 workers"
MEMCPY, FIO = "memcpy, 2 threads", "fio, random reads"
NO_WORKERS = "mosaicml-streaming, no workers"


def has_gpu() -> bool:
    """Returns whether torch finds a GPU."""
    import torch

    return torch.cuda.is_available()


class Bench:
    """The figures, each a method that returns rows."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.folder = Path(args.path)

    def note(self, text: str) -> None:
        """Prints progress on stderr."""
        print(f"loader_peers: {text}", file=sys.stderr, flush=True)

    def turns(
        self, figure: str, makers: dict[str, Callable[[], Any]], **options: Any
    ) -> dict[str, list[Answer]]:
        """Calls in_turns(), without our side if --peers-only, and prints a line for each side."""
        if self.args.peers_only:
            makers = {label: make for label, make in makers.items() if label != OURS}
        answers = in_turns(makers, self.args.rounds, warm_up=not self.args.quick, **options)
        for label, found in answers.items():
            last = {name: f"{value:,.4g}" for name, value in found[-1].items()}
            self.note(f"{figure}: {label}: {last}")
        return answers

    @staticmethod
    def values(
        answers: dict[str, list[Answer]], label: str, name: str, scale: float
    ) -> list[float]:
        """Returns one figure of a side, round by round."""
        return [answer[name] / scale for answer in answers.get(label, [])]

    def rates(
        self, figure: str, work: str, answers: dict[str, list[Answer]], targets: dict[str, float]
    ) -> list[Row]:
        """Returns rows of samples per second against each peer."""
        get = functools.partial(self.values, answers, name="samples_per_s", scale=1)
        return [
            Row(figure, work, peer, "samples/s", get(OURS), get(peer), at_least=target)
            for peer, target in targets.items()
        ]

    def image_sides(self, folder: Path) -> dict[str, Callable[[], Any]]:
        """Returns our side and webdataset, on tar files."""
        peer = functools.partial(ProcessSide, "webdataset_images", data=str(folder))
        return {
            OURS: functools.partial(
                ProcessSide, "stoker_images", data=str(folder), memory=self.args.memory
            ),
            ONE: functools.partial(peer, workers=0),
            TWO: functools.partial(peer, workers=2),
        }

    def warm_images(self) -> list[Row]:
        """P3."""
        folder = self.folder / "images"
        data.make_tars(folder, self.args.images, IMAGE_BYTES)
        data.warm(folder)
        sides = self.image_sides(folder)
        answers = self.turns("P3", sides | {MEMCPY: lambda: memcpy_side(IMAGE_BYTES)})
        work = "tar, 110 KiB, warm, shuffled"
        rows = self.rates("P3", work, answers, {ONE: 5, TWO: 10})
        get = functools.partial(self.values, answers, name="bytes_per_s", scale=1e9)
        rows.append(Row("P3", work, MEMCPY, "GB/s", get(OURS), get(MEMCPY), at_least=0.6))
        return rows + self.memory(sides)

    def memory(self, sides: dict[str, Callable[[], Any]]) -> list[Row]:
        """Memory of P3: samples it during one more run of each side."""
        peaks: dict[str, Answer] = {}
        for label, make in sides.items():
            if label != OURS or not self.args.peers_only:
                side = make()
                try:
                    peaks[label] = side.peak_memory()
                finally:
                    side.close()
        rows = []
        for name, title in (("pss_bytes", "peak PSS"), ("rss_bytes", "peak RSS")):
            get = {label: [peak[name] / (1 << 20)] for label, peak in peaks.items()}
            for peer in (ONE, TWO):
                target = 0.25 if name == "pss_bytes" else None
                ours = get.get(OURS, [])
                rows.append(
                    Row(
                        "P3",
                        f"{title}, all processes",
                        peer,
                        "MiB",
                        ours,
                        get[peer],
                        at_most=target,
                    )
                )
        return rows

    def warm_small(self) -> list[Row]:
        """P3b."""
        folder = self.folder / "small"
        data.make_tars(folder, self.args.small, SMALL_BYTES)
        data.warm(folder)
        answers = self.turns("P3b", self.image_sides(folder))
        return self.rates("P3b", "tar, 2 KiB, warm, shuffled", answers, {ONE: 30, TWO: 30})

    def cold_images(self) -> list[Row]:
        """P4."""
        folder = self.folder / "images"
        data.make_tars(folder, self.args.images, IMAGE_BYTES)
        sides = self.image_sides(folder)
        del sides[TWO]
        sides[FIO] = lambda: CallSide(functools.partial(self.run_fio, folder))
        answers = self.turns("P4", sides, before=lambda: data.evict(folder))
        work = f"tar, 110 KiB, cold, {self.args.memory} of memory"
        get = functools.partial(self.values, answers, name="bytes_per_s", scale=1e9)
        return [
            Row("P4", work, FIO, "GB/s", get(OURS), get(FIO), at_least=0.9),
            Row("P4", work, ONE, "GB/s", get(OURS), get(ONE)),
        ]

    def run_fio(self, folder: Path) -> Answer:
        """fio: random direct reads of about a sample's size from the same files."""
        names = ":".join(str(path) for path in folder.glob("*.tar"))
        options = (
            "--name=limit --readonly --rw=randread --direct=1 --ioengine=io_uring --iodepth=32"
        )
        shape = f"--bs=112k --time_based --runtime={1 if self.args.quick else 2} --norandommap"
        command = ["fio", *options.split(), *shape.split(), "--output-format=json"]
        found = run_json([*command, f"--filename={names}"])
        return {"bytes_per_s": float(found["jobs"][0]["read"]["bw_bytes"])}

    def warm_mds(self) -> list[Row]:
        """P5."""
        folder = self.folder / "mds"
        data.make_mds(folder, self.args.images, IMAGE_BYTES)
        data.warm(folder)
        make = functools.partial(ProcessSide, data=str(folder))
        answers = self.turns(
            "P5",
            {
                OURS: functools.partial(make, "stoker_images", memory=self.args.memory),
                STREAMING: functools.partial(make, "streaming_images", workers=2),
            },
        )
        return self.rates("P5", "MDS, 110 KiB, warm, shuffled", answers, {STREAMING: 5})

    def warm_tokens(self) -> list[Row]:
        """P6; with a GPU, in page-locked memory too."""
        folder = self.folder / "tokens"
        data.make_tokens(folder, self.args.tokens)
        data.warm(folder)
        rows = []
        for pinned, where in {False: "", True: ", page-locked"}.items():
            if pinned and not has_gpu():
                break
            make = functools.partial(ProcessSide, data=str(folder / "tokens.npy"), pinned=pinned)
            answers = self.turns(
                f"P6{where}",
                {
                    OURS: functools.partial(make, "stoker_tokens"),
                    MEMMAP: functools.partial(make, "memmap_tokens", workers=2),
                },
            )
            work = f"2,049 tokens as int64, warm, random{where}"
            rows += self.rates("P6", work, answers, {MEMMAP: 10})
        return rows

    def many(self, figure: str, side: str, work: str, ours_at_most: float) -> list[Row]:
        """P8 and P9: a time that must not depend on the number of samples."""
        few, many = self.args.many // 10, self.args.many
        times = {}
        for count in (few, many):
            folder = self.folder / f"many-{count}"
            data.make_many(folder, count)
            data.warm(folder)
            options = {"data": str(folder)}
            sides = {OURS: functools.partial(ProcessSide, f"stoker_{side}", **options)}
            if count == many:
                sides[NO_WORKERS] = functools.partial(FreshSide, f"streaming_{side}", **options)
            times[count] = self.turns(f"{figure}, {count:,} samples", sides)
        get = functools.partial(self.values, name="seconds", scale=1e-3)
        ours, theirs = get(times[many], OURS), get(times[many], NO_WORKERS)
        small = f"itself with {few:,}"
        name = f"{work}, {many:,} samples"
        return [
            Row(figure, name, NO_WORKERS, "ms", ours, theirs, ours_at_most=ours_at_most),
            Row(figure, name, small, "ms", ours, get(times[few], OURS), at_most=2),
        ]

    def first_batch(self) -> list[Row]:
        """P8."""
        return self.many("P8", "first", "open and first batch", 1000)

    def resume(self) -> list[Row]:
        """P9."""
        return self.many("P9", "resume", "resume in the middle of an epoch", 50)


FIGURES: dict[str, Callable[[Bench], list[Row]]] = {
    "P3": Bench.warm_images,
    "P3b": Bench.warm_small,
    "P4": Bench.cold_images,
    "P5": Bench.warm_mds,
    "P6": Bench.warm_tokens,
    "P8": Bench.first_batch,
    "P9": Bench.resume,
}


def facts_of(args: argparse.Namespace) -> dict[str, str]:
    """Returns where and how the figures were measured."""
    sizes = f"--images {size_text(args.images)} --small {size_text(args.small)}"
    more = f"--tokens {size_text(args.tokens)} --many {args.many} --memory {args.memory}"
    versions = {}
    for name in ("webdataset", "mosaicml-streaming", "torch", "numpy"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "missing"
    return {
        **report.machine_facts(Path(args.path)),
        "against": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "command": f"bench/loader_peers.py {sizes} {more} --rounds {args.rounds}",
        "cache": "warm: read once before; cold (P4): evicted before every run",
        "rounds": f"{args.rounds}, interleaved; rates count from the first batch on",
    }


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = make_parser(__doc__, "loader", "2 rounds of small datasets")
    parser.add_argument(
        "--images", type=parse_size, default=1 << 30, help="size of tars and MDS, default 1GiB"
    )
    parser.add_argument(
        "--small", type=parse_size, default=256 << 20, help="size of 2 KiB samples, default 256MiB"
    )
    parser.add_argument(
        "--tokens", type=parse_size, default=512 << 20, help="size of tokens, default 512MiB"
    )
    parser.add_argument(
        "--many", type=int, default=10_000_000, help="samples of P8 and P9, default 10M"
    )
    parser.add_argument(
        "--memory", default="48MiB", help="memory_bytes of our loader, default 48MiB"
    )
    parser.add_argument("--figure", choices=list(FIGURES), action="append", help="run only this")
    parser.add_argument("--peers-only", action="store_true", help="do not run our side")
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.images, args.small = 2, 128 << 20, 16 << 20
        args.tokens, args.many = 64 << 20, 1_000_000
    if shutil.which("fio") is None:
        parser.error("fio is not installed: apt-get install fio")
    if importlib.util.find_spec("webdataset") is None:
        parser.error(
            "the peers are not installed: run tools/setup_peers.sh, then build/peers/bin/python"
        )
    return args


def main() -> None:
    """Runs the figures; reports and omits a figure whose side fails."""
    args = parse_args()
    standins = Path(__file__).parents[1] / "tests" / "interop" / "peers" / "standins"
    sys.path.append(str(standins))  # for the writer of MDS shards
    bench = Bench(args)
    rows: list[Row] = []
    failed: dict[str, str] = {}
    for name in args.figure or FIGURES:
        try:
            rows += FIGURES[name](bench)
        except SideError as error:
            failed[name] = str(error)
            bench.note(f"{name} could not be measured: {error}")
    facts = facts_of(args)
    if failed:
        facts["not taken"] = ", ".join(failed)
    publish("loader_peers", args, facts, rows, failed=failed)


if __name__ == "__main__":
    main()
