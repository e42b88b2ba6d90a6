"""stoker.Dataset: opening, samples, selections, errors."""

from __future__ import annotations

import fcntl
import gc
import hashlib
import json
import os
import pickle
import shutil
import signal
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

WriteTar = Callable[[Path, Mapping[str, Mapping[str, bytes]]], Path]
WriteMegatron = Callable[[Path, str, Sequence[Any]], Path]


@pytest.mark.parametrize(
    "source", ["{data}", "{data}/train-{{000..001}}.tar", "{data}/train-*.tar", "{data}/*"]
)
def test_a_source_is_a_directory_a_brace_or_a_glob(shards: Path, source: str) -> None:
    ds = stoker.Dataset(source.format(data=shards))
    assert (len(ds), ds.format) == (50, "tar")
    assert [shard.name for shard in ds.shards] == ["train-000.tar", "train-001.tar"]
    assert [shard.sample_count for shard in ds.shards] == [30, 20]


def test_a_source_is_a_list_in_its_order(shards: Path) -> None:
    ds = stoker.Dataset([shards / "train-001.tar", str(shards / "train-000.tar")])
    assert ds[0]["__key__"] == "s030"
    assert ds.fingerprint != stoker.Dataset(shards).fingerprint


def test_a_sample_is_a_dict_of_views_text_and_json(shards: Path) -> None:
    sample = stoker.Dataset(shards)[31]
    assert list(sample) == ["__key__", "bin", "cls", "json"]
    assert sample["__key__"] == "s031"
    assert sample["bin"].dtype == np.uint8
    assert bytes(sample["bin"]) == b"\x1f" * 8
    assert not sample["bin"].flags.writeable
    assert not sample["bin"].flags.owndata
    assert sample["cls"] == 31
    assert sample["json"] == {"n": 31}


def test_views_outlive_the_dataset_and_later_reads(shards: Path) -> None:
    ds = stoker.Dataset(shards)
    views = [ds[i]["bin"] for i in range(50)]
    del ds
    gc.collect()
    assert [view.tobytes() for view in views] == [bytes([i]) * 8 for i in range(50)]


def test_text_of_a_tar_that_is_none_comes_as_bytes(tmp_path: Path, write_tar: WriteTar) -> None:
    write_tar(tmp_path / "a.tar", {"k": {"txt": b"\xff\xfe", "json": b"{"}})
    sample = stoker.Dataset(tmp_path / "a.tar")[0]
    assert sample["txt"].tobytes() == b"\xff\xfe"
    assert sample["json"].tobytes() == b"{"


def test_indexes_count_from_either_end_and_stop_there(shards: Path) -> None:
    ds = stoker.Dataset(shards)
    assert ds[-1]["__key__"] == ds[49]["__key__"] == ds[np.int64(49)]["__key__"] == "s049"
    for outside in (50, -51):
        with pytest.raises(IndexError, match=f"sample {outside} of a dataset of 50"):
            ds[outside]
    with pytest.raises(TypeError):
        ds["s001"]  # type: ignore[call-overload]


def test_a_slice_is_a_dataset(shards: Path) -> None:
    ds = stoker.Dataset(shards)
    assert ds[40:10:-10].keys() == ["s040", "s030", "s020"]
    assert ds[10:][5:7].keys() == ["s015", "s016"]
    assert len(ds[60:]) == 0
    assert [sample["__key__"] for sample in ds[28:32]] == ["s028", "s029", "s030", "s031"]


def test_keys_are_counted_as_a_slice_counts(shards: Path) -> None:
    ds = stoker.Dataset(shards)
    assert ds.keys(29, 31) == ["s029", "s030"]
    assert ds.keys(-2) == ["s048", "s049"]
    assert len(ds.keys()) == 50


def test_many_samples_come_in_the_order_asked_for(shards: Path) -> None:
    ds = stoker.Dataset(shards)
    wanted = [49, 0, -1, 30, 0, *range(50)]
    assert [s["cls"] for s in ds.__getitems__(wanted)] == [ds[i]["cls"] for i in wanted]
    assert ds.__getitems__([]) == []
    with pytest.raises(IndexError, match="sample 50"):
        ds.__getitems__([0, 50])


def test_gather_fills_one_array(shards: Path) -> None:
    ds = stoker.Dataset(shards)
    expected = np.repeat(np.array([[7], [49]], np.uint8), 8, axis=1)
    assert np.array_equal(ds.gather([7, -1], field="bin"), expected)
    out = np.zeros((2, 8), np.uint8)
    assert ds.gather(np.array([7, 49]), out, field="bin") is out
    assert np.array_equal(out, expected)
    assert ds.gather(range(50), field="bin")[:, 0].tolist() == list(range(50))


