"""stoker.hf.TrainerMixin under Transformers' own Trainer: damage, retention, ranks, adapters.

Run in the environment of peers/requirements.txt, with the package on PYTHONPATH. That killed runs
resume is in test_frameworks_interop.py.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

stoker = pytest.importorskip("stoker", reason="the package is not built, or not on PYTHONPATH")
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")
hf = pytest.importorskip("stoker.hf")
import torch  # noqa: E402
from documented import programs, run  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def make_model(seed: int = 1) -> Any:
    """A language model of a few kilobytes."""
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
    )
    return transformers.LlamaForCausalLM(config)


def rows(count: int = 32) -> list[dict[str, Any]]:
    """Samples: eight batches of four."""
    tokens = torch.randint(0, 32, (count, 9), generator=torch.Generator().manual_seed(3))
    return [{"input_ids": row, "labels": row} for row in tokens]


class Trainer(hf.TrainerMixin, transformers.Trainer):
    """The documented line; notes losses."""

    def __init__(self, folder: Path, model: Any = None, **options: Any) -> None:
        settings = {"save_steps": 2, "max_steps": 8, "per_device_train_batch_size": 4}
        quiet = {"report_to": [], "use_cpu": True, "disable_tqdm": True, "logging_steps": 1}
        arguments = transformers.TrainingArguments(str(folder), **{**settings, **quiet, **options})
        self.losses: list[float] = []
        data = {"train_dataset": rows(), "eval_dataset": rows(8)}
        super().__init__(model if model is not None else make_model(), arguments, **data)

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        """The Trainer's own."""
        loss = super().training_step(*args, **kwargs)
        self.losses.append(float(loss))
        return loss


class LoaderTrainer(Trainer):
    """Trains on a Loader of eight batches."""

    corpus: Any = None
    options: dict[str, Any] = {}  # noqa: RUF012

    def get_train_dataloader(self) -> Any:
        """As docs/frameworks.md has it."""

        def collate(samples: list[Any]) -> dict[str, Any]:
            found = torch.stack([torch.as_tensor(one["tokens"]) for one in samples])
            return {"input_ids": found, "labels": found}

        tokens = stoker.Tokens(self.corpus, window=9, dtype="int64")
        return stoker.Loader(tokens, batch_size=4, seed=1, collate=collate, **self.options)


def shown(folder: Path) -> list[str]:
    """What Transformers sees."""
    return sorted(one.name for one in folder.glob("checkpoint-*"))


def steps_in(folder: Path) -> list[int]:
    with stoker.Checkpointer(folder / "stoker") as saver:
        found: list[int] = saver.steps()
    return found


def damage(file: Path) -> None:
    """Changes its last byte but one."""
    file.chmod(0o644)
    with file.open("r+b") as opened:
        opened.seek(-2, os.SEEK_END)
        byte = opened.read(1)
        opened.seek(-2, os.SEEK_END)
        opened.write(bytes([byte[0] ^ 1]))


def resumed(folder: Path, **options: Any) -> Any:
    """A Trainer that has resumed, with whatever seed its model was made."""
    trainer = Trainer(folder, make_model(seed=9), **options)
    trainer.train(resume_from_checkpoint=True)
    return trainer


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[float]]:
    """A finished run with four checkpoints, and its losses."""
    folder = tmp_path_factory.mktemp("trained")
    trainer = Trainer(folder)
    trainer.train()
    return folder, trainer.losses


@pytest.fixture
def copied(trained: tuple[Path, list[float]], tmp_path: Path) -> tuple[Path, list[float]]:
    """The same, to be damaged."""
    shutil.copytree(trained[0], tmp_path / "run", symlinks=True)
    return tmp_path / "run", trained[1]


def test_what_is_in_checkpoint_n(trained: tuple[Path, list[float]]) -> None:
    folder = trained[0]
    assert shown(folder) == ["checkpoint-2", "checkpoint-4", "checkpoint-6", "checkpoint-8"]
    there = {one.name for one in (folder / "checkpoint-8").iterdir()}
    wanted = {"config.json", "generation_config.json", "stoker.json", "trainer_state.json"}
    assert there in (wanted, wanted - {"generation_config.json"})
    assert steps_in(folder) == [2, 4, 6, 8]
    trees = stoker.load(folder / "stoker" / "8").state
    assert trees.keys() == {"model", "optimizer", "scheduler", "rng"}
    assert not [one for one in folder.iterdir() if one.name.startswith(".")]


BYTES, MANIFEST, FILE, POINTER, STATE, GONE, HALF = range(7)


