"""How the page cache is treated, by any of its names."""

from __future__ import annotations

_POLICIES = {
    **{name: name for name in ("auto", "buffered", "direct", "drop-behind")},
    "automatic": "auto",
    "drop_behind": "drop-behind",
}


def policy_name(policy: str) -> str:
    """The core's name of a policy, given as Python says it or as the command line does."""
    if policy not in _POLICIES:
        raise ValueError(f"policy={policy!r}: one of automatic, buffered, direct, drop_behind")
    return _POLICIES[policy]
