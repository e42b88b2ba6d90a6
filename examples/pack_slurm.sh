#!/bin/bash
# Packs one dataset with a Slurm array: each task packs every 16th shard, and the merge runs when all
# are done. A task that was preempted or killed goes on where it was when Slurm runs it again.
#
#   sbatch --array=0-15 --requeue examples/pack_slurm.sh /data/images /data/shards
#
# Then, once:
#
#   sbatch --dependency=afterok:JOBID --wrap "stoker pack --merge /data/shards"
#SBATCH --job-name=stoker-pack
#SBATCH --cpus-per-task=8
set -euo pipefail

src=$1
dst=$2
task=${SLURM_ARRAY_TASK_ID:-0}
count=${SLURM_ARRAY_TASK_COUNT:-1}

exec stoker pack "$src" "$dst" --format tar --shuffle-seed 7 \
  --threads "${SLURM_CPUS_PER_TASK:-1}" --task "$task/$count"
