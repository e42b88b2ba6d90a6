"""stoker.load for serving: parts of a checkpoint, into existing tensors, once per machine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import stoker
import stoker.io
from fork_server import ForkedPython

torch = pytest.importorskip("torch", reason="torch is not installed")


Arrays = Mapping[str, npt.NDArray[Any]]


def write_plain(path: Path, arrays: Arrays) -> None:
    """As the safetensors library writes it."""
    kinds = {"float32": "F32", "int64": "I64", "uint8": "U8"}
    entries, body = {}, b""
    for name, array in arrays.items():
        end = len(body) + array.nbytes
        kind = kinds[array.dtype.name]
        entries[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [len(body), end]}
        body += array.tobytes()
    text = json.dumps(entries).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)


def write_folder(path: Path, *parts: Arrays) -> None:
    """With an index."""
    path.mkdir()
    places = {}
    for number, arrays in enumerate(parts, 1):
        write_plain(path / f"model-{number}.safetensors", arrays)
        places.update(dict.fromkeys(arrays, f"model-{number}.safetensors"))
    (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))


WEIGHTS: Arrays = {
    "model.embed": np.arange(1_200_000, dtype=np.float32).reshape(1200, 1000),
    "model.norm": np.arange(7, dtype=np.float32),
    "head.weight": np.arange(11, dtype=np.int64),
}


def save_run(path: Path) -> None:
    with stoker.Checkpointer(path) as saver:
        saver.save(3, model={"embed": WEIGHTS["model.embed"], "norm": WEIGHTS["model.norm"]},
                   head={"weight": WEIGHTS["head.weight"]})  # fmt: skip


def save_file(path: Path) -> None:
    write_plain(path, WEIGHTS)


def save_folder(path: Path) -> None:
    names = list(WEIGHTS)
    write_folder(path, *({name: WEIGHTS[name]} for name in names))


each_kind = pytest.mark.parametrize("save", [save_run, save_file, save_folder])


@each_kind
def test_a_part_is_loaded_by_the_rest_of_its_names(
    tmp_path: Path, save: Callable[[Path], None]
) -> None:
    save(tmp_path / "m")
    lazy = stoker.load(tmp_path / "m", prefix="model.")
    at_once = stoker.load(tmp_path / "m", device="cpu", prefix="model.")
    for found in (lazy, at_once):
        assert set(found) == {"embed", "norm"}
        assert np.array_equal(np.asarray(found["embed"]), WEIGHTS["model.embed"])
    with pytest.raises(ValueError, match=r"no name begins with 'optim'; names .*'(model|head)\."):
        stoker.load(tmp_path / "m", device="cpu", prefix="optim")


@each_kind
def test_existing_tensors_and_arrays_are_filled_in_place(
    tmp_path: Path, save: Callable[[Path], None]
) -> None:
    save(tmp_path / "m")
    embed, norm = torch.nn.Parameter(torch.zeros(1200, 1000)), np.zeros(14, np.float32)[::2]
    address = embed.data_ptr()
    found = stoker.load(tmp_path / "m", prefix="model.", into={"embed": embed, "norm": norm})
    assert found["embed"] is embed
    assert embed.data_ptr() == address
    assert np.array_equal(embed.detach().numpy(), WEIGHTS["model.embed"])
    assert norm.tolist() == WEIGHTS["model.norm"].tolist()


def test_a_model_is_filled_by_its_state_dict_and_autograd_is_told(tmp_path: Path) -> None:
    model, again = torch.nn.Linear(5, 3), torch.nn.Linear(5, 3)
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model=model)
    loss = again.weight.pow(2).sum()
    stoker.load(tmp_path, prefix="model.", into=again.state_dict())
    assert torch.equal(again.weight, model.weight)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"embed": np.zeros((1000, 1200), np.float32)}, r"but float32 \(1200, 1000\) is stored"),
        ({"norm": np.zeros(7)}, r"norm: float64 \(7,\), but float32 \(7,\) is stored"),
        ({"norm": torch.zeros(7).bfloat16()}, "norm: bfloat16"),
        ({"nurm": np.zeros(7, np.float32)}, "nurm: not there"),
        ({"norm": [0.0] * 7}, "norm: cannot be filled: a list"),
        ({"norm": torch.zeros(1).expand(7)}, "norm: cannot be filled: .* share memory"),
        ({"norm": torch.zeros(7, device="meta")}, "norm: cannot be filled: a tensor on meta"),
        ({"norm": np.broadcast_to(np.float32(0), 7)}, "norm: cannot be filled: is read-only"),
    ],
)
def test_what_does_not_fit_is_named_and_nothing_is_changed(
    tmp_path: Path, wrong: dict[str, Any], why: str
) -> None:
    save_folder(tmp_path / "m")
    right = np.zeros(11, np.int64)
    into = {"head.weight": right, **{f"model.{name}": one for name, one in wrong.items()}}
    with pytest.raises(ValueError, match=why):
        stoker.load(tmp_path / "m", into=into)
    assert not right.any()
    with pytest.raises(ValueError, match="not both"):
        stoker.load(tmp_path / "m", into={}, device="cpu")  # type: ignore[call-overload]


def test_many_that_do_not_fit_are_counted(tmp_path: Path) -> None:
    save_file(tmp_path / "m")
    with pytest.raises(ValueError, match=r"n9: not there\n  and 2 more"):
        stoker.load(tmp_path / "m", into={f"n{i}": np.zeros(1) for i in range(12)})


def test_of_tied_weights_one_name_is_enough(tmp_path: Path) -> None:
    save_file(tmp_path / "m")
    norm = torch.zeros(7)
    found = stoker.load(tmp_path / "m", into={"model.norm": norm, "tied": norm[:]})
    assert found["tied"].tolist() == list(range(7))


def test_of_tensors_that_overlap_the_last_one_wins(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    a, b, c = (np.full(4, value, np.float32) for value in (1, 2, 3))
    write_plain(tmp_path / "m", {"a": a, "b": b, "c": c})
    memory = np.zeros(6, np.float32)
    stoker.load(tmp_path / "m", into={"a": memory[:4], "b": memory[2:], "c": memory[2:]})
    assert memory.tolist() == [1, 1, 3, 3, 3, 3]
    assert f"b and c share memory, but {tmp_path}/m has a tensor for each" in caplog.text


def test_without_torch_arrays_are_loaded(tmp_path: Path) -> None:
    save_run(tmp_path / "m")
    program = """