def test_gather_says_what_does_not_fit(tmp_path: Path, shards: Path, write_tar: WriteTar) -> None:
    ds = stoker.Dataset(shards)
    with pytest.raises(ValueError, match=r"out is uint8 \(2, 9\).*needs uint8 \(2, 8\)"):
        ds.gather([0, 1], np.zeros((2, 9), np.uint8), field="bin")
    with pytest.raises(ValueError, match="contiguous and writable"):
        ds.gather([0, 1], np.zeros((8, 2), np.uint8).T, field="bin")
    with pytest.raises(ValueError, match="say which field"):
        ds.gather([0, 1])
    with pytest.raises(ValueError, match="no field 'jpg'"):
        ds.gather([0], field="jpg")
    with pytest.raises(ValueError, match="is int: only arrays"):
        ds.gather([0], field="cls")
    write_tar(tmp_path / "b.tar", {"a": {"bin": b"123"}, "b": {"bin": b"1234"}, "c": {"x": b""}})
    ragged = stoker.Dataset(tmp_path / "b.tar")
    with pytest.raises(ValueError, match="sample 1: field 'bin' has 4 bytes"):
        ragged.gather([0, 1])
    with pytest.raises(ValueError, match="sample 2 has no field 'bin'"):
        ragged.gather([0, 2])


def test_arrays_have_their_dtype_and_shape(tmp_path: Path) -> None:
    tokens = np.arange(12, dtype=np.uint16).reshape(3, 4)
    np.save(tmp_path / "tokens.npy", tokens)
    ds = stoker.Dataset(tmp_path / "tokens.npy")
    assert ds.format == "npy"
    assert ds[1]["tokens"].dtype == np.uint16
    assert np.array_equal(ds[1]["tokens"], tokens[1])
    assert ds[1]["__key__"] == "tokens/1"
    assert np.array_equal(ds.gather([2, 0]), tokens[[2, 0]])


@pytest.mark.parametrize("dtype", ["int32", np.int32, np.dtype("<i4")])
def test_raw_arrays_take_their_dtype_from_the_caller(tmp_path: Path, dtype: object) -> None:
    np.arange(5, dtype=np.int32).tofile(tmp_path / "raw.bin")
    ds = stoker.Dataset(tmp_path / "raw.bin", format="raw", dtype=dtype)  # type: ignore[arg-type]
    assert ds[0]["tokens"].tolist() == [0, 1, 2, 3, 4]


def test_select_takes_samples_in_any_order(shards: Path) -> None:
    ds = stoker.Dataset(shards)
    some = ds.select([5, 5, -1])
    assert some.keys() == ["s005", "s005", "s049"]
    assert some.select(np.array([2, 0])).keys() == ["s049", "s005"]
    assert ds.select(range(3)).fingerprint == ds[:3].fingerprint != ds.fingerprint
    assert ds[:].fingerprint == ds.fingerprint
    with pytest.raises(TypeError, match="integers"):
        ds.select([0.5])  # type: ignore[list-item]


@pytest.mark.parametrize("parts", [(0.9, 0.06, 0.04), (45, 3, 2)])
@pytest.mark.parametrize("seed", [None, 7])
def test_split_deals_every_sample_once(
    shards: Path, parts: tuple[float, ...], seed: int | None
) -> None:
    ds = stoker.Dataset(shards)
    pieces = ds.split(parts, seed=seed)
    assert [len(piece) for piece in pieces] == [45, 3, 2]
    keys = [key for piece in pieces for key in piece.keys()]  # noqa: SIM118 (not a dict)
    assert sorted(keys) == ds.keys()
    assert (keys == ds.keys()) == (seed is None)
    assert all(piece.keys() == sorted(piece.keys()) for piece in pieces)


def test_split_by_a_seed_never_changes(shards: Path) -> None:
    _, held_out = stoker.Dataset(shards).split([0.9, 0.1], seed=7)
    assert held_out.keys() == ["s003", "s013", "s018", "s023", "s024"]


def test_split_refuses_parts_that_are_not_the_whole(shards: Path) -> None:
    ds = stoker.Dataset(shards)
    nan, endless = float("nan"), float("inf")
    for parts in ([0.5, 0.4], [10, 20], [1.5, -0.5], [], [nan, 0.5], [endless, 0.5]):
        with pytest.raises(ValueError, match="parts"):
            ds.split(parts)


