"""Lightning's own Trainer and Accelerate's Accelerator drive a stoker.Loader.

Run in the environment of peers/requirements.txt, with the package on PYTHONPATH.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

stoker = pytest.importorskip("stoker", reason="the package is not built, or not on PYTHONPATH")
lightning = pytest.importorskip("lightning.pytorch")
accelerate = pytest.importorskip("accelerate")
import numpy as np  # noqa: E402
import torch  # noqa: E402

# Before 2.6, save_last=True also saved at the end of each epoch, whatever every_n_train_steps= was.
SAVES_EACH_EPOCH = tuple(map(int, lightning.__version__.split(".")[:2])) < (2, 6)
Keys = list[str]


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """160 samples: 20 batches of 8."""
    path = tmp_path_factory.mktemp("data") / "shards"
    samples = ({"__key__": f"{i:04}", "x": np.full(4, i, np.float32)} for i in range(160))
    stoker.ingest(samples, path)
    return path


def make_loader(shards: Path, **options: Any) -> Any:
    fields = {"x.npy": np.float32}
    return stoker.Loader(shards, batch_size=8, seed=3, fields=fields, **options)


class Model(lightning.LightningModule):
    """Notes the first key of each batch that it is trained on."""

    def __init__(self, shards: Path, options: dict[str, Any]) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.shards, self.options = shards, options
        self.seen: Keys = []
        self.crash_at = 0  # batches

    def train_dataloader(self) -> Any:
        """As docs/training.md says."""
        return make_loader(self.shards, **self.options)

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        """Any loss."""
        batches = batch if isinstance(batch, list) else [batch]  # of several loaders
        self.seen.append(" ".join(one["__key__"][0] for one in batches))
        if len(self.seen) == self.crash_at:
            raise RuntimeError("crash")
        return self.layer(batches[0]["x.npy"]).mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Any."""
        return torch.optim.SGD(self.parameters(), 1e-6)


def run_documented(word: str, names: dict[str, Any]) -> dict[str, Any]:
    """Runs the one block of docs/training.md that has this word; returns what it defines."""
    page = Path(__file__).parents[2] / "docs" / "training.md"
    found = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    [block] = [block for block in found if word in block]
    exec(compile(block, page.name, "exec"), names)
    return names


Documented: Any = run_documented("class SaveBetweenSteps", {"lightning": sys.modules["lightning"]})[
    "SaveBetweenSteps"
]


