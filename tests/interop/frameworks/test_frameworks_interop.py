"""The programs of docs/frameworks.md are killed and resume, each in the framework that it is for.

Run in the environment of peers/requirements.txt, with the package on PYTHONPATH.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("stoker", reason="the package is not built, or not on PYTHONPATH")
from documented import check_resumes, commands_with

# The program; ranks under torchrun; the step in which it is killed; the step that must be saved.
PROGRAMS = {
    "lightning_io.py": ("lightning", 0, 47, 45),
    "lightning_fsdp.py": ("lightning", 2, 47, 40),
    "trainer.py": ("transformers", 0, 47, 40),
    "trainer_loader.py": ("transformers", 0, 47, 40),
    "accelerated.py": ("accelerate", 0, 47, 40),
    "accelerated_state.py": ("accelerate", 0, 47, 45),
}


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
