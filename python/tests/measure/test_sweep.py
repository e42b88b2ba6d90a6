"""stoker.sweep_workers: what it recommends, draws and runs."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from stoker._measure.sweep import _positions


def profile_of(samples_per_s: float) -> stoker.Profile:
    zeros: dict[str, Any] = {field.name: 0 for field in dataclasses.fields(stoker.Profile)}
    zeros |= {"samples": samples_per_s, "elapsed_s": 1.0, "limit": "", "source": "DataLoader"}
    return stoker.Profile(**zeros)


def sweep_of(rates: dict[int, float]) -> stoker.Sweep:
    return stoker.Sweep({count: profile_of(rate) for count, rate in rates.items()})


@pytest.mark.parametrize(
    ("rates", "recommended"),
    [
        ({0: 100, 1: 190, 2: 195, 4: 199}, 1),
        ({0: 100, 1: 190, 2: 195, 4: 201}, 2),
        ({0: 100, 1: 99, 2: 90}, 0),
        ({4: 100, 2: 100, 0: 1}, 2),
        ({8: 5}, 8),
    ],
)
def test_the_smallest_count_within_a_twentieth_of_the_best(
    rates: dict[int, float], recommended: int
) -> None:
    assert sweep_of(rates).recommended == recommended


def test_the_result_is_a_table_bars_json_and_html() -> None:
    sweep = sweep_of({0: 1000, 2: 4000})
    lines = str(sweep).splitlines()
    assert lines[0].split()[:3] == ["workers", "samples/s", "MB/s"]
    assert lines[2].split()[:2] == ["2", "4,000"]
    short, long = sweep.bars().splitlines()
    assert (short.count("#"), long.count("#")) == (10, 40)
    assert "recommended" in long
    assert "recommended" not in short
    assert json.loads(json.dumps(sweep.to_dict()))["recommended"] == 2
    assert "num_workers=2" in sweep._repr_html_()


def test_a_plot_without_matplotlib_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install matplotlib.*bars\(\)"):
        sweep_of({0: 1}).plot(tmp_path / "plot.png")


def test_a_plot_is_an_image(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    sweep_of({0: 1, 2: 3}).plot(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_without_torch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.data", None)
    with pytest.raises(ImportError, match="pip install torch"):
        stoker.sweep_workers([1, 2, 3])


def test_positions_are_the_same_for_a_seed_and_repeat_a_small_dataset() -> None:
    assert _positions(7, 3, False, 0) == [0, 1, 2, 0, 1, 2, 0]
    drawn = _positions(1000, 3, True, 5)
    assert drawn == _positions(1000, 3, True, 5)
    assert set(drawn) == {0, 1, 2}


class Squares:
    """A map-style dataset that is nobody's."""

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.array([index, index * index])


@pytest.fixture
def torch() -> None:
    """For tests that are skipped without it."""
    pytest.importorskip("torch", reason="torch is not installed (tools/requirements-torch.txt)")


@pytest.mark.usefixtures("torch")
def test_any_map_style_dataset_is_measured_with_every_count() -> None:
    sweep = stoker.sweep_workers(Squares(), (0, 1, 0), batch_size=8, batches=4, warmup=1)
    assert list(sweep.profiles) == [0, 1]
    assert sweep.recommended in (0, 1)
    for count, found in sweep.profiles.items():
        assert (found.source, found.batches, found.samples) == ("DataLoader", 4, 32)
        assert found.size_bytes == 32 * 16, "torch's own collate made tensors of it"
        assert found.processes >= 1 + count


@pytest.mark.usefixtures("torch")
def test_a_stoker_dataset_is_measured_whatever_its_samples_are(shards: Path) -> None:
    sweep = stoker.sweep_workers(stoker.Dataset(shards), (0, 1), batch_size=4, batches=3)
    assert all(found.samples == 12 for found in sweep.profiles.values())
    assert all(found.size_bytes >= 12 * 8 for found in sweep.profiles.values())


@pytest.mark.usefixtures("torch")
def test_arguments_that_make_no_sense_are_refused() -> None:
    def endless() -> Iterator[int]:
        yield 1

    with pytest.raises(ValueError, match="workers"):
        stoker.sweep_workers(Squares(), ())
    with pytest.raises(ValueError, match="workers"):
        stoker.sweep_workers(Squares(), (-1,))
    with pytest.raises(ValueError, match="no samples"):
        stoker.sweep_workers([])
    with pytest.raises(TypeError, match="generator is not map-style"):
        stoker.sweep_workers(endless())
