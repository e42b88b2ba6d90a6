"""What `streaming.vision.base` derives from at import."""


class VisionDataset:
    """A name to inherit from; never instantiated by the tests."""
