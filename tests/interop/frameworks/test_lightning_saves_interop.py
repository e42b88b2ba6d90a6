"""stoker.lightning: what ModelCheckpoint and the callback save, and what becomes of damage.

Run in the environment of peers/requirements.txt, with the package on PYTHONPATH. That killed runs
resume is in test_frameworks_interop.py.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

stoker = pytest.importorskip("stoker", reason="the package is not built, or not on PYTHONPATH")
lightning = pytest.importorskip("lightning.pytorch")
saves = pytest.importorskip("stoker.lightning")
import torch  # noqa: E402
from documented import block_with  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
QUIET = {
    "accelerator": "cpu",
    "logger": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}
ROWS = torch.randn(24, 4, generator=torch.Generator().manual_seed(1))


class Model(lightning.LightningModule):
    """A layer that learns something."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.save_hyperparameters()
        torch.manual_seed(2)
        self.layer = torch.nn.Linear(4, 1)

    def train_dataloader(self) -> Any:
        """Three batches."""
        return torch.utils.data.DataLoader(ROWS, batch_size=8)

    def training_step(self, batch: Any, _: int) -> Any:
        """Any loss, which callbacks may monitor."""
        loss = self.layer(batch).square().mean()
        self.log("loss", loss)
        return loss

    def test_step(self, batch: Any) -> None:
        """The same."""
        self.log("test_loss", self.layer(batch).square().mean())

    def configure_optimizers(self) -> Any:
        """Any with a state."""
        return torch.optim.AdamW(self.parameters(), 1e-2)


def fit(folder: Path, epochs: int = 2, resume: Any = None, **options: Any) -> Any:
    """A finished Trainer."""
    callback = lightning.callbacks.ModelCheckpoint(dirpath=folder, **options)
    plugins = [saves.CheckpointIO()]
    trainer = lightning.Trainer(max_epochs=epochs, callbacks=[callback], plugins=plugins, **QUIET)
    trainer.fit(Model(), ckpt_path=resume)
    return trainer


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_model_checkpoint_keeps_and_finds_what_it_does_without_stoker(tmp_path: Path) -> None:
    trainer = fit(tmp_path, 5, monitor="loss", save_top_k=2, save_last="link")
    there = names(tmp_path)
    assert len(there) == 3
    assert "last.ckpt" in there, there
    assert (tmp_path / "last.ckpt").is_symlink()
    held_out = torch.utils.data.DataLoader(ROWS, batch_size=24)
    trained = trainer.test(Model(), held_out, ckpt_path="best", verbose=False)[0]["test_loss"]
    assert trained < float(Model().layer(ROWS).square().mean())
    assert fit(tmp_path, 6, tmp_path / "last.ckpt").global_step == 18


def test_a_checkpoint_is_one_of_stoker_and_loads_without_lightning(tmp_path: Path) -> None:
    trainer = fit(tmp_path, save_last=True)
    path = tmp_path / "last.ckpt"
    loaded = stoker.load(path)
    assert loaded.step == 6
    assert {name for name in loaded if name.startswith("model.")} == {
        "model.layer.weight",
        "model.layer.bias",
    }
    weight = trainer.lightning_module.layer.weight
    assert torch.equal(torch.as_tensor(loaded["model.layer.weight"][...]), weight)
    checkpoint = saves.CheckpointIO().load_checkpoint(path, map_location="cpu")
    plain = {"epoch", "global_step", "state_dict", "loops", "callbacks", "optimizer_states"}
    assert plain <= checkpoint.keys()
    assert type(checkpoint["optimizer_states"]) is list


