"""What is lacking is told as what it is: rights, memory, time. It is never called damage."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import stoker

_NOBODY = 65534  # root reads everything
# After the imports: the interpreter may lie where nobody else can come to.
_BECOME_NOBODY = f"""
import os, sys
import numpy as np
import stoker
os.setgroups([])
os.setgid({_NOBODY})
os.setuid({_NOBODY})
"""


@pytest.fixture
def open_dir() -> Iterator[Path]:
    """A directory that another user can come to."""
    path = Path(tempfile.mkdtemp(prefix="stoker-test-", dir="/tmp"))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path)


def run_as_nobody(program: str, *arguments: str) -> subprocess.Popen[str]:
    if os.getuid() != 0:
        pytest.skip("needs root, to become another user")
    return subprocess.Popen(
        [sys.executable, "-c", _BECOME_NOBODY + program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "HOME": "/tmp", "XDG_RUNTIME_DIR": ""},
    )


def save_steps(folder: Path, *steps: int) -> None:
    with stoker.Checkpointer(folder, rank=0, world_size=1) as saver:
        for step in steps:
            saver.save(step, state={"w": np.full(1000, float(step))}).wait()


_RESTORE = """
try:
    state = {"w": np.zeros(1000)}
    print("restored", stoker.Checkpointer(sys.argv[1]).restore(state=state))
except Exception as error:
    print(type(error).__name__, error)
"""


def test_a_manifest_that_may_not_be_read_stops_the_restore(open_dir: Path) -> None:
    folder = open_dir / "c"
    save_steps(folder, 1, 2)
    (folder / "step-000000000002" / "manifest.json").chmod(0)
    said = run_as_nobody(_RESTORE, str(folder)).communicate(timeout=60)[0]
    assert said.startswith("PermissionError"), said
    assert "step-000000000002" in said
    assert "make it readable, or name the step to restore" in said
    assert "restored" not in said


def test_a_data_file_that_may_not_be_read_stops_the_restore(open_dir: Path) -> None:
    folder = open_dir / "c"
    save_steps(folder, 1, 2)
    (folder / "step-000000000002" / "rank-00000.safetensors").chmod(0)
    said = run_as_nobody(_RESTORE, str(folder)).communicate(timeout=60)[0]
    assert said.startswith("PermissionError"), said


def test_a_save_does_not_reuse_the_generation_of_one_it_may_not_read(open_dir: Path) -> None:
    folder = open_dir / "c"
    save_steps(folder, 1, 2)
    program = """
try:
    stoker.Checkpointer(sys.argv[1]).save(3, state={"w": np.ones(3)}).wait()
    print("saved")
except Exception as error:
    print(type(error).__name__, error)
"""
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, _NOBODY, _NOBODY, follow_symlinks=False)
    (folder / ".catalog").unlink()
    (folder / "step-000000000002" / "manifest.json").chmod(0)
    said = run_as_nobody(program, str(folder)).communicate(timeout=60)[0]
    assert "PermissionError" in said, said
    assert "its generation is not known" in said
    assert "saved\n" not in said


_RANK = """
folder, rank = sys.argv[1], int(sys.argv[2])
state = {"w": np.zeros(1000)}
done = stoker.Checkpointer(folder, rank=rank, world_size=2, deadline=30).restore(state=state)
print("restored", int(done), state["w"][0])
"""


def run_rank(folder: Path, rank: int) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-c",
        "import sys, stoker, numpy as np\n" + _RANK,
        str(folder),
        str(rank),
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_several_ranks_restore_from_a_directory_that_is_read_only(open_dir: Path) -> None:
    folder = open_dir / "c"
    save_steps(folder, 1, 2)
    before = sorted(folder.rglob("*"))
    ranks = [run_as_nobody(_RANK, str(folder), str(rank)) for rank in range(2)]
    for rank in ranks:
        said = rank.communicate(timeout=60)[0]
        assert said.strip() == "restored 2 2.0", said
    assert sorted(folder.rglob("*")) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a file system")
def test_several_ranks_restore_from_a_full_disk(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "stoker-test", str(folder)]
    subprocess.run(mount, check=True)
    try:
        save_steps(folder / "c", 1, 2)
        with pytest.raises(OSError, match="No space"):
            (folder / "rest").write_bytes(bytes(1 << 20))
        ranks = [run_rank(folder / "c", rank) for rank in range(2)]
        assert [rank.communicate(timeout=60)[0] for rank in ranks] == ["restored 2 2.0\n"] * 2
    finally:
        subprocess.run(["umount", folder], check=True)


_SHORT_OF_MEMORY = """
import resource, sys
import numpy as np, stoker
saver = stoker.Checkpointer(sys.argv[1])
saver.save(1, state={"w": np.zeros(1000)}).wait()
big = np.ones(32 << 20)  # 256 MiB
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), resource.RLIM_INFINITY))
try:
    saver.save(2, state={"w": big}).wait()
    print("saved")
except Exception as error:
    print("failed", type(error).__name__)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
try:
    saver.wait()
except Exception:
    pass
saver.save(3, state={"w": big}).wait()
print(saver.steps())
saver.close()
"""


def test_a_lack_of_memory_fails_the_save_and_not_the_process(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _SHORT_OF_MEMORY, str(tmp_path / "c")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    first, last = ran.stdout.splitlines()
    assert first.startswith("failed"), ran.stdout
    assert last == "[1, 3]"


_SHORT_OF_MEMORY_TO_READ = """
import resource, sys
import numpy as np, stoker
saver = stoker.Checkpointer(sys.argv[1])
state = {f"w{i}": np.full(100_000, float(i)) for i in range(5)}
saver.save(1, state=state).wait()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 20), resource.RLIM_INFINITY))
try:
    saver.restore(state=state)
    print("restored")
except Exception as error:
    print("failed", error)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(saver.restore(state=state))
saver.close()
"""


def test_a_lack_of_memory_in_a_restore_is_not_called_damage(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _SHORT_OF_MEMORY_TO_READ, str(tmp_path / "c")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    first, last = ran.stdout.splitlines()
    assert first.startswith("failed [Errno 12] "), first
    assert first.count("[Errno") == 1, first
    assert "arrays may contain bytes of step-000000000001: do not use them" in first
    assert "damage" not in first
    assert last == "1"
