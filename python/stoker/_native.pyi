from collections.abc import Mapping, Sequence
import enum
import os
from typing import Any, overload

import numpy


from collections.abc import Iterator
from typing import Any
from numpy.typing import NDArray

version: str = '0.1.0'

def build_info() -> dict[str, object]:
    """
    Returns version, revision, compiler, platform, libraries and engine, as `stoker
    --version --json` prints them; for reports of problems.
    """

class CorruptError(ValueError):
    """
    The bytes that were read are not the bytes that were written.

    `path` is the shard or the checkpoint's file, `offset` the offset of the sample or the damage
    in it, `key` the sample's key, or "<shard>/<number>" if the key itself cannot be read,
    `tensor` the checkpoint's tensor. Each is None if it is not known.
    """

    path: str | None
    offset: int | None
    key: str | None
    tensor: str | None

def plan_kinds() -> list[dict[str, Any]]:
    """Returns name, question and fields of every kind of plan."""

def plan_answer(kind: str, settings: Sequence[tuple[str, str]], devices: Sequence[str], catalogue: str, workload: str) -> tuple[str, str, str | None]:
    """Returns an answer as JSON, as text and, if it has a curve, as SVG."""

def plan_devices(catalogue: str) -> list[dict[str, Any]]:
    """Returns the devices of a catalogue, then Stoker's."""

class StorageProbe:
    """The capabilities of the storage under one directory."""

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

    @property
    def gpu_direct_reads(self) -> bool: ...

    @property
    def gpu_direct_reads_reason(self) -> str: ...

    def to_dict(self) -> dict[str, str | int | bool]:
        """Returns all fields by name, for JSON."""

    def __repr__(self) -> str: ...

def probe(path: str | os.PathLike[str] = '.') -> StorageProbe:
    """
    Probes what the storage under a directory can do.

    Creates scratch files in `path` and removes them before the return; takes some milliseconds on
    a local filesystem. STOKER_ENGINE, if set, decides `engine`. If the process uses GPU 0, and
    cuFile and the drive may allow it, reads a scratch file with cuFile, which takes longer and
    resets cuFile's counters: gpu_direct_reads says whether the bytes went straight to the GPU,
    and gpu_direct_reads_reason why not.

    Raises OSError if the directory is not writable or the engine that STOKER_ENGINE names does not
    work, and ValueError if it is not the name of an engine.
    """

class ObjectStore:
    """Where the files of a dataset are."""

class Errand:
    """What a file system of Python is to do."""

    @property
    def kind(self) -> str:
        """"look", "list" or "read"."""

    @property
    def key(self) -> str: ...

    @property
    def offset(self) -> int: ...

    @property
    def size(self) -> int:
        """Bytes to read."""

    def found(self, is_folder: bool, size_bytes: int, version: str) -> None: ...

    def listed(self, names: Sequence[tuple[str, bool]]) -> None: ...

    def came(self, data: bytes) -> None: ...

    def failed(self, error: int, message: str) -> None: ...

class ServedStore(ObjectStore):
    """Read by threads of Python."""

    def __init__(self, scheme: str) -> None: ...

    def begin_anew(self) -> None:
        """To be called in a forked child."""

def take_errand(store: ServedStore) -> Errand:
    """Waits for an errand."""

class ShardCache:
    """See stoker.Cache."""

    def stats(self) -> dict[str, int]: ...

    @property
    def trouble(self) -> str:
        """Why the cache did not work at some time; empty if it always did."""

def open_cache(directory: str, size_bytes: int) -> ShardCache:
    """Opens or creates a cache."""

class Dataset:
    """Use stoker.Dataset."""

    def __len__(self) -> int: ...

    def read(self, sample: int) -> dict[str, Any]:
        """Reads one sample. Its arrays are views of the bytes that were read."""

    def read_many(self, samples: NDArray[numpy.int64]) -> list[dict[str, Any]]: ...

    def keys(self, samples: NDArray[numpy.int64]) -> list[str]: ...

    def check(self, samples: NDArray[numpy.int64]) -> None:
        """Reads samples and raises for the first that cannot be read."""

    def check_digests(self) -> None:
        """
        Raises for the first shard that does not match the digests of its format.
        """

    def gather(self, samples: NDArray[numpy.int64], field: str, dtype: str, shape: Sequence[int], out: NDArray[Any]) -> None:
        """Copies a field of each sample into the rows of `out`."""

    @property
    def fingerprint(self) -> str: ...

    @property
    def format(self) -> str: ...

    @property
    def directory(self) -> str: ...

    @property
    def is_local(self) -> bool: ...

    @property
    def index_refused(self) -> str: ...

    @property
    def whole_directories(self) -> list[str]: ...

    @property
    def has_checksums(self) -> bool: ...

    @property
    def plain_size_bytes(self) -> int:
        """Size of all shards, uncompressed."""

    @property
    def has_key_field(self) -> bool:
        """
        Whether the first sample has a key field, which formats without keys may have.
        """

    @property
    def shards(self) -> list[tuple[str, str, int, int]]:
        """Name, path, size in bytes and number of samples of each shard."""