class SaveBetweenSteps(Documented):
    """The documented one. Of several loaders, the batch is a list with a batch of each."""

    def on_train_batch_end(
        self, trainer: Any, model: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Only after the last micro-batch, which is that of each loader."""
        first = batch[0] if isinstance(batch, list) else batch
        super().on_train_batch_end(trainer, model, outputs, first, batch_idx)


def fit(
    shards: Path,
    folder: Path,
    options: dict[str, Any],
    checkpoint: dict[str, Any] | None = None,
    resume: bool = False,
    crash_at: int = 0,
    make: Any = Model,
    **limits: Any,
) -> Keys:
    """The batches of one run of the Trainer."""
    callback = SaveBetweenSteps(dirpath=folder, save_last=True, **(checkpoint or {}))
    trainer = lightning.Trainer(
        default_root_dir=folder,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[callback],
        **limits,
    )
    model = make(shards, options)
    model.crash_at = crash_at
    with pytest.raises(RuntimeError, match="crash") if crash_at else contextlib.nullcontext():
        trainer.fit(model, ckpt_path=str(folder / "last.ckpt") if resume else None)
    return model.seen


EACH_1 = {"every_n_train_steps": 1}
EACH_15 = {"every_n_train_steps": 15}
MICRO = {"micro_batch_size": 2}  # four of them make a step
BY_4 = {"accumulate_grad_batches": 4}

# What the loader is, when it stops, when the resumed run stops, what last.ckpt has, its callback.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], int, dict[str, Any]]] = {
    "at an epoch's end": ({}, {"max_epochs": 2}, {"max_epochs": 4}, 40, {}),
    "in the middle": ({}, {"max_epochs": 2}, {"max_epochs": 4}, 30, EACH_15),
    "in the middle, by steps": ({}, {"max_steps": 27}, {"max_steps": 70}, 27, EACH_1),
    "at the end, by steps": ({}, {"max_steps": 40}, {"max_steps": 70}, 40, EACH_1),
    "two epochs each, end": ({"epochs": 2}, {"max_epochs": 1}, {"max_epochs": 3}, 40, {}),
    "two epochs each, middle": ({"epochs": 2}, {"max_steps": 67}, {"max_steps": 90}, 67, EACH_1),
    "endless": ({"epochs": None}, {"max_steps": 35}, {"max_steps": 70}, 35, {}),
    "endless, epoch's end": ({"epochs": None}, {"max_steps": 40}, {"max_steps": 70}, 40, {}),
    "endless, each 15": ({"epochs": None}, {"max_steps": 35}, {"max_steps": 70}, 30, EACH_15),
    "endless, limited": (
        {"epochs": None},
        {"max_epochs": 2, "limit_train_batches": 12},
        {"max_epochs": 4, "limit_train_batches": 12},
        24,
        {},
    ),
    "micro-batches, epoch's end": (
        MICRO,
        {"max_epochs": 2, **BY_4},
        {"max_epochs": 4, **BY_4},
        160,
        {},
    ),
    "micro-batches, each 15 steps": (
        MICRO,
        {"max_epochs": 2, **BY_4},
        {"max_epochs": 4, **BY_4},
        120,
        EACH_15,
    ),
    "micro-batches, by steps": (
        MICRO,
        {"max_steps": 27, **BY_4},
        {"max_steps": 70, **BY_4},
        108,
        EACH_1,
    ),
    "micro-batches, endless": (
        {"epochs": None, **MICRO},
        {"max_steps": 35, **BY_4},
        {"max_steps": 70, **BY_4},
        140,
        {},
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_a_resumed_fit_trains_on_the_batches_of_an_unbroken_one(
    shards: Path, tmp_path: Path, name: str
) -> None:
    options, stop, end, saved, checkpoint = CASES[name]
    whole = fit(shards, tmp_path / "whole", options, **end)
    first = fit(shards, tmp_path / "run", options, checkpoint, **stop)
    assert first == whole[: len(first)]
    if SAVES_EACH_EPOCH and checkpoint is EACH_15:
        saved = len(first)
    state = torch.load(tmp_path / "run" / "last.ckpt", weights_only=False)
    assert state["global_step"] * (4 if "micro_batch_size" in options else 1) == saved
    rest = fit(shards, tmp_path / "run", options, checkpoint, resume=True, **end)
    assert rest == whole[saved:]


class TwoLoaders(Model):
    """Trains on two loaders at once: Lightning begins the shorter one again within an epoch."""

    def train_dataloader(self) -> Any:
        """Of 20 and 13 batches."""
        half = stoker.Dataset(self.shards)[:104]
        return [make_loader(self.shards), make_loader(half)]


# The loader, the Trainer's limits, the batch that crashes, and what last.ckpt has by then.
CRASHES: dict[str, tuple[dict[str, Any], dict[str, Any], int, int, type]] = {
    "last batch of a limit": ({}, {"limit_train_batches": 12}, 30, 24, Model),
    "last batch of a limit, endless": (
        {"epochs": None},
        {"limit_train_batches": 12},
        30,
        24,
        Model,
    ),
    "last batch of a limit beyond the epoch": (
        {"epochs": None},
        {"limit_train_batches": 24},
        30,
        24,
        Model,
    ),
    "inside a limit beyond the epoch": (
        {"epochs": None},
        {"limit_train_batches": 30},
        40,
        36,
        Model,
    ),
    "two loaders": ({}, {}, 18, 12, TwoLoaders),
    "two loaders, second time": ({}, {}, 33, 24, TwoLoaders),
    "two loaders, last batch of a limit": ({}, {"limit_train_batches": 12}, 14, 12, TwoLoaders),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CRASHES)
def test_a_fit_that_crashed_continues_from_its_last_checkpoint(
    shards: Path, tmp_path: Path, name: str
) -> None:
    options, limits, crash_at, saved, make = CRASHES[name]
    limits = {"max_epochs": 3, "make": make, **limits}
    checkpoint = {"every_n_train_steps": 12}
    whole = fit(shards, tmp_path / "whole", options, **limits)
    fit(shards, tmp_path / "run", options, checkpoint, crash_at=crash_at, **limits)
    rest = fit(shards, tmp_path / "run", options, checkpoint, resume=True, **limits)
    assert rest == whole[saved:]


class Evaluated(Model):
    """Notes all keys that it is evaluated on."""

    def __init__(self, shards: Path, options: dict[str, Any]) -> None:
        super().__init__(shards, options)
        self.evaluated: Keys = []

    def val_dataloader(self) -> list[Any]:
        """None, unless fit() is given some."""
        return []

    def validation_step(self, batch: Any, _: int) -> None:
        """Notes keys."""
        self.evaluated.extend(batch["__key__"])

    def test_step(self, batch: Any) -> None:
        """Likewise."""
        self.evaluated.extend(batch["__key__"])

    def predict_step(self, batch: Any, _: int) -> Keys:
        """Keys, which the Trainer gathers."""
        return list(batch["__key__"])


@pytest.mark.filterwarnings("ignore")
def test_a_resume_that_is_not_exact_is_warned_of(
    shards: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fit(shards, tmp_path / "middle", {}, max_steps=27)  # saved at what Lightning calls its end
    fit(shards, tmp_path / "end", {}, max_steps=50, crash_at=45, make=Evaluated)
    assert "left out" not in caplog.text
    fit(shards, tmp_path / "middle", {}, resume=True, max_steps=50)
    assert "the next 13 batches after the loaded state are left out" in caplog.text
    fit(shards, tmp_path / "end", {}, resume=True, max_steps=50, make=Evaluated)
    assert "the next 20 batches after the loaded state are left out" in caplog.text


def test_a_loader_is_validated_tested_and_predicted_on(shards: Path, tmp_path: Path) -> None:
    def held_out() -> Any:
        return make_loader(stoker.Dataset(shards)[:20], shuffle="off")

    keys = [f"{i:04}" for i in range(20)]
    model = Evaluated(shards, {})
    trainer = lightning.Trainer(
        default_root_dir=tmp_path,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        max_epochs=2,
        num_sanity_val_steps=1,
    )
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        trainer.fit(model, model.train_dataloader(), held_out())
        assert model.evaluated == keys[:8] + 2 * keys  # one batch before, and each epoch
        for evaluate in (trainer.validate, trainer.test):
            model.evaluated = []
            evaluate(model, held_out(), verbose=False)
            assert model.evaluated == keys
        found = trainer.predict(model, held_out())
    assert [key for batch in found for key in batch] == keys
    assert not [one for one in told if "shuffl" in str(one.message)]


_BUILT_BEFORE_FIT = """
import sys
import lightning.pytorch as pl, torch
import numpy as np, stoker

class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, _):
        return self.layer(batch["x.npy"]).mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 1e-6)

