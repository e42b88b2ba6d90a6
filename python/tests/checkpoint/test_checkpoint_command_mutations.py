"""Mutated manifests, notes, catalogs and lock records, through every command.

Each ends with an exit status that its help names, in lines that a terminal can show, and leaves
what it has no business with as it was. STOKER_MUTATIONS: how many for each command.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

sys.path.append(str(Path(__file__).parents[3] / "tools"))
from json_mutations import Mutations, seal, text_of, xxh3_128

_COUNT = int(os.environ.get("STOKER_MUTATIONS", "50"))
_ROOT = Path(__file__).parents[3]
_COMMAND = next(
    (path for name in ("dev", "release") if (path := _ROOT / "build" / name / "stoker").exists()),
    None,
)
# DIR: the directory; OUT/: an empty one; FILE: tensors to import.
_COMMANDS = {
    "ls": "ls DIR",
    "ls --json": "ls DIR --json",
    "show": "show DIR 2",
    "show --json": "show DIR 2 --json",
    "verify": "verify DIR --all",
    "diff": "diff DIR 1 2",
    "export": "export DIR 2 OUT/one.safetensors",
    "export --hf": "export DIR 2 OUT/model --hf",
    "export --rank": "export DIR 2 OUT/rank.safetensors --rank 0",
    "export to .pt": "export DIR 2 OUT/state.pt",
    "import": "import DIR FILE --step 9",
    "prune": "prune DIR --keep-last 1 --keep-best loss:min:1 --dry-run",
    "pin": "pin DIR 2",
    "unpin": "unpin DIR 2",
    "annotate": "annotate DIR 2 loss=0.25",
}
# Starts Python and torch each time: some of the manifests, which are each fourth mutation.
_RARE = {"export to .pt": range(3, _COUNT, 12)}
_NEWEST, _IMPORTED = "step-000000000003", "step-000000000009"
try:
    xxh3_128(b"")
except OSError:
    pytest.skip("libxxhash is not installed", allow_module_level=True)


def _catalog_line(document: Any) -> bytes:
    body = text_of(document).encode()
    return xxh3_128(body).encode() + b" " + body + b"\n"


class Directory:
    """Three checkpoints with notes, and one file at a time that is changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with stoker.Checkpointer(path, dedup=False) as saver:
            for step in (1, 2, 3):
                state = {"w": np.full((3, 4), step / 2), "b": np.arange(5), "n": {"x": step}}
                model = {"weight": np.full((2, 3), step, np.float32)}
                saver.save(step, state=state, model=model, reference={"loss": 1 / step}).wait()
            saver.pin(2)
            saver.annotate(2, loss=0.5)
            [self.lock] = path.glob(".lock-[0-9]*")
            record = json.loads(self.lock.read_text())
        [self.lock] = path.glob(".lock-[0-9]*")
        lines = (path / ".catalog").read_text().splitlines()
        self._second = next(i for i, line in enumerate(lines) if "step-000000000002" in line)
        self._lines = [line.encode() + b"\n" for line in lines]
        self._sealed = {
            path / "step-000000000002" / "manifest.json",
            path / "notes" / "step-000000000002.json",
        }
        documents = {file: json.loads(file.read_text()) for file in self._sealed}
        for document in documents.values():
            del document["xxh3_128"]
        documents[path / ".catalog"] = json.loads(lines[self._second][33:])
        documents[self.lock] = record
        self._mutations = {file: Mutations(it, seed=3) for file, it in documents.items()}
        self._files = sorted(self._mutations)
        assert self._files[3].name == "manifest.json"
        self._whole = {file: file.read_bytes() for file in self._files}
        self.names = self.list()

    def list(self) -> list[str]:
        """All names that no command here may change."""
        notes = self.path / "notes"
        return sorted(str(p) for p in self.path.rglob("*") if notes not in p.parents)

    def change(self, number: int) -> str:
        """Mutates one file; says which and how."""
        file = self._files[number % len(self._files)]
        what, document = self._mutations[file].make(number // len(self._files))
        data = text_of(document).encode()
        if file in self._sealed:
            data = seal(document)
        elif file.name == ".catalog":
            lines = list(self._lines)
            lines[self._second] = _catalog_line(document)
            data = b"".join(lines)
        file.unlink()
        file.write_bytes(data)
        return f"{file.name}: {what}"

    def repair(self) -> None:
        """Undoes it, and what the command has said and added."""
        latest = self.path / "latest"
        if latest.readlink() != Path(_NEWEST):
            latest.unlink()
            latest.symlink_to(_NEWEST)
        for name in sorted(set(self.list()) - set(self.names)):
            added = Path(name)
            if added.is_dir():
                shutil.rmtree(added)
            else:
                added.unlink(missing_ok=True)
        for file, data in self._whole.items():
            if not file.exists() or file.read_bytes() != data:
                file.unlink(missing_ok=True)
                file.write_bytes(data)

    def check(self, command: str, status: int) -> None:
        """What was there is there, and only an import has added something."""
        names = set(self.list())
        if command != "import":
            assert names == set(self.names)
            return
        gone = set(self.names) - names - {str(self.lock)}  # the next writer has another
        assert not gone
        assert (str(self.path / _IMPORTED / "manifest.json") in names) == (status == 0)
        if status == 0:
            assert stoker.load(self.path / _IMPORTED)["state.state.w"].shape == (3, 4)


def _run(words: list[str]) -> subprocess.CompletedProcess[bytes]:
    environment = os.environ | {"STOKER_PYTHON": sys.executable}
    call = [str(_COMMAND), "checkpoint", *words]
    return subprocess.run(call, capture_output=True, timeout=60, env=environment)


def _check_lines(ran: subprocess.CompletedProcess[bytes], said: str) -> None:
    assert ran.returncode in (0, 1), said
    errors, printed = ran.stderr.decode(), ran.stdout.decode()
    assert len(errors.splitlines()) <= 1, said
    assert ran.returncode == 0 or errors or printed, said
    for line in (errors + printed).split("\n"):
        assert line.isprintable(), said
    if "--json" in ran.args and ran.returncode == 0:
        json.loads(printed)


@pytest.mark.parametrize("command", _COMMANDS)
def test_a_mutation_ends_in_a_documented_status(command: str, tmp_path: Path) -> None:
    if _COMMAND is None:
        pytest.skip("the command is not built")
    if command.endswith(".pt"):
        pytest.importorskip("torch", reason="torch writes the file")
    directory = Directory(tmp_path / "c")
    out, file = tmp_path / "out", tmp_path / "in.safetensors"
    assert _run(["export", str(directory.path), "3", str(file)]).returncode == 0
    given = {"DIR": str(directory.path), "FILE": str(file)}
    words = [
        given.get(word, word.replace("OUT/", f"{out}/")) for word in _COMMANDS[command].split()
    ]
    statuses: dict[int, int] = {}
    for number in _RARE.get(command, range(_COUNT)):
        out.mkdir()
        what = directory.change(number)
        ran = _run(words)
        said = f"{command}, {number}: {what}: {ran.returncode}: {ran.stdout!r} {ran.stderr!r}"
        _check_lines(ran, said)
        try:
            directory.check(command, ran.returncode)
        except AssertionError as error:
            raise AssertionError(said) from error
        statuses[ran.returncode] = statuses.get(ran.returncode, 0) + 1
        directory.repair()
        shutil.rmtree(out)
    assert statuses.get(0), statuses
