#!/usr/bin/env python3
"""Checks that src/dataset accesses the files of a dataset only through an ObjectStore.

Prints one line per violation and exits with 1 if there are any. A violation is:

* a line that opens, lists or stats a file without the store, in a file without an exception,
* an exception that is not needed, or whose file does not exist.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

# Files that are not part of a dataset: by file or folder, with the reason.
EXCEPTIONS = {
    "input/": "what pack reads is a user's tree, not a dataset",
    "index/derived_file.cc": "indexes and bins are local files that are locked and published",
    "index/index.cc": "an index is a mapped local file",
    "tokens/token_bins.cc": "bins are a mapped local file",
    "shard_cache/": "the files of a cache, which are local",
    "pack/convert.cc": "compressed tars are inflated into a local directory",
    "pack/ingest_writer.cc": "whether the directory to write to is empty",
    "pack/pack_paths.cc": "what pack has written itself, below a root",
    "pack/pack_directory.cc": "the lock of a pack, and what pack has written itself",
    "pack/pack_session.cc": "what pack has written itself, below a root",
    "pack/pack_shard.cc": "what pack has written itself, below a root",
    "pack/shard_output.cc": "what pack writes",
}

PAST_THE_STORE = re.compile(
    r"""
    (?<![\w>]) ::(?:open(?:at)?|l?stat|fstat|fstatat|statx|access|glob|opendir|pread|read) \( |
    \b (?:opendir|fopen|ifstream|fstream|WholeFileReader) \b |
    \b (?:Mapped)?File::open \( |
    \b (?:open_regular|open_text_file|read_text_file|open_local_object) \b |
    \b (?:filesystem|fs):: (?:exists|is_\w+|\w*directory_iterator|file_size|\w*status|
                              last_write_time) \b |
    (?:\bops_?|\bposix_file_ops\(\)) (?:\.|->) (?:open|list|list_names|info_of|kind_of) \(
    """,
    re.VERBOSE,
)


def violations(path: Path) -> Iterator[tuple[int, str]]:
    """Yields line number and text of each call that bypasses the store, except in comments."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if match := PAST_THE_STORE.search(line.split("//")[0]):
            yield number, match[0]


def check_tree(root: Path) -> list[str]:
    """Returns one line per violation in the tree at ``root``."""
    folder = root / "src" / "dataset"
    errors: list[str] = []
    needed: set[str] = set()
    for path in sorted(folder.rglob("*")):
        if path.suffix not in {".h", ".cc"}:
            continue
        name = path.relative_to(folder).as_posix()
        found = list(violations(path))
        exception = next((key for key in EXCEPTIONS if name.startswith(key)), None)
        if exception is not None:
            needed |= {exception} if found else set()
            continue
        errors.extend(
            f"src/dataset/{name}:{number}: {text.strip()} goes past the store; "
            "read a dataset's files through its ObjectStore"
            for number, text in found
        )
    errors.extend(
        f"tools/check_store_seam.py: {name} needs no exception; remove it"
        for name in EXCEPTIONS.keys() - needed
    )
    return errors


def main() -> int:
    """Checks one tree and prints the violations."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parents[1])
    errors = check_tree(parser.parse_args().root.resolve())
    for error in errors:
        print(error)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
