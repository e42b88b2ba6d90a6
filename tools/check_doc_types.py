#!/usr/bin/env python3
"""Type-checks the programs of docs/pytorch.md, strictly: what users copy must be free of errors.

Blocks that begin with the name of a file are programs of their own; the others are one program.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/pytorch.md"


def programs(page: str) -> dict[str, str]:
    """Returns the programs of a page by the names of their files."""
    found = {"page.py": ""}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        name = re.match(r"# (\w+\.py)", block)
        if name:
            found[name[1]] = block
        else:
            found["page.py"] += block + "\n"
    return found


def main() -> int:
    """Returns mypy's exit code."""
    folder = ROOT / "build/doc-programs"
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, text in programs(PAGE.read_text()).items():
        files.append(folder / name)
        files[-1].write_text(text)
    # torch's own backward() has no types.
    options = ["--config-file", "pyproject.toml", "--untyped-calls-exclude", "torch"]
    command = [sys.executable, "-m", "mypy", *options, *map(str, files)]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
