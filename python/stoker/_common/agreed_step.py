"""Several ranks agree on a step at which all of them do something, without a collective.

Ranks run at different speeds, and none may have passed the step that is named. One round:

1. A rank that wants the step posts ``request`` on the board of the ranks. Any rank may.
2. A thread of each rank looks at the board a few times a second. When it finds the request, it
   fixes a *bound*: a step that the loop of its rank has not reached. From then on, the loop does
   not pass its bound before it knows the decision: ``reached(bound)`` waits. The thread posts the
   bound as the rank's answer.
3. Rank 0 waits for the answers of all ranks, and posts the largest bound as the ``decision``.
4. Each rank reads the decision. Its loop continues, and ``reached(decision)`` is True.
5. A rank that has no decision in time posts "no" as the decision, and so does rank 0 if it sees
   that a process has ended. A text on the board never changes, so what was posted first holds for
   all: they stop at one step, or none does. After a "no" all loops continue, and a later request
   starts another round.

No rank passes the decision: until it has read it, its step is at most its bound, and the decision
is the largest bound. No rank waits for the loop of another, only for threads, so a loop that waits
at its bound while others wait for it in a collective is no deadlock. If the board itself is lost,
each rank gives up on its own: a rank that has read the decision then stops alone, and its save
fails as it does whenever a rank is missing.
"""

from __future__ import annotations

import contextlib
import math
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable

from stoker._common.boards import Board, mark_key
from stoker._common.process_mark import is_gone
from stoker._common.ranks import Ranks

_NO = "no: "
_LOOK_SECONDS = 0.2  # between two looks for a request; more if there are many ranks
_LOOK_SECONDS_MAX = 1.0
_LOOKS_PER_SECOND_ALL = 1000  # that the board has to serve
_ROUND_PART = 0.1  # of that time between two looks in a round
_LEAD_STEPS_MAX = 1000
_RANK_0_FIRST_SECONDS = 0.5  # only rank 0 knows who is missing, so it gives up first
_LOST_SECONDS = 2.0  # between two tries of a lost board; a loop waits as much longer for it
_JOIN_SECONDS = 2.0


