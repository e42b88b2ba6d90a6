"""Ranks of torch.distributed send their messages through its store, and write no files for them."""

from __future__ import annotations

import logging
import os
import signal
import socket
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from stoker import _native
from stoker._checkpoint.ranks.job import Job, Meetings
from stoker._checkpoint.ranks.store_carrier import StoreCarrier
from stoker._common.ranks import Ranks

distributed: Any = pytest.importorskip("torch.distributed")

# Each starts several processes that import torch, so most of the cases run in `make crash`.
_IS_LONG = "STOKER_STORE_CASES" in os.environ

# As every script does: rank 0 has the store.
_INIT = """
import os
os.environ["OMP_NUM_THREADS"] = "1"
import torch.distributed as dist
dist.init_process_group("gloo", init_method={0!r}, rank=rank, world_size=world)
"""
# The store is that of the test, as torchrun has it: no rank takes it along when it ends. Without
# gloo, which would find the addresses of the ranks of an earlier start there.
_KEPT = """
import torch.distributed as dist
from stoker._checkpoint.ranks import job as _job
store = dist.TCPStore("127.0.0.1", {0}, is_master=False)
_job._is_distributed, _job.distributed_store = lambda ranks: True, lambda: store
"""
_SAVE = "result = saver.save({0}, state=state).wait()"
_RESTORE = """
found = {"w": np.zeros(4), "name": ""}
done = saver.restore(state=found)
result = [done, found["w"].tolist(), found["name"]]
"""


def _init(method: str | None = None) -> str:
    if method is None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            method = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    return _INIT.format(method)


@pytest.fixture
def server() -> Any:
    """A store that outlives the ranks."""
    return distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


def _kept(server: Any) -> str:
    return _KEPT.format(server.port)


def _saved(rank: int) -> list[Any]:
    return [[10.0 * rank + i for i in range(4)], f"r{rank}"]


# As the digests of very many tensors: more than the store takes at once.
_SEND_LARGE = """
session, text = saver._writer._settings.session, "x" * (20 << 20)
heard = session.gather("large", text, 60)
told = session.broadcast("large", text if rank == 0 else "", 60)
result = [[len(one) for one in heard], told == text]
"""


@pytest.mark.parametrize("world", [2, 3] if _IS_LONG else [3])
def test_every_rank_gets_back_what_it_has_saved_and_no_file_is_written_for_messages(
    tmp_path: Path, world: int, ranks: Any, on_all: Any
) -> None:
    def there() -> list[str]:
        return sorted(p.name for p in tmp_path.iterdir() if not p.name.startswith("owner-"))

    names = [".catalog", ".lock", ".lock-1", "latest", "step-000000000001"]
    with ranks(tmp_path, world, begin=_init()) as group:
        assert on_all(group, _SAVE.format(1)) == [True] * world
        assert there() == names, "while their session lasts"
        large = [[20 << 20] * world, True], *[[[], True]] * (world - 1)
        assert on_all(group, _SEND_LARGE) == list(large)
        restored = [[1, *_saved(r)] for r in range(world)]
        assert on_all(group, _RESTORE) == restored  # and the writers release their lock
        changed = tmp_path.stat().st_mtime_ns
        assert on_all(group, _RESTORE) == restored
        assert tmp_path.stat().st_mtime_ns == changed, "a restore writes nothing"
        on_all(group, "saver.close()")
        assert there() == names
        assert [rank.end() for rank in group] == [0] * world


