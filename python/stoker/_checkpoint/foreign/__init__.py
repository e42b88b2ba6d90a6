"""Other tools' checkpoints."""
