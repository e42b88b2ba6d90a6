"""Which epoch comes: by a total, by set_epoch(), and by the count of a framework."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import stoker
from fork_server import ForkedPython

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


# The end of an epoch:


@pytest.mark.parametrize("options", [{}, {"epochs": 2}, {"epochs": None, "total_epochs": 2}])
def test_the_last_batch_of_an_epoch_is_known(shards: Path, options: Any) -> None:
    loader = load(shards, **options)
    assert loader.batches_per_epoch == EPOCH
    assert not loader.epoch_is_done
    ends: list[tuple[int, int]] = []
    for _ in range(2):
        for step, _batch in loader.steps():
            if loader.epoch_is_done:
                ends.append((step, loader.cursor.epoch))
    assert ends[:2] == [(EPOCH, 0), (2 * EPOCH, 1)]
    assert loader.epoch_is_done


def test_the_end_of_an_epoch_is_known_after_a_change_of_the_batch_size(shards: Path) -> None:
    loader = load(shards, epochs=None, tail="keep")
    for _ in islice(loader, 2):
        pass
    other = load(shards, epochs=None, tail="keep", batch_size=12)
    other.load_state_dict(loader.state_dict(), allow={"global_batch_size"})
    assert not other.epoch_is_done
    ends = [step for step, _ in islice(other.steps(start=100), 10) if other.epoch_is_done]
    samples = len(stoker.Dataset(shards))
    first = -(-(samples - 16) // 12)
    assert ends[:2] == [100 + first, 100 + first + -(-samples // 12)]


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
            load(shards, epochs=None, total_epochs=wrong)
    with pytest.raises(TypeError, match="total_epochs"):
        load(shards, epochs=None, total_epochs=1.5)


def test_a_total_alone_is_refused_because_it_could_mean_one_epoch_or_all(shards: Path) -> None:
    with pytest.raises(ValueError, match=r"total_epochs=3: also give epochs=None, .* or epochs=1"):
        load(shards, total_epochs=3)


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


@pytest.mark.parametrize("is_resumed", [False, True])
def test_set_epoch_keeps_only_the_epoch_that_an_endless_loop_was_left_in(
    shards: Path, epochs: Any, is_resumed: bool
) -> None:
    for number in range(5):
        for is_begun in (False, True):
            loader = load(shards, epochs=None)
            list(islice(loader, 2 * EPOCH + 2))
            if is_resumed:
                state = loader.state_dict()
                loader = load(shards, epochs=None)
                loader.load_state_dict(state)
            stream = iter(loader) if is_begun else None
            loader.set_epoch(number)
            loader.set_epoch(number)
            expected = epochs[2][2:4] if number == 2 else epochs[number][:2]
            assert batches(islice(stream or loader, 2)) == expected


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


def saved_in(shards: Path, epoch: int, count: int) -> Any:
    """The state after some batches of an epoch."""
    loader = load(shards)
    loader.set_epoch(epoch)
    list(islice(loader, count))
    return loader.state_dict()


@pytest.mark.parametrize("named", [0, 1, 2, 5])
def test_a_loaded_position_stays_unless_a_framework_begins_a_later_epoch(
    shards: Path, epochs: Any, named: int, caplog: pytest.LogCaptureFixture
) -> None:
    state = saved_in(shards, 1, 2)
    again = load(shards)
    again.load_state_dict(state)
    stream = iter(again)
    again.sampler.set_epoch(named)
    assert batches(stream) == (epochs[1][2:] if named <= 1 else epochs[named])
    assert bool(caplog.records) == (named > 1)
    for number in (0, 3, 3):  # from here on numbers are what they say
        again.sampler.set_epoch(number)
        assert batches(again) == epochs[number]


def test_a_state_knows_which_epoch_the_framework_was_in(shards: Path, epochs: Any) -> None:
    loader = load(shards, epochs=None)
    loader.sampler.set_epoch(0)
    list(islice(loader, EPOCH + 2))  # an epoch of the framework is longer than one of the data
    state = loader.state_dict()
    assert state["framework_epoch"] == 0
    for text in (state, json.dumps(state)):
        for named, expected in ((0, epochs[1][2:4]), (1, epochs[1][:2])):
            again = load(shards, epochs=None)
            again.load_state_dict(text)
            assert again.state_dict() == state
            again.sampler.set_epoch(named)
            assert batches(islice(again, 2)) == expected


def test_batches_that_a_resumed_framework_leaves_out_are_named(
    shards: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = saved_in(shards, 1, 2)
    again = load(shards)
    again.load_state_dict(state)
    again.sampler.set_epoch(2)
    assert "next 4 batches" in caplog.records[0].getMessage()
    again.sampler.set_epoch(3)  # without a batch of epoch 2
    assert "next 6 batches" in caplog.records[1].getMessage()
    caplog.clear()
    again.load_state_dict(saved_in(shards, 1, EPOCH))
    again.sampler.set_epoch(2)
    list(again)
    again.sampler.set_epoch(3)
    assert not caplog.records


def test_an_endless_run_that_was_loaded_is_not_set_back_by_a_framework(
    shards: Path, epochs: Any
) -> None:
    loader = load(shards, epochs=None)
    list(islice(loader, 14))
    again = load(shards, epochs=None)
    again.load_state_dict(loader.state_dict())
    again.sampler.set_epoch(0)  # the framework's first and only one
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
        loader.sampler.set_epoch(begin // 7)  # Lightning counts what max_steps has ended as one
        for number in range(begin, begin + 7):
            batch, ahead = ahead, next(stream)
            assert batch["cls"].tolist() == flat(epochs)[number]
            assert loader.cursor == batch.cursor
        loaded = loader.state_dict()


def test_rebuilding_a_torch_loader_is_refused_with_a_reason(shards: Path) -> None:
    loader = load(shards)
    with pytest.raises(AttributeError, match=r"skip_first_batches.*load_state_dict"):
        _ = loader.dataset
    assert not hasattr(loader, "dataset")


def test_one_batch_for_each_epoch_of_a_framework_is_not_fetched_ahead(
    shards: Path, epochs: Any
) -> None:
    for options in ({}, {"epochs": None}):
        loader = load(shards, **options)
        for number in (0, 0, 1, 2):
            loader.sampler.set_epoch(number)
            batch = next(iter(loader))
            assert batch["cls"].tolist() == epochs[number][0]
            assert loader.cursor == batch.cursor


def test_a_loader_looks_like_one_of_torch_whose_order_is_its_own(shards: Path) -> None:
    assert load(shards).batch_sampler is None  # Lightning asks for it


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
    shards: Path, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    command = [sys.executable, "-c", _BUILT_BEFORE]
    ranks = [
        ForkedPython(
            [*command, rank, shards, tmp_path / "meeting"],
            torch=True,
            stderr=subprocess.PIPE,
            text=True,
        )
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