def open_dataset(patterns: Sequence[str], format: str = '', dtype: str = '', checksums: bool = False, cache_directory: str = '', policy: str = 'auto', cache: ShardCache | None = None, store: ObjectStore | None = None) -> Dataset:
    """Opens shards and their index; builds the index if there is none."""

class TokenBins:
    """Use stoker.Tokens(pack=)."""

    @staticmethod
    def open(dataset: Dataset, length: int, cache_directory: str = '') -> TokenBins:
        """Opens the packs; builds them if none match."""

    def __len__(self) -> int: ...

    @property
    def dtype(self) -> str: ...

    @property
    def length(self) -> int: ...

    def read(self, dataset: Dataset, units: NDArray[numpy.int64], out: NDArray[Any], position_ids: NDArray[numpy.int32], document_ids: NDArray[numpy.int32]) -> NDArray[numpy.int64]:
        """
        Reads packs into rows, in the dtype of the file, padded with 0. Returns their lengths.
        """

class TokenWindows:
    """Use stoker.Tokens."""

    @staticmethod
    def make(dataset: Dataset, window: int, stride: int, extra: int) -> TokenWindows: ...

    def __len__(self) -> int: ...

    @property
    def dtype(self) -> str: ...

    @property
    def tokens_per_row(self) -> int: ...

    @property
    def token_count(self) -> int: ...

    def read(self, dataset: Dataset, units: NDArray[numpy.int64], out: NDArray[Any]) -> None:
        """Reads windows into the rows of `out`, in the dtype of the file."""

class OrderOptions:
    """The options of an order."""

    def __init__(self, shuffle: str, seed: int, sample_count: int) -> None: ...

    @property
    def shuffle(self) -> str: ...

    @property
    def seed(self) -> int: ...

    @property
    def sample_count(self) -> int: ...

    @property
    def block_samples(self) -> int: ...

    @block_samples.setter
    def block_samples(self, arg: int, /) -> None: ...

    @property
    def window_blocks(self) -> int: ...

    @window_blocks.setter
    def window_blocks(self, arg: int, /) -> None: ...

    @property
    def lanes(self) -> int: ...

    @lanes.setter
    def lanes(self, arg: int, /) -> None: ...

    @property
    def deal_samples(self) -> int: ...

    @deal_samples.setter
    def deal_samples(self, arg: int, /) -> None: ...

class Order:
    """Maps positions to samples; a pure function."""

    @property
    def epoch_samples(self) -> int: ...

    @property
    def dataset_count(self) -> int: ...

    def fill(self, epoch: int, position: int, count: int) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64]]:
        """Returns dataset and sample of `count` positions from this one on."""

def make_mixture_order(order: OrderOptions, counts: Sequence[int], weights: Sequence[float]) -> Order: ...

def mixture_fingerprint(fingerprints: Sequence[str], counts: Sequence[int], weights: Sequence[float]) -> str: ...

class BatchCut:
    """Divides the positions of an epoch into batches and ranks."""

    def batches_from(self, position: int) -> int: ...

    def micro_batches_at(self, position: int) -> int: ...

    def micro_batches_from(self, position: int) -> int: ...

    @property
    def global_batch_size(self) -> int: ...

    @property
    def rank(self) -> int: ...

    @property
    def world_size(self) -> int: ...

    @property
    def tail(self) -> str: ...

    @property
    def rank_batch_size(self) -> int: ...

    @property
    def micro_batch_size(self) -> int: ...

    @property
    def micro_batches_per_step(self) -> int: ...

