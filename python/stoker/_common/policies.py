"""Names of the page cache policies."""

from __future__ import annotations

from typing import Literal

Policy = Literal["automatic", "buffered", "direct", "drop_behind"]

_POLICIES = {
    **{name: name for name in ("auto", "buffered", "direct", "drop-behind")},
    "automatic": "auto",
    "drop_behind": "drop-behind",
}


def policy_name(policy: str) -> str:
    """Returns the core's name of a policy, from its name in Python or on the command line."""
    if policy not in _POLICIES:
        raise ValueError(f"policy={policy!r}: one of automatic, buffered, direct, drop_behind")
    return _POLICIES[policy]
