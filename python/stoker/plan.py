"""Calculators for storage: one function for each kind of `stoker plan`.

>>> from stoker import plan
>>> need = plan.read(gpus=8, batch=256, sample="130KB", step="200ms")
>>> need.needed
1331200000.0
>>> print(need)  # doctest: +SKIP

Quantities are texts with their unit; counts may be numbers. docs/planning.md derives each formula.
"""

from __future__ import annotations

import inspect
import json
import numbers
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stoker import _native

__all__ = [
    "Answer",
    "Calculator",
    "checkpoint",
    "cliff",
    "cluster",
    "devices",
    "endurance",
    "epoch",
    "interval",
    "iops",
    "objects",
    "path",
    "prefetch",
    "raid",
    "read",
    "rule",
    "share",
    "stall",
    "targets",
    "tracking",
]

_KINDS = {kind["name"]: kind for kind in _native.plan_kinds()}
_FILE_BYTES_MAX = 1 << 20


class Answer:
    """What a calculator found. `str(answer)` is the report with every step.

    Each step is an attribute: a float in bytes, seconds, dollars, operations, and shares of one.
    """

    def __init__(self, text: str, content: dict[str, Any], svg: str | None) -> None:
        self._text = text
        self._content = content
        self.svg = svg  #: The curve as SVG; None if a number says it all.

    @property
    def values(self) -> dict[str, float]:
        """Returns every step by its name."""
        return dict(self._content["values"])

    def to_dict(self) -> dict[str, Any]:
        """Returns what `stoker plan --json` prints: inputs, steps, what binds, what changes it."""
        return self._content

    def __getattr__(self, name: str) -> float:
        if not name.startswith("_") and name in self._content["values"]:
            return float(self._content["values"][name])
        raise AttributeError(f"the answer has no step {name}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._content["values"]]

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        results = ", ".join(f"{name}={self.values[name]:g}" for name in self._content["results"])
        return f"stoker.plan.Answer({self._content['kind']}: {results})"

    def _repr_svg_(self) -> str | None:
        return self.svg


class Calculator:
    """A function of one kind of plan; its arguments are the options of `stoker plan KIND`."""

    def __init__(self, name: str) -> None:
        kind = _KINDS[name]
        self.__name__ = name
        lines = [f"  {field['name']}: {field['help']}" for field in kind["fields"]]
        self.__doc__ = "\n".join([kind["question"], "", kind["about"], "", *lines])
        self.__signature__ = inspect.Signature(
            [
                inspect.Parameter(
                    field["name"],
                    inspect.Parameter.KEYWORD_ONLY,
                    default=inspect.Parameter.empty
                    if field["required"]
                    else field["default"] or None,
                )
                for field in kind["fields"]
            ]
        )

    def __call__(
        self,
        *,
        from_: str | Sequence[str] = (),
        catalogue: str | os.PathLike[str] | None = None,
        workload: str | os.PathLike[str] | None = None,
        **fields: str | float | None,
    ) -> Answer:
        """Calculates.

        `from_` names devices of the catalogue whose values fill fields that are not given;
        `catalogue` is a file with devices of one's own, `workload` one with fields (`cluster`).

        Raises ValueError that names the field if one is missing, unknown, zero, negative, or not of
        its unit, and OSError for a file that cannot be read.
        """
        names = [from_] if isinstance(from_, str) else list(from_)
        settings = [
            (name, _text(name, value)) for name, value in fields.items() if value is not None
        ]
        content, text, svg = _native.plan_answer(
            self.__name__,
            settings,
            names,
            _file("catalogue", catalogue),
            _file("workload", workload),
        )
        return Answer(text, json.loads(content), svg)

    def __repr__(self) -> str:
        return f"<stoker.plan.{self.__name__}: {_KINDS[self.__name__]['question']}>"


def _text(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        return str(value)
    raise TypeError(
        f"{name}: expected a text like '130KB', or a number, not {type(value).__name__}"
    )


def _file(name: str, path: str | os.PathLike[str] | None) -> str:
    if path is None:
        return ""
    if not Path(path).is_file():
        raise FileNotFoundError(f"{name}: {os.fspath(path)} is not a file")
    with Path(path).open("rb") as file:
        content = file.read(_FILE_BYTES_MAX + 1)
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{name}: {os.fspath(path)} is not UTF-8") from None


def devices(catalogue: str | os.PathLike[str] | None = None) -> list[dict[str, Any]]:
    """Returns the catalogue: name, kind, source and values of each device."""
    return _native.plan_devices(_file("catalogue", catalogue))


checkpoint = Calculator("checkpoint")
cliff = Calculator("cliff")
cluster = Calculator("cluster")
endurance = Calculator("endurance")
epoch = Calculator("epoch")
interval = Calculator("interval")
iops = Calculator("iops")
objects = Calculator("objects")
path = Calculator("path")
prefetch = Calculator("prefetch")
raid = Calculator("raid")
read = Calculator("read")
rule = Calculator("rule")
share = Calculator("share")
stall = Calculator("stall")
targets = Calculator("targets")
tracking = Calculator("tracking")
