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
from stoker._common.policies import Policy
from stoker._common.ranks import find_ranks
from stoker._common.torch import torch_if_wanted
from stoker._common.unknown_arguments import refuse_arguments
from stoker._dataset.cache import Cache, warn_of_caches
from stoker._dataset.columns import ColumnMaker
from stoker._dataset.fields import Fields, columns_of
from stoker._dataset.shuffle import BlockShuffle, OrderName
from stoker._dataset.sources import Data, Parts, check_fields, dataset_of, is_packed
from stoker._loader.cursors import State, state_of
from stoker._loader.device import placer_of
from stoker._loader.feed import feeder_of
from stoker._loader.hints import HINTS
from stoker._loader.host_memory import Allocator, FreshMemory, allocator_of
from stoker._loader.iteration import OTHER_PROCESS
from stoker._loader.map.job import Collate, MapFunction
from stoker._loader.map.mapping import mapping_of
from stoker._loader.order import order_of
from stoker._loader.out import Out, batch_finisher
from stoker._loader.plan import LoaderPlan, Settings, Tail
from stoker._loader.progress import Progress, checked_epochs, figures_of
from stoker._loader.runs import Runs
from stoker._loader.sampler import EpochSampler
from stoker._loader.stats import LoaderStats
from stoker._loader.steps import Steps

if TYPE_CHECKING:
    from typing_extensions import Never

_open: weakref.WeakSet[Loader] = weakref.WeakSet()


