"""A checkpoint manager of torchtitan over a stoker.Checkpointer."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from torchtitan.components.checkpointer import BaseCheckpointManager

from stoker._checkpoint.checkpointer import Checkpointer
from stoker._frameworks.titan_data import DataLoader

_UNSUPPORTED = {
    "initial_load_in_hf": "import the weights: stoker checkpoint import",
    "initial_load_in_hf_quantized": "import the weights: stoker checkpoint import",
    "last_save_in_hf": "export the weights: stoker checkpoint export --hf",
}


class CheckpointManager(BaseCheckpointManager):
    """Saves in the background, restores on any number of ranks.

    >>> config.checkpoint = stoker.torchtitan.CheckpointManager.Config(enable=True, interval=500)

    The trees are `model`, `optimizer`, `lr_scheduler`, `dataloader` (or a loader's position, for
    ``stoker.torchtitan.DataLoader``) and the states of the trainer.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(BaseCheckpointManager.Config):
        """torchtitan's own settings."""

    def __init__(
        self,
        config: Config,
        *,
        dataloader: Any,
        model_parts: list[Any],
        optimizers: Any,
        lr_schedulers: Any,
        states: dict[str, Any],
        sd_adapter: Any = None,
        base_folder: str = "",
    ) -> None:
        self.enable = config.enable
        self.save_future: Any = None
        if not self.enable:
            return
        for name, what in _UNSUPPORTED.items():
            if getattr(config, name):
                raise ValueError(f"checkpoint.{name} is not supported: {what}")
        if config.export_dtype != "float32":
            raise ValueError("checkpoint.export_dtype: Stoker converts no types when it saves")
        self._config = config
        self._model: dict[str, Any] = {
            "model": model_parts
        }  # the parts of a pipeline have one state
        self._rest: dict[str, Any] = {
            "optimizer": list(optimizers.optimizers),
            "lr_scheduler": lr_schedulers,
            **states,
        }
        self._loader = dataloader if isinstance(dataloader, DataLoader) else None
        if dataloader is not None and self._loader is None:
            self._rest["dataloader"] = dataloader
        self._saver = Checkpointer(
            os.path.join(base_folder, config.folder),  # noqa: PTH118 (as text)
            keep_last=config.keep_latest_k or None,
        )

    def _is_due(self, step: int, is_last: bool) -> bool:
        is_first = step == 1 and self._config.enable_first_step_checkpoint
        return is_first or is_last or step % self._config.interval == 0

    def _save(self, curr_step: int, last_step: bool = False) -> bool:
        if self._config.load_only or not self._is_due(curr_step, last_step):
            return False
        if last_step and self._config.last_save_model_only:
            self.save_future = self._saver.save(curr_step, **self._model)
        else:
            trees = {**self._model, **self._rest}
            self.save_future = self._saver.save(curr_step, loader=self._loader, **trees)
        if last_step:
            self._wait_for_saving()
        return True

    def _load(self, step: int = -1) -> bool:
        found = self._restore(self._saver, "latest" if step == -1 else step)
        if found or not self._config.initial_load_path:
            return found
        with Checkpointer(self._config.initial_load_path) as initial:
            if not self._restore(
                initial, "latest", model_only=self._config.initial_load_model_only
            ):
                raise FileNotFoundError(f"no checkpoints in {initial.path}: initial_load_path")
        return True

    def _restore(self, saver: Checkpointer, step: int | str, *, model_only: bool = False) -> bool:
        left_out = self._config.exclude_from_loading
        rest = {} if model_only else {k: v for k, v in self._rest.items() if k not in left_out}
        loader = None if model_only or "dataloader" in left_out else self._loader
        done = saver.restore(step, partial=True, loader=loader, **self._model, **rest)
        return done is not None

    def _wait_for_saving(self) -> None:
        self.save_future = None
        self._saver.wait()

    def _maybe_wait_for_staging(self) -> None:
        """Nothing to wait for: the state was copied when ``save`` returned."""

    def _close(self) -> None:
        self._saver.close()
