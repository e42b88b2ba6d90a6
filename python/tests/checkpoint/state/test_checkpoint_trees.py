"""What a checkpoint can hold: every kind of value comes back as it was, or is refused by place."""

from __future__ import annotations

import argparse
import collections
import enum
import math
import pathlib
from collections.abc import Callable
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
    if isinstance(left, argparse.Namespace):
        left, right = vars(left), vars(right)
    if isinstance(left, collections.defaultdict):
        assert left.default_factory is right.default_factory, path
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


def test_one_array_without_elements_in_two_places_stays_one(tmp_path: Path) -> None:
    empty = np.zeros((0, 3))
    state = {"a": empty, "b": empty, "c": np.zeros((0, 3))}
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state=state)
        done = saver.restore(state=None)
    assert done is not None
    restored = done.trees["state"]
    assert restored["a"] is restored["b"]
    assert restored["a"] is not restored["c"]
    assert restored["c"].shape == (0, 3)


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


class Color3(enum.Enum):
    """Of three."""

    RED, GREEN, BLUE = 1, (2, "x"), None


class Mode(str, enum.Enum):
    """That is a str as well."""

    TRAIN, TEST = "train", "test"


class Rights(enum.Flag):
    """That can be combined."""

    READ, WRITE = 1, 2


class Odd(enum.Enum):
    """Whose value cannot be saved."""

    ONE = object()


