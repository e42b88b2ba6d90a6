"""docs/measuring.md as a new user follows it: every python block runs, in order, in one session."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "measuring.md"


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_every_block_of_the_measuring_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "measuring"}
    for block in blocks():
        exec(compile(block, str(PAGE), "exec"), names)
    output = capsys.readouterr().out
    assert "batches     50 after 5 to warm up" in output
    assert "num_workers =" in output or "torch" in output
    assert (tmp_path / "state.bin").stat().st_size == 8000


def test_the_page_shows_every_function_it_promises() -> None:
    text = "\n".join(blocks())
    for name in ("profile", "sweep_workers", "read_many", "write_durable", "evict", "residency"):
        assert f"{name}(" in text
