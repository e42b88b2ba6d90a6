#!/bin/bash
# Trains in a Slurm job that survives preemption, the time limit and lost nodes: the program saves a
# last checkpoint, the job is queued again under its number, and the same script continues. What
# follows is a program that uses stoker.Preemption, and its arguments; one process for each task.
#
#   sbatch --nodes=2 --gpus-per-node=8 --ntasks-per-node=8 examples/train_slurm.sh \
#     examples/language_model.py /shared/corpus.npy /shared/run --vocabulary 50257
#
#SBATCH --job-name=stoker-train
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --signal=USR1@120
#SBATCH --open-mode=append
set -euo pipefail

read -r MASTER_ADDR < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000)) # two jobs on one node have different ones
export MASTER_ADDR MASTER_PORT

# srun sends signals to the programs: no torchrun between, which would end them after 30 seconds.
# shellcheck disable=SC2016 # the variables are those of each task
exec srun --kill-on-bad-exit=1 bash -c '
  export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS
  exec "${STOKER_PYTHON:-python}" "$@"' train "$@"
