"""model=[part0, part1]: lists of modules have their names together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import stoker

torch = pytest.importorskip("torch", reason="torch is not installed")
nn = torch.nn


def stages() -> tuple[Any, list[Any]]:
    """A model, and two interleaved stages of it, as pipelines cut it."""
    layers = {str(i): nn.Linear(3, 3) for i in range(4)}
    model = nn.ModuleDict({"layers": nn.ModuleDict(layers)})
    parts = [
        nn.ModuleDict({"layers": nn.ModuleDict({str(i): layers[str(i)] for i in mine})})
        for mine in ((0, 2), (1, 3))
    ]
    return model, parts


def same(left: Any, right: Any) -> bool:
    pairs = zip(left.state_dict().items(), right.state_dict().items(), strict=True)
    return all(name == key and torch.equal(a, b) for (name, a), (key, b) in pairs)


@pytest.mark.parametrize("kind", [list, tuple])
def test_parts_are_saved_as_the_model_and_restored_as_any(tmp_path: Path, kind: Any) -> None:
    model, parts = stages()
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=kind(parts)).wait()
        assert set(stoker.load(tmp_path)) == {f"model.{name}" for name in model.state_dict()}
        other, others = stages()
        assert saver.restore(model=kind(others)) == 1
        assert same(other, model)
        whole, _ = stages()
        assert saver.restore(model=whole) == 1
        assert same(whole, model)
        saver.save(2, model=model).wait()
        again, shares = stages()
        addresses = [p.data_ptr() for p in again.parameters()]
        assert saver.restore(2, model=[nn.DataParallel(shares[0]), torch.compile(shares[1])]) == 2
        assert same(again, model)
        assert addresses == [p.data_ptr() for p in again.parameters()]


def test_what_is_missing_and_what_is_too_much_is_told(tmp_path: Path) -> None:
    _, parts = stages()
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=parts).wait()
        into = stages()[1]
        before = [p.clone() for p in into[0].parameters()]
        with pytest.raises(ValueError, match=r"model\['layers\.1\.weight'\]: in step 1, but the"):
            saver.restore(model=into[:1])
        with pytest.raises(ValueError, match=r"model\['more\.weight'\]: not in step 1"):
            saver.restore(model=[*into, nn.ModuleDict({"more": nn.Linear(2, 2)})])
        pairs = zip(before, into[0].parameters(), strict=True)
        assert all(torch.equal(old, new) for old, new in pairs)


def test_a_name_that_two_parts_have_is_refused(tmp_path: Path) -> None:
    parts = [nn.Linear(2, 2), nn.Linear(2, 2)]
    message = r"^model\[0\] and model\[1\] both have 'weight': .* in a dict$"
    with stoker.Checkpointer(tmp_path) as saver:
        with pytest.raises(ValueError, match=message):
            saver.save(1, model=parts)
        saver.save(1, model={"a": parts[0], "b": parts[1]}).wait()
        saver.save(2, model=nn.Linear(2, 2)).wait()
        with pytest.raises(ValueError, match=message):
            saver.restore(2, model=parts)


def test_a_tensor_that_two_parts_share_is_no_collision(tmp_path: Path) -> None:
    weight = nn.Parameter(torch.rand(5, 3))
    parts = [nn.ParameterDict({"embed": weight, "a": nn.Parameter(torch.rand(2))})]
    parts.append(nn.ParameterDict({"embed": weight, "b": nn.Parameter(torch.rand(2))}))
    kept = {name: tensor.clone() for part in parts for name, tensor in part.items()}
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=parts).wait()
        for tensor in (weight, parts[0]["a"], parts[1]["b"]):
            tensor.detach().zero_()
        assert saver.restore(model=parts) == 1
    for part in parts:
        assert all(torch.equal(tensor, kept[name]) for name, tensor in part.items())
    assert parts[0]["embed"] is parts[1]["embed"]


def test_an_old_list_belongs_to_the_modules_in_their_order(tmp_path: Path) -> None:
    """Version 0.1 saved a list of states, which may have equal names."""
    old = [nn.Linear(2, 2), nn.Linear(2, 2)]
    into = [nn.Linear(2, 2), nn.Linear(2, 2)]
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=[dict(module.state_dict()) for module in old]).wait()
        assert saver.restore(model=into) == 1
        assert all(same(*pair) for pair in zip(into, old, strict=True))
        with pytest.raises(ValueError, match=r"model\[2\]: not in step 1"):
            saver.restore(model=[*into, nn.Linear(2, 2)])
    names = set(stoker.load(tmp_path))
    assert names == {f"model.{i}.{name}" for i in (0, 1) for name in ("weight", "bias")}


def test_a_list_inside_a_tree_stays_a_list(tmp_path: Path) -> None:
    state = {"nets": [nn.Linear(2, 2), nn.Linear(2, 2)]}
    into = {"nets": [nn.Linear(2, 2), nn.Linear(2, 2)]}
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state=state).wait()
        assert saver.restore(state=into) == 1
    assert all(same(*pair) for pair in zip(into["nets"], state["nets"], strict=True))
