"""stoker.torch: torch.distributed.checkpoint reads and writes checkpoints of Stoker."""
