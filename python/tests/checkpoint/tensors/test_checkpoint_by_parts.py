"""Copies between a device and the host when the device has little memory left, without a GPU."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from stoker._checkpoint.device import cuda_load, targets
from stoker._checkpoint.tensors import memory
from stoker._checkpoint.tensors.by_parts import copy_between, copy_to_host
from stoker._checkpoint.tensors.memory import Memory

torch = pytest.importorskip("torch", reason="torch is not installed")


class Far:
    """A tensor with gaps of a device with memory for a few elements."""

    is_cuda = True
    device = "cuda:3"

    def __init__(self, elements: Any, room: int) -> None:
        self.elements = elements
        self.room = room
        self.shape, self.dtype = elements.shape, elements.dtype

    def numel(self) -> int:
        """As torch."""
        return int(self.elements.numel())

    def narrow(self, *where: int) -> Far:
        """As torch."""
        return Far(self.elements.narrow(*where), self.room)

    def detach(self) -> Far:
        """As torch."""
        return self

    def __getattr__(self, name: str) -> Any:
        """What needs memory of the device for all elements."""
        if name not in ("contiguous", "to", "copy_"):
            raise AttributeError(name)
        if self.numel() > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return getattr(self.elements, name)


class Near:
    """A tensor in host memory, into which a Far one can be copied."""

    def __init__(self, elements: Any) -> None:
        self.elements = elements
        self.shape = elements.shape

    def numel(self) -> int:
        """As torch."""
        return int(self.elements.numel())

    def narrow(self, *where: int) -> Near:
        """As torch."""
        return Near(self.elements.narrow(*where))

    def copy_(self, far: Far) -> None:
        """As torch."""
        self.elements.copy_(far.to("cpu"))


@pytest.fixture
def near(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = torch.empty

    def empty_near(*shape: Any, device: Any = None, **options: Any) -> Any:
        made = empty(*shape, **options)
        return Near(made) if device == "cpu" else made

    monkeypatch.setattr(torch, "empty", empty_near)


@pytest.mark.usefixtures("near")
@pytest.mark.parametrize("room", [1, 2, 7, 100])
def test_a_copy_is_made_in_parts_that_fit(room: int) -> None:
    elements = torch.arange(66.0).view(6, 11)[::2, 1::2]
    found = copy_to_host(Far(elements, room))
    assert torch.equal(found.elements if room < elements.numel() else found, elements)
    into = torch.zeros(11, 11)[::4, 2:7]
    copy_between(Far(into, room), elements)
    assert torch.equal(into, elements)


def test_without_memory_for_one_element_the_error_is_that_of_torch() -> None:
    with pytest.raises(torch.OutOfMemoryError):
        copy_between(Far(torch.zeros(3), 0), torch.ones(3))


def test_a_tensor_with_gaps_is_saved_from_the_host_if_the_device_has_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    elements = torch.arange(12.0).view(3, 4)[:, ::2]
    copy = elements.contiguous()
    monkeypatch.setattr(memory, "copy_to_host", lambda tensor: copy)
    for room, device in ((6, "cuda:3"), (5, None)):
        far = Memory("F32", (3, 2), (16, 8), 64, None, Far(elements, room), "cuda:3")
        found = far.to_save(has_cuda=True)
        assert (found.device, found.strides, found.shape) == (device, None, (3, 2))


def test_a_tensor_with_gaps_is_read_to_the_host_if_the_device_has_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    empty = torch.empty

    def full(*arguments: Any, device: Any, **options: Any) -> Any:
        if device != "cpu":
            raise torch.OutOfMemoryError("CUDA out of memory")
        return empty(*arguments, device=device, **options)

    monkeypatch.setattr(torch, "empty", full)
    made = cuda_load.new_device_staging(Far(torch.zeros(3, 4)[:, ::2], 0))
    assert made.shape == (3, 2)
    assert made.device.type == "cpu"


def test_targets_are_complete_when_copy_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy within a device is asynchronous: the streams of all devices are waited for."""
    order: list[str] = []

    class Stream:
        def __init__(self, device: Any) -> None:
            self.device = device

        def synchronize(self) -> None:
            order.append(f"wait {self.device}")

    def copy_into(array: Any, staging: Any) -> None:
        order.append(f"copy {staging}")

    monkeypatch.setattr(sys.modules["torch"].cuda, "current_stream", Stream)
    monkeypatch.setattr(targets, "copy_into", copy_into)
    found = targets.Targets()
    found._copies = [
        (Far(torch.zeros(1), 1), "a"),
        (torch.zeros(1), "b"),
        (Far(torch.zeros(2), 9), "c"),
    ]
    found.copy()
    assert order == ["copy a", "copy b", "copy c", "wait cuda:3"]
