"""Restoring: into what is there, checked first, over damage, and on a rewound run."""

from __future__ import annotations

import collections
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker


def flip(path: Path, offset: int) -> None:
    """Changes a bit of a committed file."""
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))


def tensor_of(caught: pytest.ExceptionInfo[stoker.CorruptError]) -> Any:
    return caught.value.tensor


def save_steps(folder: Path, *steps: int, **options: Any) -> None:
    with stoker.Checkpointer(folder, **options) as saver:
        saver.restore()
        for step in steps:
            saver.save(step, state={"w": np.full(2000, step, np.float32), "n": step})


def test_there_is_nothing_to_restore_at_first(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path / "none") as saver:
        assert saver.restore(state={"w": np.zeros(3)}) is None
        assert saver.latest is None
        assert saver.steps() == []
        saver.check(None, loss=3.0)
        with pytest.raises(FileNotFoundError) as caught:
            saver.restore(5)
        assert str(caught.value) == f"no checkpoints in {tmp_path}/none: there is no such directory"
    assert not (tmp_path / "none").exists()


def test_no_step_is_the_newest(tmp_path: Path) -> None:
    state = {"n": 0}
    with stoker.Checkpointer(tmp_path) as saver:
        assert saver.restore(None, state=state) is None
        for step in (1, 2):
            saver.save(step, state={"n": step}).wait()
        assert saver.restore(None, state=state) == 2
        assert saver.restore(step=None, state=state) == 2
        with pytest.raises(TypeError, match="dict without a name"):
            saver.restore(None, state)


def test_the_rest_of_the_tree_is_set_and_containers_stay_who_they_are(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(7, state={"lr": 0.5, "losses": [3, 2, 1], "t": (1, [2]), "m": {"k": None}})
        tree: dict[str, Any] = {"lr": 0.0, "losses": [9] * 5, "t": (0, []), "m": {}}
        losses, inner, m = tree["losses"], tree["t"][1], tree["m"]
        done = saver.restore(state=tree)
    assert tree == {"lr": 0.5, "losses": [3, 2, 1], "t": (1, [2]), "m": {"k": None}}
    assert tree["losses"] is losses
    assert tree["t"][1] is inner
    assert tree["m"] is m
    assert done is not None
    assert done == 7
    assert isinstance(done, int)
    assert done.trees == {"state": tree}
    assert Path(done.source).samefile(tmp_path / "latest")
    assert (done.skipped, done.extra, done.reference) == ([], None, {})


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (
            {"w": np.zeros((3, 5))},
            r"state\['w'\]: float64 \(3, 5\), but float64 \(3, 4\) in step 1",
        ),
        ({"w": np.zeros((3, 4), "f4")}, r"state\['w'\]: float32 \(3, 4\), but float64 \(3, 4\)"),
        ({"z": np.zeros(2)}, r"state\['z'\]: float64 \(2,\), but complex128 \(2,\) in step 1"),
        ({"new": 1}, r"state\['new'\]: not in step 1"),
        ({"l": [1, 2, 3, np.zeros(1)]}, r"state\['l'\]\[3\]: not in step 1"),
        ({"l": {}}, r"state\['l'\]: of type dict, but of type list in step 1"),
        ({"l": np.zeros(3)}, r"state\['l'\]: an array, but of type list in step 1"),
        ({"w": []}, r"state\['w'\]: of type list, but an array in step 1"),
        ({"w": np.broadcast_to(0.0, (3, 4))}, r"state\['w'\]: cannot be .* read-only"),
    ],
)
def test_what_does_not_fit_is_named_before_anything_changes(
    tmp_path: Path, tree: Any, message: str
) -> None:
    saved = {"first": np.ones(4), "l": [1, 2, 3], "w": np.ones((3, 4)), "z": np.ones(2, "c16")}
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state=saved)
        into = {"first": np.zeros(4), **tree}
        with pytest.raises(ValueError, match=message):
            saver.restore(state=into)
        assert into["first"].tolist() == [0] * 4
        with pytest.raises(ValueError, match="step 1 has no tree 'other'; it has state"):
            saver.restore(other={})
        with pytest.raises(ValueError, match=r"leave loader= out .* loader\.steps\(start=done\)"):
            saver.restore(loader=object())
        with pytest.raises(
            TypeError,
            match=r"state: a value of type int .* give state=None and take done.trees\['state'\]",
        ):
            saver.restore(state=3)
        assert saver.restore(state=None).trees["state"]["l"] == [1, 2, 3]  # type: ignore[union-attr]


