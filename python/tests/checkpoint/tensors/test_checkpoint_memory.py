"""The memory of tensors, as a save finds it."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from stoker._checkpoint.tensors.memory import memory_of_array, memory_of_tensor, quick_memory

torch = pytest.importorskip("torch", reason="torch is not installed")


def _freed() -> Any:
    tensor = torch.ones(4)
    tensor.untyped_storage().resize_(0)
    return tensor


def test_a_tensor_in_host_memory_is_described_at_once() -> None:
    whole = torch.rand(4, 6)
    for tensor in (whole, whole[2:], whole[0, 0], whole[:0], torch.nn.Parameter(whole)):
        memory = quick_memory(tensor)
        assert memory is not None
        assert memory[:5] == ("F32", tuple(tensor.shape), None, tensor.data_ptr(), None)
        assert memory[:5] == memory_of_tensor(tensor)[:5]
        assert memory.device is None
        assert type(memory.shape) is tuple
        assert memory.owner.data_ptr() == whole.data_ptr()
    array = np.ones((2, 3))
    assert quick_memory(array) == memory_of_array(array)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.rand(4, 6).T,
        torch.tensor([1 + 2j]).conj(),
        torch.tensor([1 + 2j]).conj().imag,
        torch.eye(3).to_sparse(),
        torch.empty(3, device="meta"),
        _freed(),
        torch.ones(3, dtype=torch.complex128),
        torch.ones(2).as_subclass(type("Derived", (torch.Tensor,), {})),
        np.ones(3, "c16"),
        np.array([None]),
        np.ma.ones(2),
        np.float32(1),
        None,
    ],
    ids=[
        *("strides", "conj", "neg", "sparse", "meta", "freed", "complex128", "derived"),
        *("c16", "objects", "masked", "scalar", "none"),
    ],
)
def test_any_other_value_takes_a_closer_look(tensor: Any) -> None:
    assert quick_memory(tensor) is None


def test_the_memory_stays_when_the_tensor_gets_another() -> None:
    tensor = torch.full((1000,), 7.0)
    memory = quick_memory(tensor)
    assert memory is not None
    tensor.data = torch.zeros(1000)
    gc.collect()
    assert memory.address == memory.owner.data_ptr() != tensor.data_ptr()
    assert bytes(memory.owner)[:4] == np.float32(7).tobytes()


def test_errors_among_many_tensors_name_the_place(tmp_path: Path) -> None:
    state: dict[str, Any] = {f"layer{i}": torch.ones(2) for i in range(100)}
    with stoker.Checkpointer(tmp_path) as saver:
        with pytest.raises(TypeError, match=r"^state\['a'\]\['b'\]: .* its storage has 0 bytes"):
            saver.save(1, state={**state, "a": {**state, "b": _freed()}})
        with pytest.raises(TypeError, match=r"^state\['\\ud800'\]: .* it is not UTF-8"):
            saver.save(1, state={**state, "\ud800": torch.ones(2)})
        deep: Any = torch.ones(2)
        for _ in range(60):
            deep = {"x": deep}
        with pytest.raises(TypeError, match="nested deeper than 60"):
            saver.save(1, state=deep)
