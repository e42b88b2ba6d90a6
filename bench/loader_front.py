#!/usr/bin/env python3
"""Compares the Loader of C++ with that of Python on the same work: P3 and P3b.

Every round runs both sides one after the other, in alternating order. The result is the ratio
within a round; its median and spread over the rounds are shown. Build the target loader_side first,
and run it with PYTHONPATH=python. Writes build/bench/front.json and prints a Markdown table.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tools")]

from peers import data, report  # noqa: E402
from peers.command import make_parser, publish  # noqa: E402
from peers.report import Row  # noqa: E402
from peers.turns import ProcessSide, in_turns  # noqa: E402

from bench_fio import parse_size, size_text  # noqa: E402

PYTHON = "Python"
WORKS = (
    ("P3", "tar, 110 KiB, warm, shuffled", "images", 110 << 10),
    ("P3b", "tar, 2 KiB, warm, shuffled", "small", 2 << 10),
)


def main() -> None:
    """Measures both figures."""
    parser = make_parser(__doc__, "front", "less data, two rounds: no numbers to publish")
    parser.add_argument("--images", type=parse_size, default=1 << 30, help="size of P3's data")
    parser.add_argument("--small", type=parse_size, default=256 << 20, help="size of P3b's data")
    parser.add_argument("--memory", type=parse_size, default=48 << 20, help="memory_bytes")
    parser.add_argument("--side", default="build/release/bench/loader_side", help="the C++ side")
    args = parser.parse_args()
    if args.quick:
        args.images, args.small, args.rounds = 64 << 20, 32 << 20, 2
    rows = []
    for figure, work, name, sample_bytes in WORKS:
        folder = Path(args.path) / name
        data.make_tars(folder, getattr(args, name), sample_bytes)
        data.warm(folder)
        command = [args.side, str(folder), str(args.memory)]
        answers = in_turns(
            {
                "C++": functools.partial(ProcessSide, "C++", command=command),
                PYTHON: functools.partial(
                    ProcessSide, "stoker_images", data=str(folder), memory=args.memory
                ),
            },
            args.rounds,
        )
        rates = {
            side: [answer["samples_per_s"] for answer in found] for side, found in answers.items()
        }
        rows.append(Row(figure, work, PYTHON, "samples/s", rates["C++"], rates[PYTHON]))
    facts = report.machine_facts(Path(args.path)) | {
        "command": f"bench/loader_front.py --images {size_text(args.images)} "
        f"--small {size_text(args.small)} --memory {size_text(args.memory)} "
        f"--rounds {args.rounds}",
        "rounds": f"{args.rounds}, interleaved; rates count from the first batch on",
    }
    publish("loader_front", args, facts, rows)


if __name__ == "__main__":
    main()
