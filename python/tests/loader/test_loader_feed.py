"""Batches that are copied ahead to a device: the order of things, without a GPU."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import stoker
from stoker import _native
from stoker._loader import loader as loader_module
from stoker._loader.feed import CurrentStream, DeviceFeed

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")

FIELDS = {"cls": int, "bin": stoker.Array("uint8", [8]), "json": bytes}


class HostCopies:
    """Stands in for the core's copies: they end at once, in ordinary memory."""

    def __init__(self) -> None:
        self.copies = 0

    def lend_memory(self, options: Any) -> None:
        """The loader keeps its own."""

    def send(self, batch: Any, pieces: list[tuple[int, int, int]], into: list[Any]) -> None:
        """As the core does: the arrays are gone then."""
        for to, address, size in pieces:
            ctypes.memmove(to, address, size)
        batch.release_arrays()
        self.copies += 1
        into.append(self.copies)

    def stats(self) -> dict[str, Any]:
        """Ten bytes and half a second each."""
        return {"device_copies": self.copies, "device_bytes": 10 * self.copies,
                "device_copy_s": 0.5 * self.copies}  # fmt: skip


class HostFeed:
    """A device's feed whose device is the host."""

    device = torch.device("cpu")

    def __init__(self) -> None:
        self.native = HostCopies()
        self.rooms = 0
        self.handed: list[int] = []
        self.is_closed = False
        self.refused = 0

    def room(self, shape: Any, dtype: Any = torch.uint8) -> Any:
        """Not zero, as new memory would be."""
        if self.refused > 0:
            self.refused -= 1
            raise MemoryError("no room on the device")
        self.rooms += 1
        return torch.full(tuple(shape), 1, dtype=dtype)

    def hand_over(self, copy: int, memory: Any) -> None:
        """Notes the order."""
        self.handed.append(copy)


class HostFeeder:
    """Gives it to every run."""

    def __init__(self, depth: int = 2) -> None:
        self.depth = depth
        self.made = HostFeed()

    def feed(self) -> Any:
        """The same for all."""
        return self.made

    def close(self) -> None:
        """Notes it."""
        self.made.is_closed = True


@pytest.fixture
def feeder(monkeypatch: pytest.MonkeyPatch) -> HostFeeder:
    made = HostFeeder()
    monkeypatch.setattr(loader_module, "feeder_of", lambda *_, **__: made)
    return made


def load(shards: Any, **options: Any) -> stoker.Loader:
    settings: dict[str, Any] = {"batch_size": 8, "seed": 3, "fields": FIELDS, "device": "cpu"}
    return stoker.Loader(shards, **(settings | options))


def unfed(shards: Path, **options: Any) -> stoker.Loader:
    loader = load(shards, **options)
    loader._runs._feeder = None
    return loader


def plain(batch: Any) -> dict[str, Any]:
    return {
        name: [bytes(one) for one in column]
        if name == "json"
        else column.tolist()
        if hasattr(column, "tolist")
        else column
        for name, column in batch.items()
    }


@pytest.mark.parametrize("options", [
    {}, {"tail": "pad"}, {"tail": "keep", "batch_size": 7}, {"epochs": 3}, {"micro_batch_size": 2},
    {"fields": None}, {"fields": {"bin": stoker.Ragged("uint8")}},
])  # fmt: skip
def test_batches_are_the_same_as_without_it(
    shards: Path, feeder: HostFeeder, options: dict[str, Any]
) -> None:
    expected = unfed(shards, **options)
    for batch, other in zip(load(shards, **options), expected, strict=True):
        if options.get("fields"):
            assert [one.tolist() for one in batch["bin"]] == [one.tolist() for one in other["bin"]]
        elif "fields" not in options:
            assert plain(batch) == plain(other)
        assert batch["__key__"] == other["__key__"]
        assert (batch.cursor, batch.size, batch.last) == (other.cursor, other.size, other.last)
    assert 0 < len(feeder.made.handed) <= feeder.made.native.copies


def test_some_are_sent_ahead_and_the_position_is_that_of_what_was_handed_out(
    shards: Path, feeder: HostFeeder
) -> None:
    expected = [batch["cls"].tolist() for batch in unfed(shards)]
    loader = load(shards, depth=4)
    stream = iter(loader)
    for given in range(len(expected) - 1):
        assert next(stream)["cls"].tolist() == expected[given]
        assert feeder.made.native.copies <= given + 1 + feeder.depth
        assert feeder.made.handed == list(range(1, given + 2))
        state = loader.state_dict()
        again = load(shards)
        again.load_state_dict(state)
        assert [batch["cls"].tolist() for batch in unfed_rest(again)] == expected[given + 1 :]
    assert next(stream)["cls"].tolist() == expected[-1]
    assert next(stream, None) is None


