"""Ranks of any speed agree on one step, on any board, and on none if one of them is gone."""

from __future__ import annotations

import datetime
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker._checkpoint.ranks import job as _job
from stoker._checkpoint.ranks import job_board as _job_board
from stoker._checkpoint.ranks.job import Job, JobConflict, Meetings
from stoker._checkpoint.ranks.job_board import open_board
from stoker._common import agreed_step as _agreed_step
from stoker._common.agreed_step import AgreedStep
from stoker._common.boards import Board, FileBoard, StoreBoard
from stoker._common.late import LateError
from stoker._common.process_mark import is_gone, process_mark
from stoker._common.ranks import Ranks

_WITHIN = 30.0  # a slow machine is no missing rank
_SHORT = 0.3
_ranks: list[Rank] = []  # closed after each test
_servers: list[Any] = []  # a board does not keep them alive


class Rank:
    """A rank in a thread of its own, and what it was told."""

    def __init__(self, board: Board, rank: int, world: int, **settings: Any) -> None:
        self.agreed: list[tuple[int, str]] = []
        self.refused: list[tuple[str, str]] = []
        self.heard = threading.Event()
        self.hits: list[int] = []
        options = {"within": _WITHIN, **settings}
        self.steps = AgreedStep(
            board,
            Ranks(rank, world, world, "test"),
            on_agreed=lambda *told: self._hear(self.agreed, told),
            on_refused=lambda *told: self._hear(self.refused, told),
            **options,
        )
        _ranks.append(self)

    def _hear(self, told: list[Any], what: tuple[Any, ...]) -> None:
        told.append(what)
        self.heard.set()

    def run(self, pause: Callable[[], float], until: int) -> None:
        """Steps on until it has hit this number of agreed steps."""
        step, wait = 0, threading.Event()
        while len(self.hits) < until:
            step += 1
            if self.steps.reached(step):
                self.hits.append(step)
            wait.wait(pause())


def files(folder: Path, world: int) -> list[Board]:
    return [FileBoard(str(folder / "board")) for _ in range(world)]


def stores(folder: Path, world: int) -> list[Board]:
    distributed = pytest.importorskip("torch.distributed")
    ten = datetime.timedelta(seconds=10)
    server = distributed.TCPStore("127.0.0.1", 0, is_master=True, timeout=ten)
    _servers.append(server)
    return [StoreBoard(distributed.PrefixStore("job", server), "x/") for _ in range(world)]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(_agreed_step, "_LOOK_SECONDS", 0.02)
    yield
    for rank in _ranks:
        rank.steps.close()
    _ranks.clear()
    _servers.clear()


def test_a_board_in_the_store_leaves_nothing_there_once_all_ranks_have_closed_it(
    tmp_path: Path,
) -> None:
    boards = stores(tmp_path, 3)
    before = _servers[-1].num_keys()
    ranks = [Rank(board, number, 3) for number, board in enumerate(boards)]
    ranks[1].steps.ask("now")
    for rank in ranks:
        assert rank.heard.wait(_WITHIN)
    assert _servers[-1].num_keys() >= before + 5, "a request, three answers, a decision"
    for rank in ranks[:2]:
        rank.steps.close()
    assert _servers[-1].num_keys() >= before + 5, "the third may still look"
    ranks[2].steps.close()
    assert _servers[-1].num_keys() == before


@pytest.mark.parametrize("boards", [files, stores])
@pytest.mark.parametrize("is_ahead", [False, True])
def test_ranks_of_different_speeds_hit_the_same_steps(
    tmp_path: Path, boards: Callable[[Path, int], list[Board]], is_ahead: bool
) -> None:
    world, rounds = 4, 4
    ranks = [
        Rank(board, rank, world, is_ahead=is_ahead)
        for rank, board in enumerate(boards(tmp_path, world))
    ]
    seeds = [random.Random(rank) for rank in range(world)]
    loops = [
        threading.Thread(
            target=rank.run,
            args=(lambda seed=seed, slow=number: 0.001 + seed.random() * 0.001 * slow, rounds),
        )
        for number, (rank, seed) in enumerate(zip(ranks, seeds, strict=True))
    ]
    for loop in loops:
        loop.start()
    for asking in range(rounds):
        for rank in ranks:
            rank.heard.clear()
        ranks[asking].steps.ask(f"round {asking}")
        assert all(rank.heard.wait(_WITHIN) for rank in ranks)
    for loop in loops:
        loop.join(_WITHIN)
        assert not loop.is_alive()
    for rank in ranks:
        assert rank.refused == []
        assert rank.hits == ranks[0].hits
        assert rank.agreed == [(step, f"round {n}") for n, step in enumerate(rank.hits)]
        rank.steps.close()
    assert not list(tmp_path.iterdir()), "nothing is left"


