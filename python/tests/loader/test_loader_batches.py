"""What a Loader hands out: a dict of columns that look into its memory."""

from __future__ import annotations

import copy
import gc
import json
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

FIELDS = {"bin": bytes, "cls": int, "json": str}


def load(shards: Path, **options: Any) -> stoker.Loader:
    settings: dict[str, Any] = {"batch_size": 8, "shuffle": "off", "torch": False, "fields": FIELDS}
    return stoker.Loader(shards, **(settings | options))


def first(shards: Path, **options: Any) -> stoker.Batch:
    with load(shards, **options) as loader:
        batch = next(iter(loader))
    assert isinstance(batch, stoker.Batch)
    return batch


def test_a_batch_is_a_real_dict_of_columns(shards: Path) -> None:
    batch = first(shards)
    assert isinstance(batch, dict)
    assert list(batch) == ["bin", "cls", "json", "__key__"]
    assert batch["cls"].tolist() == list(range(8))
    assert batch["json"] == [f'{{"n": {i}}}' for i in range(8)]
    assert batch["__key__"] == [f"s{i:03}" for i in range(8)]
    assert [bytes(view) for view in batch["bin"]] == [bytes([i]) * 8 for i in range(8)]
    assert batch.size == 8
    assert batch.cursor is not None
    assert (batch.cursor.epoch, batch.cursor.position) == (0, 8)
    assert len(batch) == 4


def unmade(batch: stoker.Batch) -> set[str]:
    """The columns that nobody has looked at."""
    return {name for name in batch if type(dict.__getitem__(batch, name)).__name__ == "_Pending"}


def test_columns_are_made_when_they_are_looked_at(shards: Path) -> None:
    batch = first(shards)
    assert unmade(batch) == {"bin", "cls", "json", "__key__"}
    assert "cls" in batch
    assert batch["cls"] is batch["cls"]
    assert unmade(batch) == {"bin", "json", "__key__"}
    with pytest.raises(KeyError):
        batch["jpg"]
    assert batch.get("jpg", 7) == 7


@pytest.mark.parametrize(
    "read",
    [
        lambda b: dict(b),
        lambda b: {**b},
        lambda b: dict(b.items()),
        lambda b: dict(zip(b, b.values(), strict=True)),
        lambda b: {name: b.get(name) for name in b},
        lambda b: {name: b.pop(name) for name in list(b)},
        lambda b: {name: b.setdefault(name) for name in b},
        lambda b: dict([b.popitem() for _ in range(len(b))]),
        lambda b: (lambda **columns: columns)(**b),
        lambda b: dict(b.copy()),
        lambda b: dict(b | {}),
        lambda b: dict(copy.copy(b)),
        lambda b: type(b)(dict(b.items())),
        lambda b: type(b)(list(b.items())),
    ],
)
def test_every_way_to_read_a_dict_gives_columns(shards: Path, read: Any) -> None:
    columns = read(first(shards))
    assert set(columns) == {"bin", "cls", "json", "__key__"}
    assert columns["__key__"] == [f"s{i:03}" for i in range(8)]
    assert columns["cls"].tolist() == list(range(8))


def test_text_and_keys_are_lists_that_json_takes(shards: Path) -> None:
    batch = first(shards, fields={"json": str})
    assert json.loads(json.dumps(batch))["__key__"][7] == "s007"


def test_bytes_are_views_made_one_by_one(shards: Path) -> None:
    column = first(shards, fields={"bin": bytes})["bin"]
    assert isinstance(column, stoker.BytesColumn)
    assert len(column) == 8
    view = column[3]
    assert view.dtype == np.uint8
    assert view.shape == (8,)
    assert not view.flags.owndata
    assert not view.flags.writeable
    assert bytes(column[-1]) == b"\x07" * 8
    for outside in (8, -9):
        with pytest.raises(IndexError):
            column[outside]
    for part in (slice(2, 5), slice(-3, None), slice(None, None, -2), slice(6, 2), slice(None)):
        taken = column[part]
        assert isinstance(taken, list)
        assert [bytes(item) for item in taken] == column.tolist()[part]
        assert all(np.shares_memory(item, column.first(8)[int(item[0])]) for item in taken)
    with pytest.raises(TypeError):
        column["bin"]  # type: ignore[call-overload]
    assert column.sizes.tolist() == [8] * 8
    assert column.nbytes == 64
    assert column.tolist() == [bytes([i]) * 8 for i in range(8)]
    out = np.zeros(64, np.uint8)
    column.copy_to(out)
    assert out.tolist() == np.repeat(np.arange(8), 8).tolist()
    with pytest.raises(ValueError, match="exactly"):
        column.copy_to(np.zeros(63, np.uint8))


