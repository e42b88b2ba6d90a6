"""What objects with load_state_dict() get from a restore, and what must not be lost there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

torch = pytest.importorskip("torch")


def test_a_list_with_more_objects_than_were_saved_is_refused(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, nets={"all": [torch.nn.Linear(2, 2)]}, parts=[np.ones(2)]).wait()
        nets = [torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)]
        with pytest.raises(ValueError, match=r"nets\['all'\]\[1\]: not in"):
            saver.restore(nets={"all": nets})
        assert len(nets) == 2
        nested = [nets[0], {"net": nets[1]}]
        with pytest.raises(ValueError, match=r"nets\['all'\]\[1\]: not in"):
            saver.restore(nets={"all": nested})
        parts = [np.zeros(2), stoker.Slice(np.zeros(2), [2], [0])]
        with pytest.raises(ValueError, match=r"parts\[1\]: not in"):
            saver.restore(parts=parts)
        assert (len(nested), len(parts)) == (2, 2)


def test_equal_values_of_other_types_are_not_one_object(tmp_path: Path) -> None:
    saved = [
        ({1, 2}, {3}, {0}),
        ([0.0], [-0.0], [1.0]),
        ([1], [True], [0]),
        ({1}, {True}, {0}),
        ({"k": [1]}, {"k": [1.0]}, {"k": [0]}),
    ]
    with stoker.Checkpointer(tmp_path) as saver:
        for step, (a, b, have) in enumerate(saved, 1):
            saver.save(step, t={"a": a, "b": b}).wait()
            tree = {"a": have, "b": have}
            saver.restore(step, t=tree)
            assert (repr(tree["a"]), repr(tree["b"])) == (repr(a), repr(b))
            assert tree["a"] is have
        saver.save(9, t={"a": {1, 2}, "b": {1, 2}}).wait()
        one: set[int] = set()
        tree = {"a": one, "b": one}
        saver.restore(9, t=tree)
        assert tree["a"] is one
        assert tree["b"] is one
        assert one == {1, 2}


class Meter:
    """Clears what it has before it loads."""

    def __init__(self) -> None:
        self.history: list[float] = []
        self.seen: set[int] = set()
        self.sums = {"x": np.zeros(2)}
        self.buffer = torch.zeros(3)

    def state_dict(self) -> dict[str, Any]:
        """What it has, not a copy."""
        return {
            "history": self.history,
            "seen": self.seen,
            "sums": self.sums,
            "buffer": self.buffer,
            "again": self.buffer,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """In place."""
        assert state["again"] is state["buffer"]
        self.history.clear()
        self.history.extend(state["history"])
        self.seen.clear()
        self.seen |= state["seen"]
        self.sums["x"][:] = 0
        self.sums["x"] += state["sums"]["x"]
        self.buffer.zero_()
        self.buffer.add_(state["buffer"])


class Counted(torch.nn.Linear):  # type: ignore[misc, name-defined]
    """A module with a state that is no tensor."""

    def __init__(self) -> None:
        super().__init__(2, 2)
        self.history: list[float] = []
        self.total = torch.zeros(2)

    def get_extra_state(self) -> Any:
        """What it has, not a copy."""
        return {"history": self.history, "total": self.total}

    def set_extra_state(self, state: Any) -> None:
        """In place."""
        self.history.clear()
        self.history.extend(state["history"])
        self.total.zero_()
        self.total += state["total"]


def test_an_object_may_clear_what_it_has_before_it_loads(tmp_path: Path) -> None:
    one, other = Meter(), Meter()
    one.history += [1.0, 2.0]
    one.seen |= {4, 5}
    one.sums["x"] += 3
    one.buffer += 5
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, meter=one).wait()
        saver.restore(meter=other)
    assert (other.history, other.seen) == ([1.0, 2.0], {4, 5})
    assert other.sums["x"].tolist() == [3, 3]
    assert other.buffer.tolist() == [5, 5, 5]


def test_a_module_may_clear_its_extra_state_before_it_loads(tmp_path: Path) -> None:
    one, other = Counted(), Counted()
    one.history += [1.0]
    one.total += 2
    weight = other.weight
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, net=torch.nn.Sequential(one)).wait()
        saver.restore(net=torch.nn.Sequential(other))
    assert other.history == [1.0]
    assert other.total.tolist() == [2, 2]
    assert other.weight is weight
    assert torch.equal(other.weight, one.weight)


class Sum:
    """Adds to what it has, as a metric does that merges the states of others."""

    def __init__(self) -> None:
        self.total = torch.zeros(2)
        self.parts = {"n": [np.zeros(2)]}

    def state_dict(self) -> dict[str, Any]:
        """What it has, not a copy."""
        return {"total": self.total, "parts": self.parts}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """In place."""
        self.total += state["total"]
        self.parts["n"][0] += state["parts"]["n"][0]


class Upgrading(torch.nn.Linear):  # type: ignore[misc, name-defined]
    """A module with a load_state_dict() of its own."""

    def load_state_dict(self, state_dict: Any, *_: Any, **__: Any) -> None:
        """Clears, then adds."""
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                parameter.zero_()
                parameter += state_dict[name]


def test_an_object_that_adds_what_it_loads_counts_it_once(tmp_path: Path) -> None:
    one, other = Sum(), Sum()
    one.total += 3
    one.parts["n"][0] += 4
    net, restored = Upgrading(2, 2), Upgrading(2, 2)
    weight = restored.weight
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, sums=[one], net=net).wait()
        saver.restore(sums=[other], net=restored)
    assert other.total.tolist() == [3, 3]
    assert other.parts["n"][0].tolist() == [4, 4]
    assert restored.weight is weight
    assert torch.equal(restored.weight, net.weight)


def test_an_object_may_have_slices_in_its_state(tmp_path: Path) -> None:
    class Part(Sum):
        def state_dict(self) -> dict[str, Any]:
            return {"total": stoker.Slice(self.total, [2], [0])}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            self.total = state["total"].array

    one, other = Part(), Part()
    one.total += 3
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, part=one).wait()
        saver.restore(part=other)
    assert other.total.tolist() == [3, 3]
