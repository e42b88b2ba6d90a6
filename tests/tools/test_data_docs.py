"""docs/data.md as a new user follows it: every block runs, in order, with the built command."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "data.md"
STOKER = Path(os.environ.get("STOKER_COMMAND", ROOT / "build" / "release" / "stoker"))
IMPORTS = "## Other systems' files"

needs_command = pytest.mark.skipif(not STOKER.exists(), reason=f"{STOKER} is not built")


def blocks(text: str) -> list[tuple[str, str]]:
    """Language and code of each block that can be run."""
    return re.findall(r"```(sh|python)\n(.*?)```", text, re.DOTALL)


def run_blocks(text: str, folder: Path) -> str:
    environment = os.environ | {
        "PATH": f"{STOKER.parent}:{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(folder / "cache"),
        "STOKER_PYTHON": sys.executable,
    }
    output = ""
    for language, block in blocks(text):
        shell = ["bash", "-euo", "pipefail", "-c"] if language == "sh" else [sys.executable, "-c"]
        ran = subprocess.run(
            [*shell, block],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert ran.returncode == 0, f"{block}{ran.stderr}"
        output += ran.stdout
    return output


def image_of(kind: str, number: int) -> bytes:
    return b"\xff\xd8" + f"{kind} {number} ".encode() * (100 + number)


@needs_command
def test_every_block_about_files_and_shards_runs(tmp_path: Path) -> None:
    for kind in ("cat", "dog"):
        (tmp_path / "images" / kind).mkdir(parents=True)
        for number in range(1, 6):
            image = tmp_path / "images" / kind / f"{number:04}.jpg"
            image.write_bytes(image_of(kind, number))
        for split in ("train", "val"):
            (tmp_path / "photos" / split / kind).mkdir(parents=True)
            (tmp_path / "photos" / split / kind / "1.jpg").write_bytes(image_of(kind, 1))
    output = run_blocks(PAGE.read_text().partition(IMPORTS)[0], tmp_path)
    assert (tmp_path / "first.jpg").read_bytes() == image_of("cat", 1)
    assert "10 samples in 3 shards (tar)" in output
    assert "cat/0001" in output
    assert (tmp_path / "shards" / ".stoker").is_dir()
    assert not (tmp_path / "cache").exists()


@needs_command
def test_every_block_about_imports_and_tokens_runs(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    table = {
        "id": [f"r{i}" for i in range(20)],
        "label": [i % 5 for i in range(20)],
        "split": ["train" if i < 15 else "test" for i in range(20)],
        "image": [image_of("row", i) for i in range(20)],
    }
    parquet.write_table(arrow.table(table), tmp_path / "rows.parquet", row_group_size=6)
    words = {"<eod>": 0, "one": 1, "two": 2}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<eod>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    lines = [json.dumps({"text": "one two " * i}) for i in range(1, 9)]
    (tmp_path / "documents.jsonl").write_text("\n".join(lines))

    output = run_blocks("".join(PAGE.read_text().partition(IMPORTS)[1:]), tmp_path)
    assert "9 samples in 1 shard (tar)" in output
    assert "8 samples in 1 shard (megatron)" in output
    assert output.endswith("12 uint16\n")


def test_the_page_shows_every_command_it_promises() -> None:
    text = "\n".join(code for _, code in blocks(PAGE.read_text()))
    for command in ("pack", "index", "ls", "cat", "stats", "verify", "convert"):
        assert f"stoker {command} " in text
