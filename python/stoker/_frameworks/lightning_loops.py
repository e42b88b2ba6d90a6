"""The state of Lightning's loops, with its epochs counted correctly."""

from __future__ import annotations

import copy
from typing import Any

_PROGRESS, _BATCHES = "epoch_progress", "epoch_loop.batch_progress"


def with_epochs_counted(fit_loop: dict[str, Any]) -> dict[str, Any]:
    """Returns the state of a FitLoop, from which a resume continues with the right epoch.

    Lightning 2.6 that has resumed from a save after the last batch of an epoch does not count that
    the next one has begun: its `ready` and `started` stay behind `processed` by one. In a state
    that is saved then, an epoch that is running looks like one that is done, and the next resume
    trains an epoch too many or too few. A state without that mistake is returned as it is.
    """
    counts, batches = fit_loop.get(_PROGRESS), fit_loop.get(_BATCHES)
    if counts is None or batches is None:
        return fit_loop
    is_in_batch = batches["current"]["ready"] > batches["current"]["completed"]
    fixed = copy.deepcopy(counts)
    for count in (fixed["current"], fixed["total"]):
        begun = count["processed"] + is_in_batch  # a batch belongs to an epoch that has begun
        if count["ready"] < begun:
            count["ready"] = count["started"] = begun
    return {**fit_loop, _PROGRESS: fixed}
