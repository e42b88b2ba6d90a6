"""Row filters as typed by users: ``label < 10 and split == 'train'``.

A separate grammar, in which nothing can be executed:

    filter     condition { "and" condition }
    condition  column operator literal
    operator   <  <=  >  >=  =  ==  !=
    column     a word (letters, digits, "_", "."), or any text in double or back quotes
    literal    a number, true, false, or a text in single or double quotes

A null is neither less than, equal, nor unequal to anything: rows with a null are left out. A NaN is
unequal to every number, and neither less nor greater.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

_CONDITIONS_MAX = 64
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?![\w.])
      | (?P<word>[^\W\d][\w.]*)
      | (?P<operator><=|>=|==|!=|<|>|=)
      | (?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)
    )""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Condition:
    """A column compared with a literal."""

    column: str
    operator: str  # "=" becomes "=="
    value: bool | int | float | str


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens = []
    at = 0
    end = len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"where {text!r}: not understood from {text[at:].strip()!r} on")
        kind = str(match.lastgroup)
        tokens.append((kind, match.group(kind)))
        at = match.end()
    return tokens


def _unquoted(text: str) -> str:
    return text[1:-1] if text[0] == "`" else re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)


def _literal(kind: str, token: str) -> bool | int | float | str:
    if kind == "number":
        return float(token) if re.search(r"[.eE]", token) else int(token)
    if kind == "quoted" and token[0] != "`":
        return _unquoted(token)
    if token in ("true", "false"):
        return token == "true"
    raise ValueError(f"{token} is not a literal: a number, true, false, or a text in quotes")


def parse_row_filter(text: str) -> list[Condition]:
    """Returns the conditions, which must all be true; ValueError shows where parsing failed."""
    tokens = _tokens(text)
    conditions: list[Condition] = []
    while True:
        head, tokens = tokens[:3], tokens[3:]
        if len(head) < 3:
            raise ValueError(
                f"where {text!r}: a condition is COLUMN OPERATOR LITERAL: 'label < 10'"
            )
        (name_kind, name), (operator_kind, operator), (kind, literal) = head
        is_name = name_kind == "word" or (name_kind == "quoted" and name[0] != "'")
        if not is_name or operator_kind != "operator":
            raise ValueError(
                f"where {text!r}: {name} {operator} {literal} is not COLUMN OPERATOR "
                "LITERAL, as in 'label < 10'; put the name of a column in double quotes if it "
                "is not one word"
            )
        try:
            value = _literal(kind, literal)
        except ValueError as error:
            raise ValueError(f"where {text!r}: {error}") from None
        column = name if name_kind == "word" else _unquoted(name)
        conditions.append(Condition(column, "==" if operator == "=" else operator, value))
        if len(conditions) > _CONDITIONS_MAX:
            raise ValueError(f"where: more than {_CONDITIONS_MAX} conditions")
        if not tokens:
            return conditions
        if tokens[0] != ("word", "and"):
            raise ValueError(f"where {text!r}: conditions are joined by 'and', not {tokens[0][1]}")
        tokens = tokens[1:]


def _for_integers(operator: str, value: float, least: int, most: int) -> tuple[str, int]:
    """Returns the condition with an integer literal, for integers from ``least`` to ``most``."""
    whole = value if value in (math.inf, -math.inf) else math.floor(value)
    if whole != value:  # between two integers
        if operator in ("==", "!="):
            whole = math.inf
        else:
            operator = "<=" if operator in ("<", "<=") else ">"
    if least <= whole <= most:
        return operator, int(whole)
    is_always = operator == "!=" or (operator in ("<", "<=")) == (whole > most)
    if operator == "==" or not is_always:
        return "<", least
    return ">=", least


def _for_floats(operator: str, value: float) -> tuple[str, float]:
    """Returns the condition for doubles, which cannot represent all integers of many digits."""
    try:
        nearest = float(value)
    except OverflowError:
        nearest = math.inf if value > 0 else -math.inf
    if nearest == value:
        return operator, nearest
    if operator in ("==", "!="):
        return operator, math.nan  # equal to nothing
    if nearest > value:
        return {"<=": "<", ">": ">="}.get(operator, operator), nearest
    return {"<": "<=", ">=": ">"}.get(operator, operator), nearest


def _fitted(condition: Condition, kind: Any, arrow: Any) -> tuple[str, Any]:
    """Returns operator and scalar for a column of the Arrow type ``kind``.

    Numbers are compared exactly, not after a cast that may change them.
    """
    operator, value = condition.operator, condition.value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if arrow.types.is_integer(kind):
            bits = kind.bit_width
            is_signed = arrow.types.is_signed_integer(kind)
            least, most = (
                (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else (0, 2**bits - 1)
            )
            operator, value = _for_integers(operator, value, least, most)
            return operator, arrow.scalar(value, kind)
        if arrow.types.is_floating(kind):
            operator, value = _for_floats(operator, value)
    return operator, arrow.scalar(value)


def to_arrow(conditions: list[Condition], schema: Any, arrow: Any, compute: Any) -> Any:
    """Returns a pyarrow.compute expression on columns of ``schema``."""
    expression = None
    for condition in conditions:
        field = compute.field(condition.column)
        kind = schema.types[schema.names.index(condition.column)]
        operator, scalar = _fitted(condition, kind, arrow)
        one = {
            "<": field.__lt__,
            "<=": field.__le__,
            ">": field.__gt__,
            ">=": field.__ge__,
            "==": field.__eq__,
            "!=": field.__ne__,
        }[operator](compute.scalar(scalar))
        expression = one if expression is None else expression & one
    return expression
