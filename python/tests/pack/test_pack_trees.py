"""stoker.pack() of trees: links, hidden files, splits, and what it warns of."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

import pytest

import stoker


def write_tree(root: Path, names: list[str]) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())
    return root


def test_classes_that_are_links_keep_their_numbers(tmp_path: Path) -> None:
    source = write_tree(tmp_path / "in", ["cat/0.jpg", "emu/2.jpg"])
    (source / "dog").symlink_to(write_tree(tmp_path / "real", ["1.jpg"]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stoker.pack(source, tmp_path / "out")
    numbers = json.loads((tmp_path / "out" / "classes.json").read_text())
    assert numbers == {"cat": 0, "dog": 1, "emu": 2}
    assert stoker.Dataset(tmp_path / "out").keys() == ["cat/0", "dog/1", "emu/2"]


@pytest.mark.parametrize(
    "names", [["a/1.jpg", "a/1.png"], ["a/img.001.jpg", "a/img.002.jpg"], ["a/1.JPEG", "a/1.jpg"]]
)
def test_two_images_of_a_class_do_not_become_one_sample(tmp_path: Path, names: list[str]) -> None:
    source = write_tree(tmp_path / "in", [*names, "b/2.jpg"])
    with pytest.raises(ValueError, match="two images would be one sample") as refusal:
        stoker.pack(f"{source}/", tmp_path / "out")
    assert "photo_001.jpg" in str(refusal.value)
    assert f"{source / names[0]} and {source / names[1]}: " in str(refusal.value)
    assert "--from tree" not in str(refusal.value)  # which would make one sample of both
    write_tree(tmp_path / "masks", ["a/1.jpg", "a/1.seg.png", "b/2.jpg"])
    stoker.pack(tmp_path / "masks", tmp_path / "three")
    assert len(stoker.Dataset(tmp_path / "three")) == 2


def test_hidden_files_are_told_and_packed_if_asked_for(tmp_path: Path) -> None:
    source = write_tree(tmp_path / "in", ["a.txt", ".b.txt"])
    with pytest.warns(UserWarning, match=r"left out: \.b\.txt: hidden; .*hidden=True"):
        stoker.pack(source, tmp_path / "plain")
    assert len(stoker.Dataset(tmp_path / "plain")) == 1
    stoker.pack(source, tmp_path / "all", hidden=True)
    samples = {sample["__key__"]: sample["txt"] for sample in stoker.Dataset(tmp_path / "all")}
    assert samples == {"_b": ".b.txt", "a": "a.txt"}


def test_splits_of_classes_are_told_and_packed_with_the_same_numbers(tmp_path: Path) -> None:
    names = ["train/cat/0.jpg", "train/dog/1.jpg", "val/dog/2.jpg"]
    source = write_tree(tmp_path / "in", names)
    with pytest.warns(UserWarning, match=r"train, val in .* look like splits of labelled images"):
        stoker.pack(source, tmp_path / "one")
    stoker.pack(source / "train", tmp_path / "train")
    stoker.pack(source / "val", tmp_path / "val", classes=tmp_path / "train" / "classes.json")
    assert int(stoker.Dataset(tmp_path / "val")[0]["cls"]) == 1
    classes = [(tmp_path / split / "classes.json").read_text() for split in ("train", "val")]
    assert classes[0] == classes[1]


@pytest.mark.parametrize(
    ("stray", "why"),
    [
        ("loose.jpg", "is an image in no directory"),
        ("cat/sub/3.jpg", "is an image in a nested directory"),
        ("cat/1.txt", "belongs to an image by its name"),
    ],
)
def test_a_stray_file_that_costs_the_labels_is_told(tmp_path: Path, stray: str, why: str) -> None:
    source = write_tree(tmp_path / "in", ["cat/1.jpg", "cat/2.jpg", "dog/1.jpg", stray])
    expected = f'no "cls".*{re.escape(stray)} {why}; --from classes .kind="classes" in Python'
    with pytest.warns(UserWarning, match=expected):
        stoker.pack(source, tmp_path / "plain")
    assert not (tmp_path / "plain" / "classes.json").exists()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stoker.pack(source, tmp_path / "labelled", kind="classes")
    assert int(stoker.Dataset(tmp_path / "labelled")[0]["cls"]) == 0


def test_a_file_beside_a_single_class_is_told(tmp_path: Path) -> None:
    source = write_tree(tmp_path / "in", ["cat/1.jpg", "cat/2.jpg", "README.md"])
    with pytest.warns(UserWarning, match=r"README\.md is next to a single directory"):
        stoker.pack(source, tmp_path / "out")


@pytest.mark.parametrize(
    "names", [["1.jpg", "1.txt"], ["images/1.jpg", "images/1.txt"], ["a.txt", "b/c.txt"]]
)
def test_trees_that_are_no_classes_are_packed_without_a_word(
    tmp_path: Path, names: list[str]
) -> None:
    source = write_tree(tmp_path / "in", names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stoker.pack(source, tmp_path / "out")


def test_images_of_several_kinds_are_told(tmp_path: Path) -> None:
    source = write_tree(tmp_path / "in", ["cat/0.jpeg", "dog/1.png"])
    with pytest.warns(UserWarning, match=r'jpeg \(1\), png \(1\); "jpeg;png" reads'):
        stoker.pack(source, tmp_path / "out")


def test_options_of_trees_are_refused_for_other_sources(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(ValueError, match="--hidden is for directories"):
        stoker.pack(tmp_path / "a.jsonl", tmp_path / "out", hidden=True)
    with pytest.raises(ValueError, match="--classes is for directories of classes"):
        stoker.pack(tmp_path / "a.jsonl", tmp_path / "out", classes="classes.json")
    with pytest.raises(ValueError, match="hidden and classes are for trees"):
        stoker.pack(tmp_path, tmp_path / "out", kind="parquet", hidden=True)


def test_shards_do_not_go_into_the_directory_that_is_packed(tmp_path: Path) -> None:
    (tmp_path / "images" / "cat").mkdir(parents=True)
    (tmp_path / "images" / "cat" / "1.jpg").write_bytes(b"1")
    with pytest.raises(ValueError, match=r"is inside the directory to pack.*images-shards"):
        stoker.pack(tmp_path / "images", tmp_path / "images" / "out")
    assert [p.name for p in (tmp_path / "images").iterdir()] == ["cat"]
