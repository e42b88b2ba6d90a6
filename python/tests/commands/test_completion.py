"""Completion in bash and zsh, in the shells themselves."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
from pathlib import Path

import pytest

COMMAND = Path(__file__).parents[3] / "build" / "release" / "stoker"


def completion(shell: str, folder: Path) -> Path:
    """Writes the script for a shell; returns its path."""
    command = [str(COMMAND), "completion", shell]
    path = folder / f"stoker.{shell}"
    path.write_bytes(subprocess.run(command, capture_output=True, check=True).stdout)
    return path


def completed(script: Path, *words: str) -> list[str]:
    """Returns what bash offers for the last word: "(files)" where it would offer those too."""
    program = (
        'source "$1"; shift; compopt() { offered="(files)"; }\n'
        'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _stoker\n'
        'printf "%s\\n" "${COMPREPLY[@]}" $offered'
    )
    command = ["bash", "-c", program, "bash", str(script), "stoker", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_commands_options_and_values(tmp_path: Path) -> None:
    script = completion("bash", tmp_path)
    assert completed(script, "che") == ["checkpoint"]
    assert completed(script, "checkpoint", "p") == ["prune", "pin"]
    assert completed(script, "help", "checkpoint", "pr") == ["prune"]
    assert completed(script, "checkpoint", "prune", "--keep-l") == ["--keep-last"]
    assert completed(script, "doctor", "--role", "da") == ["dataset"]
    assert completed(script, "doctor", "--role", "=", "ch") == ["checkpoint"]
    assert completed(script, "doctor", "--role", "=") == ["dataset", "checkpoint", "both"]
    assert completed(script, "completion", "") == ["bash", "zsh"]


def test_bash_offers_files_where_a_path_belongs(tmp_path: Path) -> None:
    script = completion("bash", tmp_path)
    assert completed(script, "verify", "sha") == ["(files)"]
    assert completed(script, "pack", "--classes", "cl") == ["(files)"]
    assert completed(script, "pack", "--shard-size", "1") == []
    # The name of a command is an argument like any other once a command has been chosen.
    assert completed(script, "verify", "checkpoint", "--js") == ["--json"]


def type_into(shell: list[str], lines: list[str]) -> str:
    """Types lines into an interactive shell and returns all that its terminal showed."""
    child, terminal = pty.fork()
    if child == 0:
        os.execvpe(shell[0], shell, {**os.environ, "TERM": "dumb", "PS1": "", "HISTFILE": ""})
    shown = b""
    os.write(terminal, "".join(f"{line}\n" for line in [*lines, "exit"]).encode())
    try:
        while piece := os.read(terminal, 4096):
            shown += piece
    except OSError:  # EIO: the shell has ended
        pass
    os.close(terminal)
    os.waitpid(child, 0)
    return shown.decode(errors="replace")


# A command of this name that prints its arguments, and a line with two words to complete.
TYPED = ['stoker() { printf "<<%s>>" "$*"; }', "stoker checkpo\tpru\t--keep-l\t3"]
RAN = "checkpoint prune --keep-last 3"


def test_an_interactive_bash_completes(tmp_path: Path) -> None:
    lines = [f"source {completion('bash', tmp_path)}", *TYPED]
    assert RAN in re.findall("<<(.*?)>>", type_into(["bash", "--norc", "--noprofile", "-i"], lines))


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not on this machine")
def test_an_interactive_zsh_completes(tmp_path: Path) -> None:
    script = completion("zsh", tmp_path)
    lines = ["autoload -U compinit; compinit -u -D", f"source {script}", *TYPED]
    # zsh puts the = of an option with a value itself.
    ran = RAN.replace("last ", "last=")
    assert ran in re.findall("<<(.*?)>>", type_into(["zsh", "-f", "-i"], lines))
