"""Everything that a training has, in one call of save(), and restored into fresh objects."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

import stoker

torch = pytest.importorskip("torch", reason="torch is not installed")
nn = torch.nn


class Training:
    """Fresh objects of all kinds."""

    def __init__(self, shards: Path, seed: int) -> None:
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.1)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, step_size=2, gamma=0.5)
        self.ema = torch.optim.swa_utils.AveragedModel(self.model)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3)
        self.loader = stoker.Loader(shards, global_batch_size=2, seed=3, rank=0, world_size=1)
        self.batches: Any = None  # begun after a restore

    def step(self) -> tuple[float, list[str]]:
        """Returns the loss and the samples of one step."""
        self.batches = self.batches or iter(self.loader)
        keys = [str(key) for key in next(self.batches)["__key__"]]
        self.optimizer.zero_grad()
        loss = self.model(torch.rand(3, 4)).square().sum()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.scheduler.step()
        self.ema.update_parameters(self.model)
        return loss.item(), keys

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of save() and restore()."""
        return {
            "model": self.model,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "ema": self.ema,
            "scaler": self.scaler,
            "loader": self.loader,
            "rng": True,
        }


def test_a_training_continues_with_all_its_parts(tmp_path: Path, shards: Path) -> None:
    unbroken = Training(shards, 1)
    with stoker.Checkpointer(tmp_path / "run") as saver:
        for _ in range(2):
            unbroken.step()
        saver.save(2, **unbroken.arguments).wait()
        scaler = copy.deepcopy(unbroken.scaler.state_dict())
        expected = [unbroken.step() for _ in range(2)]
        resumed = Training(shards, 2)
        assert saver.restore(**resumed.arguments) == 2
        assert resumed.scaler.state_dict() == scaler
        assert scaler["_growth_tracker"] == 2
        assert [resumed.step() for _ in range(2)] == expected
    assert resumed.scaler.get_scale() == unbroken.scaler.get_scale() == 16.0
    assert resumed.scheduler.state_dict() == unbroken.scheduler.state_dict()
    for one, two in zip(resumed.ema.parameters(), unbroken.ema.parameters(), strict=True):
        assert torch.equal(one, two)
    assert int(resumed.ema.n_averaged) == 4
    resumed.loader.close()
    unbroken.loader.close()


class Blockwise(torch.optim.Optimizer):  # type: ignore[misc, name-defined]
    """As 8-bit optimizers of bitsandbytes: plain uint8 state, a load_state_dict() of its own."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 0.1})

    def step(self, closure: Any = None) -> None:
        """Makes the state."""
        for number, one in enumerate(self.param_groups[0]["params"]):
            self.state[one] = {
                "step": 3,
                "state1": torch.full(one.shape, 200 + number, dtype=torch.uint8),
                "qmap1": torch.linspace(-1, 1, 256),
                "absmax1": torch.full((one.numel() // 4,), 0.5 + number),
            }

    def load_state_dict(self, state_dict: Any, move_to_device: bool = True) -> None:
        """Casts everything to the parameter's type, except uint8."""
        state_dict = copy.deepcopy(state_dict)
        parameters = [one for group in self.param_groups for one in group["params"]]
        numbers = [one for group in state_dict["param_groups"] for one in group["params"]]
        state: dict[Any, Any] = {}
        for number, parameter in zip(numbers, parameters, strict=True):
            state[parameter] = {
                name: value.to(parameter.dtype)
                if isinstance(value, torch.Tensor) and value.dtype != torch.uint8
                else value
                for name, value in state_dict["state"].get(number, {}).items()
            }
        groups = [
            {**theirs, "params": mine["params"]}
            for mine, theirs in zip(self.param_groups, state_dict["param_groups"], strict=True)
        ]
        self.__setstate__({"state": state, "param_groups": groups})


def test_8_bit_state_in_plain_tensors(tmp_path: Path) -> None:
    model, other = nn.Linear(4, 4), nn.Linear(4, 4)
    saved, fresh = Blockwise(model.parameters()), Blockwise(other.parameters())
    saved.step()
    saved.param_groups[0]["lr"] = 0.3
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=model, optimizer=saved).wait()
        assert saver.restore(model=other, optimizer=fresh) == 1
        assert fresh.param_groups[0]["lr"] == 0.3
        for one, two in zip(model.parameters(), other.parameters(), strict=True):
            mine, theirs = saved.state[one], fresh.state[two]
            assert mine.keys() == theirs.keys()
            assert theirs["step"] == 3
            for name in ("state1", "qmap1", "absmax1"):
                assert mine[name].dtype == theirs[name].dtype
                assert torch.equal(mine[name], theirs[name])