class AgreedStep:
    """Agrees with the other ranks on steps. All ranks create it, and call ``reached`` alike.

    Thread safety: ``reached`` is for one thread, the training loop. Any thread, and a signal
    handler, may call ``ask``. A thread of this object calls the callbacks, or the loop does if that
    thread is stuck; the loop does not pass its bound before they return.

    Args:
        board: Where the ranks post, and have posted their marks; of this object alone.
        ranks: Which of them this is.
        within: Seconds in which a round must end.
        on_agreed: Called with the step and the request's reason.
        on_refused: Called with the request's reason and why no step was agreed on.
        look: Called a few times a second; returns a reason to ask, or "".
        is_ahead: Whether the step is some steps ahead, so that no loop waits at its bound.
            Otherwise it is the next step of the fastest rank.
        is_once: Whether one agreed step is all: the board is not looked at afterwards.
    """

    def __init__(
        self,
        board: Board,
        ranks: Ranks,
        *,
        within: float,
        on_agreed: Callable[[int, str], None],
        on_refused: Callable[[str, str], None],
        look: Callable[[], str] = str,
        is_ahead: bool = False,
        is_once: bool = False,
    ) -> None:
        self._board, self._ranks, self._within = board, ranks, within
        self._on_agreed, self._on_refused = on_agreed, on_refused
        self._look, self._is_ahead, self._is_once = look, is_ahead, is_once
        self._interval = min(
            max(_LOOK_SECONDS, ranks.world_size / _LOOKS_PER_SECOND_ALL), _LOOK_SECONDS_MAX
        )
        # put() of this queue may be called in a signal handler.
        self._asked: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._lock = threading.Lock()  # guards the next six
        self._step, self._calls = -1, 0
        self._agreed: deque[int] = deque()  # steps that the loop has not reached
        self._bound: int | None = None  # in a round
        self._is_ending = False
        self._limit: float = math.inf  # the first of these: below it, reached() has nothing to do
        self._is_settled = threading.Event()
        self._is_closed = False
        self._round, self._steps_per_second, self._is_lost = 1, 0.0, False  # of the thread
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._run, name="stoker-agreed-step", daemon=True)
        self._thread.start()

    def ask(self, reason: str) -> None:
        """Asks all ranks for a step. Returns at once; one callback follows."""
        self._asked.put(reason)

    def reached(self, step: int) -> bool:
        """Whether an agreed step is reached: True once for each, on all ranks at the same step.

        Call it with every step, in order. Waits only if a round is open and the step is the bound.
        """
        with self._lock:
            self._step = step
            self._calls += 1
            if step < self._limit:
                return False
        return self._at_limit(step)

    def _at_limit(self, step: int) -> bool:
        while True:
            with self._lock:
                if self._agreed and step >= self._agreed[0]:
                    while self._agreed and step >= self._agreed[0]:
                        self._agreed.popleft()
                    self._set_limit()
                    return True
                if self._bound is None or step < self._bound:
                    return False
            if not self._is_settled.wait(self._within + _RANK_0_FIRST_SECONDS + _LOST_SECONDS):
                self._end_round("", f"{_NO}the other ranks cannot be reached")

    def _set_limit(self) -> None:
        bounds = [*list(self._agreed)[:1], *([] if self._bound is None else [self._bound])]
        self._limit = min(bounds, default=math.inf)

    def close(self) -> None:
        """Ends the thread: this rank answers no request from now on, and no callback follows.

        Does nothing in a forked child.
        """
        if os.getpid() != self._process:
            return
        self._is_closed = True
        self._asked.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join(_JOIN_SECONDS)
        if not self._thread.is_alive():
            self._board.close(self._ranks.rank, self._ranks.world_size)

    # The thread:

    def _run(self) -> None:
        try:
            while (reason := self._next_request()) is not None:
                if self._try_round(reason) and self._is_once:
                    return
        finally:
            self._end_round("", f"{_NO}this rank takes no part any more")

    def _next_request(self) -> str | None:
        """Returns the reason if this rank asks, or "" to look at the board; None to end."""
        with self._lock:
            before, begin = self._calls, time.monotonic()
        try:
            return self._asked.get(timeout=_LOST_SECONDS if self._is_lost else self._interval)
        except queue.Empty:
            with self._lock:
                steps = self._calls - before
            self._steps_per_second = steps / (time.monotonic() - begin)
            return self._look()

    def _try_round(self, reason: str) -> bool:
        """Takes part in a round, if there is one; returns whether a step was agreed on."""
        try:
            if reason:
                asked = self._board.post(self._key("request"), reason)
            else:
                found = self._board.read_all([self._key("request")])
                self._is_lost = False
                if found is None:
                    return False
                asked = found[0]
            self._begin_round()
            decision = self._decision()
        except (OSError, ValueError) as error:
            self._is_lost = True
            if not self._end_round(reason, f"{_NO}{error}") and reason:
                self._on_refused(reason, str(error))
            return False
        if decision is None:
            return False  # close() was called
        self._round += 1
        self._end_round(asked, decision)
        return not decision.startswith(_NO)

    def _begin_round(self) -> None:
        with self._lock:
            lead = int(self._steps_per_second * 2 * self._interval) if self._is_ahead else 0
            last = max([self._step, *self._agreed])
            self._bound = last + 1 + min(lead, _LEAD_STEPS_MAX)
            self._is_settled.clear()
            self._set_limit()

    def _decision(self) -> str | None:
        """Answers, and returns the decision; None if ``close`` was called."""
        begin, next_call = time.monotonic(), self._interval
        self._board.post(self._key(f"answer-{self._ranks.rank}"), str(self._bound))
        key = self._key("decision")
        while (found := self._board.read_all([key])) is None:
            waited = time.monotonic() - begin
            mine = self._try_decide(waited, is_call=waited >= next_call)
            if mine and self._board.post(key, mine):
                continue
            if waited >= next_call:
                next_call = waited + self._interval
            with contextlib.suppress(queue.Empty):
                if self._asked.get(timeout=self._interval * _ROUND_PART) is None:
                    return None
        if not found[0].startswith(_NO) and not found[0].isdecimal():
            raise ValueError(f"not a step: {found[0]!r}")
        return found[0]

    def _try_decide(self, waited: float, *, is_call: bool) -> str:
        """Returns the decision if this rank can make one, else "".

        ``is_call``: whether to look who is missing, which is a question to the board for each rank.
        """
        if self._ranks.rank > 0:
            if waited >= self._within + _RANK_0_FIRST_SECONDS:
                return f"{_NO}rank 0 did not answer within {self._within:g} s"
            return f"{_NO}rank 0 has ended" if is_call and self._is_gone(0) else ""
        keys = [self._key(f"answer-{rank}") for rank in range(self._ranks.world_size)]
        answers = self._board.read_all(keys)
        if answers is not None:
            return str(max(map(int, answers)))
        is_late = waited >= self._within
        if not is_call and not is_late:
            return ""
        silent = [rank for rank, key in enumerate(keys) if not self._board.read_all([key])]
        if gone := [rank for rank in silent if self._is_gone(rank)]:
            return f"{_NO}rank {gone[0]} has ended"
        if not is_late or not silent:
            return ""
        more = f" (nor did {len(silent) - 1} others)" if len(silent) > 1 else ""
        return f"{_NO}rank {silent[0]} did not answer within {self._within:g} s{more}"

    def _is_gone(self, rank: int) -> bool:
        marks = self._board.read_all([mark_key(rank)])
        return marks is not None and is_gone(marks[0])

    def _end_round(self, asked: str, decision: str) -> bool:
        """Calls back, then lets the loop continue. False if no round is open."""
        with self._lock:
            if self._bound is None or self._is_ending:
                return False
            self._is_ending, bound = True, self._bound
        # A smaller step is one that this rank has passed, after it could not reach the board.
        is_agreed = not decision.startswith(_NO) and int(decision) >= bound
        try:
            if is_agreed:
                self._on_agreed(int(decision), asked)
            elif not self._is_closed:
                self._on_refused(asked, decision.removeprefix(_NO))
        finally:
            with self._lock:
                self._bound, self._is_ending = None, False
                if is_agreed:
                    self._agreed.append(int(decision))
                self._set_limit()
            self._is_settled.set()
        return True

    def _key(self, name: str) -> str:
        return f"{self._round}-{name}"
