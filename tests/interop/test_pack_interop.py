"""The real packages read what `stoker pack` and `stoker convert` leave.

Run in the environment of peers/requirements.txt; STOKER_COMMAND names the stoker command.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent / "peers" / "standins"))

COMMAND = os.environ.get("STOKER_COMMAND", "")
pytestmark = pytest.mark.skipif(not COMMAND, reason="STOKER_COMMAND names no stoker")

webdataset = pytest.importorskip("webdataset")
streaming = pytest.importorskip("streaming")
from PIL import Image  # noqa: E402
from tfrecord.reader import example_loader  # noqa: E402

COUNT = 200


def stoker(*args: object) -> None:
    subprocess.run([COMMAND, *map(str, args)], check=True, capture_output=True)


def rows() -> list[dict[str, Any]]:
    return [{"number": i, "score": i / 4, "text": f"zeile \u00fc {i}"} for i in range(COUNT)]


@pytest.fixture
def jsonl(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows()), encoding="utf-8")
    return path


def jpeg(number: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (8 + number % 5, 8), (number % 256, 128, 255 - number % 256)).save(out, "JPEG")
    return out.getvalue()


def pixels(image: Image.Image) -> tuple[tuple[int, int], bytes]:
    return image.size, image.tobytes()


@pytest.fixture
def images(tmp_path: Path) -> dict[str, tuple[bytes, int]]:
    """A directory for each class; what is in it, by stem."""
    expected = {}
    for i in range(COUNT):
        label, stem = i % 3, f"image{i:04d}"
        folder = tmp_path / "images" / f"class{label}"
        folder.mkdir(parents=True, exist_ok=True)
        data = jpeg(i)
        (folder / f"{stem}.jpg").write_bytes(data)
        expected[stem] = (data, label)
    return expected


def streamed(directory: Path) -> list[dict[str, Any]]:
    dataset = streaming.LocalDataset(local=str(directory))
    return [dataset[i] for i in range(len(dataset))]


def from_webdataset(directory: Path) -> dict[str, tuple[bytes, int]]:
    shards = sorted(str(path) for path in directory.glob("*.tar"))
    assert len(shards) > 1
    samples = webdataset.WebDataset(shards, shardshuffle=False)
    return {Path(s["__key__"]).name: (s["jpg"], int(s["cls"])) for s in samples}


def test_streaming_reads_packed_jsonl_with_its_types(jsonl: Path, tmp_path: Path) -> None:
    stoker("pack", jsonl, tmp_path / "mds", "--format", "mds", "--samples-per-shard", 64)
    samples = streamed(tmp_path / "mds")
    assert [{name: sample[name] for name in rows()[0]} for sample in samples] == rows()


def test_streaming_shuffles_a_packed_dataset_over_every_sample(jsonl: Path, tmp_path: Path) -> None:
    stoker("pack", jsonl, tmp_path / "mds", "--format", "mds", "--samples-per-shard", 64)
    dataset = streaming.StreamingDataset(local=str(tmp_path / "mds"), shuffle=True, batch_size=8)
    assert sorted(sample["number"] for sample in dataset) == list(range(COUNT))


def test_webdataset_reads_packed_images(
    images: dict[str, tuple[bytes, int]], tmp_path: Path
) -> None:
    stoker("pack", tmp_path / "images", tmp_path / "tar", "--samples-per-shard", 64)
    assert from_webdataset(tmp_path / "tar") == images


def test_converted_images_read_alike_everywhere(
    images: dict[str, tuple[bytes, int]], tmp_path: Path
) -> None:
    more = ("--samples-per-shard", 64)
    stoker("pack", tmp_path / "images", tmp_path / "tar", *more)
    stoker("convert", tmp_path / "tar", tmp_path / "mds", "--format", "mds", *more)
    samples = streamed(tmp_path / "mds")
    # The column says that it is a JPEG, as one that was packed does, and the peer decodes it.
    found = {Path(s["__key__"]).name: (pixels(s["jpg"]), int(s["cls"])) for s in samples}
    assert found == {
        stem: (pixels(Image.open(io.BytesIO(data))), label)
        for stem, (data, label) in images.items()
    }
    stoker("convert", tmp_path / "mds", tmp_path / "tfrecord", "--format", "tfrecord", *more)
    found = {}
    for path in sorted((tmp_path / "tfrecord").glob("*.tfrecord")):
        for example in example_loader(str(path), None):
            key = Path(bytes(example["__key__"]).decode()).name
            found[key] = (bytes(example["jpg"]), int(example["cls"]))
    assert found == images
    stoker("convert", tmp_path / "tfrecord", tmp_path / "again", "--format", "tar", *more)
    assert from_webdataset(tmp_path / "again") == images
