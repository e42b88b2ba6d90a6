"""What a checkpoint can hold: every kind of value comes back as it was, or is refused by place."""

from __future__ import annotations

import collections
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

_DTYPES = [
    *("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"),
    *("f16", ">f4", ">i8", "M8[ns]", "m8[s]", "S3", "U2", "V5"),
]
Point = collections.namedtuple("Point", "x y")


def round_trip(folder: Path, tree: Any) -> Any:
    with stoker.Checkpointer(folder) as saver:
        saver.save(1, state=tree)
    with stoker.Checkpointer(folder) as saver:
        done = saver.restore(state=None)
    assert done == 1
    return done.trees["state"]


def assert_same(left: Any, right: Any, path: str = "") -> None:
    assert type(left) is type(right), path
    if isinstance(left, dict):
        assert list(left) == list(right), path
        for key in left:
            assert_same(left[key], right[key], f"{path}[{key!r}]")
    elif isinstance(left, (list, tuple)):
        assert len(left) == len(right), path
        for i, (a, b) in enumerate(zip(left, right, strict=True)):
            assert_same(a, b, f"{path}[{i}]")
    elif isinstance(left, (np.ndarray, np.generic)):
        assert (left.dtype, left.shape) == (right.dtype, right.shape), path
        assert left.tobytes() == right.tobytes(), path
    elif isinstance(left, (float, complex)):
        assert np.complex128(left).tobytes() == np.complex128(right).tobytes(), path
    else:
        assert left == right, path


def test_every_kind_of_value_comes_back_as_it_was(tmp_path: Path) -> None:
    tree = {
        "none": None,
        "bools": [True, False],
        "ints": [0, -1, 2**53, 2**53 + 1, -(2**200), 10**30],
        "floats": [0.0, -0.0, 1.0, 0.1, 1e300, 5e-324, math.nan, math.inf, -math.inf],
        "complex": [1 + 2j, complex(math.nan, -0.0)],
        "text": ["", "ä\u0000\n\U0001f600", "!tensor"],
        "bytes": [b"", bytes(range(256))],
        "tuples": ((), (1, (2.0, "x")), [()]),
        "empty": {},
        "!tensor": {"!int": "5"},
        "keys": {1: "a", "1": "b", None: 2, 2.5: 3, (1, "x"): 4, b"k": 5, True + 1: 6},
        "scalars": [np.float32(0.1), np.int64(-5), np.bool_(True), np.complex128(1j)],
        "generator": np.random.default_rng(1).bit_generator.state,
        "array": np.arange(5),
    }
    assert_same(round_trip(tmp_path, tree), tree)


def bytes_as(dtype: str, count: int) -> Any:
    size = np.dtype(dtype).itemsize
    raw = np.random.default_rng(7).integers(0, 2 if dtype == "?" else 128, count * size, np.uint8)
    if dtype == "f16":  # not all bytes are numbers
        return np.arange(count, dtype=dtype) / 7
    if dtype == "U2":
        return np.array([f"{i % 100}" for i in range(count)], dtype)
    return raw.view(dtype)


@pytest.mark.parametrize("dtype", _DTYPES)
def test_arrays_of_every_type_and_layout_come_back(tmp_path: Path, dtype: str) -> None:
    base = bytes_as(dtype, 60)
    cube = base.reshape(3, 4, 5)
    tree = {
        "flat": base,
        "cube": cube,
        "zero_dim": base[7:8].reshape(()),
        "empty": cube[:, :0],
        "transposed": cube.T,
        "backwards": cube[::-1, ::2, ::-3],
        "broadcast": np.broadcast_to(base[:5], (3, 5)),
        "scalar": base[3],
    }
    back = round_trip(tmp_path, tree)
    for name, array in tree.items():
        assert back[name].dtype == array.dtype, name
        assert back[name].shape == array.shape, name
        if dtype == "f16" and name == "scalar":  # its padding is dropped
            assert back[name] == array
        else:
            assert back[name].tobytes() == array.tobytes(), name


def test_arrays_are_restored_into_what_is_there(tmp_path: Path) -> None:
    for i, dtype in enumerate(_DTYPES):
        base = bytes_as(dtype, 24).reshape(4, 6)
        with stoker.Checkpointer(tmp_path / str(i)) as saver:
            saver.save(3, state={"a": base, "b": [base.T]})
            room = np.zeros((12, 12), dtype)
            into: dict[str, Any] = {"a": room[::3, ::-2], "b": [np.zeros((6, 4), dtype)]}
            a, b = into["a"], into["b"][0]
            assert saver.restore(state=into) == 3
        assert into["a"] is a
        assert into["b"][0] is b
        assert a.tobytes() == base.tobytes()
        assert b.tobytes() == base.T.tobytes()
        assert room[1::3].tobytes() == np.zeros((4, 12), dtype).tobytes()


