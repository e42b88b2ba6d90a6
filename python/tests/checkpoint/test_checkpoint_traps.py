"""What an ordinary user gets wrong with checkpoints is refused, told or made to work."""

from __future__ import annotations

import argparse
import inspect
import logging
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from stoker._checkpoint.checkpointer import SETTINGS
from stoker._checkpoint.fit.tensor_fit import PART_ADVICE
from stoker._checkpoint.state.names import why_no_name

_STOKER = Path(__file__).parents[3] / "build" / "release" / "stoker"


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def a_loader(shards: Path, **settings: Any) -> stoker.Loader:
    return stoker.Loader(shards, seed=3, epochs=None, torch=False, fields=["cls"], **settings)


# The restored step:


def test_a_restored_step_is_printed_as_its_number(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1234, state={"n": 1})
        done = saver.restore(state={"n": 0})
    assert done is not None
    assert f"resumed at {done}" == "resumed at 1234"
    assert (str(done), f"{done:>8,}", f"{done:08}") == ("1234", "   1,234", "00001234")
    assert "%s %d" % (done, done) == "1234 1234"  # noqa: UP031 (people do)
    assert repr(done) == f"<stoker.Restored: step 1234 from {tmp_path}/step-000000001234>"


# Another batch size:


@pytest.mark.parametrize(("batch_size", "every"), [(4, 1), (2, 1), (10, 1), (2, 2), (2, 3)])
def test_steps_count_from_the_restored_one_also_with_another_batch_size(
    tmp_path: Path, shards: Path, batch_size: int, every: int
) -> None:
    loader = a_loader(shards, batch_size=5, shuffle="off")
    with stoker.Checkpointer(tmp_path / "c") as saver:
        for step, _ in loader.steps():
            if step == 6:
                saver.save(step, state={"n": 1}, loader=loader)
                break
        smaller = a_loader(shards, batch_size=batch_size, shuffle="off")
        done = saver.restore(state={"n": 0}, loader=smaller, allow={"global_batch_size"})
    assert done == 6
    batches = smaller.steps(every=every)
    found = [next(batches) for _ in range(2 * every)]
    assert [step for step, _ in found] == [6 + (i + 1) // every for i in range(2 * every)]
    keys = [key for _, batch in found for key in batch["__key__"]]
    assert keys[0] == "s030"  # what comes after 6 batches of 5
    # A new iteration counts on.
    following, _ = next(smaller.steps(every=every))
    assert following >= found[-1][0]


def test_steps_of_a_resumed_run_go_on_in_the_middle_of_an_accumulation(
    tmp_path: Path, shards: Path
) -> None:
    loader = a_loader(shards, batch_size=5)
    batches = loader.steps(every=4)
    with stoker.Checkpointer(tmp_path / "c") as saver:
        numbers = [next(batches)[0] for _ in range(6)]
        saver.save(numbers[-1], state={"n": 1}, loader=loader)
        again = a_loader(shards, batch_size=5)
        saver.restore(state={"n": 0}, loader=again)
    more = again.steps(every=4)
    assert [next(more)[0] for _ in range(6)] == [1, 2, 2, 2, 2, 3]


def test_another_batch_size_is_refused_with_the_words_that_allow_it(
    tmp_path: Path, shards: Path
) -> None:
    loader = a_loader(shards, batch_size=5)
    next(iter(loader))
    with stoker.Checkpointer(tmp_path / "c") as saver:
        saver.save(1, state={"n": 1}, loader=loader)
        other = a_loader(shards, batch_size=2)
        with pytest.raises(
            stoker.CursorMismatch, match=r'pass allow=\{"global_batch_size"\}'
        ) as caught:
            saver.restore(state={"n": 0}, loader=other)
        assert [one.field for one in caught.value.differences] == ["global_batch_size"]
        with pytest.raises(ValueError, match=r"'batch' cannot be allowed to differ"):
            saver.restore(state={"n": 0}, loader=other, allow={"batch"})
        with pytest.raises(TypeError, match="allow is a set of names"):
            saver.restore(state={"n": 0}, loader=other, allow="tail")
        with pytest.raises(ValueError, match="allow= is about the loader"):
            saver.restore(state={"n": 0}, allow={"tail"})
        assert saver.restore(state={"n": 0}, loader=other, allow={"global_batch_size"}) == 1


# Names:


@pytest.mark.parametrize(
    "name", ["allow", "keep_last", "map_location", "partial", "rank", "strict", "timeout"]
)
def test_what_reads_like_a_setting_is_no_tree(tmp_path: Path, name: str) -> None:
    tree: dict[str, Any] = {name: {"n": 1}}
    with stoker.Checkpointer(tmp_path) as saver:
        if name not in inspect.signature(saver.save).parameters:
            with pytest.raises(ValueError, match=f"'{name}' cannot be the name of a tree"):
                saver.save(1, state={"n": 1}, **tree)
        if name not in inspect.signature(saver.restore).parameters:
            with pytest.raises(ValueError, match=f"'{name}' cannot be the name of a tree"):
                saver.restore(state={"n": 1}, **tree)
        assert saver.steps() == []


def test_a_misspelled_setting_is_no_tree(tmp_path: Path) -> None:
    slips: list[tuple[dict[str, Any], str]] = [
        ({"stirct": True}, "stirct=True: .*did you mean 'strict', a setting of restore"),
        ({"onyl": "trainable"}, "onyl='trainable': .*did you mean 'only', a setting of save"),
        ({"rngs": True}, "rngs=True: .*did you mean 'rng'?"),
        ({"rng": 1}, "rng=1: it is True, or a tree of your own"),
        ({"rng": False}, "rng=False: it is True, or a tree of your own"),
    ]
    model = {"w": np.ones(3)}
    with stoker.Checkpointer(tmp_path) as saver:
        for given, text in slips:
            with pytest.raises(TypeError, match=text):
                saver.save(1, model=model, **given)
        with pytest.raises(TypeError, match=r"loadr=None: save\(\) has no .* mean 'loader'"):
            saver.save(1, model=model, loadr=None)
        assert saver.steps() == []
        saver.save(1, model=model, steps=7, state="text", streamed={"n": 1}).wait()
        with pytest.raises(TypeError, match=r"strcit=False: restore\(\) has no .* mean 'strict'"):
            saver.restore(model=model, strcit=False)
        done = saver.restore(model=model, steps=None, state=None, streamed=None)
        assert done is not None
        assert done.trees["steps"] == 7
        with pytest.raises(ValueError, match=r"step 1 has no tree 'modell'.*did you mean 'model'"):
            saver.restore(modell=model, partial=True)


def test_arguments_of_save_are_no_trees_of_restore_and_the_reverse(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        with pytest.raises(
            ValueError, match=r"'extra' cannot be the name of a tree: it is a setting of save\(\)"
        ):
            saver.restore(extra={"git": "abc"})
        with pytest.raises(
            ValueError, match=r"'allow' cannot be .*: it is a setting of restore\(\)"
        ):
            saver.save(1, allow={"tail"})
        tagged: dict[str, Any] = {"!tensor": {"n": 1}}
        with pytest.raises(ValueError, match="does not begin with '!'"):
            saver.save(1, **tagged)


def test_the_command_line_refuses_the_same_names(tmp_path: Path) -> None:
    if not _STOKER.exists():
        pytest.skip(f"there is no {_STOKER}: make build")
    text = (Path(__file__).parents[3] / "src" / "cli" / "checkpoint" / "import.cc").read_text()
    begin = text.index("kTaken = {")
    listed = set(text[begin : text.index("}", begin)].split('"')[1::2])
    known = {name for name in listed | set(SETTINGS) if why_no_name(name, SETTINGS) is not None}
    assert known == listed
    assert {"strict", "map_location", "finite", "allow", "rank"} <= listed
    file = tmp_path / "x.safetensors"
    file.write_bytes(struct.pack("<Q", 2) + b"{}")
    for name in ("allow", "strict", "keep_last"):
        command = [str(_STOKER), "checkpoint", "import", str(tmp_path / "c"), str(file)]
        ran = subprocess.run(
            [*command, "--step=1", f"--as={name}"], capture_output=True, text=True, timeout=60
        )
        assert ran.returncode == 2
        assert f"--as {name}: in Python that is a setting" in ran.stderr


# What was saved and not asked for:


def test_what_was_saved_and_not_asked_for_is_told(
    tmp_path: Path, shards: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "stoker")
    loader = a_loader(shards, batch_size=5)
    trees: dict[str, Any] = {
        "model": {"w": np.ones(3)},
        "optimizer": {"lr": 0.1},
        "ema": {"w": np.ones(3)},
    }
    with stoker.Checkpointer(tmp_path / "c") as saver:
        saver.save(7, loader=loader, **trees)
        saver.restore(**trees, loader=loader)
        assert told(caplog) == []
        saver.restore(model=trees["model"], partial=True)
        assert told(caplog) == []
        saver.restore(model=trees["model"])
    left_out, data = told(caplog)
    assert left_out.startswith("step 7 has trees that restore() was not asked for: optimizer, ema;")
    assert data.startswith("step 7 was saved with a loader, and restore() was given none: the data")


def test_an_empty_tree_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "stoker")
    with stoker.Checkpointer(tmp_path / "c") as saver:
        for step in (1, 2):
            saver.save(step, state={}, more=[], other={"n": 1}, names=argparse.Namespace())
        with pytest.raises(TypeError, match=r"nothing to save: .* save\(step, model=model\)"):
            saver.save(3)
        saver.save(4, number=0, text="", nothing=None, array=np.zeros(0))
    warnings = [line for line in told(caplog) if "in memory" not in line]
    assert warnings == [
        "step 1: the tree state is empty",
        "step 1: the tree more is empty",
        "step 1: the tree names is empty",
    ]


# Names of modules:


def test_all_that_does_not_fit_is_told_at_once(tmp_path: Path) -> None:
    saved = {f"w{i}": np.zeros(3) for i in range(20)}
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state=saved, other={"x": np.zeros(2), "y": [np.zeros(2)]})
        into: Any = {f"w{i}": np.ones(4) for i in range(14)} | {"new": 1, "newer": 2}
        with pytest.raises(ValueError, match="do not fit") as caught:
            saver.restore(state=into, other={"x": np.ones(2), "y": [np.ones(5)]})
        lines = str(caught.value).splitlines()
        assert lines[0] == "17 places do not fit step 1:"
        assert lines[1] == "  state['new']: not in step 1"
        assert lines[3] == "  state['w0']: float64 (4,), but float64 (3,) in step 1"
        assert lines[11] == "  and 7 more"
        assert lines[12:] == [PART_ADVICE]
        assert into["w0"].tolist() == [1] * 4
        with pytest.raises(ValueError, match=r"^state\['new'\]: not in step 1$"):
            saver.restore(state={"new": 1}, partial=True)


