"""stoker.load: names, slices, and nothing read that was not asked for."""

from __future__ import annotations

import json
import subprocess
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from stoker._checkpoint import load as _checkpoint_load
from stoker._checkpoint.tensors.lazy_tensor import _box_of

_STOKER = Path(__file__).parents[3] / "build" / "release" / "stoker"
_CUBE = np.arange(4 * 5 * 6, dtype=np.int32).reshape(4, 5, 6)
_INDICES: list[Any] = [
    ...,
    0,
    -1,
    slice(1, 3),
    slice(None, None, 2),
    slice(None, None, -2),
    slice(3, 1),
    (1, 2, 3),
    (slice(1, 3), 2),
    (..., 4),
    (0, ..., slice(1, 6, 2)),
    (slice(3, None, -1), slice(4, 0, -3), slice(-2, None)),
    np.int64(2),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with stoker.Checkpointer(tmp_path / "c") as saver:
        tree = {"cube": _CUBE, "z": np.array([1 + 2j, 3j]), "n": 5, "d": np.float32(2.5)}
        saver.save(3, state=tree, reference={"loss": 1.0}, extra={"git": "abc"})
    return tmp_path / "c"


@pytest.mark.parametrize("index", _INDICES, ids=repr)
def test_slices_are_those_of_numpy(folder: Path, index: Any) -> None:
    lazy = stoker.load(folder / "latest")["state.cube"]
    assert np.array_equal(lazy[index], _CUBE[index])
    assert np.shape(lazy[index]) == _CUBE[index].shape
    plain = stoker.load(folder / "latest" / "rank-00000.safetensors")["state.cube"]
    assert np.array_equal(plain[index], _CUBE[index])


@pytest.mark.parametrize("where", ["", "latest", "step-000000000003"])
def test_a_checkpoint_is_a_mapping_of_what_was_saved(folder: Path, where: str) -> None:
    loaded = stoker.load(folder / where)
    assert set(loaded) == {"state.cube", "state.z", "state.d"}
    assert len(loaded) == 3
    assert (loaded.step, loaded.reference, loaded.extra) == (3, {"loss": 1.0}, {"git": "abc"})
    assert loaded.state["state"]["n"] == 5
    assert np.array_equal(loaded.state["state"]["cube"], _CUBE)
    assert loaded["state.z"].dtype == np.complex128
    assert loaded["state.z"][1] == 3j
    assert loaded["state.d"][()] == 2.5
    assert np.asarray(loaded["state.cube"], np.float64).dtype == np.float64
    cube = loaded["state.cube"]
    assert (cube.shape, len(cube), cube.ndim) == ((4, 5, 6), 4, 3)
    assert (cube.dtype.type, cube.type) == (np.int32, "I32")
    with pytest.raises(KeyError, match="has no tensor nope"):
        loaded["nope"]


def test_wrong_indices_are_refused(folder: Path) -> None:
    cube = stoker.load(folder)["state.cube"]
    for index in (4, -5, (0, 0, 0, 0), (..., ...)):
        with pytest.raises(IndexError):
            cube[index]
    for odd in ([0, 1], np.array([True]), None, "a"):
        with pytest.raises(TypeError, match="numbers and slices"):
            cube[odd]


@pytest.mark.parametrize("state", ["behind", "dangling", "missing", "whole"])
@pytest.mark.parametrize("slash", ["", "/"])
def test_latest_is_the_newest_wherever_the_link_leads(folder: Path, state: str, slash: str) -> None:
    with stoker.Checkpointer(folder) as saver:
        saver.save(4, state={"n": 4})
    link = folder / "latest"
    if state != "whole":
        link.unlink()
    if state in ("behind", "dangling"):
        link.symlink_to("step-000000000003" if state == "behind" else "step-000000000009")
    assert stoker.load(f"{link}{slash}").step == 4
    (folder / "step-000000000004" / "rank-00000.safetensors").unlink()
    assert stoker.load(f"{link}{slash}").step == 3
    (folder / "step-000000000003" / "manifest.json").unlink()
    with pytest.raises((FileNotFoundError, stoker.CorruptError), match="step-000000000004"):
        stoker.load(f"{link}{slash}")


def test_only_the_damaged_part_is_refused(tmp_path: Path) -> None:
    big = np.arange(4 << 20, dtype=np.float32)  # 16 MiB: four chunks and a bit
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"w": big})
    file = tmp_path / "latest" / "rank-00000.safetensors"
    file.chmod(0o644)
    with file.open("r+b") as opened:
        opened.seek(9 << 20)
        opened.write(b"\xff")
    w = stoker.load(tmp_path)["state.w"]
    assert np.array_equal(w[:1000], big[:1000])
    assert np.array_equal(w[-1000:], big[-1000:])
    with pytest.raises(stoker.CorruptError, match=r"rank-00000\.safetensors.*state\.w") as caught:
        w[2_300_000:2_300_001]
    name = "step-000000000001/rank-00000.safetensors"
    assert (caught.value.path, caught.value.offset) == (str(tmp_path / name), 8 << 20)
    loaded = stoker.load(tmp_path)  # and what is open stays readable
    for path in sorted(tmp_path.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    assert loaded["state.w"][5] == 5


def test_a_file_that_is_no_safetensors_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.safetensors"
    entry = {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}
    for header in ({"a": {**entry, "shape": [4]}}, {"a": {**entry, "data_offsets": [4, 16]}}, [1]):
        text = json.dumps(header).encode()
        file.write_bytes(len(text).to_bytes(8, "little") + text + bytes(12))
        with pytest.raises(stoker.CorruptError, match=r"x\.safetensors") as caught:
            stoker.load(file)
        assert (caught.value.path, caught.value.offset) == (str(file), 0)
    for raw in (b"", b"\xff" * 20):
        file.write_bytes(raw)
        with pytest.raises(stoker.CorruptError):
            stoker.load(file)
    with pytest.raises(FileNotFoundError):
        stoker.load(tmp_path / "nothing")


def best_of(repetitions: int, call: Callable[[], Any]) -> float:
    times = []
    for _ in range(repetitions):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def test_a_flat_tensor_is_read_as_fast_as_a_matrix(tmp_path: Path) -> None:
    """The ends of a slice were found by walking through it, element by element."""
    flat = np.arange(8 << 20, dtype=np.float32)  # 32 MiB
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"flat": flat, "matrix": flat.reshape(2048, 4096)})
    loaded = stoker.load(tmp_path)
    flat_s = best_of(3, lambda: loaded["state.flat"][...])
    matrix_s = best_of(3, lambda: loaded["state.matrix"][...])
    assert flat_s < 5 * matrix_s
    assert np.array_equal(loaded["state.flat"][1:-1:3], flat[1:-1:3])
    assert np.array_equal(loaded["state.flat"][-2:1:-7], flat[-2:1:-7])


