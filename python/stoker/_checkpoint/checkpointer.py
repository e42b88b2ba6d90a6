"""stoker.Checkpointer: saves the state of a run in the background, and restores it exactly."""

from __future__ import annotations

import logging
import os
import time
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from stoker._checkpoint.attempt import Attempt, Wanted
from stoker._checkpoint.device.cuda import (
    check_capture,
    check_streams,
    follow,
    has_cuda,
    streams_of,
)
from stoker._checkpoint.listing import Listing
from stoker._checkpoint.ranks.due import DueTime
from stoker._checkpoint.ranks.job import Meetings, find_job, job_text
from stoker._checkpoint.ranks.job_board import open_board
from stoker._checkpoint.ranks.together import choose_together, refuse_together
from stoker._checkpoint.restored import Restored, StepWatch, check_reference
from stoker._checkpoint.save.pending import Pending
from stoker._checkpoint.save.place import refuse_place
from stoker._checkpoint.save.writer import Encoded, Progress, Writer, end_with_worker
from stoker._checkpoint.settings import (
    check_allow,
    check_device,
    check_disks,
    check_loader,
    check_only,
    check_verify,
    make_settings,
    make_snapshots,
    name_of,
    numbers_of,
    step_number,
)
from stoker._checkpoint.state.names import (
    EmptyTrees,
    check_any,
    check_named,
    check_names,
    check_slips,
    settings_of,
)
from stoker._checkpoint.state.parameters import ParameterNames
from stoker._checkpoint.state.rng import with_rng
from stoker._checkpoint.state.tree import TreeEncoder
from stoker._common.durations import parse_duration
from stoker._common.late import telling_late
from stoker._common.numbers import whole_number
from stoker._common.paths import path_text
from stoker._common.ranks import find_ranks
from stoker._common.unknown_arguments import refuse_arguments
from stoker._common.users import UsersError

if TYPE_CHECKING:
    from typing_extensions import Never

_log = logging.getLogger("stoker")
_STEPS_TOLD = 10
_gather = True  # for benchmarks: whether small tensors on a device are gathered there first
_kill_at = ("", 1)  # for tests: a crash point, and at which occurrence the process is killed


