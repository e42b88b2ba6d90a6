"""stoker.probe(): a typed object, settings from the environment, errors as Python knows them."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import stoker


def test_probe_reports_the_directory_it_was_given(tmp_path: Path) -> None:
    found = stoker.probe(tmp_path)
    assert found.path == str(tmp_path)
    assert found.kernel == os.uname().release
    assert found.filesystem
    assert found.engine in {"uring", "threads", "sync"}
    assert found.engine_reason
    assert found.gpu_direct_reads in {True, False}
    assert len(found.gpu_direct_reads_reason.splitlines()) == 1
    assert list(tmp_path.iterdir()) == [], "scratch files were left behind"


def test_path_is_the_current_directory_unless_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert stoker.probe().filesystem == stoker.probe(str(tmp_path)).filesystem


def test_direct_io_comes_with_its_alignment(tmp_path: Path) -> None:
    found = stoker.probe(tmp_path)
    aligned = found.direct_offset_align_bytes > 0 and found.direct_memory_align_bytes > 0
    assert aligned or not found.direct_io


def test_to_dict_has_every_attribute_and_is_json(tmp_path: Path) -> None:
    found = stoker.probe(tmp_path)
    names = {name for name in dir(found) if not name.startswith("_")} - {"to_dict"}
    fields = found.to_dict()
    assert set(fields) == names
    assert all(getattr(found, name) == value for name, value in fields.items())
    assert json.loads(json.dumps(fields)) == fields


def test_repr_names_type_and_fields(tmp_path: Path) -> None:
    text = repr(stoker.probe(tmp_path))
    assert text.startswith(f"StorageProbe(path={str(tmp_path)!r}, ")
    assert "engine=" in text


def test_fields_cannot_be_set(tmp_path: Path) -> None:
    found = stoker.probe(tmp_path)
    with pytest.raises(AttributeError):
        found.engine = "sync"  # type: ignore[misc]


@pytest.mark.parametrize("engine", ["threads", "sync", "uring"])
def test_stoker_engine_decides_and_the_reason_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    if engine == "uring" and stoker.probe(tmp_path).engine != "uring":
        pytest.skip("io_uring does not work here")
    monkeypatch.setenv("STOKER_ENGINE", engine)
    found = stoker.probe(tmp_path)
    assert found.engine == engine
    assert f"STOKER_ENGINE={engine}" in found.engine_reason
    assert found.registered_buffers == (found.registered_buffers_reason == "")
    if engine != "uring":
        assert engine in found.registered_buffers_reason, "of this engine, not of automatic's"


def test_an_engine_that_does_not_work_is_not_reported(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _WITHOUT_IO_URING, str(tmp_path)],
        env={**os.environ, "STOKER_ENGINE": "uring"},
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode == 77:
        pytest.skip("this kernel takes no seccomp filter")
    assert ran.returncode == 0, ran.stderr
    assert "STOKER_ENGINE=uring does not work here" in ran.stdout


# prctl() and a filter that answers io_uring_setup with EPERM, as containers do.
_WITHOUT_IO_URING = """
import ctypes, struct, sys
import stoker
EPERM, IO_URING_SETUP = 1, 425
LOAD, IS_EQUAL, RETURN, ERRNO, ALLOW = 0x20, 0x15, 6, 0x50000, 0x7FFF0000
rules = [(LOAD, 0, 0, 0), (IS_EQUAL, 0, 1, IO_URING_SETUP)]
rules += [(RETURN, 0, 0, ERRNO | EPERM), (RETURN, 0, 0, ALLOW)]
text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(rules), ctypes.addressof(text)))
prctl = ctypes.CDLL(None).prctl
if prctl(38, 1, 0, 0, 0) != 0 or prctl(22, 2, program) != 0:
    sys.exit(77)
try:
    print(stoker.probe(sys.argv[1]))
except OSError as error:
    print(error)
"""


@pytest.mark.parametrize("engine", ["threads", "sync"])
def test_checkpoints_are_written_and_read_by_the_engine_that_is_forced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    monkeypatch.setenv("STOKER_ENGINE", engine)
    state = {"weights": np.arange(100_000, dtype=np.float32)}
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(step=1, state=state)
    restored = {"weights": np.zeros(100_000, dtype=np.float32)}
    with stoker.Checkpointer(tmp_path) as reader:
        reader.restore(state=restored)
    assert (restored["weights"] == state["weights"]).all()


def test_a_checkpointer_refuses_an_unknown_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = {"weights": np.zeros(3)}
    with stoker.Checkpointer(tmp_path / "sound") as saver:
        saver.save(step=1, state=state)
    monkeypatch.setenv("STOKER_ENGINE", "steam")
    with pytest.raises(ValueError, match="STOKER_ENGINE"):
        stoker.Checkpointer(tmp_path / "new").save(step=1, state=state)
    with pytest.raises(ValueError, match="STOKER_ENGINE"):
        stoker.Checkpointer(tmp_path / "sound").restore(state=state)


@pytest.mark.parametrize("value", ["auto", ""])
def test_stoker_engine_auto_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    expected = stoker.probe(tmp_path).engine
    monkeypatch.setenv("STOKER_ENGINE", value)
    found = stoker.probe(tmp_path)
    assert found.engine == expected
    assert "STOKER_ENGINE" not in found.engine_reason


def test_an_unknown_engine_is_a_value_error_that_lists_the_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOKER_ENGINE", "steam")
    with pytest.raises(ValueError, match="STOKER_ENGINE") as raised:
        stoker.probe(tmp_path)
    for name in ("steam", "auto", "uring", "threads", "sync"):
        assert name in str(raised.value)


def test_a_missing_directory_is_file_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        stoker.probe(tmp_path / "nowhere")
    assert raised.value.errno == errno.ENOENT
    assert "nowhere" in str(raised.value)


def test_a_path_that_cannot_be_one_is_refused_as_open_does() -> None:
    with pytest.raises(ValueError, match="null byte"):
        stoker.probe("a\0b")
    with pytest.raises(TypeError, match="PathLike"):
        stoker.probe(7)  # type: ignore[arg-type]


def test_a_file_is_not_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match="file"):
        stoker.probe(tmp_path / "file")


def test_probes_run_in_several_threads_at_once(tmp_path: Path) -> None:
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(stoker.probe(tmp_path).engine))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 4
    assert list(tmp_path.iterdir()) == [], "scratch files of one probe met those of another"


def test_corrupt_error_is_a_value_error() -> None:
    assert issubclass(stoker.CorruptError, ValueError)
    assert stoker.CorruptError.__module__ == "stoker"
