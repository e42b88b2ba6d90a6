"""The state of optimizers is saved by the names of parameters, of all modules in the call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import stoker

torch = pytest.importorskip("torch", reason="torch is not installed")
nn, optim = torch.nn, torch.optim


def make(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4), nn.Linear(4, 2))


def train(model: Any, *optimizers: Any, steps: int = 3) -> list[float]:
    losses = []
    for step in range(steps):
        x = torch.randn(5, 3, generator=torch.Generator().manual_seed(step))
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        losses.append(loss.item())
    return losses


def state_by_name(model: Any, *optimizers: Any) -> dict[str, Any]:
    found = {}
    for name, parameter in model.named_parameters():
        for optimizer in optimizers:
            for key, item in optimizer.state.get(parameter, {}).items():
                found[f"{name}.{key}"] = item
    return found


def same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    assert left.keys() == right.keys()
    return bool(left) and all(torch.equal(left[name], right[name]) for name in left)


def test_the_order_and_the_groups_of_parameters_do_not_matter(tmp_path: Path) -> None:
    model = make()
    saved = optim.AdamW(model.parameters(), lr=0.03)
    train(model, saved)
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=nn.DataParallel(model), optimizer=saved).wait()
        names = set(stoker.load(tmp_path))
        assert {"optimizer.state.model.0.weight.exp_avg", "model.0.weight"} <= names
        other = make(1)
        weights = [one for one in other.parameters() if one.ndim == 2]
        biases = [one for one in other.parameters() if one.ndim == 1]
        groups = [{"params": biases[::-1]}, {"params": weights[::-1]}]
        into = optim.AdamW(groups, lr=0.5)  # has made no step
        assert saver.restore(model=torch.compile(other), optimizer=into) == 1
    assert [group["lr"] for group in into.param_groups] == [0.03, 0.03]
    assert same(state_by_name(other, into), state_by_name(model, saved))
    assert train(other, into) == train(model, saved)


def test_groups_that_were_merged_must_have_had_the_same_settings(tmp_path: Path) -> None:
    model = make()
    first, *others = model.parameters()
    saved = optim.SGD([{"params": [first], "lr": 0.1}, {"params": others}], lr=0.2, momentum=0.9)
    train(model, saved)
    into = optim.SGD(model.parameters(), lr=0.7, momentum=0.9)
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=model, optimizer=saved).wait()
        text = "optimizer: parameters of its group 0 are in groups 0, 1 of step 1, whose settings"
        with pytest.raises(ValueError, match=text):
            saver.restore(model=model, optimizer=into)
    assert into.param_groups[0]["lr"] == 0.7


def test_other_parameters_are_refused_by_name(tmp_path: Path) -> None:
    model = make()
    saved = optim.AdamW([model[0].weight, model[2].weight])
    train(model, saved)
    into = optim.AdamW([model[0].weight, model[3].weight])
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=model, optimizer=saved).wait()
        with pytest.raises(ValueError, match="2 places do not fit step 1") as caught:
            saver.restore(model=model, optimizer=into)
    assert str(caught.value).splitlines()[1:] == [
        "  optimizer['model.3.weight']: not in step 1",
        "  optimizer['model.2.weight']: in step 1, but the optimizer does not have this parameter",
    ]


def test_a_shape_that_differs_is_told_by_name(tmp_path: Path) -> None:
    model, other = make(), nn.Sequential(nn.Linear(3, 5))
    saved = optim.AdamW(model[0].parameters())
    train(model, saved)
    into = optim.AdamW(other[0].parameters())
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=model, optimizer=saved).wait()
        expected = r"optimizer\['state'\]\['model\.0\.weight'\]\['exp_avg'\]: of shape \(4, 3\)"
        with pytest.raises(ValueError, match=expected):
            saver.restore(model=other, optimizer=into, partial=True)


def test_without_the_module_the_order_decides(tmp_path: Path) -> None:
    model = make()
    saved = optim.AdamW(model.parameters())
    train(model, saved)
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=model, optimizer=saved).wait()
        into = optim.AdamW(model.parameters(), lr=0.7)
        assert saver.restore(optimizer=into, partial=True) == 1
        assert same(state_by_name(model, into), state_by_name(model, saved))
        # By number, as it was up to 0.1: in the same order, with and without the module.
        saver.save(2, optimizer=saved).wait()
        assert "optimizer.state.0.exp_avg" in stoker.load(tmp_path)
        into = optim.AdamW(model.parameters(), lr=0.7)
        assert saver.restore(2, optimizer=into) == 2
        assert same(state_by_name(model, into), state_by_name(model, saved))
        saver.save(3, model=model, optimizer=saved.state_dict()).wait()
        into = optim.AdamW(model.parameters(), lr=0.7)
        assert saver.restore(3, model=model, optimizer=into) == 3
        assert same(state_by_name(model, into), state_by_name(model, saved))
        short = optim.AdamW(list(model.parameters())[1:])
        with pytest.raises(ValueError, match=r"groups of \[5\] parameters, but of \[6\] in step 1"):
            saver.restore(1, optimizer=short, partial=True)


@pytest.mark.parametrize("kind", [list, dict])
def test_several_optimizers_of_several_modules(tmp_path: Path, kind: Any) -> None:
    """A GAN: names that are equal in both modules are told apart by their trees."""
    nets = make(1), make(2)
    optimizers = [optim.Adam(nets[0].parameters()), optim.RMSprop(nets[1].parameters())]
    for net, optimizer in zip(nets, optimizers, strict=True):
        train(net, optimizer)

    def given(many: list[Any]) -> Any:
        return many if kind is list else dict(zip("gd", many, strict=True))

    others = make(3), make(4)
    fresh = [optim.Adam(others[0].parameters()), optim.RMSprop(others[1].parameters())]
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, g=nets[0], d=nets[1], optimizers=given(optimizers)).wait()
        assert saver.restore(g=others[0], d=others[1], optimizers=given(fresh)) == 1
    for net, other, old, new in zip(nets, others, optimizers, fresh, strict=True):
        assert same(state_by_name(net, old), state_by_name(other, new))
        assert train(net, old) == train(other, new)
    middle = "0" if kind is list else "g"
    name = f"optimizers.{middle}.state.g.0.weight.exp_avg"
    assert name in stoker.load(tmp_path)


def test_one_optimizer_for_each_parameter(tmp_path: Path) -> None:
    """As when each one steps in the backward pass."""
    model, other = make(), make(1)
    many = {one: optim.Adam([one], lr=0.1) for one in model.parameters()}
    train(model, *many.values())
    fresh = {one: optim.Adam([one]) for one in reversed(list(other.parameters()))}
    kept = dict(fresh)
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=model, optimizer=many).wait()
        done = saver.restore(model=other, optimizer=fresh)
        assert done is not None
        assert done.trees["optimizer"] is fresh
        assert list(fresh.items()) == list(kept.items())
        with pytest.raises(ValueError, match="optimizer: a dict by parameters, and no module in"):
            saver.save(2, optimizer=many)
        with pytest.raises(ValueError, match="optimizer: a dict by parameters, and no module in"):
            saver.restore(optimizer=fresh, partial=True)
        fewer = dict(list(fresh.items())[1:])
        with pytest.raises(
            ValueError, match=r"optimizer\['model\.3\.bias'\]: in step 1, but not in memory"
        ):
            saver.restore(model=other, optimizer=fewer)
    assert same(state_by_name(model, *many.values()), state_by_name(other, *fresh.values()))
    assert train(model, *many.values()) == train(other, *fresh.values())


def test_a_tied_parameter_is_found_by_any_of_its_names(tmp_path: Path) -> None:
    def tied(names: list[str]) -> Any:
        weight = nn.Parameter(torch.rand(3, 2))
        return nn.ParameterDict(dict.fromkeys(names, weight))

    model, other = tied(["embed", "head"]), tied(["head", "embed"])
    saved, into = optim.Adam(model.parameters()), optim.Adam(other.parameters())
    model["head"].sum().backward()
    saved.step()
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=model, optimizer=saved).wait()
        assert saver.restore(model=other, optimizer=into) == 1
    assert torch.equal(into.state[other["head"]]["exp_avg"], saved.state[model["head"]]["exp_avg"])


class Factors(optim.SGD):  # type: ignore[misc, name-defined]
    """Has lists of tensors in its state, as Shampoo does."""

    def step(self, closure: Any = None) -> None:
        """Adds to the factors of each dimension."""
        for group in self.param_groups:
            for one in group["params"]:
                state = self.state[one]
                if not state:
                    state["factors"] = [torch.zeros(size, size) for size in one.shape]
                    state["pair"] = (torch.zeros(2, dtype=torch.int8), [torch.ones(1)])
                for number, factor in enumerate(state["factors"]):
                    factor.add_(number + 1.5)
                    one.data -= 0.01 * factor.sum()


def test_lists_of_tensors_in_the_state(tmp_path: Path) -> None:
    model, other = make(), make(1)
    saved, into = (Factors(net.parameters(), lr=0.1) for net in (model, other))
    train(model, saved)
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=model, optimizer=saved).wait()
        for _ in range(2):  # into a fresh one, and into one that has a state
            assert saver.restore(model=other, optimizer=into) == 1
            entry = into.state[other[0].weight]
            assert [factor.tolist() for factor in entry["factors"]] == [
                factor.tolist() for factor in saved.state[model[0].weight]["factors"]
            ]
            assert (type(entry["pair"]), entry["pair"][0].dtype) == (tuple, torch.int8)
    assert train(other, into) == train(model, saved)


@pytest.mark.skipif(not hasattr(optim, "Muon"), reason="this torch has no Muon")
def test_muon(tmp_path: Path) -> None:
    model, other = make(), make(1)
    saved, into = (
        optim.Muon([one for one in net.parameters() if one.ndim == 2]) for net in (model, other)
    )
    train(model, saved)
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=model, optimizer=saved).wait()
        assert saver.restore(model=other, optimizer=into) == 1
    assert train(other, into) == train(model, saved)


def test_named_parameters_of_torch_keep_their_names(tmp_path: Path) -> None:
    model, other = make(), make(1)
    saved = optim.AdamW(model.named_parameters())
    train(model, saved)
    into = optim.AdamW(reversed(list(other.named_parameters())))
    names = list(into.param_groups[0]["param_names"])
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=model, optimizer=saved).wait()
        assert saver.restore(model=other, optimizer=into) == 1
    assert into.param_groups[0]["param_names"] == names
    assert same(state_by_name(other, into), state_by_name(model, saved))


def test_stages_of_a_pipeline_have_their_names_together(tmp_path: Path) -> None:
    model, other = make(), make(1)
    parts = [nn.ModuleDict({"0": model[0]}), nn.ModuleDict({"2": model[2], "3": model[3]})]
    saved = optim.AdamW([one for part in parts for one in part.parameters()])
    train(model, saved)
    into = optim.AdamW(other.parameters())
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=parts, optimizer=saved).wait()
        assert saver.restore(model=other, optimizer=into) == 1
    assert train(other, into) == train(model, saved)
