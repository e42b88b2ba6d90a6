"""Every number, string and reference of a manifest changed, through restore and load.

Whatever it says then: it works, or ends in one of the errors that are documented; nothing is
written beside the memory that is restored into. STOKER_MUTATIONS: how many for each of the
checkpoints. A run under AddressSanitizer is in tools/run_mutations.sh.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import enum
import functools
import importlib
import json
import os
import pathlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from fork_server import ForkedPython

sys.path.append(str(Path(__file__).parents[3] / "tools"))
from json_mutations import Mutations, seal, xxh3_128

_COUNT = int(os.environ.get("STOKER_MUTATIONS", "300"))
_ALLOWED = (stoker.CorruptError, ValueError, OSError)
_STEP = "step-000000000001"
_CANARY, _MARGIN = 0xA5, 64

torch: Any = None
with contextlib.suppress(ImportError):
    torch = importlib.import_module("torch")
try:
    xxh3_128(b"")
except OSError:
    pytest.skip("libxxhash is not installed", allow_module_level=True)


class Guarded:
    """Arrays to restore into, each in the middle of memory that must not change."""

    def __init__(self) -> None:
        self._memory: list[tuple[Any, int]] = []

    def array(self, like: Any) -> Any:
        """An array of that type and shape."""
        size = like.nbytes
        memory = np.full(size + 2 * _MARGIN, _CANARY, np.uint8)
        self._memory.append((memory, size))
        return np.frombuffer(memory, like.dtype, like.size, _MARGIN).reshape(like.shape)

    def parameters(self, model: Any) -> None:
        """The same of those of a module."""
        for parameter in model.parameters():
            parameter.data = torch.from_numpy(self.array(parameter.detach().numpy()))

    def check(self, what: str) -> None:
        """Whether nobody has written beside them."""
        for memory, size in self._memory:
            around = np.concatenate((memory[:_MARGIN], memory[_MARGIN + size :]))
            assert (around == _CANARY).all(), f"{what}: written beside the memory"


class Kind(enum.Enum):
    """Of a run."""

    PLAIN = "plain"
    OTHER = 7


_ARRAYS: dict[str, Any] = {
    "w": np.arange(12, dtype=np.float32).reshape(3, 4),
    "i": np.arange(5, dtype=np.int64),
    "none": np.zeros((0, 3), np.uint8),
    "flags": np.array([True, False, True]),
}
_ODD: dict[str, Any] = {
    "c": np.array([1 + 2j, 3 - 4j]),
    "time": np.array(["2026-01-02T03:04", "NaT"], "<M8[ns]"),
    "span": np.array([[3], [4]], "<m8[s]"),
    "text": np.array(["ab", "cdef"], "<U4"),
    "big": np.array([1.5, 2.5], ">f8"),
}
_SCALARS: dict[str, Any] = {
    "f": np.float32(1.5),
    "t": np.datetime64("2026-01-02", "D"),
    "c": np.complex128(1 + 1j),
    "z": np.zeros((), np.int16),
}


def _nested() -> dict[str, Any]:
    return {
        "a": {"b": [_ARRAYS["w"], {"c": _ARRAYS["i"]}], "tied": _ARRAYS["w"]},
        "t": (1, 2.5, None, float("nan"), 2**60, b"\0\1", 1 - 2j, "text"),
        "keys": {1: "one", (2, 3): [4], "!x": 5, None: True},
        "e": _ARRAYS["none"],
    }


def _containers() -> dict[str, Any]:
    made = collections.defaultdict(list, {"a": [1, _ARRAYS["flags"]]})
    return {
        "ordered": collections.OrderedDict([("b", 1), ("a", _ARRAYS["i"])]),
        "counter": collections.Counter({5: 2, "x": 1}),
        "default": made,
        "space": argparse.Namespace(lr=0.1, w=_ARRAYS["w"]),
        "sets": [{1, "a", (2, 3)}, frozenset({1.5})],
        "kind": Kind.PLAIN,
        "path": pathlib.Path("a/b"),
        "dtype": np.dtype("<f4"),
    }


class Cursor:
    """What a loader is for a checkpoint."""

    def __init__(self) -> None:
        self.state: Any = {"epoch": 3, "position": 77, "order": _ARRAYS["i"]}

    def state_dict(self) -> Any:
        """Where it stands."""
        return self.state

    def load_state_dict(self, state: Any) -> None:
        """Takes any."""
        self.state = state


def _guarded_tree(node: Any, guarded: Guarded) -> Any:
    """The tree with other memory for its arrays."""
    if isinstance(node, np.ndarray):
        return guarded.array(node)
    if isinstance(node, argparse.Namespace):
        return argparse.Namespace(**_guarded_tree(vars(node), guarded))
    if isinstance(node, dict):
        made = node.copy()
        made.clear()
        for key, item in node.items():
            made[key] = _guarded_tree(item, guarded)
        return made
    if isinstance(node, list):
        return [_guarded_tree(item, guarded) for item in node]
    return node


def _model() -> tuple[Any, Any]:
    model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.LayerNorm(5))
    return model, torch.optim.AdamW(model.parameters(), lr=0.1)


def _save_model(folder: Path) -> None:
    model, optimizer = _model()
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    with stoker.Checkpointer(folder) as saver:
        saver.save(1, model=model, optimizer=optimizer)


def _into_model(guarded: Guarded) -> dict[str, Any]:
    model, optimizer = _model()
    guarded.parameters(model)
    return {"model": model, "optimizer": optimizer}


# One of two ranks, which are processes.
_RANK = """
import sys
import numpy as np
import stoker
rank, whole = int(sys.argv[2]), np.arange(24, dtype=np.float64).reshape(6, 4)
mine = stoker.Slice(whole[rank * 3 : rank * 3 + 3], (6, 4), (rank * 3, 0))
with stoker.Checkpointer(sys.argv[1], rank=rank, world_size=2, job="mutations") as saver:
    saver.save(1, state={"w": mine, "same": np.arange(3), "n": 5})