def test_the_documented_ways_out_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain file for load_from_checkpoint(), and a plain file imported."""
    fit(tmp_path / "run", save_last=True)
    monkeypatch.chdir(tmp_path)
    given = {"stoker": stoker, "torch": torch, "Model": Model}
    exec(compile(block_with("plain.ckpt"), "frameworks.md", "exec"), given)
    plain = Model.load_from_checkpoint("plain.ckpt", weights_only=False)
    assert torch.equal(plain.layer.weight, given["model"].layer.weight)
    command = os.environ.get("STOKER_COMMAND")
    if command is None:
        pytest.skip("STOKER_COMMAND names no command")
    words = [command, "checkpoint", "import", "run/old.ckpt", "plain.ckpt", "--step", "0"]
    subprocess.run(
        words, check=True, timeout=120, env={**os.environ, "STOKER_PYTHON": sys.executable}
    )
    assert fit(tmp_path / "run", 3, "run/old.ckpt").global_step == 9


def test_the_same_path_again_is_replaced_even_by_a_smaller_step(tmp_path: Path) -> None:
    io, path = saves.CheckpointIO(), tmp_path / "deep" / "one.ckpt"
    for step, value in ((5, 1.0), (5, 2.0), (3, 3.0)):
        weights = {"w": torch.full((3,), value)}
        io.save_checkpoint({"global_step": step, "state_dict": weights}, path)
        found = io.load_checkpoint(path)
        assert found["global_step"] == step
        assert found["state_dict"]["w"].tolist() == [value] * 3
    with stoker.Checkpointer(path) as saver:
        assert len(saver.steps()) == 1
    io.remove_checkpoint(path)
    io.remove_checkpoint(path)
    assert names(tmp_path / "deep") == []


def test_what_cannot_be_saved_is_refused_by_its_place_and_leaves_nothing(tmp_path: Path) -> None:
    io, path = saves.CheckpointIO(), tmp_path / "one.ckpt"
    with pytest.raises(TypeError, match=re.escape("lightning['hyper_parameters']['loss']")):
        io.save_checkpoint({"hyper_parameters": {"loss": Model}, "global_step": 1}, path)
    assert names(tmp_path) == []
    with pytest.raises(TypeError, match="storage_options"):
        io.save_checkpoint({}, path, storage_options={})
    with pytest.raises(ValueError, match="local directory"):
        io.save_checkpoint({}, "s3://bucket/one.ckpt")
    with pytest.raises(ValueError, match="keep_last= is decided by Lightning"):
        saves.CheckpointIO(keep_last=3)


KILLED = """
import os, sys
import stoker.lightning, torch
from stoker._checkpoint import checkpointer
if sys.argv[2] == "show":
    stoker._frameworks.folder.show.__code__ = (lambda *_: os._exit(1)).__code__
else:
    checkpointer._kill_at = (sys.argv[2], 1)
