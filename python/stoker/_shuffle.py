"""How samples are shuffled."""

from __future__ import annotations

from dataclasses import dataclass

from stoker import _native
from stoker._numbers import whole_number


@dataclass(frozen=True)
class BlockShuffle:
    """Block order with other figures than the default ones. 0 is the default of each.

    Attributes:
        block_samples: Neighbours that are read together. (As many as make 8 to 16 MiB, a power of
            two; fewer of a small dataset, so that every lane has a window of blocks.)
        window_blocks: Blocks that are mixed with each other (16).
        lanes: Streams of blocks that a global batch takes its samples from; they divide it. (The
            greatest divisor of the global batch up to 64.)
    """

    block_samples: int = 0
    window_blocks: int = 0
    lanes: int = 0


def order_options(
    shuffle: str | bool | BlockShuffle, seed: int, sample_count: int
) -> _native.OrderOptions:
    """The core's options, defaults not put in yet."""
    seed = whole_number("seed", seed)
    if isinstance(shuffle, bool):
        shuffle = "global" if shuffle else "off"
    elif shuffle == "none":  # as the command line says it
        shuffle = "off"
    blocks = shuffle if isinstance(shuffle, BlockShuffle) else BlockShuffle()
    name = shuffle if isinstance(shuffle, str) else "block"
    options = _native.OrderOptions(name, seed, sample_count)
    options.block_samples = blocks.block_samples
    options.window_blocks = blocks.window_blocks
    options.lanes = blocks.lanes
    return options
