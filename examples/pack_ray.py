"""Packs one dataset on a Ray cluster: N tasks, then the merge.

    python examples/pack_ray.py /data/images /data/shards --tasks 16 --shuffle-seed 7

Options that are not of this program go to ``stoker pack`` as they are. Source and destination are
on storage that every node sees. Run it again after a failure: finished shards stay.
"""

from __future__ import annotations

import argparse
import subprocess

import ray


@ray.remote(max_retries=3)
def pack_task(command: list[str]) -> str:
    """Packs one part and returns what the command printed."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    """Starts the tasks, waits for all of them, and joins what they packed."""
    parser = argparse.ArgumentParser(
        description="Pack a dataset on a Ray cluster.", allow_abbrev=False
    )
    parser.add_argument("source")
    parser.add_argument("destination")
    parser.add_argument("--tasks", type=int, default=16)
    parser.add_argument("--cpus", type=int, default=4, help="threads of each task")
    arguments, options = parser.parse_known_args()
    ray.init()
    command = ["stoker", "pack", arguments.source, arguments.destination, *options]
    command += ["--threads", str(arguments.cpus)]
    start = pack_task.options(num_cpus=arguments.cpus)
    tasks = [start.remote([*command, "--task", f"{i}/{arguments.tasks}"])
             for i in range(arguments.tasks)]  # fmt: skip
    for report in ray.get(tasks):
        print(report, end="")
    subprocess.run(["stoker", "pack", "--merge", arguments.destination], check=True)


if __name__ == "__main__":
    main()
