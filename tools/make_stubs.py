"""Generates python/stoker/_native.pyi from the compiled module, or compares it with a new one.

The stub is committed: a change of the Python interface shows in the diff, and a test fails until
``make stubs`` is run.
"""

from __future__ import annotations

import argparse
import difflib
import subprocess
import sys
import tempfile
from pathlib import Path

PYTHON = Path(__file__).parents[1] / "python"
GOLDEN = PYTHON / "stoker" / "_native.pyi"
PATTERNS = PYTHON / "src" / "stub_patterns.txt"


def generate() -> str:
    """Returns nanobind's stub of stoker._native as compiled now."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "_native.pyi"
        options = ["-q", "-m", "stoker._native", "-p", str(PATTERNS), "-o", str(output)]
        subprocess.run([sys.executable, "-m", "nanobind.stubgen", *options], check=True)
        return output.read_text(encoding="utf-8")


def difference() -> str:
    """Returns the diff of the committed stub and a new one; empty if they are equal."""
    golden = GOLDEN.read_text(encoding="utf-8") if GOLDEN.exists() else ""
    lines = difflib.unified_diff(
        golden.splitlines(), generate().splitlines(), "committed", "generated", lineterm=""
    )
    return "\n".join(lines)


def main() -> int:
    """Writes the stub with --write; otherwise prints the difference, and fails if there is one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="replace the committed stub")
    if parser.parse_args().write:
        GOLDEN.write_text(generate(), encoding="utf-8")
        return 0
    if text := difference():
        print(text)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
