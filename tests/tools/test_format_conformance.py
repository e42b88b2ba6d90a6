"""Each row of the table of shard formats passes the conformance suite, in one of its programs."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2] / "build" / "release" / "tests"
TOY = TESTS / "dataset" / "toy_format_test"  # has the whole table


def _parameters(program: Path, suite: str) -> set[str]:
    """The names with which a program has instantiated a suite."""
    command = [str(program), "--gtest_list_tests"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    groups = re.split(r"^(?=\S)", listed, flags=re.MULTILINE)
    wanted = [group for group in groups if re.match(rf"\w+/{suite}\.", group)]
    return {name for group in wanted for name in re.findall(r"^  \w+/(\w+)", group, re.MULTILINE)}


def test_every_format_of_the_table_is_in_the_conformance_suite() -> None:
    # Ctest builds all of them, or none.
    programs = sorted((TESTS / "formats").glob("*_conformance_test"))
    if not TOY.exists() or not programs:
        pytest.skip("the C++ tests are not built: make build-tests")
    rows = _parameters(TOY, "ShardFormatRowTest")
    made = {name for one in (*programs, TOY) for name in _parameters(one, "ShardFormatSuite")}
    assert len(rows) >= 10
    assert "toy" in rows

    def row_of(name: str) -> str:
        return name if name in rows else name.rpartition("_")[0]

    assert {row_of(name) for name in made} == rows
