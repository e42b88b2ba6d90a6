"""Containers that refuse what was saved: before an array is touched, and with their place."""

from __future__ import annotations

import collections
import enum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import stoker


class Frozen(dict[str, Any]):
    """Takes nothing."""

    def __setitem__(self, key: str, value: Any) -> None:
        raise AttributeError("it is frozen")


class Small(dict[str, Any]):
    """Takes small numbers."""

    def __setitem__(self, key: str, value: Any) -> None:
        if value > 9:
            raise OverflowError("too large")
        super().__setitem__(key, value)


class Fixed(list[Any]):
    """Keeps its items."""

    def __setitem__(self, key: Any, value: Any) -> None:
        raise RuntimeError("it is fixed")


class Known(set[Any]):
    """Takes no others."""

    def update(self, *others: Any) -> None:
        """None of them."""
        raise LookupError("unknown")


class Checked(NamedTuple("Checked", [("a", int), ("b", int)])):
    """Takes them in order."""

    @classmethod
    def _make(cls, iterable: Any) -> Any:  # type: ignore[override]
        a, b = iterable
        if b < a:
            raise ArithmeticError("not in order")
        return super()._make((a, b))


class Color(enum.Enum):
    """With a lookup of its own."""

    RED = 1

    @classmethod
    def _missing_(cls, value: object) -> Any:
        raise RuntimeError(f"what is {value}")


class Auto(collections.defaultdict[Any, Any]):
    """Cannot be copied: its constructor takes nothing."""

    def __init__(self) -> None:
        super().__init__(Auto)


CASES = [
    ({"a": 1}, Frozen({"a": 0}), "Frozen refuses what is in step 1: AttributeError: it is frozen"),
    ({"a": 10}, Small(a=1), "Small refuses .*: OverflowError: too large"),
    ({"a": np.int64(1)}, Frozen({"a": 0}), "Frozen refuses"),
    ([1, 2], Fixed([0]), "Fixed refuses .*: RuntimeError: it is fixed"),
    ({1}, Known([0]), "Known refuses .*: LookupError: unknown"),
    ((2, 1), Checked(0, 1), "Checked refuses .*: ArithmeticError: not in order"),
    (2, Color.RED, "Color has no member of the value that is in step 1: 2"),
    (np.ones(2), Color.RED, "Color has no member of the value that is in step 1: an array"),
]


@pytest.mark.parametrize(("saved", "have", "message"), CASES)
def test_a_container_that_refuses_is_named_before_anything_is_read(
    tmp_path: Path, saved: Any, have: Any, message: str
) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"w": np.ones(3), "in": [saved]}).wait()
        state: dict[str, Any] = {"w": np.zeros(3), "in": [have]}
        before = repr(have)
        with pytest.raises(ValueError, match=rf"^state\['in'\]\[0\]: {message}"):
            saver.restore(state=state)
    assert state["w"].tolist() == [0, 0, 0]
    assert state["in"][0] is have
    assert repr(have) == before


@pytest.mark.parametrize("items", [(1.5, 2), (1, "a"), (np.ones(2),), (np.float64(1),)])
def test_sizes_that_are_none_are_named_before_anything_is_read(tmp_path: Path, items: Any) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"w": np.ones(3), "s": items}).wait()
        state: dict[str, Any] = {"w": np.zeros(3), "s": torch.Size([1, 2])}
        with pytest.raises(ValueError, match=r"^state\['s'\]: Size refuses what is in step 1: "):
            saver.restore(state=state)
    assert state["w"].tolist() == [0, 0, 0]


