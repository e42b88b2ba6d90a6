"""stoker.Checkpointer, stoker.load: save and restore."""
