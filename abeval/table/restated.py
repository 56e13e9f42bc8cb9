"""Compare what a table of counts says twice: shares, sums, spreads and intervals beside counts.

A printed number may be rounded or cut off: half a unit of its last digit less, or a whole one more.
A column that may say something again, and fits none of its readings, contradicts the table.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from math import inf, sqrt
from typing import NamedTuple

from abeval.drafts import words
from abeval.drafts.counts import CountTable, metric_stem, number, read_interval_end
from abeval.errors import LogError

_EXACT = ("units", "views", "counted")
_ROUNDED = 1e-9
"""Relative error of doubles that were computed elsewhere."""

_LEAST, _MOST, _MANY = 0.9, 6.0, 10
"""Standard errors from a mean to its interval's ends, of 65 % or nearly all; of so many units."""

Ends = tuple[float, ...]


class Reading(NamedTuple):
    """What a column may say: ends of what is expected, of cells of the same row."""

    columns: tuple[str, ...]
    ends: Callable[..., Ends]
    scale: float = 1.0


def check_restated(table: CountTable, name: str) -> list[str]:
    """Refuse a column that contradicts the others; return those that say nothing again.

    Raises:
        LogError: With the first row where the two differ.
    """
    unused, steps = [], {column: _step(table, column) for column in table.numbers}
    for column in table.others:
        readings = [*_readings(table, column)]
        odd = [_first_odd(table, column, reading, steps) for reading in readings]
        if not readings:
            unused.append(column)
        elif all(odd):
            row, place = table.rows[odd[0] - 1], odd[0]
            shown = ", ".join(f"{one} is {row[one]}" for one in readings[0].columns)
            what = f"{name}, row {place}: {column} is {row[column]}, but {shown}"
            raise LogError(what, f"correct one of them, or leave {column} out")
    return unused


def _first_odd(table: CountTable, column: str, reading: Reading, steps: Mapping[str, float]) -> int:
    """Return the number of the first row that a reading does not fit; 0 of none."""
    for place, row in enumerate(table.rows, start=1):
        cells = [_span(row[one], steps[one]) for one in reading.columns]
        ends = [end for corner in product(*cells) for end in reading.ends(*corner)]
        low, high = (reading.scale * end for end in _span(row[column], steps[column]))
        slack = _ROUNDED * max(abs(low), abs(high))
        if row[column] and not (low <= max(ends) + slack and min(ends) <= high + slack):
            return place
    return 0


def _step(table: CountTable, column: str) -> float:
    """Return one unit of the last digit that a column has anywhere; 0 of counts."""
    if table.numbers[column] in _EXACT:
        return 0.0
    values = (number(row[column]) for row in table.rows)
    exponents = [int(value.as_tuple().exponent) for value in values if value is not None]
    return 10.0 ** min([*exponents, 0])


def _span(cell: str, step: float) -> tuple[float, float]:
    """Return what a printed number leaves open."""
    value = float(number(cell) or 0)
    return (value - step / 2, value + step) if value >= 0 else (value - step, value + step / 2)


def _readings(table: CountTable, column: str) -> Iterator[Reading]:
    """List what a column may say, by its role and its name."""
    role, stem, numbers = table.numbers[column], metric_stem(column), table.numbers
    alike = [one for one in table.outcomes if metric_stem(one.column) == stem]
    if not stem and len(table.outcomes) == 1:
        alike = [*table.outcomes]
    side = read_interval_end(column)
    if side and all(row[column] for row in table.rows):
        for one, scale in product(alike, _scales(table, column)):
            cells = (one.column, one.n, *filter(None, [one.spread]))
            yield Reading(cells, partial(_ends, side, one.spread), scale)
    elif role == "spread":
        for spread, n in ((one.spread, one.n) for one in alike):
            if spread is not None:
                yield Reading((spread, n), partial(_spreads, spread, column))
    elif role in ("rate", "mean"):
        is_any = not stem or any(words.says(one, "once", "several", "click") for one in stem)
        own = [one.column for one in table.outcomes if one.spread is None] if is_any else []
        sums = [y for y in numbers if numbers[y] in (*_EXACT, "other") and not read_interval_end(y)]
        of = [y for y in sums if any(map(metric_stem(y).count, stem))] or own
        for one in (one for one in alike if one.spread is not None):
            yield Reading((one.column,), lambda mean: (mean,))
        for y, d, scale in product(of, numbers, _scales(table, column)):
            if d != y and numbers[d] in _EXACT:
                yield Reading((y, d), lambda of, n: (of / n,) if n else (-inf, inf), scale)
    else:
        for one in (one for one in alike if one.spread is not None):
            yield Reading((one.column, one.n), lambda mean, n: (mean * n,))


def _scales(table: CountTable, column: str) -> Iterator[float]:
    """List what 1 in a column may be: 1, and per cent without their sign."""
    cells = [row[column] for row in table.rows if row[column]]
    has_sign = any("%" in cell for cell in cells)
    is_percent = "%" in column or words.says(column, "percent")
    if has_sign or not is_percent:
        yield 1.0
    if not has_sign and (is_percent or any(_span(cell, 0.0)[1] > 1 for cell in cells)):
        yield 0.01


def _variance(spread: str, size: float, n: float) -> float:
    """Return the variance between units that a spread says."""
    is_square, is_error = kind_of(spread)
    return (size if is_square else max(size, 0.0) ** 2) * (n if is_error else 1)


def _spreads(spread: str, other: str, size: float, n: float) -> Ends:
    """Return another spread of the same units, by n or by n − 1."""
    is_square, is_error = kind_of(other)
    square = max(_variance(spread, size, n), 0.0) / (n if is_error else 1)
    ends = square * (1 - 1 / max(n, 1)), square * (1 + 1 / max(n - 1, 1))
    return ends if is_square else (sqrt(ends[0]), sqrt(ends[1]))


def _ends(side: str, spread: str | None, value: float, n: float, size: float = 0.0) -> Ends:
    """Return where an end of the interval of a mean, or of a share, may be."""
    least, most, sign = 0.0, inf, -1 if side == "low" else 1
    if spread is None:
        value = value / n if n else 0.0
    elif n >= _MANY:
        error = sqrt(max(_variance(spread, size, n), 0.0) / n)
        least, most = _LEAST * error, _MOST * error
    return value + sign * least, value + sign * most


def kind_of(spread: str) -> tuple[bool, bool]:
    """Say whether a spread is a variance, and whether it is the error of a mean.

    >>> kind_of("revenue_se"), kind_of("variance")
    ((False, True), (True, False))
    """
    kinds = {*words.words(spread)}
    return bool(kinds & {"variance", "var"}), bool(kinds & {"se", "sem", "stderr", "error"})
