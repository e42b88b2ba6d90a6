"""The interface for reading samples by number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Sample: TypeAlias = dict[str, Any]
Int64s: TypeAlias = npt.NDArray[np.int64]


class SampleReader(Protocol):
    """The shards of a dataset, or windows over them."""

    def __len__(self) -> int: ...
    def read(self, sample: int) -> Sample:
        """Reads one sample."""

    def read_many(self, samples: Int64s) -> list[Sample]:
        """Reads several samples in parallel."""

    def keys(self, samples: Int64s) -> list[str]:
        """Returns the keys of several samples."""

    def gather(
        self, samples: Int64s, field: str, dtype: str, shape: Sequence[int], out: npt.NDArray[Any]
    ) -> None:
        """Reads a field of several samples into the rows of ``out``."""
