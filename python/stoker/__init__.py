"""Stoker: no accelerator waits for storage, and no committed checkpoint is ever lost.

>>> import stoker
>>> stoker.probe("/data").engine
'uring'
>>> stoker.Dataset("/data/train-{000..999}.tar")[0]["__key__"]
'n01440764_10026'
"""

from __future__ import annotations

import sys

if not sys.platform.startswith("linux"):
    raise ImportError(
        "Stoker runs on Linux only: it stands on io_uring, O_DIRECT and Linux's rules for fsync. "
        "A container or a virtual machine with Linux will do."
    )

from stoker._dataset import Dataset, Shard
from stoker._importers import ingest_arrow, ingest_hdf5, ingest_lmdb, ingest_parquet
from stoker._ingest import ingest, merge_pack, pack
from stoker._native import CorruptError, PackReport, StorageProbe, probe
from stoker._native import version as __version__

__all__ = [
    "CorruptError",
    "Dataset",
    "PackReport",
    "Shard",
    "StorageProbe",
    "__version__",
    "ingest",
    "ingest_arrow",
    "ingest_hdf5",
    "ingest_lmdb",
    "ingest_parquet",
    "merge_pack",
    "pack",
    "probe",
]
