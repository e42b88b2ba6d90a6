"""A dataloader of torchtitan that reads tokens through a stoker.Loader."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torchtitan.components.dataloader import BaseDataLoader, DataloaderExhaustedError

from stoker._dataset.dataset import Dataset
from stoker._dataset.tokens import Tokens
from stoker._loader.loader import Loader


class DataLoader(BaseDataLoader):
    """Windows of tokens, shuffled: ``({"input": tokens}, labels)``, one token apart.

    >>> config.dataloader = stoker.torchtitan.DataLoader.Config(dataset_path="corpus.npy")

    The position is the same number for all ranks, so a run resumes with any number of them.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        """Where the tokens are, and their order."""

        seed: int = 0
        """Of the order."""

        raw_dtype: str | None = None
        """Element type of a token file without a header, such as "uint16"."""

        infinite: bool = True
        """Whether another epoch follows the last one."""

    def __init__(
        self,
        config: Config,
        *,
        dp_world_size: int,
        dp_rank: int,
        seq_len: int,
        local_batch_size: int,
        **unused: Any,
    ) -> None:
        if not config.dataset_path:
            raise ValueError("stoker.torchtitan.DataLoader: dataset_path names the tokens")
        raw: dict[str, Any] = {"format": "raw", "dtype": config.raw_dtype}
        data = Dataset(config.dataset_path, **(raw if config.raw_dtype else {}))
        self._is_infinite = config.infinite
        self._loader = Loader(
            Tokens(data, window=seq_len, extra=1, dtype="int64"),
            batch_size=local_batch_size,
            seed=config.seed,
            epochs=None if config.infinite else 1,
            rank=dp_rank,
            world_size=dp_world_size,
        )

    def __iter__(self) -> Iterator[tuple[dict[str, Any], Any]]:
        """Yields batches from the position that was restored, or the beginning."""
        for batch in self._loader:
            tokens = batch["tokens"]
            yield {"input": tokens[:, :-1]}, tokens[:, 1:]
        if not self._is_infinite:
            raise DataloaderExhaustedError

    def state_dict(self) -> dict[str, Any]:
        """The position: the same on all ranks."""
        return self._loader.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues there. CursorMismatch if it is that of another run."""
        self._loader.load_state_dict(state_dict)
