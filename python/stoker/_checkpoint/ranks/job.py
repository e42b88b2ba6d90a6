"""Finds which processes are the ranks of one job, and where they meet."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
import stat
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stoker import _native
from stoker._checkpoint.ranks.store_carrier import StoreCarrier
from stoker._common.late import LateError
from stoker._common.process_mark import is_gone, process_mark
from stoker._common.ranks import LAUNCHERS, Ranks

# Variables that a launcher sets to the same values on all ranks of one start, and usually only
# there.
_TORCHRUN = ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT")
_START_VARIABLES = {
    "RANK": _TORCHRUN,
    "SLURM_PROCID": ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"),
    "OMPI_COMM_WORLD_RANK": ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
}
_LOOPBACK = ("localhost", "127.", "::1")
_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)
_FULL = (errno.ENOSPC, errno.EDQUOT)
_STORE_POLL_SECONDS, _STORE_POLL_MAX_SECONDS = 0.001, 0.1
_TOLD_AFTER_SECONDS = 5.0
_PRIVATE = (
    'disks="private": {}, and without a directory that all share they cannot agree. Call '
    "torch.distributed.init_process_group() first, or give meeting=, a directory that all ranks "
    "can write to"
)
PURPOSES = ("save", "restore")  # for which ranks meet
_log = logging.getLogger("stoker")


class JobConflict(RuntimeError):  # noqa: N818 (as CursorMismatch)
    """Two jobs that cannot be distinguished use one directory at once; the message names both.

    Give each its own directory, or the same ``job=`` to all ranks of a job.
    """


@dataclass(frozen=True)
class Job:
    """The job of this process.

    Attributes:
        name: The same on all its ranks, and on no others at this time.
        rank_variable: The launcher's variable with the rank; empty without a launcher.
        is_given: Whether the user has named the job, regardless of who started the ranks.
        is_local: Whether all ranks are known to be on this machine.
        by_store: Whether the ranks agree, and send messages, through torch.distributed's store.
    """

    name: str
    rank_variable: str = ""
    is_given: bool = False
    is_local: bool = False
    by_store: bool = False


def find_job(ranks: Ranks, job: str | None, environment: Mapping[str, str] = os.environ) -> Job:
    """Returns the job of one of several ranks.

    By ``job``; or torch.distributed; or the launcher's variables; or the process that started all
    ranks.

    Raises:
        ValueError: It is unknown which processes belong together.
    """
    if job is not None:
        if not isinstance(job, str) or not job:
            raise ValueError("job= is a text that all ranks of this start have, and no other start")
        return Job(f"job {job}", _rank_variable(ranks, environment), is_given=True)
    if ranks.world_size == 1:
        return Job("alone")
    if _is_distributed(ranks):
        return Job("torch.distributed", by_store=True)
    variable = _rank_variable(ranks, environment)
    told = [environment.get(name, "") for name in _START_VARIABLES.get(variable, ())]
    launcher = _native.find_launcher(variable)
    is_local = ranks.local_world_size == ranks.world_size or environment.get(
        "MASTER_ADDR", ""
    ).startswith(_LOOPBACK)
    if any(told):
        # Two machines may have equal variables; ranks on one machine have one launcher.
        place = launcher if is_local else ""
        return Job("\0".join([variable, *told, place]), variable, is_local=is_local)
    if not launcher:
        raise ValueError(
            f"{ranks.world_size} ranks, and nothing says which processes they are: no "
            "torch.distributed, no launcher's variables, no common parent process. Give job=, a "
            "text that is the same on all ranks of this start and new for every start"
        )
    return Job(f"started by {launcher}", variable, is_local=True)


def job_text(job: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """Returns a text for people who wait for this job's lock; may be empty."""
    return job or environment.get("SLURM_JOB_ID") or environment.get("TORCHELASTIC_RUN_ID") or ""


def _is_distributed(ranks: Ranks) -> bool:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return False
    return (ranks.rank, ranks.world_size) == (
        distributed.get_rank(),
        distributed.get_world_size(),
    )


