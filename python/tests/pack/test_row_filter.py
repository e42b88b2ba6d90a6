"""The grammar of ``where``: what it takes, what it refuses, and that it runs nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import stoker
from stoker._pack.importers.arrow_rows import make_filter
from stoker._pack.importers.row_filter import Condition, parse_row_filter


@pytest.mark.parametrize(
    ("text", "conditions"),
    [
        ("label<10", [Condition("label", "<", 10)]),
        ("label = 10", [Condition("label", "==", 10)]),
        (" a.b >= -1.5e3 ", [Condition("a.b", ">=", -1500.0)]),
        ("x != .5", [Condition("x", "!=", 0.5)]),
        ("ok == true and a!=false", [Condition("ok", "==", True), Condition("a", "!=", False)]),
        ("split == 'train'", [Condition("split", "==", "train")]),
        ("t == \"it's\" and u == 'say \\'so\\''", [
            Condition("t", "==", "it's"), Condition("u", "==", "say 'so'")]),
        ('"a column, and more" > 3', [Condition("a column, and more", ">", 3)]),
        ("`x\"y` <= 1", [Condition('x"y', "<=", 1)]),
        ("and == 1 and b > 2", [Condition("and", "==", 1), Condition("b", ">", 2)]),
        ("größe > 1", [Condition("größe", ">", 1)]),
    ],
)  # fmt: skip
def test_conditions_are_read(text: str, conditions: list[Condition]) -> None:
    assert parse_row_filter(text) == conditions


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "COLUMN OPERATOR LITERAL"),
        ("label", "COLUMN OPERATOR LITERAL"),
        ("label <", "COLUMN OPERATOR LITERAL"),
        ("10 < label", "is not COLUMN OPERATOR LITERAL"),
        ("'label' < 3", "is not COLUMN OPERATOR LITERAL"),
        ("bild name == 3", "in double quotes if it is not one word"),
        ("label < 10 or x > 1", "joined by 'and', not or"),
        ("label < 10 and", "COLUMN OPERATOR LITERAL"),
        ("split == train", "train is not a literal"),
        ("split == `train`", "is not a literal"),
        ("label <> 3", "is not a literal"),
        ("label < 10x", "not understood from '10x'"),
        ("label < 10; import os", "not understood from '; import os'"),
        ("__import__('os').system('true') == 1", r"not understood from \"\('os'"),
        ("label < (lambda: 1)()", r"not understood from '\(lambda"),
        ("a == 'open", "not understood"),
        (" and ".join(["a < 1"] * 65), "more than 64 conditions"),
    ],
)
def test_what_is_no_filter_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_row_filter(text)


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("u == 18446744073709551615", [2]),
        ("u > 1", [1, 2]),
        ("u >= 1.5", [1, 2]),
        ("u < -1", []),
        ("u != -1", [0, 1, 2]),
        ("n < 9223372036854775808", [0, 1, 2]),
        ("n > 9223372036854775808", []),
        ("n == 9223372036854775807", [2]),
        ("n == 9223372036854775807.0", []),  # as a number that is 2**63
        ("n >= -1e30", [0, 1, 2]),
        ("n < 1e999", [0, 1, 2]),
        ("n <= 0.5", [1]),
        ("n == 0.5", []),
        ("n != 0.5", [0, 1, 2]),
        ("f < 100000000000000000000", [0, 1]),
        ("f >= 18446744073709551615", [1, 2]),  # the next double is 2**64
        ("f == 18446744073709551615", []),
        ("f != 18446744073709551615", [0, 1, 2]),
        (f"f < 1{'0' * 400}", [0, 1, 2]),
    ],
)
def test_numbers_of_any_size_are_compared_exactly(arrow: Any, where: str, kept: list[int]) -> None:
    columns = {
        "u": arrow.array([1, 2**63, 2**64 - 1, None], arrow.uint64()),
        "n": arrow.array([1, -5, 2**63 - 1, None], arrow.int64()),
        "f": arrow.array([1.0, 2.0**64, 1e30, None], arrow.float64()),
        "row": arrow.array(range(4)),
    }
    table = arrow.table(columns)
    assert table.filter(make_filter(where, table.schema, "a"))["row"].to_pylist() == kept


def test_a_pack_takes_integers_past_an_int64(tmp_path: Path, arrow: Any) -> None:
    source, out = tmp_path / "a.parquet", tmp_path / "out"
    column = arrow.array([1, 2**63, 2**64 - 1], arrow.uint64())
    arrow.parquet.write_table(arrow.table({"u": column, "n": [0, 1, 2]}), source)
    stoker.pack(source, out, columns=["n"], where="u >= 9223372036854775808", format="mds")
    assert [int(sample["n"]) for sample in stoker.Dataset(out)] == [1, 2]
