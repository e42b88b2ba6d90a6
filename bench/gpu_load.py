#!/usr/bin/env python3
"""Loads to a GPU, warm and cold, beside other loaders, a raw direct read, and pread plus XXH3.

Every part runs by itself: one that fails prints its error, and the others continue. The table comes
last; with --json the figures are also written to a file. Run it with PYTHONPATH=python, with
--path on the disk to measure. "Warm" is the median of runs with the file in the page cache, after
one that is not counted. "Cold" drops the file from the page cache before every run.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib
import json
import mmap
import os
import shutil
import statistics
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from raw_disk import READERS, each_chunk, memories, read_direct

import stoker
from stoker._checkpoint.device.cuda import has_cuda

CHUNK_BYTES = 4 << 20
SMALL_COUNT, SMALL_BYTES = 20_000, 64 << 10
LIMIT_S = 230  # of all parts


class Bench:
    """The state, the files of it, and the figures by name."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.folder = Path(args.path)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.runs = args.runs
        self.json = args.json
        self.began = time.monotonic()
        self.figures: dict[str, Any] = {"cores": os.cpu_count()}
        each = args.size // args.tensors // 2
        torch.manual_seed(1)
        self.state = {
            f"layer{i:03}": torch.randn(each, device="cuda", dtype=torch.bfloat16)
            for i in range(args.tensors)
        }
        self.size_bytes = sum(t.numel() * t.element_size() for t in self.state.values())
        self.figures["size_bytes"] = self.size_bytes
        self.ours = self.folder / "ours"
        self.plain = self.folder / "plain" / "model.safetensors"

    def part(self, name: str, run: Callable[[], None]) -> None:
        """Runs one part; prints its error if it fails."""
        began = time.monotonic()
        if began - self.began > LIMIT_S:
            print(f"... {name}: left out, the time is over", flush=True)
            return
        try:
            run()
        except ModuleNotFoundError as error:
            print(f"... {name}: {error}", flush=True)
            return
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            self.figures.setdefault("failed", []).append(name)
            print(f"--- {name} has failed:\n{traceback.format_exc()}", flush=True)
        torch.cuda.empty_cache()
        print(f"... {name}: {time.monotonic() - began:.1f} s", flush=True)
        self.store()

    def store(self) -> None:
        """Writes the figures, after every part: a later one may be ended by its time limit."""
        if self.json:
            Path(self.json).write_text(json.dumps(self.figures, indent=1) + "\n")

    def time(
        self,
        name: str,
        load: Callable[[], Any],
        *,
        size: int | None = None,
        before: Callable[[], None] | None = None,
        check: Callable[[Any], None] | None = None,
    ) -> None:
        """Notes GB/s of each run, with the GPU idle before and after it."""
        rates = []
        for run in range(self.runs + 1):
            if before is not None:
                before()
            torch.cuda.synchronize()
            start = time.perf_counter()
            loaded = load()
            torch.cuda.synchronize()
            took = time.perf_counter() - start
            if run == 0 and check is not None:
                check(loaded)
            del loaded
            if run > 0 or before is not None:  # the first warm one fills caches of all kinds
                rates.append((size or self.size_bytes) / took / 1e9)
            if before is not None and run + 1 >= self.runs:
                break
        self.figures[name] = {"median": statistics.median(rates), "all": rates}
        print(f"    {name}: " + " ".join(f"{rate:.2f}" for rate in rates), flush=True)

    def rate(self, name: str) -> float | None:
        """The median of a part."""
        found = self.figures.get(name)
        return None if found is None else float(found["median"])


