"""Places in memory that overlap, and tensors on devices: read beside their place, then copied."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from stoker._checkpoint.tensors import memory as memory_module

torch = pytest.importorskip("torch", reason="torch is not installed")

_SIZE = 1 << 20  # 4 MiB of float32: several pieces, which threads read


class Tied(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Two layers, perhaps of one weight."""

    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.first = torch.nn.Linear(1024, 1024, bias=False)
        self.last = torch.nn.Linear(1024, 1024, bias=False)
        if tied:
            self.last.weight = self.first.weight


def test_what_was_saved_untied_is_restored_into_a_tied_module_as_torch_does_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Threads raced into one memory, which was then a mixture of both."""
    untied, tied, of_torch = Tied(False), Tied(True), Tied(True)
    of_torch.load_state_dict(untied.state_dict())
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=untied)
        for _ in range(5):
            with torch.no_grad():
                tied.first.weight.zero_()
            assert saver.restore(model=tied) == 1
            assert torch.equal(tied.first.weight, of_torch.first.weight)
            assert torch.equal(tied.last.weight, untied.last.weight)
    assert tied.first.weight is tied.last.weight
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(told) == 5
    assert told[0].startswith("model['first.weight'] and model['last.weight'] share memory, but")


def test_equal_tensors_and_tied_ones_are_restored_without_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    equal, tied = Tied(False), Tied(True)
    equal.last.load_state_dict(equal.first.state_dict())
    with stoker.Checkpointer(tmp_path) as saver:
        for step, model in enumerate((equal, tied)):
            saver.save(step, model=model)
            into = Tied(True)
            saver.restore(model=into)
            assert torch.equal(into.first.weight, model.first.weight)
            assert into.first.weight is into.last.weight
            into = Tied(False)  # and the other way round
            saver.restore(model=into)
            assert torch.equal(into.first.weight, model.first.weight)
            assert torch.equal(into.last.weight, model.first.weight)
    assert not caplog.records


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_of_places_that_overlap_the_later_one_is_valid(tmp_path: Path, kind: str) -> None:
    def full(value: float, *shape: int) -> Any:
        return np.full(shape, value, np.float32)

    saved = {"all": full(1, _SIZE), "head": full(2, _SIZE // 2), "odd": full(3, _SIZE // 2)}
    saved["back"] = full(4, 10)
    expected = np.empty(_SIZE, np.float32)
    expected[:] = 1
    expected[: _SIZE // 2] = 2
    expected[1::2] = 3
    expected[:10] = 4
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state=saved)
        room: Any = np.zeros(_SIZE, np.float32)
        views = [room, room[: _SIZE // 2], room[1::2], room[9::-1]]
        if kind == "torch":
            flat = torch.from_numpy(room)
            views = [flat, flat[: _SIZE // 2], flat[1::2], flat[:10]]
        saver.restore(state=dict(zip(saved, views, strict=True)))
        assert room.tobytes() == expected.tobytes()


def test_a_flat_buffer_and_its_views_come_back(tmp_path: Path) -> None:
    """As of those who keep all parameters in one tensor."""
    flat = torch.arange(3000.0)
    tree = {"views": [flat[:1000].view(10, 100), flat[1000:]], "flat": flat}
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state=tree)
        flat.zero_()
        saver.restore(state=tree)
    assert torch.equal(flat, torch.arange(3000.0))


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Makes CPU tensors stand for those of a device; the list has what was filled by a copy."""
    filled: list[Any] = []
    copy = memory_module.copy_into

    def copy_into(array: Any, staging: Any) -> None:
        filled.append(array)
        copy(array, staging)

    monkeypatch.setattr(memory_module, "_is_on_host", lambda tensor: False)
    monkeypatch.setattr("stoker._native.host_memory", lambda *_: None)
    monkeypatch.setattr("stoker._checkpoint.device.targets.copy_into", copy_into)
    return filled


def make() -> tuple[Any, Any]:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
    model[1].weight = model[0].weight
    return model, torch.optim.AdamW(model.parameters(), lr=0.1)


def test_tensors_of_a_device_are_copied(tmp_path: Path, far: list[Any]) -> None:
    torch.manual_seed(3)
    model, optimizer = make()
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
    odd = torch.arange(24.0, dtype=torch.bfloat16).view(4, 6)[::2, 1::2]
    z = torch.tensor([1 + 2j, 3j], dtype=torch.complex128)
    state = {"odd": odd, "z": z, "conj": z.conj(), "none": odd[:0]}
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=model, optimizer=optimizer, state=state)
        saver.wait()
        stored = _names(tmp_path / "step-000000000001")
        assert "model.0.weight" in stored
        assert "model.1.weight" not in stored  # once, by the address on the device
        fresh, fresh_optimizer = make()
        into = {key: torch.zeros_like(state[key]) for key in ("z", "none")}
        into["odd"] = torch.zeros(3, 2, dtype=torch.bfloat16).T
        into["conj"] = torch.zeros(2, dtype=torch.complex128)
        kept = dict(into)
        weight = fresh[0].weight
        assert saver.restore(model=fresh, optimizer=fresh_optimizer, state=into) == 1
    assert any(array.data_ptr() == weight.data_ptr() for array in far)
    assert fresh[0].weight is fresh[1].weight is weight
    for name, tensor in model.state_dict().items():
        assert torch.equal(fresh.state_dict()[name], tensor), name
    pairs = zip(
        optimizer.state_dict()["state"].values(),
        fresh_optimizer.state_dict()["state"].values(),
        strict=True,
    )
    for left, right in pairs:
        assert all(torch.equal(left[key], right[key]) for key in left)
    for key, tensor in state.items():
        assert into[key] is kept[key]
        assert torch.equal(into[key], tensor.resolve_conj()), key