class Cursor:
    """
    The position of a run in its data, and the identity of the data; the same on every rank. Batches create it; store it as `bytes()` or `str()`.
    """

    @staticmethod
    def decode(encoded: bytes) -> Cursor:
        """Decodes the result of bytes()."""

    @staticmethod
    def parse(json: str) -> Cursor:
        """Parses the result of str()."""

    def __bytes__(self) -> bytes: ...

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

    def __eq__(self, other: object) -> bool: ...

    def __hash__(self) -> int: ...

    def __getstate__(self) -> bytes: ...

    def __setstate__(self, arg: bytes, /) -> None: ...

    def at(self, epoch: int, position: int) -> Cursor:
        """Returns a cursor of the same run at another position."""

    def differences(self, run: Cursor) -> list[tuple[str, str, str, bool]]:
        """
        Returns every field that differs from a cursor of `run`: name, was, is, may be allowed.
        """

    def check(self, run: Cursor, allow: Sequence[str]) -> str:
        """Returns why `run` cannot continue from here; empty if it can."""

    @property
    def order(self) -> OrderOptions: ...

    @property
    def shuffle(self) -> str: ...

    @property
    def seed(self) -> int: ...

    @property
    def fingerprint(self) -> str: ...

    @property
    def tail(self) -> str: ...

    @property
    def global_batch_size(self) -> int: ...

    @property
    def epoch(self) -> int:
        """Counted from 0."""

    @property
    def position(self) -> int:
        """Samples of this epoch that have been received."""

class BytesColumn:
    """
    A field of each sample of a batch, as bytes: a sequence of read-only uint8 arrays, views of the batch that are created on access. None for a sample without the field.
    """

    def __len__(self) -> int: ...

    @overload
    def __getitem__(self, index: int) -> NDArray[numpy.uint8]: ...

    @overload
    def __getitem__(self, index: slice) -> list[NDArray[numpy.uint8]]: ...

    def __iter__(self) -> Iterator[NDArray[numpy.uint8]]: ...

    def first(self, count: int) -> BytesColumn:
        """Returns a column of the first `count` samples."""

    def tolist(self) -> list[bytes]:
        """Returns copies."""

    @property
    def sizes(self) -> NDArray[numpy.int64]:
        """Size of each value in bytes."""

    @property
    def nbytes(self) -> int:
        """Total size in bytes."""

    def copy_to(self, out: NDArray[numpy.uint8]) -> None:
        """Copies all values, concatenated, into an array of exactly their size."""

    def __reduce__(self) -> tuple[Any, ...]: ...

    def __repr__(self) -> str: ...

class Batch:
    """
    A batch in the loader's memory, which the batch and its columns keep. stoker.Batch is the dict made from it.
    """

    def __len__(self) -> int: ...

    @property
    def names(self) -> tuple[str, ...]: ...

    def column(self, name: str) -> Any:
        """
        Returns an array, a BytesColumn, a list of str, or for ragged fields values and offsets.
        """

    def values(self, name: str) -> tuple[Any, str] | None:
        """
        For a batch without named fields: returns a field as stoker.Dataset does, and its kind: "bytes", "values", "numbers" or "mixed".
        """

    def presence(self, name: str) -> list[bool] | None:
        """Returns which samples have the field; None if all do."""

    def dtype(self, name: str) -> str: ...

    def lengths(self, name: str) -> NDArray[numpy.int64]:
        """
        For a padded array: returns the number of rows per sample that are not padding.
        """

    def place(self, i: int) -> tuple[str, int]:
        """
        Returns the path of a sample's shard and the sample's offset in it; "" for tokens.
        """

    def keys(self) -> list[str]: ...

    @property
    def positions(self) -> NDArray[numpy.int64]: ...

    @property
    def samples(self) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64]]:
        """The dataset of each sample, and its number in the dataset."""

    @property
    def valid(self) -> NDArray[numpy.bool_]: ...

    @property
    def cursor(self) -> Cursor: ...

    @property
    def epoch(self) -> int: ...

    @property
    def position(self) -> int:
        """Where the global batch of this batch begins."""

    @property
    def micro_batch(self) -> int:
        """Which one of its step it is, from 0."""

    @property
    def last(self) -> bool:
        """Whether it is the last micro-batch of its step."""

    @property
    def number(self) -> int: ...

    @property
    def leased_bytes(self) -> int: ...

    def release_arrays(self) -> None:
        """
        Releases the memory of the arrays and removes their columns. No array may be in use.
        """

class FieldSpec:
    """One column of a batch."""

    def __init__(self, name: str, kind: str, field: str = '') -> None: ...

    @property
    def json_path(self) -> str: ...

    @json_path.setter
    def json_path(self, arg: str, /) -> None: ...

    @property
    def json_type(self) -> str: ...

    @json_type.setter
    def json_type(self, arg: str, /) -> None: ...

    @property
    def dtype(self) -> str: ...

    @dtype.setter
    def dtype(self, arg: str, /) -> None: ...

    @property
    def shape(self) -> list[int] | None: ...

    @shape.setter
    def shape(self, arg: Sequence[int], /) -> None: ...

    @property
    def pad_length(self) -> int: ...

    @pad_length.setter
    def pad_length(self, arg: int, /) -> None: ...

    @property
    def pad_value(self) -> float: ...

    @pad_value.setter
    def pad_value(self, arg: float, /) -> None: ...

    @property
    def pad_cut(self) -> bool: ...

    @pad_cut.setter
    def pad_cut(self, arg: bool, /) -> None: ...

