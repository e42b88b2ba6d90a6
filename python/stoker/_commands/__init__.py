"""The parts of the command that run in Python."""
