"""What `streaming.base.dataloader` imports."""


class BatchFeature:
    """No object is one."""