def test_a_loop_that_has_not_begun_stops_at_its_first_step(tmp_path: Path) -> None:
    ranks = [Rank(board, rank, 2) for rank, board in enumerate(files(tmp_path, 2))]
    ranks[1].steps.ask("early")
    assert all(rank.heard.wait(_WITHIN) for rank in ranks)
    assert [rank.steps.reached(1001) for rank in ranks] == [True, True]
    assert [rank.steps.reached(1002) for rank in ranks] == [False, False]


def test_a_rank_behind_continues_to_the_step_of_the_first(tmp_path: Path) -> None:
    ranks = [Rank(board, rank, 2) for rank, board in enumerate(files(tmp_path, 2))]
    assert not ranks[0].steps.reached(1)
    assert not ranks[1].steps.reached(500)
    ranks[0].steps.ask("now")
    assert all(rank.heard.wait(_WITHIN) for rank in ranks)
    assert ranks[0].agreed == ranks[1].agreed == [(501, "now")]
    assert [step for step in range(2, 510) if ranks[0].steps.reached(step)] == [501]
    assert ranks[1].steps.reached(501)


def test_who_needs_one_step_looks_no_more_afterwards(tmp_path: Path) -> None:
    ranks = [Rank(board, rank, 2, is_once=True) for rank, board in enumerate(files(tmp_path, 2))]
    ranks[0].steps.ask("now")
    for rank in ranks:
        rank.steps._thread.join(_WITHIN)
        assert not rank.steps._thread.is_alive()
        assert rank.agreed == [(0, "now")]
        assert rank.steps.reached(1)


def test_a_round_before_the_step_of_the_last_one_gives_a_later_step(tmp_path: Path) -> None:
    ranks = [Rank(board, rank, 2) for rank, board in enumerate(files(tmp_path, 2))]
    for rank in ranks:
        rank.steps.reached(5)
    for name in ("one", "two"):
        for rank in ranks:
            rank.heard.clear()
        ranks[1].steps.ask(name)
        assert all(rank.heard.wait(_WITHIN) for rank in ranks)
    for rank in ranks:
        assert rank.agreed == [(6, "one"), (7, "two")]
        assert [step for step in range(6, 10) if rank.steps.reached(step)] == [6, 7]


def test_steps_that_are_seldom_looked_at_are_not_missed(tmp_path: Path) -> None:
    ranks = [Rank(board, rank, 2) for rank, board in enumerate(files(tmp_path, 2))]
    assert [rank.steps.reached(10) for rank in ranks] == [False, False]
    ranks[0].steps.ask("now")
    assert all(rank.heard.wait(_WITHIN) for rank in ranks)
    assert [rank.steps.reached(20) for rank in ranks] == [True, True]


@pytest.mark.parametrize(("here", "missing"), [(0, 1), (1, 0)])
def test_without_an_answer_all_continue_and_the_rank_is_named(
    tmp_path: Path, here: int, missing: int
) -> None:
    rank = Rank(files(tmp_path, 1)[0], here, 2, within=_SHORT)
    rank.steps.reached(3)
    rank.steps.ask("SIGTERM")
    assert rank.heard.wait(_WITHIN)
    assert rank.refused == [("SIGTERM", f"rank {missing} did not answer within 0.3 s")]
    assert not rank.steps.reached(4)


@pytest.mark.parametrize(("here", "gone"), [(0, 1), (1, 0)])
def test_a_process_that_has_ended_is_not_waited_for(
    tmp_path: Path, here: int, gone: int, ended: str
) -> None:
    assert is_gone(ended)
    assert not is_gone(process_mark())
    assert not is_gone(f"another machine {process_mark()}")
    board = files(tmp_path, 1)[0]
    board.post(f"process-{gone}", ended)
    rank = Rank(board, here, 2)
    rank.steps.ask("SIGTERM")
    assert rank.heard.wait(_WITHIN / 2)
    assert rank.refused == [("SIGTERM", f"rank {gone} has ended")]


def test_a_rank_that_was_late_takes_part_in_the_next_round(tmp_path: Path) -> None:
    boards = files(tmp_path, 2)
    first = Rank(boards[0], 0, 2, within=_SHORT)
    first.steps.ask("one")
    assert first.heard.wait(_WITHIN)
    late = Rank(boards[1], 1, 2)
    assert late.heard.wait(_WITHIN)  # of the round that it missed
    assert late.refused == first.refused == [("one", "rank 1 did not answer within 0.3 s")]
    first.steps._within = _WITHIN
    late.heard.clear()
    late.steps.ask("two")
    assert late.heard.wait(_WITHIN)
    assert late.agreed == [(0, "two")]
    assert late.steps.reached(7)
    assert first.steps.reached(7)


def test_a_loop_waits_at_its_bound_for_the_decision(tmp_path: Path) -> None:
    """Rank 1 answers late: rank 0 must not have passed what rank 1's answer allows."""
    boards = files(tmp_path, 2)
    first = Rank(boards[0], 0, 2)
    first.steps.reached(5)
    first.steps.ask("now")
    results: list[bool] = []
    loop = threading.Thread(target=lambda: results.append(first.steps.reached(6)))
    while first.steps._bound is None:
        pass
    loop.start()
    second = Rank(boards[1], 1, 2)
    loop.join(_WITHIN)
    assert results == [True]
    assert second.steps.reached(6)