def test_containers_of_own_classes_that_take_it_are_filled(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    auto = Auto()
    auto["a"]["b"] = np.ones(3)
    state: dict[str, Any] = {
        "auto": auto,
        "small": Small(a=1, b=np.int64(3)),
        "checked": Checked(1, 2),
        "size": (2, np.int64(3)),
        "color": Color.RED,
        "nested": Small(a=np.float32(2)),
    }
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state=state).wait()
        other = Auto()
        other["a"]["b"] = np.zeros(3)
        into: dict[str, Any] = {
            "auto": other,
            "small": Small(a=5),
            "checked": Checked(7, 8),
            "size": torch.Size([1]),
            "color": Color.RED,
            "nested": Small(a=np.float32(0)),
        }
        small = into["small"]
        saver.restore(state=into)
    assert into["auto"] is other
    assert other["a"]["b"].tolist() == [1, 1, 1]
    assert into["small"] is small
    assert small == {"a": 1, "b": 3}
    assert into["checked"] == Checked(1, 2)
    assert type(into["checked"]) is Checked
    assert into["size"] == torch.Size([2, 3])
    assert into["nested"] == {"a": 2}


@pytest.mark.parametrize("value", [np.bytes_(b"x\0"), np.str_("x\0"), np.str_("\0")])
def test_numpy_texts_that_end_with_zeros_are_refused(tmp_path: Path, value: Any) -> None:
    with (
        stoker.Checkpointer(tmp_path) as saver,
        pytest.raises(TypeError, match=r"state\['v'\]: .* can't be saved: NumPy drops the zeros"),
    ):
        saver.save(1, state={"v": value})


def test_arrays_of_texts_come_back_to_the_byte(tmp_path: Path) -> None:
    texts = [np.array([b"x\0", b"", b"yz"]), np.array(["x\0", "", "yz"])]
    zeros = [np.array(b"x\0"), np.array("x\0"), np.array(b""), np.array("")]
    scalars = [np.bytes_(b"a\0b"), np.str_("a\0b"), np.bytes_(b""), np.str_("")]
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"arrays": texts + zeros, "scalars": scalars}).wait()
        done = saver.restore(state=None)
        assert done is not None
        new = done.trees["state"]
        into: dict[str, Any] = {
            "arrays": [np.zeros_like(a) for a in texts + zeros],
            "scalars": list(scalars),
        }
        saver.restore(state=into)
    for found in (new, into):
        for mine, theirs in zip(found["arrays"], texts + zeros, strict=True):
            assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
            assert mine.tobytes() == theirs.tobytes()
        assert [bytes(s) if isinstance(s, bytes) else str(s) for s in found["scalars"]] == [
            *(b"a\0b", "a\0b", b"", "")
        ]


class TwoWay(dict[str, Any]):
    """Knows the keys of its values; takes no negative ones."""

    def __init__(self, *items: Any) -> None:
        self.keys_of: dict[Any, str] = {}
        super().__init__()
        for key, value in items:
            self[key] = value

    def __setitem__(self, key: str, value: Any) -> None:
        if value < 0:
            raise ValueError("negative")
        super().__setitem__(key, value)
        self.keys_of[value] = key


class Itself(TwoWay):
    """Has no copy."""

    def __copy__(self) -> Itself:
        return self


class Logged(list[Any]):
    """Tells what was done."""

    def __init__(self, *items: Any) -> None:
        super().__init__(items)
        self.log: list[str] = []

    def __setitem__(self, at: Any, value: Any) -> None:
        self.log.append("set")
        super().__setitem__(at, value)


@pytest.mark.parametrize("kind", [TwoWay, Itself])
def test_a_refused_restore_leaves_what_a_class_keeps_inside(tmp_path: Path, kind: Any) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"two": {"a": 5, "b": 6}, "log": [9], "bad": {"c": -1}}).wait()
        into = {"two": kind(("a", 1), ("b", 2)), "log": Logged(3), "bad": kind(("c", 3))}
        with pytest.raises(ValueError, match=r"refuses .*negative"):
            saver.restore(state=into)
        assert into["two"] == {"a": 1, "b": 2}
        assert into["two"].keys_of == {1: "a", 2: "b"}
        assert into["bad"].keys_of == {3: "c"}
        assert (into["log"], into["log"].log) == ([3], [])
        saver.restore(state={"two": (two := kind(("a", 1), ("b", 2)))}, partial=True)
        assert two == {"a": 5, "b": 6}
