"""The order of samples once more, written from docs/formats/order.md and not from the C++.

`python reference.py` writes the golden vectors of this folder: do that for new cases only. What is
in them never changes, and tests/tools/test_order_golden.py holds this file to it, as
tests/dataset/order/order_golden_test.cc does the C++.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
MASK = 2**64 - 1
WEYL = 0x9E3779B97F4A7C15
MIX_1 = 0xBF58476D1CE4E5B9
MIX_2 = 0x94D049BB133111EB
SLOTS = 65_536

Order = Callable[[int, int], int]  # (epoch, position) -> sample


def mix(z: int) -> int:
    """Scrambles one word."""
    z = (z ^ (z >> 30)) * MIX_1 & MASK
    z = (z ^ (z >> 27)) * MIX_2 & MASK
    return z ^ (z >> 31)


def hash_words(purpose: int, *words: int) -> int:
    """The hash of a purpose and the words that come with it."""
    state = purpose
    for word in words:
        state = mix(state ^ mix((word + WEYL) & MASK))
    return state


def key(state: int) -> tuple[int, int]:
    """The key that a hash gives: (low, high)."""
    return mix((state + WEYL) & MASK), mix((state + 2 * WEYL) & MASK) | 1


class Permutation:
    """A permutation of [0, count)."""

    def __init__(self, count: int, low_high: tuple[int, int]) -> None:
        self.count = count
        self.low, self.high = low_high
        bits = max(8, (count - 1).bit_length())
        self.right_bits = bits // 2
        self.left_bits = bits - self.right_bits
        self.rounds = 12 if bits < 12 else 8

    def _change(self, left: int, right: int, i: int) -> tuple[int, int]:
        round_key = (self.low + i * self.high) & MASK

        def scramble(x: int, bits: int) -> int:
            z = (x ^ round_key) * MIX_1 & MASK
            z = (z ^ (z >> 32)) * MIX_2 & MASK
            return z >> (64 - bits)

        if i % 2 == 0:
            return left ^ scramble(right, self.left_bits), right
        return left, right ^ scramble(left, self.right_bits)

    def _walk(self, x: int, rounds: range) -> int:
        if self.count == 1:
            return 0
        while True:
            left, right = x >> self.right_bits, x % 2**self.right_bits
            for i in rounds:
                left, right = self._change(left, right, i)
            x = (left << self.right_bits) + right
            if x < self.count:
                return x

    def __call__(self, position: int) -> int:
        """The item at a position."""
        return self._walk(position, range(self.rounds))

    def inverse(self, item: int) -> int:
        """The position of an item."""
        return self._walk(item, range(self.rounds)[::-1])


def block_order(options: dict[str, Any]) -> Order:
    """Block order with lanes."""
    n: int = options["sample_count"]
    s: int = options["block_samples"]
    c: int = options["lanes"]
    g0: int = options["deal_samples"]
    seed: int = options["seed"]
    g = g0 // c
    b = n // s
    t_count = b // c
    deals = t_count * s // g
    ends = t_count * s - deals * g
    m = deals * g0
    k = min(options["window_blocks"], t_count)

    def sample(epoch: int, position: int) -> int:
        rotation = hash_words(5, seed, epoch) % n

        def ring(block: int, offset: int) -> int:
            return (block * s + offset + rotation) % n

        def blocks(index: int) -> int:
            return Permutation(b, key(hash_words(2, seed, epoch)))(index)

        def lane(number: int, index: int) -> int:
            window = index // (k * s)
            size = min(k * s, t_count * s - window * k * s)
            inside = Permutation(size, key(hash_words(3, seed, epoch, number, window)))
            x = inside(index % (k * s))
            return ring(blocks((window * k + x // s) * c + number), x % s)

        if position < m:
            deal, slot = divmod(position, g0)
            return lane(slot // g, deal * g + slot % g)
        u = Permutation(n - m, key(hash_words(4, seed, epoch)))(position - m)
        if u < c * ends:
            return lane(u // ends, deals * g + u % ends)
        v = u - c * ends
        if v < (b - t_count * c) * s:
            return ring(blocks(t_count * c + v // s), v % s)
        return ring(b, v - (b - t_count * c) * s)

    return sample


def single_order(options: dict[str, Any]) -> Order:
    """The order of one dataset."""
    n: int = options["sample_count"]
    seed: int = options["seed"]

    def off(_epoch: int, position: int) -> int:
        return position

    def whole(epoch: int, position: int) -> int:
        return Permutation(n, key(hash_words(1, seed, epoch)))(position)

    def resampled(epoch: int, position: int) -> int:
        return hash_words(6, seed, epoch, position) * n >> 64

    kinds: dict[str, Order] = {"off": off, "global": whole, "resampled": resampled}
    return block_order(options) if options["shuffle"] == "block" else kinds[options["shuffle"]]


def mixture_slots(weights: list[float]) -> list[int]:
    """How many slots of a cycle each weight gets."""
    largest = max(weights)
    whole = [int(Fraction(w / largest) * 2**40 + Fraction(1, 2)) for w in weights]
    total = sum(whole)
    slots = [m * SLOTS // total for m in whole]
    order = sorted(range(len(whole)), key=lambda d: (-(whole[d] * SLOTS % total), d))
    for d in order[: SLOTS - sum(slots)]:
        slots[d] += 1
    return slots


def mixture_order(options: dict[str, Any]) -> Callable[[int, int], list[int]]:
    """(epoch, position) -> [dataset, sample]."""
    seed, parts = options["seed"], options["parts"]
    slots = mixture_slots([part["weight"] for part in parts])
    own = [
        single_order(
            options
            | {
                "seed": hash_words(8, seed, d),
                "sample_count": part["sample_count"],
                "lanes": 1,
                "deal_samples": 1,
            }
        )
        for d, part in enumerate(parts)
    ]

    def sample(epoch: int, position: int) -> list[int]:
        line = (epoch * options["sample_count"] + position) & MASK
        cycle, slot = divmod(line, SLOTS)
        u = Permutation(SLOTS, key(hash_words(7, seed, cycle)))(slot)
        d = 0
        while u >= slots[d]:
            u -= slots[d]
            d += 1
        use = cycle * slots[d] + u
        count = parts[d]["sample_count"]
        return [d, own[d](use // count, use % count)]

    return sample


# --- The cases ------------------------------------------------------------------------------------


def hash_cases() -> list[dict[str, Any]]:
    """Hashes and keys."""
    cases = []
    for words in ([1], [1, 0, 0], [1, 7, 3], [5, MASK, 2], [3, 7, 1, 63, 12], [8, 2**63, 2]):
        value = hash_words(*words)
        low, high = key(value)
        cases.append({"words": words, "value": value, "low": low, "high": high})
    return cases


def permutation_cases() -> list[dict[str, Any]]:
    """Whole permutations of few items, points of large ones."""
    cases = []
    counts = [1, 2, 5, 13, 255, 256, 257, 2047, 2049, 65_536, 10**7, 2**32, 2**48 - 59, 2**62]
    for number, count in enumerate(counts):
        low, high = key(hash_words(1, 42, number))
        permuted = Permutation(count, (low, high))
        step = max(1, count // 17)
        positions = sorted({*range(min(count, 20)), *range(0, count, step), count - 1})[:48]
        items = [permuted(p) for p in positions]
        assert [permuted.inverse(i) for i in items] == positions
        cases.append(
            {"count": count, "low": low, "high": high, "positions": positions, "items": items}
        )
    return cases


def order_case(options: dict[str, Any], epoch: int, positions: list[int]) -> dict[str, Any]:
    """One epoch of one dataset's order, at some positions."""
    order = single_order(options)
    samples = [order(epoch, p) for p in positions]
    return options | {"epoch": epoch, "positions": positions, "samples": samples}


