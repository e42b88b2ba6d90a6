"""docs/checkpoints.md as a new user follows it: every Python block runs, in order."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import stoker

PAGE = Path(__file__).parents[2] / "docs" / "checkpoints.md"


def test_every_block_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    names: dict[str, Any] = {"__name__": "checkpoints"}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), names)
    assert len(blocks) >= 8
    assert "state['metrics'][1]: object of type range can't be saved" in capsys.readouterr().out
    assert sorted(p.name for p in Path("run").iterdir()) == [
        *("asked", "broken", "checkpoints", "copied", "kept", "parts", "random", "ranks"),
        *("replicated", "unbroken"),
    ]


def test_every_name_on_the_page_exists() -> None:
    text = PAGE.read_text()
    names = set(re.findall(r"stoker\.([A-Za-z]\w*)", text))
    assert [name for name in names if not hasattr(stoker, name)] == []
    settings = set(inspect.signature(stoker.Checkpointer).parameters)
    assert set(re.findall(r"^\| `(\w+)=", text, re.MULTILINE)) - settings == set()
    methods = set(re.findall(r"(?:saver|kept)\.(\w+)", text))
    assert [name for name in methods if not hasattr(stoker.Checkpointer, name)] == []
    assert [n for n in re.findall(r"pending\.(\w+)", text) if not hasattr(stoker.Pending, n)] == []
