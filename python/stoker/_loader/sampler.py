"""What frameworks find under the name of a torch DataLoader's sampler."""

from __future__ import annotations

from stoker._loader.runs import Runs


class EpochSampler:
    """Tells a Loader which epoch a framework is in. The order is the loader's own.

    Lightning calls ``loader.sampler.set_epoch()`` when an epoch begins, and so do programs that
    have used torch's DistributedSampler.
    """

    def __init__(self, owner: object, runs: Runs) -> None:
        self._owner = owner  # or its runs would be closed
        self._runs = runs

    def set_epoch(self, epoch: int) -> None:
        """As :meth:`Loader.set_epoch`, with two differences.

        After ``load_state_dict()`` the first number given is taken for that of the epoch that was
        loaded. And a batch that the iteration of this epoch has handed out by then was fetched
        ahead: ``state_dict()`` stays one batch behind from then on.
        """
        self._runs.set_epoch(epoch, by_framework=True)