def order_cases() -> list[dict[str, Any]]:
    """Orders of one dataset: whole epochs of small ones, points of large ones."""
    far = [0, 1, 2, 255, 256, 65_535, 10**6, 10**15, 10**15 + 1, 10**16 - 1]
    cases = []
    for shuffle in ("off", "global", "resampled"):
        small = {"shuffle": shuffle, "seed": 7, "sample_count": 29}
        cases += [order_case(small, epoch, list(range(29))) for epoch in (0, 1)]
        cases.append(order_case({**small, "sample_count": 10**16}, 5, far))
    shapes = [  # N, S, K, C, G0
        (96, 4, 2, 2, 8),  # everything divides
        (101, 4, 3, 2, 6),  # left-over blocks, a short block, ends of lanes, a short window
        (50, 1, 7, 5, 5),  # blocks of one sample
        (7, 8, 2, 2, 4),  # shorter than a block
        (40, 4, 2, 16, 64),  # fewer blocks than lanes
        (64, 4, 100, 4, 4),  # windows longer than their lanes
        (60, 7, 1, 1, 1),  # one lane
        (90, 2, 2, 3, 45),  # a deal longer than a window
    ]
    names = ("sample_count", "block_samples", "window_blocks", "lanes", "deal_samples")
    for shape in shapes:
        options = {"shuffle": "block", "seed": 11, **dict(zip(names, shape, strict=True))}
        cases += [order_case(options, epoch, list(range(shape[0]))) for epoch in (0, 3)]
    large = (10**16, 1024, 16, 64, 1024)
    options = {"shuffle": "block", "seed": MASK, **dict(zip(names, large, strict=True))}
    cases.append(order_case(options, 2, far))
    return cases


