"""Arguments of a torch DataLoader that a Loader lacks, and what to use instead."""

from __future__ import annotations

HINTS = {
    "batch_sampler": "order= is for which sample comes when, batch_size= for how many make a batch",
    "collate_fn": "give collate=, a function of a list of samples",
    "dataset": "the data is the first argument",
    "drop_last": 'give tail="drop" for True, tail="keep" for False',
    "generator": "give seed=; map= gets a generator of its own for each sample",
    "in_order": "batches always come in order: leave it out",
    "multiprocessing_context": 'map_in="process" starts processes for map=: leave it out',
    "num_workers": "native threads read, as many as are needed (threads=), and map= runs in "
    'map_workers= threads, or processes with map_in="process": leave it out',
    "persistent_workers": "threads and processes stay from epoch to epoch: leave it out",
    "pin_memory_device": 'give device="cuda"',
    "prefetch_factor": 'depth= is how many batches to prepare, and "auto" finds it: leave it out',
    "sampler": "give order=, an array of sample numbers or a sampler",
    "timeout": "an error of a read is raised at its batch: leave it out",
    "transform": "give map=, a function of a sample and a random generator",
    "worker_init_fn": "map= gets a random generator for each sample and needs no seeding: leave it "
    "out",
}
