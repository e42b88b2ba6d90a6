"""stoker.Preemption: a last checkpoint before the job is stopped."""