def _names(checkpoint: Path) -> list[str]:
    native = stoker._native.OpenCheckpoint(bytes(checkpoint))
    return [name for name, _, _ in native.tensors()]


def test_nothing_on_a_device_changes_if_a_byte_is_wrong(tmp_path: Path, far: list[Any]) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"a": torch.ones(10), "b": torch.ones(_SIZE)}).wait()
        file = tmp_path / "step-000000000001" / "rank-00000.safetensors"
        file.chmod(0o644)
        with file.open("r+b") as opened:
            opened.seek(-1, 2)
            opened.write(b"\xff")
        into = {"a": torch.zeros(10), "b": torch.zeros(_SIZE)}
        with pytest.raises(stoker.CorruptError):
            saver.restore(state=into)
    assert not far
    assert not into["a"].any()
    assert not into["b"].any()


def test_a_temporary_of_a_device_is_not_taken_for_the_next_one(
    tmp_path: Path, far: list[Any]
) -> None:
    """Its memory is kept until all were looked at: the next one would get the same address."""

    class Makes:
        def state_dict(self) -> dict[str, Any]:
            """New tensors, for which nobody else has a reference."""
            return {"w": torch.full((100_000,), float(next(numbers)))}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            """Not needed."""

    numbers = iter(range(100))
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state=[Makes() for _ in range(20)])
        done = saver.restore(state=None)
    assert done is not None
    assert [float(made["w"][5]) for made in done.trees["state"]] == list(range(20))


def test_slices_of_a_device_are_copied(tmp_path: Path, far: list[Any]) -> None:
    whole = torch.arange(12.0).view(4, 3)
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"w": stoker.Slice(whole, (4, 3), (0, 0))})
        part = stoker.Slice(torch.zeros(2, 3), (4, 3), (1, 0))
        saver.restore(state={"w": part})
    assert torch.equal(part.array, whole[1:3])
    assert far


def test_new_tensors_are_on_the_cpu_whatever_the_default_is(tmp_path: Path) -> None:
    tree = {"w": torch.ones(3), "z": torch.ones(2, dtype=torch.complex128)}
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state=tree)
        with torch.device("meta"):
            done = saver.restore(state=None)
    assert done is not None
    for key, tensor in tree.items():
        assert torch.equal(done.trees["state"][key], tensor)


def test_an_inference_tensor_is_filled(tmp_path: Path, far: list[Any]) -> None:
    with torch.inference_mode():
        into = torch.zeros(3)
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"w": torch.ones(3)})
        saver.restore(state={"w": into})
    assert into.tolist() == [1, 1, 1]


def test_values_of_torch_come_back(tmp_path: Path) -> None:
    tree = {
        "dtypes": [torch.float32, torch.bfloat16, torch.float8_e4m3fn],
        "devices": [torch.device("cpu"), torch.device("cuda:1"), torch.device("meta")],
        "sizes": [torch.Size([]), torch.Size([2, 3])],
        "keys": {torch.float16: 1},
    }
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state=tree)
        done = saver.restore(state=None)
        into = {"dtypes": [torch.int8] * 3, "devices": [], "sizes": [torch.Size([9])], "keys": {}}
        saver.restore(state=into)
    assert done is not None
    assert done.trees["state"] == into == tree
    sizes = done.trees["state"]["sizes"] + into["sizes"]
    assert [type(size) for size in sizes] == [torch.Size] * 4
    assert stoker.load(tmp_path).state["state"]["dtypes"] == tree["dtypes"]


def test_a_dtype_that_this_torch_lacks_is_refused_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"a": np.zeros(2), "d": torch.float8_e5m2})
        monkeypatch.delattr(torch, "float8_e5m2")
        into: dict[str, Any] = {"a": np.ones(2), "d": None}
        with pytest.raises(
            ValueError, match=r"state\['d'\]: torch\.float8_e5m2 cannot be restored"
        ):
            saver.restore(state=into)
        assert into["a"].tolist() == [1, 1]
        assert saver.restore() == 1
    assert repr(stoker.load(tmp_path).state["state"]["d"]) == "torch.float8_e5m2"
