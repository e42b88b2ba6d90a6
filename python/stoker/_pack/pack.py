"""stoker.pack: packs files into shards."""

from __future__ import annotations

import operator
import os
import warnings
from pathlib import Path
from typing import Any, Literal, TypeAlias

from stoker import _native
from stoker._common.numbers import whole_number
from stoker._common.paths import local_path_text, path_text
from stoker._common.unknown_arguments import refuse_arguments
from stoker._pack import importers as _importers
from stoker._pack import rows as _pack_rows
from stoker._pack.ingest import Format, default_format, parse_size

Kind: TypeAlias = Literal[
    "classes", "tree", "jsonl", "tokens", "raw", "counted", "shard001",
    "parquet", "petastorm", "arrow", "hf", "hdf5", "lmdb", "text",
]  # fmt: skip


def _check_numbers(
    samples_per_shard: int | None,
    shuffle_seed: int | None,
    threads: int,
    task: tuple[int, int] | None,
    sequence_length: int | None,
) -> None:
    """Raises clear errors, where the native function would list its signatures."""
    limits = (
        ("samples_per_shard", samples_per_shard, 1, 2**63),
        ("shuffle_seed", shuffle_seed, 0, 2**64),
        ("threads", threads, 0, 1025),
        ("sequence_length", sequence_length, 1, 2**63),
    )
    for name, value, least, end in limits:
        if value is None:
            continue
        try:
            number = operator.index(value)
        except TypeError:
            raise TypeError(f"{name}={value!r}: a whole number") from None
        if not least <= number < end:
            raise ValueError(f"{name}={value}: from {least} to {end - 1}")
    if task is None:
        return
    try:
        part, parts = (operator.index(count) for count in task)
    except (TypeError, ValueError):
        raise TypeError(f"task={task!r}: (i, n), two whole numbers") from None
    if not 0 <= part < parts:
        raise ValueError(f"task={task}: (i, n) counts from 0 to n - 1")


def pack(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    *,
    format: Format | None = None,  # noqa: A002 (as on the command line)
    samples_per_shard: int | None = None,
    shard_size: int | str = "256MiB",
    shuffle_seed: int | None = None,
    threads: int = 0,
    task: tuple[int, int] | None = None,
    kind: Kind | None = None,
    dtype: str | None = None,
    sequence_length: int | None = None,
    hidden: bool = False,
    classes: str | os.PathLike[str] | None = None,
    **source_options: Any,
) -> _native.PackReport:
    """Packs files into shards, an index and a manifest, as ``stoker pack`` does.

    A second call with the same arguments continues where the first one stopped. A ``UserWarning``
    reports files and links that are left out, empty documents, trees that look like several
    datasets, and float64 numbers that TFRecord rounds.

    Args:
        src: A tree with a directory per class, any tree (files grouped by stem), a JSONL file,
            ``.npy`` and ``.bin`` arrays; Parquet, Arrow, HDF5 or LMDB (with the extras of those
            names); text and JSONL, with a tokenizer.
        dst: A directory that is new, empty, or of the same job; not inside ``src``.
        format: "tar" (default), "mds", "tfrecord", "tokens" (default with a tokenizer), "counted"
            or "shard001".
        samples_per_shard: Maximum number of samples in a shard.
        shard_size: Approximate size of a shard: 268435456, "256MiB".
        shuffle_seed: Seed of a shuffle; None keeps the order of the source.
        threads: Shards to write at a time; 0: one per core.
        task: ``(i, n)``: packs the i-th of n parts, counted from 0. Combine them with
            :func:`merge_pack` when all are done.
        kind: The kind of ``src``; detected if not given.
        dtype: Element type of raw token arrays.
        sequence_length: Length of the sequences that token arrays are cut into.
        hidden: Also pack the hidden files of a tree; the dot becomes "_" in their keys.
        classes: A ``classes.json`` of an earlier pack, with the numbers of the classes.
        **source_options: For Parquet and Arrow: ``columns``, ``where`` (``"label < 10 and split ==
            'train'"``), ``key`` (the column with the keys), ``json_columns`` (columns to store as
            JSON) and ``rename`` (``{"URL": "url"}``); for Petastorm also ``schema``. For HDF5:
            ``datasets``, ``key`` and ``rename``. For LMDB: ``field`` and ``database``. For text:
            ``tokenizer`` (a tokenizer.json), ``eod`` (the token after each document), ``lines`` (a
            document per line of text) and ``text_field`` (for JSONL).
    """
    source, directory = path_text(src), local_path_text(dst)
    unknown = [name for name in source_options if name not in _importers.OPTIONS]
    refuse_arguments(unknown, pack, more=_importers.OPTIONS)
    _check_numbers(samples_per_shard, shuffle_seed, threads, task, sequence_length)
    shard_bytes = whole_number("shard_size", parse_size(shard_size), 1)
    options = {name: value for name, value in source_options.items() if value is not None}
    for name in ("tokenizer", "schema"):
        if isinstance(options.get(name), (str, os.PathLike)):
            options[name] = path_text(options[name])
    importer = _importers.import_kind(source, kind, options)
    if importer is not None:
        if dtype is not None or sequence_length is not None:
            raise ValueError("dtype and sequence_length are for arrays of tokens")
        if hidden or classes is not None:
            raise ValueError("hidden and classes are for trees of files")
        plan = _pack_rows.RowPack(
            format=format or default_format(is_array=importer == "text"),
            samples_per_shard=samples_per_shard or 0,
            shard_bytes=shard_bytes,
            shuffle_seed=shuffle_seed,
            threads=threads,
            task=task or (0, 1),
            note=lambda text: warnings.warn(text, stacklevel=4),
        )
        if importer == "text" and kind == "jsonl":
            options["is_jsonl"] = True
        return _pack_rows.pack_rows(importer, source, directory, options, plan)
    if options and Path(source).exists():  # else: the error that says so, from below
        raise ValueError(f"{next(iter(options))}: these files have no such option")
    _native.check_apart(source, directory)
    number, count = task or (0, 1)
    files = _native.open_pack_files(
        source,
        kind or "",
        dtype or "",
        sequence_length or 0,
        directory,
        hidden,
        "" if classes is None else os.fspath(classes),
    )
    for remark in files.remarks:
        warnings.warn(remark, stacklevel=2)
    report = files.pack(
        directory,
        format or default_format(is_array=False),
        samples_per_shard or 0,
        str(shard_bytes),
        shuffle_seed,
        threads,
        number,
        count,
    )
    for remark in report.remarks:
        warnings.warn(remark, stacklevel=2)
    return report


def merge_pack(dst: str | os.PathLike[str]) -> _native.PackReport:
    """Combines the tasks of one pack() into one index and one manifest."""
    report = _native.merge_pack(local_path_text(dst))
    for remark in report.remarks:
        warnings.warn(remark, stacklevel=2)
    return report
