"""Data that flows while a cluster is being disturbed, each byte of it compared."""

from __future__ import annotations

import hashlib
import io
import random
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import stoker

SAMPLES = 400
SAMPLE_BYTES = 50_000


def sample_bytes(number: int) -> bytes:
    return random.Random(number).randbytes(SAMPLE_BYTES)


def write_shards(folder: Path) -> Path:
    """Writes tars whose sample of key "s000017" is sample_bytes(17)."""
    folder.mkdir(parents=True, exist_ok=True)
    for first in range(0, SAMPLES, 50):
        with tarfile.open(folder / f"{first:06}.tar", "w") as tar:
            for number in range(first, first + 50):
                member = tarfile.TarInfo(f"s{number:06}.bin")
                member.size = SAMPLE_BYTES
                tar.addfile(member, io.BytesIO(sample_bytes(number)))
    return folder


DIGESTS = [hashlib.blake2b(sample_bytes(number)).digest() for number in range(SAMPLES)]


class Flow(threading.Thread):
    """Does something again and again until it is told to end; counts, and keeps what was wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0  # of the pieces of work that were done, and were right
        self.wrong: list[str] = []
        self.is_ending = threading.Event()
        self._moved = threading.Condition()

    def run(self) -> None:  # of the thread
        """Works until end() or a failure."""
        try:
            for _ in self.work():
                with self._moved:
                    self.count += 1
                    self._moved.notify_all()
                if self.is_ending.is_set():
                    return
        except Exception as error:
            self.wrong.append(repr(error))
            with self._moved:
                self._moved.notify_all()

    def work(self) -> Iterator[None]:
        """Yields after each piece of work."""
        raise NotImplementedError

    def wait_for_more(self, more: int, limit_s: float = 180.0) -> None:
        """Waits until so much more work is done."""
        with self._moved:
            goal = self.count + more
            is_there = self._moved.wait_for(lambda: self.count >= goal or bool(self.wrong), limit_s)
        assert not self.wrong, self.wrong
        assert is_there, f"{type(self).__name__}: {self.count} of {goal} within {limit_s} s"

    def end(self) -> None:
        """Waits for the present piece of work, and raises for what was wrong."""
        self.is_ending.set()
        self.join(timeout=180.0)
        assert not self.is_alive(), f"{type(self).__name__} hangs"
        assert not self.wrong, self.wrong


class Reading(Flow):
    """Reads shuffled epochs, and checks that each has every sample once, with its bytes."""

    def __init__(
        self, source: str, cache: stoker.Cache | None = None, batch_size: int = 20
    ) -> None:
        super().__init__()
        self._loader = stoker.Loader(
            source, batch_size=batch_size, seed=5, epochs=None, cache=cache, fields={"bin": bytes}
        )

    def work(self) -> Iterator[None]:
        """Yields after each batch."""
        seen: set[int] = set()
        for batch in self._loader:
            for key, value in zip(batch["__key__"], batch["bin"], strict=True):
                number = int(key[1:])
                assert hashlib.blake2b(value).digest() == DIGESTS[number], f"{key} has other bytes"
                assert number not in seen, f"{key} comes twice in an epoch"
                seen.add(number)
            if len(seen) == SAMPLES:
                seen.clear()
            yield


class Writing(Flow):
    """Puts folders into the bucket with stoker cp, each of small files and one in several parts."""

    def __init__(self, stoker_command: str, target: str, folder: Path, *options: str) -> None:
        super().__init__()
        self._command = stoker_command
        self._options = options
        self._target = target
        self._folder = folder
        self.written: dict[str, dict[str, bytes]] = {}  # what cp said was done

    def work(self) -> Iterator[None]:
        """Yields after each folder."""
        for turn in range(1_000_000):
            folder = self._folder / str(turn)
            folder.mkdir(parents=True)
            rng = random.Random(turn)
            files = {f"small-{i}": rng.randbytes(20_000) for i in range(4)}
            files["large"] = rng.randbytes(40 << 20)
            for name, content in files.items():
                (folder / name).write_bytes(content)
            target = f"{self._target}/{turn}"
            done = run_stoker(self._command, "cp", str(folder), target, *self._options)
            assert done.returncode == 0, done.stderr
            self.written[target] = {
                name: hashlib.blake2b(content).digest() for name, content in files.items()
            }
            for name in files:
                (folder / name).unlink()
            yield

    def check_all(self, into: Path) -> None:
        """Reads everything back that was written."""
        assert self.written
        for number, (target, digests) in enumerate(self.written.items()):
            folder = into / str(number)
            done = run_stoker(self._command, "cp", target, str(folder))
            assert done.returncode == 0, done.stderr
            for name, digest in digests.items():
                content = (folder / name).read_bytes()
                assert hashlib.blake2b(content).digest() == digest, f"{target}/{name}"
                (folder / name).unlink()


def run_stoker(command: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([command, *words], capture_output=True, text=True, timeout=180)