def test_without_fields_every_field_comes_as_it_is(shards: Path) -> None:
    batch = first(shards, fields=None)
    assert set(batch) == {"bin", "cls", "json", "__key__"}
    assert batch["cls"][7] == 7
    assert bytes(batch["bin"][7]) == bytes([7]) * 8


def test_items_of_a_byte_column_look_into_the_batch_however_they_are_taken(shards: Path) -> None:
    column = first(shards, fields={"bin": bytes})["bin"]
    items = [list(column), [*iter(column)], [column[i] for i in range(len(column))]]
    for taken in items:
        assert [bytes(item) for item in taken] == column.tolist()
        assert all(item.dtype == np.uint8 and not item.flags.writeable for item in taken)
        assert np.shares_memory(taken[3], column[3])
    assert len(column.first(2)) == 2
    del column
    assert bytes(items[0][5]) == bytes([5]) * 8  # and keep its memory


def test_an_item_of_a_byte_column_costs_about_as_much_as_a_slice(
    tmp_path: Path, write_tar: Any
) -> None:
    """A view with a Python object of its own for its memory costs ten times as much as a slice."""
    count = 1000
    samples = {f"{i:04}": {"bin": b"%04d" % i} for i in range(count)}
    shard = write_tar(tmp_path / "a.tar", samples)
    column = first(shard, fields={"bin": bytes}, batch_size=count)["bin"]
    items = list(column)
    assert len({id(item.base) for item in items}) == 1  # slices of one array

    plain = np.zeros(4 * count, np.uint8)
    ends = [(4 * i, 4 * i + 4) for i in range(count)]

    def least_cpu_time(take: Callable[[], Any]) -> int:
        times = []
        for _ in range(20):
            begin = time.thread_time_ns()
            take()
            times.append(time.thread_time_ns() - begin)
        return min(times)

    slices = least_cpu_time(lambda: [plain[begin:end] for begin, end in ends])
    for take in (lambda: list(column), lambda: [item for item in column]):  # noqa: C416
        assert least_cpu_time(take) < 4 * slices
    assert least_cpu_time(lambda: [column[i] for i in range(count)]) < 6 * slices


def test_a_field_that_a_sample_lacks_is_none(tmp_path: Path, write_tar: Any) -> None:
    write_tar(tmp_path / "a.tar", {"a": {"x": b"1", "y": b""}, "b": {"x": b"2"}})
    batch = first(tmp_path / "a.tar", fields=None, batch_size=2)
    assert bytes(batch["y"][0]) == b""
    assert batch["y"][1] is None
    assert batch["y"].tolist() == [b"", None]
    kept = batch.clone()["y"]
    assert bytes(kept[0]) == b""
    assert kept[1] is None


def test_everything_taken_from_a_batch_outlives_batch_and_loader(shards: Path) -> None:
    loader = load(shards)
    views, arrays = [], []
    for batch in loader:
        views += list(batch["bin"])
        arrays.append(batch["cls"])
    loader.close()
    del loader, batch
    gc.collect()
    assert [bytes(view) for view in views] == [bytes([i]) * 8 for i in range(50)]
    assert np.concatenate(arrays).tolist() == list(range(50))


def test_a_clone_has_memory_of_its_own(shards: Path) -> None:
    loader = load(shards)
    clones = [batch.clone() for batch in loader]
    assert loader.stats().leased_bytes == 0 or all(not unmade(clone) for clone in clones)
    assert clones[1]["cls"].flags.owndata
    assert [bytes(view) for view in clones[1]["bin"]] == [bytes([i]) * 8 for i in range(8, 16)]
    assert clones[1].cursor is not None
    assert clones[1].cursor.position == 16
    deep = copy.deepcopy(clones[1])
    deep["cls"][0] = 99
    assert clones[1]["cls"][0] == 8


