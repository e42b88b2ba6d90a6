"""Stoker under torchtitan: dataloader and checkpoint manager. Importing it imports torchtitan.

>>> config.checkpoint = stoker.torchtitan.CheckpointManager.Config(enable=True, interval=500)
"""

from stoker._frameworks.titan_checkpoints import CheckpointManager
from stoker._frameworks.titan_data import DataLoader

__all__ = ["CheckpointManager", "DataLoader"]
