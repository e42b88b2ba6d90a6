"""One side of a comparison, as a separate process: ``side.py NAME OPTIONS``.

For each line of input it runs once and prints one line of JSON: what it read, and how long that
took. The time does not include set-up (imports, opening the dataset).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Answer = dict[str, float]
Run = Callable[[], Answer]
BATCH = 64
WINDOW = 2048


def drained(batches: Iterable[Any], count: Callable[[Any], tuple[int, int]]) -> Answer:
    """Takes all batches. The rate is measured from the first batch on; start-up is separate."""
    begin = time.perf_counter()
    iterator = iter(batches)
    count(next(iterator))
    first = time.perf_counter()
    samples = size = 0
    for batch in iterator:
        n, b = count(batch)
        samples += n
        size += b
    seconds = time.perf_counter() - first
    return {
        "samples_per_s": samples / seconds,
        "bytes_per_s": size / seconds,
        "seconds": seconds,
        "first_s": first - begin,
        "samples": samples,
        "bytes": size,
    }


def timed(work: Callable[[], Any]) -> Answer:
    """Returns how long ``work`` takes."""
    begin = time.perf_counter()
    work()
    return {"seconds": time.perf_counter() - begin}


# --- Stoker ---------------------------------------------------------------------------------------


def closed(loader: Any) -> None:
    """Ends the loader's threads now, so that they do not disturb the other side."""
    if hasattr(loader, "close"):
        loader.close()


def stoker_images(options: dict[str, Any]) -> Run:
    """Tars or MDS through stoker.Loader: raw bytes and a number, in exact global order."""
    import stoker

    dataset = stoker.Dataset(options["data"])

    def count(batch: Any) -> tuple[int, int]:
        return len(batch["cls"]), int(batch["jpg"].nbytes)

    def run() -> Answer:
        loader = stoker.Loader(
            dataset,
            batch_size=BATCH,
            shuffle="global",
            seed=7,
            epochs=1,
            fields={"jpg": bytes, "cls": int},
            memory_bytes=options["memory"],
            torch=False,  # bytes and numbers: nothing to make tensors of
        )
        try:
            return drained(loader, count)
        finally:
            closed(loader)

    return run


def stoker_tokens(options: dict[str, Any]) -> Run:
    """Windows of a token array, widened to int64 as the peer's are."""
    import stoker

    tokens = stoker.Tokens(options["data"], window=WINDOW, extra=1, dtype="int64")

    def run() -> Answer:
        loader = stoker.Loader(
            tokens,
            batch_size=BATCH,
            shuffle="global",
            seed=7,
            epochs=1,
            memory_bytes="64MiB",
            pin_memory=options["pinned"],
        )
        try:
            return drained(loader, lambda b: (len(b["tokens"]), int(b["tokens"].nbytes)))
        finally:
            closed(loader)

    return run


def many_loader(dataset: Any) -> Any:
    """Returns a loader over very many tiny samples."""
    import torch  # noqa: F401 (loaders import it where it is: before the clock starts)

    import stoker

    return stoker.Loader(
        dataset, batch_size=BATCH, shuffle="global", seed=7, epochs=1, fields={"x": int}
    )


def stoker_first(options: dict[str, Any]) -> Run:
    """From opening the dataset to the first batch."""
    import stoker

    def work() -> None:
        loader = many_loader(stoker.Dataset(options["data"]))
        next(iter(loader))
        closed(loader)

    # Not measured: imports, and the index, which is built only once for a dataset.
    closed(many_loader(stoker.Dataset(options["data"])))
    return lambda: timed(work)


