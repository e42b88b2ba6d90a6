"""A Trainer of Transformers that saves through Stoker."""

from __future__ import annotations

import concurrent.futures
import importlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from stoker._checkpoint.checkpointer import Checkpointer
from stoker._checkpoint.load import load
from stoker._checkpoint.save.pending import Pending
from stoker._common.corrupt import corrupt_error
from stoker._frameworks.folder import show, sync_tree
from stoker._frameworks.hf_folders import (
    Announcement,
    newest_first,
    remove_outdated,
    step_in,
    unpublished,
    weights_directory,
)
from stoker._frameworks.hf_support import refuse_endless, refuse_unsupported
from stoker._loader.loader import Loader
from stoker._native import CorruptError

_log = logging.getLogger("stoker")


class TrainerMixin:
    """Before a Trainer in the bases of a class, lets it save through Stoker.

    >>> class Trainer(stoker.hf.TrainerMixin, transformers.Trainer): ...

    ``_save_checkpoint`` returns as soon as the state is copied. When it is durable,
    `checkpoint-N` appears in `output_dir`, with `trainer_state.json`, so that
    ``train(resume_from_checkpoint=True)`` works; the weights, optimizer, scheduler, scaler and the
    random generators of each rank are in `output_dir/stoker`, a directory of a
    ``stoker.Checkpointer``. ``save_steps``, ``save_total_limit``, ``save_only_model`` and
    ``load_best_model_at_end`` mean what they do without Stoker. A damaged checkpoint is passed
    over. Of a model with adapters (PEFT), the trainable part is saved.

    Attributes:
        checkpointer_settings: Arguments of ``stoker.Checkpointer``, such as
            ``{"rate_limit": "1GB/s"}``, for a class to set.
    """

    checkpointer_settings: ClassVar[Mapping[str, Any]] = {}

    # Of the Trainer:
    accelerator: Any
    args: Any
    model: Any
    state: Any
    _saver: Checkpointer | None = None
    _pending: Pending | None = None  # the last save
    _published: concurrent.futures.Future[None] | None = None  # its checkpoint-N; on one rank
    _best: int | None = None  # the step that is pinned
    _loader: Loader | None = None  # what the Trainer trains on, if it is ours
    _is_restored = True  # the training has begun, or begins from nothing

    # Training:

    def train(self, resume_from_checkpoint: Any = None, *args: Any, **kwargs: Any) -> Any:
        """As that of the Trainer. With True, it continues after the newest undamaged checkpoint.

        Without a checkpoint, that is the beginning, and the log has a warning.
        """
        refuse_unsupported(self)
        try:
            result = self._train(resume_from_checkpoint, args, kwargs)
            self._await_published()
        finally:
            saver, self._saver = self._saver, None
            if saver is not None:
                saver.close()
        return result

    def _train(self, resume: Any, args: Any, kwargs: Any) -> Any:
        train: Any = super().train  # type: ignore[misc]
        if resume is True:
            self._publish_left()
        there = list(newest_first(self.args.output_dir)) if resume is True else []
        for path in there:
            self._is_restored = False
            try:
                if not self._has_weights(path):
                    continue
                return train(str(path), *args, **kwargs)
            except CorruptError as error:
                if self._is_restored:
                    raise  # not from the restore
                _log.warning("passed over %s: %s", path, error)
        if there:
            run = str(self.args.output_dir)
            raise corrupt_error(f"{run}: no checkpoint-N in it can be restored", run, 0)
        if resume is True:
            _log.warning("no checkpoint in %s: training from the beginning", self.args.output_dir)
        self._is_restored = True
        return train(None if resume is True else resume, *args, **kwargs)

    def _publish_left(self) -> None:
        """Publishes what a killed run had no time to, although its weights were durable."""
        run = Path(self.args.output_dir)
        if self.args.should_save:
            for step, hidden, folder in unpublished(run):
                if step in self._saver_in(run).steps():
                    sync_tree(hidden)
                    show(hidden, folder)
                    _log.info("published %s, which a killed run had saved", folder)
        self.accelerator.wait_for_everyone()

    def _has_weights(self, path: Path) -> bool:
        step = step_in(path)
        if step is None or step in self._saver_in(path.parent).steps():
            return True
        _log.warning(
            "passed over %s: there is no step %d in %s",
            path,
            step,
            self._saver_in(path.parent).path,
        )
        return False

    def set_initial_training_values(self, args: Any, dataloader: Any, *more: Any) -> Any:
        """Notes a stoker.Loader, which continues at its position: no batch needs to be skipped."""
        self._loader = dataloader if isinstance(dataloader, Loader) else None
        if self._loader is not None:
            refuse_endless(self._loader)
            args.ignore_data_skip = True
        return super().set_initial_training_values(args, dataloader, *more)  # type: ignore[misc]

    def _maybe_log_save_evaluate(self, *args: Any, **kwargs: Any) -> Any:
        if self._loader is not None:
            # The Trainer counts from the beginning of the loop, which may have begun in mid-epoch.
            batches, per_step = len(self._loader), self.args.gradient_accumulation_steps
            self.state.epoch = self.state.global_step / -(-batches // per_step)
        return super()._maybe_log_save_evaluate(*args, **kwargs)  # type: ignore[misc]

    def _finalize_training(self, *args: Any, **kwargs: Any) -> Any:
        self._await_published()
        self.accelerator.wait_for_everyone()  # one rank publishes, and all may load the best model
        return super()._finalize_training(*args, **kwargs)  # type: ignore[misc]

    # Saving:

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        if self.hp_search_backend is None and trial is None:  # type: ignore[attr-defined]
            self.store_flos()  # type: ignore[attr-defined]
        run = Path(self._get_output_dir(trial=trial))  # type: ignore[attr-defined]
        step, saver = self.state.global_step, self._saver_in(run)
        self._await_published()
        if not saver.due(step, every_steps=1):
            return  # it was just saved, or restored
        folder = run / f"checkpoint-{step}"
        best = self.state.best_global_step
        if best:
            self.accelerator.wait_for_everyone()  # all must see the same folders
        if best and (best == step or (run / f"checkpoint-{best}").is_dir()):
            self.state.best_model_checkpoint = str(run / f"checkpoint-{best}")
        announcement = None
        if self.args.should_save:
            self._note_callbacks()
            announcement = Announcement(folder, step)
            announcement.write(self, is_new=step not in saver.steps())
        only: Any = "trainable" if hasattr(self.model, "peft_config") else None
        trees = {"model": self.model}
        if not self.args.save_only_model:
            trees |= {**self._training_trees(), "rng": True}
        loader = None if self.args.save_only_model else self._loader
        try:
            self._pending = saver.save(step, loader=loader, only=only, **trees)
        except BaseException:
            if announcement is not None:
                announcement.cancel()
            raise
        if announcement is not None:
            self._publish_after(self._pending, announcement, saver)

    def _publish_after(
        self, pending: Pending, announcement: Announcement, saver: Checkpointer
    ) -> None:
        """Publishes `checkpoint-N` when its weights are durable, and removes older ones."""
        published = self._published = concurrent.futures.Future()
        best, limit = self.state.best_global_step, self.args.save_total_limit
        best_folder = self.state.best_model_checkpoint

        def publish(_: Any) -> None:
            try:
                if not pending.durable:  # wait() raises the reason, if it has failed
                    announcement.cancel()
                else:
                    announcement.publish()
                    self._pin(saver, best)
                    _rotate(announcement.folder.parent, limit, best_folder)
                    remove_outdated(announcement.folder.parent, saver.steps())
            except BaseException as error:
                published.set_exception(error)
            else:
                published.set_result(None)

        pending.add_done_callback(publish)

    def _pin(self, saver: Checkpointer, best: int | None) -> None:
        """The best checkpoint stays, whatever ``save_total_limit`` is."""
        if not best or best == self._best:
            return
        steps = saver.steps()
        if self._best in steps:
            saver.pin(self._best, pinned=False)
        if best in steps:
            saver.pin(best)
        self._best = best

    def _await_published(self) -> None:
        """Waits until the last save is durable and announced; raises its error, once."""
        pending, self._pending = self._pending, None
        published, self._published = self._published, None
        if pending is not None:
            pending.wait()
        if published is not None:
            published.result()

    def _note_callbacks(self) -> None:
        """Writes the states of callbacks and of the control into the state, as the Trainer does."""
        callbacks = [*self.callback_handler.callbacks, self.control]  # type: ignore[attr-defined]
        exportable = importlib.import_module("transformers.trainer_callback").ExportableState
        states = self.state.stateful_callbacks
        for one in callbacks:
            if isinstance(one, exportable):
                name = type(one).__name__
                if isinstance(states[name], list):
                    states[name].append(one.state())
                else:
                    states[name] = one.state()

    def _training_trees(self) -> dict[str, Any]:
        """Returns what belongs to the training, and not to the model."""
        optimizer, scheduler = self.optimizer, self.lr_scheduler  # type: ignore[attr-defined]
        trees = {
            "optimizer": getattr(optimizer, "optimizer", optimizer),  # not Accelerate's wrapper
            "scheduler": getattr(scheduler, "scheduler", scheduler),
        }
        scaler = getattr(self.accelerator, "scaler", None)
        return trees if scaler is None else {**trees, "scaler": scaler}

    # Restoring:

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        """Checkpoints of Stoker are restored as a whole, when the optimizer exists."""
        if step_in(resume_from_checkpoint) is None:
            super()._load_from_checkpoint(resume_from_checkpoint, model)  # type: ignore[misc]

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        step = None if checkpoint is None else step_in(checkpoint)
        if checkpoint is None or step is None:
            super()._load_optimizer_and_scheduler(checkpoint)  # type: ignore[misc]
            self._is_restored = True
            return
        saver = self._saver_in(Path(checkpoint).parent)
        saved = load(f"{saver.path}/{step}").state.keys()
        trees = {"model": self.model, **self._training_trees(), "rng": True}
        left_out = sorted(trees.keys() - saved)
        if left_out:  # save_only_model, say
            _log.warning("checkpoint-%d was saved without: %s", step, ", ".join(left_out))
        present = {name: tree for name, tree in trees.items() if name in saved}
        done = saver.restore(step, partial=True, **present)
        self._best = self.state.best_global_step  # pinned by the run that saved it
        self._is_restored = True
        if self._loader is not None and done is not None and done.has_loader:
            saver.restore(step, partial=True, loader=self._loader)
        elif self._loader is not None:
            _log.warning("checkpoint-%d has no position of a loader: its epoch starts again", step)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        step = None if checkpoint is None else step_in(checkpoint)
        if checkpoint is None or step is None:
            super()._load_rng_state(checkpoint)  # type: ignore[misc]
        else:
            saver = self._saver_in(Path(checkpoint).parent)
            if "rng" in load(f"{saver.path}/{step}").state:
                saver.restore(step, partial=True, rng=True)

    def _load_best_model(self) -> None:
        folder = self.state.best_model_checkpoint
        step = step_in(folder)
        if step is None:
            super()._load_best_model()  # type: ignore[misc]
        else:
            self._saver_in(Path(folder).parent).restore(step, partial=True, model=self.model)

    def _saver_in(self, run: str | os.PathLike[str]) -> Checkpointer:
        """Returns the Checkpointer of a run's directory; there is one at a time."""
        directory = os.path.abspath(weights_directory(run))  # noqa: PTH100 (as a Checkpointer)
        if self._saver is not None and self._saver.path != directory:
            self._saver.close()
            self._saver = None
        if self._saver is None:
            limit = self.args.save_total_limit
            keep = {"keep_last": limit} if limit and limit > 0 else {}
            self._saver = Checkpointer(directory, **{**keep, **self.checkpointer_settings})
        return self._saver


def _rotate(run: Path, limit: int | None, best: str | None) -> None:
    """Removes the oldest folders, of Stoker and others, as the Trainer does."""
    utils = importlib.import_module("transformers.trainer_utils")
    utils.rotate_checkpoints(
        str(run), save_total_limit=limit, best_model_checkpoint=best, use_mtime=True
    )
