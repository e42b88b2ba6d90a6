"""What every test here shares."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import struct
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from fork_server import ForkedPython

WriteMegatron: TypeAlias = Callable[[Path, str, Sequence[Any]], Path]
WriteTar: TypeAlias = Callable[[Path, Mapping[str, Mapping[str, bytes]]], Path]
VisibleFiles: TypeAlias = Callable[[Path], dict[str, bytes]]
PackUntilKilled: TypeAlias = Callable[..., None]
Start: TypeAlias = Callable[..., "subprocess.Popen[str]"]
Ranks: TypeAlias = Callable[..., "contextlib.AbstractContextManager[Any]"]
OnAll: TypeAlias = Callable[..., "list[Any]"]

pytest_plugins = ["ceph_bucket"]

# A shell's background jobs ignore Ctrl-C, and so would the processes that tests send it to.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Programs that tests run print line by line, whatever the shell that runs the tests has set: in
# pieces, the lines of two processes would mix.
os.environ.pop("PYTHONUNBUFFERED", None)

# Python 3.12 and later warn of every fork of a process with threads, which is what some tests do.
os.environ["PYTHONWARNINGS"] = "ignore:This process:DeprecationWarning"

# Packs as stoker.pack() does, and is killed once as many samples as sys.argv[1] are in shards.
_KILLED = """
import json, os, signal, sys
import stoker
from stoker._pack import rows as _pack_rows

left = int(sys.argv[1])

def killing(self, samples):
    global left
    left -= len(samples)
    if left <= 0:
        os.kill(os.getpid(), signal.SIGKILL)

_pack_rows._RowPacker._count = killing
arguments = json.loads(sys.argv[2])
stoker.pack(arguments.pop("src"), arguments.pop("dst"), threads=1, **arguments)
"""


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Tests see the defaults, whatever the shell that runs them has exported."""
    monkeypatch.delenv("STOKER_ENGINE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))


@pytest.fixture
def write_tar() -> WriteTar:
    """Writes a WebDataset shard with Python's tarfile: {key: {extension: bytes}}."""

    def write(path: Path, samples: Mapping[str, Mapping[str, bytes]]) -> Path:
        with tarfile.open(path, "w") as archive:
            for key, fields in samples.items():
                for extension, data in fields.items():
                    member = tarfile.TarInfo(f"{key}.{extension}")
                    member.size = len(data)
                    archive.addfile(member, io.BytesIO(data))
        return path

    return write


@pytest.fixture
def shards(tmp_path: Path, write_tar: WriteTar) -> Path:
    """A folder of two tars with 30 and 20 samples: s000 to s049."""
    folder = tmp_path / "data"
    folder.mkdir()
    for shard, numbers in enumerate((range(30), range(30, 50))):
        samples = {
            f"s{i:03}": {"bin": bytes([i]) * 8, "cls": b"%d" % i, "json": b'{"n": %d}' % i}
            for i in numbers
        }
        write_tar(folder / f"train-{shard:03}.tar", samples)
    return folder


@pytest.fixture
def write_megatron() -> WriteMegatron:
    """Writes name.bin and name.idx of uint16 as Megatron-LM does; the path of the latter."""

    def write(folder: Path, name: str, documents: Sequence[Any]) -> Path:
        np.concatenate(documents).astype("<u2").tofile(folder / f"{name}.bin")
        lengths = np.array([len(d) for d in documents], "<i4")
        pointers = (np.cumsum([0, *lengths[:-1]]) * 2).astype("<i8")
        head = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(documents), len(documents) + 1)
        ends = np.arange(len(documents) + 1, dtype="<i8")
        path = folder / f"{name}.idx"
        path.write_bytes(head + lengths.tobytes() + pointers.tobytes() + ends.tobytes())
        return path

    return write


@pytest.fixture
def arrow() -> Any:
    """Pyarrow, with pyarrow.parquet; skips where it is missing."""
    reason = "pyarrow is not installed"
    pytest.importorskip("pyarrow.parquet", reason=reason)
    return pytest.importorskip("pyarrow", reason=reason)


@pytest.fixture
def visible_files() -> VisibleFiles:
    """Everything in a folder with a final name, and its bytes."""

    def read(folder: Path) -> dict[str, bytes]:
        files = (p for p in folder.iterdir() if p.name[0] != "." and ".staged-" not in p.name)
        return {p.name: p.read_bytes() for p in files}

    return read


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts processes with pipes; those that a failed test leaves running are killed."""
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    started: list[subprocess.Popen[str]] = []

    def run(command: Sequence[object], **options: Any) -> subprocess.Popen[str]:
        words = [str(word) for word in command]
        started.append(subprocess.Popen(words, text=True, **pipes, **options))
        return started[-1]

    yield run
    for process in started:
        with process:
            process.kill()


@pytest.fixture
def pack_until_killed() -> PackUntilKilled:
    """Runs stoker.pack() with one thread in a process that is killed after some samples."""

    def pack(samples: int, src: Path, dst: Path, **options: Any) -> None:
        arguments = json.dumps({"src": str(src), "dst": str(dst), **options})
        command = [sys.executable, "-c", _KILLED, str(samples), arguments]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert ran.returncode == -9, ran.stderr

    return pack


# A rank obeys lines of Python on stdin, and answers each with a line: what `result` is then, or the
# exception.
_RANK = r"""
import json, os, sys
import numpy as np
import stoker
from stoker._checkpoint import checkpointer as _checkpointer

folder, rank, world, settings = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
exec(sys.argv[5])
saver = stoker.Checkpointer(folder, rank=rank, world_size=world, **json.loads(settings))
state = {"w": np.arange(4.0) + 10 * rank, "name": f"r{rank}"}
space = {"saver": saver, "np": np, "stoker": stoker, "rank": rank, "world": world, "state": state,
         "_checkpointer": _checkpointer}
for line in sys.stdin:
    try:
        space["result"] = None
        exec(json.loads(line), space)
        print(json.dumps({"result": space["result"]}), flush=True)
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
"""


class Rank:
    """A process. What is told to several ranks is told before any of them is heard."""

    def __init__(
        self, folder: Path, rank: int, world: int, settings: dict[str, Any], begin: str
    ) -> None:
        command = [sys.executable, "-c", _RANK, folder, rank, world, json.dumps(settings), begin]
        self.process = ForkedPython(
            command,
            torch="import torch" in begin,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, program: str) -> None:
        """Lets it run a program."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(program) + "\n")
        self.process.stdin.flush()

    def end(self) -> int:
        """Lets it end, and returns its code. It may wait for other ranks that end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(timeout=60)

    def hear(self) -> Any:
        """What `result` was, or the error."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the rank has ended"
        said = json.loads(line)
        return said["error"] if "error" in said else said["result"]


@contextlib.contextmanager
def _ranks(
    folder: Path, world: int, count: int | None = None, begin: str = "", **settings: Any
) -> Iterator[Any]:
    """``begin``: a program that each runs before it makes its checkpointer."""
    numbers = range(world if count is None else count)
    started = [Rank(folder, r, world, settings, begin) for r in numbers]
    try:
        yield started
    finally:
        for rank in started:
            with rank.process:
                rank.process.kill()


def _on_all(group: list[Rank], program: str) -> list[Any]:
    for rank in group:
        rank.tell(program)
    return [rank.hear() for rank in group]


@pytest.fixture
def ranks() -> Ranks:
    """Starts processes that are ranks; they end with the context."""
    return _ranks


@pytest.fixture
def on_all() -> OnAll:
    """Has ranks run a program, all before any of them is heard; returns what they say."""
    return _on_all


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests first, so that no core is idle at the end."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