class LoaderOptions:
    """The options of a run: see LoaderSetup."""

class ExtraSamples:
    """Reads samples that replace others."""

    def read(self, epoch: int, positions: Sequence[int], datasets: Sequence[int], samples: Sequence[int]) -> Batch:
        """Returns a batch of these samples, in separate memory."""

def extra_samples(options: LoaderOptions) -> ExtraSamples:
    """Returns ExtraSamples for a run with these options."""

def replacement_sample(seed: int, epoch: int, position: int, attempt: int, count: int) -> int:
    """
    Returns which of `count` samples replaces the one at a position, at this attempt.
    """

class NoBatch(enum.Enum):
    """What Loader.next() returns if it has no batch."""

    end = 0

    timeout = 1

    stopped = 2

class Loader:
    """One run of batches. Use stoker.Loader."""

    def __init__(self, options: LoaderOptions) -> None: ...

    def next(self, timeout_s: float, into: list[Batch | Exception]) -> NoBatch | None:
        """
        Appends the next batch, or the error in its place, to `into`; otherwise returns why there is none. BufferError if the caller's batches occupy the memory: try again.
        """

    def close(self) -> None:
        """Ends the run. Batches stay valid."""

    def stats(self) -> dict[str, Any]: ...

def new_cuda_stream(device: int) -> int:
    """
    Creates a stream on a device that the process uses; returns its handle. It is never destroyed.
    """

def cuda_failure() -> str | None:
    """Returns why the CUDA driver cannot be used; None if it can."""

class CudaCopy:
    """The copies of one batch to a GPU."""

    def delay(self, stream: int) -> None:
        """What the stream gets from now on waits for them."""

class CudaFeed:
    """Copies batches to a GPU, ahead of their use and on the given stream."""

    def __init__(self, device: int, stream: int) -> None: ...

    def lend_memory(self, options: LoaderOptions) -> None:
        """Makes a run put its arrays into memory that the GPU copies directly."""

    def send(self, batch: Batch, pieces: list[tuple[int, int, int]], into: list[CudaCopy]) -> None:
        """
        Begins copies, each to a device's address, from an address, of a number of bytes. The batch's arrays are gone then. Appends the copies to `into`.
        """

    def memory_failure(self) -> str | None:
        """
        Returns why memory could not be pinned, if it could not: copies are slower then.
        """

    def stats(self) -> dict[str, Any]: ...

    def close(self) -> None:
        """Waits for the copies."""

class LoaderPart:
    """A dataset that a loader reads."""

    def __init__(self, dataset: Dataset, windows: TokenWindows | None, packs: TokenBins | None, pad: int, selection: tuple[int, int, int] | NDArray[numpy.uint64] | None, weight: float | None) -> None: ...

    @property
    def fingerprint(self) -> str:
        """Identifies the samples and their order."""

    @property
    def old_fingerprint(self) -> str:
        """The fingerprint as version 0.1 computed it."""

class LoaderRequest:
    """The settings that a loader is asked for."""

    def __init__(self, parts: Sequence[LoaderPart], order: OrderOptions) -> None: ...

    def set_items(self, items: NDArray[numpy.uint64], per_epoch: bool) -> None: ...

    @property
    def batch_size(self) -> int: ...

    @batch_size.setter
    def batch_size(self, arg: int, /) -> None: ...

    @property
    def global_batch_size(self) -> int: ...

    @global_batch_size.setter
    def global_batch_size(self, arg: int, /) -> None: ...

    @property
    def micro_batch_size(self) -> int: ...

    @micro_batch_size.setter
    def micro_batch_size(self, arg: int, /) -> None: ...

    @property
    def rank(self) -> int: ...

    @rank.setter
    def rank(self, arg: int, /) -> None: ...

    @property
    def world_size(self) -> int: ...

    @world_size.setter
    def world_size(self, arg: int, /) -> None: ...

    @property
    def local_world_size(self) -> int: ...

    @local_world_size.setter
    def local_world_size(self, arg: int, /) -> None: ...

    def set_tail(self, name: str | None) -> None: ...

    @property
    def memory_bytes(self) -> int | None: ...

    @memory_bytes.setter
    def memory_bytes(self, arg: int | None) -> None: ...

    @property
    def fields(self) -> list[FieldSpec]: ...

    @fields.setter
    def fields(self, arg: Sequence[FieldSpec], /) -> None: ...

    def set_on_error(self, name: str) -> None: ...

    @property
    def threads(self) -> int: ...

    @threads.setter
    def threads(self, arg: int, /) -> None: ...

    @property
    def depth(self) -> int: ...

    @depth.setter
    def depth(self, arg: int, /) -> None: ...

    def set_engine(self, name: str) -> None: ...

    def set_held_limits(self, warning_s: float, limit_s: float) -> None: ...

