"""save(only="trainable"): adapters without their base, which is known again by its fingerprint."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import stoker

torch = pytest.importorskip("torch", reason="torch is not installed")
nn = torch.nn


class Lora(nn.Module):  # type: ignore[misc, name-defined]
    """A frozen layer and two small matrices beside it."""

    def __init__(self, base: Any) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down, self.up = nn.Linear(6, 2, bias=False), nn.Linear(2, 6, bias=False)

    def forward(self, x: Any) -> Any:
        """Both."""
        return self.base(x) + self.up(self.down(x))


def make(seed: int = 0, adapters: int = 1) -> Any:
    torch.manual_seed(seed)
    layers = [Lora(nn.Linear(6, 6)), nn.BatchNorm1d(6, affine=False), Lora(nn.Linear(6, 6))]
    torch.manual_seed(adapters)
    for layer in (layers[0], layers[2]):
        for matrix in (layer.down, layer.up):
            nn.init.normal_(matrix.weight)
    return nn.Sequential(*layers)


def train(model: Any, optimizer: Any) -> float:
    loss = model(torch.arange(24.0).reshape(4, 6) % 5).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return float(loss.detach())


def optimizer_of(model: Any) -> Any:
    return torch.optim.AdamW([one for one in model.parameters() if one.requires_grad])


def same(left: Any, right: Any) -> bool:
    pairs = zip(left.state_dict().items(), right.state_dict().items(), strict=True)
    return all(name == key and torch.equal(a, b) for (name, a), (key, b) in pairs)


def test_adapters_are_saved_without_their_base(tmp_path: Path) -> None:
    model, into = make(), make(adapters=2)
    optimizers = optimizer_of(model), optimizer_of(into)
    train(model, optimizers[0])
    kept = [tensor.data_ptr() for tensor in into.state_dict().values()]
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(
            1, model=nn.DataParallel(model), optimizer=optimizers[0], only="trainable"
        ).wait()
        names = {name for name in stoker.load(tmp_path) if name.startswith("model.")}
        assert "model.0.up.weight" in names
        assert "model.1.running_mean" in names, "buffers change in training"
        assert not [name for name in names if ".base." in name]
        assert saver.restore(model=torch.compile(into), optimizer=optimizers[1]) == 1
    assert same(model, into)
    assert kept == [tensor.data_ptr() for tensor in into.state_dict().values()]
    assert train(model, optimizers[0]) == train(into, optimizers[1])


def test_another_base_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "stoker")
    model, other = make(), make(seed=9, adapters=2)
    before = other[0].up.weight.clone()
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=model, only="trainable").wait()
        text = "model: its frozen parameters are not those that step 1 was trained with; load that"
        with pytest.raises(ValueError, match=text):
            saver.restore(model=other)
        assert torch.equal(other[0].up.weight, before)
        assert saver.restore(model=other, strict=False) == 1
    assert torch.equal(other[0].up.weight, model[0].up.weight)
    assert "its frozen parameters are not those" in caplog.text


def test_a_frozen_model_for_evaluation_takes_the_adapters(tmp_path: Path) -> None:
    model, into = make(), make(adapters=2).requires_grad_(False)
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=model, only="trainable").wait()
        assert saver.restore(model=into) == 1
        assert same(model, into)
        with pytest.raises(ValueError, match=r"model\['3\.down\.weight'\]: not in step 1"):
            saver.restore(model=nn.Sequential(*make(), Lora(nn.Linear(6, 6))))
        with pytest.raises(ValueError, match=r"model\['0\.base\.weight'\]: not in step 1"):
            saver.restore(model=make().requires_grad_(True))


def test_what_cannot_be_saved_may_be_in_the_base(tmp_path: Path) -> None:
    """As quantized layers may have: only what would be saved is refused."""
    model, into = make(), make(adapters=2)
    for one in (model, into):
        sparse = torch.eye(3).to_sparse()
        one[0].base.odd = nn.Parameter(sparse, requires_grad=False)
    with stoker.Checkpointer(tmp_path) as saver:
        with pytest.raises(TypeError, match=r"model\['0\.base\.odd'\]: .* layout torch.sparse_coo"):
            saver.save(1, model=model)
        saver.save(1, model=model, only="trainable").wait()
        assert saver.restore(model=into) == 1
    assert torch.equal(into[0].up.weight, model[0].up.weight)


class Quantized(nn.Linear):  # type: ignore[misc, name-defined]
    """Adds names below that of its weight, as bitsandbytes does."""

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[f"{prefix}weight.absmax"] = torch.ones(3)


def test_names_below_a_frozen_parameter_belong_to_it(tmp_path: Path) -> None:
    model = nn.Sequential(Lora(Quantized(6, 6)))
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=model, only="trainable").wait()
    assert set(stoker.load(tmp_path)) == {"model.0.down.weight", "model.0.up.weight"}


def test_parts_and_whole_modules(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "stoker")
    model, into = make(), make(adapters=2)
    parts = [nn.ModuleDict({"0": model[0]}), nn.ModuleDict({"1": model[1], "2": model[2]})]
    plain, frozen = nn.Linear(2, 2), nn.Linear(2, 2).requires_grad_(False)
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=parts, plain=plain, frozen=frozen, only="trainable").wait()
        assert "frozen: all of it is frozen, and other modules are trained" in caplog.text
        assert "plain:" not in caplog.text
        assert saver.restore(model=into, plain=nn.Linear(2, 2), frozen=frozen) == 1
        assert same(model, into)
        again = make(adapters=3)
        shares = [nn.ModuleDict({"0": again[0], "2": again[2]}), nn.ModuleDict({"1": again[1]})]
        assert saver.restore(model=shares, partial=True) == 1
        assert same(model, again)
        done = saver.restore(model=None, partial=True)
        assert done is not None
        assert torch.equal(done.trees["model"]["0.up.weight"], model[0].up.weight)
        with pytest.raises(ValueError, match="only='lora': it is \"trainable\", or None"):
            saver.save(2, model=model, only="lora")  # type: ignore[arg-type]


def test_a_frozen_average_beside_the_model_is_saved_whole(tmp_path: Path) -> None:
    model, into = nn.Linear(4, 4), nn.Linear(4, 4)
    averages = [
        torch.optim.swa_utils.AveragedModel(one).requires_grad_(False) for one in (model, into)
    ]
    with torch.no_grad():
        model.weight.add_(1)
    averages[0].update_parameters(model)
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=model, ema=averages[0], only="trainable").wait()
        assert saver.restore(model=into, ema=averages[1]) == 1
    assert same(model, into)
    assert same(averages[0], averages[1])


def test_a_save_without_anything_trainable_is_refused(tmp_path: Path) -> None:
    frozen = make().requires_grad_(False)
    with stoker.Checkpointer(tmp_path) as saver:
        with pytest.raises(
            ValueError, match=r"model: all of its parameters are frozen.*without only="
        ):
            saver.save(1, model=frozen, only="trainable")
        assert saver.steps() == []


def test_a_base_on_meta_has_nothing_to_be_filled_with(tmp_path: Path) -> None:
    with torch.device("meta"):
        into = make()
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=make(), only="trainable").wait()
        with pytest.raises(ValueError, match=r"model\['0\.base\.weight'\]: on meta, and not in"):
            saver.restore(model=into, device="cpu")
