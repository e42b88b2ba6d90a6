"""The grammar of ``where``: what it takes, what it refuses, and that it runs nothing."""

from __future__ import annotations

import pytest

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
        ("label < 10 or x > 1", "joined by 'and', not or"),
        ("label < 10 and", "COLUMN OPERATOR LITERAL"),
        ("split == train", "train is no literal"),
        ("split == `train`", "is no literal"),
        ("label <> 3", "is no literal"),
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