class LoaderSetup:
    """A loader that can run from any of its cursors."""

    @staticmethod
    def make(request: LoaderRequest) -> LoaderSetup:
        """Checks the settings and fills in the rest. May read a sample."""

    @property
    def cache_forecast(self) -> str:
        """
        What an epoch will read from the source, in words; empty without a cache.
        """

    def cursor(self, epoch: int, position: int) -> Cursor:
        """Returns a cursor of this run."""

    def wanted(self, saved: Cursor) -> Cursor:
        """
        Returns a cursor of this run in which settings that were not asked for, or that `saved` lacks, are open.
        """

    def resume(self, saved: Cursor, allow: Sequence[str]) -> None:
        """Takes the open settings from a cursor."""

    def set_items(self, items: NDArray[numpy.uint64]) -> None:
        """Sets another list, for another epoch."""

    def options_at(self, cursor: Cursor) -> LoaderOptions:
        """Returns the options of a run from there on."""

    @property
    def order(self) -> Order: ...

    @property
    def cut(self) -> BatchCut: ...

    @property
    def memory_needed(self) -> int: ...

    @property
    def memory_bytes(self) -> int: ...

    memory_default_bytes: int = ...
    """(arg: object, /) -> int"""

class PackReport:
    """The result of pack() and ingest()."""

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
        """Shards that an earlier run had finished."""

    @property
    def is_complete(self) -> bool:
        """Whether the manifest is written."""

    @property
    def remarks(self) -> list[str]:
        """Warnings: what the format does not store of some fields."""

    def __repr__(self) -> str: ...

class PackFiles:
    """Use stoker.pack."""

    @property
    def remarks(self) -> list[str]: ...

    def pack(self, directory: str, format: str, samples_per_shard: int, shard_size: str, shuffle_seed: int | None, threads: int, task: int, task_count: int) -> PackReport: ...

def check_apart(source: str, destination: str) -> None:
    """Raises ValueError if one of the two is inside the other."""

def open_pack_files(path: str, kind: str, dtype: str, sequence_length: int, destination: str, hidden: bool, classes: str) -> PackFiles:
    """Use stoker.pack."""

def merge_pack(directory: str) -> PackReport:
    """Combines the results of all tasks of one pack."""

def parse_bytes(text: str) -> int:
    """Parses a size such as "256MiB"."""

class IngestWriter:
    """Use stoker.ingest."""

    def write_shard(self, samples: list[tuple[str, list[tuple[str, str, str, tuple[int, ...], bytes]]]]) -> None: ...

    def abandon(self) -> None:
        """Removes everything that was written."""

    def finish(self) -> PackReport: ...

def written_formats() -> list[tuple[str, bool]]:
    """
    Returns the formats that can be written, and whether their samples are single arrays.
    """

def pack_kinds() -> list[str]:
    """Returns all kinds of data that can be packed."""

def make_ingest_writer(directory: str, format: str) -> IngestWriter: ...

class ImportOptions:
    """Use stoker.pack."""

    def __init__(self) -> None: ...

    @property
    def format(self) -> str: ...

    @format.setter
    def format(self, arg: str, /) -> None: ...

    @property
    def prefix(self) -> str: ...

    @prefix.setter
    def prefix(self, arg: str, /) -> None: ...

    def set_shards(self, samples: int, size_bytes: int) -> None: ...

    def set_shuffle_seed(self, seed: int) -> None: ...

    def set_task(self, task: int, count: int) -> None: ...

    def set_rows(self, count: int, mean_bytes: int, fingerprint: str) -> None: ...

    def set_sizes(self, sizes: NDArray[Any]) -> None: ...

class ImportShard:
    """Use stoker.pack."""

    def append(self, samples: list[tuple[str, list[tuple[str, str, str, tuple[int, ...], bytes]]]]) -> None: ...

    def finish(self) -> None: ...

    def abandon(self) -> None: ...

class ImportSession:
    """Use stoker.pack."""

    @property
    def finished(self) -> PackReport | None: ...

    @property
    def shard_count(self) -> int: ...

    @property
    def sample_count(self) -> int: ...

    def find_pending(self) -> list[int]: ...

    def range(self, shard: int) -> tuple[int, int]:
        """Returns the first and the end position of a shard in the dataset."""

    def order(self, shard: int) -> NDArray[numpy.uint64]:
        """Returns the rows of a shard, in order."""

    def begin_shard(self, shard: int) -> ImportShard: ...

    def close(self) -> PackReport: ...

    def withdraw(self) -> None: ...

