"""What does not fit, of trees in memory and a checkpoint: collected, and raised at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stoker._checkpoint.state.rank_states import Differs

_TOLD_MAX = 10


class Misfits:
    """Places that do not fit, and advice.

    Attributes:
        is_strict: Whether missing and unexpected names do not fit. Otherwise they are listed.
        lacking: Lines about saved names that are not in memory, if other ranks may have them: if no
            rank has them, they do not fit, or are unexpected if it is not strict.
        missing: Names in memory that were not saved, if it is not strict.
        unexpected: Saved names that are not in memory, if it is not strict.

    Values that the ranks of a run did not agree on are one line for each tree: where one of them
    differs, such as the state of a random generator, hundreds do.
    """

    def __init__(self, source: str, *, is_strict: bool = True, is_one_of: bool = False) -> None:
        self._source = source
        self._lines: list[str] = []
        self._differing: dict[str, list[tuple[str, Differs]]] = {}  # by the name of the tree
        self._advice: list[str] = []
        self.is_strict = is_strict
        self._is_one_of = is_one_of  # of several ranks
        self.lacking: list[str] = []
        self.missing: list[str] = []
        self.unexpected: list[str] = []

    def add_missing(self, path: str, names: Iterable[Any]) -> None:
        """Names in memory that were not saved."""
        if self.is_strict:
            self.add(*(f"{path}[{name!r}]: not in {self._source}" for name in names))
        else:
            self.missing += [f"{path}.{name}" for name in names]

    def add_unexpected(self, path: str, names: Iterable[Any], why: str) -> bool:
        """Saved names that are not in memory; returns whether they are misfits of this rank."""
        if self.is_strict:
            lines = [f"{path}[{name!r}]: in {self._source}, but {why}" for name in names]
        else:
            lines = [f"{path}.{name}" for name in names]
        if self._is_one_of:
            self.lacking += lines
            return False
        if not self.is_strict:
            self.unexpected += lines
            return False
        self.add(*lines)
        return bool(lines)

    def __len__(self) -> int:
        return len(self._lines) + sum(map(len, self._differing.values()))

    def add(self, *lines: str) -> None:
        """One line for each place."""
        self._lines += lines

    def add_differing(self, path: str, found: Differs) -> None:
        """A place that each rank has saved another value of."""
        self._differing.setdefault(path.partition("[")[0], []).append((path, found))

    def advise(self, advice: str) -> None:
        """What to do; each is told once."""
        if advice and advice not in self._advice:
            self._advice.append(advice)

    def raise_all(self) -> None:
        """ValueError with the first places, and how many there are; nothing if there are none."""
        if not len(self):
            return
        lines = self._lines[:_TOLD_MAX]
        if len(self._lines) > _TOLD_MAX:
            lines.append(f"and {len(self._lines) - _TOLD_MAX} more")
        for tree, places in self._differing.items():
            path, found = places[0]
            where = path if len(places) == 1 else f"{path} and {len(places) - 1} more in {tree}"
            lines.append(found.refusal(where))
        advice = list(self._advice)
        if self._differing:
            names = ", ".join(self._differing)
            advice.append(
                f"Leave such trees out of restore() and pass partial=True: {names}. Only a "
                "stoker.Slice, and what was the same on every rank, can be restored by another "
                "number of ranks"
            )
        if len(self) == 1:
            raise ValueError(". ".join([*lines, *advice]))
        head = f"{len(self)} places do not fit {self._source}:"
        raise ValueError("\n".join(["\n  ".join([head, *lines]), *advice]))
