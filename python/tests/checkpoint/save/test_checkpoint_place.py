"""Checkpoints on a node's own disk."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import stoker
from stoker import _native
from stoker._checkpoint.save.place import tell_place


def test_the_kernel_says_which_filesystem_it_is(tmp_path: Path) -> None:
    assert _native.filesystem_of(b"/proc") == "unknown (0x9fa0)"
    assert _native.filesystem_of(b"/dev/shm") == "tmpfs"
    assert _native.filesystem_of(bytes(tmp_path / "missing")) == ""


@pytest.mark.parametrize(
    ("kind", "job", "levels"),
    [
        ("xfs", True, ["WARNING"]),
        ("xfs", False, []),
        ("nfs", True, []),
        ("", True, []),
        ("tmpfs", False, ["WARNING"]),
        ("ramfs", True, ["WARNING"]),
    ],
)
def test_a_job_is_warned_of_its_nodes_disk_and_everybody_of_memory(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    kind: str,
    job: bool,
    levels: list[str],
) -> None:
    monkeypatch.setattr(_native, "filesystem_of", lambda _: kind)
    with caplog.at_level(logging.INFO, "stoker"):
        tell_place("/run", {"SLURM_JOB_ID": "7"} if job else {})
    assert [record.levelname for record in caplog.records] == levels


@pytest.mark.parametrize("kind", ["new", "directory", "link", "link to a directory"])
def test_a_directory_of_checkpoints_is_not_called_latest(tmp_path: Path, kind: str) -> None:
    latest = tmp_path / "latest"
    if kind == "directory":
        latest.mkdir()
    elif kind == "link":
        latest.symlink_to("step-000000000001")  # dangling
    elif kind == "link to a directory":
        (tmp_path / "other").mkdir()
        latest.symlink_to("other")
    with pytest.raises(ValueError, match=rf"^{latest}: `latest` is the name .* Give {tmp_path} to"):
        stoker.Checkpointer(latest)
    with stoker.Checkpointer(tmp_path / "latest-run") as saver:
        saver.save(1, state=1)
    assert stoker.load(tmp_path / "latest-run").step == 1


def test_it_is_told_once_at_the_first_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_native, "filesystem_of", lambda _: "xfs")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    with stoker.Checkpointer(tmp_path) as saver:
        assert not caplog.records
        for step in (1, 2):
            saver.save(step, state=step)
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        f"{tmp_path} is on this machine's own disk (xfs): the only copy is lost with it"
    ]
