"""The summary decides whether `make test` passes, so it must not lose a failure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SUMMARY = Path(__file__).parents[2] / "tools" / "test_summary.py"

PASSED = '<testcase name="A.ok" classname="A.ok" status="run"/>'
FAILED = '<testcase name="A.bad" classname="A.bad" status="fail"><failure message=""/></testcase>'
NOT_BUILT = (
    '<testcase name="h_NOT_BUILT" classname="h_NOT_BUILT" status="notrun">'
    '<skipped message="Unable to find executable"/></testcase>'
)
GTEST_SKIPPED = (
    '<testcase name="A.skip" classname="A.skip" status="notrun">'
    '<skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/><system-out>'
    "a_test.cc:4: Skipped\nno O_DIRECT\nhere\n[  SKIPPED ] A.skip (0 ms)\n</system-out></testcase>"
)
PYTEST_ERROR = '<testcase name="test_x" classname="python.tests.a"><error message="m"/></testcase>'


def summarise(folder: Path, *reports: str) -> tuple[int, list[str]]:
    paths = []
    for number, cases in enumerate(reports):
        paths.append(folder / f"{number}.xml")
        paths[-1].write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    return run(*paths)


def run(*paths: Path) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, SUMMARY, *paths], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout.splitlines()


def test_the_last_line_adds_up_all_reports(tmp_path: Path) -> None:
    status, lines = summarise(tmp_path, PASSED + GTEST_SKIPPED, PASSED)
    assert status == 0
    assert lines == ["skipped: A.skip: no O_DIRECT here", "2 passed, 0 failed, 1 skipped"]


def test_failures_and_errors_are_named_and_fail_the_run(tmp_path: Path) -> None:
    status, lines = summarise(tmp_path, PASSED + FAILED, PYTEST_ERROR)
    assert status == 1
    assert lines[:2] == ["FAILED: A.bad", "FAILED: python.tests.a::test_x"]
    assert lines[-1] == "1 passed, 2 failed, 0 skipped"


def test_a_test_that_was_never_built_is_a_failure(tmp_path: Path) -> None:
    status, lines = summarise(tmp_path, PASSED + NOT_BUILT)
    assert status == 1
    assert lines[-1] == "1 passed, 1 failed, 0 skipped"


def test_a_missing_or_empty_report_is_a_failure(tmp_path: Path) -> None:
    assert run(tmp_path / "nowhere.xml")[0] == 1
    assert summarise(tmp_path, "")[0] == 1
