"""One cluster for all tests of this folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster
from flows import Reading, run_stoker, write_shards


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    made = Cluster(Path(os.environ["STOKER_CLUSTER"]))
    os.environ.update(made.environment())
    yield made
    made.stop()


@pytest.fixture(scope="session")
def command() -> str:
    return os.environ["STOKER_COMMAND"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))


@pytest.fixture(scope="session")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_shards(tmp_path_factory.mktemp("shards"))


@pytest.fixture(scope="session")
def data(cluster: Cluster, command: str, shards: Path) -> str:
    """The shards in the bucket."""
    uri = f"s3://{cluster.bucket}/train"
    done = run_stoker(command, "cp", str(shards), uri)
    assert done.returncode == 0, done.stderr
    return uri


@pytest.fixture
def reading(data: str) -> Iterator[Reading]:
    """Epochs of the bucket, which are read while the test does something."""
    flow = Reading(data)
    flow.start()
    yield flow
    flow.end()
