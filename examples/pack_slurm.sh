#!/bin/bash
# Packs one dataset with a Slurm array: each task packs its share of the shards, and the merge runs
# when all are done. A task that was preempted or killed continues where it was when Slurm runs it
# again. What follows source and destination goes to `stoker pack` as it is.
#
#   sbatch --array=0-15 --requeue examples/pack_slurm.sh /data/images /data/shards --shuffle-seed 7
#
# Then, once:
#
#   sbatch --dependency=afterok:JOBID --wrap "stoker pack --merge /data/shards"
#SBATCH --job-name=stoker-pack
#SBATCH --cpus-per-task=8
set -euo pipefail

src=$1
dst=$2
shift 2
task=${SLURM_ARRAY_TASK_ID:-0}
count=${SLURM_ARRAY_TASK_COUNT:-1}

exec stoker pack "$src" "$dst" --threads "${SLURM_CPUS_PER_TASK:-1}" --task "$task/$count" "$@"