def test_the_box_of_a_slice_costs_no_walk() -> None:
    size = 1 << 60
    box, inner = _box_of(slice(5, -5, 3), (size,))
    assert box == ((5,), ((size - 5 - 1 - 5) // 3 * 3 + 1,))
    assert inner == (slice(None, None, 3),)


def test_bytes_that_change_between_two_reads_are_never_given_out(tmp_path: Path) -> None:
    big = np.arange(3 << 20, dtype=np.float32)  # 12 MiB: some chunks
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"w": big})
    w = stoker.load(tmp_path)["state.w"]
    assert np.array_equal(w[...], big)
    file = tmp_path / "latest" / "rank-00000.safetensors"
    file.chmod(0o644)
    with file.open("r+b") as opened:
        opened.seek(6 << 20)
        opened.write(b"\xff")
    for index in (slice(None), slice(1_570_000, 1_580_000), slice(0, 10)):
        try:
            read = w[index]
        except stoker.CorruptError:
            assert index != slice(0, 10)  # another chunk
            continue
        assert np.array_equal(read, big[index])


class Listing:
    """Stands for the native module: checkpoints that vanish while they are looked at."""

    CorruptError = stoker.CorruptError

    def __init__(self, rounds: list[list[str]], there: set[str]) -> None:
        self._rounds, self._there = iter(rounds), there
        self._last: list[str] = []
        self.opened: list[str] = []

    def list_checkpoints(
        self, directory: bytes, for_newest: bool = False
    ) -> list[tuple[str, int, bool, int, str | None, str]]:
        """The next round; the last one again and again."""
        self._last = next(self._rounds, self._last)
        return [(name, int(name[5:]), False, int(name[5:]), None, "") for name in self._last]

    def OpenCheckpoint(self, path: bytes, through_cache: bool) -> Any:  # noqa: N802
        """Only of those that are there."""
        name = Path(path.decode()).name
        self.opened.append(name)
        if name not in self._there:
            raise FileNotFoundError(f"{name}: gone")
        return types.SimpleNamespace(name=name)


@pytest.mark.parametrize(
    "rounds",
    [
        [["step-1"], ["step-2"], ["step-3"]],
        [["step-2", "step-1"], [], ["step-3"]],
        [[], ["step-3"]],
    ],
)
def test_what_is_removed_while_it_is_looked_at_is_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rounds: list[list[str]]
) -> None:
    """A writer with keep_last=1 removes what was the newest a moment ago."""
    (tmp_path / "step-000000000001").mkdir()
    listing = Listing(rounds, {"step-3"})
    monkeypatch.setattr(_checkpoint_load, "_native", listing)
    for where in (tmp_path, tmp_path / "latest"):
        listing._rounds, listing._last = iter(rounds), []
        assert _checkpoint_load._open(str(where)).name == "step-3"  # type: ignore[attr-defined]


def test_what_stays_away_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "step-000000000001").mkdir()
    listing = Listing([["step-2", "step-1"]], set())
    monkeypatch.setattr(_checkpoint_load, "_native", listing)
    with pytest.raises(FileNotFoundError, match="step-2: gone"):
        _checkpoint_load._open(str(tmp_path))
    assert listing.opened == ["step-2", "step-1"] * 2


@pytest.mark.skipif(not _STOKER.exists(), reason="the command is not built: make build")
def test_a_dataset_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("a")
    data = tmp_path / "data"
    stoker.pack(tmp_path / "in", data)
    with pytest.raises(ValueError, match=r"it is a dataset: open it with stoker\.Dataset"):
        stoker.load(data)
    with pytest.raises(ValueError, match=r"is a dataset, .* Give another directory"):
        stoker.Checkpointer(data)
    listed = subprocess.run([_STOKER, "checkpoint", "ls", data], capture_output=True, text=True)
    assert "it is a dataset; `stoker ls`" in listed.stderr
    # Wherever it names its shards; and a checkpoint may have a tree of that name.
    manifest = data / "manifest.json"
    manifest.chmod(0o644)
    manifest.write_text('{"note": "' + "x" * 1000 + '",' + manifest.read_text()[1:])
    with pytest.raises(ValueError, match=r"is a dataset, .* Give another directory"):
        stoker.Checkpointer(data)
    with stoker.Checkpointer(tmp_path / "run") as saver:
        saver.save(1, shards=[1, 2], state={'"shards": [': 3})
    assert stoker.load(tmp_path / "run").state["shards"] == [1, 2]