def open_import(directory: str, options: ImportOptions, first: list[tuple[str, list[tuple[str, str, str, tuple[int, ...], bytes]]]]) -> ImportSession: ...

def import_kind_of(path: str) -> str:
    """Returns "parquet", "arrow", "hdf5", "lmdb", or ""."""

def format_bytes(count: int) -> str:
    """Returns a text such as "1.5 GiB"."""

def format_rate(bytes_per_second: int) -> str:
    """Returns a text such as "4.97 GB/s"."""

def format_count(count: int) -> str:
    """Returns a text such as "174k"."""

def read_many(paths: list[bytes], table: NDArray[numpy.uint64], places: list[NDArray[numpy.uint8]] | None, policy: str, engine: str) -> list[NDArray[numpy.uint8]] | None:
    """Rows of `table`: file, offset, size. Use stoker.io.read_many."""

def write_durable(path: bytes, data: Any, must_be_new: bool) -> None:
    """Use stoker.io.write_durable."""

def advise_huge_pages(address: int, size: int) -> None:
    """
    Asks for huge pages in new memory that is about to be filled, before it is touched.
    """

def residency(path: bytes, offset: int, size: int, evict_first: bool) -> tuple[int, int]:
    """
    Returns resident bytes and size of a range; size 0 means to the end. Use stoker.io.residency.
    """

def filesystem_of(path: bytes) -> str:
    """
    Returns the name of its filesystem, such as 'ext4'; empty if it cannot be asked.
    """

def copy_bytes(source: NDArray[numpy.uint8], to: NDArray[numpy.uint8]) -> None:
    """Copies bytes; uses several threads for large arrays."""

class CheckpointerSettings:
    """The settings of a checkpointer."""

    def __init__(self) -> None: ...

    @property
    def late(self) -> str: ...

    @late.setter
    def late(self, arg: str, /) -> None: ...

    @property
    def in_flight(self) -> int: ...

    @in_flight.setter
    def in_flight(self, arg: int, /) -> None: ...

    @property
    def memory_bytes(self) -> int | None: ...

    @memory_bytes.setter
    def memory_bytes(self, arg: int | None) -> None: ...

    @property
    def rate_limit(self) -> int:
        """Bytes per second; 0 means no limit."""

    @rate_limit.setter
    def rate_limit(self, arg: int, /) -> None: ...

    @property
    def deadline(self) -> float:
        """Seconds, like all times here."""

    @deadline.setter
    def deadline(self, arg: float, /) -> None: ...

    @property
    def dedup(self) -> bool: ...

    @dedup.setter
    def dedup(self, arg: bool, /) -> None: ...

    @property
    def parent(self) -> tuple[int, int, str] | None:
        """Step, generation and line."""

    @parent.setter
    def parent(self, arg: tuple[int, int, str] | None) -> None: ...

    @property
    def lock_timeout(self) -> float | None: ...

    @lock_timeout.setter
    def lock_timeout(self, arg: float | None) -> None: ...

    @property
    def lock_ttl(self) -> float: ...

    @lock_ttl.setter
    def lock_ttl(self, arg: float, /) -> None: ...

    @property
    def keep_last(self) -> int | None: ...

    @keep_last.setter
    def keep_last(self, arg: int | None) -> None: ...

    @property
    def keep_every(self) -> int | None: ...

    @keep_every.setter
    def keep_every(self, arg: int | None) -> None: ...

    @property
    def keep_best(self) -> tuple[str, str, int] | None: ...

    @keep_best.setter
    def keep_best(self, arg: tuple[str, str, int] | None) -> None: ...

    @property
    def has_private_disks(self) -> bool:
        """Whether every node has a directory of its own."""

    @has_private_disks.setter
    def has_private_disks(self, arg: bool, /) -> None: ...

    @property
    def damaged(self) -> list[int]:
        """Generations that retention never removes."""

    @damaged.setter
    def damaged(self, arg: Sequence[int], /) -> None: ...

    @property
    def seen(self) -> dict[str, int]:
        """The greatest generation of each line at the time of the restore."""

    @seen.setter
    def seen(self, arg: Mapping[str, int], /) -> None: ...

    @property
    def job(self) -> str:
        """For messages of processes that wait for the lock."""

    @job.setter
    def job(self, arg: str, /) -> None: ...

    @property
    def session(self) -> Session:
        """For several ranks: the result of meet_ranks()."""

    @session.setter
    def session(self, arg: Session | None) -> None: ...

    @property
    def notices(self) -> WaitNotices: ...

    @notices.setter
    def notices(self, arg: WaitNotices | None) -> None: ...

    @property
    def gather(self) -> bool:
        """
        For benchmarks: whether small tensors on a device are gathered there first.
        """

    @gather.setter
    def gather(self, arg: bool, /) -> None: ...

    @property
    def kill_at(self) -> str:
        """For tests: the crash point at which the process is killed."""

    @kill_at.setter
    def kill_at(self, arg: str, /) -> None: ...

    @property
    def kill_count(self) -> int:
        """For tests: how often it must be reached."""

    @kill_count.setter
    def kill_count(self, arg: int, /) -> None: ...