class Checkpointer(Listing):
    """Saves and restores checkpoints in one directory.

    ``save`` copies the state and returns; a thread writes it, checks it and makes it durable.
    Nothing is pickled. The error of a save is raised once by the next ``save``, ``wait`` or
    ``close``, and by every call of its own pending; errors that were never raised are printed at
    exit. Several threads, and callbacks of saves, may call ``save`` and ``restore``: the calls are
    serialized. With several ranks, all must make the same calls in the same order.

    Args:
        path: The directory; created by the first save.
        keep_last: Keep this many of the newest checkpoints. Without any keep rule, all are kept.
        keep_every: Keep steps that are multiples of this number.
        keep_best: (metric, "min" or "max", count): keep the best by an annotated value, or else by
            the ``reference`` value of that name. Checkpoints without a value are left to the other
            two rules; if neither is given, they are kept.
        late: What ``save`` does while ``in_flight`` saves are in progress: "block", "skip", or
            "replace" the one that waits.
        in_flight: How many saves may be in progress, each with its copy of the state.
        memory_bytes: Memory for all those copies. Larger states are saved in pieces.
        stage: Where ``save`` copies tensors of CUDA devices to. "host": to the host. "device": into
            free memory of their device, which takes milliseconds; they are copied to the host while
            the training continues. "auto": the same from the third save on, in memory that the
            training has not needed so far. What does not fit is copied to the host.
        device_memory: Memory for that on each device: "8GB". None: what is free.
        rate_limit: Maximum number of bytes per second: "500MB". None for no limit.
        lock: What the first save does while another process writes here: "wait", "fail", or a time;
            it waits until its ``deadline`` at most.
        lock_ttl: A writer on another machine that gives no sign of life for this long is considered
            dead.
        dedup: Whether unchanged files are linked instead of written.
        deadline: Time limit of one save.
        close_timeout: How long ``close`` and the end of the program wait for saves.
        rank: Number of this process among ``world_size`` that save and restore together, each its
            own state, by the same calls in the same order, in a directory that all can access. If a
            rank is missing or fails, the save fails on every rank, by the deadline, with an error
            that names it.
        world_size: Number of ranks. Both are detected as by a Loader if not given.
        job: A text that is the same on all ranks of this start, and new for every start. Only
            needed if nothing else says which processes belong together: no torch.distributed, no
            launcher's variables and no common parent process.
        disks: "shared": the path names one directory, which all ranks can access. "private": it
            names another directory on each node, on a disk of its own. Every node then stores what
            its ranks save, and a checkpoint counts if all nodes have it. Needs torch.distributed.
        meeting: A directory that all ranks can write to, where they agree by small files. Only
            needed without torch.distributed, for a restore if they cannot write to ``path``, and
            for ``due(every=)``. On one machine it is found automatically.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        keep_last: int | None = None,
        keep_every: int | None = None,
        keep_best: tuple[str, Literal["min", "max"], int] | None = None,
        late: Literal["block", "skip", "replace"] = "block",
        in_flight: int = 1,
        memory_bytes: int | str | None = None,
        stage: Literal["auto", "host", "device"] = "auto",
        device_memory: int | str | None = None,
        rate_limit: int | str | None = None,
        lock: Literal["wait", "fail"] | float | str = "wait",
        lock_ttl: float | str = "60s",
        dedup: bool = True,
        deadline: float | str = "30min",
        close_timeout: float | str = "10min",
        rank: int | None = None,
        world_size: int | None = None,
        job: str | None = None,
        disks: Literal["shared", "private"] = "shared",
        meeting: str | os.PathLike[str] | None = None,
        **unknown: Never,
    ) -> None:
        refuse_arguments(unknown, Checkpointer)
        settings = make_settings(
            keep=(keep_last, keep_every, keep_best),
            late=(late, in_flight, memory_bytes),
            rate_limit=rate_limit,
            lock=(lock, lock_ttl),
        )
        settings.dedup, settings.deadline = dedup, parse_duration(deadline, "deadline")
        settings.kill_at, settings.kill_count = _kill_at
        settings.gather = _gather
        snapshots = make_snapshots(stage, device_memory)
        settings.has_private_disks = check_disks(disks)
        self._ranks = find_ranks(rank, world_size, who="checkpointer")
        settings.job = job_text(job)
        self._close_timeout = parse_duration(close_timeout, "close_timeout")
        if not (given := path_text(path)):
            raise ValueError('an empty name names no directory: "." is this one')
        if "://" in given:  # a local directory of that name would be created
            raise ValueError(f"{given}: checkpoints are saved to directories, not to URIs")
        whole = os.path.abspath(given)  # noqa: PTH100 (the working directory may change later)
        refuse_place(whole)
        self._deadline = settings.deadline
        place = None if meeting is None else os.path.abspath(path_text(meeting))  # noqa: PTH100
        found = find_job(self._ranks, job)
        self._meetings = Meetings(
            whole, self._ranks, found, place, is_private=settings.has_private_disks
        )
        board = partial(open_board, found, self._ranks, "due", place, self._meetings.store)
        self._due = DueTime(self._ranks, board)
        self._writer = Writer(whole, settings, self._ranks, self._meetings, snapshots)
        super().__init__(whole, self._writer.in_flight, _kill_at)
        weakref.finalize(self, self._meetings.end)  # they run in reverse order
        self._end = weakref.finalize(self, self._writer.close_at_end, self._close_timeout)
        end_with_worker(self._end)
        weakref.finalize(self, self._due.close)
        self._empty, self._steps = EmptyTrees(self._ranks.rank), StepWatch()

    # Saving:

    def save(
        self,
        step: int,
        *unnamed: Any,
        loader: Any = None,
        reference: dict[str, Any] | None = None,
        extra: Any = None,
        only: Literal["trainable"] | None = None,
        streams: Iterable[Any] | None = None,
        **trees: Any,
    ) -> Pending:
        """Saves a step. The state has been copied on return and may change.

        Tensors on CUDA devices are read after the work that the current stream of their device has,
        and before work that it gets later.

        Several threads may call this; their saves are serialized.

        Args:
            step: Number of the step, from 0.
            unnamed: Nothing: give trees by name, ``save(step, model=model)``.
            loader: An object with ``state_dict()``: its position is committed with the state.
            reference: Numbers to compare a resumed run with: ``{"loss": 2.31}``.
            extra: Any JSON value, for people: ``{"git": "abc"}``.
            only: "trainable": torch modules are saved without the parameters that have no gradient,
                as for LoRA. A fingerprint of those is saved, and compared by ``restore``. A module
                without any other parameters, such as an average of the weights, is saved whole.
            streams: Other CUDA streams that write to the state, or will: as the current streams.
            trees: The state, by any names: dicts, lists, tuples, numbers, str, bytes, None, arrays,
                torch tensors, modules and optimizers. ``rng=True`` saves the states of the
                global random generators of Python, NumPy and torch, on each rank.

        Raises:
            TypeError: A value in a tree cannot be saved; names its place.
            ValueError: Another rank's state cannot be saved; names the rank and the reason.
            FileExistsError: This run has saved that step already.
            LateError: Another writer has the lock, or a rank did not answer in time.
            OSError: No space, no permission, or an earlier save failed.
        """

        def encode() -> Encoded:
            check_named("save(step, model=model)", step, unnamed)
            number = step_number(step)
            check_loader(loader, "state_dict")
            check_names(trees, SETTINGS)
            check_slips("save()", trees, SETTINGS)
            made = self._encoded(with_rng(trees), loader, reference, extra, only, streams)
            self._empty.tell(number, trees)
            return made

        return self._save(step, encode)

    def _save(self, step: int, encode: Callable[[], Encoded]) -> Pending:
        """Saves what ``encode`` returns; what it raises is an error on all ranks."""
        called = time.monotonic()
        self._writer.check_process()
        with self._writer.turns.take():
            with self._writer.refusing(step):
                made = encode()
                number = step_number(step)
            if self._ranks.rank == 0:
                self._steps.saved(number)
            return self._writer.save(number, made, called)

    def _encoded(
        self,
        trees: dict[str, Any],
        loader: Any = None,
        reference: dict[str, Any] | None = None,
        extra: Any = None,
        only: Literal["trainable"] | None = None,
        streams: Iterable[Any] | None = None,
    ) -> Encoded:
        """Returns what ``save`` saves; trees may have any names here."""
        given = check_streams(streams)
        check_capture()
        follow(given)
        names = ParameterNames(trees)
        encoder = TreeEncoder(
            parameters=names,
            is_trainable_only=check_only(only),
            is_one_of=self._ranks.world_size > 1,
            has_cuda=has_cuda(),
        )
        keyed = {name: names.keyed(tree, name) for name, tree in trees.items()}
        state = encoder.encode_all(keyed)
        cursor = "null"
        if loader is not None and self._ranks.rank == 0:  # the same position on all ranks
            cursor = encoder.encode(loader.state_dict(), "loader")
        note = TreeEncoder(arrays=False).encode(extra, "extra")
        numbers = numbers_of(reference)
        check_any(trees, loader)
        handles = streams_of((m.device for m in encoder.tensors.values()), given)
        tensors = encoder.tensors, encoder.slices, encoder.per_rank
        return Encoded(tensors, (state, note, cursor), numbers, handles)

    def due(
        self, step: int, *, every_steps: int | None = None, every: float | str | None = None
    ) -> bool:
        """Whether to save now: at multiples of a number of steps, or after a time, "30min".

        A step that was just saved or restored is not due. All ranks get the same answer. With
        ``every``, rank 0's clock decides, and the ranks agree on a step a little later, without a
        collective: each must call this with every step, in order, from the first one on. In one
        process, ``every`` stays due until a save was begun. With micro-batches, ask only if
        ``batch.last``.

        Raises:
            ValueError: ``every`` with ranks on several machines that use neither torch.distributed
                nor ``meeting=``.
        """
        if every_steps is None and every is None:
            raise ValueError("due: every_steps=1000, or every='30min', or both")
        if isinstance(every, int):
            raise ValueError(
                f"due: every= is a time, '30min': for a number of steps, give every_steps={every}"
            )
        step = step_number(step)
        if every_steps is not None:
            every_steps = whole_number("every_steps", every_steps, 1)
        seconds = None if every is None else parse_duration(every, "every")
        self._writer.in_flight()  # registers a save in which a signal handler raised
        is_time = False
        if seconds is not None:
            if self._ranks.world_size > 1:
                self._writer.check_process()
            is_time = self._due.is_due(step, seconds, self._writer.last_time)
        if step == self._writer.last_step:
            return False
        return is_time or (every_steps is not None and step > 0 and step % every_steps == 0)

    def wait(self, timeout: float | None = None) -> None:
        """Waits for all saves; raises an error that was not raised yet, or LateError."""
        self._writer.check_process()
        if not self._end.alive:
            raise ValueError("this Checkpointer is closed")
        self._writer.wait(timeout)

    def progress(self) -> Progress:
        """Returns the progress of the save that is being written."""
        return self._writer.progress()

    # Restoring:

    def restore(
        self,
        step: int | str | None = "latest",
        *unnamed: Any,
        loader: Any = None,
        allow: Iterable[str] = (),
        finite: bool = False,
        partial: bool = False,
        strict: bool = True,
        verify: Literal["during", "before"] = "during",
        device: Any = None,
        **trees: Any,
    ) -> Restored | None:
        """Restores the newest valid checkpoint; logs and skips damaged ones.

        Arrays and tensors are filled in place, after a check: nothing is changed if a type or shape
        differs, or if a tree has something that was not saved. The rest of each tree is set to its
        saved value. A saved tree or loader that is not named here is left out, with a warning. Each
        of several ranks gets what it saved, all from the same checkpoint; another number of ranks
        can restore only what was saved as a ``stoker.Slice``, or is the same on all ranks.

        Args:
            step: The number or name of a checkpoint to restore instead of the newest.
            unnamed: Nothing: give trees by name, ``restore(model=model)``.
            loader: An object with ``load_state_dict()``, which continues at the saved position. A
                ``stoker.Loader`` counts its ``steps()`` from the restored step.
            allow: What may differ between the saved loader and this one, as for
                ``Loader.load_state_dict``: ``{"global_batch_size"}``.
            finite: Skip checkpoints with new values that are not finite.
            partial: Whether trees that are not named are left out on purpose: no warning.
            strict: Whether all names must be equal. False: what was not saved keeps its value, and
                what a module or an optimizer does not have is left out; ``missing`` and
                ``unexpected`` of the result list them. Shapes and types must be equal anyway.
            verify: "during": arrays are verified while they are filled. "before": all bytes are
                read and verified before anything is changed, which takes memory for a second copy.
            device: A device of torch: "cpu". Parameters and buffers of modules that are on meta get
                memory there, and are filled. Others stay where they are.
            trees: As they were given to ``save``. None: a new tree is created, in ``trees`` of the
                result. ``rng=True`` sets the global random generators, last of all; a rank that was
                not in the saved run gets a state computed from the saved seed and its number.

        Returns:
            The restored step, or None if there is no checkpoint.

        Raises:
            ValueError: A tree does not fit; names the place.
            CursorMismatch: The loader is that of another run; the message has every difference.
            CorruptError: There are checkpoints, but none is valid. Has ``path``, ``offset`` and
                ``tensor`` of the first damage that it names.
            LateError: A rank did not answer in time.
        """
        step = "latest" if step is None else step
        self._writer.check_process()
        with self._writer.turns.take():
            self._writer.await_all(None)
            self._writer.await_holder()
            try:
                check_named("restore(model=model)", step, unnamed)
                check_names(trees, SETTINGS)
                check_slips("restore()", trees, SETTINGS)
                check_verify(verify)
                check_device(device)
                wanted = Wanted(
                    with_rng(trees),
                    loader,
                    check_allow(allow, loader),
                    partial,
                    is_strict=strict,
                    is_staged=verify == "before",
                    device=device,
                )
                name = "" if step == "latest" else name_of(step)
                seen = self._writer.what_is_there()
            except Exception as error:  # the other ranks would wait for this one
                refuse_together(error, self.path, self._ranks, self._meetings, self._deadline)
            done, damaged = self._restore(name, finite, wanted)
            if done is None:
                _log.info("no checkpoints in %s: nothing was restored", self.path)
                return None
            _log.info("restored step %d from %s", done, done.source)
            self._writer.release((int(done), done.generation, done.line), damaged, seen)
            self._writer.last_step, self._writer.last_time = int(done), time.monotonic()
            self._steps.restored(int(done))
            return done

    def _restore(
        self, name: str, finite: bool, wanted: Wanted
    ) -> tuple[Restored | None, list[int]]:
        """Returns what was restored, and the generations of damaged checkpoints."""
        self._writer.await_all(None)
        attempt = partial(Attempt, wanted=wanted, ranks=self._ranks)
        try:
            with telling_late():
                (chosen, passed_over, damaged), made = choose_together(
                    self.path, (name, finite), attempt, self._ranks, self._meetings, self._deadline
                )
        except UsersError as users:
            error = users.error  # raised below, outside the context of ours
        except Exception as raised:
            wanted.tell_in(raised)
            if not name or not isinstance(raised, FileNotFoundError) or not raised.strerror:
                raise
            if os.path.isdir(self.path):  # noqa: PTH112
                there = ", ".join(map(str, self.steps()[-_STEPS_TOLD:]))
                raised.strerror += f"; existing steps: {there}" if there else ""
                raise
            error = FileNotFoundError(f"no checkpoints in {self.path}: there is no such directory")
        else:
            if not chosen:
                return None, damaged
            return made.finish(f"{self.path}/{chosen}", passed_over), damaged
        raise error

    def check(self, done: Restored | None, *, rtol: float = 1e-3, **values: Any) -> None:
        """Compares numbers of a resumed run with those saved as ``reference``.

        Does nothing if nothing was restored.

        Raises:
            ReferenceMismatch: A number differs by more than ``rtol``, relative to its value.
        """
        check_reference(done, values, rtol)

    # The end:

    def close(self, timeout: float | None = None) -> None:
        """Waits for all saves and releases the lock; raises an error that was not raised yet."""
        if self._writer.turns.is_closed:
            return
        self._writer.check_process()
        try:
            self._writer.close(self._close_timeout if timeout is None else timeout)
        finally:
            if self._writer.turns.is_closed:  # not after Ctrl-C during the wait
                self._end.detach()
                self._due.close()
                self._meetings.close()

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._writer.is_here:  # a forked child must not close the parent's checkpointer
            self.close()

    def __repr__(self) -> str:
        state = ", closed" if self._writer.turns.is_closed else ""
        return f"<stoker.Checkpointer {self.path!r}{state}>"


# Names that trees cannot have.
SETTINGS = settings_of(
    {
        "Checkpointer()": Checkpointer.__init__,
        "save()": Checkpointer.save,
        "restore()": Checkpointer.restore,
    }
)
