"""docs/measuring.md has what it promises; test_command_docs.py runs it."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "measuring.md"


def test_the_page_shows_every_function_it_promises() -> None:
    text = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))
    for name in ("profile", "sweep_workers", "read_many", "write_durable", "evict", "residency"):
        assert f"{name}(" in text
