"""``stoker checkpoint import`` and ``export`` of torch's files; run by the native command.

Exit status: 0 done, 1 failed, 2 misused, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stoker import _native
from stoker._checkpoint.checkpointer import SETTINGS, Checkpointer
from stoker._checkpoint.foreign.dcp_items import PATHS, saved_by_dcp, with_lists
from stoker._checkpoint.foreign.dcp_metadata import RefusedPickleError
from stoker._checkpoint.foreign.torch_files import import_torch, load_dcp, load_pt
from stoker._checkpoint.state.names import why_no_name
from stoker._checkpoint.state.nodes import TensorNode, decode_tree, manifest_path
from stoker._checkpoint.state.rank_states import Differs, identity_in, states_of, tree_of_all
from stoker._checkpoint.state.trainable import Trainable
from stoker._checkpoint.state.values import parts_of, with_parts
from stoker._checkpoint.tensors.memory import UnsupportedValueError, memory_of, new_tensor
from stoker._commands.torch_exports import refuse_taken, sums_of, write_dcp, write_pt
from stoker._common.command_line import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_MISUSED,
    counted,
    one_line,
    stoppable,
)

_MEMORY_BYTES = 256 << 20


def _trees_of(state: Any, name: str | None) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the contents of a file as trees by name, and the keys that were renamed.

    A dict of parts (the model's, the optimizer's) is split. A dict without parts, such as a
    module's own state, is one tree, and so is everything if ``name`` is given.
    """
    is_split = (
        name is None
        and isinstance(state, dict)
        and any(isinstance(part, dict) for part in state.values())
        and all(type(key) is str and key and not key.startswith("!") for key in state)
    )
    if not is_split:
        return {name or "state": state}, {}
    trees, renamed = {}, {}
    for key, part in state.items():
        tree = key
        while why_no_name(tree, SETTINGS) is not None or (tree != key and tree in state):
            tree += "_"
        trees[tree] = part
        if tree != key:
            renamed[tree] = key
    return trees, renamed


def import_file(arguments: argparse.Namespace) -> str:
    """Commits the contents of a torch file as a checkpoint; returns what to print."""
    source = Path(arguments.source)
    state = load_dcp(source) if source.is_dir() else load_pt(source)
    trees, renamed = _trees_of(state, arguments.tree)
    saver = Checkpointer(
        arguments.directory, lock="fail", memory_bytes=_MEMORY_BYTES, rank=0, world_size=1
    )
    saver._writer.is_told = True  # an import continues nothing
    with saver:
        extra = {"imported_from": source.resolve().name}
        pending = saver.save(arguments.step, extra=extra, **trees)
    pending.wait()  # returns at once: the checkpointer is closed
    checkpoint = _native.OpenCheckpoint(
        os.fsencode(f"{arguments.directory}/step-{arguments.step:012}")
    )
    tensors = len(checkpoint.tensors())
    report = {
        "name": Path(checkpoint.directory).name,
        "step": arguments.step,
        "generation": pending.generation,
        "tensors": tensors,
        "size_bytes": pending.size_bytes,
        "trees": list(trees),
    }
    if arguments.json:
        return json.dumps(report)
    named = [f"{tree} (was {renamed[tree]})" if tree in renamed else tree for tree in trees]
    size = _native.format_bytes(pending.size_bytes)
    where = f"{arguments.directory}/{report['name']}"
    return (
        f"{where}: {counted(tensors, 'tensor')}, {size}, generation {pending.generation}\n"
        f"trees: {', '.join(named)}\n`latest` points to it now"
    )


class _Reader:
    """Reads tensors of a checkpoint, each once: tied tensors are tied again."""

    def __init__(self, checkpoint: _native.OpenCheckpoint) -> None:
        self._checkpoint = checkpoint
        self._stored = {name: (kind, shape) for name, kind, shape in checkpoint.tensors()}
        self._made: dict[tuple[str, str | None], Any] = {}

    def choose(self, only: list[str], rank: int | None) -> list[tuple[str, str]]:
        """Returns the selected names, in the trees and as stored."""
        return self._checkpoint.choose_names(only, rank)

    @property
    def tensors(self) -> int:
        """Number of tensors that were read."""
        return len(self._made)

    def tensor(self, name: str, element: str | None, path: str) -> Any:
        """Returns the whole tensor, even if it was saved in slices."""
        if (name, element) not in self._made:
            try:
                made = new_tensor(*self._stored[name], element)
            except UnsupportedValueError as error:
                raise ValueError(f"{path}: {error}") from None
            memory = memory_of(made)
            assert memory is not None
            self._checkpoint.read_all([(name, None, memory.address, None, memory.bounds)])
            self._made[name, element] = made
        return self._made[name, element]

    def tree(self, node: Any, path: str) -> Any:
        """Returns the tree with its tensors."""
        if isinstance(node, Differs):
            raise ValueError(
                f"{path}: each rank has saved its own, and a file has room for one: choose it with "
                "--rank 0, or tensors with --only"
            )
        if isinstance(node, TensorNode):
            made = self.tensor(node.name, node.element, path)
            return made.item() if node.is_scalar else made
        if isinstance(node, Trainable):
            return self.tree(node["state"], path)
        parts = parts_of(node)
        if parts is None:
            return node
        made = [self.tree(item, f"{path}[{key!r}]") for key, item in parts]
        if isinstance(node, (list, tuple)):
            return with_parts(node, made)
        return {key: item for (key, _), item in zip(parts, made, strict=True)}