class PendingSave:
    """A save in progress or finished."""

    @property
    def step(self) -> int: ...

    @property
    def is_staged(self) -> bool: ...

    @property
    def is_released(self) -> bool:
        """
        Whether nothing reads the tensors or the memory of a snapshot any more.
        """

    @property
    def is_done(self) -> bool: ...

    @property
    def outcome(self) -> str | None: ...

    @property
    def generation(self) -> int: ...

    @property
    def line(self) -> str: ...

    def wait(self, timeout: float) -> bool:
        """Waits at most this many seconds; returns whether the save is done."""

    def check(self) -> None:
        """Raises the error of the save, if it failed."""

    def set_reported(self) -> None:
        """Marks the error as reported: the checkpointer does not raise it again."""

def host_memory(tensor: Any, strided: Any, types: dict[Any, str], has_cuda: bool = False) -> tuple[Any, ...] | None:
    """
    Returns the items of a Memory for a torch tensor that is without gaps in host memory, or with has_cuda on a CUDA device; None for any other. Types: names in safetensors by dtype.
    """

def find_cuda_problem() -> str | None:
    """
    Returns why tensors on CUDA devices cannot be copied directly; None if they can. Initializes the driver.
    """

class Checkpointer:
    """Use stoker.Checkpointer."""

    def __init__(self, directory: bytes, settings: CheckpointerSettings) -> None: ...

    def save(self, step: int, tensors: tuple[dict[str, Any], dict[str, Any], set[str]], texts: tuple[str, str, str], reference: dict[str, float], begun: list[PendingSave], refusal: str | None = None, deadline: float | None = None, devices: tuple[list[tuple[int, int]], Any] = ([], None), lent: Any = None) -> None:
        """
        Tensors: the memory of each by name, the places of slices, and the names of those that belong to this rank alone. Texts: state, extra, cursor. The tensors' memory may change after the return. Appends the save to `begun`, even if a signal handler raises. With a refusal the save fails on every rank. The deadline is that of the settings if None. Devices: streams, as pairs of a device and a handle, and a function that gets a device and a size, and returns address and size of memory for a snapshot, used until `is_released` of the save; or None. Sets `lent.native` to the save as well.
        """

    @property
    def pin_problem(self) -> str:
        """
        Why the driver could not pin the staging memory; empty if it could, or was not asked.
        """

    @property
    def gather_problem(self) -> str:
        """
        Why small tensors were not gathered on their device in an earlier save; empty if they were, or there were none.
        """

    @property
    def differing(self) -> list[str]:
        """
        Names of tensors that differ between the ranks, as the last save that has compared them has found; on the first rank that has them.
        """

    def wait(self, timeout: float | None) -> None: ...

    def close(self, timeout: float | None) -> None: ...

    def progress(self) -> tuple[int, int, int, int, int]:
        """
        Returns, for the save being written, step, total bytes, copied bytes and written bytes; and the saves in flight.
        """

class WaitNotices:
    """Messages about long waits in the core."""

    def __init__(self, after: float) -> None: ...

    def take(self) -> list[str]:
        """Returns the messages of native threads since the last call."""

class MeetingAttempts:
    """Failed attempts of this rank to meet the others."""

    def __init__(self) -> None: ...

class Session:
    """A session of ranks, and its messages."""

    @property
    def token(self) -> str: ...

    @property
    def conflict(self) -> str:
        """
        Names the two jobs, if a rank has left the session because of them; otherwise empty.
        """

    def gather(self, key: str, text: str, timeout: float | None) -> list[str]:
        """Returns the texts of all ranks on rank 0, and an empty list on others."""

    def broadcast(self, key: str, text: str, timeout: float | None) -> str:
        """Returns the text of rank 0 on every rank."""

