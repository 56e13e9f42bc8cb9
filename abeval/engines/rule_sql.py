"""SQL of what a unit's id draws: its variant by a rule of assignment, and its sub-bucket.

A rule has one where its hashes have a form in plain SQL. `logs/names.py` places the units of a log
by it, `cli/assign.py` prints it.
"""

import math
from collections.abc import Callable, Mapping

from abeval.assignment import SLOTS, SUB_BUCKETS, draws
from abeval.assignment.draws import Draw, HashName, Rule
from abeval.engines.builders import HexHash, hex_call
from abeval.engines.protocol import Engine
from abeval.engines.sql import literal

_HEX_DIGITS: Mapping[HashName, tuple[HexHash, int]] = {
    "md5_32": ("md5", 8),
    "md5_60": ("md5", 15),
    "sha1_60": ("sha1", 15),
    "sha256_64": ("sha256", 16),
    "sha256": ("sha256", 64),
}
"""The SQL function, and how many of its hex digits make the number."""


def rule_sql(rule: Rule, unit: str) -> str | None:
    """SQL of the variant of a unit, None where a hash of the rule has no form in plain SQL.

    Args:
        rule: The rule.
        unit: SQL of the id as text.

    Example:
        >>> from abeval.assignment.draws import Stage, shares
        >>> draw = Draw("md5_32", "salt-", modulus=10)
        >>> print(rule_sql(Rule((Stage(draw, shares({"a": 1, "b": 1}, 10)),)), "id"))
        case when (abeval_md5_hex('salt-' || id, 1, 8) % 10) >= 0 and \
(abeval_md5_hex('salt-' || id, 1, 8) % 10) < 5 then 'a' \
when (abeval_md5_hex('salt-' || id, 1, 8) % 10) >= 5 and \
(abeval_md5_hex('salt-' || id, 1, 8) % 10) < 10 then 'b' end
    """
    numbers = [_number(stage.draw, unit) for stage in rule.stages]
    label: str | None = "null"
    for stage, number in zip(reversed(rule.stages), reversed(numbers), strict=True):
        if number is None:
            return None
        last = stage is rule.stages[-1]
        cases = " ".join(
            f"when {number} >= {_constant(r.start)} and {number} < {_constant(r.stop)} "
            f"then {literal(r.label) if last else f'({label})'}"
            for r in stage.ranges
            if r.start < r.stop
        )
        label = f"case {cases} end" if cases else "null"
    return label


def _number(draw: Draw, unit: str) -> str | None:
    if draw.hash not in _HEX_DIGITS:
        return None
    function, digits = _HEX_DIGITS[draw.hash]
    parts = [literal(draw.before)] if draw.before else []
    parts += [unit] + ([literal(draw.after)] if draw.after else [])
    text = " || ".join(parts)

    def number(start: int, count: int) -> str:
        return hex_call(function, text, start, count)

    whole = _remainder(number, digits, draw.modulus)
    if draw.divisor is None:
        return whole
    return f"({whole} / {_double(draw.divisor)})"


def _remainder(number: Callable[[int, int], str], digits: int, modulus: int | None) -> str:
    """The remainder of a number of many hex digits, eight digits at a time."""
    if digits <= draws.HEX_DIGITS:
        whole = number(1, digits)
        return whole if modulus is None else f"({whole} % {modulus})"
    if modulus is None:
        raise ValueError("a number of more than 60 bits needs a modulus")
    rest = "0"
    for start in range(1, digits, 8):
        rest = f"(({rest} * 4294967296 + {number(start, 8)}) % {modulus})"
    return rest


def _constant(number: float) -> str:
    if math.isinf(number):
        return "1e300" if number > 0 else "-1e300"
    return str(int(number)) if number == int(number) else _double(number)


def _double(number: float) -> str:
    """A number that every engine reads as a double, without a cast."""
    text = repr(number)
    return text if "e" in text else f"{text}e0"


def sub_bucket_sql(engine: Engine, salt: str, unit: str) -> str:
    """Write the SQL of the sub-bucket of a unit."""
    return f"{engine.hash60(salt, f'cast({unit} as varchar)')} // {SLOTS} % {SUB_BUCKETS}"