@pytest.mark.parametrize("what", [BYTES, MANIFEST, FILE, POINTER, STATE, GONE, HALF])
def test_a_damaged_checkpoint_is_passed_over(
    copied: tuple[Path, list[float]], what: int, caplog: pytest.LogCaptureFixture
) -> None:
    folder, losses = copied
    step, shows = folder / "stoker" / "step-000000000008", folder / "checkpoint-8"
    if what == BYTES:
        damage(step / "rank-00000.safetensors")
    elif what == MANIFEST:
        damage(step / "manifest.json")
    elif what == FILE:
        (step / "rank-00000.safetensors").unlink()
    elif what == POINTER:
        (shows / "stoker.json").write_text("{")
    elif what == STATE:
        damage(shows / "trainer_state.json")
    elif what == GONE:
        shutil.rmtree(step)
    else:  # a folder that is only half there
        (shows / "trainer_state.json").unlink()
    trainer = resumed(folder)
    assert trainer.losses == losses[6:]
    assert trainer.state.global_step == 8
    assert what == HALF or "passed over" in caplog.text
    assert "checkpoint-8" in shown(folder)


def test_if_all_are_damaged_nothing_starts_again(copied: tuple[Path, list[float]]) -> None:
    for step in (copied[0] / "stoker").glob("step-*"):
        damage(step / "rank-00000.safetensors")
    with pytest.raises(stoker.CorruptError, match="no checkpoint-N in it can be restored"):
        resumed(copied[0])
    with pytest.raises(stoker.CorruptError):
        Trainer(copied[0]).train(resume_from_checkpoint=str(copied[0] / "checkpoint-4"))


def test_without_a_checkpoint_it_starts_from_the_beginning_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trainer = Trainer(tmp_path / "new", max_steps=2)
    with caplog.at_level(logging.WARNING, "stoker"):
        trainer.train(resume_from_checkpoint=True)
    assert "training from the beginning" in caplog.text
    assert len(trainer.losses) == 2


def test_an_older_checkpoint_is_resumed_from_if_newer_ones_were_removed(
    copied: tuple[Path, list[float]],
) -> None:
    folder, losses = copied
    for name in ("checkpoint-6", "checkpoint-8"):
        shutil.rmtree(folder / name)
    assert resumed(folder).losses == losses[4:]
    assert shown(folder) == ["checkpoint-2", "checkpoint-4", "checkpoint-6", "checkpoint-8"]
    assert steps_in(folder) == [2, 4, 6, 8]
    moved = folder / "checkpoint-9"
    (folder / "checkpoint-8").rename(moved)
    with pytest.raises(ValueError, match="was checkpoint-8: give it that name again"):
        Trainer(folder).train(resume_from_checkpoint=str(moved))


def test_save_total_limit_removes_bytes_too_and_the_best_stays(tmp_path: Path) -> None:
    best = {
        "eval_strategy": "steps",
        "eval_steps": 2,
        "load_best_model_at_end": True,
        "metric_for_best_model": "loss",
        "greater_is_better": True,  # so that it is the first
    }
    trainer = Trainer(tmp_path, save_total_limit=2, learning_rate=1e-2, **best)
    trainer.train()
    assert shown(tmp_path) == ["checkpoint-2", "checkpoint-8"]
    assert set(steps_in(tmp_path)) == {2, 6, 8}  # the last two, and the best
    assert trainer.state.best_model_checkpoint == str(tmp_path / "checkpoint-2")
    weights = stoker.load(tmp_path / "stoker" / "2")
    for name, tensor in trainer.model.state_dict().items():
        assert torch.equal(torch.as_tensor(weights[f"model.{name}"][...]), tensor), name


def test_save_only_model_resumes_without_the_optimizer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Trainer(tmp_path, save_only_model=True, max_steps=4).train()
    assert stoker.load(tmp_path / "stoker").state.keys() == {"model"}
    trainer = resumed(tmp_path, max_steps=8)
    assert trainer.state.global_step == 8
    assert "saved without: optimizer, rng, scheduler" in caplog.text


def test_a_run_of_transformers_alone_is_continued(tmp_path: Path) -> None:
    class Plain(Trainer):
        _save_checkpoint = transformers.Trainer._save_checkpoint

    whole = Plain(tmp_path)
    whole.train()
    for name in ("checkpoint-6", "checkpoint-8"):
        shutil.rmtree(tmp_path / name)
    assert (tmp_path / "checkpoint-4" / "model.safetensors").exists()
    assert resumed(tmp_path).losses == whole.losses[4:]
    assert steps_in(tmp_path) == [6, 8]


