"""Several processes that save and restore together."""
