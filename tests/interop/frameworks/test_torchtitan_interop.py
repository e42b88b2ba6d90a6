"""torchtitan's interfaces: its configurations build our dataloader and checkpoint manager.

Run in the environment of peers/requirements.txt, with the package on PYTHONPATH. The driver below
calls them as torchtitan's Trainer does; the Trainer itself needs GPUs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

stoker = pytest.importorskip("stoker", reason="the package is not built, or not on PYTHONPATH")
torchtitan = pytest.importorskip("torchtitan")
titan = pytest.importorskip("stoker.torchtitan")
import torch  # noqa: E402
from documented import block_with  # noqa: E402
from torchtitan.components.checkpointer import BaseCheckpointManager  # noqa: E402
from torchtitan.components.dataloader import (  # noqa: E402
    BaseDataLoader,
    DataloaderExhaustedError,
)


class Optimizers:
    """As torchtitan's container: a list of them."""

    def __init__(self, parts: list[torch.nn.Module]) -> None:
        self.optimizers = [torch.optim.AdamW(part.parameters(), 1e-2) for part in parts]


class Schedulers:
    """As torchtitan's container: only last_epoch is saved, for all of them."""

    def __init__(self, optimizers: Optimizers) -> None:
        self.all = [torch.optim.lr_scheduler.StepLR(one, 1, 0.9) for one in optimizers.optimizers]

    def state_dict(self) -> dict[str, Any]:
        """Of the first."""
        return {"last_epoch": self.all[0].last_epoch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Computes the rates again."""
        for one in self.all:
            one.last_epoch = state["last_epoch"]
            for group, base in zip(one.optimizer.param_groups, one.base_lrs, strict=True):
                group["lr"] = base * 0.9 ** state["last_epoch"]


class Trainer:
    """The parts of torchtitan's Trainer that call a dataloader and a checkpoint manager."""

    def __init__(self, folder: Path, corpus: Path, steps: int = 24, **settings: Any) -> None:
        torch.manual_seed(1)
        self.parts = [torch.nn.Embedding(50, 8), torch.nn.Linear(8, 50)]  # stages of a pipeline
        names = (
            torch.nn.ModuleDict({"embedding": self.parts[0]}),
            torch.nn.ModuleDict({"output": self.parts[1]}),
        )
        self.step = self.ntokens_seen = 0
        self.steps = steps
        config = titan.DataLoader.Config(dataset_path=str(corpus), seed=3)
        self.dataloader = config.build(
            dp_world_size=1,
            dp_rank=0,
            tokenizer=None,
            seq_len=16,
            local_batch_size=4,
            snapshot_every_n_steps=5,
        )
        self.optimizers = Optimizers(self.parts)
        self.schedulers = Schedulers(self.optimizers)
        options = {"enable": True, "interval": 5, "keep_latest_k": 2, **settings}
        self.checkpointer = titan.CheckpointManager.Config(**options).build(
            dataloader=self.dataloader,
            model_parts=list(names),
            optimizers=self.optimizers,
            lr_schedulers=self.schedulers,
            states={"train_state": self},
            sd_adapter=None,
            base_folder=str(folder),
        )

    def state_dict(self) -> dict[str, Any]:
        """As torchtitan's."""
        return {"step": self.step, "ntokens_seen": self.ntokens_seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Likewise."""
        self.step, self.ntokens_seen = state["step"], state["ntokens_seen"]

    def train(self, kill_at: int = 0) -> list[str]:
        """Returns the losses, exactly."""
        losses = []
        self.checkpointer.load(step=-1)
        batches = iter(self.dataloader)
        while self.step < self.steps:
            self.step += 1
            inputs, labels = next(batches)
            logits = self.parts[1](self.parts[0](inputs["input"]))
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
            loss.backward()
            self.checkpointer.maybe_wait_for_staging()
            for one in self.optimizers.optimizers:
                one.step()
                one.zero_grad()
            for schedule in self.schedulers.all:
                schedule.step()
            self.ntokens_seen += labels.numel()
            losses.append(f"{self.step} {float(loss.detach()).hex()}")
            print(losses[-1], flush=True)
            self.checkpointer.save(self.step, last_step=self.step == self.steps)
            if self.step == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
        self.checkpointer.close()
        return losses


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "corpus.npy"
    np.save(path, np.random.default_rng(0).integers(0, 50, 5000).astype(np.uint16))
    return path


def test_a_killed_run_resumes_with_the_losses_of_an_unbroken_one(
    corpus: Path, tmp_path: Path
) -> None:
    whole = Trainer(tmp_path / "whole", corpus).train()
    command = [sys.executable, __file__, str(tmp_path / "run"), str(corpus), "13"]
    killed = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert killed.stdout.split("\n")[:13] == whole[:13]
    again = Trainer(tmp_path / "run", corpus)
    rest = again.train()
    assert rest == whole[-len(rest) :]
    assert len(rest) in (14, 19)  # the save of step 10 may have been in flight
    assert again.ntokens_seen == 24 * 64


def test_they_are_what_torchtitan_asks_for(corpus: Path, tmp_path: Path) -> None:
    trainer = Trainer(tmp_path, corpus)
    assert isinstance(trainer.dataloader, BaseDataLoader)
    assert isinstance(trainer.checkpointer, BaseCheckpointManager)
    inputs, labels = next(iter(trainer.dataloader))
    assert inputs["input"].shape == labels.shape == (4, 16)
    assert labels.dtype == torch.int64
    assert torch.equal(inputs["input"][:, 1:], labels[:, :-1])
    trainer.checkpointer.close()
    off = Trainer(tmp_path, corpus, enable=False).checkpointer
    assert off.load() is False
    assert off.save(5) is False
    off.close()


def test_the_settings_of_torchtitan_mean_what_they_do_there(corpus: Path, tmp_path: Path) -> None:
    Trainer(tmp_path, corpus, steps=23).train()
    steps = tmp_path / "checkpoint"
    with stoker.Checkpointer(steps) as found:
        assert found.steps() == [20, 23]  # keep_latest_k=2
    assert set(stoker.load(steps).state) == {"model"}  # last_save_model_only
    weights = {"embedding.weight", "output.weight", "output.bias"}
    assert set(stoker.load(steps)) == {f"model.{name}" for name in weights}
    other = Trainer(tmp_path / "new", corpus, initial_load_path=str(steps))
    assert other.checkpointer.load() is True
    assert other.step == 0
    loaded = stoker.load(steps)["model.output.bias"][...]
    assert torch.equal(other.parts[1].bias, torch.as_tensor(loaded))
    other.checkpointer.close()
    part = Trainer(tmp_path, corpus, exclude_from_loading=["dataloader", "lr_scheduler"])
    assert part.checkpointer.load(20) is True
    assert part.step == 20
    assert part.schedulers.all[0].last_epoch == 0
    part.checkpointer.close()
    with pytest.raises(ValueError, match="last_save_in_hf is not supported"):
        Trainer(tmp_path, corpus, last_save_in_hf=True)


def test_the_documented_lines_configure_both() -> None:
    config = SimpleNamespace()
    names = {"config": config, "stoker": stoker}
    exec(compile(block_with("config.checkpoint"), "frameworks.md", "exec"), names)
    assert config.checkpoint.interval == 500
    assert config.dataloader.seed == 1


def test_a_finite_loader_ends_as_torchtitan_expects(corpus: Path) -> None:
    config = titan.DataLoader.Config(dataset_path=str(corpus), infinite=False)
    loader = config.build(dp_world_size=2, dp_rank=1, seq_len=16, local_batch_size=50)
    batches = iter(loader)
    assert len([next(batches) for _ in range(3)]) == 3
    with pytest.raises(DataloaderExhaustedError):
        next(batches)


if __name__ == "__main__":
    Trainer(Path(sys.argv[1]), Path(sys.argv[2])).train(int(sys.argv[3]))