_BECOME_NOBODY = """
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_ranks_restore_from_a_directory_that_they_cannot_write_to(ranks: Any, on_all: Any) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        folder = Path(name) / "run"
        with ranks(folder, 2, begin=_init()) as group:
            assert on_all(group, _SAVE.format(1)) == [True, True]
            on_all(group, "saver.close()")
        changed = folder.stat().st_mtime_ns
        # It would take place nowhere else, and the ranks could be on several machines.
        elsewhere = "from stoker._checkpoint.ranks import job\njob.runtime_directory = None\n"
        with ranks(folder, 2, begin=_init() + elsewhere + _BECOME_NOBODY) as group:
            assert on_all(group, _RESTORE) == [[1, *_saved(r)] for r in range(2)]
        assert folder.stat().st_mtime_ns == changed


_DESTROY = "pending = saver.save({0}, state=state)\n{1}saver.close()\nresult = pending.wait()"


@pytest.mark.parametrize("who", ["True", "rank == 0", "rank == 1"] if _IS_LONG else ["rank == 0"])
def test_the_process_group_may_be_destroyed_before_the_end(
    tmp_path: Path, who: str, ranks: Any, on_all: Any
) -> None:
    with ranks(tmp_path, 2, begin=_init()) as group:
        assert on_all(group, _SAVE.format(1)) == [True, True]
        destroy = f"if {who}: dist.destroy_process_group()\n"
        assert on_all(group, "import torch.distributed as dist") == [None, None]
        assert on_all(group, _DESTROY.format(2, destroy)) == [True, True]
        # A checkpointer that was made before has the store as well.
    with ranks(tmp_path, 2, begin=_init()) as group:
        destroy = f"import torch.distributed as dist\nif {who}: dist.destroy_process_group()\n"
        assert on_all(group, destroy + _RESTORE) == [[2, *_saved(r)] for r in range(2)]
        assert on_all(group, "result = saver.due(3, every='1h')") == [False, False]
        assert on_all(group, _SAVE.format(3)) == [True, True]
        with ThreadPoolExecutor(2) as threads:  # and nobody closes it
            assert list(threads.map(lambda rank: rank.end(), group)) == [0, 0]


def test_rank_0_may_end_first_and_takes_the_store_along(
    tmp_path: Path, ranks: Any, on_all: Any
) -> None:
    with ranks(tmp_path, 2, begin=_init()) as group:  # half an hour is the deadline
        assert on_all(group, _SAVE.format(1)) == [True, True]
        group[1].tell("other = stoker.Checkpointer(saver.path)\nsaver.close()")
        group[0].tell("saver.close()")
        assert [rank.hear() for rank in group] == [None, None]
        assert group[0].end() == 0
        group[1].tell("other.save(2, state=state)")
        answer = group[1].hear()
        assert answer.startswith("LateError"), answer
        assert "torch.distributed's store has failed" in answer
        assert group[1].end() == 0


@pytest.mark.parametrize("victim", [0, 2] if _IS_LONG else [2])
def test_a_rank_that_is_killed_between_saves_fails_the_next_one(
    tmp_path: Path, victim: int, ranks: Any, on_all: Any
) -> None:
    with ranks(tmp_path, 3, begin=_init()) as group:  # half an hour is the deadline
        assert on_all(group, _SAVE.format(1)) == [True] * 3
        group[victim].process.kill()
        group[victim].process.wait()
        others = [rank for rank in group if rank is not group[victim]]
        for step in (2, 3):
            for answer in on_all(others, _SAVE.format(step)):
                assert answer.startswith("LateError"), answer
                assert f"rank {victim} has ended (pid {group[victim].process.pid}" in answer
        with ThreadPoolExecutor(2) as threads:
            assert list(threads.map(lambda rank: rank.end(), others)) == [0, 0]
    assert [p.name for p in tmp_path.glob("step-*")] == ["step-000000000001"]


@pytest.mark.parametrize(
    ("victim", "point", "outcomes"),
    [
        (0, "parent_synced", ["unknown", "committed"]),
        *([(0, "part_written", ["failed"])] * _IS_LONG),
        *([(1, "part_written", ["failed"])] * _IS_LONG),
        *([(0, "manifest_written", ["failed", "unknown"])] * _IS_LONG),
    ],
)
@pytest.mark.parametrize("is_kept", [False, True] if _IS_LONG else [False])
def test_a_rank_killed_within_a_save_is_noticed(
    tmp_path: Path,
    server: Any,
    victim: int,
    point: str,
    outcomes: list[str],
    is_kept: bool,
    ranks: Any,
) -> None:
    with ranks(tmp_path, 2, begin=_kept(server) if is_kept else _init()) as group:
        group[victim].tell(
            f"_checkpointer._kill_at = ('checkpoint.{point}', 1)\n"
            "saver = stoker.Checkpointer(saver.path, rank=rank, world_size=world)"
        )
        group[victim].hear()
        for rank in group:
            rank.tell(
                "p = saver.save(1, state=state)\nerror = p.exception()\n"
                "result = [p.outcome, str(error)]"
            )
        outcome, error = group[1 - victim].hear()
        assert outcome in outcomes, error
        assert f"rank {victim} has ended" in error
        assert group[victim].process.wait() == -signal.SIGKILL


@pytest.mark.parametrize("victim", [0, 1] if _IS_LONG else [0])
def test_a_rank_that_hangs_with_or_without_the_store_is_waited_for_until_the_deadline(
    tmp_path: Path, victim: int, ranks: Any, on_all: Any
) -> None:
    with ranks(tmp_path, 2, begin=_init(), deadline=3) as group:
        assert on_all(group, _SAVE.format(1)) == [True, True]
        other = group[1 - victim]
        group[victim].process.send_signal(signal.SIGSTOP)
        other.tell(_SAVE.format(2))
        answer = other.hear()
        assert answer.startswith("LateError"), answer
        assert f"rank {victim} did not answer in time" in answer
        group[victim].process.send_signal(signal.SIGCONT)
        assert on_all(group, _SAVE.format(3)) == [True, True], "later calls work again"
        on_all(group, "saver.close()")


def test_a_start_in_a_store_that_is_kept_hears_nothing_of_the_one_before(
    tmp_path: Path, server: Any, ranks: Any, on_all: Any
) -> None:
    """As torchrun --max-restarts keeps it."""
    for start in range(1, 4):
        with ranks(tmp_path, 2, begin=_kept(server)) as group:
            restored = [None, [0.0] * 4, ""]
            wanted = [[start - 1, *_saved(r)] if start > 1 else restored for r in range(2)]
            assert on_all(group, _RESTORE) == wanted
            group[1].tell(_SAVE.format(start))  # it finds only what was left
            group[0].tell(_SAVE.format(start))
            assert [rank.hear() for rank in group] == [True, True]
            for rank in group:
                rank.process.kill()


def test_few_keys_stay_in_the_store(tmp_path: Path, server: Any, ranks: Any, on_all: Any) -> None:
    with ranks(tmp_path, 2, begin=_kept(server)) as group:
        for step in range(1, 41):
            assert on_all(group, _SAVE.format(step)) == [True, True]
        during = server.num_keys()
        for step in range(41, 81):
            assert on_all(group, _SAVE.format(step)) == [True, True]
        assert server.num_keys() <= during + 40, "rank 0 keeps its last 64 messages"
        for _ in range(5):
            assert on_all(group, _RESTORE)[0][0] == 80
        on_all(group, "saver.close()")
        assert [rank.end() for rank in group] == [0, 0]
    left = [key for key in server.list_keys() if "stoker" in key]
    assert len(left) <= 2, left


@pytest.mark.slow
def test_ranks_that_do_different_things_are_told_so(
    tmp_path: Path, server: Any, ranks: Any, on_all: Any
) -> None:
    with ranks(tmp_path, 2, begin=_kept(server), deadline=10) as group:
        group[0].tell("saver.restore(state=state)")
        group[1].tell(_SAVE.format(1))
        late, told = group[0].hear(), group[1].hear()
        assert told.startswith("ValueError: rank 0 does restore"), told
        assert late.startswith("LateError"), late
        assert "rank 1 did not answer in time" in late
        assert on_all(group, _SAVE.format(1)) == [True, True], "later calls work again"
        # A call that only one rank makes, and that is over when the other comes.
        group[0].tell("saver.restore(state=state)")
        assert group[0].hear().startswith("LateError")
        assert [answer[0] for answer in on_all(group, _RESTORE)] == [1, 1]


def test_a_forked_child_ends_and_harms_nothing(tmp_path: Path, ranks: Any, on_all: Any) -> None:
    fork = """
