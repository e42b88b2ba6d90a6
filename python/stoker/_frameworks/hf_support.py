"""What a Trainer may be set to, beside saving through Stoker."""

from __future__ import annotations

from typing import Any

from stoker._loader.loader import Loader

_UNSUPPORTED = {
    "is_deepspeed_enabled": "DeepSpeed, which writes its own checkpoints",
    "is_fsdp_xla_enabled": "FSDP of XLA",
}


def refuse_unsupported(trainer: Any) -> None:
    """Raises ValueError for settings with which checkpoints would be incomplete."""
    for name, what in _UNSUPPORTED.items():
        if getattr(trainer, name, False):
            raise ValueError(f"stoker.hf.TrainerMixin does not support {what}")
    if getattr(trainer, "is_fsdp_enabled", False):
        plugin = trainer.accelerator.state.fsdp_plugin
        if getattr(plugin, "fsdp_version", 1) != 2:
            raise ValueError("stoker.hf.TrainerMixin supports FSDP2: set fsdp_version to 2")
    if trainer.args.push_to_hub:
        raise ValueError(
            "push_to_hub uploads weights from checkpoint-N, and Stoker keeps them beside it: "
            "call push_to_hub() of the model after the training"
        )
    if trainer.args.save_on_each_node:
        raise ValueError(
            "save_on_each_node: for nodes without a shared disk, set checkpointer_settings = "
            '{"disks": "private"}'
        )


def refuse_endless(loader: Loader) -> None:
    """Raises ValueError if it has no length: a Trainer would begin it again after each restart."""
    try:
        len(loader)
    except TypeError:
        raise ValueError(
            "a Trainer counts the epochs itself: leave epochs=None out of the Loader, and give "
            "num_train_epochs= or max_steps= to TrainingArguments"
        ) from None
