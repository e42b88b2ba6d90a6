"""State that no restore could read is never saved; state that fits is restored as it was."""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

sys.path.append(str(Path(__file__).parents[4] / "tools"))
from json_mutations import seal

_PATIENCE_S = 60.0


def set_state(folder: Path, state: Any) -> None:
    """Changes the trees of step 1 and seals its manifest again."""
    manifest = folder / "step-000000000001" / "manifest.json"
    document = json.loads(manifest.read_text())
    del document["xxh3_128"]
    document["state"] = state
    manifest.chmod(0o644)
    manifest.write_bytes(seal(document))


class _HashableDict(dict[Any, Any]):
    def __hash__(self) -> int:  # type: ignore[override]
        return 1


class _HashableList(list[Any]):
    def __hash__(self) -> int:  # type: ignore[override]
        return 1


class _Twin(tuple[Any, ...]):
    """Equal to no other, but the tuple that is saved is."""

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


def _namespace() -> argparse.Namespace:
    space = argparse.Namespace(lr=1)
    vars(space)[1] = 2  # type: ignore[index]
    return space


def _torch_size() -> Any:
    return pytest.importorskip("torch").Size([-1, 3])


_UNREADABLE: list[tuple[Callable[[], Any], str]] = [
    (lambda: 10**4000, r"\['x'\]: .*more than 4000 digits"),
    (lambda: -(10**5000), r"\['x'\]: .*more than 4000 digits"),
    (lambda: {10**5000: 1}, r"\['x'\]: key <int>: .*more than 4000 digits"),
    (_torch_size, r"\['x'\]: object of type Size"),
    (lambda: pathlib.Path("a\0b"), r"\['x'\]: object of type PosixPath"),
    (lambda: np.dtype("S2147483647"), r"\['x'\]: object of type BytesDType"),
    (lambda: {float("nan"): 1, float("nan"): 2}, r"\['x'\]: key nan: .*a NaN"),
    (lambda: {(1, float("nan")): 1}, r"\['x'\]: key \(1, nan\)\[1\]: .*a NaN"),
    (lambda: {complex(0, float("nan"))}, r"\['x'\]: .*a NaN"),
    (lambda: {float("nan"), float("inf")}, r"\['x'\]: nan: .*a NaN"),
    (_namespace, r"\['x'\]: object of type Namespace .* 1 is not a name"),
    (lambda: {_HashableDict(): 1}, r"\['x'\]: .*unhashable type: 'dict'"),
    (lambda: {(1, _HashableList())}, r"\['x'\]: .*unhashable type: 'list'"),
    (lambda: {_Twin((1,)), _Twin((1,))}, r"\['x'\]: some keys would come back as equal ones"),
    (lambda: {k * (2**61 - 1) for k in range(1000)}, r"\['x'\]: .*the same hash"),
]


@pytest.mark.parametrize("number", range(len(_UNREADABLE)))
@pytest.mark.parametrize("where", ["state", "extra", "loader"])
def test_what_no_restore_could_read_is_refused_with_its_place(
    tmp_path: Path, number: int, where: str
) -> None:
    """It was acknowledged as durable, and passed over as damage."""
    make, message = _UNREADABLE[number]

    class Loader:
        def state_dict(self) -> Any:
            return {"x": make()}

    with stoker.Checkpointer(tmp_path / "run") as saver:
        given: dict[str, Any] = {where: Loader() if where == "loader" else {"x": make()}}
        with pytest.raises(TypeError, match=where + message.replace("some keys", ".*some keys")):
            saver.save(1, **given)
        assert not (tmp_path / "run").exists()


def test_the_longest_integer_comes_back(tmp_path: Path) -> None:
    x = {"int": 10**3999, "keys": {-(10**3999): 1}, "set": {2**61 - 1, 2**62, (-1, -2)}}
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state=x).wait()
        done = saver.restore(state=None)
        assert done is not None
        assert done.trees["state"] == x


