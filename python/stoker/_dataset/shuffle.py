"""How samples are shuffled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from stoker import _native
from stoker._common.numbers import whole_number

OrderName = Literal["global", "block", "off", "resampled"]


@dataclass(frozen=True)
class BlockShuffle:
    """Block order with non-default parameters. 0 means the default.

    Attributes:
        block_samples: Neighboring samples that are read together. Default: a power of two that
            makes 8 to 16 MiB; fewer for a small dataset, so that every lane has a window of blocks.
        window_blocks: Blocks that are mixed with each other. Default: 16.
        lanes: Streams of blocks that a global batch takes its samples from; must divide it, or that
            of the resumed run. Default: the greatest divisor of the global batch up to 64.
    """

    block_samples: int = 0
    window_blocks: int = 0
    lanes: int = 0


def shuffle_of(given: Any) -> str | BlockShuffle:
    """Returns the value of ``shuffle=`` as a name or a BlockShuffle.

    Raises:
        TypeError: It is not a valid value.
    """
    if given is None:
        return "global"
    if isinstance(given, (bool, np.bool_)):
        return "global" if given else "off"
    if not isinstance(given, (str, BlockShuffle)):
        raise TypeError(
            f'shuffle={given!r}: "global", "block" or a BlockShuffle, "off", "resampled", or a bool'
        )
    return "off" if given == "none" else given  # the command line also accepts "none"


def order_options(
    shuffle: str | BlockShuffle, seed: int, sample_count: int
) -> _native.OrderOptions:
    """Returns the core's options, without defaults."""
    seed = whole_number("seed", seed)
    blocks = shuffle if isinstance(shuffle, BlockShuffle) else BlockShuffle()
    kind = shuffle if isinstance(shuffle, str) else "block"
    options = _native.OrderOptions(kind, seed, sample_count)
    for name in ("block_samples", "window_blocks", "lanes"):
        setattr(options, name, whole_number(name, getattr(blocks, name)))
    return options
