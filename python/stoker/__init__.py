"""Stoker: no accelerator waits for storage, and no committed checkpoint is ever lost.

>>> import stoker
>>> stoker.probe("/data").engine
'uring'
>>> stoker.Dataset("/data/train-{000..999}.tar")[0]["__key__"]
'n01440764_10026'
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING

if not sys.platform.startswith("linux"):
    raise ImportError(
        "Stoker runs on Linux only: it stands on io_uring, O_DIRECT and Linux's rules for fsync. "
        "A container or a virtual machine with Linux will do."
    )

from stoker import io, plan
from stoker._checkpoint.checkpointer import Checkpointer
from stoker._checkpoint.load import Loaded, load
from stoker._checkpoint.ranks.job import JobConflict
from stoker._checkpoint.restored import ReferenceMismatch, Restored
from stoker._checkpoint.save.pending import Pending
from stoker._checkpoint.single import save
from stoker._checkpoint.state.per_rank import PerRank
from stoker._checkpoint.tensors.lazy_tensor import LazyTensor
from stoker._checkpoint.tensors.slice import Slice
from stoker._common.late import LateError
from stoker._dataset.cache import Cache
from stoker._dataset.columns import RaggedColumn
from stoker._dataset.dataset import Dataset, Shard
from stoker._dataset.fields import Array, Field, Json, Npy, Pad, Ragged
from stoker._dataset.mixture import Mixture
from stoker._dataset.shuffle import BlockShuffle
from stoker._dataset.tokens import Tokens
from stoker._loader.batch import Batch
from stoker._loader.cursors import CursorDifference, CursorMismatch
from stoker._loader.loader import Loader
from stoker._loader.map.job import MapError
from stoker._loader.stats import LoaderStats
from stoker._measure.probe import probe
from stoker._measure.profile import Profile, profile
from stoker._measure.sweep import Sweep, sweep_workers
from stoker._native import (
    BytesColumn,
    CorruptError,
    Cursor,
    PackReport,
    StorageProbe,
    build_info,
)
from stoker._native import version as __version__
from stoker._pack.importers import ingest_arrow, ingest_hdf5, ingest_lmdb, ingest_parquet
from stoker._pack.ingest import ingest
from stoker._pack.pack import merge_pack, pack
from stoker._preemption.preemption import Preemption

__all__ = [
    "Array",
    "Batch",
    "BlockShuffle",
    "BytesColumn",
    "Cache",
    "Checkpointer",
    "CorruptError",
    "Cursor",
    "CursorDifference",
    "CursorMismatch",
    "Dataset",
    "Field",
    "JobConflict",
    "Json",
    "LateError",
    "LazyTensor",
    "Loaded",
    "Loader",
    "LoaderStats",
    "MapError",
    "Mixture",
    "Npy",
    "PackReport",
    "Pad",
    "Pending",
    "PerRank",
    "Preemption",
    "Profile",
    "Ragged",
    "RaggedColumn",
    "ReferenceMismatch",
    "Restored",
    "Shard",
    "Slice",
    "StorageProbe",
    "Sweep",
    "Tokens",
    "__version__",
    "build_info",
    "ingest",
    "ingest_arrow",
    "ingest_hdf5",
    "ingest_lmdb",
    "ingest_parquet",
    "io",
    "load",
    "merge_pack",
    "pack",
    "plan",
    "probe",
    "profile",
    "save",
    "sweep_workers",
]

if not TYPE_CHECKING:  # a type checker wants `import stoker.torch`

    def __getattr__(name: str) -> ModuleType:
        """Imports stoker.torch, and torch with it, when it is first used."""
        if name == "torch":
            return importlib.import_module("stoker.torch")
        raise AttributeError(f"module 'stoker' has no attribute {name!r}")


for _name in __all__:  # so that tracebacks say stoker.MapError, the name to catch
    if isinstance(_kind := globals()[_name], type) and issubclass(_kind, Exception):
        _kind.__module__ = "stoker"
del _name, _kind
