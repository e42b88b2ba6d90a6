"""tests/golden/packs/reference.py still says what its vectors say."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[1] / "golden" / "packs"


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("packs_reference", FOLDER / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_packs_documents_as_its_vectors_do(reference: ModuleType) -> None:
    cases = json.loads((FOLDER / "packs.json").read_text())
    assert len(cases) == 5
    for case in cases:
        assert reference.packs_of(case["documents"], case["length"]) == case["packs"]
