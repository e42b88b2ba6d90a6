"""One attempt to restore a checkpoint: whether the trees in memory fit, and their new values."""

from __future__ import annotations

import difflib
import logging
import os
from dataclasses import dataclass, field
from typing import Any

from stoker import _native
from stoker._checkpoint.device.targets import Targets
from stoker._checkpoint.fit.tree_fit import TreeFit
from stoker._checkpoint.restored import Restored
from stoker._checkpoint.settings import check_loader
from stoker._checkpoint.state.modules import is_parts
from stoker._checkpoint.state.nodes import TensorNode, decode_tree, manifest_path
from stoker._checkpoint.state.parameters import ParameterNames
from stoker._checkpoint.state.rank_states import Differs, identity_in, states_of, tree_of_some
from stoker._checkpoint.state.rng import RngStates, check_rng, load_rng, rng_of
from stoker._checkpoint.state.values import is_fixed, parts_of
from stoker._common.collector import paused_collector
from stoker._common.corrupt import corrupt_error, error_text, is_damage, tensor_in
from stoker._common.ranks import Ranks
from stoker._common.users import users_code

_log = logging.getLogger("stoker")
_TOLD_MAX = 10


@dataclass(frozen=True)
class Wanted:
    """The arguments of a restore.

    Attributes:
        trees: The trees in memory, by name.
        loader: The loader to restore, or None.
        allow: What may differ in the loader's state.
        is_partial: Whether saved trees that are not named are left out on purpose.
        is_strict: Whether names that were not saved, or are not in memory, are errors.
        is_staged: Whether arrays are changed only after everything was read and verified.
        device: Where tensors of modules on meta get their memory; None: nowhere.
        partly_read: Names of checkpoints that were partly read into arrays, and whether they are
            damaged.
    """

    trees: dict[str, Any]
    loader: Any
    allow: list[str]
    is_partial: bool
    is_strict: bool = True
    is_staged: bool = False
    device: Any = None
    partly_read: list[tuple[str, bool]] = field(default_factory=list)

    def tell_in(self, error: Exception) -> None:
        """Adds to the error that ended the restore that arrays may have been overwritten."""
        if self.partly_read:
            names = [f"{name}, which is damaged" if bad else name for name, bad in self.partly_read]
            text = (
                f"{error_text(error)} (the restore was not completed, and arrays may contain bytes "
            )
            text += f"of {', and of '.join(names)}: do not use them)"
            if isinstance(error, OSError) and error.errno is not None:
                error.strerror = text
            else:
                error.args = (text, *error.args[1:])


def _saved_trees(
    checkpoint: _native.OpenCheckpoint, manifest: str, wanted: dict[str, Any], ranks: Ranks
) -> tuple[dict[str, Any], set[str]]:
    """Returns the saved trees by name, None for those not wanted, and the names to ask for.

    Those are what this rank has saved, if as many ranks restore as have saved, otherwise all.
    """
    trees = states_of(checkpoint, manifest)
    if not all(isinstance(tree, dict) and all(type(key) is str for key in tree) for tree in trees):
        raise corrupt_error(f"{manifest}: state: not trees by name", manifest, 0)
    is_own = len(trees) == ranks.world_size
    own = ranks.rank if is_own else None
    identity = identity_in(checkpoint)
    saved: dict[str, Any] = {name: None for tree in trees for name in tree}
    mine = set(trees[ranks.rank]) if is_own else set(saved)
    for name, have in wanted.items():
        if name not in saved:
            continue
        held = {rank: tree[name] for rank, tree in enumerate(trees) if name in tree}
        if not isinstance(have, RngStates):
            saved[name] = tree_of_some(held, identity, own, len(trees), have)
        elif own in held:
            saved[name] = held[own]
        elif len(held) == len(trees):
            saved[name] = rng_of(list(held.values()), ranks.rank)
        else:
            saved[name] = Differs(len(trees))
    return saved, mine


