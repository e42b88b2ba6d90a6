"""Checkpoints on a node's own disk."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import stoker
from stoker._checkpoint.save import place as _checkpoint_place
from stoker._checkpoint.save.place import filesystem_of, tell_place

_MOUNTS = r"""22 1 8:1 / / rw - ext4 /dev/sda1 rw
23 22 0:5 / /nfs rw shared:1 - nfs4 server:/x rw
24 22 0:6 / /nfs/fast\040disk rw - xfs /dev/nvme0n1 rw
25 22 0:7 / /twice rw - xfs /dev/sdb rw
26 25 0:8 / /twice rw - lustre x rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/x", "ext4"),
        ("/nfs", "nfs4"),
        ("/nfs/run", "nfs4"),
        ("/nfsother", "ext4"),
        ("/nfs/fast disk/run", "xfs"),
        ("/twice/run", "lustre"),
    ],
)
def test_the_innermost_and_latest_mount_counts(tmp_path: Path, path: str, kind: str) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(_MOUNTS)
    assert filesystem_of(path, mounts) == kind
    assert filesystem_of(path, tmp_path / "none") == ""


@pytest.mark.parametrize(
    ("kind", "job", "levels"),
    [
        ("xfs", True, ["WARNING"]),
        ("xfs", False, []),
        ("nfs4", True, []),
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
    monkeypatch.setattr(_checkpoint_place, "filesystem_of", lambda _: kind)
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
    monkeypatch.setattr(_checkpoint_place, "filesystem_of", lambda _: "xfs")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    with stoker.Checkpointer(tmp_path) as saver:
        assert not caplog.records
        for step in (1, 2):
            saver.save(step, state=step)
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        f"{tmp_path} is on this machine's own disk (xfs): the only copy is lost with it"
    ]
