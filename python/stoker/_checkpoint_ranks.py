"""Several ranks and one checkpoint: how they meet, and what of it is whose."""

from __future__ import annotations

import hashlib
import os
from typing import Any

from stoker import _native
from stoker._checkpoint_tree import TensorNode
from stoker._ranks import Ranks

# What launchers give to all processes of one run, and to no other run of that time. Two that start
# in one directory at once are told apart by it.
_RUN_VARIABLES = (
    *("TORCHELASTIC_RUN_ID", "MASTER_PORT", "SLURM_JOB_ID", "SLURM_STEP_ID"),
    *("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
)


def run_word(purpose: str) -> str:
    """What ranks meet under: the same for all ranks of a run."""
    told = "\0".join(os.environ.get(name, "") for name in _RUN_VARIABLES)
    return f"{purpose}-{hashlib.blake2b(told.encode(), digest_size=8).hexdigest()}"


def own_prefix(ranks: Ranks) -> str:
    """Begins the names of a rank's own tensors, so that they do not meet those of others."""
    return f"rank-{ranks.rank:05}." if ranks.world_size > 1 else ""


def meet(directory: str, purpose: str, ranks: Ranks, timeout: float) -> str:
    """A session for all ranks; rank 0 then makes its directory.

    Raises:
        BlockingIOError: A rank is missing; names it.
    """
    where = os.fsencode(directory)
    return _native.meet_ranks(where, run_word(purpose), ranks.rank, ranks.world_size, timeout)


class Differs:
    """Stands in a tree for what the ranks that saved it did not agree on."""

    def __init__(self, count: int) -> None:
        self._count = count

    def refusal(self, path: str) -> ValueError:
        """What to raise where somebody wants it."""
        return ValueError(
            f"{path}: each of the {self._count} ranks has saved its own, and this run has another "
            "number of ranks: only a stoker.Slice, and what was the same on every rank, can be "
            "restored then"
        )


def tree_of_all(trees: list[Any]) -> Any:
    """What the trees of all ranks have in common; Differs where they do not agree."""
    if not trees:
        return {}
    return trees[0] if len(trees) == 1 else _common(trees)


def _common(nodes: list[Any]) -> Any:
    first = nodes[0]
    if any(type(node) is not type(first) for node in nodes):
        return Differs(len(nodes))
    if isinstance(first, TensorNode):
        is_one = first.is_slice and all(vars(node) == vars(first) for node in nodes)
        return first if is_one else Differs(len(nodes))
    if isinstance(first, dict):
        if any(list(node) != list(first) for node in nodes):
            return Differs(len(nodes))
        return {key: _common([node[key] for node in nodes]) for key in first}
    if isinstance(first, (list, tuple)):
        if any(len(node) != len(first) for node in nodes):
            return Differs(len(nodes))
        items = [_common(list(parts)) for parts in zip(*nodes, strict=True)]
        return items if isinstance(first, list) else tuple(items)
    same = all(node == first or (node != node and first != first) for node in nodes)
    return first if same else Differs(len(nodes))
