"""The package as people get it: version, stubs, the wheel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import stoker

ROOT = Path(__file__).parents[2]


def run(*command: str | Path, cwd: Path) -> str:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def test_the_version_is_the_one_of_the_header() -> None:
    header = (ROOT / "include" / "stoker" / "version.h").read_text()
    match = re.search(r'#define STOKER_VERSION "(.+)"', header)
    assert match is not None
    assert stoker.__version__ == match[1]


def test_importing_loads_no_torch() -> None:
    program = "import stoker, sys; sys.exit('torch' in sys.modules)"
    run(sys.executable, "-c", program, cwd=ROOT)


def test_elsewhere_than_linux_the_import_says_so_kindly() -> None:
    program = (
        "import sys; sys.platform = 'darwin'\n"
        "try: import stoker\n"
        "except ImportError as error: print(error)"
    )
    assert "Linux only" in run(sys.executable, "-c", program, cwd=ROOT)


def test_the_committed_stub_is_what_the_module_says() -> None:
    difference = run_make_stubs()
    assert difference == "", f"run `make stubs` and commit the result:\n{difference}"


def run_make_stubs() -> str:
    command = [sys.executable, str(ROOT / "tools" / "make_stubs.py")]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that `pip install .` would build, with the build tools of this environment."""
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--no-build-isolation", "--no-deps", "--quiet", "--wheel-dir", str(folder)]
    run(sys.executable, "-m", "pip", "wheel", *options, str(ROOT), cwd=folder)
    (found,) = folder.glob("*.whl")
    return found


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_the_command_alone(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    body = [name for name in names if ".dist-info/" not in name]
    (native,) = [name for name in body if name.startswith("stoker/_native.") and ".so" in name]
    package = ROOT / "python"
    found = (p for p in (package / "stoker").rglob("*.py*") if "__pycache__" not in p.parts)
    sources = [str(path.relative_to(package)) for path in found]
    expected = [*sources, "stoker/py.typed", native]
    scripts = [name for name in body if ".data/scripts/" in name]
    assert [Path(name).name for name in scripts] == ["stoker"]
    assert sorted(set(body) - set(scripts)) == sorted(expected)


@pytest.mark.slow
def test_the_wheel_works_in_a_fresh_environment(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "fresh"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", str(wheel), cwd=tmp_path)
    program = "import stoker; print(stoker.__version__, stoker.probe().engine, stoker.__file__)"
    version, engine, origin = run(python, "-c", program, cwd=tmp_path).split(maxsplit=2)
    assert version == stoker.__version__
    assert engine in {"uring", "threads", "sync"}
    assert Path(origin).is_relative_to(environment)
    assert run(environment / "bin" / "stoker", "--version", cwd=tmp_path).endswith(version)
