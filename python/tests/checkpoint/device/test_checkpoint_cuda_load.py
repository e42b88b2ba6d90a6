"""Restores and loads to a GPU by the core: bytes, order on streams, ties, damage.

tests/checkpoint/device has the same without a GPU, and the failures of the driver.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import stoker
from stoker._checkpoint.device import targets as targets_module
from stoker._checkpoint.device.cuda import has_cuda

torch = pytest.importorskip("torch", reason="torch is not installed")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

_LONG = 500_000_000  # cycles
_DTYPES = [
    *("bool", "uint8", "int64", "float16", "bfloat16", "float32", "float64", "complex64"),
    *("complex128", "float8_e4m3fn"),
]


def bits(tensor: Any) -> Any:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)


def same(a: Any, b: Any) -> bool:
    return bool(a.dtype == b.dtype and a.shape == b.shape and torch.equal(bits(a), bits(b)))


def save(path: Path, tree: Any) -> stoker.Checkpointer:
    saver = stoker.Checkpointer(path)
    saver.save(1, state=tree).wait()
    return saver


@pytest.fixture(autouse=True)
def _no_copies_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Host memory for a tensor on the GPU would mean that torch copies it."""
    torch.zeros(1, device="cuda")
    assert has_cuda()
    staged = targets_module.new_staging  # type: ignore[attr-defined]

    def new_staging(array: Any) -> Any:
        assert not (isinstance(array, torch.Tensor) and array.is_cuda)
        return staged(array)

    monkeypatch.setattr(targets_module, "new_staging", new_staging)


def random_of(dtype: str, count: int) -> Any:
    raw = torch.randint(0, 2 if dtype == "bool" else 256, (count * 16,), dtype=torch.uint8)
    return raw.view(getattr(torch, dtype))[:count].clone()


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("count", [0, 1, 1000, 3_000_001])
def test_every_type_and_size_arrives(tmp_path: Path, dtype: str, count: int) -> None:
    want = random_of(dtype, count)
    have = {"w": torch.zeros_like(want, device="cuda")}
    with save(tmp_path, {"w": want}) as saver:
        saver.restore(state=have)
        assert same(have["w"], want)
        assert same(stoker.load(tmp_path, device="cuda")["state.w"], want)


def test_many_small_tensors_and_large_ones(tmp_path: Path) -> None:
    torch.manual_seed(1)
    want = {f"s{i}": torch.randn(1 + (i * 37) % 5000) for i in range(3000)}
    want |= {f"b{i}": torch.randn(3_000_000 + i) for i in range(5)}
    have = {name: torch.zeros_like(tensor, device="cuda") for name, tensor in want.items()}
    with save(tmp_path, want) as saver:
        saver.restore(state=have)
    assert all(same(have[name], tensor) for name, tensor in want.items())
    loaded = stoker.load(tmp_path, device="cuda:0")
    assert all(same(loaded[f"state.{name}"], tensor) for name, tensor in want.items())


def test_strides_overlaps_and_parts_of_memory(tmp_path: Path) -> None:
    want = {"t": torch.randn(700, 900), "part": torch.randn(100, 50), "tied": torch.randn(64)}
    base = torch.zeros(200, 100, device="cuda")
    tied = torch.zeros(64, device="cuda")
    have = {"t": torch.zeros(900, 700, device="cuda").t(), "part": base[50:150, 20:70]}
    have |= {"tied": tied}
    with save(tmp_path, want) as saver:
        saver.restore(state=have)
    assert all(same(have[name], tensor) for name, tensor in want.items())
    assert base[:50].abs().sum() == base[150:].abs().sum() == base[:, :20].abs().sum() == 0


def test_tied_parameters_of_a_model_and_from_meta(tmp_path: Path) -> None:
    def make(device: str) -> Any:
        with torch.device(device):
            model = torch.nn.Sequential(torch.nn.Linear(300, 300), torch.nn.Linear(300, 300))
        model[1].weight = model[0].weight
        return model

    first = make("cuda")
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=first).wait()
        second = make("cuda")
        address = second[0].weight.data_ptr()
        version = second[0].weight._version
        saver.restore(model=second)
        assert second[0].weight.data_ptr() == address
        assert second[0].weight._version > version
        third = make("meta")
        saver.restore(model=third, device="cuda")
    for model in (second, third):
        assert model[1].weight is model[0].weight
        for name, tensor in first.state_dict().items():
            assert same(model.state_dict()[name], tensor)
            assert model.state_dict()[name].is_cuda


def test_work_before_and_after_a_restore_is_ordered(tmp_path: Path) -> None:
    w = torch.zeros(1 << 24, device="cuda")
    stream = torch.cuda.Stream()
    with save(tmp_path, {"w": torch.ones(1 << 24)}) as saver:
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(_LONG)
            w.fill_(7)  # must not overwrite what is restored
            saver.restore(state={"w": w})
            w.add_(1)
        stream.synchronize()
    assert w.min() == w.max() == 2


def test_a_restore_during_a_capture_is_refused(tmp_path: Path) -> None:
    w = torch.zeros(1000, device="cuda")
    with save(tmp_path, {"w": torch.ones(1000)}) as saver:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            w.add_(1)
            with pytest.raises(ValueError, match="CUDA graph is being captured"):
                saver.restore(state={"w": w})
        saver.restore(state={"w": w})
    assert w.min() == w.max() == 1


def test_damage_never_gets_to_the_gpu(tmp_path: Path) -> None:
    chunk = 4 << 20
    w = torch.full((5 * chunk,), 3, dtype=torch.uint8, device="cuda")
    with save(tmp_path, {"w": torch.full((5 * chunk,), 5, dtype=torch.uint8)}) as saver:
        (file,) = (tmp_path / "latest").glob("*.safetensors")
        with file.open("r+b") as opened:
            opened.seek(3 * chunk + 77)
            opened.write(b"\x99")
        with pytest.raises(stoker.CorruptError) as caught:
            saver.restore(1, state={"w": w})
        assert caught.value.tensor == "state.w"
    assert set(w.unique().tolist()) <= {3, 5}
    damaged = w[3 * chunk : 4 * chunk - 100_000]  # the header takes a part of the first chunk
    assert damaged.min() == damaged.max() == 3


def test_a_plain_safetensors_file_gets_to_the_gpu(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
    want = {f"t{i}": torch.randn(100_000 + i).bfloat16() for i in range(40)}
    safetensors.save_file(want, tmp_path / "model.safetensors")
    for path in (tmp_path, tmp_path / "model.safetensors"):
        found = stoker.load(path, device="cuda")
        assert found.keys() == want.keys()
        assert all(same(found[name], tensor) for name, tensor in want.items())


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is one GPU")
def test_several_devices_at_once(tmp_path: Path) -> None:
    want = {f"t{i}": torch.randn(500_000) for i in range(20)}
    have = {name: torch.zeros(500_000, device=f"cuda:{i % 2}") for i, name in enumerate(want)}
    with save(tmp_path, want) as saver:
        saver.restore(state=have)
    assert all(same(have[name], tensor) for name, tensor in want.items())
