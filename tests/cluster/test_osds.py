"""OSDs die, stop and lose connections while data flows: nothing is wrong, nothing is lost."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import OSDS, Cluster, wait_for
from flows import Reading, Writing


@pytest.fixture
def writing(
    cluster: Cluster, command: str, data: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Writing]:
    """Folders that go to the bucket meanwhile, and are read back at the end."""
    target = f"s3://{cluster.bucket}/{request.node.name}"
    flow = Writing(command, target, tmp_path / "written")
    flow.start()
    yield flow
    flow.end()
    flow.check_all(tmp_path / "back")
    assert cluster.unfinished_uploads() == []


@pytest.mark.parametrize("osd", range(OSDS))
def test_an_osd_that_is_killed_costs_nothing(
    cluster: Cluster, reading: Reading, writing: Writing, osd: int
) -> None:
    reading.wait_for_more(2)
    cluster.signal_osd(osd, signal.SIGKILL)
    wait_for(f"osd.{osd} is down", lambda: not cluster.is_up(osd))
    reading.wait_for_more(40)  # more than an epoch from one copy each
    writing.wait_for_more(1)
    cluster.start_osd(osd)
    wait_for("all objects have two copies again", cluster.is_clean)
    reading.wait_for_more(20)


@pytest.mark.parametrize("osd", range(OSDS))
def test_an_osd_that_stops_and_continues_costs_nothing(
    cluster: Cluster, reading: Reading, writing: Writing, osd: int
) -> None:
    reading.wait_for_more(2)
    cluster.signal_osd(osd, signal.SIGSTOP)
    try:
        wait_for(f"osd.{osd} is taken for dead", lambda: not cluster.is_up(osd))
        reading.wait_for_more(40)
        writing.wait_for_more(1)
    finally:
        cluster.signal_osd(osd, signal.SIGCONT)
    wait_for("all objects have two copies again", cluster.is_clean)
    reading.wait_for_more(20)


def test_sockets_that_fail_cost_nothing(
    cluster: Cluster, reading: Reading, writing: Writing
) -> None:
    cluster.fail_sockets(one_in=100)
    try:
        reading.wait_for_more(60)
        writing.wait_for_more(2)
    finally:
        cluster.fail_sockets(one_in=0)
    wait_for("all objects have two copies", cluster.is_clean)
