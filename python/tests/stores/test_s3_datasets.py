"""Datasets in a bucket of a real Ceph: forked children, and the commands stage and convert."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import stoker

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def train(bucket: str, shards: Path, stoker_command: Run) -> str:
    """The shards in the bucket."""
    done = stoker_command("cp", shards, f"{bucket}/train")
    assert done.returncode == 0, done.stderr
    return f"{bucket}/train"


def samples_of(dataset: stoker.Dataset) -> list[tuple[str, bytes]]:
    return [(sample["__key__"], bytes(sample["bin"])) for sample in dataset]


def ends_well(child: Callable[[], bool]) -> bool:
    """Whether it returned True in a forked child, which then ends at once."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if child() else 1)
        finally:
            os._exit(2)
    return os.waitpid(pid, 0)[1] == 0


def test_forked_children_of_a_process_with_a_loader_read_over_connections_of_their_own(
    train: str, shards: Path
) -> None:
    expected = samples_of(stoker.Dataset(shards))
    opened = stoker.Dataset(train)
    loader = stoker.Loader(train, batch_size=5, seed=3)
    keys = [list(batch["__key__"]) for batch in stoker.Loader(shards, batch_size=5, seed=3)]
    batches = iter(loader)
    came = [list(next(batches)["__key__"])]  # now threads of this process read
    assert ends_well(lambda: samples_of(opened) == expected)
    assert ends_well(lambda: samples_of(stoker.Dataset(train)) == expected)
    assert ends_well(
        lambda: [list(b["__key__"]) for b in stoker.Loader(train, batch_size=5, seed=3)] == keys
    )
    came += [list(batch["__key__"]) for batch in batches]
    assert came == keys
    assert samples_of(opened) == expected


def test_what_was_staged_is_not_read_from_the_bucket_again(
    train: str, shards: Path, tmp_path: Path, stoker_command: Run
) -> None:
    folder = tmp_path / "nvme"
    words = ("stage", train, "--cache", folder, "--cache-size", "64MiB", "--json")
    first = stoker_command(*words)
    assert first.returncode == 0, first.stderr
    size = sum(path.stat().st_size for path in shards.iterdir() if path.suffix == ".tar")
    assert json.loads(first.stdout)["fetched_bytes"] == size
    again = stoker_command(*words)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["fetched_bytes"] == 0
    checked = stoker_command("cache", "verify", folder)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    cache = stoker.Cache(folder, "64MiB")
    assert samples_of(stoker.Dataset(train, cache=cache)) == samples_of(stoker.Dataset(shards))
    assert cache.stats()["fetched_bytes"] == 0


def test_shards_of_a_bucket_are_converted_to_a_directory_and_to_another_folder(
    bucket: str, train: str, shards: Path, tmp_path: Path, stoker_command: Run
) -> None:
    expected = [(sample["__key__"], bytes(sample["bin"])) for sample in stoker.Dataset(shards)]
    for target in (str(tmp_path / "mds"), f"{bucket}/mds"):
        words = ("convert", train, target, "--format", "mds", "--samples-per-shard", "20")
        done = stoker_command(*words)
        assert done.returncode == 0, done.stderr
        assert samples_of(stoker.Dataset(target)) == expected
        assert len(stoker.Dataset(target).shards) == 3
        checked = stoker_command("verify", target, "--json")
        assert checked.returncode == 0, checked.stdout + checked.stderr
        again = stoker_command(*words)
        if target.startswith("s3:"):  # only a run that was killed continues there
            assert again.returncode == 1
            assert f"{target}: " in again.stderr
        else:
            assert "3 shards there already" in again.stdout