def mixture_case(options: dict[str, Any], epoch: int, positions: list[int]) -> dict[str, Any]:
    """One epoch of a mixture, at some positions."""
    options["sample_count"] = options["sample_count"] or sum(
        part["sample_count"] for part in options["parts"]
    )
    order = mixture_order(options)
    slots = mixture_slots([part["weight"] for part in options["parts"]])
    return options | {
        "slots": slots,
        "epoch": epoch,
        "positions": positions,
        "samples": [order(epoch, p) for p in positions],
    }


def mixture_cases() -> list[dict[str, Any]]:
    """Mixtures, with datasets that wrap within a cycle and others that never do."""

    def parts(*pairs: tuple[int, float]) -> list[dict[str, Any]]:
        return [{"sample_count": count, "weight": weight} for count, weight in pairs]

    web = {"shuffle": "global", "seed": 3, "sample_count": 0}
    three = parts((1000, 0.7), (70_000, 0.2), (10**9, 0.1))
    near = [*range(24), 65_534, 65_535, 65_536, 65_537, 70_999]
    off = {"shuffle": "off", "seed": 3, "sample_count": 500}
    block = {
        "shuffle": "block",
        "seed": 5,
        "sample_count": 0,
        "block_samples": 8,
        "window_blocks": 4,
    }
    resampled = {"shuffle": "resampled", "seed": 5, "sample_count": 10**16}
    return [
        mixture_case({**web, "parts": three}, 0, near),
        mixture_case({**web, "parts": three}, 9, [*near, 1_000_070_999]),
        mixture_case({**web, "parts": parts((5, 1), (5, 1), (5, 1))}, 2, list(range(15))),
        mixture_case({**off, "parts": parts((3, 1e-3), (400, 65.0))}, 4, list(range(0, 500, 9))),
        mixture_case({**block, "parts": parts((1001, 2), (333, 1))}, 1, list(range(40))),
        mixture_case({**resampled, "parts": parts((9, 1), (10**15, 3))}, 1, [0, 1, 2, 10**15]),
    ]


def documents() -> dict[str, list[dict[str, Any]]]:
    """Every golden file's content."""
    return {
        "hash.json": hash_cases(),
        "permutation.json": permutation_cases(),
        "order.json": order_cases(),
        "mixture.json": mixture_cases(),
    }


def text_of(cases: list[dict[str, Any]]) -> str:
    """One case on each line."""
    return "[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n"


if __name__ == "__main__":
    for name, cases in documents().items():
        (FOLDER / name).write_text(text_of(cases))
