"""docs/data.md as a new user follows it: every sh block runs, in order, with the built command."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "data.md"
STOKER = Path(os.environ.get("STOKER_COMMAND", ROOT / "build" / "release" / "stoker"))


def blocks() -> list[str]:
    return re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)


def image_of(kind: str, number: int) -> bytes:
    return b"\xff\xd8" + f"{kind} {number} ".encode() * (100 + number)


@pytest.mark.skipif(not STOKER.exists(), reason=f"{STOKER} is not built")
def test_every_block_of_the_data_page_runs(tmp_path: Path) -> None:
    for kind in ("cat", "dog"):
        (tmp_path / "images" / kind).mkdir(parents=True)
        for number in range(1, 6):
            image = tmp_path / "images" / kind / f"{number:04}.jpg"
            image.write_bytes(image_of(kind, number))
    environment = os.environ | {
        "PATH": f"{STOKER.parent}:{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    output = ""
    for block in blocks():
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert ran.returncode == 0, f"{block}{ran.stderr}"
        output += ran.stdout

    assert (tmp_path / "first.jpg").read_bytes() == image_of("cat", 1)
    assert "10 samples in 3 shards (tar)" in output
    assert "cat/0001" in output
    assert (tmp_path / "shards" / ".stoker").is_dir()
    assert not (tmp_path / "cache").exists()


def test_the_page_shows_every_command_it_promises() -> None:
    text = "\n".join(blocks())
    for command in ("pack", "index", "ls", "cat", "stats", "verify"):
        assert f"stoker {command} " in text