def _flat(reader: _Reader, only: list[str], strip: list[str], rank: int | None) -> dict[str, Any]:
    """Returns tensors by name, selected and shortened as in the native exports."""
    tensors: dict[str, Any] = {}
    for name, stored in reader.choose(only, rank):
        prefixes = sorted((p for p in strip if name.startswith(p)), key=len, reverse=True)
        short = name.removeprefix(prefixes[0]) if prefixes else name
        if not short:
            raise ValueError(f"{name}: nothing is left of its name")
        if short in tensors:
            raise ValueError(f"{name}: two tensors would have the name {short}")
        tensors[short] = reader.tensor(stored, None, name)
    if not tensors:
        raise ValueError("no tensor's name begins with what --only says")
    return tensors


def export_file(arguments: argparse.Namespace) -> str:
    """Writes a checkpoint for torch; returns what to print."""
    out = Path(arguments.out)
    import_torch(f"{out}: written by torch")
    write = write_dcp if arguments.dcp else write_pt
    refuse_taken(out, sums_of(out, arguments.dcp))
    checkpoint = _native.OpenCheckpoint(os.fsencode(arguments.checkpoint))
    reader = _Reader(checkpoint)
    if arguments.only or arguments.strip:
        tree = _flat(reader, arguments.only, arguments.strip, arguments.rank)
    else:
        manifest = manifest_path(checkpoint)
        states = states_of(checkpoint, manifest)
        node = tree_of_all(states, identity_in(checkpoint), arguments.rank)
        extra = decode_tree(checkpoint.extra, "extra", manifest, arrays=False)
        tree = reader.tree(with_lists(node) if saved_by_dcp(extra) == PATHS else node, "state")
    size, files = write(tree, out)
    report = {
        "files": [str(file) for file in files],
        "sums": str(sums_of(out, arguments.dcp)),
        "tensors": reader.tensors,
        "size_bytes": size,
    }
    if arguments.json:
        return json.dumps(report)
    tensors, count = counted(reader.tensors, "tensor"), counted(len(files), "file")
    return f"{tensors} in {count}, {_native.format_bytes(size)}: {out}\nsums: {report['sums']}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="stoker checkpoint", allow_abbrev=False, add_help=False)
    commands = parser.add_subparsers(dest="command", required=True)
    importing = commands.add_parser("import", allow_abbrev=False, add_help=False)
    importing.add_argument("directory")
    importing.add_argument("source")
    importing.add_argument("--step", type=int, required=True)
    importing.add_argument("--as", dest="tree")
    exporting = commands.add_parser("export", allow_abbrev=False, add_help=False)
    exporting.add_argument("checkpoint")
    exporting.add_argument("out")
    exporting.add_argument("--only", action="append", default=[])
    exporting.add_argument("--strip", action="append", default=[])
    exporting.add_argument("--rank", type=int)
    exporting.add_argument("--dcp", action="store_true")
    for command in (importing, exporting):
        command.add_argument("--json", action="store_true")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Imports or exports; every failure is one line on stderr."""
    arguments = _parser().parse_args(argv)
    try:
        run = import_file if arguments.command == "import" else export_file
        with stoppable():
            text = run(arguments)
        print(text, flush=True)
        return 0
    except KeyboardInterrupt:
        message, status = "interrupted", EXIT_INTERRUPTED
    except (OSError, ImportError, _native.CorruptError, RefusedPickleError, TypeError) as error:
        message, status = one_line(error), EXIT_FAILED
    except ValueError as error:
        message, status = one_line(error), EXIT_MISUSED
    print(f"stoker checkpoint {arguments.command}: {message}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
