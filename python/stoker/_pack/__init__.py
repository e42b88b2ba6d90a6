"""stoker.pack and stoker.ingest."""
