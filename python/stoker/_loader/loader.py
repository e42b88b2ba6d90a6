"""stoker.Loader: batches of a dataset, in native threads, resumable anywhere."""

from __future__ import annotations

import atexit
import html
import os
import weakref
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from stoker import _native
from stoker._common.numbers import whole_number
from stoker._common.progress import Progress, checked_epochs, figures_of
from stoker._common.ranks import find_ranks
from stoker._common.torch import torch_if_wanted
from stoker._common.unknown_arguments import refuse_arguments
from stoker._dataset.columns import ColumnMaker
from stoker._dataset.fields import Fields, columns_of
from stoker._dataset.shuffle import BlockShuffle
from stoker._dataset.sources import Data, Parts, check_fields, dataset_of, is_packed
from stoker._loader.cursors import State, state_of
from stoker._loader.device import placer_of
from stoker._loader.hints import HINTS
from stoker._loader.host_memory import Allocator, FreshMemory, allocator_of
from stoker._loader.iteration import OTHER_PROCESS
from stoker._loader.line import order_of
from stoker._loader.map.job import Collate, MapFunction
from stoker._loader.map.mapping import mapping_of
from stoker._loader.out import Out, batch_finisher
from stoker._loader.plan import LoaderPlan, Settings, Tail
from stoker._loader.runs import Runs
from stoker._loader.sampler import EpochSampler
from stoker._loader.stats import LoaderStats
from stoker._loader.steps import Steps

if TYPE_CHECKING:
    from typing_extensions import Never

_open: weakref.WeakSet[Loader] = weakref.WeakSet()


