"""Tensors, modules and optimizers of torch, on the CPU."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

torch = pytest.importorskip("torch", reason="torch is not installed")

_ALL = {str(one).removeprefix("torch.") for one in vars(torch).values() if type(one) is torch.dtype}
# Types of quantized tensors, which have a scale and an offset besides.
_REFUSED = {"qint8", "qint32", "quint8", "quint2x4", "quint4x2"}
_DTYPES = sorted(_ALL - _REFUSED)
# Those that safetensors lacks, and the type as which they are stored.
_PARTS_OF_BYTES = re.compile(r"u?int[1-7]|float4_.*|bits(8|.x.)")
_STORED_AS = {name: "U8" for name in _DTYPES if _PARTS_OF_BYTES.fullmatch(name)}
_STORED_AS |= {"bits16": "U16", "complex32": "F16"}


def tensor_of(name: str) -> Any:
    dtype = getattr(torch, name)
    raw = torch.randint(0, 2 if name == "bool" else 64, (24 * dtype.itemsize,), dtype=torch.uint8)
    return raw.view(dtype).reshape(4, 6)


def plain(tensor: Any) -> Any:
    """Integers of the same size: torch cannot copy elements of every type."""
    sizes = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    size = tensor.element_size()
    return torch.view_as_real(tensor) if size > 8 else tensor.view(sizes[size])


def same(left: Any, right: Any) -> bool:
    as_bytes = [plain(t).contiguous().reshape(-1).view(torch.uint8) for t in (left, right)]
    return bool(left.dtype == right.dtype and torch.equal(*as_bytes))


@pytest.mark.parametrize("name", _DTYPES)
def test_tensors_of_every_type_come_back(tmp_path: Path, name: str) -> None:
    whole = tensor_of(name)
    state = {"a": whole, "t": whole.T[1:], "zero": whole[0, 0], "none": whole[:0]}
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state=state)
        new = restored(saver)
        into = {key: torch.empty_like(value) for key, value in state.items()}
        kept = dict(into)
        saver.restore(state=into)
    for key, value in state.items():
        assert type(new[key]) is torch.Tensor
        assert same(new[key], value), key
        assert same(into[key], value), key
        assert into[key] is kept[key]


@pytest.mark.filterwarnings("ignore")
def test_types_of_quantized_tensors_are_refused_with_a_reason(tmp_path: Path) -> None:
    reason = "a quantized tensor: give .int_repr"
    with stoker.Checkpointer(tmp_path) as saver:
        for name in sorted(_REFUSED & _ALL):
            tensor = torch.empty(4, dtype=getattr(torch, name))
            with pytest.raises(TypeError, match=rf"state\['x'\]: .* can't be saved: .*{reason}"):
                saver.save(1, state={"x": tensor})


@pytest.mark.parametrize("name", sorted(_STORED_AS))
def test_elements_that_safetensors_lacks_are_bytes_for_other_tools(
    tmp_path: Path, name: str
) -> None:
    """They read bytes, or pairs of float16; the manifest says what the elements are."""
    safetensors = pytest.importorskip("safetensors.torch")
    whole = tensor_of(name)
    state = {"x": whole, "same": whole, "slice": stoker.Slice(whole, (4, 6), (0, 0))}
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state=state).wait()
        again = torch.zeros(48 * whole.element_size(), dtype=torch.uint8).view(whole.dtype)
        parts = [again.reshape(8, 6)[:4], again.reshape(8, 6)[2:6]]  # they share rows
        saver.restore(state=state | {"x": parts[0], "same": parts[1]})
        assert same(parts[1], whole)
        wrong = torch.zeros(4, 6, dtype=torch.uint8)
        with pytest.raises(ValueError, match=rf"uint8 \(4, 6\), but {name} \(4, 6\) in"):
            saver.restore(state=state | {"x": wrong})
        if (name, "U8") in _STORED_AS.items():
            other = wrong.view(torch.bits8 if name != "bits8" else torch.uint4)
            with pytest.raises(ValueError, match=rf"but {name} \(4, 6\) in"):
                saver.restore(state=state | {"x": other})
    (file,) = tmp_path.glob("step-*/*.safetensors")
    stored = safetensors.load_file(file)["state.x"]
    plain = {"U8": torch.uint8, "U16": torch.uint16, "F16": torch.float16}[_STORED_AS[name]]
    assert stored.dtype == plain
    assert same(stored.view(torch.uint8), whole.view(torch.uint8))
    lazy = stoker.load(tmp_path)["state.x"]
    assert (lazy.type, lazy[1:3].tobytes()) == (_STORED_AS[name], stored[1:3].numpy().tobytes())
    loaded = stoker.load(tmp_path, device="cpu")
    assert same(loaded["state.x"], whole)


def restored(saver: stoker.Checkpointer) -> Any:
    done = saver.restore(state=None)
    assert done is not None
    return done.trees["state"]


def make() -> tuple[Any, Any, Any]:
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16))
    model.append(torch.nn.Linear(16, 4, bias=False))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 3)


def train(model: Any, optimizer: Any, scheduler: Any, steps: range) -> list[float]:
    losses = []
    for step in steps:
        x = torch.from_numpy(np.random.default_rng(step).random((16, 8), np.float32))
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return losses


def test_a_training_goes_on_to_the_bit(tmp_path: Path) -> None:
    model, optimizer, scheduler = make()
    train(model, optimizer, scheduler, range(5))
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(5, model=model, optimizer=optimizer, scheduler=scheduler)
        unbroken = train(model, optimizer, scheduler, range(5, 12))
        model, optimizer, scheduler = make()
        weight = model[0].weight.data_ptr()
        assert saver.restore(model=model, optimizer=optimizer, scheduler=scheduler) == 5
        assert model[0].weight.data_ptr() == weight
        assert train(model, optimizer, scheduler, range(5, 12)) == unbroken
        # And from where it is now, which is further.
        assert saver.restore(5, model=model, optimizer=optimizer, scheduler=scheduler) == 5
        assert train(model, optimizer, scheduler, range(5, 12)) == unbroken
    names = set(stoker.load(tmp_path))
    moments = "optimizer.state.model.0.weight.exp_avg"
    assert {"model.0.weight", "model.1.running_mean", moments} <= names


def test_a_module_that_differs_is_refused_before_anything_changes(tmp_path: Path) -> None:
    model, *_ = make()
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=model)
        other = torch.nn.Sequential(torch.nn.Linear(8, 16))
        before = other[0].weight.clone()
        with pytest.raises(ValueError, match=r"model\['1\.weight'\]: in step 1, but the module"):
            saver.restore(model=other)
        larger = torch.nn.Sequential(*make()[0], torch.nn.Linear(4, 4))
        with pytest.raises(ValueError, match=r"model\['3\.weight'\]: not in step 1"):
            saver.restore(model=larger)
        wider = torch.nn.Sequential(torch.nn.Linear(8, 17), *list(model)[1:])
        with pytest.raises(ValueError, match=r"model\['0\.weight'\]: float32 \(17, 8\), but"):
            saver.restore(model=wider)
        assert torch.equal(other[0].weight, before)


def test_what_is_no_plain_tensor_is_refused(tmp_path: Path) -> None:
    bad = {
        "a tensor on meta": torch.empty(3, device="meta"),
        "layout torch.sparse_coo": torch.eye(3).to_sparse(),
    }
    with stoker.Checkpointer(tmp_path) as saver:
        for message, tensor in bad.items():
            with pytest.raises(
                TypeError, match=rf"state\['x'\]: .*Tensor can't be saved: .*{message}"
            ):
                saver.save(1, state={"x": tensor})
        saver.save(1, state={"x": torch.zeros(3)})
        with pytest.raises(ValueError, match=r"state\['x'\]: cannot be .* share memory"):
            saver.restore(state={"x": torch.zeros(1).expand(3)})


def test_lazy_values_are_resolved(tmp_path: Path) -> None:
    z = torch.tensor([1 + 2j, 3 - 4j])
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"conj": z.conj(), "neg": z.conj().imag})
        back = restored(saver)
    assert torch.equal(back["conj"], torch.tensor([1 - 2j, 3 + 4j]))
    assert torch.equal(back["neg"], torch.tensor([-2.0, 4.0]))


def test_tensors_and_arrays_may_take_each_others_place(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"a": torch.ones(3), "b": np.ones(3, "c16")})
        into = {"a": np.zeros(3, "f4"), "b": torch.zeros(3, dtype=torch.complex128)}
        saver.restore(state=into)
    assert into["a"].tolist() == [1, 1, 1]
    assert into["b"].tolist() == [1, 1, 1]
    assert stoker.load(tmp_path)["state.b"].dtype == np.complex128


def test_other_tools_read_the_files(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
    tensor = tensor_of("bfloat16")
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"w": tensor})
    read = safetensors.load_file(tmp_path / "latest" / "rank-00000.safetensors")
    assert same(read["state.w"], tensor)


_WITHOUT = """
import sys, numpy, stoker
with stoker.Checkpointer(sys.argv[1]) as saver:
    saver.restore(partial=True)
    saver.save(2, state={"w": numpy.zeros(3)})
    saver.restore(state={"w": numpy.zeros(3)})
    print(stoker.load(sys.argv[1] + "/step-000000000001")["state.w"][:].dtype)
assert "torch" not in sys.modules
"""


def test_torch_is_not_imported_for_those_who_do_not_use_it(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"w": tensor_of("bfloat16")})
    command = [sys.executable, "-c", _WITHOUT, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ran.stdout, ran.stderr) == ("uint16\n", "")


def test_the_state_of_another_optimizer_is_refused_and_touches_nothing(tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 2)
    adam = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    adam.step()
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=model, optimizer=adam).wait()
        other = torch.nn.Linear(3, 2)
        before = other.weight.clone()
        sgd = torch.optim.SGD(other.parameters(), lr=0.1, momentum=0.9)
        with pytest.raises(ValueError, match="optimizer: another optimizer has saved it: SGD has "):
            saver.restore(model=other, optimizer=sgd)
        assert torch.equal(other.weight, before)
        assert sgd.state_dict()["param_groups"][0]["lr"] == 0.1
        again = torch.optim.Adam(other.parameters(), amsgrad=True)
        scheduled = torch.optim.lr_scheduler.StepLR(again, 1)  # adds to the groups
        assert scheduled is not None
        assert saver.restore(model=other, optimizer=again) == 1
