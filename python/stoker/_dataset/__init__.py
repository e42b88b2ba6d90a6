"""stoker.Dataset, stoker.Tokens and what they read."""
