"""``stoker pack`` of what Python reads: what it prints, how it exits, what it leaves behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stoker
from stoker._commands import pack as _pack_command
from stoker._common import command_line as _command_line
from stoker._pack import rows as _pack_rows

Files = Callable[[Path], dict[str, bytes]]

# Presses Ctrl-C (sys.argv[1]: how often, as it were a signal's name) when samples are in a shard.
_INTERRUPTED = """
import os, signal, sys
from stoker._common import command_line as _command_line
from stoker._commands import pack as _pack_command
from stoker._pack import rows as _pack_rows

count = _pack_rows._RowPacker._count

def interrupting(self, samples):
    count(self, samples)
    if self._samples > 25:
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))

_pack_rows._RowPacker._count = interrupting
sys.exit(_pack_command.main(sys.argv[2:]))
"""


@pytest.fixture
def table(tmp_path: Path, arrow: Any) -> Path:
    """A Parquet file of 50 rows."""
    rows = arrow.table({"n": list(range(50)), "image": [bytes([i]) * 9 for i in range(50)]})
    arrow.parquet.write_table(rows, tmp_path / "a.parquet", row_group_size=10)
    return tmp_path / "a.parquet"


def run(*words: object, script: str | None = None) -> subprocess.CompletedProcess[str]:
    start = ["-m", "stoker._commands.pack"] if script is None else ["-c", script]
    command = [sys.executable, *start, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_it_says_what_the_native_command_says(table: Path, tmp_path: Path) -> None:
    words = (table, tmp_path / "out", "--samples-per-shard=20", "--columns=n", "--where=n >= 5")
    ran = run(*words)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith(f"{tmp_path / 'out'}: 45 samples in 3 shards (tar), ")
    again = run(*words)
    assert again.stdout.rstrip().endswith("; 3 shards there already")
    assert len(stoker.Dataset(tmp_path / "out", verify="full")) == 45


def test_json_is_for_programs_and_tasks_end_with_a_hint(table: Path, tmp_path: Path) -> None:
    words = (table, tmp_path / "out", "--samples-per-shard=20", "--task=1/2", "--format=mds")
    ran = run(*words, "--json")
    report = json.loads(ran.stdout)
    assert report.pop("size_bytes") > 0
    assert report == {
        "directory": str(tmp_path / "out"),
        "format": "mds",
        "shards": 1,
        "samples": 10,
        "shards_found": 0,
        "complete": False,
    }
    assert f"stoker pack --merge {tmp_path / 'out'}" in run(*words).stdout


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_ctrl_c_leaves_whole_shards_and_a_restart_goes_on(
    table: Path, tmp_path: Path, visible_files: Files, name: str
) -> None:
    words = (table, tmp_path / "out", "--samples-per-shard=10", "--threads=1")
    ran = run(name, *words, script=_INTERRUPTED)
    assert (ran.returncode, ran.stderr) == (130, "stoker pack: stopped while packing\n")
    left = visible_files(tmp_path / "out")
    assert "manifest.json" not in left
    assert not [p for p in (tmp_path / "out").rglob("*") if "staged" in p.name]
    stoker.pack(table, tmp_path / "whole", samples_per_shard=10)
    whole = visible_files(tmp_path / "whole")
    assert left.items() <= whole.items()
    assert len(left) >= 2
    assert run(*words).returncode == 0
    assert visible_files(tmp_path / "out") == whole


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--columns=nope"], 2, "no column 'nope'"),
        (["--columns=n,"], 2, "--columns 'n,': an empty name"),
        (["--columns=[1]"], 2, "neither a,b nor"),
        (["--where=n <"], 2, "COLUMN OPERATOR LITERAL"),
        (["--task=2/2"], 2, "not of the form I/N"),
        (["--shard-size=2 parsecs"], 2, "parsecs"),
        (["--eod=x", "--tokenizer=t"], 2, "--eod 'x': not the number of a token"),
        (["--from=tree"], 2, "not for Python"),
        (["--from=hdf5"], 1, "a.parquet"),
        (["--from=arrow"], 1, "a.parquet"),
    ],
)
def test_misuse_and_failure_are_one_line_each(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str],
    status: int, message: str,
) -> None:  # fmt: skip
    assert _pack_command.main([str(table), str(tmp_path / "out"), *words]) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("stoker pack: ")
    assert err.count("\n") == 1
    assert message in err


def test_a_directory_of_something_else_fails_without_errno(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x").write_bytes(b"")
    assert _pack_command.main([str(table), str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err.startswith(f"stoker pack: {tmp_path / 'out'}: not empty (x)")
    assert _pack_command.main([str(tmp_path / "none"), str(tmp_path / "o"), "--from=parquet"]) == 1
    assert str(tmp_path / "none") in capsys.readouterr().err


def test_columns_with_commas_are_named_in_json(tmp_path: Path, arrow: Any) -> None:
    arrow.parquet.write_table(arrow.table({"a,b": [1], "c": [2]}), tmp_path / "a.parquet")
    words = [str(tmp_path / "a.parquet"), str(tmp_path / "out"), '--columns=["a,b"]']
    assert _pack_command.main(words) == 0
    assert set(stoker.Dataset(tmp_path / "out")[0]) == {"__key__", "a,b"}


@pytest.mark.parametrize(
    ("missing", "kind", "extra"),
    [("pyarrow", "parquet", "parquet"), ("h5py", "hdf5", "hdf5"), ("lmdb", "lmdb", "lmdb")],
)
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    tmp_path: Path, missing: str, kind: str, extra: str
) -> None:
    (tmp_path / "a").write_bytes(b"")
    script = f"import sys; sys.modules[{missing!r}] = None\n" + (
        "from stoker._commands.pack import main; sys.exit(main(sys.argv[1:]))"
    )
    ran = run(tmp_path / "a", tmp_path / "out", f"--from={kind}", script=script)
    assert ran.returncode == 1
    assert f"{missing} is needed to read this: pip install {missing}, or" in ran.stderr
    assert f"pip install '.[{extra}]' in a checkout of Stoker" in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_the_progress_line_has_rates_and_the_time_left() -> None:
    now = _pack_rows.Progress(500, 1000, 100, 80_000_000, token_bytes=2)
    text = _pack_command.ProgressLine.text(now, 4.0)
    assert text == "packing: 50 %, 500/1k samples, 20 MB/s, 10M tokens/s, 5 s left"
    done = _pack_rows.Progress(1000, 1000, 0, 4000)
    text = _pack_command.ProgressLine.text(done, 2.0)
    assert text == "packing: 100 %, 1k/1k samples, 2 KB/s"


def test_a_second_signal_ends_the_process() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        with pytest.raises(KeyboardInterrupt):
            _command_line.stop(signal.SIGINT, None)
        assert [signal.getsignal(number) for number in numbers] == [signal.SIG_DFL] * 2
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