import sys
sys.modules["torch"] = None
import numpy, stoker
found = stoker.load(sys.argv[1], device="cpu", prefix="model.")
assert type(found["embed"]) is numpy.ndarray and found["embed"][1].tolist()[:2] == [1000, 1001]
into = {"norm": numpy.zeros(7, numpy.float32)}
assert stoker.load(sys.argv[1], into=into, prefix="model.")["norm"].tolist() == list(range(7))
try:
    stoker.load(sys.argv[1], device="cuda:0")
except ModuleNotFoundError as error:
    assert error.name == "torch"
else:
    raise AssertionError
"""
    ran = ForkedPython([sys.executable, "-c", program, tmp_path / "m"])
    assert ran.wait(timeout=120) == 0


LOADING = """
import sys, numpy, stoker
def read_bytes():
    return int(open("/proc/self/io").read().partition("\\nread_bytes:")[2].split()[0])
into = {f"w{i}": numpy.empty(2 << 20, numpy.float32) for i in range(3)}
print("ready", flush=True)
sys.stdin.readline()
before = read_bytes()
stoker.load(sys.argv[1], prefix=sys.argv[2], into=into)
assert all((array == 7).all() for array in into.values())
print(read_bytes() - before)
"""


@pytest.mark.parametrize("is_ours", [True, False])
def test_processes_of_a_machine_read_the_disk_once(tmp_path: Path, is_ours: bool) -> None:
    arrays: Arrays = {f"w{i}": np.full(2 << 20, 7, np.float32) for i in range(3)}  # 24 MiB
    size = sum(array.nbytes for array in arrays.values())
    path, prefix = tmp_path / "m", "state." if is_ours else ""
    if is_ours:
        with stoker.Checkpointer(path) as saver:
            saver.save(1, state=arrays)
    else:
        write_plain(path, arrays)
    (file,) = (path / "latest").glob("*.safetensors") if is_ours else [path]
    if stoker.io.evict(file).share > 0:
        pytest.skip("files stay in memory here, as on tmpfs")

    def start() -> ForkedPython:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        return ForkedPython([sys.executable, "-c", LOADING, path, prefix], text=True, **pipes)

    together = [start() for _ in range(3)]
    for process in together:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    read = [int(process.communicate("go\n", timeout=120)[0]) for process in together]
    later = int(start().communicate("go\n", timeout=120)[0].split()[1])
    assert size * 0.9 < sum(read) + later < size * 1.5


def test_a_file_that_is_replaced_stays_the_one_that_was_opened(tmp_path: Path) -> None:
    save_file(tmp_path / "m")
    lazy, native = stoker._checkpoint.load._load(str(tmp_path / "m"), at_once=True)
    write_plain(tmp_path / "new", {name: array * 0 for name, array in WEIGHTS.items()})
    (tmp_path / "new").rename(tmp_path / "m")
    norm = np.zeros(7, np.float32)
    assert native is not None
    native.read_all([("model.norm", None, norm.ctypes.data, None, (norm.ctypes.data, 28))])
    assert norm.tolist() == list(range(7))
    assert lazy.keys() == WEIGHTS.keys()


@pytest.mark.parametrize("cut", [0, 4, 1_000_000])
def test_a_file_that_is_changed_while_it_is_open_is_refused(tmp_path: Path, cut: int) -> None:
    """There are no checksums: at least size and time are compared."""
    save_file(tmp_path / "m")
    os.utime(tmp_path / "m", (0, 0))
    _, native = stoker._checkpoint.load._load(str(tmp_path / "m"), at_once=True)
    assert native is not None
    whole = (tmp_path / "m").read_bytes()
    (tmp_path / "m").write_bytes(whole[: len(whole) - cut])
    norm = np.zeros(11, np.int64)
    with pytest.raises(OSError, match=r"has been changed since|ends before|shortened"):
        native.read_all([("head.weight", None, norm.ctypes.data, None, (norm.ctypes.data, 88))])


def test_a_folder_that_is_replaced_while_it_is_opened_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_folder(tmp_path / "m")
    opened = stoker._native.open_safetensors

    def replace_and_open(*arguments: Any) -> Any:
        write_plain(tmp_path / "m" / "model-2.safetensors", {"other": np.zeros(3, np.float32)})
        return opened(*arguments)

    monkeypatch.setattr(stoker._native, "open_safetensors", replace_and_open)
    with pytest.raises(stoker.CorruptError, match="was replaced while it was opened"):
        stoker.load(tmp_path / "m", device="cpu")


def test_a_module_in_place_of_its_state_is_told_what_to_give(tmp_path: Path) -> None:
    save_file(tmp_path / "m")
    with pytest.raises(TypeError, match=r"such as model.state_dict\(\), and no Linear"):
        stoker.load(tmp_path / "m", into=torch.nn.Linear(2, 2))


def test_a_shape_that_torch_lacks_is_refused(tmp_path: Path) -> None:
    header = f'{{"x": {{"dtype": "F32", "shape": [0, {2**63}], "data_offsets": [0, 0]}}}}'
    (tmp_path / "m").write_bytes(len(header).to_bytes(8, "little") + header.encode())
    with pytest.raises(ValueError, match="x: torch has no tensor of the shape"):
        stoker.load(tmp_path / "m", device="cpu")


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ({"\ud800": "model-1.safetensors"}, r"there is no '\\ud800', which the index"),
        ({"x": "\ud800.safetensors"}, r"missing file: '.*\\ud800\.safetensors'"),
        ({"x": "../m.safetensors"}, "is not the name of a file"),
        ({"x": "fifo.safetensors"}, "missing file"),
        ({"x": "loop.safetensors"}, "missing file"),
        ({"x": "zero.safetensors"}, "missing file"),
    ],
)
def test_an_index_that_points_to_odd_places_is_refused(
    tmp_path: Path, place: dict[str, str], why: str
) -> None:
    save_folder(tmp_path / "m")
    os.mkfifo(tmp_path / "m" / "fifo.safetensors")
    (tmp_path / "m" / "loop.safetensors").symlink_to("loop.safetensors")
    (tmp_path / "m" / "zero.safetensors").symlink_to("/dev/zero")
    index = tmp_path / "m" / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": place}))
    with pytest.raises(stoker.CorruptError, match=why) as caught:
        stoker.load(tmp_path / "m", device="cpu")
    assert str(caught.value).isprintable()


def test_an_index_may_name_what_has_no_array(tmp_path: Path) -> None:
    """Elements smaller than a byte are left out; the rest is loaded."""
    save_folder(tmp_path / "m")
    header = b'{"small": {"dtype": "F4", "shape": [2], "data_offsets": [0, 1]}}'
    file = len(header).to_bytes(8, "little") + header + b"\x21"
    (tmp_path / "m" / "small.safetensors").write_bytes(file)
    index = tmp_path / "m" / "model.safetensors.index.json"
    places = json.loads(index.read_text())["weight_map"]
    index.write_text(json.dumps({"weight_map": {**places, "small": "small.safetensors"}}))
    assert stoker.load(tmp_path / "m").keys() == WEIGHTS.keys()
    assert stoker.load(tmp_path / "m", device="cpu").keys() == WEIGHTS.keys()


def test_several_threads_load_at_the_same_time(tmp_path: Path) -> None:
    save_folder(tmp_path / "m")
    found: list[Any] = [None] * 4

    def load(number: int) -> None:
        found[number] = stoker.load(tmp_path / "m", device="cpu")

    threads = [threading.Thread(target=load, args=(i,)) for i in range(len(found))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(one["model.norm"], torch.arange(7.0)) for one in found)


def has_huge_pages(address: int) -> bool:
    """Whether huge pages were asked for in the mapping of this address."""
    is_inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if found := re.match("([0-9a-f]+)-([0-9a-f]+) ", line):
            is_inside = int(found[1], 16) <= address < int(found[2], 16)
        elif is_inside and line.startswith("VmFlags:"):
            return " hg" in line
    raise ValueError("no such address")


@pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="the kernel has no huge pages"
)
def test_new_tensors_are_in_huge_pages(tmp_path: Path) -> None:
    """With small ones, most of the time of a load goes into touching memory the first time."""
    large = torch.arange(9 << 20, dtype=torch.float32)
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, model={"large": large}).wait()
        restored = saver.restore(model=None)
    assert restored is not None
    served = stoker.load(tmp_path, device="cpu")["model.large"]
    read = stoker.load(tmp_path).read()["model"]["large"]
    array = stoker.load(tmp_path)["model.large"][...]
    for found in (served, read, restored.trees["model"]["large"]):
        assert torch.equal(found, large)
        assert has_huge_pages(found.data_ptr() + found.nbytes // 2)
    assert has_huge_pages(array.ctypes.data + array.nbytes // 2)
