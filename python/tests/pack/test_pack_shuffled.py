"""Shuffled packs of what can only be read in order: the same permutation as of any other source."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from stoker import _native
from stoker._commands import pack as _pack_command
from stoker._pack import importers as _importers
from stoker._pack import rows as _pack_rows
from stoker._pack import staged_rows as _staged_rows
from stoker._pack.importers.parquet import ParquetRows

ROWS = 230
Files = Callable[[Path], dict[str, bytes]]
Pack = Callable[..., Any]


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many files of few rows each."""
    monkeypatch.setattr(_staged_rows, "_PIECE_BYTES", 2048)


def write_parquet(arrow: Any, path: Path, row_group_size: int = 17) -> Path:
    table = arrow.table(
        {
            "id": [f"row{i:05}" for i in range(ROWS)],
            "label": list(range(ROWS)),
            "image": [bytes([i]) * (i % 97) for i in range(ROWS)],
            "text": [None if i % 5 == 0 else f"t\u00e4xt {i}" for i in range(ROWS)],
        }
    )
    arrow.parquet.write_table(table, path, row_group_size=row_group_size)
    return path


def write_arrow(arrow: Any, path: Path) -> Path:
    table = arrow.parquet.read_table(write_parquet(arrow, path.with_suffix(".parquet")))
    with path.open("wb") as file, arrow.ipc.new_file(file, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=30):
            writer.write_batch(batch)
    return path


def write_hdf5(path: Path, *, chunks: tuple[int, ...] | None) -> Path:
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    with h5py.File(path, "w") as file:
        file.create_dataset("label", data=np.arange(ROWS), chunks=chunks)
        file.create_dataset("image", data=np.arange(ROWS * 6, dtype=np.uint16).reshape(ROWS, 6))
    return path


def native_order(folder: Path, seed: int) -> list[str]:
    """The keys of a shuffled pack of as many small files."""
    for i in range(ROWS):
        (folder / f"{i:05}.txt").write_bytes(b"x")
    stoker.pack(folder, folder.parent / "packed", shuffle_seed=seed)
    return stoker.Dataset(folder.parent / "packed").keys()


def test_the_permutation_is_that_of_any_other_source(
    tmp_path: Path, arrow: Any, small_pieces: None
) -> None:
    (tmp_path / "tree").mkdir()
    order = [int(key) for key in native_order(tmp_path / "tree", 7)]
    assert sorted(order) == list(range(ROWS)) != order
    source = write_parquet(arrow, tmp_path / "a.parquet")
    stoker.pack(source, tmp_path / "out", key="id", samples_per_shard=20, shuffle_seed=7)
    ds = stoker.Dataset(tmp_path / "out", verify="full")
    assert ds.keys() == [f"row{i:05}" for i in order]
    assert [int(s["label"]) for s in ds] == order
    assert all(
        s["image"].tobytes() == bytes([i]) * (i % 97) for s, i in zip(ds, order, strict=True)
    )
    assert [("text" in s) for s in ds] == [i % 5 != 0 for i in order]
    assert not list((tmp_path / "out" / ".stoker").glob("rows*"))


@pytest.mark.parametrize("written", ["tar", "mds", "tfrecord"])
@pytest.mark.parametrize("kind", ["parquet", "arrow", "hdf5"])
def test_threads_pieces_tasks_and_row_groups_change_nothing(
    tmp_path: Path, arrow: Any, visible_files: Files, monkeypatch: pytest.MonkeyPatch,
    kind: str, written: str,
) -> None:  # fmt: skip
    options: dict[str, Any] = {"format": written, "samples_per_shard": 20, "shuffle_seed": 3}
    if kind == "hdf5":
        source = write_hdf5(tmp_path / "a.h5", chunks=(7,))
    else:
        writer = write_parquet if kind == "parquet" else write_arrow
        source = writer(arrow, tmp_path / f"a.{kind}")
        options["columns"] = ["label", "image"]
    stoker.pack(source, tmp_path / "one", threads=1, **options)
    monkeypatch.setattr(_staged_rows, "_PIECE_BYTES", 500)
    stoker.pack(source, tmp_path / "two", threads=5, **options)
    for i in (2, 0, 1):
        stoker.pack(source, tmp_path / "n", task=(i, 3), **options)
    stoker.merge_pack(tmp_path / "n")
    whole = visible_files(tmp_path / "one")
    assert visible_files(tmp_path / "two") == whole
    assert visible_files(tmp_path / "n") == whole
    stoker.pack(source, tmp_path / "other", **{**options, "shuffle_seed": 4})
    assert visible_files(tmp_path / "other") != whole


def test_hdf5_in_chunks_equals_hdf5_without(tmp_path: Path, visible_files: Files) -> None:
    for name, chunks in (("plain", None), ("chunked", (7,))):
        source = write_hdf5(tmp_path / f"{name}.h5", chunks=chunks)
        stoker.pack(source, tmp_path / name, samples_per_shard=50, shuffle_seed=11)
    assert visible_files(tmp_path / "plain") == visible_files(tmp_path / "chunked")