def drop(*files: Path) -> None:
    """Drops files from the page cache."""
    for file in files:
        fd = os.open(file, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def files_of(bench: Bench) -> list[Path]:
    """The data files of our checkpoint."""
    return sorted((bench.ours / "latest").glob("*.safetensors"))


def write(bench: Bench) -> None:
    """Writes the state as a checkpoint of ours; its file is also a plain safetensors file."""
    for path in (bench.ours, bench.plain.parent):
        shutil.rmtree(path, ignore_errors=True)
    with stoker.Checkpointer(bench.ours) as saver:
        saver.save(1, state=bench.state).wait()
    bench.plain.parent.mkdir(parents=True)
    (file,) = files_of(bench)  # which is a safetensors file
    os.link(file, bench.plain)


def warm(*files: Path) -> None:
    """Reads files into the page cache."""
    buffer = bytearray(CHUNK_BYTES)
    for file in files:
        with file.open("rb", buffering=0) as opened:
            while opened.readinto(buffer):
                pass


def check(bench: Bench, found: Any) -> None:
    """Compares every byte."""
    for name, tensor in bench.state.items():
        have = found.get(f"state.{name}", found.get(name))
        assert have is not None, name
        assert have.is_cuda, name
        assert torch.equal(have.view(torch.int16), tensor.view(torch.int16)), name


def ours_warm(bench: Bench) -> None:
    """load() and restore(), verified, from the page cache."""
    warm(*files_of(bench))
    bench.time(
        "stoker.load, warm, verified",
        lambda: stoker.load(bench.ours, device="cuda"),
        check=lambda found: check(bench, found),
    )
    have = {name: torch.zeros_like(tensor) for name, tensor in bench.state.items()}
    with stoker.Checkpointer(bench.ours) as saver:
        bench.time("restore in place, warm, verified", lambda: saver.restore(state=have))
    check(bench, have)


def plain_warm(bench: Bench) -> None:
    """A plain safetensors file, which has no checksums."""
    warm(bench.plain)
    bench.time(
        "stoker.load, warm, plain safetensors",
        lambda: stoker.load(bench.plain, device="cuda"),
        check=lambda found: check(bench, found),
    )


def ours_cold(bench: Bench) -> None:
    """From the disk."""
    bench.time(
        "stoker.load, cold, verified",
        lambda: stoker.load(bench.ours, device="cuda"),
        before=lambda: drop(*files_of(bench)),
        check=lambda found: check(bench, found),
    )


def raw_direct(bench: Bench) -> None:
    """The limit of the disk."""
    files, space = files_of(bench), memories(READERS)
    bench.time("raw O_DIRECT read", lambda: read_direct(files, space), before=lambda: drop(*files))


class _Digest(ctypes.Structure):
    _fields_ = (("low", ctypes.c_uint64), ("high", ctypes.c_uint64))


def raw_hash(bench: Bench) -> None:
    """The limit of the CPU: pread and XXH3 of every chunk, on all cores."""
    library = ctypes.CDLL("libxxhash.so.0")  # whose calls run without the GIL
    xxh3 = getattr(library, "XXH3_128bits_dispatch", library.XXH3_128bits)
    xxh3.restype = _Digest
    xxh3.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    warm(*files_of(bench))
    fds = [os.open(file, os.O_RDONLY) for file in files_of(bench)]

    def work(number: int, offset: int, memory: mmap.mmap) -> None:
        size = os.preadv(fds[number], [memory], offset)
        xxh3(ctypes.addressof(ctypes.c_char.from_buffer(memory)), size)

    sizes, space = [os.fstat(fd).st_size for fd in fds], memories(os.cpu_count() or 1)
    try:
        bench.time("pread + XXH3, all cores", lambda: each_chunk(sizes, space, work))
    finally:
        for fd in fds:
            os.close(fd)


def link(bench: Bench) -> None:
    """The limit of the link: a copy from pinned memory."""
    host = torch.empty(1 << 30, dtype=torch.uint8, pin_memory=True)
    device = torch.empty_like(host, device="cuda")
    bench.time("link, pinned to GPU", lambda: device.copy_(host, non_blocking=True), size=1 << 30)


def small(bench: Bench) -> None:
    """Many small tensors, in place."""
    folder = bench.folder / "small"
    shutil.rmtree(folder, ignore_errors=True)
    all_bytes = torch.randint(0, 256, (SMALL_COUNT, SMALL_BYTES), dtype=torch.uint8, device="cuda")
    state = {f"t{i:05}": all_bytes[i] for i in range(SMALL_COUNT)}
    with stoker.Checkpointer(folder) as saver:
        saver.save(1, state=state).wait()
        have = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
        warm(*(folder / "latest").glob("*.safetensors"))
        size = SMALL_COUNT * SMALL_BYTES
        bench.time("20,000 x 64 KiB, restore, warm", lambda: saver.restore(state=have), size=size)
        native = stoker._native.OpenCheckpoint(os.fsencode(folder / "step-000000000001"))
        targets: list[tuple[Any, ...]] = [
            (f"state.{name}", None, t.data_ptr(), None, (t.data_ptr(), SMALL_BYTES), 0)
            for name, t in have.items()
        ]
        streams = [(0, torch.cuda.current_stream().cuda_stream)]
        bench.time(
            "20,000 x 64 KiB, native, warm", lambda: native.read_all(targets, streams), size=size
        )
    assert all(torch.equal(have[name], tensor) for name, tensor in state.items())
    shutil.rmtree(folder, ignore_errors=True)


def peer(bench: Bench, name: str, load: Callable[[], Any]) -> None:
    """Another loader, with the plain file in the page cache."""
    warm(bench.plain)
    bench.time(f"{name}, warm", load, check=lambda found: check(bench, found))


def by_safetensors(bench: Bench) -> None:
    """safetensors: load_file."""
    load_file = importlib.import_module("safetensors.torch").load_file
    peer(bench, "safetensors", lambda: load_file(bench.plain, device="cuda"))


def by_fastsafetensors(bench: Bench) -> None:
    """fastsafetensors, without GPUDirect Storage."""
    module = importlib.import_module("fastsafetensors")

    def load() -> Any:
        loader = module.SafeTensorsFileLoader(
            module.SingleGroup(), torch.device("cuda:0"), nogds=True
        )
        loader.add_filenames({0: [str(bench.plain)]})
        buffer = loader.copy_files_to_device()
        found = {name: buffer.get_tensor(name).clone() for name in loader.get_keys()}
        buffer.close()
        loader.close()
        return found

    peer(bench, "fastsafetensors", load)


def by_instanttensor(bench: Bench) -> None:
    """InstantTensor, with its defaults."""
    module = importlib.import_module("instanttensor")

    def load() -> Any:
        with module.safe_open(str(bench.plain), framework="pt", device=0) as file:
            return dict(file.tensors())

    peer(bench, "InstantTensor", load)


def by_runai(bench: Bench) -> None:
    """The run:ai model streamer."""
    module = importlib.import_module("runai_model_streamer")

    def load() -> Any:
        with module.SafetensorsStreamer() as streamer:
            streamer.stream_file(str(bench.plain))
            return {
                name: tensor.to("cuda", non_blocking=True)
                for name, tensor in streamer.get_tensors()
            }

    peer(bench, "run:ai streamer", load)


def table(bench: Bench) -> None:
    """Prints the rows of the issue, and everything that was measured."""
    warm_rate = bench.rate("stoker.load, warm, verified")
    limit = bench.rate("pread + XXH3, all cores")
    cold, raw = bench.rate("stoker.load, cold, verified"), bench.rate("raw O_DIRECT read")
    names = ("safetensors", "fastsafetensors", "InstantTensor", "run:ai streamer")
    peers = {name: rate for name in names if (rate := bench.rate(f"{name}, warm")) is not None}
    print(f"\n{'GB/s, median':44} {'':>8}")
    for name, figure in bench.figures.items():
        if isinstance(figure, dict):
            print(f"{name:44} {figure['median']:8.2f}")
    ratios: dict[str, float] = {}
    if warm_rate and limit:
        ratios["warm / (pread + XXH3)"] = warm_rate / limit
    if warm_rate and peers:
        ratios["warm / best peer"] = warm_rate / max(peers.values())
    if cold and raw:
        ratios["cold / raw direct read"] = cold / raw
    bench.figures["ratios"] = ratios
    print(f"\n{'row':30} {'measured':>10}   to reach")
    goals = {
        "warm / (pread + XXH3)": ">= 0.85, or warm >= 35 GB/s",
        "warm / best peer": ">= 4",
        "cold / raw direct read": ">= 0.95",
    }
    for name, goal in goals.items():
        value = ratios.get(name)
        print(f"{name:30} {'-' if value is None else f'{value:.2f}':>10}   {goal}")
    for name in bench.figures.get("failed", []):
        print(f"failed: {name}")


def main() -> None:
    """Runs all parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--path", default="build/gpu-load", help="folder for the files")
    parser.add_argument("--json", help="file for the figures")
    parser.add_argument("--size", type=int, default=4_290_000_000, help="bytes of the state")
    parser.add_argument("--tensors", type=int, default=300)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    bench = Bench(args)
    problem = stoker._native.find_cuda_problem()
    print(f"{torch.cuda.get_device_name()}, {os.cpu_count()} cores, torch {torch.__version__}")
    print(f"by the core: {has_cuda()}" + ("" if problem is None else f" ({problem})"), flush=True)
    parts: list[tuple[str, Callable[[Bench], None]]] = [
        ("write", write),
        ("link", link),
        ("ours, warm", ours_warm),
        ("pread + XXH3", raw_hash),
        ("plain, warm", plain_warm),
        ("raw direct read", raw_direct),
        ("ours, cold", ours_cold),
        ("safetensors", by_safetensors),
        ("run:ai streamer", by_runai),
        ("small tensors", small),
        ("fastsafetensors", by_fastsafetensors),
        ("InstantTensor", by_instanttensor),
    ]
    for name, run in parts:
        bench.part(name, lambda run=run: run(bench))
    table(bench)
    bench.store()
    with contextlib.suppress(OSError):
        shutil.rmtree(bench.folder)


if __name__ == "__main__":
    main()