import gc, os
pid = os.fork()
if pid == 0:
    saver._meetings.close()
    saver._writer.close_at_end(60)
    del saver
    gc.collect()
    os._exit(0)
result = os.waitpid(pid, 0)[1]
"""
    with ranks(tmp_path, 2, begin=_init()) as group:
        assert on_all(group, _SAVE.format(1)) == [True, True]
        assert on_all(group, fork) == [0, 0]
        assert on_all(group, _SAVE.format(2)) == [True, True]
        on_all(group, "saver.close()")


def test_a_file_store_carries_messages_as_well(tmp_path: Path, ranks: Any, on_all: Any) -> None:
    with ranks(tmp_path / "run", 2, begin=_init(f"file://{tmp_path}/store")) as group:
        assert on_all(group, _SAVE.format(1)) == [True, True]
        assert on_all(group, _RESTORE) == [[1, *_saved(r)] for r in range(2)]
        assert not list((tmp_path / "run").glob(".meeting-*"))
        on_all(group, "saver.close()")


class _Limited:
    """A store of someone else, with what torch itself needs."""

    def __init__(self) -> None:
        self._texts: dict[str, bytes] = {}

    def set(self, key: str, value: bytes | str) -> None:
        self._texts[key] = value.encode() if isinstance(value, str) else value

    def get(self, key: str) -> bytes:
        return self._texts[key]

    def check(self, keys: list[str]) -> bool:
        return set(keys) <= self._texts.keys()


def test_with_a_store_that_lacks_something_messages_are_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = _Limited()
    monkeypatch.setattr("stoker._checkpoint.ranks.job.distributed_store", lambda: store)
    job = Job("torch.distributed", by_store=True)
    with caplog.at_level(logging.INFO, "stoker"):
        meetings = [Meetings(str(tmp_path), Ranks(r, 2, 2, "test"), job, None) for r in range(2)]
        sessions = []
        for rank in range(2):
            monkeypatch.setattr(Meetings, "_count", 0)
            sessions.append(meetings[rank].meet("save", 10.0))
    assert sessions[0].token == sessions[1].token
    assert "_Limited cannot carry messages of ranks" in caplog.text
    assert len(list(tmp_path.glob(".meeting-*"))) == 1


@pytest.mark.parametrize("store", ["TCPStore", "FileStore", "HashStore", "PrefixStore"])
def test_stores_of_torch_have_what_is_needed(tmp_path: Path, server: Any, store: str) -> None:
    made = {
        "TCPStore": lambda: server,
        "FileStore": lambda: distributed.FileStore(str(tmp_path / "store"), 1),
        "HashStore": distributed.HashStore,
        "PrefixStore": lambda: distributed.PrefixStore("a", distributed.PrefixStore("b", server)),
    }[store]()
    carrier = StoreCarrier(made)
    assert carrier.why_unusable(60.0) == ""
    carrier.close()


def test_a_store_that_has_ended_fails_what_waits_for_it_at_once(tmp_path: Path) -> None:
    server = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    client = distributed.TCPStore("127.0.0.1", server.port, is_master=False)
    carrier = StoreCarrier(client)
    assert carrier.why_unusable(60.0) == ""
    del server
    meetings = Meetings.__new__(Meetings)
    meetings._directory, meetings._ranks = str(tmp_path), Ranks(1, 2, 2, "test")
    meetings._key, meetings._entered = "k", _native.MeetingAttempts()
    meetings.notices = _native.WaitNotices(5.0)
    with pytest.raises(OSError, match=r"torch\.distributed's store has failed"):
        meetings._meet_by(carrier, "save", 1000.0)
    carrier.close()
