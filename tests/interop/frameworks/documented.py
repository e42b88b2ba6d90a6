"""Runs the programs of docs/frameworks.md and docs/dcp.md, kills them, compares their results."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import runpy
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[3] / "docs" / "frameworks.md"


def programs(page: Path = PAGE) -> dict[str, str]:
    """The blocks of a page that begin with the name of a file, by that name."""
    found = re.findall(r"```python\n(# (\w+\.py).*?)```", page.read_text(), re.DOTALL)
    return {name: text for text, name in found}


def commands_with(word: str) -> list[list[str]]:
    """The commands, as words without `stoker`, of the one block of shell that has this word."""
    found = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    [text] = [one for one in found if word in one]
    return [line.removeprefix("stoker ").split() for line in text.splitlines()]


def block_with(word: str) -> str:
    """The one block without a name that has this word, without its indentation."""
    found = re.findall(r"( *)```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    [(indent, text)] = [one for one in found if word in one[1] and "# " not in one[1][:2]]
    return re.sub(f"(?m)^{indent}", "", text)


def run(name: str, folder: Path, kill_at: int = 0, ranks: int = 0, *, text: str = "") -> list[str]:
    """Runs a program in a folder; returns what it recorded: a line for each step of rank 0.

    Args:
        name: The program's file.
        folder: The working directory, which stays.
        kill_at: The step of the optimizer in which each process kills itself.
        ranks: With torchrun, so many.
        text: The program, if it differs from the page.
    """
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text or programs()[name])
    if not (folder / "shards").exists():
        command = [sys.executable, "-c", programs()["data.py"]]
        subprocess.run(command, cwd=folder, check=True, timeout=120)
    record = folder / "record"
    record.unlink(missing_ok=True)
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    command = [sys.executable, "-W", "ignore", *(launch if ranks else []), __file__, name]
    settings = {"RECORD": str(record), "KILL_AT": str(kill_at), "HF_HUB_OFFLINE": "1"}
    ran = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", **settings},
        capture_output=True,
        text=True,
        timeout=500,
    )
    if not kill_at:
        assert ran.returncode == 0, ran.stderr[-5000:]
    else:
        assert ran.returncode == (1 if ranks else -signal.SIGKILL), ran.stderr[-5000:]
    (folder / "log").write_text(ran.stderr)
    return record.read_text().splitlines() if record.exists() else []


def check_resumes(
    name: str, tmp_path: Path, *, ranks: int = 0, kill_at: int, saved: int, text: str = ""
) -> None:
    """A killed run continues as an unbroken one, after step ``saved`` or later.

    The last save before the kill may have been in flight.
    """
    whole = run(name, tmp_path / "whole", ranks=ranks, text=text)
    first = run(name, tmp_path / "run", kill_at, ranks, text=text)
    assert first == whole[:kill_at]
    rest = run(name, tmp_path / "run", ranks=ranks, text=text)
    assert len(whole) - kill_at <= len(rest) <= len(whole) - saved, (len(whole), len(rest))
    assert rest == whole[-len(rest) :]


def main() -> None:
    """The process that runs a program: notes a digest of the parameters after each step."""
    torch: Any = importlib.import_module("torch")
    hooks: Any = importlib.import_module("torch.optim.optimizer")
    kill_at, record = int(os.environ["KILL_AT"]), Path(os.environ["RECORD"])
    is_first = os.environ.get("RANK", "0") == "0"
    lines: list[str] = []

    def after_step(optimizer: Any, *_: Any) -> None:
        if all(group["lr"] == 0 for group in optimizer.param_groups):
            return  # get_state_dict() of torch: a step that only makes the optimizer's state
        digest = hashlib.sha256()
        for group in optimizer.param_groups:
            for one in group["params"]:
                part = one.to_local() if hasattr(one, "to_local") else one
                digest.update(part.detach().contiguous().view(torch.uint8).numpy().tobytes())
        lines.append(digest.hexdigest())
        if is_first:
            with record.open("a") as file:
                file.write(lines[-1] + "\n")
        if len(lines) == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    hooks.register_optimizer_step_post_hook(after_step)
    sys.argv = sys.argv[1:]
    sys.path[0] = str(Path.cwd())
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
