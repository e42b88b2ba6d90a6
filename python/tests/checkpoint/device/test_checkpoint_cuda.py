"""Trainings and trees with tensors on a GPU. How they are saved: test_checkpoint_cuda_saves.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

torch = pytest.importorskip("torch", reason="torch is not installed")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

_DTYPES = [
    *("bool", "uint8", "int64", "float16", "bfloat16", "float32", "float64", "complex64"),
    *("complex128", "float8_e4m3fn"),
]


def bytes_of(tensor: Any) -> bytes:
    flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return bytes(flat.numpy().tobytes())


def make(seed: int) -> tuple[Any, Any, Any]:
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64))
    model.append(torch.nn.Linear(64, 64, bias=False))
    model[2].weight = model[0].weight
    model.cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    return model, optimizer, torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 9], 0.5)


def train(model: Any, optimizer: Any, scheduler: Any, steps: range) -> list[bytes]:
    weights = []
    for step in steps:
        x = torch.from_numpy(np.random.default_rng(step).random((16, 64), np.float32)).cuda()
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        scheduler.step()
        weights.append(bytes_of(model[0].weight))
    return weights


def restored(saver: stoker.Checkpointer) -> Any:
    done = saver.restore(state=None)
    assert done is not None
    return done.trees["state"]


def test_a_training_on_a_gpu_continues_to_the_bit(tmp_path: Path) -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        model, optimizer, scheduler = make(1)
        train(model, optimizer, scheduler, range(5))
        with stoker.Checkpointer(tmp_path) as saver:
            saver.save(5, model=model, optimizer=optimizer, scheduler=scheduler)
            unbroken = train(model, optimizer, scheduler, range(5, 20))
            model, optimizer, scheduler = make(2)
            weight = model[0].weight.data_ptr()
            assert saver.restore(model=model, optimizer=optimizer, scheduler=scheduler) == 5
            assert model[0].weight.data_ptr() == weight
            assert model[0].weight is model[2].weight
            assert all(
                value.is_cuda
                for state in optimizer.state.values()
                for key, value in state.items()
                if key.startswith("exp_avg")
            )
            assert train(model, optimizer, scheduler, range(5, 20)) == unbroken
            # And from where it is now, which is further.
            assert saver.restore(5, model=model, optimizer=optimizer, scheduler=scheduler) == 5
            assert train(model, optimizer, scheduler, range(5, 20)) == unbroken
    finally:
        torch.use_deterministic_algorithms(False)
    native = stoker._native.OpenCheckpoint(bytes(tmp_path / "step-000000000005"))
    names = {name for name, _, _ in native.tensors()}
    assert "model.0.weight" in names
    assert "model.2.weight" not in names  # tied: stored once


@pytest.mark.parametrize("name", _DTYPES)
def test_tensors_of_every_type_and_layout_come_back(tmp_path: Path, name: str) -> None:
    dtype = getattr(torch, name)
    raw = torch.randint(0, 2 if name == "bool" else 64, (24 * dtype.itemsize,), dtype=torch.uint8)
    whole = raw.view(dtype).reshape(4, 6).cuda()
    state = {
        "whole": whole,
        "transposed": whole.T,
        "steps": whole[::2, 1::3],
        "expanded": whole[:1].expand(3, 6),
        "zero": whole[0, 0],
        "none": whole[:0],
    }
    into = {key: torch.zeros(tensor.shape, dtype=dtype).cuda() for key, tensor in state.items()}
    into["transposed"] = torch.zeros(4, 6, dtype=dtype).cuda().T
    into["steps"] = torch.zeros(2, 4, dtype=dtype).cuda()[:, ::2]
    kept = dict(into)
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state=state)
        new = restored(saver)
        saver.restore(state=into)
    for key, tensor in state.items():
        assert into[key] is kept[key]
        assert into[key].is_cuda
        assert bytes_of(into[key]) == bytes_of(tensor), key
        assert new[key].device.type == "cpu"
        assert bytes_of(new[key]) == bytes_of(tensor), key


def test_a_save_comes_after_the_work_of_the_current_stream(tmp_path: Path) -> None:
    """The kernels before it are still running when it is called."""
    stream = torch.cuda.Stream()
    with stoker.Checkpointer(tmp_path) as saver:
        # The first save prepares much: it would give the kernels below time to end.
        saver.save(0, state={"w": torch.zeros(8, device="cuda")}).wait()
        w = torch.zeros(1 << 22, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(500_000_000)  # cycles
            w.add_(1)
            assert not stream.query()
            saver.save(1, state={"w": w})
            w.add_(1)  # and what comes later is not in it
        back = restored(saver)
    assert back["w"].min() == back["w"].max() == 1


def test_a_restore_comes_after_the_work_of_the_current_stream(tmp_path: Path) -> None:
    stream = torch.cuda.Stream()
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"w": torch.full((1 << 22,), 3.0)}).wait()
        w = torch.zeros(1 << 22, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(500_000_000)
            w.fill_(7)
            saver.restore(state={"w": w})
            w.add_(1)
        torch.cuda.synchronize()
    assert w.min() == w.max() == 4


def test_views_of_one_memory_are_restored_in_the_order_of_the_tree(tmp_path: Path) -> None:
    saved = {"all": torch.full((1000,), 1.0), "head": torch.full((300,), 2.0)}
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state=saved)
        room = torch.zeros(1000, device="cuda")
        saver.restore(state={"all": room, "head": room[:300]})
    assert room.tolist() == [2.0] * 300 + [1.0] * 700


def test_nothing_on_the_gpu_changes_if_a_byte_is_wrong(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"a": torch.ones(10).cuda(), "b": torch.ones(1 << 22).cuda()}).wait()
        file = tmp_path / "step-000000000001" / "rank-00000.safetensors"
        file.chmod(0o644)
        with file.open("r+b") as opened:
            opened.seek(-1, 2)
            opened.write(b"\xff")
        into = {"a": torch.zeros(10).cuda(), "b": torch.zeros(1 << 22).cuda()}
        with pytest.raises(stoker.CorruptError):
            saver.restore(state=into, verify="before")
    assert not into["a"].any()
    assert not into["b"].any()


def test_the_default_device_changes_nothing(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as saver, torch.device("cuda"):
        saver.save(1, state={"w": torch.arange(1000.0)})
        new = restored(saver)
        into = {"w": torch.zeros(1000)}
        saver.restore(state=into)
    assert new["w"].device.type == "cpu"
    assert into["w"].is_cuda
    assert into["w"].tolist() == new["w"].tolist() == list(range(1000))


def test_slices_on_a_gpu(tmp_path: Path) -> None:
    whole = torch.arange(12.0).view(4, 3).cuda()
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"w": stoker.Slice(whole, (4, 3), (0, 0))})
        part = stoker.Slice(torch.zeros(2, 3).cuda(), (4, 3), (1, 0))
        saver.restore(state={"w": part})
    assert torch.equal(part.array, whole[1:3])


def test_the_generators_of_the_device_continue(tmp_path: Path) -> None:
    torch.cuda.manual_seed(3)
    torch.rand(5, device="cuda")
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, rng=True)
        drawn = torch.rand(5, device="cuda")
        torch.cuda.manual_seed(99)
        saver.restore(rng=True)
    assert torch.equal(drawn, torch.rand(5, device="cuda"))


def test_tensors_on_meta_get_memory_on_the_device(tmp_path: Path) -> None:
    model, _, _ = make(1)
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=model)
        with torch.device("meta"):
            large = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64))
            large.append(torch.nn.Linear(64, 64, bias=False))
        large[2].weight = large[0].weight
        saver.restore(model=large, device="cuda")
    assert large[2].weight is large[0].weight
    state, wanted = large.state_dict(), model.state_dict()
    assert all(state[name].is_cuda for name in wanted)
    assert all(bytes_of(state[name]) == bytes_of(wanted[name]) for name in wanted)


def test_shards_on_the_device_are_saved_and_restored(tmp_path: Path) -> None:
    fsdp = pytest.importorskip("torch.distributed.fsdp")
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("nccl", store=store, rank=0, world_size=1)
    try:
        mesh = torch.distributed.init_device_mesh("cuda", (1,))
        model, _, _ = make(2)
        wanted = {name: bytes_of(tensor) for name, tensor in model.state_dict().items()}
        fsdp.fully_shard(model, mesh=mesh)
        with stoker.Checkpointer(tmp_path) as saver:
            saver.save(1, model=model)
            for parameter in model.parameters():
                parameter.detach().to_local().zero_()
            saver.restore(model=model)
        for name, tensor in model.state_dict().items():
            whole = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
            assert bytes_of(whole) == wanted[name], name
    finally:
        torch.distributed.destroy_process_group()