def stoker_resume(options: dict[str, Any]) -> Run:
    """From a saved state in the middle of an epoch to the next batch."""
    import stoker

    dataset = stoker.Dataset(options["data"])
    loader = many_loader(dataset)
    batches = iter(loader)
    for _ in range(len(dataset) // BATCH // 2):
        next(batches)
    state = loader.state_dict()
    closed(loader)

    def work() -> None:
        resumed = many_loader(dataset)
        resumed.load_state_dict(state)
        next(iter(resumed))
        closed(resumed)

    return lambda: timed(work)


# --- The peers ------------------------------------------------------------------------------------


def webdataset_images(options: dict[str, Any]) -> Run:
    """Webdataset with its usual shuffle buffer, in this process or in a DataLoader's workers."""
    import torch
    import webdataset

    shards = sorted(str(path) for path in Path(options["data"]).glob("*.tar"))

    def count(batch: Any) -> tuple[int, int]:
        return len(batch[1]), sum(map(len, batch[0]))

    def columns(samples: list[tuple[bytes, bytes]]) -> tuple[list[bytes], list[int]]:
        return [jpg for jpg, _ in samples], [int(label) for _, label in samples]

    def run() -> Answer:
        dataset = (
            webdataset.WebDataset(shards, shardshuffle=len(shards), empty_check=False)
            .shuffle(1000)
            .to_tuple("jpg", "cls")
            .batched(BATCH, collation_fn=columns)
        )
        if options["workers"] == 0:
            return drained(dataset, count)
        loader = torch.utils.data.DataLoader(
            dataset, batch_size=None, num_workers=options["workers"]
        )
        return drained(loader, count)

    return run


def as_columns(samples: list[dict[str, Any]]) -> tuple[list[bytes], list[int]]:
    """Collates into lists, because raw bytes cannot be stacked."""
    return [sample["jpg"] for sample in samples], [int(sample["cls"]) for sample in samples]


def streaming_dataset(folder: str) -> Any:
    """Returns a shuffled StreamingDataset, as its documentation shows it."""
    from streaming import StreamingDataset
    from streaming.base.util import clean_stale_shared_memory

    clean_stale_shared_memory()
    return StreamingDataset(
        local=folder, shuffle=True, shuffle_seed=7, batch_size=BATCH, num_canonical_nodes=1
    )


def streaming_images(options: dict[str, Any]) -> Run:
    """Mosaicml-streaming in a DataLoader."""
    import torch

    dataset = streaming_dataset(options["data"])

    def run() -> Answer:
        loader = torch.utils.data.DataLoader(
            dataset, batch_size=BATCH, num_workers=options["workers"], collate_fn=as_columns
        )
        return drained(loader, lambda batch: (len(batch[1]), sum(map(len, batch[0]))))

    return run


def streaming_first(options: dict[str, Any]) -> Run:
    """From opening the dataset to the first batch, without workers and their start-up."""
    import torch

    def work() -> None:
        loader = torch.utils.data.DataLoader(streaming_dataset(options["data"]), batch_size=BATCH)
        next(iter(loader))

    return lambda: timed(work)


def streaming_resume(options: dict[str, Any]) -> Run:
    """From a saved state in the middle of an epoch to the next batch, without workers."""
    import torch

    dataset = streaming_dataset(options["data"])
    state = dataset.state_dict(len(dataset) // 2, from_beginning=True)

    def work() -> None:
        dataset.load_state_dict(state)
        next(iter(torch.utils.data.DataLoader(dataset, batch_size=BATCH)))

    return lambda: timed(work)


class Windows:
    """Windows of a memory-mapped token array, as Megatron and similar programs read them."""

    def __init__(self, path: str) -> None:
        import numpy as np

        self.tokens = np.load(path, mmap_mode="r")

    def __len__(self) -> int:
        return (len(self.tokens) - 1) // WINDOW

    def __getitem__(self, index: int) -> Any:
        import numpy as np
        import torch

        start = index * WINDOW
        return torch.from_numpy(self.tokens[start : start + WINDOW + 1].astype(np.int64))


def memmap_tokens(options: dict[str, Any]) -> Run:
    """A NumPy memmap in a DataLoader."""
    import torch

    dataset = Windows(options["data"])

    def run() -> Answer:
        loader = torch.utils.data.DataLoader(
            dataset,
            batch_size=BATCH,
            shuffle=True,
            num_workers=options["workers"],
            generator=torch.Generator().manual_seed(7),
            pin_memory=options["pinned"],
        )
        return drained(loader, lambda batch: (len(batch), batch.nbytes))

    return run


def webdataset_pack(options: dict[str, Any]) -> Run:
    """ShardWriter over a folder of class folders, each shard fsynced when it is closed."""
    import os

    import webdataset

    def durable(name: str) -> None:
        fd = os.open(name, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)

    def run() -> Answer:
        begin = time.perf_counter()
        target = Path(options["target"])
        source = Path(options["source"])
        classes = {name: i for i, name in enumerate(sorted(p.name for p in source.iterdir()))}
        pattern = str(target / "shard-%06d.tar")
        with webdataset.ShardWriter(
            pattern, maxcount=1 << 60, maxsize=options["shard_bytes"], verbose=0, post=durable
        ) as shards:
            for path in sorted(source.glob("*/*.jpg")):
                key = f"{path.parent.name}/{path.stem}"
                label = classes[path.parent.name]
                shards.write({"__key__": key, "jpg": path.read_bytes(), "cls": label})
        durable(str(target))
        return {"seconds": time.perf_counter() - begin}

    return run


SIDES: dict[str, Callable[[dict[str, Any]], Run]] = {
    function.__name__: function
    for function in (
        stoker_images,
        stoker_tokens,
        stoker_first,
        stoker_resume,
        webdataset_images,
        streaming_images,
        streaming_first,
        streaming_resume,
        memmap_tokens,
        webdataset_pack,
    )
}


def main() -> None:
    """Runs once for each line of input."""
    standins = Path(__file__).parents[2] / "tests" / "interop" / "peers" / "standins"
    sys.path.append(str(standins))  # streaming needs a few names of torchvision
    answers, sys.stdout = sys.stdout, sys.stderr  # peers print to stdout
    run = SIDES[sys.argv[1]](json.loads(sys.argv[2]))
    print("ready", file=answers, flush=True)
    for _ in sys.stdin:
        print(json.dumps(run()), file=answers, flush=True)


if __name__ == "__main__":
    main()
