"""The memory of tensors, as a save finds it."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from stoker import _native
from stoker._checkpoint.memory import is_plain, memory_of_tensor

torch = pytest.importorskip("torch", reason="torch is not installed")


def _freed() -> Any:
    tensor = torch.ones(4)
    tensor.untyped_storage().resize_(0)
    return tensor


def test_a_tensor_in_host_memory_is_described_at_once() -> None:
    whole = torch.rand(4, 6)
    for tensor in (whole, whole[2:], whole[0, 0], whole[:0], torch.nn.Parameter(whole)):
        found = _native.host_memory(tensor, torch.strided)
        assert found is not None
        dtype, shape, address, storage = found
        assert (dtype, shape, address) == (torch.float32, tuple(tensor.shape), tensor.data_ptr())
        assert type(shape) is tuple
        assert storage.data_ptr() == whole.data_ptr()
        assert memory_of_tensor(tensor).type == "F32"


@pytest.mark.parametrize(
    "tensor",
    [
        torch.rand(4, 6).T,
        torch.tensor([1 + 2j]).conj(),
        torch.tensor([1 + 2j]).conj().imag,
        torch.eye(3).to_sparse(),
        torch.empty(3, device="meta"),
        _freed(),
        np.ones(3),
    ],
    ids=["strides", "conj", "neg", "sparse", "meta", "freed", "array"],
)
def test_any_other_value_is_left_to_a_closer_look(tensor: Any) -> None:
    assert _native.host_memory(tensor, torch.strided) is None


def test_the_memory_stays_when_the_tensor_gets_another() -> None:
    tensor = torch.full((1000,), 7.0)
    memory = memory_of_tensor(tensor)
    tensor.data = torch.zeros(1000)
    gc.collect()
    assert memory.address == memory.owner.data_ptr() != tensor.data_ptr()
    assert bytes(memory.owner)[:4] == np.float32(7).tobytes()


def test_only_arrays_and_tensors_of_no_derived_class_are_plain() -> None:
    derived = torch.ones(2).as_subclass(type("Derived", (torch.Tensor,), {}))
    plain = [np.ones(2), torch.ones(2), torch.nn.Parameter(torch.ones(2)), torch.nn.Buffer()]
    assert all(is_plain(value) for value in plain)
    other = [derived, np.float32(1), np.ma.ones(2), 1, [torch.ones(2)]]
    assert not any(is_plain(value) for value in other)


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