def test_a_column_of_tokens_is_shuffled(tmp_path: Path, arrow: Any) -> None:
    rows = [np.arange(i, i + i % 7 + 1, dtype=np.uint8) for i in range(100)]
    table = arrow.table({"tokens": arrow.array(rows, arrow.list_(arrow.uint8()))})
    arrow.parquet.write_table(table, tmp_path / "a.parquet", row_group_size=9)
    stoker.pack(tmp_path / "a.parquet", tmp_path / "out", format="tokens", shuffle_seed=1)
    found = [s["tokens"].tolist() for s in stoker.Dataset(tmp_path / "out")]
    assert sorted(found) == sorted(row.tolist() for row in rows) != found


# Both passes count samples: the first 230 are staged, the others packed.
@pytest.mark.parametrize("samples", [5, 100, 229, 231, 300, 440])
def test_a_kill_and_a_restart_give_the_same_bytes(
    tmp_path: Path, arrow: Any, visible_files: Files, pack_until_killed: Pack, samples: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(_staged_rows, "_PIECE_BYTES", 1000)
    source = write_parquet(arrow, tmp_path / "a.parquet")
    options: dict[str, Any] = {"samples_per_shard": 20, "key": "id", "shuffle_seed": 3}
    stoker.pack(source, tmp_path / "one", **options)
    whole = visible_files(tmp_path / "one")
    pack_until_killed(samples, source, tmp_path / "two", **options)
    left = visible_files(tmp_path / "two")
    assert "manifest.json" not in left
    assert left.items() <= whole.items()
    stoker.pack(source, tmp_path / "two", **options)
    assert visible_files(tmp_path / "two") == whole
    assert not list((tmp_path / "two" / ".stoker").glob("rows*"))


def test_a_restart_keeps_what_is_staged(
    tmp_path: Path, arrow: Any, small_pieces: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_parquet(arrow, tmp_path / "a.parquet")
    options: dict[str, Any] = {"samples_per_shard": 20, "shuffle_seed": 3, "threads": 1}
    reads: list[range] = []

    class Watched(ParquetRows):
        def read(self, rows: Any) -> Any:
            reads.append(rows)
            return super().read(rows)

    monkeypatch.setitem(_importers._KINDS, "parquet", (Watched, ("key",)))
    fetch = _staged_rows.StagedRows._fetch

    def failing(self: Any, *columns: Any) -> Any:
        if len(list((tmp_path / "out").glob("*.tar"))) == 4:
            raise OSError("no more")
        return fetch(self, *columns)

    with monkeypatch.context() as patch:
        patch.setattr(_staged_rows.StagedRows, "_fetch", failing)
        with pytest.raises(OSError, match="no more"):
            stoker.pack(source, tmp_path / "out", **options)
    assert sum(len(rows) for rows in reads) == ROWS + 1  # the first row tells the fields
    folder = tmp_path / "out" / ".stoker" / "rows-0-of-1"
    files = sorted(folder.iterdir())
    assert len(files) > 3
    files[1].write_bytes(files[1].read_bytes()[:-30])
    reads.clear()
    report = stoker.pack(source, tmp_path / "out", **options)
    assert report.shards_found == 4
    assert len(reads) == 2  # the first row, and the piece that was cut
    assert not folder.exists()


def test_a_staged_row_that_changed_is_corrupt(
    tmp_path: Path, arrow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = _staged_rows.StagedRows.load

    def damaging(self: Any) -> None:
        path = next(self._folder.path.iterdir())
        data = bytearray(path.read_bytes())
        data[40] ^= 1
        path.write_bytes(data)
        load(self)

    monkeypatch.setattr(_staged_rows.StagedRows, "load", damaging)
    source = write_parquet(arrow, tmp_path / "a.parquet")
    with pytest.raises(_native.CorruptError, match=r"000000\.rows, offset 0: not the row"):
        stoker.pack(source, tmp_path / "out", shuffle_seed=1)


def test_memory_does_not_grow_with_the_source(
    tmp_path: Path, arrow: Any, small_pieces: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_staged_rows, "BATCH_BYTES", 1000)
    held = []
    fetch = _staged_rows.StagedRows._fetch

    def watched(self: Any, *columns: Any) -> Any:
        held.append(int(columns[2].sum()))
        return fetch(self, *columns)

    monkeypatch.setattr(_staged_rows.StagedRows, "_fetch", watched)
    stoker.pack(write_parquet(arrow, tmp_path / "a.parquet"), tmp_path / "out", shuffle_seed=1)
    assert max(held) <= 1000 + 400  # a row more than the limit
    assert len(held) > 10


def test_the_command_shuffles_and_says_which_pass_it_is(
    tmp_path: Path, arrow: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_parquet(arrow, tmp_path / "a.parquet")
    words = [str(source), str(tmp_path / "out"), "--shuffle-seed=3", "--key=id"]
    assert _pack_command.main(words) == 0
    assert "230 samples in 1 shard" in capsys.readouterr().out
    with tarfile.open(tmp_path / "out" / "shard-000000.tar") as tar:
        keys = [name.partition(".")[0] for name in tar.getnames()]
    assert len(set(keys)) == ROWS
    assert sorted(keys) != keys
    now = _pack_rows.Progress(5, 10, 0, 100, is_staging=True)
    assert _pack_command.ProgressLine.text(now, 1.0).startswith("staging: 50 %, 5/10 samples")
