"""Stoker for torch.distributed.checkpoint; imports torch, which ``import stoker`` does not.

>>> from stoker.torch import DcpReader, DcpWriter
>>> dcp.save(state, checkpoint_id="run/step-100", storage_writer=DcpWriter("run"))
>>> dcp.load(state, checkpoint_id="run/step-100", storage_reader=DcpReader("run"))
"""

from __future__ import annotations

from stoker._dcp.reader import DcpReader
from stoker._dcp.writer import DcpWriter

__all__ = ["DcpReader", "DcpWriter"]
