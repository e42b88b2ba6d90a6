"""A callback of Lightning that saves in the background, whatever the strategy."""

from __future__ import annotations

import logging
import os
from typing import Any

from stoker._checkpoint.checkpointer import Checkpointer
from stoker._checkpoint.restored import Restored
from stoker._frameworks import lightning_package
from stoker._frameworks.lightning_loops import with_epochs_counted

_log = logging.getLogger("stoker")
_REFUSED = {
    "FSDPStrategy": "use ModelParallelStrategy, which is FSDP2",
    "DeepSpeedStrategy": "it writes its own checkpoints",
}


class CheckpointerCallback(lightning_package.Checkpoint):
    """Saves every so often through a ``stoker.Checkpointer``, and resumes when ``fit`` begins.

    >>> saves = stoker.lightning.CheckpointerCallback("run", every_n_train_steps=1000, keep_last=3)
    >>> trainer = lightning.Trainer(callbacks=[saves])

    For Lightning it is a checkpoint callback: it comes after all others, wherever it is listed, and
    no ModelCheckpoint is added.

    The training continues while a save is written. Parameters that are sharded, as by
    ``ModelParallelStrategy``, are saved by each rank, and restored by any number of ranks. Saved
    are: the LightningModule, its optimizers and schedulers, the random generators of each rank,
    and, as rank 0 has them, Lightning's loops with the position of the loader, and the states of
    callbacks, datamodule and precision.

    Args:
        path: The directory of the run's checkpoints.
        every_n_train_steps: Save when so many steps of the optimizers are done.
        every: Save after a time, "30min".
        settings: Arguments of ``stoker.Checkpointer``, such as ``keep_last=3``.

    Attributes:
        saver: The Checkpointer, during ``fit``.
        restored: What ``fit`` has restored; None if there was nothing.
    """

    best_model_path = ""  # for Lightning, which says then that there is no `ckpt_path="best"`

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        every_n_train_steps: int | None = None,
        every: float | str | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        if every_n_train_steps is None and every is None:
            raise ValueError('every_n_train_steps=1000, or every="30min", or both')
        self._path, self._settings = path, settings
        self._when: dict[str, Any] = {"every_steps": every_n_train_steps, "every": every}
        self._seen = 0  # steps
        self._needs_rng = False
        self.saver: Checkpointer | None = None
        self.restored: Restored | None = None

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Restores the newest checkpoint: parameters and optimizers are in place by now."""
        strategy = type(trainer.strategy).__name__
        if strategy in _REFUSED:
            raise ValueError(f"{strategy} is not supported by this callback: {_REFUSED[strategy]}")
        if trainer.ckpt_path:
            raise ValueError(
                f"ckpt_path={trainer.ckpt_path!r}: this callback restores from {self._path}; leave "
                "ckpt_path out of fit(), or the callback out of the Trainer"
            )
        if uncalled := _with_hooks([*trainer.callbacks, pl_module, trainer.datamodule]):
            _log.warning("not called, so what it adds is not saved: %s", ", ".join(uncalled))
        if trainer.fast_dev_run:
            return  # a few batches to find mistakes: they are no part of the run
        self.saver = Checkpointer(self._path, **self._settings)
        trees = _trees_of(trainer, pl_module)
        self.restored = self.saver.restore(partial=True, **{**trees, "lightning": None})
        self._seen, self._needs_rng = 0, self.restored is not None
        if self.restored is not None:
            _load_rest(trainer, self.restored.trees["lightning"])
            self._seen = trainer.global_step

    def on_train_batch_start(self, trainer: Any, pl_module: Any, *batch: Any) -> None:
        """Sets the random generators: what comes before the first batch uses them, too."""
        if self._needs_rng and self.saver is not None and self.restored is not None:
            self._needs_rng = False
            self.saver.restore(int(self.restored), rng=True, partial=True)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *batch: Any) -> None:
        """Saves if it is time, and a step of the optimizers has just been completed."""
        step = trainer.global_step
        if self.saver is None or step == self._seen:
            return
        self._seen = step
        if self.saver.due(step, **self._when):
            self._save(trainer, pl_module)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Saves the last step, unless it was just saved or restored."""
        if self.saver is not None and self.saver.due(trainer.global_step, every_steps=1):
            self._save(trainer, pl_module)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Waits until everything is durable, also after an exception in the training."""
        saver, self.saver = self.saver, None
        if saver is not None:
            saver.close()

    def _save(self, trainer: Any, pl_module: Any) -> None:
        assert self.saver is not None
        rest = _rest_of(trainer) if trainer.global_rank == 0 else {}  # rank 0's counts for all
        trees = _trees_of(trainer, pl_module)
        self.saver.save(trainer.global_step, rng=True, lightning=rest, **trees)


def _with_hooks(objects: list[Any]) -> list[str]:
    """Returns the hooks that would add to a checkpoint of Lightning: EMA.on_save_checkpoint()."""
    hooks = (getattr(one, "on_save_checkpoint", None) for one in objects)
    names = (getattr(hook, "__qualname__", "") for hook in hooks)
    empty = ("", "Callback.on_save_checkpoint", "CheckpointHooks.on_save_checkpoint")
    return [f"{name}()" for name in names if name not in empty]


def _trees_of(trainer: Any, pl_module: Any) -> dict[str, Any]:
    """Returns the objects that are saved, and filled by a restore."""
    trees = {"model": pl_module, "optimizer": list(trainer.optimizers)}
    schedulers = [one.scheduler for one in trainer.lr_scheduler_configs]
    return {**trees, "scheduler": schedulers} if schedulers else trees


def _rest_of(trainer: Any) -> dict[str, Any]:
    """Returns what Lightning would put into a checkpoint beside weights and optimizers."""
    rest = {
        "epoch": trainer.current_epoch,
        "fit_loop": with_epochs_counted(trainer.fit_loop.state_dict()),
        "callbacks": {
            one.state_key: state for one in trainer.callbacks if (state := one.state_dict())
        },
        "precision": trainer.precision_plugin.state_dict(),
    }
    if trainer.datamodule is not None:
        rest["datamodule"] = trainer.datamodule.state_dict()
    return rest


def _load_rest(trainer: Any, rest: dict[str, Any]) -> None:
    trainer.fit_loop.load_state_dict(rest["fit_loop"])
    for one in trainer.callbacks:
        if one.state_key in rest["callbacks"]:
            one.load_state_dict(rest["callbacks"][one.state_key])
    if rest["precision"]:
        trainer.precision_plugin.load_state_dict(rest["precision"])
    if trainer.datamodule is not None and "datamodule" in rest:
        trainer.datamodule.load_state_dict(rest["datamodule"])
