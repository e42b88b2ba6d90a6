"""Options and output of the commands that compare with peers."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from peers import report


def make_parser(doc: str | None, name: str, quick: str) -> argparse.ArgumentParser:
    """Returns a parser with the common options.

    Args:
        doc: The docstring of the command; its first line is the description.
        name: The name of its directory and its results below build/bench.
        quick: The effect of --quick, for its help.
    """
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--path", default=f"build/bench/{name}", help="directory to work in")
    parser.add_argument("--rounds", type=int, default=5, help="use at least 5 for publication")
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--output", default=f"build/bench/{name}.json", help="JSON file to write")
    parser.add_argument("--write-docs", action="store_true", help="update docs/benchmarks.md")
    return parser


def publish(
    name: str,
    args: argparse.Namespace,
    facts: dict[str, str],
    rows: Sequence[report.Row],
    **more: Any,
) -> None:
    """Prints the table, writes it as JSON and, with --write-docs, to docs/benchmarks.md."""
    table = report.table_of(rows)
    output = Path(args.output)
    output.parent.mkdir(parents=True, exist_ok=True)
    found = {**facts, **more, "results": [row.to_dict() for row in rows]}
    output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print("\n".join(f"{key}: {value}" for key, value in facts.items()), table, sep="\n\n")
    if args.write_docs:
        report.write_docs(name, facts, table)