def test_a_pickle_opens_the_same_dataset_from_anywhere(
    shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shards)
    ds = stoker.Dataset("train-*.tar", checksums=True)[10:40:3]
    data = pickle.dumps(ds)
    monkeypatch.chdir(tmp_path)
    again = pickle.loads(data)
    assert again.keys() == ds.keys()
    assert again.fingerprint == ds.fingerprint


def test_a_pickle_refuses_to_become_another_dataset(shards: Path, write_tar: WriteTar) -> None:
    ds = stoker.Dataset(shards)
    data = pickle.dumps(ds)
    write_tar(shards / "train-001.tar", {"other": {"bin": b"1"}})
    with pytest.raises(ValueError, match=f"had {ds.fingerprint}"):
        pickle.loads(data)


def test_the_fingerprint_is_that_of_the_samples_not_of_the_place(
    shards: Path, tmp_path: Path
) -> None:
    before = stoker.Dataset(shards).fingerprint
    shards.rename(tmp_path / "elsewhere")
    assert stoker.Dataset(tmp_path / "elsewhere").fingerprint == before
    assert len(bytes.fromhex(before)) == 16


def test_a_forked_child_reads_too(shards: Path) -> None:
    ds = stoker.Dataset(shards)
    assert ds[0]["cls"] == 0
    child = os.fork()
    if child == 0:
        good = ds[49]["cls"] == 49 and len(ds.__getitems__(range(50))) == 50
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_threads_share_a_dataset(shards: Path) -> None:
    ds = stoker.Dataset(shards)
    sums: list[int] = []

    def work() -> None:
        sums.append(sum(int(ds[i]["cls"]) for i in range(50)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sums == [sum(range(50))] * 4


def test_a_damaged_sample_is_named(shards: Path) -> None:
    stoker.Dataset(shards, checksums=True)
    path = shards / "train-001.tar"
    times = path.stat()
    data = bytearray(path.read_bytes())
    where = data.index(bytes([31]) * 8)
    data[where] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    ds = stoker.Dataset(shards, checksums=True)
    assert ds[30]["cls"] == 30
    for read in (lambda: ds[31], lambda: ds.__getitems__(range(50)), lambda: ds.keys()):
        with pytest.raises(stoker.CorruptError, match="checksum") as raised:
            read()
        error = raised.value
        assert (error.path, error.key) == (str(path), "s031")
        assert error.offset is not None
        assert error.offset <= where
        assert f"at byte {error.offset}" in str(error)
        copy = pickle.loads(pickle.dumps(error))
        assert (copy.path, copy.offset, copy.key) == (error.path, error.offset, error.key)


def test_checksums_stay_with_a_copy(shards: Path, tmp_path: Path) -> None:
    stoker.Dataset(shards, checksums=True)
    copy = tmp_path / "copy"
    shutil.copytree(shards, copy, copy_function=shutil.copyfile)  # with times of its own
    assert stoker.Dataset(copy)._native.has_checksums
    path = copy / "train-000.tar"
    data = bytearray(path.read_bytes())
    data[data.index(bytes([3]) * 8)] ^= 1
    path.write_bytes(data)
    with pytest.raises(stoker.CorruptError, match="--rebuild") as raised:
        stoker.Dataset(copy)[3]
    assert raised.value.key == "s003"


@pytest.mark.parametrize("key", ["k" * 70, "kä", 'k"'])
def test_a_key_that_does_not_fit_a_message_is_not_told_in_part(tmp_path: Path, key: str) -> None:
    stoker.ingest([{"__key__": key, "x": b"#" * 8}], tmp_path)
    path = tmp_path / "shard-000000.tar"
    path.write_bytes(path.read_bytes().replace(b"#" * 8, b"#" * 7 + b"!"))
    with pytest.raises(stoker.CorruptError, match="checksum") as raised:
        stoker.Dataset(tmp_path)[0]
    assert raised.value.key == "shard-000000/0"


def test_a_shard_that_cannot_be_scanned_is_named_in_every_format(
    tmp_path: Path, write_megatron: WriteMegatron
) -> None:
    rows = [{"x": bytes([i]) * 100} for i in range(10)]
    stoker.ingest(rows, tmp_path / "records", format="tfrecord")
    records = tmp_path / "cut.tfrecord"
    records.write_bytes((tmp_path / "records" / "shard-000000.tfrecord").read_bytes()[:-40])
    (tmp_path / "empty.tar").touch()
    write_megatron(tmp_path, "tokens", [np.arange(9, dtype=np.uint16)])
    idx = bytearray((tmp_path / "tokens.idx").read_bytes())
    idx[34:38] = b"\xff" * 4  # the first length: -1
    (tmp_path / "tokens.idx").write_bytes(idx)
    for name, offset in (("cut.tfrecord", None), ("empty.tar", 0), ("tokens.idx", 34)):
        with pytest.raises(stoker.CorruptError) as raised:
            stoker.Dataset(tmp_path / name)
        error = raised.value
        assert error.path == str(tmp_path / name)
        assert error.offset is not None
        assert error.offset == offset or (offset is None and f"offset {error.offset}" in str(error))


def write_mds(folder: Path, values: Sequence[bytes]) -> Path:
    """One plain shard with a SHA-256, as MosaicML Streaming writes it."""
    config = {
        "column_encodings": ["bytes"],
        "column_names": ["x"],
        "column_sizes": [None],
        "compression": None,
        "format": "mds",
        "hashes": ["sha256"],
        "size_limit": 1 << 26,
        "version": 2,
    }
    text = json.dumps(config, sort_keys=True).encode()
    records = [struct.pack("<I", len(value)) + value for value in values]
    begin = 4 * (len(records) + 2) + len(text)
    ends = np.cumsum([begin, *map(len, records)]).astype("<u4")
    data = struct.pack("<I", len(records)) + ends.tobytes() + text + b"".join(records)
    path = folder / "shard.00000.mds"
    path.write_bytes(data)
    digests = {"sha256": hashlib.sha256(data).hexdigest()}
    raw = {"basename": path.name, "bytes": len(data), "hashes": digests}
    shard = {**config, "raw_data": raw, "samples": len(records), "zip_data": None}
    (folder / "index.json").write_text(json.dumps({"shards": [shard], "version": 2}))
    return path


def test_an_mds_shard_is_held_against_its_digests(tmp_path: Path) -> None:
    shard = write_mds(tmp_path, [bytes([i]) * 100 for i in range(10)])
    assert len(stoker.Dataset(tmp_path, verify="full")) == 10
    data = bytearray(shard.read_bytes())
    data[-3] ^= 1
    shard.write_bytes(data)
    with pytest.raises(stoker.CorruptError, match="sha256") as raised:
        stoker.Dataset(tmp_path, verify="full")
    assert (raised.value.path, raised.value.offset) == (str(shard), 0)
    with pytest.raises(stoker.CorruptError, match="sha256"):
        stoker.Dataset(tmp_path, checksums=True)


def test_a_corrupt_error_of_ones_own_has_no_place() -> None:
    error = stoker.CorruptError("damaged")
    assert (error.path, error.offset, error.key) == (None, None, None)


def test_what_cannot_be_opened_says_why(tmp_path: Path, shards: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        stoker.Dataset(tmp_path / "nowhere.tar")
    with pytest.raises(ValueError, match="an empty name"):
        stoker.Dataset("")
    with pytest.raises(ValueError, match="an empty name"):
        stoker.Dataset([shards, ""])
    for source in (None, 3, b"shards", [b"shards"], [shards, None]):
        with pytest.raises(TypeError, match=r"^source=.*: a path, or several"):
            stoker.Dataset(source)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError, match="no file matches"):
        stoker.Dataset(shards / "none-*.tar")
    (tmp_path / "text.dat").write_text("x" * 600)
    with pytest.raises(ValueError, match="not a shard"):
        stoker.Dataset(tmp_path / "text.dat")
    with pytest.raises(TypeError, match="bfloat17"):
        stoker.Dataset(shards, dtype="bfloat17")
    with pytest.raises(ValueError, match="verify="):
        stoker.Dataset(shards, verify="all")  # type: ignore[arg-type]
    whole = (shards / "train-000.tar").read_bytes()
    (tmp_path / "cut.tar").write_bytes(whole[:1300])
    with pytest.raises(stoker.CorruptError, match="cut off") as raised:
        stoker.Dataset(tmp_path / "cut.tar")
    error = raised.value
    assert (error.path, error.offset, error.key) == (str(tmp_path / "cut.tar"), 1024, None)


def test_a_signal_stops_a_dataset_that_is_being_opened(shards: Path) -> None:
    stoker.Dataset(shards)
    (lock,) = (shards / ".stoker").glob("*.lock")
    lock.with_suffix("").unlink()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with lock.open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)  # somebody else builds the index, for ever
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(KeyboardInterrupt):
                stoker.Dataset(shards)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert len(stoker.Dataset(shards)) == 50


def test_repr_says_what_it_is(shards: Path) -> None:
    ds = stoker.Dataset(shards)
    assert repr(ds) == f"Dataset({str(shards)!r}, format='tar', samples=50, shards=2)"
    assert "samples=10" in repr(ds[:10])
    html = ds._repr_html_()
    assert "<th>samples</th><td>50</td>" in html
    assert ds.fingerprint in html
