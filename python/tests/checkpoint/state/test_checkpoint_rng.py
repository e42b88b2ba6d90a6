"""rng=True: random generators continue where they were, on each rank."""

from __future__ import annotations

import json
import logging
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from fork_server import ForkedPython

numpy_random: Any = np.random  # its stubs lack some functions


@pytest.fixture(autouse=True)
def generators() -> Iterator[None]:
    """Tests change global generators: others get them back."""
    python, numpy = random.getstate(), np.random.get_state()
    bits = numpy_random.get_bit_generator()
    yield
    numpy_random.set_bit_generator(bits)
    random.setstate(python)
    np.random.set_state(numpy)


def draw() -> list[float]:
    drawn = [random.random(), random.gauss(0, 1), np.random.rand(), np.random.randn()]
    torch = sys.modules.get("torch")
    return drawn if torch is None else [*drawn, torch.rand(()).item(), torch.randn(()).item()]


def test_all_generators_continue(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    state = {"w": np.arange(3.0)}
    draw()  # a second normal number is kept by each generator
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state=state, rng=True).wait()
        unbroken = [draw() for _ in range(3)]
        random.seed(5)
        np.random.seed(5)
        torch.manual_seed(5)
        done = saver.restore(state=state, rng=True)
        assert done == 1
        assert done.trees["rng"] is True
        assert [draw() for _ in range(3)] == unbroken
    assert {"rng.python.words", "rng.numpy.state.key", "rng.torch.cpu"} <= set(
        stoker.load(tmp_path)
    )


def test_saving_takes_nothing_from_the_generators(tmp_path: Path) -> None:
    random.seed(3)
    np.random.seed(3)
    expected = random.random(), np.random.rand()
    random.seed(3)
    np.random.seed(3)
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, rng=True).wait()
    assert (random.random(), np.random.rand()) == expected


def test_another_bit_generator_of_numpy(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, rng=True).wait()
        numpy_random.set_bit_generator(np.random.PCG64(3))
        before = draw()
        saver.save(2, rng=True).wait()
        following = draw()
        with pytest.raises(ValueError, match="generator is PCG64, but 'MT19937' in step 1"):
            saver.restore(1, rng=True)
        saver.restore(2, rng=True)
        assert draw() == following != before


class Noisy:
    """An object whose own code takes numbers from the generators."""

    def state_dict(self) -> dict[str, Any]:  # noqa: D102
        random.random()
        return {"n": 1}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: D102
        random.random()


def test_they_are_saved_and_set_after_all_others(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, rng=True, noisy=Noisy()).wait()
        following = random.random()
        saver.restore(rng=True, noisy=Noisy())
        assert random.random() == following


def test_a_tree_of_ones_own_may_be_called_rng(tmp_path: Path) -> None:
    own = {"mine": np.arange(3)}
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, rng=own).wait()
        own["mine"][:] = 0
        saver.restore(rng=own)
        assert own["mine"].tolist() == [0, 1, 2]
        with pytest.raises(ValueError, match="rng: not saved with rng=True in step 1: pass the"):
            saver.restore(rng=True)
        saver.save(2, state={"n": 1}).wait()
        with pytest.raises(ValueError, match="step 2 has no tree 'rng'"):
            saver.restore(state={"n": 0}, rng=True)


# Several ranks:


_PROGRAM = """
import json, logging, random, sys
import numpy as np
import stoker
logging.basicConfig(level=logging.WARNING, format="%(message)s")
folder, what, rank, world_size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
random.seed(100 + rank)
np.random.seed(100 + rank)
with stoker.Checkpointer(folder, rank=rank, world_size=world_size, job=sys.argv[5]) as saver:
    if what == "save":
        saver.save(1, state={"n": 1}, rng=True).wait()
    else:
        saver.restore(state={"n": 0}, rng=True)
print(json.dumps([random.random(), np.random.rand()]))
"""


def ranks(folder: Path, what: str, count: int, job: str) -> tuple[list[list[float]], list[str]]:
    """What each rank draws after its save or restore, and what it logs."""
    command = [sys.executable, "-c", _PROGRAM, folder, what]
    processes = [
        ForkedPython(
            [*command, rank, count, job],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]
    said = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0] * count, said
    return [json.loads(out) for out, _ in said], [err for _, err in said]


def test_each_rank_has_its_own_and_new_ones_are_a_function_of_seed_and_rank(
    tmp_path: Path,
) -> None:
    saved, _ = ranks(tmp_path / "c", "save", 2, "a")
    assert saved[0] != saved[1]
    assert ranks(tmp_path / "c", "restore", 2, "b")[0] == saved
    four, told = ranks(tmp_path / "c", "restore", 4, "c")
    assert four[:2] == saved
    assert len({tuple(drawn) for drawn in four}) == 4
    assert ["seeded from the saved seed" in text for text in told] == [False, False, True, True]
    assert "rank 3 was not in the run that saved step 1" in told[3]
    assert ranks(tmp_path / "c", "restore", 4, "d")[0] == four, "the same each time"
    assert ranks(tmp_path / "c", "restore", 1, "e")[0] == saved[:1]


def test_a_damaged_state_sets_no_generator(tmp_path: Path) -> None:
    """A tree that looks like one of ours, of another number of words."""
    from stoker._checkpoint.state.rng import RngStates

    bad = RngStates().state_dict()
    bad["python"]["words"] = bad["python"]["words"][:-1]
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, rng=bad).wait()
        before = numpy_random.get_state()[1].copy()
        with pytest.raises(ValueError, match="rng: Python's generator refuses the saved state"):
            saver.restore(rng=True)
        after = numpy_random.get_state()[1]
        np.testing.assert_array_equal(after, before)


def test_without_torch_it_is_not_imported(tmp_path: Path) -> None:
    program = """
import sys, stoker
with stoker.Checkpointer(sys.argv[1]) as saver:
    saver.save(1, rng=True).wait()
    saver.restore(rng=True)
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=60)


def test_left_out_it_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "stoker")
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"n": 1}, rng=True).wait()
        saver.restore(state={"n": 1})
    assert "has trees that restore() was not asked for: rng" in caplog.text
