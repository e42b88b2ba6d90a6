"""kill -9 of a training, at random moments and at every step of the protocol."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_CYCLES = int(os.environ.get("STOKER_KILL_CYCLES", "200"))  # more in `make crash`

# Imports once and forks for every life of the training: a fork costs milliseconds, imports do not.
# A life restores, says what it has found, trains, and says what was acknowledged and each loss.
# The first one neither saves nor dies, and what it says is the truth for all others.
_ZYGOTE = r"""
import hashlib, json, os, random, select, signal, sys
import numpy as np
import stoker
from stoker._checkpoint import checkpointer as _checkpointer

shards, folder, cycles = sys.argv[1], sys.argv[2], int(sys.argv[3])
points, seed, rewinds = sys.argv[4].split(), int(sys.argv[5]), float(sys.argv[6])
dice = random.Random(seed)


def life(folder, said, steps, kill_at, rewind):
    _checkpointer._kill_at = kill_at or ("", 1)
    loader = stoker.Loader(shards, batch_size=4, seed=3, epochs=None, torch=False,
                           fields={"cls": int}, threads=1)
    rng = np.random.default_rng(5)
    state = {"w": np.zeros(3000), "step": 0, "losses": [], "rng": rng.bit_generator.state,
             "frozen": np.arange(1000.0)}

    def say(*what):
        os.write(said, json.dumps(what).encode() + b"\n")

    def digest():
        parts = (state["w"].tobytes(), repr(state["losses"][-20:]), repr(state["rng"]["state"]))
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    saver = stoker.Checkpointer(folder, keep_last=3, in_flight=1 + dice.randrange(2))
    done = saver.restore(state=state, loader=loader)
    say("restored", int(done or 0), digest() if done else "", done.generation if done else 0)
    # One whose step was just being saved again has only the name of what was superseded.
    if done and kill_at is not None and int(done) in saver.steps():
        saver.annotate(int(done), loss=state["losses"][-1])  # a random moment may be in here
        saver.pin(int(done), pinned=False)
    older = [step for step in saver.steps() if step < (done or 0)]
    if rewind and older:
        done = saver.restore(max(older), state=state, loader=loader)
    rng.bit_generator.state = state["rng"]
    for step, batch in loader.steps(start=int(done or 0)):
        if step > (done or 0) + steps:
            break
        state["w"] *= 0.9
        state["w"] += batch["cls"].mean() + rng.standard_normal(3000)
        state["step"], state["rng"] = step, rng.bit_generator.state
        state["losses"].append(float(state["w"].sum()))
        del state["losses"][:-20]
        say("loss", step, state["losses"][-1].hex(), digest())
        if kill_at is not None and saver.due(step, every_steps=2):
            pending = saver.save(step, state=state, loader=loader)
            pending.add_done_callback(lambda p: p.durable and say("durable", p.generation))
    saver.close()
    if kill_at is not None and not kill_at[0]:
        signal.pause()          # for the end that was promised


def fork(folder, steps, kill_at=None, rewind=False):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(read)
            life(folder, write, steps, kill_at, rewind)
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    return child, read


def hear(read, lines=None):
    # What was said until the end, or in this number of lines.
    text = b""
    while lines is None or text.count(b"\n") < lines:
        part = os.read(read, 65536)
        if not part:
            break
        text += part
    return text


