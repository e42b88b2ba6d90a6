"""map= and collate=, in threads and processes."""
