from collections.abc import Sequence
import os

import numpy


from typing import Any
from numpy.typing import NDArray

version: str = '0.1.0'

class CorruptError(ValueError):
    """
    Bytes were read, and they are not the bytes that were written.

    `path` is the shard, `offset` where the sample lies in it, `key` the sample's key, or
    "<shard>/<number>" if the key itself cannot be read. None where that is not known.
    """

    path: str | None
    offset: int | None
    key: str | None

class StorageProbe:
    """What the storage under one directory can do."""

    @property
    def path(self) -> str: ...

    @property
    def kernel(self) -> str: ...

    @property
    def filesystem(self) -> str: ...

    @property
    def engine(self) -> str: ...

    @property
    def engine_reason(self) -> str: ...

    @property
    def registered_buffers(self) -> bool: ...

    @property
    def registered_buffers_reason(self) -> str: ...

    @property
    def direct_io(self) -> bool: ...

    @property
    def direct_memory_align_bytes(self) -> int: ...

    @property
    def direct_offset_align_bytes(self) -> int: ...

    @property
    def dont_cache(self) -> bool: ...

    @property
    def cachestat(self) -> bool: ...

    @property
    def read_path(self) -> str: ...

    @property
    def write_path(self) -> str: ...

    @property
    def rename_noreplace(self) -> bool: ...

    @property
    def directory_fsync(self) -> bool: ...

    @property
    def hard_links(self) -> bool: ...

    @property
    def huge_pages(self) -> str: ...

    @property
    def memlock_bytes(self) -> int: ...

    def to_dict(self) -> dict[str, str | int | bool]:
        """Every field by name, ready for JSON."""

    def __repr__(self) -> str: ...

def probe(path: str | os.PathLike[str] = '.') -> StorageProbe:
    """
    Finds out what the storage under a directory can do, by trying.

    Scratch files are made in `path` and are gone on return; it takes some milliseconds on a
    local filesystem. STOKER_ENGINE, where set, decides `engine`.

    Raises OSError if the directory cannot be written to, and ValueError if STOKER_ENGINE is
    not the name of an engine.
    """

class Dataset:
    """Use stoker.Dataset."""

    def __len__(self) -> int: ...

    def read(self, sample: int) -> dict[str, Any]:
        """One sample, its arrays backed by the bytes that were read."""

    def read_many(self, samples: NDArray[numpy.int64]) -> list[dict[str, Any]]: ...

    def keys(self, samples: NDArray[numpy.int64]) -> list[str]: ...

    def check(self, samples: NDArray[numpy.int64]) -> None:
        """Reads samples and raises for the first that cannot be."""

    def gather(self, samples: NDArray[numpy.int64], field: str, dtype: str, shape: Sequence[int], out: NDArray[Any]) -> None:
        """Copies a field of each sample into the rows of `out`."""

    @property
    def fingerprint(self) -> str: ...

    @property
    def format(self) -> str: ...

    @property
    def directory(self) -> str: ...

    @property
    def has_checksums(self) -> bool: ...

    @property
    def shards(self) -> list[tuple[str, str, int, int]]:
        """Name, path, bytes and samples of each."""

def open_dataset(patterns: Sequence[str], format: str = '', dtype: str = '', checksums: bool = False, cache_directory: str = '') -> Dataset:
    """Opens shards and their index, which is built if there is none."""

class PackReport:
    """What pack() and ingest() have written."""

    @property
    def format(self) -> str: ...

    @property
    def shard_count(self) -> int: ...

    @property
    def sample_count(self) -> int: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def shards_found(self) -> int:
        """Finished by an earlier run."""

    @property
    def is_complete(self) -> bool:
        """The manifest is written."""

    def __repr__(self) -> str: ...

def pack(source: str, directory: str, format: str, samples_per_shard: int, shard_size: str, shuffle_seed: int | None, threads: int, task: int, task_count: int, kind: str, dtype: str, sequence_length: int) -> PackReport:
    """Use stoker.pack."""

def merge_pack(directory: str) -> PackReport:
    """Joins the tasks of one pack."""

def parse_bytes(text: str) -> int:
    """"256MiB" as a number."""

class IngestWriter:
    """Use stoker.ingest."""

    def write_shard(self, samples: list[tuple[str, list[tuple[str, str, str, tuple[int, ...], bytes]]]]) -> None: ...

    def abandon(self) -> None:
        """Removes what was written."""

    def finish(self) -> PackReport: ...

def make_ingest_writer(directory: str, format: str) -> IngestWriter: ...
