"""Mutates every number, string and reference of a JSON document, to test its readers.

A document has a fixed list of mutations, so that a test can use all of them or a share that is the
same each time. seal() writes a manifest or a note with its checksum.
"""

from __future__ import annotations

import copy
import ctypes
import json
import random
from collections.abc import Iterator
from typing import Any

Path = tuple[Any, ...]  # keys and indices from the root

_TWICE = "\x01"  # after a key to be duplicated
_GONE = object()
_NUMBERS: tuple[Any, ...] = (
    *(0, -1, 1, 2, 9, 10, 255, 4096, 2**31, 2**32, 2**53 + 1, 2**62, 2**62 + 1, 2**63 - 1),
    *(2**63, 2**64 - 1, 2**64, 2**70, -(2**63), 1.5, -0.0, 1e308, True, None, "7", [], {}),
)
_TEXTS: tuple[Any, ...] = (
    *("", "x", ".", "..", "../x", "/", "/etc/passwd", "manifest.json", "latest", "a\nb", "\x7f"),
    *("\x00", "a" * 300, "é", "step-000000000001", "0", "-1", "nan", "eval", "O", None, 0, [], {}),
)
_TYPES = (
    *("F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U64", "U8", "BOOL", "C64", "F4"),
    *("F8_E4M3", "F6_E2M3", "F128", "<c16", "<M8[ns]", "<m8[s]", "<M8[x]", "<U4", "<U999999999"),
    *("|S3", "|V16", "|V0", "|O8", ">f8", "<i8", "float32", "int", "cpu", "cuda:99"),
)
_TAGS = (
    *(
        "!tensor",
        "!torch",
        "!array",
        "!scalar",
        "!slice",
        "!elements",
        "!tuple",
        "!dict",
        "!float",
        "!int",
    ),
    *("!bytes", "!complex", "!ordered_dict", "!counter", "!default_dict", "!namespace", "!set"),
    *("!frozenset", "!enum", "!path", "!pure_path", "!numpy_dtype", "!torch_dtype"),
    *("!torch_device", "!torch_size", "!new"),
)


class _Digest(ctypes.Structure):
    _fields_ = (("low", ctypes.c_uint64), ("high", ctypes.c_uint64))


def xxh3_128(data: bytes) -> str:
    """Returns the XXH3-128, which Python lacks, as `xxhsum -H2` does; OSError without libxxhash."""
    library = ctypes.CDLL("libxxhash.so.0")
    library.XXH3_128bits.restype = _Digest
    library.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    digest = library.XXH3_128bits(data, len(data))
    return f"{digest.high:016x}{digest.low:016x}"


def text_of(document: Any) -> str:
    """Returns the JSON, with the keys that a mutation duplicates."""
    return json.dumps(document, ensure_ascii=False).replace('\\u0001"', '"')


def seal(document: Any) -> bytes:
    """Returns the text of a manifest or a note, with its checksum as the last member."""
    body = text_of(document)[:-1].encode()
    body += b"\n" if body == b"{" else b",\n"
    return body + f'"xxh3_128": "{xxh3_128(body)}"}}\n'.encode()


def _slots(node: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Yields every place in a document below the root, and its value."""
    items: list[tuple[Any, Any]] = []
    if isinstance(node, dict):
        items = list(node.items())
    elif isinstance(node, list):
        items = list(enumerate(node))
    for key, item in items:
        yield (*path, key), item
        yield from _slots(item, (*path, key))


def _deep(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value]
    return value


class Mutations:
    """All mutations of a document, in an order determined by the seed."""

    def __init__(self, document: Any, seed: int) -> None:
        self._text = json.dumps(document)
        slots = list(_slots(document, ()))
        dice = random.Random(seed)
        texts = sorted({item for _, item in slots if isinstance(item, str)})
        nodes = [item for _, item in slots if isinstance(item, (dict, list))]
        self._all: list[tuple[Path, Any]] = []
        for path, item in slots:
            for value in self._values(item, texts, nodes, dice):
                self._all.append((path, value))
            self._all.append((path, _GONE))
            if isinstance(path[-1], str):
                self._all += [(path, _Renamed(name)) for name in dice.sample(_TAGS, 2)]
                self._all += [(path, _Renamed(path[-1] + _TWICE)), (path, _Renamed("x"))]
            else:
                self._all.append((path, _Doubled()))
        dice.shuffle(self._all)
        self._dice = dice

    @staticmethod
    def _values(
        item: Any, texts: list[str], nodes: list[Any], dice: random.Random
    ) -> Iterator[Any]:
        if isinstance(item, bool) or item is None:
            yield from (True, False, None, 0, "x", [], {})
        elif isinstance(item, (int, float)):
            yield from _NUMBERS
            yield from (item + 1, item - 1, item * 2, -item)
        elif isinstance(item, str):
            yield from _TEXTS
            yield from dice.sample(_TYPES, 8) if item not in _TYPES else _TYPES
            yield from dice.sample(texts, min(8, len(texts)))
            yield item + "x"
        else:
            yield from (None, 0, "x", [], {}, [item], _deep(item, 70))
            yield from (copy.deepcopy(node) for node in dice.sample(nodes, min(8, len(nodes))))
            yield from ({tag: item} for tag in dice.sample(_TAGS, 5))

    def __len__(self) -> int:
        return len(self._all)

    def make(self, number: int) -> tuple[str, Any]:
        """Returns a mutation's description and document; past the last, two mutations each."""
        document = json.loads(self._text)
        wanted = [self._all[number % len(self._all)]]
        if number >= len(self._all):
            wanted.append(self._all[random.Random(number).randrange(len(self._all))])
        for path, value in wanted:
            _apply(document, path, value)
        return "; ".join(f"{path}: {value!r:.80}" for path, value in wanted), document


class _Renamed:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"named {self.name!r}"


class _Doubled:
    def __repr__(self) -> str:
        return "doubled"


def _apply(document: Any, path: Path, value: Any) -> None:
    """Does nothing if an earlier change has removed the place."""
    try:
        parent = document
        for key in path[:-1]:
            parent = parent[key]
        key = path[-1]
        old = parent[key]
        if value is _GONE:
            del parent[key]
        elif isinstance(value, _Renamed):
            if not value.name.endswith(_TWICE):
                del parent[key]
            parent[value.name] = old
        elif isinstance(value, _Doubled):
            parent.insert(key, copy.deepcopy(old))
        else:
            parent[key] = copy.deepcopy(value)
    except (KeyError, IndexError, TypeError, AttributeError):
        return
