"""Package of the one module below."""