def test_names_that_differ_by_the_prefix_of_a_wrapper_are_told_with_the_cure(
    tmp_path: Path,
) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")

    def make() -> Any:
        return torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 2))

    def own(name: str, model: Any) -> Any:
        return torch.nn.ModuleDict({name: model})  # no wrapper of torch's: its name stays

    plain = make()
    wrapped, compiled = own("module", plain), own("_orig_mod", plain)
    with stoker.Checkpointer(tmp_path) as saver:
        for step, model in enumerate((plain, wrapped, compiled, own("module", compiled))):
            saver.save(step, model=model).wait()
    into = make()
    cures = {
        (0, "module"): ("no prefix in step 0, 'module.' in memory", "restore into model.module"),
        (1, ""): (
            "'module.' in step 1, no prefix in memory",
            "restore into torch.nn.ModuleDict({'module': model}) instead, and save model from now",
        ),
        (2, ""): ("torch.compile() adds '_orig_mod.'", "ModuleDict({'_orig_mod': model})"),
        (2, "module"): (
            "'_orig_mod.' in step 2, 'module.' in memory",
            "torch.nn.ModuleDict({'_orig_mod': model.module})",
        ),
        (3, ""): ("ModuleDict({'module': torch.nn.ModuleDict({'_orig_mod': model})})",),
    }
    with stoker.Checkpointer(tmp_path) as saver:
        for (step, wrapping), words in cures.items():
            model = own("module", into) if wrapping else into
            with pytest.raises(ValueError, match="all names differ by a prefix") as caught:
                saver.restore(step, model=model)
            for word in words:
                assert word in str(caught.value)
            assert len(str(caught.value).splitlines()) == 1
        # The cures cure.
        for step, model in (
            (0, into),
            (1, own("module", into)),
            (3, own("module", own("_orig_mod", into))),
        ):
            for parameter in into.parameters():
                torch.nn.init.zeros_(parameter)
            assert saver.restore(step, model=model) == step
            for mine, theirs in zip(into.parameters(), plain.parameters(), strict=True):
                assert torch.equal(mine, theirs)
        # The same for a dict of tensors.
        with pytest.raises(ValueError, match=r"use names that begin with 'module\.'"):
            saver.restore(1, model=dict(into.state_dict()))