class Keeper:
    """Keeps its own state."""

    def state_dict(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes nothing."""


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"a": [1, {(4, np.int8(1))}]}, r"state\['a'\]\[1\]: .*: object of type .* no arrays here"),
        ({"a": range(3)}, r"state\['a'\]: object of type range can't be saved: make a list"),
        ({"a": {2: object()}}, r"state\['a'\]\[2\]: object of type object can't be saved: only"),
        ({"f": print}, r"state\['f'\]: object of type builtin_function_or_method"),
        ({"x": (np.array([None]),)}, r"state\['x'\]\[0\]: object of type ndarray .* objects"),
        ({"x": np.zeros(2, "f4,i4")}, r"state\['x'\]: .*structured array: give its fields"),
        ({"x": np.zeros((1, 1)).view(np.matrix)}, r"state\['x'\]: .*subclass of ndarray"),
        ({"x": Color(3)}, r"state\['x'\]: object of type Color can't be saved: a subclass"),
        ({"r": np.random.default_rng()}, r"state\['r'\]: .*Generator.*bit_generator\.state"),
        ({"s": "\ud800"}, r"state\['s'\]: .*not UTF-8"),
        ({"\ud800": 1}, r"state\['\\ud800'\]: .*not UTF-8"),
        ({Color3.RED: 1}, r"state: key <Color3.RED.*: object of type Color3 .* as its value"),
        ({"s": {Color3.RED}}, r"state\['s'\]: <Color3.RED.*: object of type Color3 .* its value"),
        ({Keeper(): 1}, r"state: key <.*Keeper.*: object of type Keeper can't be saved"),
        ({"e": Odd.ONE}, r"state\['e'\]: object of type object can't be saved"),
        ({"p": pathlib.PureWindowsPath("C:/x")}, r"state\['p'\]: .* another system"),
        ({"p": Path("\ud800")}, r"state\['p'\]: .*not UTF-8"),
        ({"m": collections.ChainMap({})}, r"state\['m'\]: .*ChainMap .* make a dict of it"),
        ({"d": np.dtype("i4,f4")}, r"state\['d'\]: .* short name"),
        ({"d": np.dtype(object)}, r"state\['d'\]: .* short name"),
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
        with pytest.raises(ValueError, match="'finite' cannot be the name of a tree"):
            saver.save(1, finite={})
        with pytest.raises(TypeError, match=r"reference\['loss'\]: a number, not str"):
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


def space(**names: Any) -> argparse.Namespace:
    return argparse.Namespace(**names)


def default(factory: Any, *pairs: tuple[Any, Any]) -> Any:
    return collections.defaultdict(factory, pairs)


def test_more_kinds_of_values_come_back_as_they_were(tmp_path: Path) -> None:
    tree = {
        "ordered": collections.OrderedDict([("b", 1), ("a", np.arange(3)), ("c", {1: 2})]),
        "ordered_odd": collections.OrderedDict([(2, np.arange(2)), ("!x", 1)]),
        "counter": collections.Counter({30: 1, 60: 2, "x": -1}),
        "counter_odd": collections.Counter({"a": np.float32(2)}),
        "defaults": [
            default(kind, ("a", [1])) for kind in (None, list, int, float, dict, set, str)
        ],
        "default_odd": default(list, (5, np.ones(2)), ("a", ())),
        "sets": [set(), {1, "a", None, 2.5, (1, b"x"), False}, {math.inf, 2**70}],
        "frozen": [frozenset(), frozenset({frozenset({1}), (frozenset(), 2)})],
        "paths": [Path("a/b"), Path("/"), Path(), pathlib.PurePath("c")],
        "dtypes": [np.dtype("f4"), np.dtype(">i8"), np.dtype("M8[ns]"), np.dtype("S3")],
        "args": space(lr=0.1, path=Path("x"), w=np.zeros(2), deep=space(a=(1,))),
        "empty": [collections.OrderedDict(), collections.Counter(), space(), default(int)],
        "keys": {frozenset({1}): 1, (Path("x"), 2): 2, np.dtype("i2"): 3},
    }
    assert_same(round_trip(tmp_path, tree), tree)
    loaded = stoker.load(tmp_path)
    assert loaded["state.ordered.a"][:].tolist() == [0, 1, 2]
    assert loaded["state.args.w"][:].tolist() == [0, 0]
    state = loaded.state["state"]
    assert_same(state["counter"], tree["counter"])
    assert type(state["ordered"]) is collections.OrderedDict
    assert state["ordered"]["a"][1] == 1
    assert state["args"].deep == space(a=(1,))


def test_equal_sets_are_equal_text(tmp_path: Path) -> None:
    texts = []
    for i, items in enumerate((range(0, 4000, 99), range(3960, -1, -99))):
        with stoker.Checkpointer(tmp_path / str(i)) as saver:
            saver.save(1, state={"s": {f"x{item}" for item in items}})
        text = (tmp_path / str(i) / "latest" / "manifest.json").read_text()
        texts.append(text[text.index('"state"') : text.index('"xxh3_128"')])
    assert texts[0] == texts[1]


def test_a_mapping_in_memory_is_cleared_and_set(tmp_path: Path) -> None:
    """A Counter's update() adds: milestones of a scheduler had doubled."""
    saved = {
        "counter": collections.Counter({30: 1, 60: 1}),
        "ordered": collections.OrderedDict([("b", 1), ("a", 2)]),
        "default": default(list, ("x", [1])),
        "other": default(lambda: 7, ("x", 1)),
        "set": {1, 2},
        "args": space(a=1, w=np.ones(2)),
    }
    into: dict[str, Any] = {
        "counter": collections.Counter({30: 1, 60: 1}),
        "ordered": collections.OrderedDict([("a", 0)]),
        "default": default(tuple, ("x", [])),
        "other": default(lambda: 8),
        "set": {3},
        "args": space(w=np.zeros(2)),
    }
    kept = dict(into)
    inner, weights = into["default"]["x"], into["args"].w
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state=saved)
        saver.restore(state=into)
    assert into["counter"] == {30: 1, 60: 1}
    assert list(into["ordered"].items()) == [("b", 1), ("a", 2)]
    assert into["default"] == {"x": [1]}
    assert into["default"]["x"] is inner
    assert into["default"].default_factory is tuple  # its own
    assert into["other"]["new"] == 8
    assert into["set"] == {1, 2}
    assert into["args"] == space(a=1, w=weights)
    assert weights.tolist() == [1, 1]
    assert all(into[key] is kept[key] for key in kept)
    made = stoker.Checkpointer(tmp_path).restore(state=None)
    assert made is not None
    assert made.trees["state"]["other"].default_factory is None  # which one, the files do not say


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"c": {1}}, r"state\['c'\]: of type set, but of type Counter in step 1"),
        ({"s": frozenset()}, r"state\['s'\]: of type frozenset, but of type set in step 1"),
        ({"n": {}}, r"state\['n'\]: of type dict, but of type Namespace in step 1"),
        ({"n": space(b=1)}, r"state\['n'\]\['b'\]: not in step 1"),
        ({"e": Mode.TEST}, r"state\['e'\]: Mode has no member of the value .* step 1: 1$"),
        ({"w": Mode.TEST}, r"state\['w'\]: Mode has no member of the value .* an array"),
    ],
)
def test_more_kinds_that_do_not_fit_are_refused(tmp_path: Path, tree: Any, message: str) -> None:
    saved = {
        "c": collections.Counter(),
        "s": {1},
        "n": space(a=1),
        "e": Color3.RED,
        "w": np.ones(2),
    }
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state=saved)
        with pytest.raises(ValueError, match=message):
            saver.restore(state=tree)
        all_fixed: list[Any] = [Mode.TEST, frozenset(), Path("x"), Point(1, 2), np.dtype("i4")]
        for fixed in all_fixed:
            with pytest.raises(TypeError, match="cannot be changed where it is"):
                saver.restore(state=fixed)


