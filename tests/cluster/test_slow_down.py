"""A gateway that answers 503 SlowDown to what exceeds eight requests at a time."""

from __future__ import annotations

import concurrent.futures
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from cluster import Cluster
from flows import SAMPLES, Reading, Writing


@pytest.fixture
def busy(cluster: Cluster, data: str, monkeypatch: pytest.MonkeyPatch) -> str:
    url = cluster.values["BUSY_ENDPOINT_URL"]
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    return url


def status_of(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_gateway_that_asks_for_fewer_requests_gets_fewer_and_answers_all(
    cluster: Cluster, command: str, data: str, busy: str, tmp_path: Path
) -> None:
    reading = Reading(data, batch_size=100)  # up to 200 ranges at a time at first
    writing = Writing(command, f"s3://{cluster.bucket}/busy", tmp_path / "written", "--jobs", "1")
    epoch = SAMPLES // 100
    reading.start()
    writing.start()
    reading.wait_for_more(epoch)
    # Others ask for more than it answers. Without a key: 403, or 503 for what is too much.
    refused = 0
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        while refused < 20:
            answers = list(pool.map(status_of, [f"{busy}/{cluster.bucket}/none"] * 24))
            assert set(answers) <= {403, 503}
            refused += answers.count(503)
    reading.wait_for_more(3 * epoch)
    writing.wait_for_more(1)
    reading.end()
    writing.end()
    writing.check_all(tmp_path / "back")
    assert cluster.unfinished_uploads() == []
