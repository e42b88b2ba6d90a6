"""What Slurm says about this job, and its requeue."""

from __future__ import annotations

import logging
import math
import os
import subprocess
from collections.abc import Mapping

_log = logging.getLogger("stoker")
_SCONTROL_SECONDS = 60.0


def end_time(environment: Mapping[str, str] = os.environ) -> float:
    """Returns when Slurm ends this job, in seconds since 1970; infinity if that is unknown."""
    text = environment.get("SLURM_JOB_END_TIME", "")
    if not text:
        return math.inf
    if not text.isdecimal():
        _log.warning("preemption: SLURM_JOB_END_TIME=%r is ignored: not seconds since 1970", text)
        return math.inf
    return float(text)


def requeue(environment: Mapping[str, str] = os.environ) -> None:
    """Calls ``scontrol requeue`` for this job.

    Raises:
        RuntimeError: This is not a job of Slurm, or it refused.
    """
    job = environment.get("SLURM_JOB_ID")
    if not job:
        raise RuntimeError("requeue: this is not a Slurm job: SLURM_JOB_ID is not set")
    command = ["scontrol", "requeue", job]
    told = " ".join(command)
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=_SCONTROL_SECONDS, check=False
        )
    except FileNotFoundError:
        raise RuntimeError(
            f"requeue: scontrol was not found, so Slurm job {job} was not requeued. In a "
            f"container, make Slurm's commands available, or run `{told}` outside"
        ) from None
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"`{told}` did not end within {_SCONTROL_SECONDS:g} s") from None
    if ran.returncode != 0:
        raise RuntimeError(f"`{told}` failed: {ran.stderr.strip() or ran.returncode}")
    _log.info("requeued Slurm job %s", job)
