"""Tensor subclasses are saved as their inner tensors; get_extra_state() is opaque."""

from __future__ import annotations

import dataclasses
import enum
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

torch = pytest.importorskip("torch", reason="torch is not installed")
nn = torch.nn


class Rounding(enum.Enum):
    """A value in a context."""

    NEAREST = 1
    DOWN = 2


@dataclasses.dataclass(frozen=True)
class Layout:
    """A value in a context."""

    block: int
    rounding: Rounding = Rounding.NEAREST


class Int8(torch.Tensor):  # type: ignore[misc, name-defined]
    """8-bit values and a scale for each row, as torchao makes them; it has no copy_()."""

    @staticmethod
    def __new__(cls, values: Any, scale: Any, layout: Layout) -> Any:
        """Makes a tensor that claims to be float32."""
        return torch.Tensor._make_wrapper_subclass(
            cls, values.shape, dtype=torch.float32, device=values.device
        )

    def __init__(self, values: Any, scale: Any, layout: Layout) -> None:
        self.values, self.scale, self.form = values, scale, layout

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["values", "scale"], (self.form, torch.float32, self.values.device, torch.sum)

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return Int8(inner["values"], inner["scale"], context[0])

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any, kwargs: Any = None) -> Any:
        """Only detach and a product: as little as a class may have."""
        if function is torch.ops.aten.detach.default:
            return Int8(args[0].values, args[0].scale, args[0].form)
        raise NotImplementedError(f"{function}")

    def __repr__(self) -> str:
        return f"Int8({self.values.tolist()})"


def quantized(seed: int, layout: Layout = Layout(8)) -> Any:  # noqa: B008 (it is frozen)
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(-100, 100, (4, 8), dtype=torch.int8, generator=generator)
    return Int8(values, torch.rand(4, generator=generator), layout)


def make(seed: int, **settings: Any) -> Any:
    model = nn.ModuleDict({"q": nn.Linear(8, 4), "plain": nn.Linear(2, 2)})
    model["q"].weight = nn.Parameter(quantized(seed, **settings), requires_grad=False)
    return model


def inner(model: Any) -> list[Any]:
    weight = model["q"].weight
    return [weight.values, weight.scale, model["q"].bias, model["plain"].weight]


def test_a_subclass_is_filled_through_the_living_object(tmp_path: Path) -> None:
    model, into = make(1), make(2)
    kept, weight = [tensor.data_ptr() for tensor in inner(into)], into["q"].weight
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=nn.DataParallel(model)).wait()
        for verify in ("during", "before"):
            assert saver.restore(model=into, verify=verify) == 1
            for one, two in zip(inner(model), inner(into), strict=True):
                assert torch.equal(one, two)
            assert kept == [tensor.data_ptr() for tensor in inner(into)]
            assert into["q"].weight is weight
            weight.values.zero_()
    names = {f"model.{name}" for name in ("q.bias", "plain.weight", "plain.bias")}
    names |= {"model.q.weight.values", "model.q.weight.scale"}
    assert set(stoker.load(tmp_path)) == names
    text = (tmp_path / "step-000000000001" / "manifest.json").read_text()
    assert "Int8" not in text
    assert "Layout" not in text


def test_another_context_or_class_is_refused(tmp_path: Path) -> None:
    model = make(1)
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=model).wait()
        for layout in (Layout(4), Layout(8, Rounding.DOWN)):
            with pytest.raises(ValueError, match=r"model\['q\.weight'\]: a Int8 with .*block"):
                saver.restore(model=make(2, layout=layout))
        plain = make(2)
        plain["q"].weight = nn.Parameter(torch.zeros(4, 8))
        with pytest.raises(ValueError, match=r"an array, but a tensor subclass in step 1"):
            saver.restore(model=plain)
        with pytest.raises(ValueError, match="a tensor subclass, which is restored into an"):
            saver.restore(model=None)
        saver.save(2, model=plain).wait()
        with pytest.raises(ValueError, match=r"a Int8, but an array in step 2"):
            saver.restore(2, model=model)


