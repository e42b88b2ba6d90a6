"""Fills living objects, such as modules and optimizers, with what a checkpoint holds."""