def test_enums_come_back_by_value_as_what_the_tree_has(tmp_path: Path) -> None:
    rights = Rights.READ | Rights.WRITE
    saved = [Color3.RED, Color3.GREEN, Color3.BLUE, Mode.TRAIN, rights]
    into = [Color3.BLUE, Color3.BLUE, Color3.RED, Mode.TEST, Rights.READ]
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"e": saved, "plain": "test"})
        made = saver.restore(state=None)
        tree = {"e": into, "plain": Mode.TRAIN}
        saver.restore(state=tree)
    assert made is not None
    assert_same(made.trees["state"]["e"], [1, (2, "x"), None, "train", 3])
    assert_same(tree["e"], saved)
    assert tree["plain"] is Mode.TEST
    assert "Color3" not in (tmp_path / "latest" / "manifest.json").read_text()


def test_what_0_1_has_saved_as_a_dict_is_restored_into_any_kind_of_dict(tmp_path: Path) -> None:
    kinds: tuple[Callable[..., Any], ...] = (
        collections.OrderedDict,
        collections.Counter,
        lambda **items: default(int, *items.items()),
    )
    for i, kind in enumerate(kinds):
        with stoker.Checkpointer(tmp_path / str(i)) as saver:
            saver.save(1, state={"d": {"b": 2, "a": 1}})
            into = {"d": kind(a=5)}
            before = into["d"]
            saver.restore(state=into)
        assert list(into["d"].items()) == [("b", 2), ("a", 1)]
        assert into["d"] is before


def test_the_depth_of_tags_counts(tmp_path: Path) -> None:
    """Every tree that is not refused can be read again."""
    leaves: list[Any] = [
        *(1, 1e400, 1 + 1j, complex(math.nan), np.ones(1), np.ones(1, "c16"), np.complex128(1)),
        *((), {}, set(), {1}, default(int), default(int, (1, 2)), space(), Path("x"), Color3.GREEN),
    ]
    with stoker.Checkpointer(tmp_path) as saver:
        for number, leaf in enumerate(leaves):
            saved: list[int] = []
            refused: list[str] = []
            for depth in range(50, 62):
                tree = leaf
                for _ in range(depth):
                    tree = [tree]
                try:
                    saver.save(100 * number + depth, state=tree).wait()
                    saved.append(depth)
                except TypeError as error:
                    refused.append(str(error))
            assert saved == list(range(50, 50 + len(saved))), leaf  # 50 and so on, then no more
            assert len(saved) + len(refused) == 12, leaf
            assert all("nested deeper than 60" in why for why in refused), leaf
            done = saver.restore(state=None)
            assert done == 100 * number + saved[-1]


def test_containers_that_were_two_and_are_one_in_memory(tmp_path: Path) -> None:
    """As SequentialLR has them: its _last_lr is the list of its first scheduler."""
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"hist": [1], "best": [2], "d": {"a": 1}, "e": {"a": 2}}).wait()
        one: list[int] = []
        other: dict[str, int] = {"a": 0}
        have: dict[str, Any] = {"hist": one, "best": one, "d": other, "e": other}
        saver.restore(state=have)
    assert have == {"hist": [1], "best": [2], "d": {"a": 1}, "e": {"a": 2}}
