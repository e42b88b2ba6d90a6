"""What the docs say is compared with what the code does, where a machine can."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import stoker

ROOT = Path(__file__).parents[2]


def test_every_crash_point_is_documented_and_none_is_made_up() -> None:
    in_code = set()
    for path in (ROOT / "src").rglob("*.cc"):
        in_code |= set(re.findall(r'reached\("([a-z_.]+)"\)', path.read_text()))
    steps = "|".join({point.split(".")[0] for point in in_code})
    text = (ROOT / "docs" / "durability.md").read_text()
    in_docs = set(re.findall(rf"`((?:{steps})\.[a-z_]+)`", text))
    assert in_docs == in_code


def test_links_between_pages_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []


def test_the_first_program_of_the_readme_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    match = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert match is not None
    samples = ({"jpg": b"an image", "cls": i % 3} for i in range(200))
    stoker.ingest(samples, tmp_path / "shards")
    names: dict[str, object] = {}
    exec(match[1].replace("/data", str(tmp_path)), names)
    assert names["step"] == 200 // 64
    assert "192 samples" in capsys.readouterr().out
