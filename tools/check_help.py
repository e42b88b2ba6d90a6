#!/usr/bin/env python3
"""Compares the help of every command with tests/golden/cli, so that changes show in a diff.

Completion and manual pages are made from the same tables: the scripts are compared as well, and one
page, for its form.

usage: check_help.py STOKER [--write]

STOKER is the program. --write updates the files instead: review the diff before committing.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "golden" / "cli"


def help_texts(stoker: str, words: tuple[str, ...] = ()) -> dict[str, str]:
    """Returns the help of a command and its subcommands by file: {"stoker-bench.txt": ...}."""
    done = subprocess.run([stoker, *words, "--help"], capture_output=True, text=True, check=True)
    texts = {"-".join(("stoker", *words)) + ".txt": done.stdout}
    _, _, subcommands = done.stdout.partition("\nSubcommands:\n")
    for name in re.findall(r"^  (\S+)", subcommands.partition("\n\n")[0], re.MULTILINE):
        texts |= help_texts(stoker, (*words, name))
    return texts


def written_texts(stoker: str) -> dict[str, str]:
    """Returns completion, and a manual page, by file."""
    texts = {}
    for shell in ("bash", "zsh"):
        command = [stoker, "completion", shell]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        texts[f"completion.{shell}"] = done.stdout
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([stoker, "help", "--man-pages", folder], check=True)
        page = Path(folder) / "stoker-checkpoint-prune.1"
        texts[page.name] = re.sub(r'"Stoker [0-9.]+"', '"Stoker VERSION"', page.read_text())
    return texts


def main() -> int:
    """Prints differences; returns 1 if there are any."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--write"]
    if len(arguments) != 1:
        print(__doc__)
        return 2
    texts = help_texts(arguments[0]) | written_texts(arguments[0])
    if "--write" in sys.argv:
        GOLDEN.mkdir(parents=True, exist_ok=True)
        for path in GOLDEN.glob("*"):
            path.unlink()
        for name, text in texts.items():
            (GOLDEN / name).write_text(text)
        return 0
    golden = {path.name: path.read_text() for path in GOLDEN.glob("*")}
    changed = [
        name for name in sorted(texts.keys() | golden.keys()) if texts.get(name) != golden.get(name)
    ]
    for name in changed:
        print(f"{GOLDEN.name}/{name}: differs from what the command prints")
    if changed:
        print("run: tools/check_help.py build/release/stoker --write")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
