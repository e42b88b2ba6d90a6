"""Tensors as memory: where their bytes are, parts of them, and tensors made of others."""
