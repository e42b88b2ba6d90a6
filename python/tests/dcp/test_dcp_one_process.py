"""dcp.save and dcp.load in one process: every value to the bit, and every error as itself."""

from __future__ import annotations

import json
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")
dcp = pytest.importorskip("torch.distributed.checkpoint")
from stoker.torch import DcpReader, DcpWriter  # noqa: E402


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is")
        yield


def save(state: dict[str, Any], path: Path, **more: Any) -> None:
    dcp.save(state, checkpoint_id=path, storage_writer=DcpWriter(path), **more)


def load(state: dict[str, Any], path: Path, **more: Any) -> dict[str, Any]:
    dcp.load(state, checkpoint_id=path, storage_reader=DcpReader(path), **more)
    return state


def load_all(path: Path) -> dict[str, Any]:
    """As torch makes a state from the metadata alone."""
    loader = pytest.importorskip("torch.distributed.checkpoint.state_dict_loader")
    found: dict[str, Any] = loader._load_state_dict_from_keys(
        checkpoint_id=path, storage_reader=DcpReader(path)
    )
    return found


def error_of(call: Callable[..., object], *given: Any, **more: Any) -> BaseException:
    """What torch's CheckpointException is about."""
    with pytest.raises(dcp.CheckpointException) as raised:
        call(*given, **more)
    ((error, _),) = raised.value.failures.values()
    assert isinstance(error, BaseException)
    return error


def is_same(left: Any, right: Any) -> bool:
    """To the bit, types included; torch makes plain dicts of all."""
    if isinstance(left, torch.Tensor):
        return (
            isinstance(right, torch.Tensor)
            and (left.dtype, left.shape) == (right.dtype, right.shape)
            and left.contiguous().view(-1).view(torch.uint8).tolist()
            == right.contiguous().view(-1).view(torch.uint8).tolist()
        )
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and left.keys() == right.keys()
            and all(is_same(left[key], right[key]) for key in left)
        )
    if isinstance(left, (list, tuple)):
        return (
            type(left) is type(right) and len(left) == len(right) and all(map(is_same, left, right))
        )
    if isinstance(left, np.ndarray):
        return bool(np.array_equal(left, right)) and left.dtype == right.dtype
    return type(left) is type(right) and repr(left) == repr(right)


def a_state() -> dict[str, Any]:
    """Of every kind that there is trouble with."""
    generator = torch.Generator().manual_seed(3)
    base = torch.randn(6, 4, generator=generator)
    tied = torch.randn(3, 3, generator=generator)
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model(base).sum().backward()
    optimizer.step()
    return {
        "model": OrderedDict(
            half=base.to(torch.bfloat16),
            float8=base.to(torch.float8_e4m3fn),
            flags=base > 0,
            zero_dim=torch.tensor(7, dtype=torch.int64),
            empty=torch.empty(0, 5),
            turned=base.t(),
            every_second=base[::2, 1:3],
            odd=torch.tensor([float("nan"), -0.0, float("inf")]),
            complex=torch.randn(3, dtype=torch.complex128, generator=generator),
            half_complex=torch.randn(3, generator=generator).to(torch.complex32),
            tied=tied,
            tied_again=tied,
        ),
        "optimizer": optimizer.state_dict(),
        "step": 12,
        "!odd": {"!key": 1, "[0]": 2, "[[1]]": torch.ones(1), "a.b": 3},
        "big": 2**70,
        "names": ["a", ("b", None, True)],
        "tensors": [torch.ones(2), 5, [torch.zeros(1)]],
        "pair": (torch.ones(2), {"x": torch.zeros(2)}),
        "array": np.arange(3),
        "nothing": [],
        "raw": b"\x00\xff",
        "lr": 1e-3,
        "loss": float("nan"),
    }


def text_keys(tree: Any) -> Any:
    """Converts every key to str, as torch does."""
    if isinstance(tree, dict):
        return {str(key): text_keys(item) for key, item in tree.items()}
    return [text_keys(item) for item in tree] if isinstance(tree, list) else tree


def test_every_value_comes_back_to_the_bit(tmp_path: Path) -> None:
    state = a_state()
    save(state, tmp_path / "step-5")
    assert is_same(load_all(tmp_path / "step-5"), text_keys(state))
    files = (tmp_path / "step-000000000005").iterdir()
    assert sorted(path.name for path in files) == ["manifest.json", "rank-00000.safetensors"]


def test_tensors_are_filled_where_they_are_and_converted_as_torch_does(tmp_path: Path) -> None:
    save({"w": torch.arange(12.0).reshape(3, 4), "v": torch.arange(3)}, tmp_path / "1")
    memory = torch.zeros(4, 3)
    state = {"w": memory.t(), "v": torch.zeros(3, dtype=torch.float16)}
    load(state, tmp_path / "1")
    assert memory.t().tolist() == torch.arange(12.0).reshape(3, 4).tolist()
    assert state["w"].data_ptr() == memory.data_ptr()
    assert state["v"].tolist() == [0, 1, 2]
    assert state["v"].dtype == torch.float16


