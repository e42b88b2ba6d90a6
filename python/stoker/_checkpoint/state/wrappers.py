"""The names of a module's state without the prefixes that wrappers add, by the wrapper's type."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

# Where the class of a wrapper is, and its attribute with the module inside. A class is looked up
# only if its Python module is loaded: otherwise no object of it exists.
_WRAPPERS = (
    ("torch.nn.parallel.distributed", "DistributedDataParallel", "module"),
    ("torch.nn.parallel.data_parallel", "DataParallel", "module"),
    ("torch._dynamo.eval_frame", "OptimizedModule", "_orig_mod"),
    (
        "torch.distributed.algorithms._checkpoint.checkpoint_wrapper",
        "ActivationWrapper",
        "_checkpoint_wrapped_module",
    ),
    (
        "torch.distributed.fsdp.fully_sharded_data_parallel",
        "FullyShardedDataParallel",
        "_fsdp_wrapped_module",
    ),
    ("torch.optim.swa_utils", "AveragedModel", "module"),
)


class Wrappers:
    """Finds wrappers by their types. Thread safety: use one object in one thread."""

    def __init__(self) -> None:
        self._kinds = [
            (kind, attribute)
            for place, name, attribute in _WRAPPERS
            if (kind := getattr(sys.modules.get(place), name, None)) is not None
        ]
        self._attributes: dict[type, str | None] = {}

    def attribute_of(self, module: Any) -> str | None:
        """Returns the attribute of a wrapper that has the module inside; None for others."""
        kind = type(module)
        if kind not in self._attributes:
            found = (attribute for one, attribute in self._kinds if issubclass(kind, one))
            self._attributes[kind] = next(found, None)
        return self._attributes[kind]

    def bare_name(self, module: Any, name: str) -> str:
        """Returns a name of the module's state without the prefixes of wrappers in it."""
        bare: list[str] = []
        while True:
            first, _, rest = name.partition(".")
            attribute = self.attribute_of(module)
            inner = None if attribute is None else module._modules.get(attribute)
            if inner is not None and first == attribute and rest:
                module, name = inner, rest
            elif inner is not None and not _is_own(module, first):
                module = inner  # a hook of the wrapper has taken the prefix off
            elif rest and (child := module._modules.get(first)) is not None:
                bare.append(first)
                module, name = child, rest
            else:
                return ".".join([*bare, name])


def _is_own(module: Any, name: str) -> bool:
    """Whether the state of that name is the wrapper's, not that of the module inside."""
    members = (module._parameters, module._buffers, module._modules, ("_extra_state",))
    return any(name in own for own in members)


def bare_names(module: Any, names: Iterable[str]) -> dict[str, str]:
    """Returns names of a module's state, each with the name that it has without wrappers.

    A user's own submodule called ``module`` is no wrapper, and its name stays. If two names would
    become equal, all stay as they are.
    """
    wrappers = Wrappers()
    same = {name: name for name in names}
    if not any(wrappers.attribute_of(one) is not None for one in module.modules()):
        return same
    bare = {name: wrappers.bare_name(module, name) for name in same}
    return bare if len(set(bare.values())) == len(bare) else same