class Loader:
    """Batches of a dataset, prepared in advance by native threads.

    ``for batch in loader`` iterates over the next ``epochs`` epochs. The order of samples depends
    only on the arguments, not on the number of ranks, threads or workers: a run that is resumed at
    any batch, on any number of ranks, continues as if it had never stopped.

    Args:
        data: A Dataset, Tokens or Mixture, or the paths of shards.
        batch_size: Samples in a batch on each rank.
        global_batch_size: Samples in a step over all ranks, instead of ``batch_size``.
        micro_batch_size: Samples in a micro-batch, for gradient accumulation: each rank gets its
            part of a step in batches of this size, and ``batch.last`` is True for the last of them.
            It must divide the part. The memory is that of micro-batches, so fewer ranks do not need
            more of it. Steps and saved positions are the same with any size.
        shuffle: "global" (a uniform permutation; the default), "block" or a BlockShuffle (reads
            whole blocks of neighboring samples, for storage that needs it), "off", or "resampled"
            (with replacement). True is "global", False is "off".
        seed: Seed of the order, of ``map``'s random numbers, and of ``on_error="skip"``.
        epochs: Number of epochs in one ``iter()``; None for no end. If not given: 1.
        total_epochs: Total number of epochs, over every ``iter()`` and every restart of the
            program: no ``iter()`` goes beyond it. If not given, there is no limit. With
            ``epochs=None``, one ``iter()`` runs through all that are left; with ``epochs=1``,
            through one of them. Give one of the two.
        tail: What to do with samples at the end of an epoch that do not fill a batch: "drop" them
            (the default if shuffled), "keep" a short batch (the default if not), "wrap" around to
            the beginning of the epoch, or "pad" in the same way and mark the real samples in
            ``batch["__valid__"]``.
        fields: The columns: ``{"jpg": bytes, "cls": int, "meta": stoker.Json("box.x", float)}``.
            ``"jpg;jpeg;png"`` is the first of these fields that a sample has. A list of names: the
            values of a Dataset, that is text as str, numbers as an array, other bytes as bytes. If
            not given: every field in this way.
        memory_bytes: All memory for batches on this machine: "8GiB". The ranks on the machine share
            it. If not given: 512 MiB, or what is needed if that is more.
        threads: Number of native threads; "auto" adapts it to the caller's waits.
        depth: Batches to prepare ahead; "auto" adapts it in the same way.
        policy: Page cache policy: "automatic", "buffered", "direct" or "drop_behind".
        cache: Where to keep what is read of shards that are far away, for data that is given as
            paths; a Dataset has one of its own. The log says how much each epoch will read.
        rank: Which part of each global batch this process has. If not given: from ``mesh``, or
            torch.distributed, or RANK and WORLD_SIZE, SLURM or Open MPI; otherwise 0 of 1.
        world_size: Number of parts, which must divide the global batch.
        mesh: The data-parallel dimension of a DeviceMesh, ``mesh["dp"]``; or several, which are
            counted as one, in row-major order: ``(mesh, ("dp_replicate", "dp_shard"))``, or the
            mesh of these. Ranks that differ only in other dimensions get the same batches.
        map: ``map(sample, rng)`` returns another sample, or None to leave this one out: another
            sample of the dataset then replaces it, chosen by the seed and the position. ``rng`` is
            a NumPy Generator that depends only on the seed, the epoch and the sample's position; it
            is valid during this call only.
        map_in: "thread", or "process" for functions that hold the GIL.
        map_workers: Number of threads or processes; the number of cores if not given.
        collate: ``collate(samples)`` makes the batch. If not given, arrays are stacked. It is not
            called for a rank's empty part of a last batch (``tail="keep"``), which is a Batch
            without samples.
        on_error: "raise" at the batch of a sample that cannot be read; "skip" replaces the sample
            by another one, chosen by the seed and the position.
        order: An array of sample numbers instead of a shuffle, or a sampler that gives one each
            epoch. It must be the same on every rank: give a RandomSampler of torch a generator
            with a fixed seed.
        out: Arrays or tensors to fill, by column; or a list of such dicts, used in turn.
        pin_memory: Whether a batch's tensors are in new page-locked memory of torch, from which
            ``batch.to("cuda", non_blocking=True)`` copies asynchronously. If not given: if torch
            has a GPU. Or a function that takes a number of bytes and returns a uint8 tensor of that
            length, for other kinds of memory.
        device: Device of the batches' tensors: "cuda", "cuda:1", a torch.device. For CUDA they are
            copied ahead, from page-locked memory of the loader, and the caller's current stream
            waits for them. Otherwise, and for batches of ``map`` or ``collate``, they are copied on
            that stream when they are handed out.
        device_depth: Batches that are copied to a CUDA device ahead of the caller; 0: none.
        torch: Whether batches have tensors; if not given: if torch is installed.

    Raises:
        ValueError: The arguments can never work; for ``memory_bytes``, says what is needed.
        TypeError: An argument is not a number, function or dataset where one is expected.

    A loader belongs to the process that created it. One iteration runs at a time: a new ``iter()``
    ends the previous one. With ``epochs=None`` it continues where that one stopped; otherwise it
    begins with the epochs after it, and the log warns once about what was left out.
    """

    _held_limits_s = (1.0, 30.0)  # waiting for batches that the caller keeps: warn, raise

    def __init__(
        self,
        data: Data,
        *,
        batch_size: int | None = None,
        global_batch_size: int | None = None,
        micro_batch_size: int | None = None,
        shuffle: OrderName | bool | BlockShuffle | None = None,
        seed: int = 0,
        epochs: int | Literal["auto"] | None = "auto",
        total_epochs: int | None = None,
        tail: Tail | None = None,
        fields: Fields | None = None,
        memory_bytes: int | str | None = None,
        threads: int | Literal["auto"] = "auto",
        depth: int | Literal["auto"] = "auto",
        policy: Policy = "automatic",
        cache: Cache | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        mesh: Any = None,
        map: MapFunction | None = None,  # noqa: A002 (Python's own word)
        map_in: Literal["thread", "process"] = "thread",
        map_workers: int | None = None,
        collate: Collate | None = None,
        on_error: Literal["raise", "skip"] = "raise",
        order: Any = None,
        out: Out | None = None,
        pin_memory: bool | Allocator | None = None,
        device: Any = None,
        device_depth: int = 2,
        torch: bool | None = None,
        **unknown: Never,
    ) -> None:
        refuse_arguments(unknown, Loader, HINTS)
        self._pid = os.getpid()
        self._is_closed = False
        is_endless = epochs is None
        epochs = checked_epochs(epochs, total_epochs, order)
        seed = whole_number("seed", seed)
        self._data = dataset_of(data, cache)
        columns = columns_of(fields, packs=is_packed(self._data))
        ranks = find_ranks(rank, world_size, mesh)
        parts = Parts.of(self._data, policy)
        wanted, given = order_of(self._data, shuffle, seed, order, ranks.world_size)
        settings = Settings(
            batch_size=batch_size,
            global_batch_size=global_batch_size,
            micro_batch_size=micro_batch_size,
            tail=tail,
            on_error=on_error,
            memory_bytes=memory_bytes,
            threads=threads,
            depth=depth,
            held_limits_s=self._held_limits_s,
        )
        self._plan = LoaderPlan(parts, wanted, given, columns, ranks, settings)
        if columns.sources and on_error == "raise" and order is None:  # others may skip samples
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
        finish = batch_finisher(out, fresh, maker, self._plan.cut.micro_batch_size)
        self._progress = Progress(self._plan, epochs, total_epochs, is_endless=is_endless)
        to_device = placer_of(device, module, is_pinned=fresh is not None)
        feeder = feeder_of(device, module, device_depth, pin_memory, is_mapped=mapping is not None)
        self._runs = Runs(self._plan, self._progress, maker, mapping, finish, to_device, feeder)
        _open.add(self)

    # Iterating:

    def __iter__(self) -> Iterator[Any]:
        self._check_usable()
        warn_of_caches(self._data)
        return self._runs.iterate(self)

    def __getitem__(self, _: object) -> Any:
        raise TypeError(
            "a Loader gives whole batches, by iterating: use it instead of a DataLoader, or give "
            "that a stoker.Dataset"
        )

    def __len__(self) -> int:
        """Returns the batches (micro-batches) of one ``iter()``; TypeError if there is no end."""
        if self._progress.epochs is None:
            raise TypeError("a Loader with epochs=None has no length")
        return self._progress.epochs * self._plan.batches_in_epoch()

    @property
    def batches_per_epoch(self) -> int:
        """Batches of one epoch of the data, whatever ``epochs`` is; the same on every rank.

        Micro-batches, with ``micro_batch_size``.
        """
        return self._plan.batches_in_epoch()

    @property
    def steps_per_epoch(self) -> int:
        """Steps of one epoch of the data: its global batches, in any number of micro-batches."""
        return self._plan.steps_in_epoch()

    @property
    def micro_batches_per_step(self) -> int:
        """Micro-batches of a step, to divide the loss by; 1 without ``micro_batch_size``.

        The short last step of an epoch (``tail="keep"``) may have fewer.
        """
        return self._plan.cut.micro_batches_per_step

    @property
    def epoch_is_done(self) -> bool:
        """Whether the last batch received was the last of its epoch, ``loader.cursor.epoch``."""
        return self._progress.epoch_is_done()

    @property
    def step_is_done(self) -> bool:
        """Whether the last batch received was the last of its step, as ``batch.last`` says.

        Also if none was received: the position can be saved.
        """
        return self._progress.amid == 0

    def steps(self, start: int | None = None, every: int = 1) -> Iterator[tuple[int, Any]]:
        """Iterates over ``(step, batch)``: the number of batches received, and each batch.

        The first batch of a run is step 1, and a resumed run continues the count from its cursor.
        With ``micro_batch_size``, it is the number of the step that the micro-batch belongs to.
        After ``Checkpointer.restore(loader=...)`` it counts from the restored step, even if the
        batch size was different then.

        Args:
            start: Steps done before, instead of the cursor's count.
            every: Batches per step, for gradient accumulation without ``micro_batch_size``: the
                number increases with the last of them.
        """
        every = whole_number("every", every, 1)
        if every > 1 and self.micro_batches_per_step > 1:
            raise ValueError(
                f"steps(every={every}) makes a step of several batches, and micro_batch_size= cuts "
                "a step into several: use one"
            )
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
        """The position of the run: the steps that the caller has received completely."""
        return self._progress.used

    def state_dict(self) -> dict[str, Any]:
        """Returns the position after the last batch that was handed out, as a dict of str and int.

        The same on every rank. Batches that are only prepared do not count. If something between
        the loader and the model fetches ahead, save ``batch.cursor`` instead.

        Raises:
            RuntimeError: Some, but not all micro-batches of a step were received: save after
                ``batch.last``.
        """
        self._progress.refuse_amid()
        return state_of(self._progress.used, self._progress.framework_epoch)

    def load_state_dict(self, state: State, allow: Iterable[str] = ()) -> None:
        """Makes the next ``iter()`` continue at a saved position.

        Args:
            state: The result of ``state_dict()``, a batch's cursor, or the cursor's bytes or JSON.
            allow: What may differ because the order of samples is still the same:
                "global_batch_size", "tail", and "fingerprint" if you know that the samples are the
                same.

        Raises:
            CursorMismatch: The state is from another run; the message has every difference.
        """
        self._check_usable()
        self._progress.load(state, allow)
        self._runs.end_all()

    def _check_state(self, state: State, allow: Iterable[str]) -> None:
        """For a Checkpointer, before it changes anything: raises what load_state_dict() would."""
        self._check_usable()
        self._progress.check(state, allow)

    def _count_from(self, step: int) -> None:
        """For a Checkpointer that has restored this step."""
        self._progress.count_from(step)

    def set_epoch(self, epoch: int) -> None:
        """Makes the next ``iter()`` the one with this number, from 0.

        With ``epochs=1`` or None the number is that of an epoch of the data; otherwise each
        iteration has ``epochs`` of them. The iteration starts at its beginning. There is one
        exception: if the next ``iter()`` would continue in the middle of this same iteration, it
        still does. That is so after ``load_state_dict()``, and after a loop with ``epochs=None``
        that was left. An iteration that has started but returned nothing yet moves, too.

        Call it between two iterations: each batch that an iteration returns afterwards overrides
        it.
        """
        self._runs.set_epoch(epoch)

    @property
    def sampler(self) -> EpochSampler:
        """Where frameworks look for ``set_epoch()``."""
        return EpochSampler(self, self._runs)

    @property
    def batch_sampler(self) -> None:
        """None: Lightning looks for it in a loader for validation that has a ``sampler``."""
        return None

    @property
    def dataset(self) -> NoReturn:
        """AttributeError: a Loader cannot be rebuilt from its dataset, as a DataLoader can."""
        raise AttributeError(
            "a Loader has no dataset that a torch DataLoader could be rebuilt from, as "
            "skip_first_batches() of accelerate does. It need not skip: load_state_dict() "
            "continues at any batch"
        )

    def stats(self) -> LoaderStats:
        """Returns figures of the current iteration, or of the last one."""
        return self._runs.stats()

    # The end:

    def close(self) -> None:
        """Ends its threads and processes. Batches that were handed out stay valid."""
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
