"""What objects with load_state_dict() get from a restore, and what must not be lost there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import stoker

torch = pytest.importorskip("torch")


def test_a_list_with_more_objects_than_were_saved_is_refused(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, nets=[torch.nn.Linear(2, 2)], parts=[np.ones(2)]).wait()
        nets = [torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)]
        with pytest.raises(ValueError, match=r"nets\[1\]: not in"):
            saver.restore(nets=nets)
        assert len(nets) == 2
        nested = [nets[0], {"net": nets[1]}]
        with pytest.raises(ValueError, match=r"nets\[1\]: not in"):
            saver.restore(nets=nested)
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
        assert tree["a"] is one and tree["b"] is one and one == {1, 2}
