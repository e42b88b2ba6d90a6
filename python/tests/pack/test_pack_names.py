"""Names of formats, kinds and options that Python repeats are those of the core."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

import stoker
from stoker import _native
from stoker._commands.pack import _parser
from stoker._dataset.dataset import ShardFormat
from stoker._pack.ingest import FORMATS, Format
from stoker._pack.pack import Kind

HELP = Path(__file__).parents[3] / "tests" / "golden" / "cli" / "stoker-pack.txt"
# What the native command refuses for the data that Python reads, or does itself.
NATIVE_ONLY = {"--help", "--dtype", "--sequence-length", "--hidden", "--classes", "--merge"}
NATIVE_ONLY |= {"--staging"}  # what Python packs is packed into a directory


def known_formats(tmp_path: Path) -> set[str]:
    """Returns what the core can read, from its own error."""
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="are known") as error:
        stoker.Dataset(tmp_path / "file", format="none")  # type: ignore[arg-type]
    names = str(error.value).split(": ", 1)[1].removesuffix(" are known")
    return set(re.findall(r"\w+", names)) - {"and"}


def test_annotations_name_the_formats_and_kinds_of_the_core(tmp_path: Path) -> None:
    assert set(get_args(Format)) == set(FORMATS)
    assert list(get_args(Kind)) == _native.pack_kinds()
    assert set(get_args(ShardFormat)) == known_formats(tmp_path)


def test_docstrings_name_every_format(tmp_path: Path) -> None:
    for function, names in (
        (stoker.Dataset, known_formats(tmp_path)),
        (stoker.pack, set(FORMATS)),
        (stoker.ingest, set(FORMATS)),
    ):
        quoted = set(re.findall(r'"(\w+)"', str(function.__doc__)))
        assert names - quoted == set()


def test_the_command_in_python_has_the_options_and_defaults_of_the_native_one() -> None:
    """The native command passes on only what was given: defaults are those of Python."""
    texts = re.findall(r"^  (?:-\w,)?(--[\w-]+)(.*(?:\n {30}.*)*)", HELP.read_text(), re.MULTILINE)
    told = {option: " ".join(text.split()) for option, text in texts}
    parser = _parser()
    options = {action.option_strings[0]: action for action in parser._actions[2:]}
    assert set(options) == set(told) - NATIVE_ONLY
    for option, action in options.items():
        if isinstance(action.default, str) and option != "--task":
            assert f"(default: {action.default}" in told[option]
        elif option != "--task":
            assert not action.default
    assert options["--task"].default == "0/1", "the only task"
