"""The order of samples never changes: a second implementation agrees with the committed vectors."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "golden" / "order"


def load_reference() -> Any:
    spec = importlib.util.spec_from_file_location("order_reference", FOLDER / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


reference = load_reference()
documents = reference.documents()


@pytest.mark.parametrize("name", ["hash.json", "permutation.json", "order.json", "mixture.json"])
def test_the_reference_gives_the_golden_vectors(name: str) -> None:
    assert json.loads((FOLDER / name).read_text()) == documents[name]


def test_every_golden_file_is_compared() -> None:
    assert {path.name for path in FOLDER.glob("*.json")} == set(documents)


def test_whole_epochs_among_the_vectors_are_permutations() -> None:
    whole = 0
    for case in json.loads((FOLDER / "order.json").read_text()):
        count = case["sample_count"]
        if case["shuffle"] == "resampled" or len(case["positions"]) < count:
            continue
        whole += 1
        assert sorted(case["samples"]) == list(range(count))
    assert whole >= 20


def test_the_page_names_every_number_that_the_reference_uses() -> None:
    page = (FOLDER.parents[2] / "docs" / "formats" / "order.md").read_text()
    for number in (reference.MIX_1, reference.MIX_2, reference.WEYL):
        assert f"{number:#018x}" in page
    assert f"{reference.SLOTS:,}" in page
