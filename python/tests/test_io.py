"""stoker.io: many reads at once, durable writes, evict and residency."""

from __future__ import annotations

import errno
import os
import random
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker.io
from stoker.io import read_many, write_durable

NOBODY = 65534


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Three files: many blocks, a few bytes, nothing."""
    contents = [np.random.default_rng(3).bytes(300_001), b"abcdef", b""]
    paths = [tmp_path / name for name in ("large", "small", "empty")]
    for path, data in zip(paths, contents, strict=True):
        path.write_bytes(data)
    return paths


def requests_of(files: list[Path], count: int, seed: int) -> list[tuple[Path, int, int]]:
    draw = random.Random(seed)
    requests = []
    for _ in range(count):
        path = draw.choice(files)
        size = path.stat().st_size
        offset = draw.randint(0, size)
        requests.append((path, offset, draw.randint(0, size - offset)))
    return requests


def expected(request: tuple[Path, int, int]) -> bytes:
    path, offset, size = request
    return path.read_bytes()[offset : offset + size]


# --- read_many ------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["automatic", "buffered", "drop_behind"])
@pytest.mark.parametrize("engine", [None, "threads", "sync"])
def test_ranges_come_in_the_order_asked_for(
    files: list[Path], policy: stoker.io.Policy, engine: stoker.io.Engine | None
) -> None:
    requests = requests_of(files, 60, seed=1)
    for file in files:
        stoker.io.evict(file)
    arrays = read_many(requests, policy=policy, engine=engine)
    assert [array.tobytes() for array in arrays] == [expected(request) for request in requests]
    assert all(array.dtype == np.uint8 and array.ndim == 1 for array in arrays)


def test_a_size_of_none_reads_to_the_end_and_paths_may_be_anything_a_path_is(
    files: list[Path],
) -> None:
    large, small, empty = files
    arrays = read_many([(str(small), 2, None), (os.fsencode(large), 0, None), (empty, 0, None)])
    assert [array.tobytes() for array in arrays] == [b"cdef", large.read_bytes(), b""]


def test_no_requests_are_no_arrays() -> None:
    assert read_many([]) == []


def test_arrays_are_writable_apart_and_outlive_each_other(files: list[Path]) -> None:
    first, second = read_many([(files[1], 0, 6), (files[1], 0, 6)])
    first[:] = 0
    del first
    assert second.tobytes() == b"abcdef"


def test_given_arrays_are_filled_and_returned(files: list[Path]) -> None:
    large = files[0]
    stoker.io.evict(large)
    rows = np.zeros((4, 1001), np.uint8)
    numbers = np.zeros((3, 2), np.int32)
    assert read_many([(large, 7 * i, 1001) for i in range(4)], out=rows) is rows
    assert rows[3].tobytes() == large.read_bytes()[21:1022]
    text = bytearray(5)
    out = [numbers, text]
    assert read_many([(large, 1, 24), (large, 0, 5)], out=out) is out
    assert numbers.tobytes() == large.read_bytes()[1:25]
    assert bytes(text) == large.read_bytes()[:5]


def test_tensors_are_filled_without_a_copy(files: list[Path]) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    tensor = torch.zeros((2, 3), dtype=torch.uint8)
    read_many([(files[1], 0, 3), (files[1], 3, 3)], out=tensor)
    assert tensor.flatten().tolist() == list(b"abcdef")


@pytest.mark.parametrize("requests", ["abc", b"abc", Path("abc"), ["abc", "d"], [3], [("a", 0)]])
def test_what_is_no_request_is_refused_in_words(requests: Any) -> None:
    with pytest.raises(TypeError, match=r"\(path, offset, size\)"):
        read_many(requests)


def test_an_out_that_cannot_be_filled_is_refused_before_reading(files: list[Path]) -> None:
    request = [(files[1], 0, 4)]
    frozen = np.zeros(4, np.uint8)
    frozen.flags.writeable = False
    for out in ([np.zeros(8, np.uint8)[::2]], [frozen], [[0, 0, 0, 0]], [b"abcd"]):
        with pytest.raises(ValueError, match=r"out\[0\]"):
            read_many(request, out=out)
    with pytest.raises(ValueError, match="destination has 5 bytes"):
        read_many(request, out=[np.zeros(5, np.uint8)])
    with pytest.raises(ValueError, match="2 arrays for 1 requests"):
        read_many(request, out=np.zeros((2, 4), np.uint8))


def test_a_range_past_the_end_names_path_offset_and_length(files: list[Path]) -> None:
    with pytest.raises(OSError, match=r"small, offset 3, length 4: the file ends at byte 6") as e:
        read_many([(files[1], 0, 6), (files[1], 3, 4)])
    assert e.value.errno == errno.EIO


@pytest.mark.parametrize(("offset", "size"), [(-1, 1), (0, -1), (1 << 63, 1), (0, 1 << 63)])
def test_impossible_ranges_are_value_errors(files: list[Path], offset: int, size: int) -> None:
    with pytest.raises(ValueError, match=rf"small, offset {offset}, length {size}"):
        read_many([(files[1], offset, size)])
    with pytest.raises(ValueError, match=rf"small, offset {offset}, length {size}"):
        stoker.io.residency(files[1], offset, size)


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("nowhere")
    calls = (stoker.io.evict, stoker.io.residency, stoker.io.warm)
    for call in (lambda path: read_many([(path, 0, 1)]), *calls):
        for name in ("missing", "link"):
            with pytest.raises(FileNotFoundError, match=name):
                call(tmp_path / name)
        with pytest.raises(IsADirectoryError):
            call(tmp_path)
        with pytest.raises(ValueError, match="pipe: not a regular file"):
            call(tmp_path / "pipe")


def test_names_that_are_not_utf8_are_read_and_named(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/\xff"
    write_durable(name, b"x")
    assert read_many([(name, 0, 1)])[0].tobytes() == b"x"
    with pytest.raises(FileNotFoundError, match="\udcff\udcfe"):
        read_many([(name + b"\xfe", 0, 1)])


def test_unknown_policies_and_engines_are_value_errors(
    files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match=r"policy='warm'.*automatic"):
        read_many([(files[1], 0, 1)], policy="warm")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match=r"steam.*uring"):
        read_many([(files[1], 0, 1)], engine="steam")  # type: ignore[call-overload]
    monkeypatch.setenv("STOKER_ENGINE", "steam")
    with pytest.raises(ValueError, match="steam"):
        read_many([(files[1], 0, 1)])


def test_threads_read_at_once(files: list[Path]) -> None:
    def check(seed: int) -> bool:
        requests = requests_of(files, 40, seed)
        return [a.tobytes() for a in read_many(requests)] == [expected(r) for r in requests]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(check, range(32)))


def test_it_works_in_a_forked_child(files: list[Path], tmp_path: Path) -> None:
    requests = requests_of(files, 40, seed=2)
    before = [array.tobytes() for array in read_many(requests)]
    child = os.fork()
    if child == 0:  # no assertion may leave it
        try:
            same = [array.tobytes() for array in read_many(requests)] == before
            write_durable(tmp_path / "by-child", b"done")
            os._exit(0 if same else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert (tmp_path / "by-child").read_bytes() == b"done"
    assert [array.tobytes() for array in read_many(requests)] == before


# --- write_durable --------------------------------------------------------------------------------


def test_bytes_views_and_arrays_are_written_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "file"
    array = np.arange(12, dtype=np.int64).reshape(3, 4)
    kinds: list[Any] = [b"", b"abc", bytearray(b"abc"), memoryview(b"abc")[1:], array, array[1:]]
    for data in kinds:
        write_durable(path, data)
        assert path.read_bytes() == memoryview(data).tobytes()
    assert [entry.name for entry in tmp_path.iterdir() if entry.name != ".cache"] == ["file"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644 & ~current_umask()


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_tensor_is_written(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    write_durable(tmp_path / "file", torch.arange(4, dtype=torch.uint8))
    assert (tmp_path / "file").read_bytes() == bytes(range(4))


def test_what_has_no_contiguous_bytes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="contiguous"):
        write_durable(tmp_path / "file", np.zeros((4, 4))[:, 1])
    for data in ("text", [1, 2], 7):
        with pytest.raises(TypeError, match=type(data).__name__):
            write_durable(tmp_path / "file", data)
    with pytest.raises(ValueError, match="mode='append'"):
        write_durable(tmp_path / "file", b"", mode="append")  # type: ignore[arg-type]
    assert not (tmp_path / "file").exists()


def test_new_never_replaces(tmp_path: Path) -> None:
    write_durable(tmp_path / "file", b"old", mode="new")
    with pytest.raises(FileExistsError, match="file"):
        write_durable(tmp_path / "file", b"new", mode="new")
    assert (tmp_path / "file").read_bytes() == b"old"
    write_durable(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


def test_a_missing_directory_and_a_directory_in_the_way_are_errors(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        write_durable(tmp_path / "nowhere" / "file", b"")
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_durable(tmp_path / "folder", b"")


def test_a_read_only_directory_is_denied_and_keeps_what_it_has() -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to others
        folder = Path(name)
        (folder / "file").write_bytes(b"old")
        folder.chmod(0o555)
        program = (
            "import os, stoker.io\n"  # before: the interpreter's folder may be closed to others
            f"if os.getuid() == 0: os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
            f"path = {str(folder / 'file')!r}\n"
            "assert stoker.io.read_many([(path, 0, 3)])[0].tobytes() == b'old'\n"
            "try: stoker.io.write_durable(path, b'new')\n"
            "except PermissionError as error: print(error)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], cwd="/", capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert str(folder / "file") in done.stdout
        assert [path.name for path in folder.iterdir()] == ["file"]
        assert (folder / "file").read_bytes() == b"old"


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 256 KiB."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    done = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_enospc_and_keeps_the_old_file(tiny_disk: Path) -> None:
    write_durable(tiny_disk / "file", b"old")
    with pytest.raises(OSError, match="file") as raised:
        write_durable(tiny_disk / "file", bytes(1 << 20))
    assert raised.value.errno == errno.ENOSPC
    assert (tiny_disk / "file").read_bytes() == b"old"
    assert [path.name for path in tiny_disk.iterdir()] == ["file"]


# --- the page cache -------------------------------------------------------------------------------


def test_warm_reads_files_into_the_page_cache() -> None:
    with tempfile.TemporaryDirectory(dir=".") as name:  # not tmpfs, which evicts nothing
        paths = [Path(name) / number for number in "ab"]
        for path in paths:
            path.write_bytes(bytes(1 << 20))
            stoker.io.evict(path)
        assert stoker.io.warm(paths[0]) == stoker.io.Residency(1 << 20, 1 << 20)
        assert stoker.io.warm(paths) == stoker.io.Residency(2 << 20, 2 << 20)
        assert stoker.io.warm([]) == stoker.io.Residency(0, 0)
        assert stoker.io.residency(paths[1]).share == 1.0


def test_residency_counts_and_evict_drops() -> None:
    with tempfile.TemporaryDirectory(dir=".") as name:  # not tmpfs, which evicts nothing
        path = Path(name) / "file"
        path.write_bytes(bytes(1 << 20))
        warm = stoker.io.residency(path)
        assert (warm.resident_bytes, warm.size_bytes, warm.share) == (1 << 20, 1 << 20, 1.0)
        assert stoker.io.residency(path, 4096, 8192).size_bytes == 8192
        assert stoker.io.residency(path, (1 << 20) - 10, 100).size_bytes == 10
        assert stoker.io.residency(path, 0, 0) == stoker.io.Residency(0, 0)
        left = stoker.io.evict(path)
        if left.share == 1.0:
            pytest.skip("this filesystem evicts nothing")
        assert left == stoker.io.Residency(0, 1 << 20)
        assert stoker.io.residency(path).share == 0.0