def test_arrays_may_be_changed(shards: Path) -> None:
    with load(shards) as loader:
        for batch in loader:
            batch["cls"] += 100
        assert [b["cls"][0] for b in loader] == [0, 8, 16, 24, 32, 40, 48]


def test_a_pickled_batch_is_a_clone_with_its_cursor(shards: Path) -> None:
    batch = first(shards)
    again = pickle.loads(pickle.dumps(batch))
    assert isinstance(again, stoker.Batch)
    assert (again.cursor, again.size) == (batch.cursor, 8)
    assert again["cls"].tolist() == list(range(8))
    assert again["__key__"] == batch["__key__"]
    assert [bytes(view) for view in again["bin"]] == batch["bin"].tolist()
    assert pickle.loads(pickle.dumps(batch["bin"])) == batch["bin"].tolist()


def test_a_batch_of_arrays_cannot_be_moved(shards: Path) -> None:
    with pytest.raises(TypeError, match="torch=True"):
        first(shards).to("cpu")


def test_repr_says_what_is_in_it(shards: Path) -> None:
    text = repr(first(shards))
    assert text.startswith("Batch(8 samples; bin: BytesColumn(8 samples), cls: int64 (8,), ")
    assert "epoch 0, position 8 of 50" in text


def test_out_fills_what_is_given(shards: Path) -> None:
    room = np.zeros((8,), np.int64)
    with load(shards, out={"cls": room}, tail="drop") as loader:
        for number, batch in enumerate(loader):
            assert batch["cls"] is room
            assert room.tolist() == list(range(8 * number, 8 * number + 8))
            assert batch["__key__"][0] == f"s{8 * number:03}"


def test_out_takes_turns_and_is_cut_to_a_short_batch(shards: Path) -> None:
    rooms = [{"cls": np.zeros((9,), np.int64)} for _ in range(2)]
    with load(shards, out=rooms, batch_size=9) as loader:
        batches = list(loader)
    assert batches[-1]["cls"].tolist() == list(range(45, 50))
    assert np.shares_memory(batches[-1]["cls"], rooms[1]["cls"])
    assert batches[-2]["cls"].tolist() == list(range(36, 45))
    assert batches[-4]["cls"] is batches[-2]["cls"]


def test_out_says_what_does_not_fit(shards: Path) -> None:
    with pytest.raises(ValueError, match=r"shape \(7,\), and a batch has 8 rows"):
        load(shards, out={"cls": np.zeros(7, np.int64)})
    with pytest.raises(TypeError, match="no array"):
        load(shards, out={"cls": [0] * 8})
    with pytest.raises(TypeError, match="a dict of arrays"):
        load(shards, out=[])
    with pytest.raises(ValueError, match=r"is int32 \(8,\), and the batch has int64 \(8,\)"):
        next(iter(load(shards, out={"cls": np.zeros(8, np.int32)})))
    with pytest.raises(TypeError, match="BytesColumn, not an array"):
        next(iter(load(shards, out={"bin": np.zeros(8, np.int32)})))
    with pytest.raises(ValueError, match=r"out\['jpg'\]: batches have"):
        next(iter(load(shards, out={"jpg": np.zeros(8, np.int32)})))
    with pytest.raises(ValueError, match="out= takes what is read"):
        load(shards, out={"cls": np.zeros(8, np.int64)}, map=lambda sample, rng: sample)


def test_statistics_have_a_table_for_notebooks(shards: Path) -> None:
    loader = load(shards)
    list(loader)
    table = loader.stats()._repr_html_()
    assert table.startswith("<table><caption>stoker.LoaderStats</caption>")
    assert table.endswith("</table>")
    assert "<th>rate</th>" in table
    assert "<th>waited in read</th>" in table
    assert stoker.LoaderStats()._repr_html_()  # of a loader that has done nothing yet


def test_a_column_that_is_not_there_is_refused_with_those_that_are(shards: Path) -> None:
    batch = next(iter(stoker.Loader(shards, batch_size=4, fields={"cls;id": int}, torch=False)))
    with pytest.raises(KeyError, match=r"'cls': no such column; the batch has .*'cls;id'"):
        _ = batch["cls"]
    assert batch.get("cls") is None
