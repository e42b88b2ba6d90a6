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
