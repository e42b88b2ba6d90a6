#!/usr/bin/env python3
"""Measures how fast batches reach a GPU: ``gpu_feed.py FOLDER [--json PATH]``.

Two rows: random windows of a token array (P6) against a memmap in a DataLoader with page-locked
memory, and a tar of samples of 110 KiB. Every side is a process of its own, runs for some seconds
with its data in the page cache, and is measured from its first batch on until the GPU has all of
them. A part that fails prints its error, and the others continue.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import statistics
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

from peers import data
from peers.side import BATCH, WINDOW, Windows

SAMPLE_BYTES = 110 << 10
SIDE_TIMEOUT_S = 60


def make_tar(folder: Path, total_bytes: int) -> Path:
    """Makes shards of samples of exactly 110 KiB, once."""
    shards, per_shard = 8, max(1, total_bytes // SAMPLE_BYTES // 8)
    folder.mkdir(parents=True, exist_ok=True)
    block = memoryview(bytes(range(256)) * (SAMPLE_BYTES // 256 + per_shard))
    for shard in range(shards):
        path = folder / f"samples-{shard:06}.tar"
        if path.exists():
            continue
        part = path.with_suffix(".part")
        with tarfile.open(part, "w", format=tarfile.USTAR_FORMAT) as tar:
            for number in range(per_shard):
                member = tarfile.TarInfo(f"{shard:03}{number:06}.bin")
                member.size = SAMPLE_BYTES
                tar.addfile(member, io.BytesIO(block[number : number + SAMPLE_BYTES]))
        part.rename(path)
    return folder


# --- The sides --------------------------------------------------------------------------------


def drained(batches: Any, seconds: float) -> dict[str, Any]:
    """Takes batches for some seconds; each is (samples, bytes)."""
    import torch

    begin = time.perf_counter()
    iterator = iter(batches)
    next(iterator)
    torch.cuda.synchronize()
    first = time.perf_counter()
    samples = size = count = 0
    for n, nbytes in iterator:
        samples += n
        size += nbytes
        count += 1
        if count % 32 == 0 and time.perf_counter() - first > seconds:
            break
    torch.cuda.synchronize()
    took = time.perf_counter() - first
    return {"samples_per_s": samples / took, "bytes_per_s": size / took, "batches": count,
            "seconds": took, "first_s": first - begin}  # fmt: skip


def checked(loader: Any, expected: Any, name: str) -> None:
    """Compares the first batches on the GPU with those on the host."""
    for batch, other in itertools.islice(zip(loader, expected, strict=False), 5):
        if not batch[name].cpu().equal(other[name]):
            raise AssertionError("a batch on the GPU differs from the same on the host")


def stoker_side(dataset: Any, name: str, options: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Batches of a stoker.Loader."""
    import stoker

    def loader(**more: Any) -> Any:
        return stoker.Loader(dataset, seed=7, epochs=None, shuffle="global", **options, **more)

    with loader(device="cuda") as fed, loader() as plain:
        checked(fed, plain, name)
    with loader(device="cuda") as fed:
        answer = drained(((len(b[name]), b[name].nbytes) for b in fed), seconds)
        stats = fed.stats()
    answer |= {"waited_in_s": stats.waited_in_s, "stall_share": stats.stall_share,
               "device_copy_s": getattr(stats, "device_copy_s", None),
               "device_bytes": getattr(stats, "device_bytes", None)}  # fmt: skip
    return answer


def tokens(path: str, seconds: float, workers: int) -> dict[str, Any]:
    """Windows of a token array, widened to int64."""
    import stoker

    dataset = stoker.Tokens(path, window=WINDOW, extra=1, dtype="int64")
    return stoker_side(dataset, "tokens", {"batch_size": BATCH}, seconds)


def tar(path: str, seconds: float, workers: int) -> dict[str, Any]:
    """Samples of a tar, as arrays."""
    import stoker

    fields = {"bin": stoker.Array("uint8", [SAMPLE_BYTES])}
    return stoker_side(path, "bin", {"batch_size": 256, "fields": fields}, seconds)


