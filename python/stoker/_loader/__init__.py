"""stoker.Loader: order, runs, batches."""
