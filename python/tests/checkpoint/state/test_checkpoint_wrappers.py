"""Wrapped modules: the names in a checkpoint are those of the module inside, at any depth."""

from __future__ import annotations

import copy
import logging
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import stoker

torch = pytest.importorskip("torch", reason="torch is not installed")
from torch.distributed.algorithms._checkpoint import checkpoint_wrapper  # noqa: E402

nn = torch.nn
Wrap = Callable[[Any], Any]


@pytest.fixture(scope="module", autouse=True)
def group() -> Iterator[None]:
    """One rank, for DistributedDataParallel."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    torch.distributed.init_process_group("gloo", init_method=address, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def make() -> Any:
    block = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    return nn.Sequential(block, nn.ModuleDict({"module": nn.Linear(4, 2)}))


NAMES = list(make().state_dict())


def compile_part(model: Any) -> Any:
    model[0] = torch.compile(model[0])
    return model


def checkpoint_part(model: Any) -> Any:
    model[0][0] = checkpoint_wrapper.checkpoint_wrapper(model[0][0])
    return model


def shard(model: Any) -> Any:
    from torch.distributed.fsdp import FullyShardedDataParallel

    cpu = torch.device("cpu")
    model[0] = FullyShardedDataParallel(model[0], device_id=cpu, use_orig_params=True)
    return FullyShardedDataParallel(model, device_id=cpu, use_orig_params=True)


WRAPPERS: dict[str, Wrap] = {
    "plain": lambda model: model,
    "ddp": nn.parallel.DistributedDataParallel,
    "data_parallel": nn.DataParallel,
    "compiled": torch.compile,
    "compiled_part": compile_part,
    "checkpointed_part": checkpoint_part,
    "checkpointed": checkpoint_wrapper.checkpoint_wrapper,
    "fsdp1": shard,
    "offloaded": checkpoint_wrapper.offload_wrapper,
    "all": lambda model: torch.compile(
        nn.parallel.DistributedDataParallel(compile_part(checkpoint_part(model)))
    ),
}


def tensors(model: Any) -> list[Any]:
    return [*model.parameters(), *model.buffers()]


def same(left: Any, right: Any) -> bool:
    pairs = zip(tensors(left), tensors(right), strict=True)
    return all(torch.equal(one, other) for one, other in pairs)


def saved_names(path: Path) -> list[str]:
    return list(stoker.load(path).state["model"])


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_saved_wrapped_and_restored_in_any_other_wrapper(tmp_path: Path, wrapper: str) -> None:
    model = WRAPPERS[wrapper](make())
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=model).wait()
        assert saved_names(tmp_path) == NAMES
        for other, wrap in WRAPPERS.items():
            into = wrap(make())
            assert not same(into, model), other
            addresses = [tensor.data_ptr() for tensor in tensors(into)]
            assert saver.restore(model=into) == 1
            assert same(into, model), other
            assert addresses == [tensor.data_ptr() for tensor in tensors(into)]


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_what_was_saved_with_prefixes_is_restored(tmp_path: Path, wrapper: str) -> None:
    """Version 0.1 saved the names of the wrapper: as a dict of them does."""
    model = WRAPPERS[wrapper](make())
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=dict(model.state_dict())).wait()
        assert saved_names(tmp_path) == list(model.state_dict())
        for other, wrap in WRAPPERS.items():
            into = wrap(make())
            assert saver.restore(model=into) == 1
            assert same(into, model), other


def test_that_prefixes_were_ignored_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "stoker")
    model = nn.DataParallel(make())
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=dict(model.state_dict())).wait()
        saver.restore(model=model)
        assert "prefixes of wrappers" not in caplog.text
        saver.restore(model=make())
    assert "model: prefixes of wrappers in step 1 are ignored" in caplog.text


def test_a_submodule_of_the_users_is_no_wrapper(tmp_path: Path) -> None:
    inner = nn.Linear(3, 2)
    outer = nn.ModuleDict({"module": inner})
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=nn.DataParallel(outer)).wait()
        assert saved_names(tmp_path) == ["module.weight", "module.bias"]
        with pytest.raises(ValueError, match=r"'module\.' in step 1, no prefix in memory"):
            saver.restore(model=nn.Linear(3, 2))
        into = nn.ModuleDict({"module": nn.Linear(3, 2)})
        assert saver.restore(model=into) == 1
        assert same(into, outer)


def test_an_old_checkpoint_in_which_two_names_would_fit_is_refused(tmp_path: Path) -> None:
    """Which of the two prefixes was a wrapper's is not known."""
    saved = {"module.module.weight": torch.zeros(2, 3)}
    both = nn.ModuleDict({"module": nn.Linear(3, 2, bias=False)})
    both.weight = nn.Parameter(torch.ones(2, 3))
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=saved).wait()
        with pytest.raises(ValueError, match="all names differ by a prefix"):
            saver.restore(model=both)
    assert both.weight.min() == 1


def test_an_average_keeps_its_count(tmp_path: Path) -> None:
    model = make()
    average = torch.optim.swa_utils.AveragedModel(nn.parallel.DistributedDataParallel(model))
    average.update_parameters(nn.parallel.DistributedDataParallel(model))
    into = torch.optim.swa_utils.AveragedModel(make())
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=average).wait()
        assert saved_names(tmp_path) == ["n_averaged", *NAMES]
        assert saver.restore(model=into) == 1
        assert into.n_averaged == 1
        assert same(into, average)
        with pytest.raises(ValueError, match=r"model\['n_averaged'\]: in step 1, but the module"):
            saver.restore(model=make())


def test_names_that_would_become_equal_keep_their_prefix(tmp_path: Path) -> None:
    model = nn.Linear(3, 2)
    model.register_buffer("n_averaged", torch.tensor(5))
    average = torch.optim.swa_utils.AveragedModel(model)
    average.n_averaged += 2
    into = copy.deepcopy(average)
    for tensor in tensors(into):
        tensor.detach().zero_()
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=average).wait()
        assert saved_names(tmp_path)[:2] == ["n_averaged", "module.weight"]
        assert saver.restore(model=into) == 1
    assert (into.n_averaged, into.module.n_averaged) == (2, 5)


def test_an_own_class_with_a_wrapper_inside(tmp_path: Path) -> None:
    class Own(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner, self.scale = inner, nn.Parameter(torch.rand(2))

    model = Own(torch.compile(nn.Linear(3, 2)))
    into = Own(nn.Linear(3, 2))
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"net": [model]}).wait()
        assert saver.restore(state={"net": [into]}) == 1
    assert same(into, model)
    assert "state.net.0.inner.weight" in set(stoker.load(tmp_path))