def test_a_board_that_is_lost_is_a_refusal_and_no_loop_hangs(tmp_path: Path) -> None:
    rank = Rank(files(tmp_path, 1)[0], 0, 2)
    (tmp_path / "board").rmdir()
    rank.steps.ask("SIGTERM")
    assert rank.heard.wait(_WITHIN)
    assert rank.refused[0][0] == "SIGTERM"
    assert "No such file" in rank.refused[0][1]
    assert not rank.steps.reached(1)


def test_a_store_that_has_ended_is_asked_no_more(capfd: pytest.CaptureFixture[str]) -> None:
    board = stores(Path(), 1)[0]
    board.post("k", "text")
    _servers.clear()
    with pytest.raises(ConnectionError):
        board.read_all(["k"])
    capfd.readouterr()  # torch says so, once
    for _ in range(2):
        with pytest.raises(ConnectionError, match="store"):
            board.read_all(["k"])
    assert capfd.readouterr().err == ""


@pytest.fixture
def ended() -> str:
    """The mark of a process that has ended."""
    program = "from stoker._common.process_mark import process_mark; print(process_mark())"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


@pytest.mark.parametrize("by_store", [False, True])
@pytest.mark.parametrize("left", [0, 1])
def test_a_start_after_a_crash_does_not_see_the_board_of_the_one_before(
    tmp_path: Path, left: int, by_store: bool, ended: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launcher is the same: so is torchrun's store, and so are the names of files."""
    if by_store:
        stores(tmp_path, 1)
        monkeypatch.setattr(_job_board, "distributed_store", lambda: _servers[0])
    job, ranks = Job("job", by_store=by_store), [Ranks(rank, 2, 2, "test") for rank in range(2)]

    def opened(rank: int) -> Board:
        monkeypatch.setattr(_job_board, "_counts", Counter())  # as another process
        return open_board(job, ranks[rank], "test", str(tmp_path))

    with monkeypatch.context() as patched:
        patched.setattr(_job_board, "process_mark", lambda: ended)
        opened(left).post("1-request", "of the crashed one")
    boards = opened(0), opened(1)
    assert [board.read_all(["1-request"]) for board in boards] == [None, None]
    boards[0].post("1-request", "new")
    assert boards[1].read_all(["1-request"]) == ["new"]


def test_a_session_of_a_rank_0_that_has_ended_is_not_entered(
    tmp_path: Path, ended: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restart by torchrun, whose store has the token of the attempt before."""
    stores(tmp_path, 1)
    monkeypatch.setattr(_job, "distributed_store", lambda: _servers[0])
    ranks = [Ranks(rank, 2, 2, "test") for rank in range(2)]
    first, second = (
        Meetings(str(tmp_path), rank, Job("torch.distributed", by_store=True), None)
        for rank in ranks
    )
    monkeypatch.setattr(Meetings, "_count", 0)
    with monkeypatch.context() as patched:
        patched.setattr(_job, "process_mark", lambda: ended)
        stale = first._token("save", 1.0)
    monkeypatch.setattr(Meetings, "_count", 0)
    with pytest.raises(LateError):
        second._token("save", 0.2)
    monkeypatch.setattr(Meetings, "_count", 0)
    token = first._token("save", 1.0)
    monkeypatch.setattr(Meetings, "_count", 0)
    assert second._token("save", 1.0) == token != stale


def test_another_process_of_the_same_rank_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(_job_board, "_counts", Counter())
        patched.setattr(_job_board, "process_mark", lambda: "another machine 12 34")
        open_board(Job("job"), Ranks(0, 2, 2, "test"), "test", str(tmp_path))
    monkeypatch.setattr(_job_board, "_counts", Counter())
    with pytest.raises(JobConflict, match="Give job="):
        open_board(Job("job"), Ranks(0, 2, 2, "test"), "test", str(tmp_path))


def test_ranks_on_several_machines_need_something_that_they_share() -> None:
    with pytest.raises(ValueError, match=r"init_process_group.*meeting="):
        open_board(Job("job"), Ranks(0, 2, 1, "test"), "test", None)


@pytest.mark.parametrize("boards", [files, stores])
def test_a_text_on_a_board_never_changes(
    tmp_path: Path, boards: Callable[[Path, int], list[Board]]
) -> None:
    one, other = boards(tmp_path, 2)
    assert one.read_all(["k"]) is None
    assert one.post("k", "first") == "first"
    assert other.post("k", "second") == "first"
    assert other.read_all(["k"]) == ["first"]
    assert other.read_all(["k", "missing"]) is None


def test_a_text_that_is_being_written_is_not_there_yet(tmp_path: Path) -> None:
    board = files(tmp_path, 1)[0]
    (tmp_path / "board" / "k").write_text("hal")
    assert board.read_all(["k"]) is None
    assert board.post("k", "other") == ""
