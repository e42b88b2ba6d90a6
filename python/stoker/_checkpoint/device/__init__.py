"""Tensors on GPUs: streams, memory for snapshots, and where tensors are read to."""