def end(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


truth, killed = {}, {}
child, read = fork(folder + ".unbroken", 12 * cycles + 20)
for line in hear(read).splitlines():
    what = json.loads(line)
    if what[0] == "loss":
        truth[what[1]] = what[2:]
assert end(child) == 0
acknowledged = 0  # the greatest generation that the training was told is durable
for cycle in range(cycles):
    point = points[cycle // 2 % len(points)] if cycle % 2 else ""
    rewind = point in ("checkpoint.superseded", "checkpoint.freed") or dice.random() < rewinds
    child, read = fork(folder, 6 if point else 12, (point, dice.randint(1, 2)), rewind)
    text = b""
    if not point:
        text += hear(read, dice.randrange(20))      # 12 steps, and what was acknowledged
        select.select([], [], [], dice.random() ** 2 * 0.02)
        os.kill(child, signal.SIGKILL)
    text += hear(read)
    os.close(read)
    code = end(child)
    assert code in (0, -signal.SIGKILL), (cycle, point, code)
    killed[point] = killed.get(point, 0) + (code != 0)
    earlier, told = acknowledged, set()
    for line in text.splitlines():
        what = json.loads(line)
        if what[0] == "restored":
            assert what[3] >= acknowledged, (cycle, what, acknowledged)
            assert what[1] == 0 or what[2] == truth[what[1]][1], (cycle, what)
        elif what[0] == "loss":
            assert what[2:] == truth[what[1]], (cycle, what)
        else:
            # Of two saves in flight the callback of the later one may come first.
            assert what[1] > earlier and what[1] not in told, (cycle, what, acknowledged)
            told.add(what[1])
            acknowledged = max(acknowledged, what[1])
child, read = fork(folder, 2, ("never", 1))
first = json.loads(hear(read).splitlines()[0])
assert end(child) == 0 and first[3] >= acknowledged, first
print(json.dumps({"killed": killed, "steps": first[1], "saves": acknowledged,
                  "left": sorted(os.listdir(folder))}))
"""

_POINTS = [
    *("staged_dir", "preallocated", "written", "synced", "part_written", "staging_synced"),
    *("manifest_written", "directory_synced", "renamed", "parent_synced"),
    *("latest_staged", "latest_moved", "latest_synced", "acknowledged"),
]
_ALL = [
    *(f"file.{name}" for name in ("preallocated", "truncated", "synced")),
    *(f"checkpoint.{name}" for name in _POINTS),
    *("retention.retired", "retention.condemned", "owner.unlinked", "owner.removed"),
    *(f"takeover.{name}" for name in ("claimed", "fenced", "emptied", "swept")),
]
_NOTES = [f"publish_file.{name}" for name in ("staged", "synced", "switched", "durable")]


def live_and_die(
    shards: Path, folder: Path, cycles: int, points: list[str], rewinds: float
) -> dict[str, Any]:
    """Runs this number of lives of a training; returns what is left. Asserts in each."""
    program = folder.with_suffix(".py")
    program.write_text(_ZYGOTE)
    settings = [str(cycles), " ".join(points), "11", str(rewinds)]
    command = [sys.executable, str(program), str(shards), str(folder), *settings]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=max(600, 2 * cycles))
    assert ran.returncode == 0, ran.stderr
    told: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    assert [point for point in points if not told["killed"].get(point)] == []
    assert told["killed"][""] == cycles / 2
    assert sum(told["killed"].values()) > 0.8 * cycles
    assert told["saves"] > cycles / 8
    steps = [name for name in told["left"] if name.startswith("step-")]
    assert 1 <= len(steps) <= 4
    epochs = [name for name in told["left"] if re.fullmatch(r"\.lock-\d+", name)]
    assert len(epochs) == 1
    others = {".lock", ".catalog", "latest", "notes"}
    assert set(told["left"]) - set(steps) - set(epochs) <= others
    return told


@pytest.mark.slow
def test_killed_at_any_moment_a_training_goes_on_to_the_bit(shards: Path, tmp_path: Path) -> None:
    told = live_and_die(shards, tmp_path / "run", _CYCLES * 4 // 5, _ALL, rewinds=0)
    assert told["steps"] > _CYCLES / 4


@pytest.mark.slow
def test_killed_and_rewound_it_loses_nothing_that_was_durable(shards: Path, tmp_path: Path) -> None:
    points = [f"checkpoint.{name}" for name in ("superseded", "freed", "renamed")]
    points.append("retention.retired")
    live_and_die(shards, tmp_path / "run", _CYCLES // 5, points, rewinds=0.3)


@pytest.mark.slow
def test_killed_while_it_writes_notes_it_loses_nothing(shards: Path, tmp_path: Path) -> None:
    live_and_die(shards, tmp_path / "run", _CYCLES // 5, _NOTES, rewinds=0)
