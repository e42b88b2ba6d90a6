"""Files that torch writes, read as tensors and plain values alone; and written so."""

from __future__ import annotations

import importlib
import pickle
import warnings
from pathlib import Path
from typing import Any

from stoker._corrupt import corrupt_error
from stoker._native import CorruptError

_METADATA = ".metadata"  # of a distributed checkpoint: a pickle of the classes below
_MESSAGE_MAX = 300
_DCP = "torch.distributed.checkpoint"
_DCP_CLASSES = {
    f"{_DCP}.metadata": {
        *("Metadata", "MetadataIndex", "StorageMeta", "TensorProperties"),
        *("TensorStorageMetadata", "BytesStorageMetadata", "ChunkStorageMetadata"),
        "_MEM_FORMAT_ENCODING",
    },
    f"{_DCP}.filesystem": {"_StorageInfo"},
    "collections": {"OrderedDict"},
    "pathlib": {"PosixPath", "PurePosixPath"},
    "pathlib._local": {"PosixPath", "PurePosixPath"},
    "torch": {"Size"},
    "torch.serialization": {"_get_layout"},
}


class RefusedPickleError(ValueError):
    """A file holds more than tensors and plain values: what only code of its own could restore."""


def import_torch(why: str) -> Any:
    """The module; ImportError says what it is wanted for."""
    try:
        return importlib.import_module("torch")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(f"{why}, and there is no torch here: pip install torch") from None


def _one_line(error: BaseException) -> str:
    """What is wrong; torch's messages go on with advice to run the file all the same."""
    text = " ".join(str(error).split()) or type(error).__name__
    text = text.rpartition("WeightsUnpickler error:")[2]
    for advice in ("Please ", "Check the documentation", "This file can still be loaded"):
        text = text.partition(advice)[0]
    return text.strip(" .")[:_MESSAGE_MAX]


def _load_plain(torch: Any, source: Any, name: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of pickle protocols: it loads, or it does not
            return torch.load(source, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise RefusedPickleError(
            f"{name}: refused, nothing in it was run: it holds more than tensors and plain values "
            f"({_one_line(error)})"
        ) from None
    except (RuntimeError, EOFError, KeyError, ValueError, AttributeError) as error:
        # Of junk the unpickler says but a number, or nothing.
        words = {KeyError: "what it holds is no pickle", EOFError: "it ends too soon"}
        reason = words.get(type(error)) or _one_line(error)
        raise corrupt_error(f"{name}: no file of torch.save(): {reason}", name) from None


def load_pt(path: Path) -> Any:
    """What a file of ``torch.save`` holds, by ``weights_only=True``: no code in it runs.

    Raises:
        RefusedPickleError: It holds other things than tensors and plain values.
        CorruptError: It is no such file.
    """
    torch = import_torch(f"{path}: read by torch")
    with path.open("rb") as file:
        return _load_plain(torch, file, str(path))


class _MetadataUnpickler(pickle.Unpickler):
    """Knows the classes of distributed checkpoints and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in (("builtins", "getattr"), ("__builtin__", "getattr")):
            return _member  # how Python writes a member of an enumeration
        if name in _DCP_CLASSES.get(module, ()):
            return getattr(importlib.import_module(module), name)
        if module == "torch":
            torch = importlib.import_module("torch")
            if isinstance(dtype := getattr(torch, name, None), torch.dtype):
                return dtype
        raise RefusedPickleError(f"{module}.{name}")


def _member(kind: Any, name: str) -> Any:
    encodings = importlib.import_module(f"{_DCP}.metadata")._MEM_FORMAT_ENCODING
    if kind is not encodings:
        raise RefusedPickleError(f"getattr of {kind!r}")
    return encodings[name]


def _read_metadata(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            metadata = _MetadataUnpickler(file).load()
        names = {info.relative_path for info in metadata.storage_data.values()}
    except RefusedPickleError as error:
        raise RefusedPickleError(
            f"{path}: refused, nothing in it was run: a distributed checkpoint's metadata has no "
            f"{error}"
        ) from None
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError) as error:
        reason = _one_line(error)
        message = f"{path}: no metadata of a distributed checkpoint: {reason}"
        raise corrupt_error(message, str(path)) from None
    for name in names:
        if Path(name).name != name:
            raise RefusedPickleError(f"{path}: names a file outside of its directory: {name!r}")
    return metadata


def load_dcp(directory: Path) -> Any:
    """The state of a distributed checkpoint, whole and in memory.

    torch's own reader and planner do it, but for the two places where they would unpickle anything:
    the metadata, for which only their own classes are known here, and values that are no tensors,
    which are loaded by ``weights_only=True``.

    Raises:
        RefusedPickleError: It holds other things than tensors and plain values.
        CorruptError: It is no such directory, or damaged.
    """
    torch = import_torch(f"{directory}: read by torch")
    if not (directory / _METADATA).is_file():
        message = f"{directory}: no {_METADATA}, so no distributed checkpoint of torch"
        raise corrupt_error(message, str(directory))
    metadata = _read_metadata(directory / _METADATA)
    reader, planner = _dcp_reader(torch, directory, metadata)
    loader = importlib.import_module(f"{_DCP}.state_dict_loader")
    state: dict[str, Any] = {}
    try:
        loader._load_state_dict(state, storage_reader=reader, planner=planner, no_dist=True)
    except (CorruptError, RefusedPickleError, OSError):
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # torch's is none of Exception, and wraps the one that counts
        for inner in _causes(error):
            if isinstance(inner, (CorruptError, RefusedPickleError)):
                raise inner from None
        message = f"{directory}: cannot be read: {_one_line(error)}"
        raise corrupt_error(message, str(directory)) from None
    return state


def _causes(error: BaseException) -> list[BaseException]:
    failures = getattr(error, "failures", None)  # of CheckpointException: by rank
    inner = [failure[0] for failure in failures.values()] if failures else []
    return [*inner, *(cause for cause in (error.__cause__, error.__context__) if cause)]


def _dcp_reader(torch: Any, directory: Path, metadata: Any) -> tuple[Any, Any]:
    files = importlib.import_module(f"{_DCP}.filesystem")
    planners = importlib.import_module(f"{_DCP}.default_planner")
    meta = importlib.import_module(f"{_DCP}.metadata")

    class Reader(files.FileSystemReader):  # type: ignore[misc, name-defined]
        def read_metadata(self, *_args: Any, **_kwargs: Any) -> Any:
            metadata.storage_meta = metadata.storage_meta or meta.StorageMeta()
            metadata.storage_meta.load_id = self.load_id
            return metadata

    class Planner(planners._EmptyStateDictLoadPlanner):  # type: ignore[misc, name-defined]
        def load_bytes(self, read_item: Any, value: Any) -> None:
            name = read_item.dest_index.fqn
            loaded = _load_plain(torch, value, f"{directory}: {name}")
            self.state_dict[name] = loaded
            if self.flatten_state_dict:
                flatten = importlib.import_module(f"{_DCP}._nested_dict")
                flatten.set_element(self.original_state_dict, self.mappings[name], loaded)

    return Reader(directory), Planner()


def save_pt(tree: Any, path: Path) -> None:
    """Writes a file that ``torch.load`` takes with ``weights_only=True``; tried before it returns.

    Raises:
        ValueError: It would not.
    """
    torch = import_torch(f"{path}: written by torch")
    torch.save(tree, path)
    try:
        torch.load(path, map_location="meta", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ValueError(
            f"torch.load(weights_only=True) would not take this state: {_one_line(error)}"
        ) from None
