"""restore(strict=False) as torch means it, and verify="before", which fails without a trace."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

torch = pytest.importorskip("torch", reason="torch is not installed")
nn = torch.nn


def model_of(**parts: Any) -> Any:
    return nn.ModuleDict({"body": nn.Linear(3, 4), **parts})


def test_names_that_differ_are_listed_as_torch_does(tmp_path: Path) -> None:
    saved, into = model_of(old=nn.Linear(4, 2)), model_of(new=nn.LayerNorm(4))
    kept = {name: tensor.clone() for name, tensor in into.state_dict().items()}
    addresses = [tensor.data_ptr() for tensor in into.state_dict().values()]
    expected = model_of(new=nn.LayerNorm(4)).load_state_dict(saved.state_dict(), strict=False)
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=nn.DataParallel(saved)).wait()
        with pytest.raises(ValueError, match="4 places do not fit"):
            saver.restore(model=into)
        done = saver.restore(model=into, strict=False)
        assert done is not None
        assert done.missing == [f"model.{name}" for name in expected.missing_keys]
        assert done.unexpected == [f"model.{name}" for name in expected.unexpected_keys]
        strictly = saver.restore(model=model_of(old=nn.Linear(4, 2)))
        assert strictly is not None
        assert (strictly.missing, strictly.unexpected) == ([], [])
    for name, tensor in into.state_dict().items():
        source = saved.state_dict() if name.startswith("body") else kept
        assert torch.equal(tensor, source[name]), name
    assert addresses == [tensor.data_ptr() for tensor in into.state_dict().values()]


def test_a_shape_that_differs_is_refused_anyway(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=model_of(head=nn.Linear(4, 2))).wait()
        with pytest.raises(ValueError, match=r"model\['head\.weight'\]: float32 \(3, 4\), but"):
            saver.restore(model=model_of(head=nn.Linear(4, 3)), strict=False)


def test_trees_dicts_and_parts(tmp_path: Path) -> None:
    space = argparse.Namespace(a=1)
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"a": 1, "deep": {"x": np.ones(2)}, "space": space}).wait()
        state = {"a": 0, "b": 5, "deep": {"x": np.zeros(2), "y": np.full(2, 7.0)}}
        state["space"] = argparse.Namespace(a=0, b=4)
        other = {"kept": 3}
        done = saver.restore(state=state, other=other, rng=True, strict=False)
        assert done is not None
        assert done.missing == ["state.b", "state['deep'].y", "state['space'].b", "other", "rng"]
        assert done.unexpected == []
        assert done.trees["other"] is other
        assert (state["a"], state["b"], other) == (1, 5, {"kept": 3})
        assert state["space"] == argparse.Namespace(a=1, b=4)
        deep: Any = state["deep"]
        assert (deep["x"].tolist(), deep["y"].tolist()) == ([1, 1], [7, 7])
        saver.save(2, model=model_of()).wait()
        parts = [model_of(), nn.ModuleDict({"more": nn.Linear(2, 2, bias=False)})]
        done = saver.restore(2, model=parts, strict=False)
        assert done is not None
        assert done.missing == ["model.more.weight"]


def test_an_optimizer_with_other_parameters(tmp_path: Path) -> None:
    saved, into = model_of(old=nn.Linear(4, 2)), model_of(new=nn.Linear(4, 5, bias=False))
    optimizers = [torch.optim.AdamW(model.parameters(), lr=0.3) for model in (saved, into)]
    for module in (saved["old"], saved["body"]):
        for parameter in module.parameters():
            parameter.grad = torch.ones_like(parameter)
    optimizers[0].step()
    optimizers[1].param_groups[0]["lr"] = 0.7
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=saved, optimizer=optimizers[0]).wait()
        done = saver.restore(model=into, optimizer=optimizers[1], strict=False)
    assert done is not None
    assert done.missing == ["model.new.weight", "optimizer.model.new.weight"]
    assert done.unexpected[2:] == ["optimizer.model.old.weight", "optimizer.model.old.bias"]
    state = optimizers[1].state
    assert into["new"].weight not in state
    theirs = optimizers[0].state[saved["body"].weight]
    assert torch.equal(state[into["body"].weight]["exp_avg"], theirs["exp_avg"])
    assert optimizers[1].param_groups[0]["lr"] == 0.3


class Own(nn.Module):  # type: ignore[misc, name-defined]
    """Has a load_state_dict() of its own, which accepts nothing but all names."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.weights = [torch.full((2,), float(i)) for i in range(count)]

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """All weights, by number."""
        return {f"w{i}": weight for i, weight in enumerate(self.weights)}

    def load_state_dict(self, state: Any, *args: Any, **kwargs: Any) -> None:
        """Takes as many weights as there are."""
        self.weights = [state[f"w{i}"] for i in range(len(self.weights))]