tree = {"global_step": 2, "state_dict": {"w": torch.ones(3)}}
stoker.lightning.CheckpointIO().save_checkpoint(tree, sys.argv[1])
"""


@pytest.mark.parametrize("is_new", [True, False])
def test_a_save_that_is_killed_leaves_the_one_before_or_none(tmp_path: Path, is_new: bool) -> None:
    io, path = saves.CheckpointIO(), tmp_path / "one.ckpt"
    if not is_new:
        io.save_checkpoint({"global_step": 1, "state_dict": {"w": torch.zeros(3)}}, path)
    points = ("checkpoint.written", "checkpoint.renamed", "checkpoint.latest_moved", "show")
    for point in points if is_new else points[:-1]:
        command = [sys.executable, "-c", KILLED, str(path), point]
        killed = subprocess.run(command, timeout=120, capture_output=True, text=True)
        assert killed.returncode != 0, (point, killed.stderr)
        if is_new:
            assert not path.exists()
            with pytest.raises(FileNotFoundError):
                io.load_checkpoint(path)
        else:
            assert io.load_checkpoint(path)["global_step"] in (1, 2)
    io.save_checkpoint({"global_step": 3, "state_dict": {"w": torch.zeros(3)}}, path)
    assert io.load_checkpoint(path)["global_step"] == 3
    assert names(tmp_path) == ["one.ckpt"]


def damage(step: Path) -> None:
    """Changes one byte of a tensor."""
    [part] = [one for one in step.iterdir() if one.suffix == ".safetensors"]
    part.chmod(0o644)
    with part.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last[0] ^ 1]))


def test_a_damaged_checkpoint_raises_and_can_be_replaced(tmp_path: Path) -> None:
    fit(tmp_path, save_last=True)
    path = tmp_path / "last.ckpt"
    damage(next(path.glob("step-*")))
    with pytest.raises(stoker.CorruptError):
        fit(tmp_path, 3, path)
    io = saves.CheckpointIO()
    io.save_checkpoint({"global_step": 9, "state_dict": {"w": torch.ones(2)}}, path)
    assert io.load_checkpoint(path)["global_step"] == 9
    (path / "latest" / "manifest.json").resolve().unlink()
    for one in path.glob("step-*"):
        (one / "manifest.json").unlink(missing_ok=True)
    with pytest.raises((stoker.CorruptError, FileNotFoundError)):
        io.load_checkpoint(path)


# The callback:


def fit_with_callback(folder: Path, epochs: int, *others: Any, **options: Any) -> Any:
    """The callback of a finished run, which is listed before others."""
    callback = saves.CheckpointerCallback(folder, every_n_train_steps=2, **options)
    trainer = lightning.Trainer(callbacks=[callback, *others], max_epochs=epochs, **QUIET)
    trainer.fit(Model())
    return callback


def test_the_callback_passes_over_damage_and_saves_the_last_step(tmp_path: Path) -> None:
    assert fit_with_callback(tmp_path, 3).restored is None
    with stoker.Checkpointer(tmp_path) as saver:
        assert saver.steps() == [2, 4, 6, 8, 9]
    damage(tmp_path / "step-000000000009")
    again = fit_with_callback(tmp_path, 4)
    assert again.restored == 8
    with stoker.Checkpointer(tmp_path) as saver:
        assert saver.latest == 12


class Crashing(Model):
    """Three batches of a Loader in an epoch; notes their first keys."""

    shards = crash_at = None
    seen: list[str]

    def train_dataloader(self) -> Any:
        """As docs/frameworks.md has it."""
        return stoker.Loader(self.shards, batch_size=8, seed=3, fields={"x.npy": "float32"})

    def training_step(self, batch: Any, _: int) -> Any:
        """Raises in one of them."""
        self.seen.append(batch["__key__"][0])
        if len(self.seen) == self.crash_at:
            raise RuntimeError("crash")
        return self.layer(batch["x.npy"]).square().mean()


@pytest.mark.parametrize("is_callback", [False, True])
def test_crashes_after_a_resume_from_the_end_of_an_epoch_lose_no_epoch(
    tmp_path: Path, is_callback: bool
) -> None:
    """Lightning then counts its epochs wrongly, until a checkpoint is saved."""
    stoker.ingest(({"x": row.numpy()} for row in ROWS), tmp_path / "shards")
    Crashing.shards = tmp_path / "shards"

    def seen(folder: Path, crash_at: int = 0) -> list[str]:
        if is_callback:
            callback = saves.CheckpointerCallback(folder, every_n_train_steps=2)
        else:
            callback = lightning.callbacks.ModelCheckpoint(
                dirpath=folder, every_n_train_steps=2, save_last=True
            )
        plugins = [] if is_callback else [saves.CheckpointIO()]
        trainer = lightning.Trainer(callbacks=[callback], max_epochs=5, plugins=plugins, **QUIET)
        model = Crashing()
        model.seen, model.crash_at = [], crash_at
        with pytest.raises(RuntimeError, match="crash") if crash_at else contextlib.nullcontext():
            trainer.fit(model, ckpt_path=None if is_callback else "last")
        return model.seen

    whole = seen(tmp_path / "whole")
    assert len(whole) == 15
    for begin, crash_at in ((0, 7), (6, 3), (8, 5), (12, 1), (12, 0)):  # 6 and 12 end an epoch
        wanted = whole[begin:]
        assert seen(tmp_path / "run", crash_at) == (wanted[:crash_at] if crash_at else wanted)


def test_a_few_batches_to_find_mistakes_are_no_part_of_the_run(tmp_path: Path) -> None:
    callback = saves.CheckpointerCallback(tmp_path / "run", every_n_train_steps=1)
    trainer = lightning.Trainer(callbacks=[callback], fast_dev_run=True, **QUIET)
    trainer.fit(Model())
    assert trainer.global_step == 1
    assert names(tmp_path) == []


class Counter(lightning.Callback):
    """Counts batches, as an average of the weights does."""

    count = 0

    def on_train_batch_end(self, *_: Any) -> None:
        """One more."""
        self.count += 1

    def state_dict(self) -> dict[str, Any]:
        """The count."""
        return {"count": self.count}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """The count."""
        self.count = state_dict["count"]


def test_the_callback_saves_after_all_others_and_in_place_of_lightning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for epochs in (2, 3):
        counter = Counter()
        fit_with_callback(tmp_path / "run", epochs, counter)
        assert counter.count == 3 * epochs
    for step in (2, 4, 6, 8, 9):
        states = stoker.load(tmp_path / "run" / str(step)).state["lightning"]["callbacks"]
        assert states["Counter"] == {"count": step}
    assert names(tmp_path) == ["run"]


def test_what_the_callback_does_not_save_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fit_with_callback(tmp_path, 1)
    assert "not called" not in caplog.text
    fit_with_callback(tmp_path, 2, lightning.callbacks.WeightAveraging())
    assert "what it adds is not saved: WeightAveraging.on_save_checkpoint()" in caplog.text


def test_the_callback_refuses_what_it_cannot_do(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="every_n_train_steps"):
        saves.CheckpointerCallback(tmp_path)
    callback = saves.CheckpointerCallback(tmp_path, every_n_train_steps=2)
    plugins = [saves.CheckpointIO()]
    trainer = lightning.Trainer(callbacks=[callback], max_epochs=3, plugins=plugins, **QUIET)
    fit(tmp_path / "other", save_last=True)
    with pytest.raises(ValueError, match="leave ckpt_path out"):
        trainer.fit(Model(), ckpt_path=tmp_path / "other" / "last.ckpt")
