"""The documented programs are killed and resume, each in the framework that it is for.

Run in the environment of peers/requirements.txt, with the package on PYTHONPATH.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("stoker", reason="the package is not built, or not on PYTHONPATH")
from documented import PAGE, check_resumes, commands_with, programs, run

# The program; ranks under torchrun; the step in which it is killed; the step that must be saved.
PROGRAMS = {
    "lightning_io.py": ("lightning", 0, 47, 45),
    "lightning_fsdp.py": ("lightning", 2, 47, 40),
    "trainer.py": ("transformers", 0, 47, 40),
    "trainer_loader.py": ("transformers", 0, 47, 40),
    "accelerated.py": ("accelerate", 0, 47, 40),
    "accelerated_state.py": ("accelerate", 0, 47, 45),
}


def test_ranks_that_save_by_torchs_own_calls_resume_and_so_does_one(tmp_path: Path) -> None:
    """dcp.async_save and dcp.load, with the loader in the state."""
    pytest.importorskip("torch.distributed.fsdp")
    text = programs(PAGE.with_name("dcp.md"))["resume.py"]
    check_resumes("resume.py", tmp_path, ranks=2, kill_at=47, saved=40, text=text)
    folder = tmp_path / "run"
    for step in (55, 60):
        shutil.rmtree(folder / "run" / f"step-{step:012}")
    assert len(run("resume.py", folder, ranks=1, text=text)) == 60 - 50


def test_ranks_of_ddp_resume_what_rank_0_has_saved(tmp_path: Path) -> None:
    """Lightning asks one rank to save, and all to load."""
    pytest.importorskip("lightning")
    text = programs()["lightning_io.py"]
    for old, new in (
        ("max_epochs=6", 'accelerator="cpu", devices=2, strategy="ddp", max_epochs=6'),
        ("batch_size=16", "global_batch_size=16"),
    ):
        assert old in text
        text = text.replace(old, new)
    check_resumes("lightning_io.py", tmp_path, ranks=2, kill_at=47, saved=45, text=text)


def test_a_trainer_with_fsdp2_resumes_on_the_same_ranks_and_on_one(tmp_path: Path) -> None:
    """Each of two ranks saves its shards."""
    pytest.importorskip("transformers")
    wrap = '"auto_wrap_policy": "TRANSFORMER_BASED_WRAP"'
    layer = '"transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"]'
    config = f'fsdp=True, fsdp_config={{"fsdp_version": 2, {wrap}, {layer}}}'
    text = programs()["trainer.py"]
    assert "use_cpu=True)" in text
    sharded = text.replace("use_cpu=True)", f'use_cpu=True, ddp_backend="gloo", {config})')
    check_resumes("trainer.py", tmp_path, ranks=2, kill_at=22, saved=15, text=sharded)
    folder = tmp_path / "run"
    shutil.rmtree(folder / "run" / "checkpoint-30")  # 10 steps in an epoch of two ranks, 20 of one
    assert len(run("trainer.py", folder, text=text)) == 60 - 25


WAITING = """
class Wait(lightning.Callback):
    def on_train_batch_start(self, *_):
        saves.saver.wait()


trainer = lightning.Trainer(max_epochs=3, callbacks=[saves, Wait()],"""


def test_the_end_of_an_epoch_is_not_lost_between_a_save_and_a_kill(tmp_path: Path) -> None:
    """The callback saves after the last batch, and before the schedulers of epochs are called."""
    pytest.importorskip("lightning")
    text = programs()["lightning_fsdp.py"]
    for old, new in (
        ("every_n_train_steps=5", "every_n_train_steps=10"),
        ("trainer = lightning.Trainer(max_epochs=6, callbacks=[saves],", WAITING),
    ):
        assert old in text
        text = text.replace(old, new)
    check_resumes("lightning_fsdp.py", tmp_path, ranks=1, kill_at=13, saved=10, text=text)
    rest = (tmp_path / "run" / "record").read_text().splitlines()
    assert len(rest) == 30 - 10


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_killed_program_resumes_with_the_parameters_of_an_unbroken_one(
    tmp_path: Path, name: str
) -> None:
    package, ranks, kill_at, saved = PROGRAMS[name]
    pytest.importorskip(package)
    check_resumes(name, tmp_path, ranks=ranks, kill_at=kill_at, saved=saved)
    command = os.environ.get("STOKER_COMMAND")
    if name == "trainer.py" and command is not None:  # what the page says next
        [words] = commands_with("run/checkpoint-60/config.json")
        subprocess.run([command, *words], cwd=tmp_path / "run", check=True, timeout=120)
        transformers = pytest.importorskip("transformers")
        loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "run" / "my-model")
        saved_weights = pytest.importorskip("stoker").load(tmp_path / "run" / "run" / "stoker")
        for weight, tensor in loaded.state_dict().items():
            assert tensor.tolist() == saved_weights[f"model.{weight}"][...].tolist(), weight