def test_a_damaged_checkpoint_is_passed_over_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save_steps(tmp_path, 1, 2, 3)
    flip(tmp_path / "step-000000000003" / "rank-00000.safetensors", 5000)
    flip(tmp_path / "step-000000000002" / "manifest.json", 50)
    tree: dict[str, Any] = {"w": np.zeros(2000, np.float32), "n": 0}
    with stoker.Checkpointer(tmp_path) as saver:
        done = saver.restore(state=tree)
        assert done == 1
        assert tree["n"] == 1
        assert set(tree["w"].tolist()) == {1.0}
        assert done is not None
        skipped = dict(done.skipped)
        assert set(skipped) == {"step-000000000003", "step-000000000002"}
        assert "state.w" in skipped["step-000000000003"]
        logged = [(record.levelname, record.getMessage()) for record in caplog.records]
        assert logged == [("WARNING", f"passed over {one}: {why}") for one, why in done.skipped]
        with pytest.raises(stoker.CorruptError, match=r"rank-00000\.safetensors") as caught:
            saver.restore(3, state=tree)
        damaged = tmp_path / "step-000000000003" / "rank-00000.safetensors"
        assert (caught.value.path, caught.value.offset) == (str(damaged), 0)
        assert tensor_of(caught) == "state.w"
        with pytest.raises(stoker.CorruptError, match="manifest") as caught:
            saver.restore(2, state=tree)
        assert tensor_of(caught) is None
        assert caught.value.path == str(tmp_path / "step-000000000002" / "manifest.json")
        assert saver.steps() == [1, 3]  # manifests are read, data are not
        flip(tmp_path / "step-000000000001" / "rank-00000.safetensors", 5000)
        with pytest.raises(stoker.CorruptError, match="step-000000000001"):
            saver.restore(state=tree)


def test_of_several_tensors_in_a_damaged_piece_one_that_was_asked_for_is_named(
    tmp_path: Path,
) -> None:
    names = [f"{letter} and more" for letter in "abcde"]
    tree = {name: np.zeros(3, np.float32) for name in names}
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state=tree, other={"z": np.zeros(3, np.float32)}).wait()
        path = tmp_path / "step-000000000001" / "rank-00000.safetensors"
        flip(path, path.stat().st_size - 3)
        with pytest.raises(stoker.CorruptError, match="no checkpoint is valid") as caught:
            saver.restore(state=tree)
        assert tensor_of(caught) in {f"state.{name}" for name in names}
    with pytest.raises(stoker.CorruptError) as caught:
        stoker.load(tmp_path)["other.z"][...]
    assert tensor_of(caught) == "other.z"
    assert stoker.CorruptError("damaged").tensor is None


def test_a_run_that_was_rewound_saves_its_steps_again(tmp_path: Path) -> None:
    save_steps(tmp_path, 1, 2, 3)
    tree: dict[str, Any] = {"w": np.zeros(2000, np.float32), "n": 0}
    with stoker.Checkpointer(tmp_path) as saver:
        assert saver.restore(1, state=tree) == 1
        saver.save(2, state={"w": tree["w"] + 10, "n": 20}).wait()
        assert saver.latest == 2
        assert saver.restore(state=tree) == 2
        assert tree["n"] == 20
        assert saver.steps() == [1, 3, 2]
        old = next(p.name for p in tmp_path.iterdir() if "superseded" in p.name)
        assert saver.restore(old, state=tree) == 2
        assert tree["n"] == 2


