"""What frameworks find as the sampler of a torch DataLoader."""

from __future__ import annotations

from stoker._loader.runs import Runs


class EpochSampler:
    """Tells a Loader the current epoch of a framework. The order is the loader's own.

    Lightning calls ``loader.sampler.set_epoch()`` when an epoch begins, and so do programs written
    for torch's DistributedSampler.
    """

    def __init__(self, owner: object, runs: Runs) -> None:
        self._owner = owner  # keeps it alive: otherwise its runs would be closed
        self._runs = runs

    def set_epoch(self, epoch: int) -> None:
        """The next ``iter()`` of the loader is the one with this number, from its beginning.

        After ``load_state_dict()`` and before the first batch, the position stays unless the number
        is greater than the one at the time the state was saved: then the framework has begun
        another epoch since. A state without such a number, saved before any call, counts as saved
        in the epoch that it is in.

        A batch that the iteration of this epoch has returned before the call was fetched ahead:
        ``state_dict()`` stays one batch behind from then on.
        """
        self._runs.set_epoch(epoch, by_framework=True)
