"""Writes folder/ (save_to_disk) and rows.parquet (to_parquet) beside this file.

The files in the repository are by datasets 5.2.0. Needs datasets and pillow:

    python tests/golden/huggingface/generate.py
"""

from __future__ import annotations

import datetime
import decimal
import io
from pathlib import Path

import datasets
import numpy as np
import PIL.Image

HERE = Path(__file__).parent

FEATURES = datasets.Features(
    {
        "id": datasets.Value("string"),
        "images": datasets.Sequence(datasets.Image()),
        "blobs": datasets.Sequence(datasets.Value("binary")),
        "meta": {
            "raw": datasets.Value("binary"),
            "day": datasets.Value("date32"),
            "price": datasets.Value("decimal128(9, 2)"),
        },
        "day": datasets.Value("date32"),
        "price": datasets.Value("decimal128(9, 2)"),
        "when": datasets.Value("timestamp[ns, tz=UTC]"),
        "times": datasets.Sequence(datasets.Value("timestamp[us]")),
        "matrix": datasets.Array2D((2, 3), "float32"),
        "video": datasets.Array3D((None, 2, 2), "uint8"),
        "label": datasets.ClassLabel(names=["cat", "dog"]),
        "seq": datasets.Sequence(datasets.Value("int16")),
    }
)


def png(red: int) -> bytes:
    """An image of 2 x 2 pixels."""
    file = io.BytesIO()
    PIL.Image.new("RGB", (2, 2), (red, 0, 0)).save(file, "PNG")
    return file.getvalue()


def row(i: int) -> dict[str, object]:
    """Row i: lists have i elements."""
    return {
        "id": f"row{i}",
        "images": [{"bytes": png(10 * i + k), "path": None} for k in range(i)],
        "blobs": [bytes([i]), b"\xff\0"],
        "meta": {
            "raw": bytes([200 + i]),
            "day": datetime.date(2024, 1, 1 + i),
            "price": decimal.Decimal(f"{i}.50"),
        },
        "day": datetime.date(2024, 2, 1 + i),
        "price": decimal.Decimal(f"{i}.25"),
        "when": datetime.datetime(2024, 1, 2, 3, 4, 5, 6 + i, tzinfo=datetime.timezone.utc),
        "times": [datetime.datetime(2024, 1, 2, 3, 4, 5)] * i,
        "matrix": np.arange(6, dtype=np.float32).reshape(2, 3) + i,
        "video": np.full((i + 1, 2, 2), i, np.uint8),
        "label": i % 2,
        "seq": list(range(i)),
    }


if __name__ == "__main__":
    made = datasets.Dataset.from_list([row(i) for i in range(3)], features=FEATURES)
    made.save_to_disk(HERE / "folder")
    made.to_parquet(HERE / "rows.parquet")