loader = stoker.Loader(sys.argv[1], batch_size=8, fields={"x.npy": np.float32})
trainer = pl.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_steps=1, logger=False,
                     enable_checkpointing=False, enable_progress_bar=False)
trainer.fit(Model(), loader)
"""


def test_a_loader_built_before_fit_under_ddp_is_refused_with_advice(
    shards: Path, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(_BUILT_BEFORE_FIT)
    command = [sys.executable, str(script), str(shards)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert ran.returncode != 0
    assert "Under Lightning, build it in train_dataloader()" in ran.stderr


def same(one: Any, other: Any) -> bool:
    """Whether two trees have the same values of the same types."""
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def test_the_state_of_a_trainer_can_be_saved_and_restored_as_a_tree(
    shards: Path, tmp_path: Path
) -> None:
    """All that Lightning has in a checkpoint: loops, callbacks, optimizers, the loader, weights."""
    fit(shards, tmp_path / "run", {}, EACH_1, max_steps=27)
    state = torch.load(tmp_path / "run" / "last.ckpt", weights_only=False)
    assert {"loops", "callbacks", "optimizer_states", "state_dict"} <= set(state)
    with stoker.Checkpointer(tmp_path / "saved") as saver:
        saver.save(27, trainer=state)
        found = saver.restore(trainer=None).trees["trainer"]
    for name, value in state.items():
        assert same(found[name], value), name
    # Lightning reads its own file with what came back, and continues there.
    torch.save(found, tmp_path / "run" / "last.ckpt")
    seen = fit(shards, tmp_path / "run", {}, EACH_1, resume=True, max_steps=30)
    assert seen == fit(shards, tmp_path / "unbroken", {}, EACH_1, max_steps=30)[27:]


# Accelerate:


def test_accelerate_leaves_the_loader_alone_and_saves_its_state(
    shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program that docs/training.md has for it."""
    monkeypatch.chdir(shards.parent)
    model = torch.nn.Linear(4, 1)
    given = {"model": model, "optimizer": torch.optim.SGD(model.parameters(), 1e-3)}
    modules = {"accelerate": accelerate, "stoker": stoker}
    names = run_documented("accelerate.Accelerator()", given | modules)
    accelerator, loader = names["accelerator"], names["loader"]
    assert accelerator.prepare(loader) is loader
    stream = iter(loader)
    batches = [next(stream) for _ in range(3)]
    assert batches[0]["x.npy"].device == accelerator.device
    accelerator.save_state(str(tmp_path / "state"))
    expected = [batch["__key__"] for batch in stream]
    accelerator.load_state(str(tmp_path / "state"))
    assert [batch["__key__"] for batch in loader] == expected
    assert len(expected) == 160 // 32 - 3


def test_accelerate_cannot_skip_and_says_what_to_do(shards: Path) -> None:
    with pytest.raises(AttributeError, match=r"skip_first_batches.*load_state_dict"):
        accelerate.skip_first_batches(make_loader(shards), 3)
