"""Stoker under Lightning: saves and resumes of its Trainer. Importing it imports Lightning.

>>> trainer = lightning.Trainer(plugins=[stoker.lightning.CheckpointIO()])
"""

from stoker._frameworks.lightning_callback import CheckpointerCallback
from stoker._frameworks.lightning_io import CheckpointIO

__all__ = ["CheckpointIO", "CheckpointerCallback"]