def test_it_is_a_checkpoint_like_any_other(tmp_path: Path) -> None:
    model = torch.nn.Linear(4, 3)
    save({"model": model.state_dict(), "epoch": 3}, tmp_path / "run" / "step-7")
    assert sorted(stoker.load(tmp_path / "run")) == ["model.bias", "model.weight"]
    assert stoker.load(tmp_path / "run" / "7").read()["epoch"] == 3
    other = torch.nn.Linear(4, 3)
    with stoker.Checkpointer(tmp_path / "run") as saver:
        done = saver.restore(model=other, epoch=None)
        assert done == 7
        assert done.trees["epoch"] == 3
    assert torch.equal(other.weight, model.weight)


def test_a_checkpoint_of_a_checkpointer_can_be_loaded(tmp_path: Path) -> None:
    model = torch.nn.Linear(4, 3)
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(3, model=model, state={"n": 1, "w": np.ones(2)}).wait()
    state = {"model": torch.nn.Linear(4, 3).state_dict(), "state": {"n": 0, "w": None}}
    load(state, tmp_path / "step-3")
    assert is_same(dict(state["model"]), dict(model.state_dict()))
    assert state["state"]["n"] == 1
    assert is_same(state["state"]["w"], np.ones(2))
    newest = {"model": torch.nn.Linear(4, 3).state_dict()}
    load(newest, tmp_path)
    assert is_same(dict(newest["model"]), dict(model.state_dict()))


def test_async_save_in_a_thread_is_durable_when_its_future_is_done(tmp_path: Path) -> None:
    state = {"w": torch.arange(5.0)}
    writer = DcpWriter(tmp_path / "unused")
    for step in (1, 2):
        future = dcp.async_save(
            state, checkpoint_id=tmp_path / f"step-{step}", storage_writer=writer
        )
        state["w"] += 1
        future.result()
    assert [stoker.load(tmp_path / str(n))["w"][0] for n in (1, 2)] == [0, 1]
    assert not (tmp_path / "unused").exists()


class ByPickle(dcp.DefaultSavePlanner):  # type: ignore[misc, name-defined]
    """A planner of somebody, which has its own way to make bytes."""

    def transform_object(self, write_item: Any, value: Any) -> Any:
        """As torch does it."""
        return super().transform_object(write_item, value)


def test_a_planner_that_does_not_flatten_gets_its_items_back(tmp_path: Path) -> None:
    state = {"inner": {"w": torch.ones(3), "n": [1, {"x": 2}]}, "t": torch.zeros(2)}
    save(state, tmp_path / "1", planner=dcp.DefaultSavePlanner(flatten_state_dict=False))
    found = {"inner": None, "t": torch.ones(2)}
    load(found, tmp_path / "1", planner=dcp.DefaultLoadPlanner(False, False))
    assert is_same(found, state)


class BytesOnly(dcp.DefaultLoadPlanner):  # type: ignore[misc, name-defined]
    """A planner of somebody, which reads bytes in its own way."""

    def load_bytes(self, read_item: Any, value: Any) -> None:
        """As torch does it."""
        super().load_bytes(read_item, value)


def test_values_are_pickled_only_for_planners_that_want_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = {"n": [1, (2.5, None)], "array": np.arange(3), "inner": {"x": "y"}}
    save(state, tmp_path / "1")
    empty = {"n": None, "array": None, "inner": {"x": None}}
    found = load(dict(empty), tmp_path / "1", planner=BytesOnly())
    assert is_same(found, state)

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("pickled")

    monkeypatch.setattr(torch, "save", refuse)
    monkeypatch.setattr(torch, "load", refuse)
    save(state, tmp_path / "2")
    assert is_same(load(dict(empty), tmp_path / "2"), state)


