"""The warning that no checkpoint has the value that ``keep_best`` names."""

from __future__ import annotations

import logging
import os

from stoker import _native

_log = logging.getLogger("stoker")


class BestWatch:
    """Checks after saves whether a checkpoint has the value; warns once.

    Waits for some saves first: a value may be annotated after a later validation.
    """

    def __init__(self, directory: str, settings: _native.CheckpointerSettings) -> None:
        self._directory = directory
        self._best = settings.keep_best
        self._is_alone = settings.keep_last is None and not settings.keep_every
        self._save_count = 0

    def saved(self) -> None:
        """Call after each save."""
        if self._best is None:
            return
        metric, _, count = self._best
        self._save_count += 1
        if self._save_count <= count + 1:
            return
        try:
            metrics = _native.checkpoint_metrics(os.fsencode(self._directory))
        except (OSError, ValueError):  # for a warning only
            return
        self._best = None  # found, or warned: stop checking
        if metric in metrics:
            return
        there = f"existing values: {', '.join(metrics)}" if metrics else "none has any value"
        effect = "nothing is removed" if self._is_alone else "only the other rules keep any"
        text = "%s: keep_best: no checkpoint has a value %r, so %s; %s. annotate() adds one"
        _log.warning(text, self._directory, metric, effect, there)
