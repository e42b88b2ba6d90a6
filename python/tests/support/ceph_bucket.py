"""A bucket of a real Ceph, and the built command, for tests of datasets that are named by URI."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "tests" / "servers" / "ceph.sh"
COMMAND = Path(os.environ.get("STOKER_COMMAND", ROOT / "build" / "release" / "stoker"))

Ran: TypeAlias = "subprocess.CompletedProcess[str]"
Run: TypeAlias = Callable[..., Ran]


@pytest.fixture(scope="session")
def ceph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What the gateway has written: AWS_..., BUCKET. A missing package fails the tests."""
    folder = tmp_path_factory.mktemp("ceph")
    try:
        subprocess.run([SCRIPT, "start", folder], check=True, timeout=120)
        lines = (folder / "s3.env").read_text().splitlines()
        yield dict(line.split("=", 1) for line in lines)
    finally:
        subprocess.run([SCRIPT, "stop", folder], check=True, timeout=120)


@pytest.fixture
def bucket(
    ceph: dict[str, str], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> str:
    """A URI below which nothing is yet; the environment names the gateway, and nothing else."""
    for name in os.environ:
        if name.startswith("AWS_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    for name, value in ceph.items():
        if name.startswith("AWS_"):
            monkeypatch.setenv(name, value)
    return f"s3://{ceph['BUCKET']}/{request.node.name}"


@pytest.fixture
def stoker_command() -> Run:
    """Runs the built command with words; what it prints comes back."""
    if not COMMAND.exists():
        pytest.skip(f"{COMMAND} is not built")

    def run(*words: object, **environment: str) -> Ran:
        return subprocess.run(
            [COMMAND, *map(str, words)],
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=180,
        )

    return run
