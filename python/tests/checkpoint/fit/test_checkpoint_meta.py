"""Modules on meta: restore(device=) gives memory to their tensors as they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import stoker

torch = pytest.importorskip("torch", reason="torch is not installed")
nn = torch.nn


class Net(nn.Module):  # type: ignore[misc, name-defined]
    """A tied weight, a buffer, a frozen parameter, and perhaps a cache that is not saved."""

    def __init__(self, has_cache: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.norm = nn.BatchNorm1d(4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embed.weight
        self.scale = nn.Parameter(torch.rand(4, 3).T, requires_grad=False)
        if has_cache:
            self.register_buffer("cache", torch.rand(5), persistent=False)

    def forward(self, x: Any) -> Any:
        """Of words."""
        return self.head(self.norm(self.embed(x)))


def on_meta(**settings: Any) -> Any:
    with torch.device("meta"):
        return Net(**settings)


def same(left: Any, right: Any) -> bool:
    pairs = zip(left.state_dict().items(), right.state_dict().items(), strict=True)
    return all(name == key and torch.equal(a, b) for (name, a), (key, b) in pairs)


def step(model: Any, optimizer: Any) -> float:
    optimizer.zero_grad()
    loss = model(torch.arange(7)).square().mean()
    loss.backward()
    optimizer.step()
    return float(loss.detach())


@pytest.mark.parametrize("verify", ["during", "before"])
def test_a_module_on_meta_is_filled_and_its_ties_stay(tmp_path: Path, verify: Any) -> None:
    model, into = Net(), on_meta()
    optimizers = [torch.optim.AdamW(one.parameters(), lr=0.1) for one in (model, into)]
    step(model, optimizers[0])
    into.scale.note = "kept"
    parameters = list(into.parameters())
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=model, optimizer=optimizers[0]).wait()
        # The optimizer first: it sees where the parameters are.
        trees = {"optimizer": optimizers[1], "model": torch.compile(into)}
        assert saver.restore(device="cpu", verify=verify, **trees) == 1
    assert same(model, into)
    assert into.head.weight is into.embed.weight
    assert all(one is two for one, two in zip(parameters, into.parameters(), strict=True))
    assert (into.scale.requires_grad, into.head.weight.requires_grad) == (False, True)
    assert (into.scale.note, into.scale.stride()) == ("kept", model.scale.stride())
    assert {tensor.device.type for tensor in into.state_dict().values()} == {"cpu"}
    assert step(model, optimizers[0]) == step(into, optimizers[1])
    assert same(model, into)


def test_what_has_memory_keeps_it(tmp_path: Path) -> None:
    model, into = Net(), on_meta()
    into.norm = nn.BatchNorm1d(4)
    kept = {name: tensor.data_ptr() for name, tensor in into.norm.state_dict().items()}
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=model).wait()
        assert saver.restore(model=into, device="cpu") == 1
        assert kept == {name: tensor.data_ptr() for name, tensor in into.norm.state_dict().items()}
        everything = [tensor.data_ptr() for tensor in into.state_dict().values()]
        assert saver.restore(model=into, device="cpu") == 1
        assert everything == [tensor.data_ptr() for tensor in into.state_dict().values()]
    assert same(model, into)


def test_parts_on_meta(tmp_path: Path) -> None:
    layers = [nn.Linear(2, 2), nn.Linear(2, 2)]
    with torch.device("meta"):
        parts = [nn.ModuleDict({str(i): nn.Linear(2, 2)}) for i in range(2)]
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=nn.Sequential(*layers)).wait()
        assert saver.restore(model=parts, device="cpu") == 1
    for i, layer in enumerate(layers):
        assert torch.equal(parts[i][str(i)].weight, layer.weight)


def test_buffers_that_no_checkpoint_has_are_listed(tmp_path: Path) -> None:
    model, into = Net(has_cache=True), on_meta(has_cache=True)
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=model).wait()
        with pytest.raises(
            ValueError, match=r"on meta, and not part of state_dict\(\): 'cache'\. "
        ):
            saver.restore(model=into, device="cpu")
        assert into.embed.weight.is_meta
        into.cache = torch.rand(5)
        assert saver.restore(model=into, device="cpu") == 1
    assert same(model, into)


def test_nothing_gets_memory_if_something_does_not_fit(tmp_path: Path) -> None:
    model, into = Net(), on_meta()
    with torch.device("meta"):
        into.extra = nn.Linear(2, 2)
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=model).wait()
        with pytest.raises(ValueError, match=r"model\['extra\.weight'\]: not in step 1"):
            saver.restore(model=into, device="cpu")
        text = r"model\['extra\.weight'\]: on meta, and not in step 1: nothing to fill it with"
        with pytest.raises(ValueError, match=text):
            saver.restore(model=into, device="cpu", strict=False)
        with pytest.raises(ValueError, match=r'on meta.*\n(.*\n)*restore\(device="cpu"\) gives'):
            saver.restore(model=on_meta())
    assert {tensor.device.type for tensor in into.state_dict().values()} == {"meta"}


def test_damage_leaves_a_module_on_meta(tmp_path: Path) -> None:
    into = on_meta()
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=Net()).wait()
    path = tmp_path / "step-000000000001" / "rank-00000.safetensors"
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    with stoker.Checkpointer(tmp_path) as saver, pytest.raises(stoker.CorruptError):
        saver.restore(model=into, device="cpu")
    assert {tensor.device.type for tensor in into.state_dict().values()} == {"meta"}


def test_a_parameter_with_hooks_is_refused(tmp_path: Path) -> None:
    into = on_meta()
    into.embed.weight.register_post_accumulate_grad_hook(lambda _: None)
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=Net()).wait()
        with pytest.raises(ValueError, match="it has hooks: register them after the restore"):
            saver.restore(model=into, device="cpu")


def test_what_is_no_device_is_refused_also_if_nothing_is_on_meta(tmp_path: Path) -> None:
    model = Net()
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=model).wait()
        wrong: Any
        for wrong in ("cdua", True, [0]):
            with pytest.raises(ValueError, match=r"device=.*a device of torch"):
                saver.restore(model=model, device=wrong)
        for right in ("cpu", torch.device("cpu"), None):
            assert saver.restore(model=model, device=right) == 1