def test_a_module_that_loads_by_itself_gets_what_it_has(tmp_path: Path) -> None:
    into = Own(3)
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model={"w0": torch.full((2,), 9.0), "x": torch.zeros(1)}).wait()
        done = saver.restore(model=into, strict=False)
    assert done is not None
    assert [weight[0].item() for weight in into.weights] == [9, 1, 2]
    assert (done.missing, done.unexpected) == (["model.w1", "model.w2"], ["model.x"])


# verify="before":


def damage(folder: Path) -> None:
    """Changes the last byte of the data."""
    path = folder / "step-000000000001" / "rank-00000.safetensors"
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("verify", ["during", "before"])
def test_damage_that_is_found_before_leaves_everything_untouched(
    tmp_path: Path, verify: Any
) -> None:
    size = 3 << 20  # several chunks: the first are intact
    model = nn.ParameterDict({name: nn.Parameter(torch.ones(size)) for name in "ab"})
    state: dict[str, Any] = {"n": 1, "x": np.ones(8, np.uint8)}
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=model, state=state).wait()
    damage(tmp_path)
    for tensor in model.values():
        tensor.detach().zero_()
    state = {"n": 0, "x": np.zeros(8, np.uint8)}
    versions = [tensor._version for tensor in model.values()]
    with stoker.Checkpointer(tmp_path) as saver:
        with pytest.raises(stoker.CorruptError) as caught:
            saver.restore(model=model, state=state, verify=verify)
        is_untouched = not any(tensor.any() for tensor in model.values())
        assert is_untouched == (verify == "before")
        assert ("do not use them" in str(caught.value)) == (verify == "during")
        assert state["n"] == 0
        if verify == "before":
            assert not state["x"].any()
            assert versions == [tensor._version for tensor in model.values()]


def test_verified_before_it_restores_the_same(tmp_path: Path) -> None:
    model, other = model_of(), model_of()
    optimizers = [torch.optim.AdamW(one.parameters()) for one in (model, other)]
    model["body"](torch.ones(1, 3)).sum().backward()
    optimizers[0].step()
    part = stoker.Slice(np.zeros((2, 2)), (2, 2), (0, 0))
    weights = np.arange(4.0).reshape(2, 2)
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(
            1,
            model=model,
            optimizer=optimizers[0],
            state={
                "view": torch.arange(12).reshape(3, 4),
                "w": stoker.Slice(weights, (2, 2), (0, 0)),
            },
        ).wait()
        view = torch.zeros(4, 3, dtype=torch.int64)
        state = {"view": view.T, "w": part}
        addresses = [one.data_ptr() for one in other.parameters()]
        saver.restore(model=other, optimizer=optimizers[1], state=state, verify="before")
        assert addresses == [one.data_ptr() for one in other.parameters()]
        with pytest.raises(ValueError, match='verify=\'after\': it is "during" or "before"'):
            saver.restore(model=other, verify="after")  # type: ignore[arg-type]
    assert torch.equal(view.T, torch.arange(12).reshape(3, 4))
    np.testing.assert_array_equal(part.array, weights)
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, two)
        first, second = optimizers[0].state[one], optimizers[1].state[two]
        assert torch.equal(first["exp_avg"], second["exp_avg"])