"""


def _save_slices(folder: Path) -> None:
    ranks = [ForkedPython([sys.executable, "-c", _RANK, folder, r]) for r in (0, 1)]
    assert [rank.wait(timeout=120) for rank in ranks] == [0, 0]


def _into_slices(guarded: Guarded) -> dict[str, Any]:
    part = guarded.array(np.zeros((2, 4)))
    return {"state": {"w": stoker.Slice(part, (6, 4), (2, 0))}}


def _saving(**what: Any) -> Callable[[Path], None]:
    def save(folder: Path) -> None:
        with stoker.Checkpointer(folder) as saver:
            saver.save(1, reference={"loss": 0.5}, extra={"git": "abc", "n": [1, None]}, **what)

    return save


def _into(tree: Any, loader: Any = None) -> Callable[[Guarded], dict[str, Any]]:
    def make(guarded: Guarded) -> dict[str, Any]:
        trees = {"state": _guarded_tree(tree, guarded)}
        return trees if loader is None else {"loader": loader(), **trees}

    return make


_CASES: dict[str, tuple[Callable[[Path], None], Callable[[Guarded], dict[str, Any]]]] = {
    "model": (_save_model, _into_model),
    "nested": (_saving(state=_nested()), _into(_nested())),
    "odd": (_saving(state=_ODD), _into(_ODD)),
    "scalars": (_saving(state=_SCALARS), _into(_SCALARS)),
    "containers": (_saving(state=_containers()), _into(_containers())),
    "slices": (_save_slices, _into_slices),
    "cursor": (_saving(state=_ARRAYS, loader=Cursor()), _into(_ARRAYS, Cursor)),
}


def _touch(tree: Any) -> None:
    """Reads all memory that a restore has made."""
    if isinstance(tree, np.ndarray):
        tree.tobytes()
    elif torch is not None and isinstance(tree, torch.Tensor):
        tree.clone()
    elif isinstance(tree, argparse.Namespace):
        _touch(vars(tree))
    elif isinstance(tree, dict):
        for item in tree.values():
            _touch(item)
    elif isinstance(tree, (list, tuple)):
        for item in tree:
            _touch(item)


def _restore(saver: Any, trees: dict[str, Any]) -> None:
    _touch(saver.restore(**trees).trees)


def _load_all(folder: Path) -> None:
    loaded = stoker.load(folder)
    for name in loaded:
        _touch(loaded[name][...])
        if loaded[name].ndim:
            _touch(loaded[name][1::2])


@pytest.mark.parametrize("case", _CASES)
def test_a_mutated_manifest_ends_in_a_documented_error(
    case: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if case == "model" and torch is None:
        pytest.skip("torch is not installed")
    caplog.set_level("CRITICAL", "stoker")
    folder = tmp_path / "c"
    save, into = _CASES[case]
    save(folder)
    (folder / ".catalog").unlink()
    manifest = folder / _STEP / "manifest.json"
    document = json.loads(manifest.read_text())
    names = list(document["state"][0])
    saver = stoker.Checkpointer(folder, rank=0, world_size=1)
    assert saver.restore(**into(Guarded())) == 1  # as it was saved
    del document["xxh3_128"]
    mutations, worked = Mutations(document, seed=len(case)), 0
    failures: list[str] = []
    for number in range(_COUNT):
        what, changed = mutations.make(number)
        manifest.unlink()
        manifest.write_bytes(seal(changed))
        guarded = Guarded()
        made: dict[str, Any] = dict.fromkeys(names)
        for attempt in (
            functools.partial(_restore, saver, made),
            functools.partial(_restore, saver, into(guarded)),
            functools.partial(_load_all, folder),
        ):
            try:
                attempt()
                worked += 1
            except _ALLOWED:
                pass
            except Exception as error:
                failures.append(f"{number}: {what}: {error!r}")
        guarded.check(f"{case}, {number}: {what}")
    assert not failures, "\n".join([f"{len(failures)}, such as", *failures[:20]])
    assert 0 < worked < 3 * _COUNT