def unfed_rest(loader: stoker.Loader) -> stoker.Loader:
    loader._runs._feeder = None
    return loader


def test_an_error_comes_after_all_batches_before_it(shards: Path, feeder: HostFeeder) -> None:
    stoker.Dataset(shards, checksums=True)
    tar = shards / "train-001.tar"
    times = tar.stat()
    tar.write_bytes(tar.read_bytes().replace(bytes([45]) * 8, bytes([99]) * 8))
    os.utime(tar, ns=(times.st_atime_ns, times.st_mtime_ns))  # the index does not see it
    data = stoker.Dataset(shards, checksums=True)
    stream = iter(load(data, shuffle=False, batch_size=5))
    assert [next(stream)["cls"].tolist()[0] for _ in range(9)] == list(range(0, 45, 5))
    for _ in range(2):
        with pytest.raises(stoker.CorruptError, match="checksum"):
            next(stream)


def test_no_room_on_the_device_is_raised_only_if_nothing_is_left_and_loses_nothing(
    shards: Path, feeder: HostFeeder
) -> None:
    expected = [batch["cls"].tolist() for batch in unfed(shards)]
    stream = iter(load(shards))
    feeder.made.refused = 1
    with pytest.raises(MemoryError, match="no room on the device"):
        next(stream)
    seen = [next(stream)["cls"].tolist()]
    feeder.made.refused = 2
    seen += [batch["cls"].tolist() for batch in retrying(stream)]
    assert seen == expected


def retrying(stream: Any) -> Any:
    while True:
        try:
            yield next(stream)
        except MemoryError:
            continue
        except StopIteration:
            return


