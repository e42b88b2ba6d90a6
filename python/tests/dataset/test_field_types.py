"""Types of fields that a tar does not store: the manifest records them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

_STOKER = Path(__file__).parents[3] / "build" / "release" / "stoker"
pytestmark = pytest.mark.skipif(not _STOKER.exists(), reason="the command is not built: make build")

SAMPLES: list[dict[str, Any]] = [
    {
        "label": i,
        "score": i / 4,
        "flag": i % 2 == 0,
        "caption": f"cat {i} ä",
        "tags": ["a", i],
        "vec": np.arange(i + 1, dtype=np.float32),
        "jpg": bytes([255, i]),
        "cls": i,
        "txt": "t",
    }
    for i in range(5)
]
TYPES = {
    "caption": "text",
    "flag": "json",
    "label": "int64",
    "score": "float64",
    "tags": "json",
    "vec.npy": "array",
}


def label_of(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, int]:
    return {"n": int(sample["label"])}


def types_in(folder: Path) -> Any:
    return json.loads((folder / "manifest.json").read_text()).get("types")


def run(*words: object) -> str:
    command = [str(_STOKER), *map(str, words)]
    environment = {**os.environ, "STOKER_PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    stoker.ingest(SAMPLES, tmp_path / "packed", samples_per_shard=2)
    return tmp_path / "packed"


def test_values_come_back_with_the_types_they_had(packed: Path) -> None:
    assert types_in(packed) == TYPES
    for place in (packed, packed / "*.tar"):
        for found, given in zip(stoker.Dataset(place), SAMPLES, strict=True):
            for name in ("label", "score", "flag", "caption", "tags", "cls"):
                assert found[name] == given[name], name
            assert isinstance(found["label"], np.int64)
            assert isinstance(found["score"], np.float64)
            assert found["flag"] is given["flag"]
            assert found["vec.npy"].dtype == np.float32
            assert found["vec.npy"].tolist() == given["vec"].tolist()
            assert found["jpg"].tobytes() == given["jpg"]


def test_a_loader_gives_numbers_with_and_without_fields(packed: Path) -> None:
    batch = next(iter(stoker.Loader(packed, batch_size=5, shuffle="off", torch=False)))
    assert batch["label"].tolist() == [0, 1, 2, 3, 4]
    assert batch["score"].tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert batch["caption"] == [sample["caption"] for sample in SAMPLES]
    assert batch["flag"] == [True, False, True, False, True]
    fields = {
        "label": int,
        "score": np.float32,
        "flag": bool,
        "caption": str,
        "vec.npy": stoker.Ragged(np.float32),
        "n": stoker.Field("label", np.uint8),
    }
    loader = stoker.Loader(packed, batch_size=5, shuffle="off", torch=False, fields=fields)
    batch = next(iter(loader))
    assert batch["label"].tolist() == [0, 1, 2, 3, 4]
    assert batch["n"].dtype == np.uint8
    assert batch["score"].tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert batch["flag"].dtype == np.bool_
    assert batch["flag"].tolist() == [True, False, True, False, True]
    assert batch["vec.npy"][2].tolist() == [0, 1, 2]
    labels = stoker.Loader(packed, batch_size=5, shuffle="off", map=label_of)
    assert next(iter(labels))["n"].tolist() == [0, 1, 2, 3, 4]


def test_without_the_manifest_the_bytes_are_those_of_the_tar(packed: Path, tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    for shard in packed.glob("*.tar"):
        shutil.copy(shard, tmp_path / "alone")
    sample = stoker.Dataset(tmp_path / "alone")[2]
    assert sample["label"].tobytes() == b"2"
    assert sample["caption"].tobytes() == "cat 2 ä".encode()
    both = stoker.Dataset([packed, tmp_path / "alone"])
    assert both[2]["label"].tobytes() == b"2"


@pytest.mark.parametrize("per_shard", [1, 10])
def test_mixed_values_have_no_type_and_numbers_are_floats(tmp_path: Path, per_shard: int) -> None:
    samples = [{"a": 1, "n": 1, "b": "x"}, {"a": "one", "n": 0.5}, {"a": 2, "n": 2**60, "b": "y"}]
    stoker.ingest(samples, tmp_path / "out", samples_per_shard=per_shard)
    assert types_in(tmp_path / "out") == {"n": "float64", "b": "text"}
    dataset = stoker.Dataset(tmp_path / "out")
    assert dataset[0]["a"].tobytes() == b"1"
    assert [sample["n"] for sample in dataset] == [1.0, 0.5, 2**60]
    assert "b" not in dataset[1]


def test_a_manifest_without_need_has_no_types(tmp_path: Path) -> None:
    stoker.ingest([{"jpg": b"1", "cls": 2, "txt": "a", "x.json": {}}], tmp_path / "out")
    assert types_in(tmp_path / "out") is None
    stoker.ingest([{"label": 2}], tmp_path / "mds", format="mds")
    assert types_in(tmp_path / "mds") is None


def test_jsonl_and_rows_keep_their_types(tmp_path: Path, arrow: Any) -> None:
    lines = [{"label": i, "score": i / 2, "text": f"t{i}", "box": {"b": 1, "a": 2}} for i in (1, 2)]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run("pack", tmp_path / "x.jsonl", tmp_path / "lines")
    for found, given in zip(stoker.Dataset(tmp_path / "lines"), lines, strict=True):
        assert {name: found[name] for name in given} == given
        assert list(found["box"]) == ["b", "a"]
    table = arrow.table({"label": [1, 2], "ok": [True, False], "list": [[1, 2], [3]]})
    arrow.parquet.write_table(table, tmp_path / "x.parquet")
    for seed in (None, 7):
        out = tmp_path / f"rows-{seed}"
        stoker.pack(tmp_path / "x.parquet", out, shuffle_seed=seed)
        rows = sorted(stoker.Dataset(out), key=lambda row: row["__key__"])
        assert [row["label"] for row in rows] == [1, 2]
        assert [row["ok"] for row in rows] == [True, False]
        assert [row["list.npy"].tolist() for row in rows] == [[1, 2], [3]]


def test_convert_keeps_numbers(packed: Path, tmp_path: Path) -> None:
    run("convert", packed, tmp_path / "mds", "--format", "mds")
    shard = json.loads((tmp_path / "mds" / "index.json").read_text())["shards"][0]
    encodings = dict(zip(shard["column_names"], shard["column_encodings"], strict=True))
    assert encodings["label"] == "int"
    assert encodings["score"] == "float64"
    assert encodings["flag"] == encodings["tags"] == "json"
    assert encodings["caption"] == "str"
    assert encodings["vec.npy"] == "ndarray:float32"
    assert encodings["jpg"] == "jpeg"
    run("convert", tmp_path / "mds", tmp_path / "tar", "--format", "tar")
    assert types_in(tmp_path / "tar") == {**TYPES, "vec.npy": "array"}
    for name in ("mds", "tar"):
        for found, given in zip(stoker.Dataset(tmp_path / name), SAMPLES, strict=True):
            assert found["label"] == given["label"]
            assert found["score"] == given["score"]
            assert found["vec.npy"].tolist() == given["vec"].tolist()


def test_bytes_that_are_not_of_their_type_are_damage(packed: Path) -> None:
    manifest = json.loads((packed / "manifest.json").read_text())
    manifest["types"]["caption"] = "int64"
    (packed / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(stoker.CorruptError, match=r'"caption": it is not a number'):
        stoker.Dataset(packed)[0]
    manifest["types"] = {"caption": "a type of a later version", "label": "int64"}
    (packed / "manifest.json").write_text(json.dumps(manifest))
    assert stoker.Dataset(packed)[0]["caption"].tobytes() == "cat 0 ä".encode()
    manifest["types"] = [1]
    (packed / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(stoker.CorruptError, match="types"):
        stoker.Dataset(packed)


def test_samples_with_too_many_names_have_no_types(tmp_path: Path) -> None:
    stoker.ingest(({f"n{i}": i, "label": i} for i in range(1100)), tmp_path / "out")
    assert types_in(tmp_path / "out") is None
    assert stoker.Dataset(tmp_path / "out")[3]["label"].tobytes() == b"3"


def test_tasks_and_a_restart_record_the_same_types(tmp_path: Path, arrow: Any) -> None:
    table = arrow.table({"label": list(range(20)), "name": [str(i) for i in range(20)]})
    arrow.parquet.write_table(table, tmp_path / "x.parquet")
    whole = tmp_path / "whole"
    stoker.pack(tmp_path / "x.parquet", whole, samples_per_shard=5)
    for task in range(2):
        words = ("--samples-per-shard", 5, "--task", f"{task}/2")
        run("pack", tmp_path / "x.parquet", tmp_path / "tasks", *words)
    run("pack", "--merge", tmp_path / "tasks")
    assert (whole / "manifest.json").read_bytes() == (tmp_path / "tasks/manifest.json").read_bytes()
    assert types_in(whole) == {"label": "int64", "name": "text"}


def test_a_name_that_implies_another_type_does_not_change_the_value(tmp_path: Path) -> None:
    sample = {
        "cls": False,
        "index": 7.5,
        "text": None,
        "transcript": ["a"],
        "x.json": "5",
        "y.json": "007",
        "inx": 3,
        "txt": "plain",
        "id": "007",
        "a.id": "+12",
    }
    stoker.ingest([sample, sample], tmp_path / "out")
    for found in stoker.Dataset(tmp_path / "out"):
        values = {name: value for name, value in found.items() if not name.startswith("__")}
        assert values == sample
        assert type(values["cls"]) is bool
    (tmp_path / "a.jsonl").write_text(
        '{"text":"hello","cls":"cat","id":"007"}\n{"text":5,"cls":3,"id":"8"}\n'
    )
    stoker.pack(tmp_path / "a.jsonl", tmp_path / "rows")
    run("convert", tmp_path / "rows", tmp_path / "again", "--format", "tar")
    for place in ("rows", "again"):
        rows = [(row["text"], row["cls"], row["id"]) for row in stoker.Dataset(tmp_path / place)]
        assert rows == [("hello", "cat", "007"), (5, 3, "8")]


def test_a_loader_gives_the_types_that_names_imply(tmp_path: Path, write_tar: Any) -> None:
    stoker.ingest(({"cls": i % 10, "id": str(i)} for i in range(100)), tmp_path / "out")
    batch = next(iter(stoker.Loader(tmp_path / "out", batch_size=100, shuffle="off")))
    assert [int(number) for number in batch["cls"]] == [i % 10 for i in range(100)]
    assert type(stoker.Dataset(tmp_path / "out")[3]["cls"]) is int
    kept = stoker.Loader(
        tmp_path / "out", batch_size=90, map=lambda sample, rng: sample if sample["cls"] else None
    )
    assert 0 not in [int(number) for number in next(iter(kept))["cls"]]
    write_tar(tmp_path / "odd.tar", {"a": {"txt": b"\xff"}, "b": {"txt": b"ok"}})
    values = next(iter(stoker.Loader(tmp_path / "odd.tar", batch_size=2, shuffle="off")))["txt"]
    assert [bytes(values[0]), values[1]] == [b"\xff", "ok"]


def test_integers_of_64_bits_without_a_sign_are_those_of_torch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    array = np.array([1, 2**63 + 5], np.uint64)
    stoker.ingest([{"v": array}, {"v": array}], tmp_path / "out", format="mds")
    assert torch.from_numpy(stoker.Dataset(tmp_path / "out")[0]["v"].copy()).dtype == torch.uint64
    batch = next(iter(stoker.Loader(tmp_path / "out", batch_size=2)))
    assert batch["v"].tolist() == [[1, 2**63 + 5]] * 2
