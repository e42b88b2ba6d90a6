"""What a Loader and its parts are given: what can never work is refused there, and named."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from stoker._loader.hints import HINTS

HALF: Any = 2.5


def load(data: Any, **options: Any) -> stoker.Loader:
    settings: dict[str, Any] = {"batch_size": 5, "torch": False, "fields": {"cls": int}}
    return stoker.Loader(data, **(settings | options))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"batch_size": 2.5}, TypeError, r"batch_size=2\.5: must be a whole number"),
        ({"batch_size": "8"}, TypeError, "batch_size='8': must be a whole number"),
        ({"batch_size": 0}, ValueError, "batch_size=0: must be at least 1"),
        ({"batch_size": 2**70}, ValueError, "batch_size=.*: must be at most"),
        ({"batch_size": None, "global_batch_size": 2.5}, TypeError, "global_batch_size"),
        ({"seed": "a"}, TypeError, "seed='a': must be a whole number"),
        ({"seed": -1}, ValueError, "seed=-1: must be at least 0"),
        ({"seed": 2**64}, ValueError, "seed=.*: must be at most 18446744073709551615"),
        (
            {"epochs": 1.5},
            TypeError,
            r"epochs=1\.5: must be None for .*, or a whole number",
        ),
        ({"threads": 2.5}, TypeError, r'threads=2\.5: must be "auto", or a whole number'),
        ({"threads": 100_000}, ValueError, 'threads=100000: must be "auto", or at most 256'),
        ({"depth": 10**9}, ValueError, 'depth=1000000000: must be "auto", or at most 4096'),
        ({"memory_bytes": 1e9}, TypeError, "memory_bytes=1000000000.0: must be a whole number"),
        ({"rank": 0.5, "world_size": 2}, TypeError, r"rank=0\.5"),
        ({"shuffle": 0}, TypeError, 'shuffle=0: "global", "block" or a BlockShuffle, "off"'),
        ({"shuffle": 3.5}, TypeError, r"shuffle=3\.5"),
        ({"shuffle": []}, TypeError, r"shuffle=\[\]"),
        ({"shuffle": "sorted"}, ValueError, "sorted"),
        ({"shuffle": 0, "order": range(10)}, TypeError, "shuffle=0"),
        (
            {"shuffle": stoker.BlockShuffle(lanes=HALF)},
            TypeError,
            r"lanes=2\.5: must be a whole",
        ),
        ({"shuffle": stoker.BlockShuffle(-1)}, ValueError, "block_samples=-1: must be at least 0"),
        ({"map": 3}, TypeError, "map is a function, not 3"),
        ({"collate": "stack"}, TypeError, "collate is a function, not 'stack'"),
        ({"map_in": "x"}, ValueError, 'map_in=\'x\': "thread" or "process"'),
        ({"out": 3}, TypeError, "out is a dict of arrays or tensors by column, or a list"),
        ({"map_workers": 2}, ValueError, "map_workers=2 are for map= or collate="),
        ({"map_workers": 1.5, "map": print}, TypeError, r"map_workers=1\.5"),
        (
            {"policy": "warm"},
            ValueError,
            "policy='warm': one of automatic, buffered, direct, drop_behind",
        ),
    ],
)
def test_an_argument_that_can_never_work_is_refused_by_the_constructor(
    shards: Path, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        load(shards, **arguments)


@pytest.mark.parametrize("data", [3, None, [3], b"shards", {"a": 1}])
def test_data_that_is_none_is_refused_in_words(data: Any) -> None:
    with pytest.raises(TypeError, match="data is a Dataset, Tokens or Mixture, or the paths"):
        load(data)


def test_numbers_of_any_kind_are_numbers(shards: Path) -> None:
    loader = load(shards, batch_size=np.int64(5), seed=np.uint64(7), threads=np.int8(1))
    assert next(iter(loader))["cls"].tolist() == next(iter(load(shards, seed=7)))["cls"].tolist()


def test_places_that_are_none_are_refused_in_words(shards: Path) -> None:
    loader = load(shards)
    for epoch in (1.5, "1"):
        with pytest.raises(TypeError, match=r"epoch=.*: must be a whole number"):
            loader.set_epoch(epoch)  # type: ignore[arg-type]
    for number in (-1, 2**64):
        with pytest.raises(ValueError, match=r"epoch=.*: must be at"):
            loader.set_epoch(number)
    for state in (None, 3):
        with pytest.raises(TypeError, match=r"a state is what state_dict\(\) gave.*not"):
            loader.load_state_dict(state)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="every="):
        next(loader.steps(every=1.5))  # type: ignore[arg-type]
    for start in (1.5, "a"):
        with pytest.raises(TypeError, match=r"start=.*a whole number"):
            next(loader.steps(start=start))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="start=-3: must be at least 0"):
        next(loader.steps(start=-3))


def test_a_loader_in_the_place_of_a_dataset_says_what_to_do(shards: Path) -> None:
    with pytest.raises(TypeError, match=r"instead of a DataLoader, or give that a stoker\.Dataset"):
        load(shards)[0]


def test_settings_may_be_spelled_as_on_the_command_line(shards: Path) -> None:
    plain = [batch["cls"].tolist() for batch in load(shards, shuffle="off")]
    for options in ({"policy": "auto"}, {"policy": "drop-behind"}):
        batches = load(shards, shuffle="none", **options)
        assert [batch["cls"].tolist() for batch in batches] == plain
    assert load(shards, shuffle="none").state_dict() == load(shards, shuffle="off").state_dict()
    assert len(list(load(shards, shuffle="none", order=range(10)))) == 2


def test_a_truth_of_any_kind_shuffles_or_does_not(shards: Path) -> None:
    for name, truth in (("global", True), ("off", False)):
        for given in (truth, np.bool_(truth)):
            options: dict[str, Any] = {"shuffle": given}
            assert load(shards, **options).state_dict() == load(shards, shuffle=name).state_dict()


def test_a_mixture_and_tokens_say_which_argument_is_wrong(shards: Path) -> None:
    data = stoker.Dataset(shards)
    for parts in (["stories"], [data], [(data, 1, 2)]):
        with pytest.raises(TypeError, match=r"a list of \(dataset, weight\)"):
            stoker.Mixture(parts)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a weight is a number, not 'much'"):
        stoker.Mixture([(data, "much")])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"epoch_samples=1\.5"):
        stoker.Mixture([(data, 1)], epoch_samples=1.5)  # type: ignore[arg-type]
    for arguments, message in (
        ({"window": 0}, "window=0: must be at least 1"),
        ({"window": 4, "stride": 0}, "stride=0: must be at least 1"),
        ({"window": 4, "extra": -1}, "extra=-1: must be at least 0"),
        ({"pack": 0}, "pack=0: must be at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            stoker.Tokens(shards, **arguments)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"dtype='foo': no dtype"):
        stoker.Tokens(shards, window=4, dtype="foo")
    with pytest.raises(TypeError, match=r"window=1\.5: must be a whole number"):
        stoker.Tokens(shards, window=1.5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("num_workers", "map_workers="),
        ("drop_last", 'tail="drop"'),
        ("collate_fn", "give collate="),
        ("sampler", "give order="),
        ("batch_sampler", "order="),
        ("prefetch_factor", "depth="),
        ("persistent_workers", "leave it out"),
        ("worker_init_fn", "random generator"),
        ("generator", "give seed="),
        ("multiprocessing_context", 'map_in="process"'),
        ("timeout", "leave it out"),
        ("pin_memory_device", "give device="),
        ("in_order", "leave it out"),
    ],
)
def test_arguments_of_a_torch_dataloader_name_ours(
    shards: Path, argument: str, message: str
) -> None:
    with pytest.raises(TypeError, match=f"no argument '{argument}', which a torch.*{message}"):
        load(shards, **{argument: 1})


def test_every_argument_of_a_torch_dataloader_is_taken_or_has_a_hint() -> None:
    data = pytest.importorskip("torch.utils.data")
    theirs = set(inspect.signature(data.DataLoader).parameters)
    ours = set(inspect.signature(stoker.Loader).parameters)
    assert theirs - ours <= set(HINTS)


def test_a_misspelt_argument_gets_a_suggestion(shards: Path, tmp_path: Path) -> None:
    near = r"no argument '{0}'; did you mean '{1}'\?$"
    with pytest.raises(
        TypeError, match=r"^Loader\(\) has " + near.format("batchsize", "batch_size")
    ):
        stoker.Loader(shards, batchsize=2)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"no argument 'frobnicate'$"):
        stoker.Loader(shards, batch_size=2, frobnicate=1)  # type: ignore[arg-type]
    with pytest.raises(
        TypeError, match=r"^Dataset\(\) has " + near.format("checksum", "checksums")
    ):
        stoker.Dataset(shards, checksum=True)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^Tokens\(\) has " + near.format("windows", "window")):
        stoker.Tokens(shards, windows=8)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=near.format("epoch_sample", "epoch_samples")):
        stoker.Mixture([(shards, 1)], epoch_sample=8)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=near.format("keep_lats", "keep_last")):
        stoker.Checkpointer(tmp_path, keep_lats=3)  # type: ignore[arg-type]


def test_a_batch_size_of_each_rank_and_one_of_all_are_not_given_together(shards: Path) -> None:
    with pytest.raises(ValueError, match=r"\(all ranks\), not both$"):
        stoker.Loader(shards, batch_size=2, global_batch_size=2)
    with pytest.raises(ValueError, match=r"\(all ranks\)$"):
        stoker.Loader(shards)


def test_misspelt_names_are_refused_here_and_by_type_checkers(shards: Path) -> None:
    """mypy, which `make lint` runs, fails where one of these is no error to it."""
    with pytest.raises(ValueError, match="blok"):
        stoker.Loader(shards, batch_size=2, shuffle="blok")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="fast"):
        stoker.Loader(shards, batch_size=2, policy="fast")  # type: ignore[arg-type]
