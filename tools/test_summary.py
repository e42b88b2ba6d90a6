"""Adds up JUnit reports of ctest and pytest; the last line is the total.

Lists skips with their reasons and failures by name, then prints one line ``N passed, N failed, N
skipped``. A report that is missing, unreadable or empty counts as a failure, and so does a test
that could not be started, which ctest reports as "skipped".
"""

from __future__ import annotations

import argparse
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

NOT_STARTED = "Unable to find executable"
GTEST_SKIP = re.compile(r": Skipped\n(.*?)\n*\[  SKIPPED \]", re.DOTALL)


@dataclass
class Totals:
    """The results of all reports."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, report: Path) -> None:
        """Counts the tests of one report."""
        try:
            cases = list(ElementTree.parse(report).getroot().iter("testcase"))
        except (OSError, ElementTree.ParseError) as error:
            self.failed.append(f"{report.name}: no report, the run ended early ({error})")
            return
        if not cases:
            self.failed.append(f"{report.name}: not one test ran")
        for case in cases:
            self._add_case(case)

    def _add_case(self, case: ElementTree.Element) -> None:
        name = case_name(case)
        skip = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            self.failed.append(name)
        elif skip is not None and skip.get("message", "").startswith(NOT_STARTED):
            self.failed.append(f"{name}: could not be started")
        elif skip is not None or case.get("status") == "disabled":
            self.skipped[skip_reason(case)].append(name)
        else:
            self.passed += 1

    def print(self) -> None:
        """Prints the lists, then the line with the totals."""
        for reason, names in sorted(self.skipped.items()):
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            print(f"skipped: {names[0]}{more}: {reason}")
        for name in self.failed:
            print(f"FAILED: {name}")
        skipped = sum(len(names) for names in self.skipped.values())
        print(f"{self.passed} passed, {len(self.failed)} failed, {skipped} skipped")


def case_name(case: ElementTree.Element) -> str:
    """Returns the test's name as typed: ctest repeats it as the class, pytest does not."""
    name, class_name = case.get("name", "?"), case.get("classname", "")
    return name if class_name in {"", name} else f"{class_name}::{name}"


def skip_reason(case: ElementTree.Element) -> str:
    """Returns why a test was skipped, in one line, from wherever the runner recorded it."""
    output = case.findtext("system-out") or ""
    if match := GTEST_SKIP.search(output):
        return " ".join(match[1].split()) or "no reason given"
    skip = case.find("skipped")
    message = "disabled" if skip is None else skip.get("message", "")
    if message.startswith("SKIP_"):  # ctest's text says only how it noticed
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        message = lines[-1] if lines else message
    return " ".join(message.removeprefix("skipped: ").split()) or "no reason given"


def main() -> int:
    """Prints the summary; fails if any test did."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", nargs="+", type=Path)
    totals = Totals()
    for report in parser.parse_args().report:
        totals.add(report)
    totals.print()
    return 1 if totals.failed else 0


if __name__ == "__main__":
    sys.exit(main())
