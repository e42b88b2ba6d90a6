"""The layer checker must find what it claims to find: each test plants one violation."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

CHECKER = Path(__file__).parents[2] / "tools" / "check_layers.py"

CLEAN_TREE = {
    "layers.toml": 'base = []\nio = ["base"]\nbench = ["base", "io"]\npython = ["io"]\n'
    '[rooms.io]\nengine = []\n"." = ["engine"]\n',
    "include/stoker/status.h": "#pragma once\n#include <string>\n",
    "include/stoker/probe.h": '#include <string>\n#include "stoker/status.h"\n',
    "src/base/CMakeLists.txt": "stoker_layer(base\n  PUBLIC_HEADERS "
    "${PROJECT_SOURCE_DIR}/include/stoker/status.h\n  SOURCES a.cc)\n",
    "src/base/a.cc": '#include "base/a.h"\n#include <unistd.h>\n',
    "src/io/CMakeLists.txt": "stoker_layer(io SOURCES b.cc DEPS base PUBLIC_HEADERS "
    "${PROJECT_SOURCE_DIR}/include/stoker/probe.h LIBRARIES PkgConfig::URING)\n",
    "src/io/b.cc": '#include "base/a.h"\n#include "io/engine/ring.h"\n#include "stoker/probe.h"\n',
    "src/io/engine/ring.h": "#pragma once\n",
    "python/src/bind.cc": '#include "io/b.h"\n',
}


def check(root: Path, tree: dict[str, str]) -> str:
    for name, text in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    done = subprocess.run(
        [sys.executable, CHECKER, root], capture_output=True, text=True, check=False
    )
    assert (done.returncode == 0) == (done.stdout == ""), done.stderr
    return done.stdout


def test_a_clean_tree_passes(tmp_path: Path) -> None:
    assert check(tmp_path, CLEAN_TREE) == ""


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("src/base/up.cc", '#include "io/b.h"\n', "src/base/up.cc:1: base may not include io"),
        ("src/io/up.h", '\n# include "bench/c.h"\n', "src/io/up.h:2: io may not include bench"),
        ("python/src/x.cc", '#include "base/a.h"\n', "python may not include base"),
        ("src/store/s.cc", "", "layers.toml: src/store is not listed"),
        ("src/io/engine/up.cc", '#include "io/b.h"\n', "up.cc:1: io/engine may not include io/."),
        ("src/io/files/f.cc", "", "src/io/files is not listed under [rooms.io]"),
        ("src/base/hash/h.cc", "", "src/base/hash is not listed under [rooms.base]"),
        (
            "layers.toml",
            'base = []\nio = ["base"]\npython = ["io"]\n[rooms.io]\n"." = []\ngone = []\n',
            "lists gone, which has no files",
        ),
        ("layers.toml", 'base = ["io"]\nio = ["base"]\npython = ["io"]\n', "cycle"),
        ("layers.toml", 'base = []\nio = ["base", "disk"]\npython = ["io"]\n', "no layer"),
        ("src/io/CMakeLists.txt", "stoker_layer(io SOURCES b.cc)\n", "io has DEPS []"),
        ("include/stoker/probe.h", "#include <liburing.h>\n", "may not include <liburing.h>"),
        ("include/stoker/probe.h", "#include <fmt/core>\n", "may not include <fmt/core>"),
        ("include/stoker/probe.h", '#include "io/b.h"\n', 'may not include "io/b.h"'),
        ("include/stoker/lost.h", "#pragma once\n", "no stoker_layer() lists it"),
    ],
)
def test_a_planted_violation_is_found(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    assert complaint in check(tmp_path, CLEAN_TREE | {name: text})


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        (
            "low/up.py",
            "from pile.deep.high import top\n",
            "low/up.py:1: low may not import from high",
        ),
        ("high/up.py", "from pile.deep import main\n", "high/up.py:1: high may not import from ."),
        ("low/up.py", "def f():\n    import pile.deep.main\n", "low/up.py:2: low may not import"),
        ("lost/x.py", "", "python/pile/deep/lost is not listed under [packages]"),
        ("low/ok.py", "import os\nfrom pile.deeper import x\nfrom pile.deep.low import y\n", ""),
        ("main.py", "from pile.deep.high import top\nfrom pile.deep.low.ok import y\n", ""),
    ],
)
def test_folders_of_a_python_package_import_as_granted(
    tmp_path: Path, name: str, text: str, complaint: str
) -> None:
    grants = '"." = ["high", "low"]\nhigh = ["low"]\nlow = []\n'
    tree = CLEAN_TREE | {
        f"python/pile/deep/{path}.py": "" for path in ("main", "high/top", "low/y")
    }
    tree["layers.toml"] += f'[packages."python/pile/deep"]\n{grants}'
    said = check(tmp_path, tree | {f"python/pile/deep/{name}": text})
    assert complaint in said if complaint else said == ""


@pytest.mark.parametrize("folder", ["src/base", "python/stoker/deep", "tests/base"])
def test_a_folder_with_too_many_ideas_is_found(tmp_path: Path, folder: str) -> None:
    tree = {f"{folder}/f{number}.{kind}": "" for number in range(24) for kind in ("h", "cc", "py")}
    assert check(tmp_path, CLEAN_TREE | tree) == "", "a header and its source are one idea"
    tree |= {f"{folder}/{name}.h": "" for name in ("x", "y")}
    assert re.search(f"^{folder}: 2[67] ideas, more than 25", check(tmp_path, tree), re.MULTILINE)


def test_an_exception_has_a_limit_and_must_be_needed(tmp_path: Path) -> None:
    tree = CLEAN_TREE | {f"tests/f{number}.py": "" for number in range(26)}
    tree["layers.toml"] += "[crowded]\ntests = 26\n"
    assert check(tmp_path, tree) == ""
    assert "tests: 27 ideas, more than 26" in check(tmp_path, {"tests/one_more.py": ""})
    for number in range(26):
        (tmp_path / f"tests/f{number}.py").unlink()
    assert "[crowded] lists tests, which is not" in check(tmp_path, {})
