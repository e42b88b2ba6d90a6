"""Samples that cannot be read, and what is done about them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker


def load(data: Any, **options: Any) -> stoker.Loader:
    settings: dict[str, Any] = {"batch_size": 5, "shuffle": "off", "torch": False}
    return stoker.Loader(data, **(settings | {"fields": {"bin": bytes, "cls": int}} | options))


def damage(path: Path, what: bytes) -> int:
    """Flips a bit of the first of these bytes and hides it from the index; returns where."""
    times = path.stat()
    data = bytearray(path.read_bytes())
    where = data.index(what)
    data[where] ^= 0x40
    path.write_bytes(data)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    return where


@pytest.fixture
def damaged(shards: Path) -> stoker.Dataset:
    """Sample 31 is not what it was."""
    stoker.Dataset(shards, checksums=True)
    damage(shards / "train-001.tar", bytes([31]) * 8)
    return stoker.Dataset(shards, checksums=True)


def test_a_damaged_sample_is_an_error_at_its_batch_that_names_it(damaged: stoker.Dataset) -> None:
    loader = load(damaged)
    stream = iter(loader)
    assert [next(stream).size for _ in range(6)] == [5] * 6
    for _ in range(2):
        with pytest.raises(stoker.CorruptError, match="checksum") as raised:
            next(stream)
    error = raised.value
    assert error.path == str(Path(damaged.directory) / "train-001.tar")
    assert error.offset is not None
    assert "sample 31" in str(error)
    assert loader.state_dict()["position"] == 30
    assert loader.stats().batches == 6


def test_skip_puts_another_sample_in_its_place_the_same_in_every_run(
    damaged: stoker.Dataset,
) -> None:
    def run(**options: Any) -> tuple[list[list[str]], int]:
        loader = load(damaged, on_error="skip", **options)
        return [batch["__key__"] for batch in loader], loader.stats().replaced

    keys, replaced = run()
    assert replaced == 1
    assert [len(batch) for batch in keys] == [5] * 10
    assert keys[6][0] == "s030"
    assert keys[6][1] != "s031"
    assert run(threads=1)[0] == keys
    assert run(seed=9)[0][6][1] != "s031"
    halves = [run(batch_size=None, global_batch_size=10, rank=r, world_size=2)[0] for r in range(2)]
    assert [k for pair in zip(*halves, strict=True) for part in pair for k in part] == [
        k for batch in keys for k in batch
    ]


def test_a_sample_that_lacks_a_field_is_named_or_skipped(tmp_path: Path, write_tar: Any) -> None:
    samples: dict[str, dict[str, bytes]] = {f"k{i}": {"cls": b"%d" % i} for i in range(8)}
    samples["k5"] = {"other": b"x"}
    path = write_tar(tmp_path / "a.tar", samples)
    with pytest.raises((ValueError, stoker.CorruptError), match=r"k5.*cls|cls.*k5"):
        list(load(path, fields={"cls": int}, batch_size=4))
    loader = load(path, fields={"cls": int}, batch_size=4, on_error="skip")
    assert [n for b in loader for n in b["cls"].tolist()][:5] == [0, 1, 2, 3, 4]
    assert loader.stats().replaced == 1


def test_where_no_other_will_do_it_is_an_error_after_all(tmp_path: Path, write_tar: Any) -> None:
    path = write_tar(tmp_path / "a.tar", {f"k{i}": {"cls": b"x"} for i in range(8)})
    with pytest.raises((ValueError, stoker.CorruptError), match="none of 16 replacement samples"):
        list(load(path, fields={"cls": int}, batch_size=4, on_error="skip"))


def test_a_shard_that_changes_under_a_loader_is_an_error(shards: Path) -> None:
    data = stoker.Dataset(shards)
    (shards / "train-001.tar").write_bytes(b"")
    with pytest.raises(OSError, match=r"train-001\.tar"):
        list(load(data))


def test_after_an_error_the_next_iter_goes_on_with_the_next_epoch(
    damaged: stoker.Dataset,
) -> None:
    loader = load(damaged)
    for epoch in range(3):
        with pytest.raises(stoker.CorruptError):
            list(loader)
        assert (loader.cursor.epoch, loader.cursor.position) == (epoch, 30)


def test_what_was_not_checked_is_counted(shards: Path, damaged: stoker.Dataset) -> None:
    checked = load(damaged, order=range(30))
    list(checked)
    assert checked.stats().unchecked == 0


def test_stats_say_what_was_done(shards: Path) -> None:
    loader = load(shards)
    assert loader.stats() == stoker.LoaderStats()
    list(loader)
    stats = loader.stats()
    assert (stats.batches, stats.samples) == (10, 50)
    assert stats.unchecked >= 50
    assert stats.bytes > 0
    assert stats.seconds > 0
    assert 0 <= stats.stall_share <= 1
    assert stats.wait_p50_s <= stats.wait_p99_s
    stages = {"queue", "memory", "store", "read", "decode", "collate", "map", "copy"}
    assert set(stats.waited_in_s) == stages
    assert sum(stats.waited_in_s.values()) <= stats.seconds * 1.01
    assert "50 samples in" in str(stats)
    assert stats.to_dict()["fetch"]["record_bytes"] >= stats.bytes
    list(loader)
    assert loader.stats().samples == 50  # of the last iteration


def test_a_policy_is_the_loaders_own(shards: Path) -> None:
    data = stoker.Dataset(shards)
    for policy in ("automatic", "buffered", "drop_behind"):
        assert len(list(load(data, policy=policy))) == 10


def test_the_engine_is_chosen_by_the_environment(
    shards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOKER_ENGINE", "sync")
    assert len(list(load(shards))) == 10
    monkeypatch.setenv("STOKER_ENGINE", "steam")
    with pytest.raises(ValueError, match=r"STOKER_ENGINE: .*steam"):
        load(shards)


def test_keys_in_a_field_are_the_keys(tmp_path: Path) -> None:
    rows = [{"__key__": f"row-{i}", "cls": i} for i in range(6)]
    stoker.ingest(rows, tmp_path / "mds", format="mds")
    data = stoker.Dataset(tmp_path / "mds")
    keys = [sample["__key__"] for sample in data]
    for fields in ({"cls": int}, None):
        batches = list(load(data, batch_size=3, fields=fields))
        assert [key for batch in batches for key in batch["__key__"]] == keys
        assert list(batches[0]) == ["cls", "__key__"]


def test_a_dataset_that_has_grown_continues_without_the_position(tmp_path: Path) -> None:
    stoker.ingest(({"cls": i} for i in range(20)), tmp_path / "old")
    stoker.ingest(({"cls": i} for i in range(30)), tmp_path / "new")
    old, new = (
        stoker.Loader(tmp_path / name, batch_size=2, seed=7, torch=False) for name in ("old", "new")
    )
    with stoker.Checkpointer(tmp_path / "run") as saver:
        saver.save(10, model={"w": 1}, loader=old)
        with pytest.raises(
            stoker.CursorMismatch,
            match=r"without loader= and with partial=True, .* loader\.steps\(start=done\)",
        ):
            saver.restore(model=None, loader=new)
        done = saver.restore(model=None, partial=True)
        assert [step for step, _ in new.steps(start=done)] == list(range(11, 26))


def test_errors_say_the_next_step(shards: Path, tmp_path: Path) -> None:
    one_argument: Any = lambda sample: sample  # noqa: E731
    with pytest.raises(TypeError, match=r"map is called as map\(sample, rng\).*lambda sample, rng"):
        stoker.Loader(shards, batch_size=2, map=one_argument)
    loader = stoker.Loader(shards, batch_size=2, torch=False)
    with pytest.raises(ValueError, match="not the state of a Loader: it has 'epoch', 'step'"):
        loader.load_state_dict({"epoch": 1, "step": 3})
    state = stoker.Loader(shards, batch_size=2, tail="pad").state_dict()
    with pytest.raises(stoker.CursorMismatch, match=r'does not fit .* pass allow=\{"tail"\}$'):
        stoker.Loader(shards, batch_size=2, tail="drop").load_state_dict(state)
    np.save(tmp_path / "t.npy", np.arange(64, dtype=np.uint16))
    with pytest.raises(ValueError, match=r"^window=32 and pack=3 were both given: "):
        stoker.Tokens(tmp_path / "t.npy", window=32, pack=3)
    part = stoker.Dataset(tmp_path / "t.npy").select([])
    with pytest.raises(ValueError, match=r"train, val = Tokens\(source, window=1024\).split"):
        stoker.Tokens(part, window=8)
    for kind in (stoker.MapError, stoker.CursorMismatch, stoker.LateError, stoker.CorruptError):
        assert kind.__module__ == "stoker"


def test_an_encoded_file_that_is_asked_for_as_numbers_says_what_to_do(
    tmp_path: Path, write_tar: Any
) -> None:
    data = write_tar(tmp_path / "a.tar", {"a": {"jpg": b"\xff\xd8\xff\xe0 file"}})
    with pytest.raises(ValueError, match="an encoded file, such as an image, ask for bytes"):
        next(iter(stoker.Loader(data, batch_size=1, fields={"jpg": np.float32})))
