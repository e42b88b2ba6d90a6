"""stoker.Dataset, stoker.Tokens and their sources."""
