"""Rows with renamed fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stoker._pack.importers.contract import RowInput, Rows, Sample


class RenamedRows(RowInput):
    """The rows of another source, with renamed fields."""

    def __init__(self, source: RowInput, names: Mapping[str, str]) -> None:
        """Takes ownership of ``source``.

        Args:
            source: Closed together with this.
            names: New names by the source's names; other fields keep theirs.
        """
        has = ", ".join(map(repr, source.fields))
        for name in names:
            if name not in source.fields:
                raise ValueError(f"{source.path}: rename: no field {name!r}; it has {has}")
        self.fields = [names.get(name, name) for name in source.fields]
        twice = sorted({name for name in self.fields if self.fields.count(name) > 1})
        if twice:
            raise ValueError(f"{source.path}: rename: two fields would be called {twice[0]!r}")
        self._source = source
        self._names = dict(names)
        self.path = source.path
        self.count = source.count
        self.size_bytes = source.size_bytes
        self.sizes = source.sizes
        self.starts = source.starts
        self.is_sequential = source.is_sequential
        self.token_bytes = source.token_bytes
        self.fingerprint = f"{source.fingerprint} {sorted(names.items())}"

    def read(self, rows: Rows) -> Iterator[list[Sample]]:
        """Reads rows like the source."""
        names = self._names
        for batch in self._source.read(rows):
            yield [{names.get(name, name): sample[name] for name in sample} for sample in batch]

    def notes(self) -> list[str]:
        """Returns the notes of the source."""
        return self._source.notes()

    def close(self) -> None:
        """Closes the source."""
        self._source.close()
