"""The README, and the pages about commands, as a new user follows them: every block runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
STOKER = Path(os.environ.get("STOKER_COMMAND", ROOT / "build" / "release" / "stoker"))

# The doctor exits with 1 if this machine has a problem, which is no failure of the page. What make
# would do takes minutes: that the targets exist is enough here.
_PRELUDE = f"""
stoker() {{
  if [[ $1 == doctor ]]; then command stoker "$@" || [[ $? -eq 1 ]]; else command stoker "$@"; fi
}}
make() {{ MAKEFLAGS= command make --dry-run --directory '{ROOT}' "$@" >/dev/null; }}
"""


class PageRunner:
    """Runs blocks in one folder, which is the current directory, and in one Python session."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: dict[str, Any] = {"__name__": "page"}

    @staticmethod
    def blocks(text: str) -> list[tuple[str, str]]:
        """Language and code of each block that can be run."""
        return re.findall(r"^```(sh|python)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)

    def shell(self, code: str) -> str:
        """Runs commands, with the built `stoker` first on the PATH; what they print."""
        quick = re.sub(
            r"(stoker tune [^#\n]*?)(?: --time \w+)?( *#.*)?$", r"\1 --time 1s\2", code, flags=re.M
        )
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", _PRELUDE + quick],
            cwd=self.folder,
            env=os.environ
            | {"PATH": f"{STOKER.parent}:{os.environ['PATH']}", "STOKER_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert ran.returncode == 0, f"{code}{ran.stdout}{ran.stderr}"
        return ran.stdout + ran.stderr

    def run(self, text: str, languages: tuple[str, ...] = ("sh", "python")) -> str:
        """Runs the blocks of a page in order; what the shell commands print."""
        output = ""
        for language, code in self.blocks(text):
            if language not in languages:
                continue
            if language == "sh":
                output += self.shell(code)
            else:
                exec(compile(code, "page", "exec"), self.names)
        return output


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PageRunner:
    if not STOKER.exists():
        pytest.skip(f"{STOKER} is not built")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    return PageRunner(tmp_path)


def test_every_block_of_the_readme_runs(
    page: PageRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind in ("cat", "dog"):
        (page.folder / "images" / kind).mkdir(parents=True)
        for number in range(1000):
            (page.folder / "images" / kind / f"{number}.jpg").write_bytes(b"\xff\xd8 an image")
    (page.folder / "data").mkdir()
    output = page.run((ROOT / "README.md").read_text().replace("/data", f"{page.folder}/data"))
    assert "2000 samples in 1 shard" in output
    assert page.names["step"] == 2000 // 64
    assert "1,984 samples" in capsys.readouterr().out
    with stoker.Checkpointer(page.folder / "data" / "run") as saver:
        assert saver.steps() == [31]
    assert "1 checkpoint, " in output


def save_two_checkpoints(folder: Path) -> None:
    with stoker.Checkpointer(folder) as saver:
        for step in (1000, 2000):
            model = {"w": np.full((8, 4), step, np.float32)}
            saver.save(step, model=model, optimizer={"lr": 0.1}, reference={"loss": 1 / step})


def save_on_two_ranks(folder: Path) -> None:
    """The same model on both, as with DistributedDataParallel."""

    def save(rank: int) -> None:
        with stoker.Checkpointer(folder, rank=rank, world_size=2, job="page") as saver:
            saver.save(10, model={"w": np.ones((8, 4), np.float32)}).wait()

    ranks = [threading.Thread(target=save, args=(rank,)) for rank in (0, 1)]
    for thread in ranks:
        thread.start()
    for thread in ranks:
        thread.join()


@pytest.mark.slow
def test_every_block_about_commands_of_checkpoints_runs(page: PageRunner) -> None:
    torch = pytest.importorskip("torch", reason="the page exports and imports files of torch")
    dcp = pytest.importorskip("torch.distributed.checkpoint")
    save_two_checkpoints(page.folder / "run" / "checkpoints")
    save_two_checkpoints(page.folder / "base")
    save_on_two_ranks(page.folder / "run" / "ddp")
    page.shell("stoker checkpoint export base latest base.safetensors --only model. --strip model.")
    state = {"w": torch.zeros(3)}
    torch.save(state, "old.pt")
    dcp.save(state, checkpoint_id="dcp-dir")
    text = (DOCS / "checkpoint-commands.md").read_text()
    output = page.run(text.replace("/data --size 4GiB", ". --size 16MiB"))
    assert "model.safetensors: OK" in output
    assert "run/checkpoints/step-000000050000: 1 tensor" in output
    assert torch.load("model.pt", weights_only=True)
    assert list(stoker.load("ddp.safetensors")) == ["w"]
    assert list(stoker.load("ddp-model/model.safetensors")) == ["w"]


def test_every_block_about_measuring_runs(
    page: PageRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    stoker.ingest(({"x": np.full(4, i)} for i in range(4000)), "shards")
    documents = ({"tokens": np.arange(500, dtype=np.uint16)} for _ in range(600))
    stoker.ingest(documents, "corpus", format="tokens")
    for ending in ("idx", "bin"):
        next(Path("corpus").glob(f"*.{ending}")).rename(f"corpus.{ending}")
    output = page.run((DOCS / "measuring.md").read_text())
    assert "3200 samples came before" in output
    assert len(Path("whole").read_text().splitlines()) == 4000 // 64 * 64
    printed = capsys.readouterr().out
    assert "batches     50 after 5 to warm up" in printed
    assert "num_workers =" in printed or "torch" in printed
    assert Path("state.bin").stat().st_size == 8000


def test_every_command_about_tuning_runs(page: PageRunner) -> None:
    stoker.ingest(({"x": np.full(4, i)} for i in range(4000)), "shards")
    assert "stoker stream" in page.run((DOCS / "tuning.md").read_text(), languages=("sh",))


def test_every_block_about_the_cache_runs(
    page: PageRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    stoker.ingest(({"txt": f"sample {i}" * 100} for i in range(500)), "shards")
    output = page.run((DOCS / "cache.md").read_text())
    assert "of hits" in output
    assert "no damage found" in output
    assert int(capsys.readouterr().out) > 500_000


def test_every_command_about_the_doctor_runs(page: PageRunner) -> None:
    for name in ("data", "ckpt"):
        (page.folder / name).mkdir()
    text = (DOCS / "doctor.md").read_text()
    output = page.run(text.replace(" /data", " ./data").replace(" /ckpt", " ./ckpt"))
    assert "io_uring" in output
    assert '"findings"' in output


def test_every_block_about_planning_runs_and_draws_the_plots_of_the_page(page: PageRunner) -> None:
    output = page.run((DOCS / "planning.md").read_text())
    for part in (
        "  needed = 1.3312 GB/s",
        "measured in .",
        "NVMe cache",
        "drives_rate = 23.6 GB/s",
    ):
        assert part in output
    for name in ("goodput.svg", "cliff.svg"):
        assert Path(name).read_text() == (DOCS / "plots" / name).read_text()
