"""Packs one dataset on a Ray cluster: N tasks, then the merge.

    python examples/pack_ray.py /data/images /data/shards --tasks 16

Source and destination are on storage that every node sees. Run it again after a failure: finished
shards stay.
"""

from __future__ import annotations

import argparse
import subprocess

import ray


@ray.remote(num_cpus=4, max_retries=3)
def pack_task(source: str, destination: str, task: str) -> str:
    """Packs one part ("3/16") and returns what the command printed."""
    command = ["stoker", "pack", source, destination, "--format", "tar", "--task", task]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main() -> None:
    """Starts the tasks, waits for all of them, and joins what they packed."""
    parser = argparse.ArgumentParser(description="Pack a dataset on a Ray cluster.")
    parser.add_argument("source")
    parser.add_argument("destination")
    parser.add_argument("--tasks", type=int, default=16)
    arguments = parser.parse_args()
    ray.init()
    tasks = [
        pack_task.remote(arguments.source, arguments.destination, f"{i}/{arguments.tasks}")
        for i in range(arguments.tasks)
    ]
    for report in ray.get(tasks):
        print(report, end="")
    subprocess.run(["stoker", "pack", "--merge", arguments.destination], check=True)


if __name__ == "__main__":
    main()