class Loader:
    """Batches of a dataset, made by native threads ahead of the caller.

    ``for batch in loader`` goes through the next ``epochs`` epochs. What comes when is a function
    of the arguments alone: it does not depend on the number of ranks, threads or workers, and a run
    that is resumed at any batch, on any number of ranks, goes on as if it had never stopped.

    Args:
        data: A Dataset, Tokens or Mixture, or the paths of shards.
        batch_size: Samples of a batch on each rank.
        global_batch_size: Instead: samples of a step over all ranks.
        shuffle: "global" (a uniform permutation; the default), "block" or a BlockShuffle (reads
            whole blocks of neighbours, for media that want it), "off", or "resampled" (with
            replacement). True is "global", False is "off".
        seed: Of the order, of ``map``'s random numbers, and of ``on_error="skip"``.
        epochs: How many one ``iter()`` runs through; None for endlessly many.
        total_epochs: How many there are in all, over every ``iter()`` and every restart of the
            program: no ``iter()`` goes beyond them. If not given, there is no end to them. With
            ``epochs=None`` one ``iter()`` runs through all that are left.
        tail: What becomes of the samples at an epoch's end that fill no batch: "drop" them (the
            default if shuffled), "keep" a short batch (the default if not), "wrap" round to the
            epoch's start, or "pad" likewise and mark what was filled in ``batch["__valid__"]``.
        fields: The columns: ``{"jpg": bytes, "cls": int, "meta": stoker.Json("box.x", float)}``.
            ``"jpg;jpeg;png"`` is the first of these fields that a sample has. A list of names: as a
            Dataset gives them, that is text as str, numbers as an array, other bytes as bytes. If
            not given, so is every field.
        memory_bytes: All memory for batches, on this machine: "8GiB". It is shared among the
            machine's ranks. If not given: 512 MiB, or what is needed if that is more.
        threads: Native threads; "auto" finds out from what the caller waits for.
        depth: Batches to prepare ahead; likewise.
        policy: How to treat the page cache: "automatic", "buffered", "direct" or "drop_behind".
        rank: Which part of each global batch this process has. If not given: ``mesh``'s, else that
            of torch.distributed, else of RANK and WORLD_SIZE, SLURM or Open MPI, else 0 of 1.
        world_size: How many parts there are. They divide the global batch.
        mesh: A dimension of a DeviceMesh: the data-parallel one.
        map: ``map(sample, rng)`` returns another sample, or None to leave this one out: another of
            the dataset then takes its place, chosen by the seed and the position. ``rng`` is a
            NumPy Generator that depends on the seed, the epoch and the sample's position alone; it
            is good for this call only.
        map_in: "thread", or "process" for functions that hold the GIL.
        map_workers: How many of these; as many as there are cores if not given.
        collate: ``collate(samples)`` makes the batch. If not given, arrays are stacked. It is not
            called for a rank's empty part of a last batch (``tail="keep"``), which is a Batch of no
            samples.
        on_error: "raise" at the batch of a sample that cannot be read; "skip" puts another one in
            its place, chosen by the seed and the position.
        order: An array of sample numbers instead of a shuffle, or a sampler that gives one each
            epoch.
        out: Arrays or tensors to fill, by column; or a list of such dicts, used in turn.
        pin_memory: Whether a batch's tensors are in a new piece of page-locked memory of torch's,
            from which ``batch.to("cuda", non_blocking=True)`` copies while the program goes on. If
            not given, they are where torch has a GPU. Or a function that is given a number of bytes
            and gives a uint8 tensor of that length, for memory of another kind.
        device: Where the tensors of batches are: "cuda", "cuda:1", a torch.device. They are copied
            in the caller's current stream, from page-locked memory while the program goes on.
        torch: Whether batches have tensors; if not given, they do where torch is installed.

    Raises:
        ValueError: What can never work; for ``memory_bytes``, with what is needed.
        TypeError: What is no number, function or dataset where one is wanted.

    A loader belongs to the process that made it. One iteration runs at a time: a new ``iter()``
    ends the one before. With ``epochs=None`` it continues where that one stopped; otherwise it
    begins with the epochs after it, and the log warns once of what was left out.
    """

    _held_limits_s = (1.0, 30.0)  # of waiting for batches that the caller holds: warn, raise

    def __init__(
        self,
        data: Data,
        *,
        batch_size: int | None = None,
        global_batch_size: int | None = None,
        shuffle: str | bool | BlockShuffle | None = None,
        seed: int = 0,
        epochs: int | None = 1,
        total_epochs: int | None = None,
        tail: Tail | None = None,
        fields: Fields | None = None,
        memory_bytes: int | str | None = None,
        threads: int | Literal["auto"] = "auto",
        depth: int | Literal["auto"] = "auto",
        policy: str = "automatic",
        rank: int | None = None,
        world_size: int | None = None,
        mesh: Any = None,
        map: MapFunction | None = None,  # noqa: A002 (Python's own word for it)
        map_in: Literal["thread", "process"] = "thread",
        map_workers: int | None = None,
        collate: Collate | None = None,
        on_error: Literal["raise", "skip"] = "raise",
        order: Any = None,
        out: Out | None = None,
        pin_memory: bool | Allocator | None = None,
        device: Any = None,
        torch: bool | None = None,
        **unknown: Never,
    ) -> None:
        refuse_arguments(unknown, Loader, HINTS)
        self._pid = os.getpid()
        self._is_closed = False
        is_endless = epochs is None
        epochs = checked_epochs(epochs, total_epochs, order)
        seed = whole_number("seed", seed)
        self._data = dataset_of(data)
        columns = columns_of(fields, packs=is_packed(self._data))
        ranks = find_ranks(rank, world_size, mesh)
        parts = Parts.of(self._data, policy)
        wanted, given = order_of(self._data, shuffle, seed, order)
        settings = Settings(
            batch_size=batch_size,
            global_batch_size=global_batch_size,
            tail=tail,
            on_error=on_error,
            memory_bytes=memory_bytes,
            threads=threads,
            depth=depth,
            held_limits_s=self._held_limits_s,
        )
        self._plan = LoaderPlan(parts, wanted, given, columns, ranks, settings)
        if columns.sources and on_error == "raise" and order is None:  # others may pass over some
            check_fields(self._data, columns.sources)
        module = torch_if_wanted(torch)
        maker = ColumnMaker(module, columns, has_valid=tail == "pad")
        if out is not None and pin_memory:
            raise ValueError("out= is memory that is given, and pin_memory= takes it: one")
        if out is not None and device is not None:
            raise ValueError("out= says where batches go, and device= does: one")
        allocate = None if out is not None else allocator_of(pin_memory, module)
        fresh = None if allocate is None else FreshMemory(allocate)
        mapping = mapping_of(map, collate, map_in, map_workers, seed, fresh)
        if mapping is not None and out is not None:
            raise ValueError("out= takes what is read, and map= or collate= make batches: one")
        finish = batch_finisher(out, fresh, maker, self._plan.cut.rank_batch_size)
        self._progress = Progress(self._plan, epochs, total_epochs, is_endless=is_endless)
        to_device = placer_of(device, module, is_pinned=fresh is not None)
        self._runs = Runs(self._plan, self._progress, maker, mapping, finish, to_device)
        _open.add(self)

    # Iterating:

    def __iter__(self) -> Iterator[Any]:
        self._check_usable()
        return self._runs.iterate(self)

    def __getitem__(self, _: object) -> Any:
        raise TypeError(
            "a Loader gives whole batches, by iterating: use it instead of a DataLoader, or give "
            "that a stoker.Dataset"
        )

    def __len__(self) -> int:
        """Batches of one ``iter()``; TypeError if there is no end."""
        if self._progress.epochs is None:
            raise TypeError("a Loader with epochs=None has no length")
        return self._progress.epochs * self._plan.batches_in_epoch()

    def steps(self, start: int | None = None, every: int = 1) -> Iterator[tuple[int, Any]]:
        """``(step, batch)`` for each batch of an ``iter()``: how many were received by then.

        The first batch of a run is 1, and a resumed run counts on: the cursor knows. After
        ``Checkpointer.restore(loader=...)`` it counts from the restored step, also if the batches
        had another size then.

        Args:
            start: Steps done before, instead.
            every: Batches of a step, under gradient accumulation: the number goes up with the last
                of them.
        """
        every = whole_number("every", every, 1)
        done = 0 if start is None else whole_number("start", start)

        def begin() -> Iterator[tuple[int, Any]]:
            self._check_usable()
            self._progress.take_up()
            first, before = self._progress.counted(every) if start is None else (done, 0)
            return self._runs.iterate(
                self, lambda given, batch: (first + (before + given + 1) // every, batch)
            )

        return Steps(begin)

    # Where it stands:

    @property
    def cursor(self) -> _native.Cursor:
        """Where a run stands that has received what the caller has."""
        return self._progress.used

    def state_dict(self) -> dict[str, Any]:
        """Where the last batch that was handed out leaves the run: str and int, for any checkpoint.

        The same on every rank. What was only prepared ahead does not count. If something between
        the loader and the model fetches ahead, keep ``batch.cursor`` instead.
        """
        return state_of(self._progress.used)

    def load_state_dict(self, state: State, allow: Iterable[str] = ()) -> None:
        """The next ``iter()`` goes on from there.

        Args:
            state: What ``state_dict()`` gave, or a batch's cursor, or its bytes or JSON.
            allow: What may differ, since the samples come in the same order all the same:
                "global_batch_size", "tail", and "fingerprint" for who knows that the samples are
                the same ones.

        Raises:
            CursorMismatch: It is the state of another run; the message has every difference.
        """
        self._check_usable()
        self._progress.load(state, allow)
        self._runs.end_all()

    def _check_state(self, state: State, allow: Iterable[str]) -> None:
        """For a Checkpointer, before it touches anything: raises what load_state_dict() would."""
        self._check_usable()
        self._progress.check(state, allow)

    def _count_from(self, step: int) -> None:
        """For a Checkpointer, which has restored this step."""
        self._progress.count_from(step)

    def set_epoch(self, epoch: int) -> None:
        """The next ``iter()`` is the one of this number, from 0.

        With ``epochs=1`` that is the data's epoch; otherwise each has ``epochs`` of them. One that
        was begun and has handed out nothing yet begins there, too. Nothing happens if the next one
        is the rest of this very one: a framework that says so before each epoch does not set back
        one that was resumed.

        Call it between two iterations: each batch that an iteration gives afterwards says anew
        where the next one begins.
        """
        self._runs.set_epoch(epoch)

    @property
    def sampler(self) -> EpochSampler:
        """Where frameworks look for ``set_epoch()``."""
        return EpochSampler(self, self._runs)

    @property
    def dataset(self) -> NoReturn:
        """AttributeError: what rebuilds a torch DataLoader from its dataset cannot rebuild this."""
        raise AttributeError(
            "a Loader has no dataset that a torch DataLoader could be rebuilt from, as "
            "skip_first_batches() of accelerate does. It need not skip: load_state_dict() "
            "continues at any batch"
        )

    def stats(self) -> LoaderStats:
        """Figures of the iteration that runs, or of the last one."""
        return self._runs.stats()

    # The end:

    def close(self) -> None:
        """Ends its threads and processes. Batches that were handed out stay good."""
        if self._is_closed or self._pid != os.getpid():
            return
        self._is_closed = True
        self._runs.close()

    def _check_usable(self) -> None:
        if self._pid != os.getpid():
            raise RuntimeError(OTHER_PROCESS.format(made=self._pid, here=os.getpid()))
        if self._is_closed:
            raise ValueError("this Loader is closed")

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_runs", None) is not None:
            self.close()

    def __repr__(self) -> str:
        figures = figures_of(self._data, self._plan, self._progress)
        return f"Loader({', '.join(f'{name}={value}' for name, value in figures.items())})"

    def _repr_html_(self) -> str:
        figures = figures_of(self._data, self._plan, self._progress)
        cells = "".join(
            f"<tr><th>{name}</th><td>{html.escape(value)}</td></tr>"
            for name, value in figures.items()
        )
        return f"<table><caption>stoker.Loader</caption>{cells}</table>"

    def __reduce__(self) -> Any:
        raise TypeError(
            "a Loader has threads and cannot be pickled: pickle its dataset and its state_dict()"
        )


@atexit.register
def _close_all() -> None:
    for loader in list(_open):
        loader.close()
