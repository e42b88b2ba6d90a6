"""What ``stoker checkpoint export --hf`` and ``--peft`` write, loaded by Transformers and PEFT.

Run in the environment of peers/requirements.txt; STOKER_COMMAND names the command.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

COMMAND = os.environ.get("STOKER_COMMAND", "")
pytestmark = pytest.mark.skipif(not COMMAND, reason="STOKER_COMMAND names no command")

stoker = pytest.importorskip("stoker")
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")
import torch  # noqa: E402
from documented import commands_with  # noqa: E402

TOKENS = torch.arange(24).reshape(2, 12)


def make_model(seed: int, *, tied: bool = False) -> Any:
    """A language model of a few kilobytes."""
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        tie_word_embeddings=tied,
    )
    return transformers.LlamaForCausalLM(config).eval()


def export(run: Path, out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [COMMAND, "checkpoint", "export", str(run), "latest", str(out), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model.eval()(TOKENS).logits
    return found


@pytest.mark.parametrize("tied", [False, True])
def test_an_exported_model_has_the_same_logits(tmp_path: Path, tied: bool) -> None:
    model = make_model(1, tied=tied)
    with stoker.Checkpointer(tmp_path / "run") as saver:
        saver.save(7, model=model, optimizer=torch.optim.AdamW(model.parameters()))
    model.config.save_pretrained(tmp_path)
    config = str(tmp_path / "config.json")
    ran = export(
        tmp_path / "run", tmp_path / "out", "--hf", "--config", config, "--max-shard-size", "4KiB"
    )
    assert ran.returncode == 0, ran.stderr
    index = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())
    assert len(set(index["weight_map"].values())) > 3
    assert "  config.json" in (tmp_path / "out" / "SHA256SUMS").read_text()
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert torch.equal(logits(again), logits(model))


ADAPTERS: dict[str, dict[str, Any]] = {
    "LoRA": {"target_modules": ["q_proj", "v_proj"]},
    "DoRA": {"target_modules": ["o_proj"], "use_dora": True},
    "with a trained head": {"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]},
}


@pytest.mark.parametrize("only", [None, "trainable"])
@pytest.mark.parametrize("kind", ADAPTERS)
def test_an_exported_adapter_has_the_same_logits(tmp_path: Path, kind: str, only: Any) -> None:
    model = peft.get_peft_model(make_model(1), peft.LoraConfig(r=2, **ADAPTERS[kind]), "mine")
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter += torch.randn(parameter.shape, generator=generator) / 10
    with stoker.Checkpointer(tmp_path / "run") as saver:
        saver.save(7, model=model, only=only)
    model.peft_config["mine"].save_pretrained(str(tmp_path))
    config = str(tmp_path / "adapter_config.json")
    out = tmp_path / "out"
    none = export(tmp_path / "run", out, "--peft", "--config", config)
    assert none.returncode == 2
    assert "there is no LoRA adapter default" in none.stderr
    ran = export(tmp_path / "run", out, "--peft", "--config", config, "--adapter", "mine")
    assert ran.returncode == 0, ran.stderr
    assert {one.name for one in out.iterdir()} == {
        "SHA256SUMS",
        "adapter_config.json",
        "adapter_model.safetensors",
    }
    model.save_pretrained(tmp_path / "theirs", selected_adapters=["mine"])
    theirs = next((tmp_path / "theirs").rglob("adapter_model.safetensors"))
    assert set(stoker.load(out / "adapter_model.safetensors")) == set(stoker.load(theirs))
    again = peft.PeftModel.from_pretrained(make_model(1), str(out))
    assert torch.equal(logits(again), logits(model))
    assert not torch.equal(logits(again), logits(make_model(1)))


def test_the_documented_commands_write_both(tmp_path: Path) -> None:
    model = peft.get_peft_model(make_model(1), peft.LoraConfig(r=2, target_modules=["q_proj"]))
    with stoker.Checkpointer(tmp_path / "run" / "stoker") as saver:
        saver.save(7, model=model)
    model.config.save_pretrained(tmp_path)
    model.peft_config["default"].save_pretrained(str(tmp_path))
    for words in commands_with("--peft"):
        subprocess.run([COMMAND, *words], cwd=tmp_path, check=True, timeout=120)
    assert (tmp_path / "my-model" / "config.json").exists()
    again = peft.PeftModel.from_pretrained(make_model(1), str(tmp_path / "my-adapter"))
    assert torch.equal(logits(again), logits(model))


def test_other_adapters_and_missing_configurations_are_refused(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path / "run") as saver:
        saver.save(7, model=make_model(1))
    (tmp_path / "config.json").write_text('{"peft_type": "IA3"}')
    config = str(tmp_path / "config.json")
    for options, message in (
        (["--peft"], "give --config FILE"),
        (["--peft", "--config", config], 'peft_type is "IA3"'),
        (["--peft", "--config", str(tmp_path / "none")], "none"),
        (["--hf", "--adapter", "x"], "--adapter is for --peft"),
        (["--peft", "--config", config, "--max-shard-size", "1MB"], "--max-shard-size is for --hf"),
        (["--hf", "--peft", "--config", config], "--hf"),
    ):
        ran = export(tmp_path / "run", tmp_path / "out", *options)
        assert ran.returncode in (1, 2), options
        assert message in ran.stderr, ran.stderr
    assert sorted(one.name for one in tmp_path.iterdir()) == ["config.json", "run"]
