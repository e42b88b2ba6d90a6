"""The state of an optimizer keeps its types, which torch's load_state_dict() casts."""

from __future__ import annotations

import collections
import copy
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

torch = pytest.importorskip("torch", reason="torch is not installed")
_OPTIMIZERS = sorted(
    {
        kind.__name__
        for kind in vars(torch.optim).values()
        if inspect.isclass(kind) and issubclass(kind, torch.optim.Optimizer)
    }
    - {"Optimizer"}
)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value, with its type, and the bytes of tensors."""
    yield path, type(value)
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield from leaves(item, f"{path}.{i}")
    elif isinstance(value, torch.Tensor):
        yield path, (value.dtype, value.contiguous().reshape(-1).view(torch.uint8).tolist())
    else:
        yield path, repr(value)


def state_of(optimizer: Any) -> list[tuple[str, Any]]:
    return list(leaves(copy.deepcopy(optimizer.state_dict()["state"])))


def check_comes_back(folder: Path, optimizer: Any, fresh: Any) -> None:
    before = state_of(optimizer)
    with stoker.Checkpointer(folder) as saver:
        saver.save(1, optimizer=optimizer)
        for into in (optimizer, fresh, fresh):
            saver.restore(optimizer=into)
            assert state_of(into) == before
    for into in (optimizer, fresh):
        assert not into._optimizer_load_state_dict_pre_hooks
        assert not into._optimizer_load_state_dict_post_hooks


def make_small() -> tuple[Any, Any]:
    weight = torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
    return weight, torch.optim.SGD([weight], lr=torch.tensor(0.1))


def make_trained(name: str, steps: int) -> Any:
    """An optimizer that has trained a matrix in float32, which then became bfloat16."""
    torch.manual_seed(1)
    weight = torch.nn.Parameter(torch.randn(4, 3))
    optimizer = getattr(torch.optim, name)([weight])

    def loss_of() -> Any:
        optimizer.zero_grad()
        words = torch.tensor([0, 2])
        loss = torch.nn.functional.embedding(words, weight, sparse=name == "SparseAdam").sum()
        loss.backward()
        return loss

    for group in optimizer.param_groups:
        group.update({"momentum": 0.9} if name == "SGD" else {})
    for _ in range(steps):
        optimizer.step(loss_of)
    weight.data = weight.data.bfloat16()
    return optimizer


@pytest.mark.parametrize("name", _OPTIMIZERS)
def test_float32_state_of_bfloat16_parameters(tmp_path: Path, name: str) -> None:
    optimizer = make_trained(name, 3)
    types = {str(kind[0]) for _, kind in state_of(optimizer) if isinstance(kind, tuple)}
    assert "torch.float32" in types
    check_comes_back(tmp_path, optimizer, make_trained(name, 0))


@pytest.mark.filterwarnings("ignore:Casting complex values")  # torch, before it is undone
def test_values_of_every_kind(tmp_path: Path) -> None:
    weight, optimizer = make_small()
    nan = torch.tensor([1.001, float("nan"), -0.0])
    optimizer.state[weight] = {
        "master": torch.tensor([1.001, 2.002, 3.003]),
        "nan": nan,
        "q": torch.tensor([250, 251, 255], dtype=torch.uint8),
        "count": torch.tensor(2**40 + 1),
        "z": torch.tensor([1 + 2j]),
        "same": torch.ones(3, dtype=torch.bfloat16),
        "step": torch.tensor(7.0, dtype=torch.float64),
        "name": "blockwise",
        "raw": b"\x00\x01",
        "array": np.arange(3),
        "list": [nan.clone(), (torch.tensor([1.001]), "x"), None, 3],
        "ordered": collections.OrderedDict(b=torch.tensor([2.002]), a="y"),
        "size": torch.Size([2, 3]),
        "set": {1, 2},
    }
    check_comes_back(tmp_path, optimizer, make_small()[1])


def test_hooks_of_others_work_and_see_the_types_that_were_saved(tmp_path: Path) -> None:
    weight, optimizer = make_small()
    optimizer.state[weight]["old"] = torch.tensor([1.001])
    weight, fresh = make_small()
    seen = []

    def rename(_: Any, state: dict[str, Any]) -> dict[str, Any]:
        entries = {key: {"new": entry["old"]} for key, entry in state["state"].items()}
        return {**state, "state": entries}

    fresh.register_load_state_dict_pre_hook(rename)
    fresh.register_load_state_dict_post_hook(lambda o: seen.append(o.state[weight]["new"].dtype))
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, optimizer=optimizer)
        saver.restore(optimizer=fresh)
    assert seen == [torch.float32]
    assert torch.equal(fresh.state[weight]["new"], torch.tensor([1.001]))


class Sets(torch.optim.SGD):  # type: ignore[misc, name-defined]
    """Changes a state that it is given."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for entry in self.state.values():
            entry["old"] = entry["old"] + 1


class Loads(torch.optim.SGD):  # type: ignore[misc, name-defined]
    """Converts a state by itself."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As torch does, and then to float16."""
        super().load_state_dict(state_dict)
        for entry in self.state.values():
            entry["old"] = entry["old"].half()


@pytest.mark.parametrize(("kind", "expected"), [(Sets, "bfloat16"), (Loads, "float16")])
def test_what_a_subclass_makes_of_its_state_stays(tmp_path: Path, kind: Any, expected: str) -> None:
    weight, optimizer = make_small()
    optimizer.state[weight]["old"] = torch.tensor([1.0])
    fresh = kind([weight], lr=0.1)
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, optimizer=optimizer)
        saver.restore(optimizer=fresh)
    assert fresh.state[weight]["old"].dtype == getattr(torch, expected)


@pytest.mark.parametrize("kind", ["AdamW", "SGD", "RMSprop", "Rprop"])
@pytest.mark.parametrize("has_stepped", [False, True])
def test_groups_in_another_order_are_refused(tmp_path: Path, kind: str, has_stepped: bool) -> None:
    """The state of a (3, 3) parameter is none of a (3,) parameter, before the first step too."""
    weight, bias = (torch.nn.Parameter(torch.ones(shape)) for shape in ((3, 3), (3,)))
    settings = {"momentum": 0.9} if kind == "SGD" else {}

    def make(*parameters: Any) -> Any:
        return getattr(torch.optim, kind)([{"params": [one]} for one in parameters], **settings)

    def step(optimizer: Any) -> None:
        for one in (weight, bias):
            one.grad = torch.ones_like(one)
        optimizer.step()

    saved, other = make(weight, bias), make(bias, weight)
    step(saved)
    if has_stepped:
        step(other)
    before = state_of(other)
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, optimizer=saved)
        with pytest.raises(ValueError, match=r"optimizer\['state'\]\[0\]"):
            saver.restore(optimizer=other)
        assert state_of(other) == before
        saver.restore(optimizer=make(weight, bias))