def test_a_run_whose_steps_start_again_is_warned_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save_steps(tmp_path, 100)
    with stoker.Checkpointer(tmp_path) as saver:
        done = saver.restore(state=None)
        assert done is not None
        assert not done.has_loader
        for step in (101, 102):
            saver.save(step, state=step)
        assert "was restored" not in caplog.text
        for step in (1, 2):
            saver.save(step, state=step)
    told = [r.getMessage() for r in caplog.records if "was restored" in r.getMessage()]
    assert len(told) == 1
    assert told[0].startswith("step 1 is saved, but step 100 was restored: the step numbers do not")
    assert "loader.steps(start=done)" in told[0]


def test_a_rewound_run_saves_each_of_its_steps_once(tmp_path: Path) -> None:
    save_steps(tmp_path, 1, 2, 3)
    with stoker.Checkpointer(tmp_path) as saver:
        assert saver.restore(1) == 1
        pendings = [saver.save(2, state=20), saver.save(4, state=40)]
        assert [pending.wait() for pending in pendings] == [True, True]
        assert [pending.generation for pending in pendings] == [4, 5]
        for step in (1, 2, 4):
            with pytest.raises(
                FileExistsError,
                match=f"step {step} already exists in .* skip this save .*`due`",
            ):
                saver.save(step, state=21)


def test_a_restore_in_the_middle_goes_on_from_there(tmp_path: Path) -> None:
    tree: dict[str, Any] = {"w": np.zeros(2000, np.float32), "n": 0}
    with stoker.Checkpointer(tmp_path) as saver:
        for step in (1, 2):
            saver.save(step, state={"w": tree["w"], "n": step})
        assert saver.restore(1, state=tree) == 1
        saver.save(2, state={"w": tree["w"], "n": -2})
        saver.wait()
        assert saver.restore(state=tree) == 2
    assert tree["n"] == -2


def test_finite_passes_over_what_brought_infinities(tmp_path: Path) -> None:
    tree = {"w": np.ones(10)}
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state=tree)
        saver.save(2, state={"w": np.full(10, np.inf)})
        assert saver.restore(state=tree) == 2
        assert saver.restore(state=tree, finite=True) == 1
    assert tree["w"].tolist() == [1] * 10


def test_the_loader_stands_where_it_stood(tmp_path: Path, shards: Path) -> None:
    def make() -> stoker.Loader:
        return stoker.Loader(shards, batch_size=4, seed=3, epochs=None, torch=False, fields=["cls"])

    loader = make()
    stream = iter(loader)
    for _ in range(5):
        next(stream)
    with stoker.Checkpointer(tmp_path / "c") as saver:
        saver.save(5, state={}, loader=loader)
        expected = [next(stream)["__key__"] for _ in range(20)]
        again = make()
        assert saver.restore(state={}, loader=again) == 5
        later = iter(again)
        assert [next(later)["__key__"] for _ in range(20)] == expected
        other = stoker.Loader(shards, batch_size=4, seed=4, epochs=None, torch=False)
        with pytest.raises(stoker.CursorMismatch):
            saver.restore(loader=other)


