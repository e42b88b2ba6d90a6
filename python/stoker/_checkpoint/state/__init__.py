"""Trees of values: what a save stores, and how it is found again."""