def test_shared_memory_is_stored_once_and_comes_back_twice(tmp_path: Path) -> None:
    w = np.arange(100_000, dtype=np.float32)
    back = round_trip(tmp_path, {"in": w, "out": w, "part": w[:10]})
    assert back["in"].tobytes() == back["out"].tobytes() == w.tobytes()
    loaded = stoker.load(tmp_path)
    assert loaded["state.in"][3] == loaded["state.out"][3] == 3
    files = sum(file.stat().st_size for file in (tmp_path / "latest").iterdir())
    assert files < 1.2 * w.nbytes


def test_names_that_would_be_the_same_are_told_apart(tmp_path: Path) -> None:
    tree = {"a.b": np.array(1), "a": {"b": np.array(2)}, "c": {1: np.array(3), "1": np.array(4)}}
    assert_same(round_trip(tmp_path, tree), tree)


class Color(int):
    """Like an enum's."""


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"a": [1, 2, 3, {4}]}, r"state\['a'\]\[3\]: object of type set can't be saved: make a li"),
        ({"a": {2: object()}}, r"state\['a'\]\[2\]: object of type object can't be saved: only"),
        ({"f": print}, r"state\['f'\]: object of type builtin_function_or_method"),
        ({"x": (np.array([None]),)}, r"state\['x'\]\[0\]: object of type ndarray .* objects"),
        ({"x": np.zeros(2, "f4,i4")}, r"state\['x'\]: .*structured array: give its fields"),
        ({"x": np.zeros((1, 1)).view(np.matrix)}, r"state\['x'\]: .*subclass of ndarray"),
        ({"x": Color(3)}, r"state\['x'\]: object of type Color can't be saved: a subclass"),
        ({"r": np.random.default_rng()}, r"state\['r'\]: .*Generator.*bit_generator\.state"),
        ({"s": "\ud800"}, r"state\['s'\]: .*not UTF-8"),
        ({"\ud800": 1}, r"state\['\\ud800'\]: .*not UTF-8"),
        ({frozenset(): 1}, r"state: key frozenset\(\): object of type frozenset"),
    ],
)
def test_what_cannot_be_saved_is_refused_with_the_path_to_it(
    tmp_path: Path, tree: Any, message: str
) -> None:
    with stoker.Checkpointer(tmp_path / "c") as saver, pytest.raises(TypeError, match=message):
        saver.save(1, state=tree)
    assert not (tmp_path / "c").exists()


def test_depth_has_a_limit_and_cycles_meet_it(tmp_path: Path) -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    with stoker.Checkpointer(tmp_path) as saver, pytest.raises(TypeError, match=r"\]\[0\]: .*deep"):
        saver.save(1, state=cycle)
    for wrap, most in ((lambda x: [x], 57), (lambda x: (x,), 28), (lambda x: {1: x}, 18)):
        tree: Any = 1
        for _ in range(most):
            tree = wrap(tree)
        assert_same(round_trip(tmp_path / wrap(0).__class__.__name__, tree), tree)


def test_extra_and_reference_say_what_they_take(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        with pytest.raises(TypeError, match=r"extra\['a'\]: .*no arrays here"):
            saver.save(1, state=1, extra={"a": np.zeros(3)})
        with pytest.raises(ValueError, match="finite: no name for a tree"):
            saver.save(1, finite={})
        with pytest.raises(TypeError, match="loss: a number, not str"):
            saver.save(1, state=1, reference={"loss": "high"})
        saver.save(
            1, state=1, reference={"loss": np.float32(0.5), "n": math.nan}, extra=(1, {2: b"x"})
        )
        done = saver.restore()
    assert done is not None
    assert done.extra == (1, {2: b"x"})
    assert done.reference["loss"] == 0.5
    assert math.isnan(done.reference["n"])


def test_a_namedtuple_comes_back_as_what_the_tree_has(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"p": Point(1, [2])})
        tree: Any = {"p": Point(0, [0])}
        saver.restore(state=tree)
    assert tree == {"p": Point(1, [2])}
    assert type(tree["p"]) is Point