def _rank_variable(ranks: Ranks, environment: Mapping[str, str]) -> str:
    """Returns the variable of the launcher that set these numbers; empty if there is none."""
    numbers = (str(ranks.rank), str(ranks.world_size))
    for _, rank, world_size in LAUNCHERS:
        if (environment.get(rank), environment.get(world_size)) == numbers:
            return rank
    return ""


class Meetings:
    """Lets the ranks of a job meet, for one directory, each time they have to agree.

    Their messages go through torch.distributed's store, if it is used and no directory is given for
    them; else they are files.

    Attributes:
        is_private: Whether the directory is another one on each node: they cannot meet there.
        store: The store of torch.distributed, if the ranks use it; None after ``close``.
    """

    _count = 0  # tokens through torch.distributed in this process: the same on every rank
    _met = 0  # objects of this class that have met through the store: likewise

    def __init__(
        self,
        directory: str,
        ranks: Ranks,
        job: Job,
        meeting: str | None,
        *,
        is_private: bool = False,
    ) -> None:
        self._directory, self._ranks, self._job = directory, ranks, job
        self._place = meeting
        self.is_private = is_private
        if is_private and ranks.world_size > 1 and not job.by_store and meeting is None:
            raise ValueError(_PRIVATE.format("the ranks do not use torch.distributed"))
        self.notices = _native.WaitNotices(_TOLD_AFTER_SECONDS)
        self._attempts: dict[str, _native.MeetingAttempts] = {}  # failed ones, by word
        # The store of now: torch forgets it in destroy_process_group().
        self.store = distributed_store() if job.by_store else None
        self._carrier: StoreCarrier | None = None
        self._entered = _native.MeetingAttempts()
        self._process = os.getpid()
        self._key = ""  # of its meetings through the store, once there was one

    def meet(self, purpose: str, timeout: float) -> _native.Session:
        """Returns a session of all ranks; the purpose must be the same on each.

        Raises:
            LateError: A rank is missing; names it.
            JobConflict: Two processes claim one rank.
        """
        if self._place is not None:
            return self._meet_in(self._place, purpose, timeout, is_ours=False)
        if self._job.by_store:
            end = time.monotonic() + timeout
            carrier = self._usable_carrier(timeout)
            if carrier is not None:
                return self._meet_by(carrier, purpose, end - time.monotonic())
            timeout = max(0.0, end - time.monotonic())
        if self.is_private:
            kind = type(self.store).__name__
            raise ValueError(_PRIVATE.format(f"{kind} cannot carry messages of ranks"))
        try:
            return self._meet_in(self._directory, purpose, timeout, is_ours=True)
        except OSError as error:
            # A restore writes nothing else. A save needs the space anyway.
            if error.errno not in (_READ_ONLY if purpose == "save" else _READ_ONLY + _FULL):
                raise
            if not self._job.is_local:
                raise type(error)(
                    error.errno,
                    f"{error.strerror}. The ranks cannot meet there: give meeting=, a directory "
                    "that all of them can write to",
                ) from None
        return self._meet_in(runtime_directory(), purpose, timeout, is_ours=False)

    def set_key(self, key: str) -> None:
        """Names its meetings through the store, before the first one: the same on every rank."""
        self._key = key

    def close(self) -> None:
        """Lets go of the store, as soon as no session uses it. Does nothing in a forked child."""
        if os.getpid() == self._process:
            self.store = None
            if self._carrier is not None:
                self._carrier.close()

    def end(self) -> None:
        """``close``, but sessions that still wait for messages get none: the program ends."""
        self.close()
        if os.getpid() == self._process and self._carrier is not None:
            self._carrier.end()

    def _usable_carrier(self, timeout: float) -> StoreCarrier | None:
        """Returns the carrier of messages; None if this kind of store cannot carry them."""
        is_new = self._carrier is None
        if self._carrier is None:
            self._carrier = StoreCarrier(self.store)
        try:
            why = self._carrier.why_unusable(timeout)
        except TimeoutError as error:
            raise LateError(f"{error} in {self._directory}") from None
        if why and is_new:
            text = "%s: %s cannot carry messages of ranks: %s. They are files in the directory"
            _log.info(text, self._directory, type(self.store).__name__, why)
        return None if why else self._carrier

    def _meet_by(self, carrier: StoreCarrier, purpose: str, timeout: float) -> _native.Session:
        if not self._key:
            Meetings._met += 1
            self._key = f"stoker/ranks-{Meetings._met}"
        try:
            return _native.meet_by_carrier(
                carrier.native,
                (self._key, purpose, [other for other in PURPOSES if other != purpose]),
                os.fsencode(self._directory),
                (self._ranks.rank, self._ranks.world_size),
                max(0.0, timeout),
                self.notices,
                self._entered,
            )
        except FileExistsError as error:
            raise JobConflict(error.strerror) from None

    def _meet_in(
        self, place: str, purpose: str, timeout: float, *, is_ours: bool
    ) -> _native.Session:
        ranks = (self._ranks.rank, self._ranks.world_size)
        if self._job.by_store:
            token = self._token(purpose, timeout)
            return _native.enter_session(os.fsencode(place), token, ranks, self.notices)
        told = [self._job.name, purpose, str(self._ranks.world_size)]
        if not is_ours:  # other jobs meet there as well
            told.append(self._same_path())
        word = hashlib.blake2b("\0".join(told).encode(), digest_size=12).hexdigest()
        try:
            launcher = self._job.rank_variable, self._job.is_given
            attempts = self._attempts.setdefault(word, _native.MeetingAttempts())
            session = _native.meet_ranks(
                os.fsencode(place), word, launcher, ranks, timeout, self.notices, attempts
            )
            del self._attempts[word]
            return session
        except FileExistsError as error:
            raise JobConflict(error.strerror) from None

    def _same_path(self) -> str:
        """Returns a path that is the same on all ranks. Links may differ between private disks."""
        return self._directory if self.is_private else os.path.realpath(self._directory)

    def _token(self, purpose: str, timeout: float) -> str:
        """Rank 0 creates the token; the others read it from torch.distributed's store."""
        Meetings._count += 1
        key = f"stoker/{Meetings._count}"
        store = self.store
        mine = f"{purpose} {self._same_path()}"
        if store is None:
            raise ValueError("this Checkpointer is closed")
        if self._ranks.rank == 0:
            token = os.urandom(16).hex()
            store.set(key, "\0".join([token, process_mark(), mine]))
            return str(token)
        token, theirs = self._await_token(store, key, timeout)
        if theirs.split(" ", 1)[0] != purpose:
            raise ValueError(
                f"rank 0 does {theirs}, and rank {self._ranks.rank} does {mine}: every rank makes "
                "the same calls in the same order"
            )
        return str(token)

    def _await_token(self, store: Any, key: str, timeout: float) -> tuple[str, str]:
        """Returns the token, and what rank 0 does.

        torchrun keeps its store when it starts the ranks again: the token of a rank 0 that has
        ended belongs to an earlier start.
        """
        begin = time.monotonic()
        is_told = False
        while True:
            if store.check([key]):
                token, mark, theirs = store.get(key).decode().split("\0", 2)
                if not is_gone(mark):
                    return token, theirs
            waited = time.monotonic() - begin
            if waited >= timeout:
                raise LateError(f"rank 0 did not answer in time in {self._directory}")
            if waited >= _TOLD_AFTER_SECONDS and not is_told:
                is_told = True
                rank, world_size = self._ranks.rank, self._ranks.world_size
                text = "rank %d of %d waits for rank 0 in %s"
                _log.warning(text, rank, world_size, self._directory)
            # Not store.wait(), which prints warnings of its own.
            time.sleep(min(timeout - waited, waited + _STORE_POLL_SECONDS, _STORE_POLL_MAX_SECONDS))


def distributed_store() -> Any:
    """Returns the store of torch.distributed, which is initialized."""
    return sys.modules["torch.distributed"].distributed_c10d._get_default_store()


def runtime_directory() -> str:
    """Returns a directory of this user on this machine, for ranks that cannot write elsewhere."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    path = f"{runtime}/stoker" if runtime else f"/tmp/stoker-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)  # noqa: PTH102
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        found = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise PermissionError(
            errno.EACCES, f"{path}: not this user's own (mode 0700): give meeting=DIR"
        )
    return path