def rows_of_tokens() -> Any:
    return np.random.default_rng(0).integers(0, 32, 9 * 32).astype(np.uint16)


@pytest.mark.parametrize("each", [1, 2])
def test_a_loader_continues_at_the_end_and_in_the_middle_of_an_epoch(
    tmp_path: Path, each: int
) -> None:
    LoaderTrainer.corpus = tmp_path / "corpus.npy"
    np.save(LoaderTrainer.corpus, rows_of_tokens())
    folder = tmp_path / "run"
    options = {"max_steps": 14, "gradient_accumulation_steps": each}
    whole = LoaderTrainer(folder, **options)
    whole.train()
    for at in (10, 8, 4):  # of 8 / each steps in an epoch
        for step in range(at + 2, 15, 2):
            shutil.rmtree(folder / f"checkpoint-{step}")
        again = LoaderTrainer(folder, make_model(seed=7), **options)
        again.train(resume_from_checkpoint=True)
        assert again.losses == whole.losses[at * each :], at
        assert again.state.epoch == whole.state.epoch == 14 * each / 8


def test_an_endless_loader_is_refused_with_advice(tmp_path: Path) -> None:
    class Endless(LoaderTrainer):
        options = {"epochs": None}  # noqa: RUF012
        corpus = tmp_path / "corpus.npy"

    np.save(Endless.corpus, rows_of_tokens())
    with pytest.raises(ValueError, match="leave epochs=None out"):
        Endless(tmp_path / "run").train()


KILLED = """
import sys
from pathlib import Path
sys.path[0] = sys.argv[3]
import test_trainer_interop as tests
from stoker._checkpoint import checkpointer
from stoker._frameworks import hf_folders
folder, point = Path(sys.argv[1]), sys.argv[2]
if point == "show":
    def die(*_):
        tests.os._exit(1)
    hf_folders.show = die
else:
    checkpointer._kill_at = (point, 1)
tests.resumed(folder) if tests.shown(folder) else tests.Trainer(folder).train()
"""


@pytest.mark.parametrize("point", ["show", "checkpoint.renamed"])
def test_a_save_that_is_killed_leaves_what_can_be_resumed(
    copied: tuple[Path, list[float]], point: str
) -> None:
    folder, losses = copied
    for name in ("checkpoint-4", "checkpoint-6", "checkpoint-8"):
        shutil.rmtree(folder / name)
    command = [sys.executable, "-c", KILLED, str(folder), point, str(Path(__file__).parent)]
    killed = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert killed.returncode != 0, killed.stderr
    assert shown(folder) == ["checkpoint-2"], killed.stderr
    # Step 4 was durable when its folder was to be shown; otherwise that of an earlier run is there.
    assert resumed(folder).losses == losses[4 if point == "show" else 2 :]
    assert shown(folder) == ["checkpoint-2", "checkpoint-4", "checkpoint-6", "checkpoint-8"]


def test_a_durable_save_counts_although_its_folder_was_not_published(
    trained: tuple[Path, list[float]], tmp_path: Path
) -> None:
    _, losses = trained
    command = [sys.executable, "-c", KILLED, str(tmp_path), "show", str(Path(__file__).parent)]
    killed = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert killed.returncode != 0, killed.stderr
    assert shown(tmp_path) == [], killed.stderr
    assert steps_in(tmp_path) == [2]
    assert resumed(tmp_path).losses == losses[2:]
    assert shown(tmp_path) == ["checkpoint-2", "checkpoint-4", "checkpoint-6", "checkpoint-8"]
    assert not list(tmp_path.glob(".checkpoint-*"))


def test_an_error_of_the_training_is_raised_and_its_last_save_counts(tmp_path: Path) -> None:
    class Fails(Trainer):
        def training_step(self, *args: Any, **kwargs: Any) -> Any:
            if self.state.global_step == 5:
                raise RuntimeError("out of memory")
            return super().training_step(*args, **kwargs)

    with pytest.raises(RuntimeError, match="out of memory"):
        Fails(tmp_path).train()
    assert shown(tmp_path) == ["checkpoint-2", "checkpoint-4"]
    trainer = resumed(tmp_path)
    assert len(trainer.losses) == 4
    trainer.train()  # once more, from the beginning, with the same object
    assert len(trainer.losses) == 12


WRITER = """
import sys, stoker
with stoker.Checkpointer(sys.argv[1]) as saver:
    saver.save(100, other={"x": 1}).wait()
    print("saved", flush=True)
    sys.stdin.read()
"""


