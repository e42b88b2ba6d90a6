"""Lightning, under either of its names: `lightning` or `pytorch_lightning`."""

from __future__ import annotations

import importlib
import sys
from typing import Any


def _first_of(names: tuple[str, ...]) -> Any:
    """Imports what the program already uses; otherwise the first that is installed."""
    ordered = sorted(names, key=lambda name: name.partition(".")[0] not in sys.modules)
    for name in ordered:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(error.name):
                raise  # it is installed, and broken
    raise ModuleNotFoundError("stoker.lightning needs Lightning: pip install lightning")


CheckpointIO: Any = _first_of(("lightning.fabric.plugins", "lightning_fabric.plugins")).CheckpointIO
Checkpoint: Any = _first_of(
    ("lightning.pytorch.callbacks", "pytorch_lightning.callbacks")
).Checkpoint