class Counter:
    """Keeps its own state, an array among it."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {"n": 0, "w": np.zeros(3)}

    def state_dict(self) -> dict[str, Any]:
        """What it has."""
        return dict(self.state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """What it is to have."""
        self.state = dict(state)


def test_objects_with_a_state_dict_are_asked_for_it(tmp_path: Path) -> None:
    counter, loader = Counter(), Counter()
    counter.state = {"n": 5, "w": np.arange(3.0)}
    loader.state = {"at": 9, "w": np.arange(4)}
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, counter=counter, deep={"x": [counter]}, loader=loader)
        new, deep, stream = Counter(), Counter(), Counter()
        array = new.state["w"]
        assert saver.restore(counter=new, deep={"x": [deep]}, loader=stream) == 1
    assert new.state["n"] == deep.state["n"] == 5
    assert new.state["w"].tolist() == [0, 1, 2]
    assert array.tolist() == [0, 0, 0]  # load_state_dict() decides what becomes of it
    assert deep.state["w"].tolist() == [0, 1, 2]
    assert stream.state["at"] == 9
    assert stream.state["w"].tolist() == [0, 1, 2, 3]


def test_reference_values_are_compared(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(4, state=1, reference={"loss": 2.0, "nan": float("nan"), "zero": 0.0})
        done = saver.restore()
        saver.check(done, loss=2.0, nan=float("nan"), zero=0)
        saver.check(done, loss=np.float32(2.001))
        with pytest.raises(stoker.ReferenceMismatch, match=r"step 4 .*loss was 2\.0 and is 2\.1"):
            saver.check(done, loss=2.1, zero=0)
        with pytest.raises(stoker.ReferenceMismatch):
            saver.check(done, rtol=0, loss=2.001)
        with pytest.raises(ValueError, match=r"accuracy: not among .* loss, nan, zero"):
            saver.check(done, accuracy=1)


def test_a_file_without_its_name_is_not_needed_any_more(tmp_path: Path) -> None:
    """Large states are read by threads, in place, and Python's memory is the only copy."""
    w = np.random.default_rng(3).random(3_000_000)
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"w": w})
        into = {"w": np.zeros_like(w)}
        saver.restore(state=into)
    assert np.array_equal(into["w"], w)
    assert os.path.realpath(tmp_path / "latest").endswith("step-000000000001")


def test_a_checkpoint_lent_to_an_attempt_is_closed_afterwards(tmp_path: Path) -> None:
    save_steps(tmp_path, 1)
    kept: list[Any] = []
    trial = (kept.append, lambda checkpoint: None)
    stoker._native.restore_checkpoint(os.fsencode(tmp_path), "", False, None, trial, None)
    with pytest.raises(ValueError, match="not open any more"):
        kept[0].tensors()
    with pytest.raises(ValueError, match="not open any more"):
        _ = kept[0].step


def test_what_0_1_has_saved_is_restored(tmp_path: Path) -> None:
    """Its trees have fewer tags: an OrderedDict was a dict to it."""
    golden = Path(__file__).parents[3] / "tests" / "golden" / "version_0_1" / "single"
    shutil.copytree(golden, tmp_path / "c", symlinks=True)
    plain: Any = collections.OrderedDict([("lr", 0.0), (3, ())])
    into: Any = collections.OrderedDict(w=np.zeros((2, 3), np.float32), plain=plain)
    with stoker.Checkpointer(tmp_path / "c") as saver:
        assert saver.restore(state=into) == 40
    assert (into["w"] == np.arange(6, dtype=np.float32).reshape(2, 3) + 1040).all()
    assert into["plain"] is plain
    assert list(plain) == ["lr", 3, "big", "inf"]
    assert plain[3] == (1, "two", None, b"three")
    assert into["complex"].tolist() == [1 + 2j, 1040 - 1j]
    assert into["text"].tolist() == ["a", "longer"]


def test_a_changed_model_is_told_how_to_restore_what_fits(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=torch.nn.Sequential(torch.nn.Linear(2, 3))).wait()
        for layers in ([torch.nn.Linear(2, 5)], [torch.nn.Linear(2, 3), torch.nn.Linear(3, 1)]):
            with pytest.raises(
                ValueError, match=r"It does not cover shapes: .* pass a dict of what"
            ):
                saver.restore(model=torch.nn.Sequential(*layers))
        with pytest.raises(ValueError, match="Types are never converted") as raised:
            saver.restore(model=torch.nn.Sequential(torch.nn.Linear(2, 3)).half())
        assert "To restore what fits" not in str(raised.value)