class Evil:
    """Pickled, it makes a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_bytes_of_a_planner_are_decoded_without_running_them(tmp_path: Path) -> None:
    state = {"w": torch.ones(2), "n": [1, (2.5, None)], "pair": (torch.ones(1), 2)}
    save(state, tmp_path / "run" / "1", planner=ByPickle())
    assert is_same(load_all(tmp_path / "run" / "1"), state)
    touched = tmp_path / "touched"
    error = error_of(save, {"x": Evil(touched)}, tmp_path / "run" / "2", planner=ByPickle())
    assert isinstance(error, TypeError)
    assert "x: refused, nothing in it was run" in str(error)
    assert not touched.exists()
    error = error_of(save, {"x": Evil(touched)}, tmp_path / "run" / "2")
    assert "x: object of type Evil can't be saved" in str(error)
    assert stoker.Checkpointer(tmp_path / "run").steps() == [1]


def test_damage_arrives_as_itself(tmp_path: Path) -> None:
    state = {"w": torch.arange(5000.0)}
    for step in (1, 2):
        save(state, tmp_path / str(step))
    manifest = tmp_path / "step-000000000001" / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"w"', b'"v"'))
    data = tmp_path / "step-000000000002" / "rank-00000.safetensors"
    whole = bytearray(data.read_bytes())
    whole[-100] ^= 1
    data.write_bytes(whole)
    for step in (1, 2):
        error = error_of(load, {"w": torch.zeros(5000)}, tmp_path / str(step))
        assert isinstance(error, stoker.CorruptError)
        assert error.path == str((manifest, data)[step - 1])
        assert error.tensor == (None, "w")[step - 1]


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    error = error_of(load, {"w": torch.zeros(5)}, tmp_path / "step-9")
    assert isinstance(error, FileNotFoundError)
    dcp.save({"w": torch.zeros(2)}, checkpoint_id=tmp_path / "step-3", no_dist=True)
    error = error_of(load, {"w": torch.zeros(5)}, tmp_path / "step-3")
    assert "a distributed checkpoint of torch: `stoker checkpoint import" in str(error)
    with pytest.raises(ValueError, match="stores are not supported"):
        DcpWriter("s3://bucket/step-1")
    assert not DcpReader.validate_checkpoint_id("s3://bucket/step-1")
    save({"w": torch.zeros(2)}, tmp_path / "run" / "1")
    error = error_of(load, {"w": torch.zeros(2), "x": 1}, tmp_path / "run" / "1")
    assert "Missing key in checkpoint state_dict: x" in str(error)


def test_a_save_without_collectives_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="use_collectives=False"):
        save({"w": torch.zeros(2)}, tmp_path / "1", use_collectives=False)
    assert not (tmp_path / "step-000000000001").exists()


def test_a_path_without_a_step_has_one_checkpoint(tmp_path: Path) -> None:
    for value in range(3):
        save({"w": torch.full((2,), float(value))}, tmp_path / "best")
        state = load({"w": torch.zeros(2)}, tmp_path / "best")
        assert state["w"].tolist() == [value] * 2
    assert len(stoker.Checkpointer(tmp_path / "best").steps()) == 1
    save({"w": torch.zeros(2)}, tmp_path / "run" / "step-1")
    error = error_of(save, {"w": torch.zeros(2)}, tmp_path / "run")
    assert "it has the checkpoints of a run" in str(error)
    writer = DcpWriter(tmp_path / "best", keep_last=2)
    assert "keep_last= and keep_every= have no meaning" in str(
        error_of(dcp.save, {}, storage_writer=writer)
    )


def test_a_run_that_loads_an_older_step_continues_from_there(tmp_path: Path) -> None:
    def save_kept(step: int) -> None:
        writer = DcpWriter(tmp_path, keep_last=2)
        where = tmp_path / f"step-{step}"
        dcp.save({"n": step}, checkpoint_id=where, storage_writer=writer)

    for step in (1, 2, 3):
        save_kept(step)
    steps = stoker.Checkpointer(tmp_path).steps
    assert steps() == [2, 3]
    error = error_of(save_kept, 3)
    assert isinstance(error, FileExistsError)
    load({"n": 0}, tmp_path / "2")
    save_kept(3)
    manifest = json.loads((tmp_path / "step-000000000003" / "manifest.json").read_text())
    assert manifest["parent"]["step"] == 2
    assert steps() == [2, 3]


def test_a_writer_can_be_sent_to_another_process(tmp_path: Path) -> None:
    pickle = pytest.importorskip("pickle")
    writer = pickle.loads(pickle.dumps(DcpWriter(tmp_path / "step-4", deadline="20s")))
    dcp.save({"n": 1}, storage_writer=writer)
    assert stoker.load(tmp_path).step == 4


def test_what_a_directory_has_already_stays(tmp_path: Path) -> None:
    """A folder of torch's own writer beside ours, of a run that has changed its writer."""
    dcp.save({"w": torch.zeros(2)}, checkpoint_id=tmp_path / "step-3", no_dist=True)
    before = {path: path.read_bytes() for path in (tmp_path / "step-3").iterdir()}
    save({"w": torch.ones(2)}, tmp_path / "step-4")
    assert load({"w": torch.zeros(2)}, tmp_path / "step-4")["w"].tolist() == [1, 1]
    assert {path: path.read_bytes() for path in (tmp_path / "step-3").iterdir()} == before
    error = error_of(save, {"w": torch.ones(2)}, tmp_path / "step-3")
    assert "step-3 is something else" in str(error)


def test_the_module_is_imported_when_it_is_used() -> None:
    """test_package.py shows that `import stoker` alone imports no torch."""
    assert stoker.torch.DcpReader is DcpReader
    assert not hasattr(stoker, "nothing_like_that")
