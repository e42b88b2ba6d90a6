"""Folders that frameworks see appear whole, and say which checkpoint of Stoker they are about."""

from __future__ import annotations

import json
import types
from pathlib import Path

import pytest

import stoker
from stoker._frameworks.folder import new_folder, remove_folder
from stoker._frameworks.hf_folders import (
    Announcement,
    newest_first,
    remove_outdated,
    step_in,
    unpublished,
)


class State:
    """Of a Trainer."""

    def save_to_json(self, path: str) -> None:
        """As Transformers does."""
        Path(path).write_text('{"global_step": 7}\n')


class Config:
    """Of a model."""

    def save_pretrained(self, folder: str) -> None:
        """As Transformers does."""
        (Path(folder) / "config.json").write_text("{}")


def announce(run: Path, step: int) -> Path:
    """Makes a checkpoint-N."""
    model = types.SimpleNamespace(config=Config())
    trainer = types.SimpleNamespace(state=State(), model=model, processing_class=None)
    announcement = Announcement(run / f"checkpoint-{step}", step)
    announcement.write(trainer, is_new=True)
    announcement.publish()
    return announcement.folder


def test_a_folder_appears_at_the_end_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "one"
    with pytest.raises(IsADirectoryError), new_folder(path) as hidden:
        hidden.write_text("x")
    assert list((tmp_path / "deep").iterdir()) == []
    left = tmp_path / "deep" / ".one.new"  # by a killed process
    left.mkdir()
    (left / "old").write_text("x")
    with new_folder(path) as hidden:
        (hidden / "file").write_text("x")
    assert [one.name for one in path.iterdir()] == ["file"]
    with pytest.raises(OSError, match="not empty"), new_folder(path) as hidden:
        pass
    assert [one.name for one in path.parent.iterdir()] == ["one"]


def test_what_is_removed_is_not_half_there(tmp_path: Path) -> None:
    path = tmp_path / "one"
    path.mkdir()
    (path / "file").write_text("x")
    (tmp_path / ".one.gone").mkdir()  # by a killed process
    link = tmp_path / "link"
    link.symlink_to(path)
    remove_folder(link)
    assert path.exists()
    for _ in range(2):
        remove_folder(path)
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_says_its_step_and_replaces_one_of_its_name(tmp_path: Path) -> None:
    folder = announce(tmp_path, 7)
    (folder / "more").write_text("of an abandoned run")
    assert announce(tmp_path, 7) == folder
    assert step_in(str(folder) + "/") == 7
    names = {"config.json", "stoker.json", "trainer_state.json"}
    assert {one.name for one in folder.iterdir()} == names
    assert [one.name for one in tmp_path.iterdir()] == ["checkpoint-7"]


def test_damage_and_other_folders_are_told_apart(tmp_path: Path) -> None:
    folder = announce(tmp_path, 7)
    (tmp_path / "checkpoint-8").mkdir()
    assert step_in(tmp_path / "checkpoint-8") is None
    with pytest.raises(FileNotFoundError, match="no such checkpoint"):
        step_in(tmp_path / "checkpoint-9")
    moved = folder.rename(tmp_path / "checkpoint-10")
    with pytest.raises(ValueError, match="was checkpoint-7"):
        step_in(moved)
    folder = moved.rename(folder)
    pointer = folder / "stoker.json"
    good = json.loads(pointer.read_text())
    for text in ("", "{", "[]", "7", "{}", "[" * 100_000, '{"version": 1}', "\0"):
        pointer.write_text(text)
        with pytest.raises(stoker.CorruptError, match=r"stoker\.json is damaged"):
            step_in(folder)
    for changed in ({"version": 2}, {"step": "7"}, {"step": True}):
        pointer.write_text(json.dumps({**good, **changed}))
        with pytest.raises(ValueError, match="cannot read version"):
            step_in(folder)
    pointer.write_text(json.dumps(good))
    (folder / "trainer_state.json").write_text("{}")
    with pytest.raises(stoker.CorruptError, match="missing or damaged"):
        step_in(folder)
    (folder / "trainer_state.json").unlink()
    with pytest.raises(stoker.CorruptError, match="missing or damaged"):
        step_in(folder)


def test_the_newest_comes_first_and_what_has_no_weights_goes(tmp_path: Path) -> None:
    assert list(newest_first(tmp_path / "none")) == []
    for step in (9, 10, 100):
        announce(tmp_path, step)
    theirs = tmp_path / "checkpoint-50"  # with its own weights
    theirs.mkdir()
    (theirs / "trainer_state.json").write_text("{}")
    damaged = announce(tmp_path, 11)
    (damaged / "stoker.json").write_text("{")
    (tmp_path / "checkpoint-200").mkdir()  # only half there
    (tmp_path / "checkpoint-x").mkdir()

    def names() -> list[str]:
        return [one.name.removeprefix("checkpoint-") for one in newest_first(tmp_path)]

    assert names() == ["100", "50", "11", "10", "9"]
    remove_outdated(tmp_path, [10])
    assert names() == ["50", "11", "10"]


@pytest.mark.parametrize("is_new", [True, False])
def test_a_folder_of_a_killed_run_can_be_published_if_its_step_was_new(
    tmp_path: Path, is_new: bool
) -> None:
    model = types.SimpleNamespace(config=Config())
    trainer = types.SimpleNamespace(state=State(), model=model, processing_class=None)
    Announcement(tmp_path / "checkpoint-7", 7).write(trainer, is_new=is_new)
    (tmp_path / ".checkpoint-8.new").mkdir()  # begun, and not written
    hidden = tmp_path / ".checkpoint-7.new"
    left = [(7, hidden, tmp_path / "checkpoint-7")] if is_new else []
    assert unpublished(tmp_path) == left
    (hidden / "trainer_state.json").write_text("{")  # damaged
    assert unpublished(tmp_path) == []
    assert list(newest_first(tmp_path)) == []
