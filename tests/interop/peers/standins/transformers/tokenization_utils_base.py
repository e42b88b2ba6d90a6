"""What `streaming.base.dataloader` imports."""


class BatchEncoding:
    """No object is one."""