def test_of_a_module_that_was_changed_all_names_are_told(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=torch.nn.ModuleDict({"a": torch.nn.Linear(3, 2)}))
        new = torch.nn.ModuleDict({"b": torch.nn.Linear(3, 2)})
        with pytest.raises(ValueError, match="4 places do not fit step 1") as caught:
            saver.restore(model=new)
    assert str(caught.value).splitlines()[1:] == [
        "  model['b.weight']: not in step 1",
        "  model['b.bias']: not in step 1",
        "  model['a.weight']: in step 1, but the module has none",
        "  model['a.bias']: in step 1, but the module has none",
        PART_ADVICE,
    ]


# Trees without a name, and values that cannot be set:


def test_trees_given_without_a_name_are_refused_with_the_way_to_give_them(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        arguments: tuple[Any, ...] = (({"w": 1},), ("latest", {"w": 1}))
        for given in arguments:
            with pytest.raises(TypeError, match=r"^dict .* by name: restore\(model=model\)$"):
                saver.restore(*given)
        with pytest.raises(TypeError, match=r"list .* by name: save\(step, model=model\)"):
            saver.save(1, [1, 2])
        with pytest.raises(TypeError, match=r"dict .* by name: save\(step, model=model\)"):
            saver.save({"w": 1})  # type: ignore[arg-type]
        assert saver.steps() == []
        saver.save(3, unnamed={"w": 1}).wait()
        assert saver.restore(unnamed={"w": 0}) == 3, "a tree may be called that"


def test_a_number_in_the_place_of_a_tree_hides_no_other_error(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model={"w": np.zeros((2, 3))}, epoch=4).wait()
        with pytest.raises(TypeError, match=r"epoch: a value of type int .* give epoch=None"):
            saver.restore(epoch=0, model={"w": np.zeros((2, 3))})
        with pytest.raises(ValueError, match="3 places do not fit step 1") as raised:
            saver.restore(epoch=0, other={}, model={"w": np.zeros(5)})
        for part in (
            "epoch: a value of type int",
            "step 1 has no tree 'other'; it has",
            "model['w']: ",
        ):
            assert part in str(raised.value)
        done = saver.restore(epoch=None, model={"w": np.zeros((2, 3))})
        assert done is not None
        assert done.trees["epoch"] == 4