def test_an_interruption_at_any_point_loses_no_batch(
    shards: Path, feeder: HostFeeder, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [batch["cls"].tolist() for batch in unfed(shards)]
    feed = feeder.made

    def interrupted(name: str, owner: Any, after: bool) -> None:
        original = getattr(owner, name)
        calls = [0]

        def call(*arguments: Any) -> Any:
            calls[0] += 1
            if calls[0] % 2 == 1 and not after:
                raise KeyboardInterrupt
            result = original(*arguments)
            if calls[0] % 2 == 1:
                raise KeyboardInterrupt  # the result is lost, as after a signal
            return result

        monkeypatch.setattr(owner, name, call)

    for name, owner in (("room", feed), ("send", feed.native), ("hand_over", feed)):
        for after in (False, True):
            with monkeypatch.context():
                original = getattr(owner, name)
                interrupted(name, owner, after)
                seen = []
                stream = iter(load(shards))
                while True:
                    try:
                        seen.append(next(stream)["cls"].tolist())
                    except KeyboardInterrupt:
                        continue
                    except StopIteration:
                        break
                monkeypatch.setattr(owner, name, original)
            assert seen == expected, (name, after)


def test_leaving_early_and_closing_releases_what_was_on_its_way(
    shards: Path, feeder: HostFeeder
) -> None:
    loader = load(shards, epochs=50)
    stream = iter(loader)
    batch = next(stream)
    values = batch["cls"].tolist()
    loader.close()
    assert feeder.made.is_closed
    assert batch["cls"].tolist() == values
    with pytest.raises(RuntimeError):
        next(stream)


def test_the_next_iteration_goes_on_with_what_was_sent_ahead(
    shards: Path, feeder: HostFeeder
) -> None:
    fed, other = load(shards), unfed(shards)
    for _ in range(3):
        assert [plain(one) for one in fed] == [plain(one) for one in other]


def test_the_next_epoch_follows_the_program_to_another_device(
    shards: Path, feeder: HostFeeder
) -> None:
    """With device="cuda", which is that of the beginning of an iteration."""
    fed, other = load(shards), unfed(shards)
    assert [plain(one) for one in fed] == [plain(one) for one in other]
    first, feeder.made = feeder.made, HostFeed()
    copies = first.native.copies
    assert [plain(one) for one in fed] == [plain(one) for one in other]
    assert first.native.copies == copies
    assert feeder.made.handed


def test_the_time_of_the_copies_is_told_apart(shards: Path, feeder: HostFeeder) -> None:
    loader = load(shards)
    batches = len(list(loader))
    stats = loader.stats()
    assert stats.device_bytes >= 10 * batches
    assert stats.device_copy_s >= 0.5 * batches
    assert "copied ahead" in stats._repr_html_()


def test_nothing_that_is_handed_out_is_in_the_loaders_memory(
    shards: Path, feeder: HostFeeder, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources: list[tuple[int, int]] = []
    send = feeder.made.native.send

    def recorded(batch: Any, pieces: Any, into: Any) -> None:
        sources.extend((address, address + size) for _, address, size in pieces)
        send(batch, pieces, into)

    monkeypatch.setattr(feeder.made.native, "send", recorded)
    for batch in load(shards):
        for name in ("cls", "bin"):
            start = batch[name].data_ptr()
            assert not any(begin <= start < end for begin, end in sources)
        held = [np.asarray(one).__array_interface__["data"][0] for one in batch["json"]]
        assert not any(begin <= at < end for at in held for begin, end in sources)


@pytest.mark.parametrize("fields", [{"bin": FIELDS["bin"]}, FIELDS])
def test_the_tensors_of_a_batch_are_in_one_piece_of_memory(
    shards: Path, feeder: HostFeeder, fields: dict[str, Any]
) -> None:
    for batch in load(shards, fields=fields):
        tensors = [one for one in batch.values() if isinstance(one, torch.Tensor)]
        assert len({one.untyped_storage().data_ptr() for one in tensors}) == 1
        # A single one is the memory itself: a view costs more than the call that copies a batch.
        assert (batch["bin"]._base is None) == (fields is not FIELDS)
    assert feeder.made.rooms == feeder.made.native.copies


def test_small_tensors_on_the_device_are_allocated_several_at_a_time() -> None:
    entered: list[Any] = []

    def on(stream: Any) -> Any:
        entered.append(stream)
        return contextlib.nullcontext()

    feed = DeviceFeed.__new__(DeviceFeed)
    feed.device, feed._stream, feed._spare = torch.device("cpu"), "ours", []
    feed._torch = SimpleNamespace(
        empty=torch.empty, uint8=torch.uint8, cuda=SimpleNamespace(stream=on)
    )
    rooms = [feed.room((3, 5), torch.int64) for _ in range(9)]
    assert {(one.shape, one.dtype) for one in rooms} == {((3, 5), torch.int64)}
    assert len({one.data_ptr() for one in rooms}) == 9
    assert entered == ["ours"] * 2
    assert feed.room((3, 5)).dtype == torch.uint8
    assert feed.room((5, 3)).shape == (5, 3)
    assert feed.room((0,)).shape == (0,)
    assert len(entered) == 5
    for _ in range(2):
        feed.room((10 << 20,))  # of which two are more than may be spare
    assert len(entered) == 7


def test_the_current_stream_is_found_and_its_object_is_made_once() -> None:
    current = [7]
    made: list[int] = []

    def new_stream(device: Any) -> Any:
        made.append(current[0])
        return SimpleNamespace(cuda_stream=current[0])

    cuda = SimpleNamespace(current_stream=new_stream)
    quick = SimpleNamespace(_cuda_getCurrentRawStream=lambda index: current[index - 3])
    for fake, count in ((quick, 2), (SimpleNamespace(), 6)):
        made.clear()
        torch_like = SimpleNamespace(_C=fake, cuda=cuda)
        stream = CurrentStream(torch_like, SimpleNamespace(index=3))
        for handle in (7, 9, 7, 7, 9, 9):
            current[0] = handle
            assert stream.get().cuda_stream == handle
        assert len(made) == count


def test_without_a_driver_there_is_no_feed(
    shards: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from stoker._loader.feed import Feeder, feeder_of

    monkeypatch.setattr(_native, "cuda_failure", lambda: "no CUDA: no library")
    assert feeder_of("cuda", torch, 2, None, is_mapped=False) is None
    monkeypatch.setattr(_native, "cuda_failure", lambda: None)
    assert isinstance(feeder_of("cuda", torch, 2, None, is_mapped=False), Feeder)
    for device, depth, pin, mapped in (
        (None, 2, None, False), ("cpu", 2, None, False), ("cuda", 0, None, False),
        ("cuda", 2, False, False), ("cuda", 2, print, False), ("cuda", 2, None, True),
    ):  # fmt: skip
        assert feeder_of(device, torch, depth, pin, is_mapped=mapped) is None
    with pytest.raises(ValueError, match="device_depth"):
        feeder_of("cuda", torch, -1, None, is_mapped=False)
    if torch.cuda.is_available():
        return
    with caplog.at_level(logging.WARNING, "stoker"):
        feeder = feeder_of(torch.device("cuda", 0), torch, 2, None, is_mapped=False)
        assert feeder is not None
        assert feeder.feed() is None  # torch cannot make a stream
        assert feeder.feed() is None
    assert caplog.text.count("when they are asked for, not ahead") == 1
