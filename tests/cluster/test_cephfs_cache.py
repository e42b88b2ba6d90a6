"""A cache on a local disk, over shards on CephFS."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

from cluster import OSDS, Cluster, wait_for
from flows import Reading, write_shards

import stoker

EPOCH = 20  # batches

# Reads epochs through the cache until it is killed, and says when an epoch is done.
_READER = """
import sys
import stoker
from flows import Reading

flow = Reading(sys.argv[1], stoker.Cache(sys.argv[2], "64MiB"))
for number, _ in enumerate(flow.work(), 1):
    if number % 20 == 0:
        print(number // 20, flush=True)
"""


def test_a_second_epoch_needs_no_osd(cluster: Cluster, tmp_path: Path) -> None:
    with cluster.mounted("alone") as mount:
        source = write_shards(mount / "alone")
        size = sum(file.stat().st_size for file in source.glob("*.tar"))
        cache = stoker.Cache(tmp_path / "cache", "64MiB")
        flow = Reading(str(source), cache)
        flow.start()
        flow.wait_for_more(2 * EPOCH)
        assert cache.stats()["fetched_bytes"] == size
        for osd in range(OSDS):
            cluster.signal_osd(osd, signal.SIGSTOP)
        try:
            flow.wait_for_more(2 * EPOCH)
        finally:
            for osd in range(OSDS):
                cluster.signal_osd(osd, signal.SIGCONT)
        flow.end()
        assert cache.stats()["fetched_bytes"] == size
        assert cache.trouble == ""
        wait_for("all objects have two copies", cluster.is_clean)


def test_processes_that_are_killed_leave_a_cache_that_works(
    cluster: Cluster, tmp_path: Path
) -> None:
    rng = random.Random(3)
    with cluster.mounted("killed") as mount:
        source = str(write_shards(mount / "killed"))
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}

        def start() -> subprocess.Popen[str]:
            return subprocess.Popen(
                [sys.executable, "-c", _READER, source, str(tmp_path / "cache")],
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
            )

        readers = [start() for _ in range(3)]
        cluster.signal_osd(1, signal.SIGKILL)  # and the source is disturbed meanwhile
        for _ in range(6):
            victim = rng.randrange(len(readers))
            assert readers[victim].stdout is not None
            assert readers[victim].stdout.readline() != "", "a reader has failed"
            readers[victim].kill()
            readers[victim].wait()
            readers[victim] = start()
        cluster.start_osd(1)
        for reader in readers:
            assert reader.stdout is not None
            assert reader.stdout.readline() != "", "a reader has failed"
            reader.kill()
            reader.wait()
        cache = stoker.Cache(tmp_path / "cache", "64MiB")
        assert cache.trouble == ""
        flow = Reading(source, cache)
        flow.start()
        flow.wait_for_more(EPOCH)
        flow.end()
        assert cache.stats()["healed"] == 0
        wait_for("all objects have two copies", cluster.is_clean)


def test_shards_that_another_machine_replaces_are_not_read_from_the_cache(
    cluster: Cluster, tmp_path: Path
) -> None:
    with cluster.mounted("here") as here, cluster.mounted("there") as there:
        write_shards(there / "replaced")
        cache = stoker.Cache(tmp_path / "cache", "64MiB")
        shard = here / "replaced" / "000000.tar"
        before = bytes(stoker.Dataset(shard, cache=cache)[0]["bin"])
        old = (there / "replaced" / "000000.tar").read_bytes()
        new = there / "replaced" / "new"
        new.write_bytes(old.replace(before, before[::-1]))
        new.rename(there / "replaced" / "000000.tar")
        after = bytes(stoker.Dataset(shard, cache=cache)[0]["bin"])
        assert after == before[::-1]
