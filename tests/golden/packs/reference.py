"""Writes packs.json: which documents share a row, as docs/formats/packs.md says it.

Written from that page alone, in the plainest way. The vectors hold the packs for ever: a run that
is resumed in five years must see the same rows. Run it for new cases only; what is in packs.json
never changes.
"""

from __future__ import annotations

import json
import random
from pathlib import Path


def packs_of(lengths: list[int], row: int) -> list[list[list[int]]]:
    """The pieces [sample, part] of each pack."""
    rooms: list[int] = []
    filled: list[int] = []
    packs: list[list[list[int]]] = []
    clock = 0
    for sample, length in enumerate(lengths):
        for part in range((length + row - 1) // row):
            size = min(row, length - part * row)
            takers = [p for p, room in enumerate(rooms) if room >= size]
            if takers:
                pack = min(takers, key=lambda p: (rooms[p], -filled[p]))
            else:
                pack = len(packs)
                packs.append([])
                rooms.append(row)
                filled.append(0)
            clock += 1
            rooms[pack] -= size
            filled[pack] = clock
            packs[pack].append([sample, part])
    return packs


def main() -> None:
    rng = random.Random(7)
    cases = [
        ([3, 0, 5, 2, 8, 20, 1, 1, 4], 8),
        ([1] * 9, 4),
        ([10, 10, 10], 3),
        ([rng.randrange(0, 90) for _ in range(120)], 50),
        ([int(rng.lognormvariate(5, 1.5)) for _ in range(150)], 512),
    ]
    lines = [
        json.dumps({"length": row, "documents": lengths, "packs": packs_of(lengths, row)})
        for lengths, row in cases
    ]
    Path(__file__).with_name("packs.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
