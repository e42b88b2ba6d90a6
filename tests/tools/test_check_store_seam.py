"""The checker of the store seam must find what it claims to find: each test plants one line."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHECKER = ROOT / "tools" / "check_store_seam.py"


def check(root: Path) -> str:
    done = subprocess.run(
        [sys.executable, CHECKER, root], capture_output=True, text=True, check=False
    )
    assert (done.returncode == 0) == (done.stdout == ""), done.stderr
    return done.stdout


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "src" / "dataset", tmp_path / "src" / "dataset")
    return tmp_path


def plant(tree: Path, name: str, line: str) -> None:
    with (tree / "src" / "dataset" / name).open("a") as file:
        file.write(line + "\n")


def test_this_tree_passes(tree: Path) -> None:
    assert check(tree) == ""


@pytest.mark.parametrize(
    "line",
    [
        "STOKER_ASSIGN(File file, File::open(posix_file_ops(), path, {}));",
        "auto fd = open_regular(posix_file_ops(), path);",
        "if (::stat(path.c_str(), &info) != 0) return {};",
        "const int fd = ::open(path, O_RDONLY);",
        "::glob(pattern.c_str(), 0, nullptr, &found);",
        "if (std::filesystem::exists(index)) return {};",
        "for (const auto& entry : std::filesystem::directory_iterator(path)) {}",
        "auto names = posix_file_ops().list(directory);",
        "STOKER_ASSIGN(auto names, ops_.list_names(directory));",
        "std::ifstream in(path);",
        "auto map = MappedFile::open(path, MapAdvice::random);",
    ],
)
def test_a_call_past_the_store_is_named_with_its_line(tree: Path, line: str) -> None:
    plant(tree, "shards/shard_source.cc", line)
    count = len((tree / "src/dataset/shards/shard_source.cc").read_text().splitlines())
    assert f"src/dataset/shards/shard_source.cc:{count}: " in check(tree)


@pytest.mark.parametrize(
    "line",
    [
        "// as File::open() does",
        "auto object = source.store().open(path);",
        "auto dataset = Dataset::open(paths, options);",
        "STOKER_TRY(store.list(folder, found));",
    ],
)
def test_what_goes_through_the_store_passes(tree: Path, line: str) -> None:
    plant(tree, "shards/shard_source.cc", line)
    assert check(tree) == ""


def test_an_exception_that_nobody_needs_is_named(tree: Path) -> None:
    (tree / "src/dataset/index/index.cc").write_text("\n")
    assert "index/index.cc needs no exception" in check(tree)
