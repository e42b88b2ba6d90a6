"""Saves of tensors on a GPU by the core: order on streams, snapshots, graphs, many small tensors.

tests/checkpoint/device has the same without a GPU, and the failures of the driver.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import stoker
from stoker._checkpoint import checkpointer as checkpointer_module
from stoker._checkpoint.device.cuda import has_cuda

torch = pytest.importorskip("torch", reason="torch is not installed")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

_STAGES = ["host", "device"]
_LONG = 500_000_000  # cycles


def restored(saver: stoker.Checkpointer, step: int | str = "latest") -> Any:
    done = saver.restore(step, state=None)
    assert done is not None
    return done.trees["state"]


def test_the_core_copies_tensors_of_the_gpu_through_pinned_memory(tmp_path: Path) -> None:
    torch.zeros(1, device="cuda")
    assert stoker._native.find_cuda_problem() is None
    assert has_cuda()
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"w": torch.ones(1000, device="cuda")}).wait()
        assert saver._writer._native is not None
        assert saver._writer._native.pin_problem == ""
        assert torch.equal(restored(saver)["w"], torch.ones(1000))


@pytest.mark.parametrize("stage", [*_STAGES, "auto"])
def test_what_is_enqueued_after_a_save_is_not_in_it(tmp_path: Path, stage: Any) -> None:
    w = torch.zeros(1 << 24, device="cuda")
    host = torch.zeros(1000)
    with stoker.Checkpointer(tmp_path, stage=stage, in_flight=2) as saver:
        for step in range(1, 7):
            w.add_(1)
            host.add_(1)
            saver.save(step, state={"w": w, "host": host})
            w.add_(1000).sub_(1000)
            w.mul_(-1).mul_(-1)
            host.add_(0.5).sub_(0.5)
        saver.wait()
        for step in range(1, 7):
            back = restored(saver, step)
            assert back["w"].min() == back["w"].max() == step
            assert back["host"].min() == back["host"].max() == step


def test_a_snapshot_does_not_wait_for_the_stream(tmp_path: Path) -> None:
    stream = torch.cuda.Stream()
    with stoker.Checkpointer(tmp_path, stage="device") as saver:
        w = torch.zeros(1 << 24, device="cuda")
        saver.save(0, state={"w": w}).wait()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(_LONG)
            w.add_(1)
            pending = saver.save(1, state={"w": w})
            assert not stream.query()  # it has returned, and the kernels have not even run
            assert pending.staged
            w.add_(1)
        back = restored(saver)
    assert back["w"].min() == back["w"].max() == 1


@pytest.mark.parametrize("stage", _STAGES)
def test_other_streams_can_be_named(tmp_path: Path, stage: Any) -> None:
    side = torch.cuda.Stream()
    w = torch.zeros(1 << 24, device="cuda")
    torch.cuda.synchronize()
    with stoker.Checkpointer(tmp_path, stage=stage) as saver:
        saver.save(0, state={"w": w}).wait()
        with torch.cuda.stream(side):
            torch.cuda._sleep(_LONG)
            w.add_(1)
        saver.save(1, state={"w": w, "gaps": w[::2]}, streams=[side])
        with torch.cuda.stream(side):
            w.add_(1)
        back = restored(saver, 1)
    assert back["w"].min() == back["w"].max() == 1
    assert back["gaps"].min() == back["gaps"].max() == 1


def test_pinned_host_memory_is_read_after_the_copies_into_it(tmp_path: Path) -> None:
    w = torch.zeros(1 << 24).pin_memory()
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(0, state={"w": w}).wait()
        source = torch.ones(1 << 24, device="cuda")
        torch.cuda._sleep(_LONG)
        w.copy_(source, non_blocking=True)
        saver.save(1, state={"w": w})
        back = restored(saver)
    assert back["w"].min() == back["w"].max() == 1


@pytest.mark.parametrize("stage", _STAGES)
def test_tensors_that_are_freed_after_the_save_are_saved_as_they_were(
    tmp_path: Path, stage: Any
) -> None:
    side = torch.cuda.Stream()
    with stoker.Checkpointer(tmp_path, stage=stage) as saver:
        saver.save(0, state={"w": torch.zeros(8, device="cuda")}).wait()
        with torch.cuda.stream(side):  # whose pool gets the memory back
            tensors = [torch.full((1 << 22,), float(i), device="cuda") for i in range(8)]
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda._sleep(_LONG // 10)
        saver.save(1, state={"w": tensors})
        del tensors
        with torch.cuda.stream(side):
            others = [torch.full((1 << 22,), -1.0, device="cuda") for _ in range(8)]
        back = restored(saver)
        del others
    for i, tensor in enumerate(back["w"]):
        assert tensor.min() == tensor.max() == i


@pytest.mark.parametrize("gather", [True, False])
@pytest.mark.parametrize("stage", _STAGES)
def test_many_small_tensors_of_odd_sizes(
    tmp_path: Path, stage: Any, gather: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpointer_module, "_gather", gather)
    generator = torch.Generator(device="cuda").manual_seed(1)
    sizes = [1, 2, 3, 5, 16, 31, 1000, 4096, 16384, 65536, 262144 + 3]
    state = {}
    for i in range(3000):
        count = sizes[i % len(sizes)] + i % 7
        raw = torch.randint(0, 256, (count,), device="cuda", generator=generator)
        state[f"t{i}"] = raw.to(torch.uint8)
    whole = torch.randint(0, 256, (1 << 20,), device="cuda", generator=generator).to(torch.uint8)
    state["views"] = {str(i): whole[i : i + 999 * i + 1] for i in range(500)}  # any alignment
    with stoker.Checkpointer(tmp_path, stage=stage) as saver:
        saver.save(1, state=state)
        back = restored(saver)
    for name, tensor in state.items():
        if name != "views":
            assert torch.equal(back[name], tensor.cpu()), name
    for name, tensor in state["views"].items():
        assert torch.equal(back["views"][name], tensor.cpu()), name


@pytest.mark.parametrize("stage", _STAGES)
@pytest.mark.parametrize(
    "name",
    [
        *("bool", "uint8", "int64", "float16", "bfloat16", "float32", "float64", "complex64"),
        *("complex128", "float8_e4m3fn"),
    ],
)
def test_every_type_and_layout(tmp_path: Path, stage: Any, name: str) -> None:
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
        "tied": whole,
        "part": whole[1:],
    }
    if dtype.is_complex:
        state["conj"] = whole.conj()
    wanted = {key: tensor.cpu().clone() for key, tensor in state.items()}
    with stoker.Checkpointer(tmp_path, stage=stage) as saver:
        saver.save(1, state=state)
        whole.zero_()
        back = restored(saver)
    for key, tensor in wanted.items():
        assert back[key].shape == tensor.shape, key
        flat = tensor.resolve_conj().contiguous().reshape(-1).view(torch.uint8)
        assert torch.equal(back[key].contiguous().reshape(-1).view(torch.uint8), flat), key


@pytest.mark.parametrize("limit", ["100MB", "64MB", "1MB"])
def test_what_does_not_fit_on_the_device_goes_to_the_host(tmp_path: Path, limit: str) -> None:
    state = {f"t{i}": torch.full((10_000_000,), float(i), device="cuda") for i in range(4)}
    with stoker.Checkpointer(tmp_path, stage="device", device_memory=limit) as saver:
        saver.save(1, state=state)
        for tensor in state.values():
            tensor.fill_(-1)
        back = restored(saver)
    for i in range(4):
        assert back[f"t{i}"].min() == back[f"t{i}"].max() == i


def test_a_device_without_memory_falls_back_to_the_host(tmp_path: Path) -> None:
    w = torch.full((1 << 27,), 3.0, device="cuda")  # 512 MiB
    total = torch.cuda.get_device_properties(0).total_memory
    try:
        torch.cuda.set_per_process_memory_fraction(torch.cuda.memory_reserved() / total + 0.0005)
        with stoker.Checkpointer(tmp_path, stage="device") as saver:
            saver.save(1, state={"w": w})
            w.fill_(4)
            back = restored(saver)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert back["w"].min() == back["w"].max() == 3


def test_the_memory_of_a_snapshot_is_given_back(tmp_path: Path) -> None:
    w = torch.zeros(1 << 26, device="cuda")
    with stoker.Checkpointer(tmp_path, stage="device") as saver:
        before = torch.cuda.memory_allocated()
        pending = saver.save(1, state={"w": w})
        pending.wait()
        assert pending.done()
        assert torch.cuda.memory_allocated() == before


@pytest.mark.parametrize("stage", _STAGES)
def test_a_save_during_a_capture_is_refused_and_the_graph_works(tmp_path: Path, stage: Any) -> None:
    w = torch.zeros(1000, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with stoker.Checkpointer(tmp_path, stage=stage) as saver:
        saver.save(1, state={"w": w}).wait()
        with torch.cuda.graph(graph):
            w.add_(1)
            with pytest.raises(ValueError, match="a CUDA graph is being captured"):
                saver.save(2, state={"w": w})
            w.add_(1)
        graph.replay()
        saver.save(3, state={"w": w})
        back = restored(saver)
    assert back["w"].min() == back["w"].max() == 2


def test_a_graph_can_be_captured_while_a_save_drains(tmp_path: Path) -> None:
    large = torch.full((1 << 29,), 5.0, device="cuda")  # 2 GiB
    w = torch.zeros(1000, device="cuda")
    with stoker.Checkpointer(tmp_path, stage="device") as saver:
        for step in (1, 2):  # the memory is pinned during the first, and known in the second
            pending = saver.save(step, state={"large": large, "w": w})
            graphs = []
            while not pending.done():
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    w.add_(1)
                graphs.append(graph)
                if len(graphs) >= 50:
                    break
            pending.wait()
            w.zero_()
            for graph in graphs:
                graph.replay()
            torch.cuda.synchronize()
            assert w.min() == w.max() == len(graphs)
            w.zero_()
        back = restored(saver)
    assert back["w"].max() == 0
    assert back["large"].min() == back["large"].max() == 5


_KILLED = """
import os, sys
import torch
import stoker

