"""``stoker pack`` for the sources that Python packages read; run by the native command.

Exit status: 0 done, 1 failed, 2 misused, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from collections.abc import Sequence
from typing import Any

from stoker import _native
from stoker._common.command_line import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_MISUSED,
    counted,
    one_line,
    stoppable,
)
from stoker._pack import rows as _pack_rows
from stoker._pack.importers import import_kind
from stoker._pack.ingest import default_format, parse_size

# Options of the command line, and the importers' names for them.
_SOURCE_OPTIONS = {
    "--columns": "columns",
    "--where": "where",
    "--key": "key",
    "--json-columns": "json_columns",
    "--rename": "rename",
    "--field": "field",
    "--database": "database",
    "--datasets": "datasets",
    "--schema": "schema",
    "--tokenizer": "tokenizer",
    "--eod": "eod",
    "--text-field": "text_field",
}


class ProgressLine:
    """Progress of a pack: one line on a terminal's stderr that is redrawn."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._is_shown = False

    @staticmethod
    def text(now: _pack_rows.Progress, elapsed_s: float) -> str:
        """Returns the line: ``packing: 45 %, 450/1k samples, 120 MB/s, 12 s left``."""
        percent = 100 * now.samples_done // max(1, now.sample_count)
        done, count = (_native.format_count(n) for n in (now.samples_done, now.sample_count))
        rate = now.bytes_done / max(elapsed_s, 1e-9)
        verb = "staging" if now.is_staging else "packing"
        line = f"{verb}: {percent} %, {done}/{count} samples, {_native.format_rate(int(rate))}"
        if now.token_bytes:
            line += f", {_native.format_count(int(rate / now.token_bytes))} tokens/s"
        packed = now.samples_done - now.samples_found
        if packed and now.samples_done < now.sample_count:
            left_s = elapsed_s / packed * (now.sample_count - now.samples_done)
            line += f", {left_s:.0f} s left"
        return line

    def show(self, now: _pack_rows.Progress) -> None:
        """Redraws the line."""
        if sys.stderr.isatty():
            line = self.text(now, time.monotonic() - self._began)
            print(f"\r{line}\x1b[K", end="", file=sys.stderr, flush=True)
            self._is_shown = True

    def clear(self) -> None:
        """Erases the line; call before writing anything else."""
        if self._is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._is_shown = False


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="stoker pack", allow_abbrev=False, add_help=False)
    parser.add_argument("source")
    parser.add_argument("destination")
    parser.add_argument("--from", dest="kind")
    parser.add_argument("--format", default=None)
    parser.add_argument("--samples-per-shard", type=int, default=0)
    parser.add_argument("--shard-size", default="256MiB")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--shuffle-seed", type=int, default=None)
    parser.add_argument("--prefix", default="shard")
    parser.add_argument("--task", default="0/1")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--lines", action="store_true", default=None)
    for name in _SOURCE_OPTIONS:
        parser.add_argument(name)
    return parser


def _names(option: str, text: str) -> list[str]:
    """Parses ``a,b``, or a JSON list for names with commas."""
    names = text.split(",")
    if text.startswith("["):
        try:
            names = json.loads(text)
        except ValueError:
            names = []
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError(f'{option} {text}: neither a,b nor ["a","b"]')
    if not all(names):
        raise ValueError(f"{option} {text!r}: an empty name")
    return names


def _renames(text: str) -> dict[str, str]:
    """Parses ``OLD=NEW,OLD=NEW``, or a JSON object for names with commas or equals signs."""
    if text.startswith("{"):
        try:
            names = json.loads(text)
        except ValueError:
            names = None
    else:
        pairs = [pair.split("=") for pair in text.split(",")]
        names = dict(pairs) if all(len(pair) == 2 for pair in pairs) else None
    if not isinstance(names, dict) or not all(
        old and new and isinstance(new, str) for old, new in names.items()
    ):
        raise ValueError(f'--rename {text}: neither OLD=NEW,... nor {{"OLD": "NEW"}}')
    return names


def _source_options(arguments: argparse.Namespace) -> dict[str, Any]:
    given = vars(arguments)
    options = {name: given[name] for name in (*_SOURCE_OPTIONS.values(), "lines")}
    options = {name: value for name, value in options.items() if value is not None}
    for name in ("columns", "datasets", "json_columns"):
        if name in options:
            options[name] = _names(f"--{name.replace('_', '-')}", options[name])
    if "rename" in options:
        options["rename"] = _renames(options["rename"])
    if "eod" in options:
        try:
            options["eod"] = int(options["eod"])
        except ValueError:
            raise ValueError(f"--eod {options['eod']!r}: not the number of a token") from None
    return options


def _task(text: str) -> tuple[int, int]:
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and int(number) < int(count)):
        raise ValueError(f'--task "{text}": not of the form I/N, as 0/8 to 7/8')
    return int(number), int(count)


def _pack(arguments: argparse.Namespace, line: ProgressLine) -> _native.PackReport:
    options = _source_options(arguments)
    kind = import_kind(arguments.source, arguments.kind, options)
    if kind is None:
        raise ValueError(f"{arguments.source}: not for Python; use the command `stoker pack`")
    if arguments.kind == "jsonl":
        options["is_jsonl"] = True

    def note(text: str) -> None:
        line.clear()
        print(f"stoker pack: {text}", file=sys.stderr)

    plan = _pack_rows.RowPack(
        format=arguments.format or default_format(is_array=kind == "text"),
        samples_per_shard=arguments.samples_per_shard,
        shard_bytes=parse_size(arguments.shard_size) or 0,
        shuffle_seed=arguments.shuffle_seed,
        threads=arguments.threads,
        task=_task(arguments.task),
        prefix=arguments.prefix,
        progress=line.show,
        note=note,
    )
    return _pack_rows.pack_rows(kind, arguments.source, arguments.destination, options, plan)


def render(report: _native.PackReport, directory: str, as_json: bool) -> str:
    """Returns the report in the words of the native command."""
    if as_json:
        return json.dumps(
            {
                "directory": directory,
                "format": report.format,
                "shards": report.shard_count,
                "samples": report.sample_count,
                "size_bytes": report.size_bytes,
                "shards_found": report.shards_found,
                "complete": report.is_complete,
            }
        )
    samples, shards = counted(report.sample_count, "sample"), counted(report.shard_count, "shard")
    size = _native.format_bytes(report.size_bytes)
    text = f"{directory}: {samples} in {shards} ({report.format}), {size}"
    if report.shards_found:
        text += f"; {counted(report.shards_found, 'shard')} there already"
    if not report.is_complete:
        text += f"\nwhen all tasks are done: stoker pack --merge {shlex.quote(directory)}"
    return text


def main(argv: Sequence[str] | None = None) -> int:
    """Packs; every failure is one line on stderr."""
    arguments = _parser().parse_args(argv)
    if arguments.threads:
        os.environ.setdefault("RAYON_NUM_THREADS", str(arguments.threads))  # of tokenizers
    line = ProgressLine()
    try:
        with stoppable():
            report = _pack(arguments, line)
        line.clear()
        print(render(report, arguments.destination, arguments.json), flush=True)
        return 0
    except KeyboardInterrupt:
        message, status = "stopped while packing", EXIT_INTERRUPTED
    except (OSError, ImportError, _native.CorruptError) as error:
        message, status = one_line(error), EXIT_FAILED
    except ValueError as error:
        message, status = one_line(error), EXIT_MISUSED
    line.clear()
    print(f"stoker pack: {message}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