def memmap(path: str, seconds: float, workers: int) -> dict[str, Any]:
    """A NumPy memmap in a DataLoader, page-locked, copied asynchronously."""
    import torch

    loader = torch.utils.data.DataLoader(
        Windows(path), batch_size=BATCH, shuffle=True, num_workers=workers, pin_memory=True,
        generator=torch.Generator().manual_seed(7),
    )  # fmt: skip
    moved = (batch.to("cuda", non_blocking=True) for batch in loader)
    return drained(((len(batch), batch.nbytes) for batch in moved), seconds)


SIDES = {"tokens": tokens, "tar": tar, "memmap": memmap}


# --- The comparison ---------------------------------------------------------------------------


def asked(side: str, path: Path, seconds: float, workers: int = 0) -> dict[str, Any]:
    """Runs one side in a process of its own; {"error": ...} if that fails."""
    command = [sys.executable, __file__, "--side", side, "--path", str(path),
               "--seconds", str(seconds), "--workers", str(workers)]  # fmt: skip
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SIDE_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return {"error": f"no answer within {SIDE_TIMEOUT_S} s"}
    if done.returncode != 0:
        return {"error": done.stderr.strip()[-2000:] or f"exit status {done.returncode}"}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def rounds_of(args: argparse.Namespace, side: str, path: Path, workers: int = 0) -> dict[str, Any]:
    """Runs a side several times; the median by its rate."""
    answers = [asked(side, path, args.seconds, workers) for _ in range(args.rounds)]
    good = [one for one in answers if "error" not in one]
    label = f"{side}, {workers} workers" if workers else side
    for one in answers:
        print(f"{label}: {one.get('error') or one}", file=sys.stderr, flush=True)
    rates = [one["samples_per_s"] for one in good]
    sizes = [one["bytes_per_s"] for one in good]
    return {
        "side": label,
        "answers": answers,
        "samples_per_s": statistics.median(rates) if rates else None,
        "bytes_per_s": statistics.median(sizes) if sizes else None,
    }


def compare(args: argparse.Namespace) -> None:
    """Makes the data, runs all sides and prints the table."""
    results: dict[str, Any] = {}
    rows: list[str] = []
    folder = Path(args.folder)

    def store() -> None:  # as early as there is something: a time limit may end the rest
        if args.json:
            Path(args.json).write_text(json.dumps(results, indent=2))

    try:
        data.make_tokens(folder / "tokens", args.token_bytes)
        data.warm(folder / "tokens")
        path = folder / "tokens" / "tokens.npy"
        ours = results["tokens"] = rounds_of(args, "tokens", path)
        peers = [rounds_of(args, "memmap", path, workers) for workers in args.workers]
        results["memmap"] = peers
        best = max((one["samples_per_s"] or 0.0 for one in peers), default=0.0)
        for one in [ours, *peers]:
            if one["samples_per_s"] is None:
                rows.append(f"P6 to the GPU | {one['side']} | failed")
                continue
            times = ours["samples_per_s"] and ours["samples_per_s"] / one["samples_per_s"]
            text = "" if one is ours or not times else f" | {times:.1f}x"
            rows.append(f"P6 to the GPU | {one['side']} | {one['samples_per_s']:,.0f} samples/s, "
                        f"{one['bytes_per_s'] / 1e9:.2f} GB/s{text}")  # fmt: skip
        if best and ours["samples_per_s"]:
            results["p6_times"] = ours["samples_per_s"] / best
        store()
    except Exception as error:  # the other part continues
        rows.append(f"P6 to the GPU | failed: {error!r}")
    try:
        path = make_tar(folder / "tar", args.tar_bytes)
        data.warm(path)
        one = results["tar"] = rounds_of(args, "tar", path)
        rate = one["bytes_per_s"]
        reached = "failed" if rate is None else f"{rate / 1e9:.2f} GB/s (to reach 15)"
        rows.append(f"tar of 110 KiB to the GPU, warm | tar | {reached}")
        store()
    except Exception as error:
        rows.append(f"tar of 110 KiB to the GPU | failed: {error!r}")
    print("\n".join(rows))


def main() -> int:
    """Parses the command line and runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default=".")
    parser.add_argument("--json", help="where to write all answers")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each side and round")
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 8])
    parser.add_argument("--token-bytes", type=int, default=1 << 30)
    parser.add_argument("--tar-bytes", type=int, default=4 << 30)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        print(json.dumps(SIDES[args.side](args.path, args.seconds, max(args.workers))))
        return 0
    compare(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
