"""The package as people get it: version, stubs, the wheel."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Callable
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


def test_build_info_is_what_the_command_says() -> None:
    command = ROOT / "build" / "release" / "stoker"
    told = json.loads(run("env", "-u", "STOKER_ENGINE", command, "--version", "--json", cwd=ROOT))
    info = stoker.build_info()
    assert set(info) == set(told)
    assert {**info, "revision": ""} == {**told, "revision": ""}  # of two builds, perhaps
    assert info["version"] == stoker.__version__


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


def test_the_source_distribution_has_every_source(tmp_path: Path) -> None:
    run(ROOT / "tools" / "make_sdist.sh", sys.executable, tmp_path, cwd=ROOT)
    (found,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(found) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    folders = ("cmake", "include", "src", "python/src", "python/stoker")
    sources = {
        str(path.relative_to(ROOT))
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix not in {".pyc", ".so"}
    }
    assert sources - names == set()
    assert {"CMakeLists.txt", "python/CMakeLists.txt", "python/command.py", "REVISION"} <= names
    # What cmake --install puts beside the headers comes from tests/.
    assert {name for name in names if name.startswith(("build/", "tests/", "docs/"))} == {
        "tests/conformance/object_store_suite.h",
        "tests/support/in_child.h",
        "tests/support/temp_dir.h",
    }


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Returns a folder that one of pytest's workers has filled, for all of them."""
    shared = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder = shared / name
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / f"{name}.made").exists():
            make(folder)
            (shared / f"{name}.made").touch()
    return folder


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of `make wheel`, which STOKER_WHEEL names or which is built here."""
    if named := os.environ.get("STOKER_WHEEL"):
        return Path(named)

    def make(folder: Path) -> None:
        run(ROOT / "tools" / "make_wheel.sh", sys.executable, folder, cwd=ROOT)

    (found,) = made_once(tmp_path_factory, "wheel", make).glob("*.whl")
    return found


@pytest.fixture(scope="module")
def fresh(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of a new environment that has the wheel."""

    def make(folder: Path) -> None:
        venv.create(folder, with_pip=True)
        run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", wheel, cwd=ROOT)

    return made_once(tmp_path_factory, "fresh", make) / "bin"


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_the_command_alone(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    body = [name for name in names if ".dist-info/" not in name and not name.endswith("/")]
    (native,) = [name for name in body if name.startswith("stoker/_native.") and ".so" in name]
    package = ROOT / "python"
    found = (p for p in (package / "stoker").rglob("*.py*") if "__pycache__" not in p.parts)
    sources = [str(path.relative_to(package)) for path in found]
    expected = [*sources, "stoker/py.typed", native, "stoker/bin/stoker"]
    beside = [name for name in body if ".data/" in name or name.startswith("stoker.libs/")]
    assert sorted(set(body) - set(beside)) == sorted(expected)
    assert [Path(name).name for name in beside if ".data/scripts/" in name] == ["stoker"]
    share = [name.partition(".data/data/share/")[2] for name in beside if ".data/data/" in name]
    helps = (ROOT / "tests" / "golden" / "cli").glob("stoker*.txt")
    assert sorted(share) == sorted(
        [
            "bash-completion/completions/stoker",
            "zsh/site-functions/_stoker",
            *(f"man/man1/{text.stem}.1" for text in helps),
        ]
    )


@pytest.mark.slow
def test_the_wheel_has_its_libraries_and_their_terms_inside(wheel: Path) -> None:
    assert "manylinux" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    shared = {
        re.sub(r"-[0-9a-f]{8}", "", Path(name).name).partition(".so")[0]
        for name in names
        if name.startswith("stoker.libs/lib")
    }
    # What Debian 12 has no position-independent static library of, except of xxHash, and what the
    # shared libcurl needs: no library but those that the command is linked with.
    linked = run("ldd", ROOT / "build" / "release" / "stoker", cwd=ROOT)
    assert {"libcurl", "libfmt", "libisal", "libxxhash"} <= shared
    assert {name for name in shared if f"{name}.so" not in linked} == set()
    terms = {Path(name).stem for name in names if "/licenses/libraries/" in name}
    assert {"libzstd-dev", "libssl-dev", "libisal-dev", "libcurl4-openssl-dev"} <= terms
    assert {"libgnutls30", "libldap-2.5-0"} <= terms
    # The static xxHash is for SSE2 alone, at half the rate.
    (native,) = [name for name in names if name.startswith("stoker/_native.") and ".so" in name]
    has_dispatch = b"XXH3_128bits_dispatch" in zipfile.ZipFile(wheel).read(native)
    assert has_dispatch == (platform.machine() == "x86_64")


@pytest.mark.slow
def test_the_wheel_works_in_a_fresh_environment(fresh: Path, tmp_path: Path) -> None:
    program = "import stoker; print(stoker.__version__, stoker.probe().engine, stoker.__file__)"
    version, engine, origin = run(fresh / "python", "-c", program, cwd=tmp_path).split(maxsplit=2)
    assert version == stoker.__version__
    assert engine in {"uring", "threads", "sync"}
    assert Path(origin).is_relative_to(fresh.parent)
    shown = json.loads(run(fresh / "stoker", "--version", "--json", cwd=tmp_path))
    assert shown["version"] == version
    assert shown["engine"] == engine


@pytest.mark.slow
def test_the_wheel_works_where_no_library_of_ours_is_installed(fresh: Path, tmp_path: Path) -> None:
    command = [ROOT / "tools" / "hide_libraries.sh", ROOT / "tools" / "try_wheel.sh", fresh]
    done = subprocess.run(
        [*command, tmp_path / "tried"], capture_output=True, text=True, check=False
    )
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "resumed at step 3" in done.stdout
