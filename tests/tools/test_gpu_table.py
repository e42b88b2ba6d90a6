"""The table of a GPU machine must not call a target reached that was not measured."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "bench" / "gpu_table.py"


@pytest.fixture(scope="module")
def gpu_table() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gpu_table", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gpu_table"] = module
    spec.loader.exec_module(module)
    return module


def saves(blocked: float, raw: float = 2.0, durable: float = 2.0) -> list[dict[str, float]]:
    """Four saves of which the first takes longer, which does not count."""
    row = {"host": blocked, "stream": blocked / 2, "raw": raw, "durable": durable}
    return [{**row, "host": 0.7}, row, row, row]


def save_figures() -> dict[str, Any]:
    """All targets are reached."""
    native = 20_000 * (64 << 10) / 26e9
    small = {"native": native, "enumeration": 0.15, "save": 0.2}
    return {
        "host": saves(0.09),
        "device": saves(0.009),
        "dcp": [{"host": 2.9, "stream": 0.1}] * 2 + [{"host": 0.3, "stream": 0.1}] * 2,
        "small_gather": [{**small, "native": 9.0}, small, small],
        "step_ms": {"alone": 10.0, "draining": 10.1, "writing": 10.3},
    }


def load_figures() -> dict[str, Any]:
    rates = {
        "restore in place, warm, verified": 38.0,
        "stoker.load, warm, verified": 36.0,
        "pread + XXH3, all cores": 60.0,
        "stoker.load, cold, verified": 4.0,
        "raw O_DIRECT read": 4.0,
        "safetensors, warm": 7.0,
        "run:ai streamer, warm": 6.0,
        "fastsafetensors, warm": 3.0,
        "InstantTensor, warm": 1.5,
    }
    return {name: {"median": rate, "all": [rate]} for name, rate in rates.items()}


FEED = {"p6_times": 20.5, "tar": {"bytes_per_s": 15.2e9}}


def reached(rows: list[Any]) -> list[bool | None]:
    return [row.reached for row in rows]


def test_targets_that_are_reached(gpu_table: ModuleType) -> None:
    assert reached(gpu_table.save_rows(save_figures())) == [True] * 5
    assert reached(gpu_table.load_rows(load_figures())) == [True] * 3
    assert reached(gpu_table.feed_rows(FEED)) == [True] * 2


@pytest.mark.parametrize(
    ("row", "change"),
    [
        (0, {"host": saves(0.11)}),
        (0, {"dcp": [{"host": 0.2, "stream": 0.1}] * 4}),  # less than three times as long
        (1, {"device": saves(0.011)}),
        (1, {"dcp": [{"host": 0.2, "stream": 0.1}] * 4}),
        (2, {"small_gather": [{"native": 0.2, "enumeration": 0.1}] * 3}),
        (3, {"host": saves(0.09, raw=1.8)}),  # one way of staging is enough
        (3, {"device": saves(0.009, raw=1.8)}),
        (4, {"step_ms": {"alone": 10.0, "draining": 10.3, "writing": 10.0}}),
    ],
)
def test_a_target_of_saves_that_is_missed(
    gpu_table: ModuleType, row: int, change: dict[str, Any]
) -> None:
    assert gpu_table.save_rows(save_figures() | change)[row].reached is False


def test_targets_of_loads_that_are_missed(gpu_table: ModuleType) -> None:
    def rows(change: dict[str, float]) -> list[bool | None]:
        figures = load_figures() | {name: {"median": rate} for name, rate in change.items()}
        return reached(gpu_table.load_rows(figures))

    slow = {"stoker.load, warm, verified": 34.0}
    assert rows(slow) == [True, False, True]
    assert rows(slow | {"pread + XXH3, all cores": 39.0}) == [True, True, True]
    assert rows({"safetensors, warm": 9.3}) == [True, False, True]
    assert rows({"raw O_DIRECT read": 4.3}) == [True, True, False]


def test_targets_of_batches_that_are_missed(gpu_table: ModuleType) -> None:
    figures = {"p6_times": 19.9, "tar": {"bytes_per_s": 14.9e9}}
    assert reached(gpu_table.feed_rows(figures)) == [False, False]


def test_what_is_missing_is_not_known(gpu_table: ModuleType) -> None:
    assert reached(gpu_table.save_rows({})) == [None] * 5
    assert reached(gpu_table.load_rows({})) == [None] * 3
    assert reached(gpu_table.feed_rows({})) == [None] * 2
    assert reached(gpu_table.feed_rows({"tar": {"bytes_per_s": None}})) == [None] * 2
    # Without its peer a figure is not good enough; a bad one is bad without it.
    without = save_figures()
    del without["dcp"]
    assert reached(gpu_table.save_rows(without))[:2] == [None, None]
    without["host"] = saves(0.2)
    assert reached(gpu_table.save_rows(without))[:2] == [False, None]
    # The best peer may be the one that is missing.
    fewer = load_figures()
    del fewer["InstantTensor, warm"]
    rows = gpu_table.load_rows(fewer)
    assert reached(rows) == [None, None, True]
    assert "InstantTensor is missing" in rows[0].measured
    fewer["safetensors, warm"] = {"median": 20.0}
    assert reached(gpu_table.load_rows(fewer)) == [False, False, True]


PROGRAM = """printf %s "$2" >"$1"; [ "$3" = hang ] && sleep 1000; exit "$3" """


def test_a_part_that_fails_or_takes_too_long_leaves_what_it_had(
    gpu_table: ModuleType, tmp_path: Path
) -> None:
    def part(name: str, figures: Any, end: str, limit_s: float = 60) -> Any:
        return gpu_table.Part(
            name,
            limit_s,
            lambda _, file: ["sh", "-c", PROGRAM, "sh", str(file), json.dumps(figures), end],
            gpu_table.feed_rows,
        )

    parts = (
        part("good", FEED, "0"),
        part("bad", {"p6_times": 21.0}, "3"),
        part("slow", {"p6_times": 3.0}, "hang", limit_s=3),
        part("half", {"failed": ["dcp"]}, "0"),
    )
    (tmp_path / "half.json").write_text(json.dumps(FEED))  # of an earlier run
    results = gpu_table.run(tmp_path, 600, parts)
    assert {name: one["end"] for name, one in results["parts"].items()} == {
        "good": "ok",
        "bad": "failed: exit status 3",
        "slow": "ended by its limit of 3 s",
        "half": "failed: dcp has failed",
    }
    assert reached(results["rows"]) == [True, True, True, None, False, None, None, None]
    table = gpu_table.table(results["rows"]).splitlines()
    assert table[2].endswith("| 20.5 times | >= 20x | yes |")
    assert table[5].endswith("| - | >= 15 GB/s | not known |")
    assert table[6].endswith("| 3.0 times | >= 20x | no |")


def test_parts_are_left_out_when_the_time_is_over(gpu_table: ModuleType, tmp_path: Path) -> None:
    results = gpu_table.run(tmp_path, 0)
    assert {one["end"] for one in results["parts"].values()} == {"left out: no time was left"}
    assert reached(results["rows"]) == [None] * 10
    assert sum(part.limit_s for part in gpu_table.PARTS) >= 600


def test_without_a_gpu_it_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, tmp_path / "none"],
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "there is no GPU" in done.stderr
    assert not (tmp_path / "none").exists()