class Attempt:
    """Checks everything when created. Call ``read`` next, then ``finish``."""

    @paused_collector()
    def __init__(self, checkpoint: _native.OpenCheckpoint, wanted: Wanted, ranks: Ranks) -> None:
        self._step, self._generation = checkpoint.step, checkpoint.generation
        self._line = checkpoint.line
        self._reference = checkpoint.reference
        self._world_size = checkpoint.world_size
        manifest = manifest_path(checkpoint)
        self._extra = decode_tree(checkpoint.extra, "extra", manifest, arrays=False)
        self._wanted = wanted
        self._keyed: dict[str, Any] = {}  # trees, by the names of parameters
        source = f"step {checkpoint.step}"
        self._saved, self._mine = _saved_trees(checkpoint, manifest, wanted.trees, ranks)
        self._cursor = decode_tree(checkpoint.cursor, "the loader's state", manifest)
        parameters = ParameterNames(wanted.trees)
        self._fit = TreeFit(
            checkpoint,
            source,
            parameters,
            is_strict=wanted.is_strict,
            is_staged=wanted.is_staged,
            device=wanted.device,
            is_one_of=ranks.world_size > 1,
        )
        fixed = []
        for name, have in wanted.trees.items():
            if name not in self._saved and not wanted.is_strict:
                self._fit.misfits.missing.append(name)
            elif name not in self._saved:
                there = ", ".join(self._saved) or "nothing"
                near = difflib.get_close_matches(name, self._saved, 1)
                meant = f"; did you mean {near[0]!r}?" if near else ""
                self._fit.refuse(f"{source} has no tree {name!r}; it has {there}{meant}")
            elif isinstance(have, RngStates):
                self._check_rng(name, source)
            elif is_fixed(have) and not is_parts(have):
                fixed.append(
                    f"{name}: a value of type {type(have).__name__} cannot be changed where it is: "
                    f"give {name}=None and take done.trees[{name!r}], where done is what restore() "
                    "returns; or save and restore a dict that has it"
                )
            else:
                saved = self._saved[name]
                self._keyed[name] = parameters.keyed(have, name, saved)
                if self._keyed[name] is not have and isinstance(saved, dict):
                    for key in saved.keys() - self._keyed[name].keys():
                        self._fit.refuse(f"{name}[{key!r}]: in {source}, but not in memory")
                self._fit.check_tree(saved, self._keyed[name], name)
        if fixed and not self._fit.has_misfits:
            raise TypeError("\n  ".join(fixed))
        for text in fixed:
            self._fit.refuse(text)
        if wanted.loader is not None:
            if self._cursor is None:
                raise ValueError(
                    f"loader: {source} was saved without one: leave loader= out of this restore(). "
                    "The data start from the beginning: continue with loader.steps(start=done), "
                    "where done is what restore() returns. The next save() has the loader"
                )
            check_loader(wanted.loader, "load_state_dict")
            self._fit.check(self._cursor, None, "loader")
        self._fit.raise_misfits()
        self._check_cursor(wanted.loader)

    @property
    def lacking(self) -> list[str]:
        """Lines about names that were saved and are not in memory: other ranks may have them."""
        return self._fit.misfits.lacking

    @property
    def is_strict(self) -> bool:
        """Whether a name that no rank has is an error."""
        return self._wanted.is_strict

    def add_unexpected(self, lines: list[str]) -> None:
        """Lists names that no rank has."""
        self._fit.misfits.unexpected += lines

    def _check_rng(self, name: str, source: str) -> None:
        why = check_rng(self._saved[name], source)
        if why is None:
            self._fit.check(self._saved[name], None, name)
        else:
            self._fit.refuse(why)

    def _check_cursor(self, loader: Any) -> None:
        """Checks that a stoker.Loader accepts its state, before any array is changed."""
        if hasattr(loader, "_check_state") and not _has_tensors(self._cursor):
            with users_code():
                loader._check_state(self._cursor, self._wanted.allow)

    def read(self, checkpoint: _native.OpenCheckpoint) -> None:
        """Fills the targets; a CorruptError names the damaged tensor."""
        targets = self._fit.targets
        try:
            Targets.read(checkpoint, targets)
        except Exception as error:
            if targets and self._fit.fills_arrays:
                name = os.path.basename(checkpoint.directory)  # noqa: PTH119
                self._wanted.partly_read.append((name, is_damage(error)))
            if isinstance(error, _native.CorruptError):
                error.tensor = tensor_in(str(error), [target[0] for target in targets])
            raise

    @paused_collector()
    def finish(self, source: str, passed_over: list[tuple[str, str]]) -> Restored:
        """Sets the loader's state, then everything that is not a tensor."""
        for passed, why in passed_over:
            _log.warning("passed over %s: %s", passed, why)
        if not self._wanted.is_partial:
            self._tell_left_out()
        self._tell_copies()
        self._tell_differences()
        if self._wanted.loader is not None:  # first: it may raise
            self._load_loader(self._wanted.loader, self._wanted.allow)
        self._fit.copy()
        trees = self._wanted.trees
        now = {
            name: self._apply(name, have) if name in self._saved else have
            for name, have in trees.items()
        }
        return Restored(
            self._step,
            source=source,
            generation=self._generation,
            line=self._line,
            world_size=self._world_size,
            has_loader=self._cursor is not None,
            skipped=passed_over,
            reference=self._reference,
            extra=self._extra,
            trees=now,
            missing=self._fit.misfits.missing,
            unexpected=self._fit.misfits.unexpected,
        )

    def _apply(self, name: str, have: Any) -> Any:
        if not isinstance(have, RngStates):
            now = self._fit.apply_tree(self._saved[name], self._keyed[name])
            return have if now is self._keyed[name] else now
        load_rng(self._fit.apply(self._saved[name], None), f"step {self._step}")
        return True

    def _tell_copies(self) -> None:
        for name, have in self._wanted.trees.items():
            if type(have) is dict and have.keys() == {"state", "param_groups"}:
                text = (
                    "%s: this looks like the state_dict() of an optimizer. It was filled, and the "
                )
                text += (
                    "optimizer was not: pass the optimizer itself, or call its load_state_dict()"
                )
                _log.warning(text, name)

    def _tell_differences(self) -> None:
        found = self._fit.misfits
        for what, names in (("missing", found.missing), ("unexpected", found.unexpected)):
            if names:
                more = "" if len(names) <= _TOLD_MAX else f" and {len(names) - _TOLD_MAX} more"
                told = ", ".join(names[:_TOLD_MAX])
                _log.info("step %d: strict=False, %s: %s%s", self._step, what, told, more)

    def _tell_left_out(self) -> None:
        left_out = [name for name in self._saved if name in self._mine - self._wanted.trees.keys()]
        if left_out:
            _log.warning(
                "step %d has trees that restore() was not asked for: %s; pass them, or "
                "partial=True if this is intended",
                self._step,
                ", ".join(left_out),
            )
        if self._cursor is not None and self._wanted.loader is None:
            _log.warning(
                "step %d was saved with a loader, and restore() was given none: the data start "
                "from the beginning; pass loader=, or partial=True if this is intended",
                self._step,
            )

    def _load_loader(self, loader: Any, allow: list[str]) -> None:
        settings = {"allow": allow} if allow else {}  # other loaders have no such argument
        loader.load_state_dict(self._fit.apply(self._cursor, None), **settings)
        if hasattr(loader, "_count_from"):  # a stoker.Loader
            loader._count_from(self._step)


def _has_tensors(node: Any) -> bool:
    if isinstance(node, TensorNode):
        return True
    return any(_has_tensors(part) for _, part in parts_of(node) or ())