class Small(torch.optim.Optimizer):  # type: ignore[misc, name-defined]
    """Has 8-bit state, as the optimizers of torchao."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 0.1})

    def step(self, closure: Any = None) -> None:
        """Makes the state."""
        for one in self.param_groups[0]["params"]:
            self.state[one] = {"moment": quantized(7), "step": torch.tensor(1.0)}


def test_8_bit_state_of_an_optimizer(tmp_path: Path) -> None:
    model, other = nn.Linear(3, 2), nn.Linear(3, 2)
    saved, into, fresh = (
        Small(model.parameters()),
        Small(other.parameters()),
        Small(other.parameters()),
    )
    saved.step()
    into.step()
    living = into.state[other.weight]["moment"]
    living.values.zero_()
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=model, optimizer=saved).wait()
        assert saver.restore(model=other, optimizer=into) == 1
        assert into.state[other.weight]["moment"] is living
        assert torch.equal(living.values, saved.state[model.weight]["moment"].values)
        with pytest.raises(ValueError, match="an optimizer has its state after its first step"):
            saver.restore(model=other, optimizer=fresh)


def test_a_subclass_of_another_kind_is_refused(tmp_path: Path) -> None:
    class Plain(torch.Tensor):  # type: ignore[misc, name-defined]
        pass

    with stoker.Checkpointer(tmp_path) as saver:
        for tensor, why in (
            (torch.ones(3).as_subclass(Plain), "a subclass of torch.Tensor"),
            (Int8(torch.ones(2, dtype=torch.int8), torch.ones(2), object()), "context"),  # type: ignore[arg-type]
        ):
            with pytest.raises(TypeError, match=f"state.*can't be saved|{why}"):
                saver.save(1, state={"x": tensor})


# get_extra_state():


class Extra(nn.Module):  # type: ignore[misc, name-defined]
    """As modules of TransformerEngine: bytes whose length changes."""

    def __init__(self, extra: Any) -> None:
        super().__init__()
        self.weight, self.extra, self.got = nn.Parameter(torch.ones(2)), extra, None

    def get_extra_state(self) -> Any:
        """Returns what it was given."""
        return self.extra

    def set_extra_state(self, state: Any) -> None:
        """Keeps it."""
        self.got = state


def content(value: Any) -> Any:
    if isinstance(value, io.BytesIO):
        return "stream", value.tell(), value.getvalue()
    if isinstance(value, torch.Tensor):
        return "tensor", value.dtype, value.tolist()
    return type(value), value


@pytest.mark.parametrize(
    "saved",
    [
        b"\x00\x01" * 50,
        io.BytesIO(b"stream" * 5),
        io.BytesIO(),
        torch.arange(5, dtype=torch.uint8),
        torch.empty(0, dtype=torch.uint8),
    ],
    ids=["bytes", "stream", "empty stream", "tensor", "empty tensor"],
)
def test_the_extra_state_of_a_module_is_handed_back(tmp_path: Path, saved: Any) -> None:
    now: list[Any] = [saved, None, b"", io.BytesIO(b"x"), torch.zeros(9, dtype=torch.uint8)]
    model = nn.Sequential(Extra(saved))
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=model).wait()
        for extra in now:
            if extra is None:
                continue  # torch expects no extra state then
            for into in (nn.Sequential(Extra(extra)), [nn.Sequential(Extra(extra))]):
                assert saver.restore(model=into) == 1
                module = into[0][0] if isinstance(into, list) else into[0]
                assert content(module.got) == content(saved)


def test_a_stream_in_a_tree(tmp_path: Path) -> None:
    stream = io.BytesIO(b"some bytes")
    stream.seek(4)
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"s": stream, "n": 1}).wait()
        done = saver.restore(state=None)
        assert done is not None
        assert content(done.trees["state"]["s"]) == ("stream", 0, b"some bytes")
        state = {"s": None, "n": 0}
        saver.restore(state=state)
        assert content(state["s"])[2] == b"some bytes"
        with pytest.raises(ValueError, match=r"state\['s'\]: an array, but a stream in step 1"):
            saver.restore(state={"s": np.zeros(10, np.uint8), "n": 0})
