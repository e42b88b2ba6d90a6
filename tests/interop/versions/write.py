"""Writes datasets with the version of a peer that Python finds, and what is in them.

    python write.py PEER OUT

prints a JSON line for each dataset: its path below OUT and the samples, a dict of field to
[type, value] each; bytes are hexadecimal, arrays are [dtype, shape, bytes].
"""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

COMPRESSIONS = ["", "zstd", "gz", "br", "bz2", "snappy"]


def array(value: Any) -> list[Any]:
    value = np.asarray(value)
    return ["array", [value.dtype.str, list(value.shape), value.tobytes().hex()]]


def show(path: str, samples: list[dict[str, Any]]) -> None:
    print(json.dumps({"path": path, "samples": samples}))


def write_mds(out: Path) -> None:
    import streaming
    from streaming.base.format.mds.encodings import get_mds_encodings

    known = get_mds_encodings()
    kinds = {"a": "int", "b": "str", "c": "bytes", "d": "json", "e": "uint16", "f": "float32"}
    columns = {name: kind for name, kind in kinds.items() if kind in known}
    if "ndarray" in known:
        columns["g"] = "ndarray"

    def values_of(i: int) -> dict[str, Any]:
        values = {"a": i - 3, "b": "z\u00e9" * i, "c": bytes(range(i)), "d": {"n": [i, None]}}
        values |= {"e": np.uint16(i), "f": np.float32(i / 3), "g": np.arange(i + 1).reshape(1, -1)}
        return values

    def sample(i: int) -> dict[str, Any]:
        return {name: values_of(i)[name] for name in columns}

    def expected(i: int) -> dict[str, Any]:
        values = values_of(i)
        shown = {"a": ["int64", values["a"]], "b": ["text", values["b"]]}
        shown |= {"c": ["bytes", values["c"].hex()], "d": ["json", values["d"]]}
        shown |= {"e": array(values["e"]), "f": ["float32", values["f"].tobytes().hex()]}
        shown |= {"g": array(values["g"])}
        return {name: shown[name] for name in columns}

    is_old = "dirname" in inspect.signature(streaming.MDSWriter).parameters
    place = "dirname" if is_old else "out"
    for compression in COMPRESSIONS:
        options = {"columns": columns, "hashes": ["sha1", "xxh64"], "size_limit": 900}
        options["compression"] = compression or None
        name = f"mds-{compression or 'plain'}"
        with streaming.MDSWriter(**{place: str(out / name)}, **options) as writer:
            for i in range(12):
                writer.write(sample(i))
        show(name, [expected(i) for i in range(12)])
    try:
        from streaming.base.util import merge_index
    except ImportError:  # before 0.6
        return
    options["compression"] = None
    for part in ("one", "two"):
        with streaming.MDSWriter(**options | {place: str(out / "merged" / part)}) as writer:
            for i in range(5) if part == "one" else range(5, 12):
                writer.write(sample(i))
    merge_index(str(out / "merged"), keep_local=True)
    show("merged", [expected(i) for i in range(12)])


def write_litdata(out: Path) -> None:
    import torch
    from litdata.streaming import item_loader
    from litdata.streaming.writer import BinaryWriter

    def write(name: str, samples: list[Any], shown: list[dict[str, Any]], **options: Any) -> None:
        (out / name).mkdir(parents=True)
        writer = BinaryWriter(str(out / name), **{"chunk_size": 5} | options)
        for i, sample in enumerate(samples):
            writer[i] = sample
        writer.done()
        writer.merge()
        show(name, shown)

    settings = inspect.signature(BinaryWriter).parameters
    # Before 0.2.21 the loader was not given, and chosen by what the samples are.
    by_hand = "item_loader" in settings
    tokens = {"item_loader": item_loader.TokensLoader(block_size=3)} if by_hand else {}
    whole = {"compression_level": "chunk"} if "compression_level" in settings else {}
    rows = [torch.arange(i, 2 * i + 1, dtype=torch.int32) for i in range(7)]
    trees = [
        {"a": i, "b": "z\u00e9" * i, "c": 0.5 * i, "d": bytes(i), "e": (np.ones((2, i)),)}
        | {"f": torch.arange(i), "g": torch.ones(i, 2)}
        for i in range(1, 8)
    ]
    shown = [
        {"a": ["int64", t["a"]], "b": ["text", t["b"]], "c": ["float64", t["c"]]}
        | {"d": ["bytes", t["d"].hex()], "e.0": array(t["e"][0])}
        | {"f": array(t["f"].numpy()), "g": array(t["g"].numpy())}
        for t in trees
    ]
    shown_rows = [{"item": array(row.numpy())} for row in rows]
    for suffix, options in {"plain": {}, "zstd": {"compression": "zstd", **whole}}.items():
        write(f"trees-{suffix}", trees, shown, **options)
        write(f"tokens-{suffix}", rows, shown_rows, **options, **tokens)


def write_tar(out: Path) -> None:
    import webdataset

    samples = [
        {"__key__": f"dir/{i:04d}", "txt": "z\u00e9" * i, "cls": i % 10, "json": {"n": [i]}}
        | {"seg.bin": bytes(range(i))}
        for i in range(12)
    ]
    with webdataset.TarWriter(str(out / "shard.tar")) as writer:
        for sample in samples:
            writer.write(sample)
    show(
        "shard.tar",
        [
            {"__key__": ["text", s["__key__"]], "cls": ["bytes", str(s["cls"]).encode().hex()]}
            | {"json": ["json", s["json"]], "seg.bin": ["bytes", s["seg.bin"].hex()]}
            | {"txt": ["bytes", s["txt"].encode().hex()]}
            for s in samples
        ],
    )


def write_tfrecord(out: Path) -> None:
    from tfrecord.writer import TFRecordWriter

    writer = TFRecordWriter(str(out / "shard.tfrecord"))
    shown = []
    for i in range(12):
        floats = np.arange(2, dtype="<f4") + i
        writer.write(
            {"image": (bytes(range(i)), "byte"), "label": (i - 3, "int"), "xs": (floats, "float")}
        )
        shown.append(
            {"image": ["bytes", bytes(range(i)).hex()], "label": ["int64", i - 3]}
            | {"xs": ["float32", floats.tobytes().hex()]}
        )
    writer.close()
    show("shard.tfrecord", shown)


def write_safetensors(out: Path) -> None:
    from safetensors.numpy import save_file

    tensors = {"w": np.arange(6, dtype="<f4").reshape(2, 3), "b": np.arange(3), "empty": np.ones(0)}
    save_file(tensors, str(out / "model.safetensors"), metadata={"format": "np"})
    show("model.safetensors", [{name: array(value) for name, value in tensors.items()}])


WRITERS = {
    "mosaicml-streaming": write_mds,
    "litdata": write_litdata,
    "webdataset": write_tar,
    "tfrecord": write_tfrecord,
    "safetensors": write_safetensors,
}

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1] / "peers" / "standins"))
    place = Path(sys.argv[2])
    place.mkdir(parents=True, exist_ok=True)
    WRITERS[sys.argv[1]](place)