def meet_ranks(directory: bytes, word: str, launcher: tuple[str, bool], ranks: tuple[int, int], timeout: float | None, notices: WaitNotices, attempts: MeetingAttempts) -> Session:
    """
    Waits for all ranks of the job that `word` identifies. `ranks`: rank and world size.
    """

def enter_session(directory: bytes, token: str, ranks: tuple[int, int], notices: WaitNotices) -> Session:
    """Enters a session whose token the ranks have agreed on by other means."""

class MessageCarrier:
    """Requests about messages of ranks, for one thread of Python."""

    def __init__(self, name: str) -> None: ...

    def next(self) -> tuple[str, list[str], bytes] | None:
        """
        Waits for a request: put, claim, retire, find, check or remove; names; and a text. None at the end.
        """

    def answer(self, texts: Sequence[bytes]) -> None:
        """Answers the last one: texts that were found, or names as bytes."""

    def fail(self, reason: str) -> None:
        """Fails all requests, and later ones."""

    def close(self) -> None:
        """Accepts no more requests."""

def meet_by_carrier(carrier: MessageCarrier, key: tuple[str, str, Sequence[str]], directory: bytes, ranks: tuple[int, int], timeout: float | None, notices: WaitNotices, entered: MeetingAttempts) -> Session:
    """
    Begins a session on rank 0, and enters it on the others. `key`: a key, the purpose, and other purposes; `entered`: sessions of this rank.
    """

def find_launcher(rank_variable: str) -> str:
    """Returns the process that started this one as a rank; empty if unknown."""

class OpenCheckpoint:
    """One checkpoint, open for reading."""

    def __init__(self, directory: bytes, through_cache: bool = False) -> None: ...

    @property
    def directory(self) -> str: ...

    @property
    def step(self) -> int: ...

    @property
    def generation(self) -> int: ...

    @property
    def line(self) -> str: ...

    @property
    def world_size(self) -> int: ...

    @property
    def time_s(self) -> float: ...

    @property
    def reference(self) -> dict[str, float]: ...

    @property
    def extra(self) -> str: ...

    @property
    def cursor(self) -> str: ...

    @property
    def state(self) -> list[str]:
        """The tree of each rank, as JSON."""

    def tensors(self) -> list[tuple[str, str, tuple[int, ...]]]:
        """Returns name, type and shape of each tensor."""

    def choose_names(self, only: list[str], rank: int | None = None) -> list[tuple[str, str]]:
        """
        Returns the tensors whose names in the trees, or in those of a rank, begin with one of `only`: that name, and the stored one.
        """

    def digests(self, names: list[str]) -> dict[str, str]:
        """Returns the XXH3-128 of the bytes of each tensor."""

    def read_all(self, targets: list[tuple[Any, ...]], streams: list[tuple[int, int]] = []) -> None:
        """
        Reads tensors into memory. Each target: name, box or None, address, strides or None, (address, size) of all memory, and the number of its CUDA device if it has one. Streams: device and handle of those whose work comes before.
        """

def open_safetensors(paths: list[bytes], through_cache: bool = False) -> OpenCheckpoint:
    """
    Opens safetensors files of any program together, as a checkpoint without checksums.
    """

def list_checkpoints(directory: bytes, for_newest: bool = False) -> list[tuple[str, int, bool, int, str | None, str]]:
    """
    Lists checkpoints, newest first: name, step, superseded, generation, damage, line. `for_newest` reads the newest one's manifest again instead of trusting the catalog file.
    """

def is_dataset(directory: bytes) -> bool:
    """Whether the directory's manifest.json is that of a dataset."""

def checkpoint_metrics(directory: bytes) -> list[str]:
    """Returns the names of the values that checkpoints have, for keep_best."""

def annotate_checkpoint(directory: bytes, step: int, generation: int, line: str, values: Mapping[str, float], kill_at: tuple[str, int]) -> None: ...

def pin_checkpoint(directory: bytes, step: int, generation: int, line: str, is_pinned: bool, kill_at: tuple[str, int]) -> None: ...

def restore_checkpoint(directory: bytes, name: str, finite: bool, session: Session | None, trial: tuple[Any, Any], timeout: float | None, has_private_disks: bool = False) -> tuple[str, list[tuple[str, str]], list[int], tuple[bool, str, str] | None, list[str]]:
    """
    Every rank checks, then reads, checkpoints until one is valid on all of them.
    """

def refuse_restore(session: Session, report: tuple[str, str, str, bool], timeout: float | None) -> None:
    """Ends a restore on every rank, because this rank failed before it."""

def list_safetensors(path: bytes) -> list[tuple[str, str, tuple[int, ...], int]]:
    """
    Returns name, type, shape and offset of each tensor in a safetensors file.
    """
