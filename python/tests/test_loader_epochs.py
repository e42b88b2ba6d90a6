"""Which epoch comes: by a total, by set_epoch(), and by the count of a framework."""

from __future__ import annotations

import logging
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import stoker

EPOCH = 6  # batches


def load(data: Any, **options: Any) -> stoker.Loader:
    settings: dict[str, Any] = {"fields": {"cls": int}, "torch": False, "seed": 7}
    return stoker.Loader(data, **({"batch_size": 8} | settings | options))


def batches(stream: Any) -> list[list[int]]:
    return [batch["cls"].tolist() for batch in stream]


@pytest.fixture
def epochs(shards: Path) -> list[list[list[int]]]:
    """The batches of eight epochs."""
    loader = load(shards)
    return [batches(loader) for _ in range(8)]


def flat(epochs: list[list[list[int]]]) -> list[list[int]]:
    return [batch for epoch in epochs for batch in epoch]


# A total:


def test_a_finished_run_that_is_started_again_gives_nothing(shards: Path, epochs: Any) -> None:
    for options in ({"epochs": 3}, {"epochs": None}, {"epochs": 1}):
        loader = load(shards, total_epochs=3, **options)
        seen = [batch for _ in range(5) for batch in batches(loader)]
        assert seen == flat(epochs[:3])
        again = load(shards, total_epochs=3, **options)
        again.load_state_dict(loader.state_dict())
        assert batches(again) == []
        assert again.state_dict() == loader.state_dict()


def test_a_total_is_one_over_all_restarts(shards: Path, epochs: Any) -> None:
    loader = load(shards, epochs=None, total_epochs=3)
    assert len(loader) == 3 * EPOCH
    list(islice(loader, 8))
    again = load(shards, epochs=None, total_epochs=3)
    again.load_state_dict(loader.state_dict())
    assert batches(again) == flat(epochs[:3])[8:]
    longer = load(shards, epochs=None, total_epochs=4)  # of a finished one, one more
    longer.load_state_dict(again.state_dict())
    assert [step for step, _ in longer.steps()] == list(range(19, 25))


def test_the_last_iteration_ends_at_the_total(shards: Path, epochs: Any) -> None:
    loader = load(shards, epochs=2, total_epochs=3)
    assert batches(loader) == flat(epochs[:2])
    assert batches(loader) == epochs[2]
    assert batches(loader) == []


def test_a_total_that_is_none_is_refused(shards: Path) -> None:
    for wrong in (0, -1):
        with pytest.raises(ValueError, match=f"total_epochs={wrong}"):
            load(shards, total_epochs=wrong)
    with pytest.raises(TypeError, match="total_epochs"):
        load(shards, total_epochs=1.5)


# An iteration that was left early:


@pytest.mark.parametrize("total", [4, None])
def test_an_endless_run_continues_where_a_loop_was_left(
    shards: Path, epochs: Any, total: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    expected = flat(epochs[:4])
    for options in ({}, {"map": lambda sample, _: sample}):
        loader = load(shards, epochs=None, total_epochs=total, **options)
        assert next(iter(loader))["cls"].tolist() == expected[0]
        seen = [(step, batch["cls"].tolist()) for step, batch in islice(loader.steps(), 5)]
        assert seen == [(number + 1, expected[number]) for number in range(1, 6)]
        assert loader.state_dict()["position"] == EPOCH * 8
        assert [step for step, _ in islice(loader.steps(), 3)] == [7, 8, 9]
        assert batches(islice(loader, 4 * EPOCH - 9)) == expected[9:]
        if total is not None:
            assert batches(loader) == []
    assert not caplog.records


def test_set_epoch_decides_after_an_endless_loop_was_left(shards: Path, epochs: Any) -> None:
    for number in (0, 1, 3):
        for is_begun in (False, True):
            loader = load(shards, epochs=None)
            list(islice(loader, 2))
            stream = iter(loader) if is_begun else None
            loader.set_epoch(number)
            assert batches(islice(stream or loader, 2)) == epochs[number][:2]


@pytest.mark.parametrize(("count", "left_out"), [(1, 5), (3, 17)])
def test_epochs_that_were_left_early_are_named_once(
    shards: Path, count: int, left_out: int, caplog: pytest.LogCaptureFixture
) -> None:
    loader = load(shards, epochs=count)
    for _ in range(3):
        next(iter(loader))
    (record,) = caplog.records
    assert f"{left_out} of its batches are left out" in record.getMessage()
    assert f"begins with epoch {count}" in record.getMessage()


def test_what_leaves_nothing_out_is_not_warned_of(
    shards: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loader = load(shards)
    for number in range(2):
        loader.set_epoch(number)
        next(iter(loader))
    loader.load_state_dict(loader.state_dict())
    assert len(batches(loader)) == EPOCH - 1
    assert len(batches(loader)) == EPOCH
    same = load(shards, shuffle="off")  # for validation: each epoch has the same batches
    first = next(iter(same))["cls"].tolist()
    assert batches(same)[0] == first
    assert not caplog.records


# set_epoch():


def test_set_epoch_moves_an_iteration_that_has_given_nothing(shards: Path, epochs: Any) -> None:
    for options in ({}, {"map": lambda sample, _: sample}):
        loader = load(shards, **options)
        stream = iter(loader)
        loader.set_epoch(2)
        assert loader.state_dict()["epoch"] == 2
        assert batches(stream) == epochs[2]
        assert batches(loader) == epochs[3]


def test_set_epoch_does_not_move_one_that_has(shards: Path, epochs: Any) -> None:
    loader = load(shards)
    stream = iter(loader)
    first = next(stream)["cls"].tolist()
    loader.set_epoch(2)
    assert [first, *batches(stream)] == epochs[0]


def test_set_epoch_counts_iterations_as_a_training_loop_does(shards: Path, epochs: Any) -> None:
    loader = load(shards, epochs=2)
    for number in range(3):
        loader.set_epoch(number)
        assert batches(loader) == flat(epochs[2 * number : 2 * number + 2])
    again = load(shards, epochs=2)
    again.set_epoch(1)
    list(islice(again, 8))
    resumed = load(shards, epochs=2)
    resumed.load_state_dict(again.state_dict())
    resumed.set_epoch(1)  # which it is in the middle of
    assert batches(resumed) == flat(epochs[2:4])[8:]


# Frameworks:


def test_a_sampler_leads_to_the_loader(shards: Path, epochs: Any) -> None:
    loader = load(shards)
    stream = iter(loader)
    loader.sampler.set_epoch(2)
    assert batches(stream) == epochs[2]
    loader.sampler.set_epoch(2)  # again, on purpose
    assert batches(loader) == epochs[2]
    with pytest.raises(ValueError, match="epoch=-1"):
        loader.sampler.set_epoch(-1)


@pytest.mark.parametrize("named", [0, 1, 2, 5])
def test_a_loaded_state_is_where_a_framework_goes_on(shards: Path, epochs: Any, named: int) -> None:
    loader = load(shards)
    loader.set_epoch(1)
    list(islice(loader, 2))
    again = load(shards)
    again.load_state_dict(loader.state_dict())
    stream = iter(again)
    again.sampler.set_epoch(named)  # whatever it calls the epoch
    assert batches(stream) == epochs[1][2:]
    again.sampler.set_epoch(named + 1)
    assert batches(again) == epochs[2]


def test_an_endless_run_that_was_loaded_is_not_set_back(shards: Path, epochs: Any) -> None:
    loader = load(shards, epochs=None)
    list(islice(loader, 14))
    for by_sampler in (False, True):
        again = load(shards, epochs=None)
        again.load_state_dict(loader.state_dict())
        (again.sampler if by_sampler else again).set_epoch(0)  # the framework's first and only one
        assert batches(islice(again, 10)) == flat(epochs)[14:24]


def test_a_batch_that_a_framework_has_fetched_ahead_is_not_counted(
    shards: Path, epochs: Any
) -> None:
    loader = load(shards, epochs=None)
    loaded = None
    for begin in (0, 7, 14):
        if loaded is not None:
            loader = load(shards, epochs=None)
            loader.load_state_dict(loaded)
        stream = iter(loader)
        ahead = next(stream)  # as Lightning does with what has no length
        loader.sampler.set_epoch(0)
        for number in range(begin, begin + 7):
            batch, ahead = ahead, next(stream)
            assert batch["cls"].tolist() == flat(epochs)[number]
            assert loader.state_dict() == stoker._loader.cursors.state_of(batch.cursor)
        loaded = loader.state_dict()


def test_rebuilding_a_torch_loader_is_refused_with_a_reason(shards: Path) -> None:
    loader = load(shards)
    with pytest.raises(AttributeError, match=r"skip_first_batches.*load_state_dict"):
        _ = loader.dataset
    assert not hasattr(loader, "dataset")


# Ranks that come later:

_BUILT_BEFORE = """
import logging, sys
import torch.distributed as dist
import stoker
logging.basicConfig()
rank, shards, meeting = int(sys.argv[1]), *sys.argv[2:]
loader = stoker.Loader(shards, batch_size=8, torch=False)
dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
for _ in range(2):
    iter(loader)
dist.barrier()
dist.destroy_process_group()
"""


def test_a_loader_that_was_built_before_the_ranks_were_known_warns(
    shards: Path, tmp_path: Path, start: Any
) -> None:
    pytest.importorskip("torch")
    ranks: list[subprocess.Popen[str]] = [
        start([sys.executable, "-c", _BUILT_BEFORE, rank, shards, tmp_path / "meeting"])
        for rank in range(2)
    ]
    for rank, process in enumerate(ranks):
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        assert errors.count("built before torch.distributed was initialized") == 1
        assert f"rank {rank} of 2" in errors
        assert "train_dataloader()" in errors


def test_what_lightning_tells_its_processes_is_refused_with_advice(
    shards: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, value in (("WORLD_SIZE", "2"), ("LOCAL_RANK", "1"), ("NODE_RANK", "0")):
        monkeypatch.setenv(name, value)
    with caplog.at_level(logging.WARNING), pytest.raises(ValueError, match="train_dataloader"):
        load(shards)


def test_a_number_of_an_endless_loader_with_a_total_is_an_epoch_of_the_data(shards: Path) -> None:
    plain = load(shards, epochs=1)
    per_epoch = len(list(plain))
    loader = load(shards, epochs=None, total_epochs=4)
    loader.set_epoch(1)
    assert len(list(loader)) == 3 * per_epoch
