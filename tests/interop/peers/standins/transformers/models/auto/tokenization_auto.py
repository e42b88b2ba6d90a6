"""What `streaming.text` imports."""


class AutoTokenizer:
    """Never instantiated by the tests."""
