"""rng=True: the states of the global random generators of Python, NumPy and torch."""

from __future__ import annotations

import hashlib
import importlib
import logging
import random
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker._checkpoint.state.nodes import TensorNode

_log = logging.getLogger("stoker")
_numpy: Any = np.random  # the stubs of NumPy lack some of its functions
_VERSION = 1
_SEED_BYTES = 6  # JSON has exact integers up to 2**53
_FORM = {"version", "seed", "python", "numpy", "torch"}


class RngStates:
    """What ``rng=True`` saves: a state that any version of Python, NumPy and torch can express.

    Each rank has its own. Numbers and arrays only: nothing is pickled.
    """

    def state_dict(self) -> dict[str, Any]:
        """Returns the states; takes nothing from the generators.

        ``seed`` is a digest of the states, for ranks that a later run adds.
        """
        version, words, gauss = random.getstate()
        state: dict[str, Any] = {
            "version": _VERSION,
            "python": {"version": version, "words": np.array(words, np.uint32), "gauss": gauss},
            "numpy": np.random.get_state(legacy=False),
            "torch": None,
        }
        torch = sys.modules.get("torch")
        if torch is not None:
            state["torch"] = {"cpu": torch.get_rng_state().numpy(), "cuda": _cuda_states(torch)}
        return state | {"seed": _digest(state)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Sets the states. If one is invalid, raises ValueError and sets none."""
        actions = [_python_action(state["python"]), _numpy_action(state["numpy"])]
        if state["torch"] is not None:
            actions += _torch_actions(state["torch"])
        for action in actions:
            action()


def with_rng(trees: dict[str, Any]) -> dict[str, Any]:
    """Returns the trees, with ``rng=True`` replaced by the states of the generators.

    They are the last tree: the states of others are saved by their own code, which may use them.
    """
    if trees.get("rng") is not True:
        return trees
    return {name: tree for name, tree in trees.items() if name != "rng"} | {"rng": RngStates()}


def rng_of(trees: list[Any], rank: int) -> Any:
    """Returns what a rank restores of the trees of another number of ranks, in their order.

    A rank that was not there when the checkpoint was saved gets the seed and its number.
    """
    if rank < len(trees) or not is_rng(trees[0]):
        return trees[min(rank, len(trees) - 1)]
    return {"seed": trees[0]["seed"], "rank": rank}


def is_rng(saved: Any) -> bool:
    """Whether a saved tree has the form that ``rng=True`` writes."""
    if not isinstance(saved, dict) or set(saved) != _FORM or saved["version"] != _VERSION:
        return False
    python, numpy, torch = saved["python"], saved["numpy"], saved["torch"]
    if not isinstance(python, dict) or set(python) != {"version", "words", "gauss"}:
        return False
    if torch is not None and not (isinstance(torch, dict) and set(torch) == {"cpu", "cuda"}):
        return False
    is_seed = type(saved["seed"]) is int and 0 <= saved["seed"] < 2**53
    return is_seed and isinstance(numpy, dict) and isinstance(python["words"], TensorNode)


def check_rng(saved: Any, source: str) -> str | None:
    """Returns why the saved states cannot be set here; None if they can."""
    if isinstance(saved, dict) and set(saved) == {"seed", "rank"}:
        return None
    if not is_rng(saved):
        return f"rng: not saved with rng=True in {source}: pass the object that was saved"
    there, here = saved["numpy"].get("bit_generator"), type(_numpy.get_bit_generator()).__name__
    if there != here:
        return f"rng: NumPy's global generator is {here}, but {there!r} in {source}"
    return None


def load_rng(state: dict[str, Any], source: str) -> None:
    """Sets the generators of this rank, which may be a new one."""
    if set(state) != {"seed", "rank"}:
        RngStates().load_state_dict(state)
        return
    seed, rank = state["seed"], state["rank"]
    _log.warning(
        "rank %d was not in the run that saved %s: its random generators are seeded from the saved "
        "seed %d and its rank",
        rank,
        source,
        seed,
    )
    python, torch_seed = np.random.SeedSequence([seed, rank, 0]).generate_state(2, np.uint64)
    random.seed(int(python))
    kind = type(_numpy.get_bit_generator())
    _numpy.set_state(kind(np.random.SeedSequence([seed, rank, 1])).state)
    if (torch := _torch()) is not None:
        torch.manual_seed(int(torch_seed) >> 1)  # of all devices


def _digest(state: dict[str, Any]) -> int:
    """Returns a number that depends on every state, and is the same in an equal run."""
    digest = hashlib.sha256()

    def add(value: Any) -> None:
        if isinstance(value, dict):
            for key in sorted(value):
                digest.update(key.encode())
                add(value[key])
        elif isinstance(value, list):
            for item in value:
                add(item)
        else:
            data = value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
            digest.update(data)

    add(state)
    return int.from_bytes(digest.digest()[:_SEED_BYTES], "little")


def _python_action(state: dict[str, Any]) -> Callable[[], None]:
    words = tuple(int(word) for word in state["words"])
    whole = (state["version"], words, state["gauss"])
    _try("Python's", lambda: random.Random().setstate(whole))
    return lambda: random.setstate(whole)


def _numpy_action(state: dict[str, Any]) -> Callable[[], None]:
    kind = type(_numpy.get_bit_generator())
    _try("NumPy's", lambda: np.random.RandomState(kind()).set_state(state))
    return lambda: _numpy.set_state(state)


def _torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError:
        return None


def _cuda_states(torch: Any) -> list[npt.NDArray[np.uint8]] | None:
    """Returns the states of all devices, the current one first; None if CUDA is not in use.

    A context is created on no device.
    """
    if not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return None
    now = torch.cuda.current_device()
    states = [torch.cuda.get_rng_state(i).numpy() for i in range(torch.cuda.device_count())]
    return [states[now], *states]


def _torch_actions(state: dict[str, Any]) -> list[Callable[[], None]]:
    torch = _torch()
    if torch is None:
        _log.warning("rng: the state of torch is not restored: torch is not installed")
        return []
    cpu = torch.from_numpy(state["cpu"])
    _try("torch's", lambda: torch.Generator().set_state(cpu))
    actions: list[Callable[[], None]] = [lambda: torch.set_rng_state(cpu)]
    if state["cuda"] is None:
        return actions
    if not torch.cuda.is_available():
        _log.warning("rng: the states of CUDA devices are not restored: there is none here")
        return actions
    current, *others = (torch.from_numpy(one) for one in state["cuda"])
    if len(others) == torch.cuda.device_count():
        pairs: list[tuple[Any, Any]] = list(enumerate(others))
    else:  # other devices are visible: this process continues on its current one
        pairs = [("cuda", current)]
    return [*actions, *(partial(torch.cuda.set_rng_state, one, device) for device, one in pairs)]


def _try(whose: str, act: Callable[[], object]) -> None:
    try:
        act()
    except Exception as error:  # of another library: any
        raise ValueError(f"rng: {whose} generator refuses the saved state: {error}") from error
