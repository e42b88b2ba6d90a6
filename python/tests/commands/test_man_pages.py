"""Manual pages: one for each command, which the tools of manual pages accept."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
COMMAND = ROOT / "build" / "release" / "stoker"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("man1")
    subprocess.run([COMMAND, "help", "--man-pages", folder], check=True)
    return sorted(folder.iterdir())


def test_each_command_has_a_page(pages: list[Path]) -> None:
    helps = (ROOT / "tests" / "golden" / "cli").glob("stoker*.txt")
    assert {page.stem for page in pages} == {text.stem for text in helps}


@pytest.mark.parametrize(
    "check",
    [["groff", "-man", "-Tutf8", "-ww", "-z"], ["mandoc", "-Tlint", "-Wwarning"]],
    ids=["groff", "mandoc"],
)
def test_no_page_has_a_mistake(pages: list[Path], check: list[str]) -> None:
    if shutil.which(check[0]) is None:
        pytest.skip(f"{check[0]} is not on this machine")
    done = subprocess.run([*check, *pages], capture_output=True, text=True, check=False)
    lines = (done.stdout + done.stderr).splitlines()
    # Without a date a page is the same whenever it is made.
    assert [line for line in lines if "missing date" not in line] == []


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not on this machine")
def test_a_page_reads_as_the_help_does(pages: list[Path]) -> None:
    page = next(page for page in pages if page.stem == "stoker-pack")
    command = ["groff", "-man", "-Tascii", "-P-cbou", str(page)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    text = " ".join(shown.split())
    assert "stoker-pack - Turn files into large shards, with checksums and an index" in text
    assert "stoker pack [OPTIONS] [SRC] [DST]" in text
    assert "--shard-size TEXT Maximum size of a shard (default: 256MiB)." in text
    assert "stoker pack tokens.bin shards/tokens --format tokens --dtype uint16 \\" in text
    assert "EXIT STATUS 0 done, 1 failed, 2 misused, 130 interrupted." in text