folder, steps, kill_at = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.manual_seed(1)
torch.use_deterministic_algorithms(True, warn_only=True)
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
model = torch.nn.Sequential(*[torch.nn.Linear(8192, 8192, bias=False) for _ in range(4)]).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
saver = stoker.Checkpointer(folder, stage="device", keep_last=2)
done = saver.restore(model=model, optimizer=optimizer)
print("restored", int(done or 0), flush=True)
for step in range(int(done or 0) + 1, steps + 1):
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(16, 8192, generator=generator).cuda()
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    print("loss", step, loss.item().hex(), flush=True)
    pending = saver.save(step, model=model, optimizer=optimizer)
    if step == kill_at:
        assert not pending._native.is_released, "it has drained already"
        os.kill(os.getpid(), 9)
    pending.wait()
saver.close()
"""


def test_a_training_killed_in_the_middle_of_a_drain_resumes_with_the_same_losses(
    tmp_path: Path,
) -> None:
    def life(folder: str, kill_at: int) -> tuple[int, list[str], int]:
        ran = subprocess.run(
            [sys.executable, "-c", _KILLED, str(tmp_path / folder), "5", str(kill_at)],
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
            env={**os.environ, "CUBLAS_WORKSPACE_CONFIG": ":4096:8"},
        )
        assert ran.returncode in (0, -signal.SIGKILL), ran.stderr
        lines = [line.split() for line in ran.stdout.splitlines()]
        losses = [" ".join(line[1:]) for line in lines if line[0] == "loss"]
        return ran.returncode, losses, int(lines[0][1])

    _, truth, _ = life("unbroken", 0)
    assert len(truth) == 5
    status, first, _ = life("killed", 3)
    assert status == -signal.SIGKILL
    assert first == truth[:3]
    _, rest, begun = life("killed", 0)
    assert begun == 2  # the third was not committed
    assert rest == truth[2:]


_STICKY = """
import sys
import torch
import stoker

saver = stoker.Checkpointer(sys.argv[1], stage=sys.argv[2])
w = torch.zeros(1 << 22, device="cuda")
saver.save(1, state={"w": w}).wait()
torch.zeros(8, device="cuda")[torch.tensor([1 << 20], device="cuda")]  # a device-side assertion
try:
    saver.save(2, state={"w": w}).wait()
    print("committed")
except Exception as error:
    print("failed:", str(error).splitlines()[0])
print(saver.steps())
"""


@pytest.mark.parametrize("stage", _STAGES)
def test_a_sticky_error_commits_nothing(tmp_path: Path, stage: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _STICKY, str(tmp_path), stage],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    lines = ran.stdout.splitlines()
    assert len(lines) == 2, ran.stdout + ran.stderr
    assert lines[0].startswith("failed:"), lines
    assert lines[1] == "[1]"
