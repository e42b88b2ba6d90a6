"""stoker.profile, stoker.sweep, stoker.probe."""
