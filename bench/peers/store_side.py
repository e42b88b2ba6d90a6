"""One side of a comparison of stores, as a separate process: ``store_side.py NAME OPTIONS``.

For each line of input it runs once and prints one line of JSON: bytes per second, and CPU-seconds
of this process per GB. The bucket, its endpoint and its keys come from the environment, as AWS's
tools name them. The peers are driven by threads, or by an event loop where they are made for one,
with as many requests in flight as the raw side has connections.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

Answer = dict[str, float]
Run = Callable[[], Answer]
BATCH = 64
PART_BYTES = 8 << 20


def cpu_seconds() -> float:
    """Returns the CPU time of this process and of children that have ended."""
    found = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in found)


def measured(work: Callable[[], int]) -> Answer:
    """Calls ``work``, which returns the number of bytes that it has read."""
    cpu, begin = cpu_seconds(), time.perf_counter()
    size = work()
    seconds, used = time.perf_counter() - begin, cpu_seconds() - cpu
    return {
        "bytes_per_s": size / seconds,
        "cpu_s_per_gb": used / (size / 1e9),
        "seconds": seconds,
        "bytes": size,
    }


def ranges_of(options: dict[str, Any]) -> list[tuple[str, int, int]]:
    """Returns key, offset and size of each range."""
    lines = Path(options["ranges"]).read_text(encoding="utf-8").splitlines()
    return [(key, int(at), int(size)) for key, at, size in map(str.split, lines)]


def parts_of(options: dict[str, Any]) -> list[tuple[str, int, int]]:
    """Returns the ranges, those that are long in parts."""
    parts = []
    for key, at, size in ranges_of(options):
        for begin in range(at, at + size, PART_BYTES):
            parts.append((key, begin, min(PART_BYTES, at + size - begin)))
    return parts


# --- Stoker ---------------------------------------------------------------------------------------


def stoker_loader(options: dict[str, Any]) -> Run:
    """All samples of shards, named by a URI or a path, as raw bytes."""
    import stoker

    cache = None
    if options.get("cache"):
        cache = stoker.Cache(options["cache"], options["cache_bytes"])
    dataset = stoker.Dataset(options["data"], cache=cache)

    def work() -> int:
        loader = stoker.Loader(
            dataset,
            batch_size=BATCH,
            shuffle=options["shuffle"],
            seed=7,
            epochs=1,
            tail="keep",
            fields={"jpg": bytes},
            memory_bytes=options["memory"],
            torch=False,
        )
        try:
            return sum(int(batch["jpg"].nbytes) for batch in loader)
        finally:
            loader.close()

    return lambda: measured(work)


# --- The peers ------------------------------------------------------------------------------------


def obstore_ranges(options: dict[str, Any]) -> Run:
    """``get_range_async`` on an event loop, a number of ranges in flight."""
    import obstore
    from obstore.store import S3Store

    store = S3Store(
        os.environ["BUCKET"],
        endpoint=os.environ["AWS_ENDPOINT_URL"],
        region=os.environ["AWS_REGION"],
        client_options={"allow_http": True},
    )
    parts = parts_of(options)

    async def all_parts() -> int:
        left = iter(parts)

        async def take() -> int:
            done = 0
            for key, at, size in left:
                done += len(await obstore.get_range_async(store, key, start=at, length=size))
            return done

        return sum(await asyncio.gather(*(take() for _ in range(options["in_flight"]))))

    return lambda: measured(lambda: asyncio.run(all_parts()))


def s3torchconnector_objects(options: dict[str, Any]) -> Run:
    """Whole objects, each read by the CRT, which divides it itself; several at a time."""
    client = s3torchconnector_client()
    keys = sorted({key for key, _, _ in ranges_of(options)})

    def read(key: str) -> int:
        return len(client.get_object(os.environ["BUCKET"], key).read())

    def work() -> int:
        with ThreadPoolExecutor(len(keys)) as pool:
            return sum(pool.map(read, keys))

    return lambda: measured(work)


def s3torchconnector_ranges(options: dict[str, Any]) -> Run:
    """Its range-based reader, a thread for each request in flight."""
    from s3torchconnector import S3ReaderConstructor

    client = s3torchconnector_client()
    make = S3ReaderConstructor.range_based(buffer_size=0)
    ranges = ranges_of(options)
    found: dict[tuple[str, int], Any] = {}

    def read(worker: int) -> int:
        done = 0
        for key, at, size in ranges[worker :: options["in_flight"]]:
            reader = found.get((key, worker))
            if reader is None:
                reader = client.get_object(os.environ["BUCKET"], key, reader_constructor=make)
                found[key, worker] = reader
            reader.seek(at)
            done += len(reader.read(size))
        return done

    def work() -> int:
        with ThreadPoolExecutor(options["in_flight"]) as pool:
            return sum(pool.map(read, range(options["in_flight"])))

    return lambda: measured(work)


def s3torchconnector_client() -> Any:
    """Returns its client for the server."""
    from s3torchconnector import S3ClientConfig
    from s3torchconnector._s3client import S3Client

    return S3Client(
        region=os.environ["AWS_REGION"],
        endpoint=os.environ["AWS_ENDPOINT_URL"],
        s3client_config=S3ClientConfig(force_path_style=True),
    )


def s3dlio_objects(options: dict[str, Any]) -> Run:
    """``get_many`` of whole objects."""
    import s3dlio

    uris = sorted({f"s3://{os.environ['BUCKET']}/{key}" for key, _, _ in ranges_of(options)})

    def work() -> int:
        found = s3dlio.get_many(uris, max_in_flight=options["in_flight"])
        return sum(len(body) for _, body in found)

    return lambda: measured(work)


def s3dlio_ranges(options: dict[str, Any]) -> Run:
    """``get_range``, a thread for each request in flight."""
    import s3dlio

    parts = parts_of(options)

    def read(part: tuple[str, int, int]) -> int:
        key, at, size = part
        return len(s3dlio.get_range(f"s3://{os.environ['BUCKET']}/{key}", at, size))

    def work() -> int:
        with ThreadPoolExecutor(options["in_flight"]) as pool:
            return sum(pool.map(read, parts))

    return lambda: measured(work)


SIDES: dict[str, Callable[[dict[str, Any]], Run]] = {
    function.__name__: function
    for function in (
        stoker_loader,
        obstore_ranges,
        s3torchconnector_objects,
        s3torchconnector_ranges,
        s3dlio_objects,
        s3dlio_ranges,
    )
}


def main() -> None:
    """Runs once for each line of input."""
    answers, sys.stdout = sys.stdout, sys.stderr  # peers print to stdout
    run = SIDES[sys.argv[1]](json.loads(sys.argv[2]))
    print("ready", file=answers, flush=True)
    for _ in sys.stdin:
        print(json.dumps(run()), file=answers, flush=True)


if __name__ == "__main__":
    main()