@pytest.mark.parametrize("name", ["!int", "", "\ud800"])
def test_names_of_trees_that_no_restore_could_read(tmp_path: Path, name: str) -> None:
    trees: dict[str, Any] = {name: "12"}
    with stoker.Checkpointer(tmp_path) as saver, pytest.raises((TypeError, ValueError)):
        saver.save(1, **trees)


_P = 2**61 - 1  # Python's hash of an integer is modulo this


@pytest.mark.parametrize(
    "key",
    [
        lambda k: {"!int": str(k * _P)},
        lambda k: {"!tuple": [{"!int": str(k * _P)}]},
        lambda k: {"!tuple": [-1 - (k >> i) % 2 for i in range(15)]},  # of -1 and -2 it is the same
    ],
)
@pytest.mark.parametrize("kind", ["!set", "!frozenset", "!dict"])
def test_keys_of_one_hash_do_not_take_the_square_of_their_time(
    tmp_path: Path, key: Callable[[int], Any], kind: str
) -> None:
    folder = tmp_path / "run"
    with stoker.Checkpointer(folder) as saver:
        saver.save(1, state={"a": np.ones(3)}).wait()
        keys = [key(k) for k in range(30_000)]
        body = [[one, 1] for one in keys] if kind == "!dict" else keys
        set_state(folder, [{"state": {"x": {kind: body}}}])
        begin = time.monotonic()
        with pytest.raises(stoker.CorruptError, match="the same hash"):
            saver.restore(state=None)
        assert time.monotonic() - begin < _PATIENCE_S / 4


@pytest.mark.parametrize("size_bytes", [0, 8, (1 << 20) - 4])
@pytest.mark.parametrize("part", [slice(None), slice(5, None, 3)])
def test_a_tensor_without_its_storage_is_refused(
    tmp_path: Path, size_bytes: int, part: slice
) -> None:
    torch = pytest.importorskip("torch")
    whole = torch.ones(1 << 18)
    tensor = whole[part]
    needed = (tensor.storage_offset() + (len(tensor) - 1) * tensor.stride(0) + 1) * 4
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"t": tensor}).wait()
        whole.untyped_storage().resize_(min(size_bytes, needed - 4))
        with pytest.raises(ValueError, match=r"state\['t'\]: .*storage has \d+ bytes"):
            saver.restore(state={"t": tensor})
        with pytest.raises(TypeError, match=r"state\['t'\]: .*storage has \d+ bytes"):
            saver.save(2, state={"t": tensor})
        whole.untyped_storage().resize_(needed)
        saver.restore(state={"t": tensor})
        assert bool((tensor == 1).all())


def test_what_was_one_array_is_one_again(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    a, t, c = np.arange(3.0), torch.arange(4.0), np.ones(2, np.complex128)
    state = {"a": [a] * 100, "t": (t, {"again": t}), "c": [c, c], "other": np.arange(3.0)}
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state=state).wait()
        done = saver.restore(state=None)
        assert done is not None
        found = done.trees["state"]
        assert all(one is found["a"][0] for one in found["a"])
        assert found["t"][0] is found["t"][1]["again"]
        assert found["c"][0] is found["c"][1]
        assert found["other"] is not found["a"][0]
        assert found["a"][7].tolist() == [0, 1, 2]
        assert found["t"][0].tolist() == [0, 1, 2, 3]


def test_a_small_manifest_does_not_make_many_arrays(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with stoker.Checkpointer(folder) as saver:
        saver.save(1, state={"a": np.zeros(8, np.int64)}).wait()
        times = [{"!array": ["state.a", f"<M8[{k}ns]"]} for k in range(2, 50)]
        set_state(folder, [{"state": times}])
        with pytest.raises(ValueError, match="47 places do not fit"):
            saver.restore(state=None)
        set_state(folder, [{"state": [{"!tensor": "state.a"}] * 4096}])
        done = saver.restore(state=None)
        assert done is not None
        assert len({id(one) for one in done.trees["state"]}) == 1