def test_two_runs_in_one_output_dir(copied: tuple[Path, list[float]]) -> None:
    """A run from the beginning replaces what it saves again, and keeps the bytes of the other."""
    folder, losses = copied
    trainer = Trainer(folder, make_model(seed=5), max_steps=4)
    trainer.train()
    assert trainer.losses[0] != losses[0]
    assert shown(folder) == ["checkpoint-2", "checkpoint-4", "checkpoint-6", "checkpoint-8"]
    names = {one.name for one in (folder / "stoker").glob("step-*")}
    assert len(names) == 6  # two of them superseded
    tail = Trainer(folder, make_model(seed=6), max_steps=6)
    tail.train(resume_from_checkpoint=str(folder / "checkpoint-4"))
    assert len(tail.losses) == 2
    command = [sys.executable, "-c", WRITER, str(folder / "stoker")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"saved\n"
        late = Trainer(folder, max_steps=2)
        late.checkpointer_settings = {"lock": "fail"}
        with pytest.raises(OSError, match=str(other.pid)):
            late.train()
        other.communicate(timeout=60)
    assert not [one for one in folder.iterdir() if one.name.startswith(".")]


def test_an_adapter_is_saved_without_its_base_and_resumes(tmp_path: Path) -> None:
    def adapted(seed: int) -> Any:
        base = make_model(seed=1)
        torch.manual_seed(seed)
        return peft.get_peft_model(base, peft.LoraConfig(target_modules=["q_proj"], r=2))

    whole = Trainer(tmp_path / "whole", adapted(2), learning_rate=1e-1)
    whole.train()
    saved = stoker.load(tmp_path / "whole" / "stoker" / "4")
    assert all(".lora_" in name for name in saved if name.startswith("model."))
    assert (tmp_path / "whole" / "checkpoint-4" / "adapter_config.json").exists()
    for name in ("checkpoint-6", "checkpoint-8"):
        shutil.rmtree(tmp_path / "whole" / name)
    again = Trainer(tmp_path / "whole", adapted(3), learning_rate=1e-1)
    again.train(resume_from_checkpoint=True)
    assert again.losses == whole.losses[4:]


def test_what_cannot_work_is_refused_before_the_training(tmp_path: Path) -> None:
    trainer = Trainer(tmp_path, save_on_each_node=True)
    with pytest.raises(ValueError, match="save_on_each_node"):
        trainer.train()
    trainer.args.push_to_hub = True  # given to it earlier, it would ask the hub
    with pytest.raises(ValueError, match="push_to_hub"):
        trainer.train()
    assert not (tmp_path / "stoker").exists()


def test_all_ranks_load_the_best_model(tmp_path: Path) -> None:
    """The first, which every rank must find, although only one announces it."""
    options = {
        "save_total_limit=2": 'save_total_limit=2, eval_strategy="steps", eval_steps=5, '
        'load_best_model_at_end=True, greater_is_better=True, metric_for_best_model="loss"',
        "per_device_train_batch_size=4": 'ddp_backend="gloo", per_device_train_batch_size=2',
        "for row in tokens])": 'for row in tokens], eval_dataset=[{"input_ids": tokens[0], '
        '"labels": tokens[0]}])',
    }
    text = programs()["trainer.py"]
    for old, new in options.items():
        assert old in text
        text = text.replace(old, new)
    assert len(run("trainer.py", tmp_path, ranks=2, text=text)) == 60
    state = json.loads((tmp_path / "run" / "checkpoint-60" / "trainer_state.json").read_text())
    best = state["best_global_step"]
    assert shown(tmp_path / "run") == sorted(f"checkpoint-{step}" for step in {best, 60})


def test_two_ranks_save_and_one_resumes(tmp_path: Path) -> None:
    each = 'ddp_backend="gloo", per_device_train_batch_size=2'
    text = programs()["trainer.py"].replace("per_device_train_batch_size=4", each)
    assert each in text
    run("trainer.py", tmp_path, 47, ranks=2, text=text)
    # The folder appears after the bytes are durable, which the kill may have come between.
    saved = max(int(name.removeprefix("checkpoint-")) for name in shown(tmp_path / "run"))
    assert saved in (40, 45)
    loaded = stoker.load(tmp_path / "run" / "stoker")
    assert not [name for name in loaded if name.startswith("rank-") and ".rng." not in name]
    rest = run("trainer.py", tmp_path)
    assert len(rest) == 60 - saved
    assert "Traceback" not in (tmp_path / "log").read_text()
