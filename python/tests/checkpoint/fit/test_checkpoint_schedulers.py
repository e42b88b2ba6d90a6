"""Every optimizer and every scheduler of torch continues to the bit after a restore."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

torch = pytest.importorskip("torch", reason="torch is not installed")

_BEFORE, _AFTER = 7, 100


def classes_of(module: Any, base: Any) -> list[str]:
    found = []
    for name, kind in vars(module).items():
        if inspect.isclass(kind) and issubclass(kind, base) and kind.__name__ == name:
            found.append(name)
    return sorted(set(found) - {base.__name__, "_LRScheduler"})


_OPTIMIZERS = classes_of(torch.optim, torch.optim.Optimizer)
_SCHEDULERS = [
    *classes_of(torch.optim.lr_scheduler, torch.optim.lr_scheduler.LRScheduler),
    *classes_of(torch.optim.swa_utils, torch.optim.lr_scheduler.LRScheduler),
]


class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
    """With matrices alone, which is all that Muon takes."""

    def __init__(self, sparse: bool) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(20, 8, sparse=sparse)
        self.out = torch.nn.Linear(8, 3, bias=False)

    def forward(self, index: Any) -> Any:
        """Of words."""
        return self.out(self.words(index))


_OPTIONS: dict[str, dict[str, Any]] = {
    "LBFGS": {"lr": 0.05, "max_iter": 3, "line_search_fn": "strong_wolfe"},
    "SGD": {"lr": 0.05, "momentum": 0.9},
    "RMSprop": {"lr": 0.01, "momentum": 0.9, "centered": True},
    "Adam": {"lr": 0.01, "amsgrad": True},
    "AdamW": {"lr": torch.tensor(0.01)},
}


def make_optimizer(name: str) -> tuple[Any, Any]:
    torch.manual_seed(5)
    is_sparse = name == "SparseAdam"
    model = Model(is_sparse)
    weights = model.words.parameters() if is_sparse else model.parameters()
    kind = getattr(torch.optim, name)
    return model, kind(weights, **_OPTIONS.get(name, {"lr": 0.01}))


_MAKE: dict[str, Callable[[Any, Any], Any]] = {
    "ChainedScheduler": lambda lr, o: lr.ChainedScheduler(
        [lr.MultiStepLR(o, [9, 30], 0.5), lr.ExponentialLR(o, 0.99)]
    ),
    "ConstantLR": lambda lr, o: lr.ConstantLR(o, 0.5, 20),
    "CosineAnnealingLR": lambda lr, o: lr.CosineAnnealingLR(o, 40),
    "CosineAnnealingWarmRestarts": lambda lr, o: lr.CosineAnnealingWarmRestarts(o, 5, 2),
    "CyclicLR": lambda lr, o: lr.CyclicLR(o, 0.001, 0.1, 6, mode="exp_range", gamma=0.99),
    "ExponentialLR": lambda lr, o: lr.ExponentialLR(o, 0.97),
    "LambdaLR": lambda lr, o: lr.LambdaLR(o, lambda step: 1 / (1 + step)),
    "LinearLR": lambda lr, o: lr.LinearLR(o, 0.1, 1.0, 50),
    "MultiStepLR": lambda lr, o: lr.MultiStepLR(o, [3, 9, 9, 60], 0.5),
    "MultiplicativeLR": lambda lr, o: lr.MultiplicativeLR(o, lambda step: 0.99),
    "OneCycleLR": lambda lr, o: lr.OneCycleLR(o, 0.1, total_steps=_BEFORE + _AFTER + 1),
    "PolynomialLR": lambda lr, o: lr.PolynomialLR(o, 80, 2.0),
    "ReduceLROnPlateau": lambda lr, o: lr.ReduceLROnPlateau(o, patience=1, cooldown=1),
    "SequentialLR": lambda lr, o: lr.SequentialLR(
        o, [lr.LinearLR(o, 0.1, 1.0, 5), lr.MultiStepLR(o, [3, 9, 60], 0.5)], [5]
    ),
    "StepLR": lambda lr, o: lr.StepLR(o, 10, 0.5),
    "SWALR": lambda _, o: torch.optim.swa_utils.SWALR(o, 0.001, anneal_epochs=50),
}


def make_scheduler(name: str, optimizer: Any) -> Any:
    return _MAKE[name](torch.optim.lr_scheduler, optimizer)


def train(model: Any, optimizer: Any, scheduler: Any, steps: range) -> list[Any]:
    """What could differ after each step: loss, rates, and the bytes of all parameters."""
    seen = []
    for step in steps:
        index = torch.from_numpy(np.random.default_rng(step).integers(0, 20, 16))

        def loss_of(index: Any = index) -> Any:
            optimizer.zero_grad()
            loss = (model(index) - 1).square().mean()
            loss.backward()
            return loss

        loss = optimizer.step(loss_of)
        if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            scheduler.step(float(step % 5))
        elif scheduler is not None:
            scheduler.step()
        rates = [float(group["lr"]) for group in optimizer.param_groups]
        weights = [weight.detach().numpy().tobytes() for weight in model.parameters()]
        seen.append((float(loss.detach()), rates, weights))
    return seen


def check_continues(folder: Path, make: Callable[[], tuple[Any, Any, Any]]) -> None:
    model, optimizer, scheduler = make()
    train(model, optimizer, scheduler, range(_BEFORE))
    after = range(_BEFORE, _BEFORE + _AFTER)

    def trees() -> dict[str, Any]:
        found = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
        return {name: tree for name, tree in found.items() if tree is not None}

    with stoker.Checkpointer(folder) as saver:
        saver.save(_BEFORE, **trees())
        unbroken = train(model, optimizer, scheduler, after)
        model, optimizer, scheduler = make()
        assert saver.restore(**trees()) == _BEFORE
        assert train(model, optimizer, scheduler, after) == unbroken
        # And from where it is now, which is further.
        assert saver.restore(**trees()) == _BEFORE
        assert train(model, optimizer, scheduler, after) == unbroken


@pytest.mark.parametrize("name", _OPTIMIZERS)
def test_every_optimizer_continues_to_the_bit(tmp_path: Path, name: str) -> None:
    check_continues(tmp_path, lambda: (*make_optimizer(name), None))


@pytest.mark.parametrize("name", _SCHEDULERS)
def test_every_scheduler_continues_to_the_bit(tmp_path: Path, name: str) -> None:
    assert name in _MAKE, f"torch has a new scheduler: make one of {name} here"

    def make() -> tuple[Any, Any, Any]:
        model, optimizer = make_optimizer("SGD")
        return model, optimizer, make_scheduler(name, optimizer)

    check_continues(tmp_path, make)


def test_all_of_them_were_found() -> None:
    assert {"Adadelta", "AdamW", "LBFGS", "SGD", "SparseAdam"} <= set(_OPTIMIZERS)
    assert {"MultiStepLR", "OneCycleLR", "ReduceLROnPlateau", "SWALR"} <= set(_SCHEDULERS)


def test_milestones_do_not_double(tmp_path: Path) -> None:
    """They are a Counter, whose update() adds: gamma was applied twice."""
    _, optimizer = make_optimizer("SGD")
    scheduler = make_scheduler("MultiStepLR", optimizer)
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, scheduler=scheduler)
        for _ in range(2):
            saver.restore(scheduler=scheduler)
    assert scheduler.milestones == {3: 1, 9: 2, 60: 1}


def test_an_optimizer_with_other_groups_is_refused_before_anything_changes(tmp_path: Path) -> None:
    model, optimizer = make_optimizer("SGD")
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=model, optimizer=optimizer)
        before = model.out.weight.detach().clone().zero_()
        with torch.no_grad():
            model.out.weight.zero_()
        other = torch.optim.SGD([model.out.weight])
        with pytest.raises(
            ValueError, match=r"optimizer\['model\.words\.weight'\]: in step 1, but"
        ):
            saver.restore(model=model, optimizer=other)
        assert torch.equal(model.out.weight, before)
