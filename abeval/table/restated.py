"""Check columns of a table of counts that repeat what others already say.

A printed number may be rounded or cut off: half a unit of its last digit less, or a whole one more.
A column that may say something again, and fits none of its readings, contradicts the table.
"""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import partial
from itertools import product
from math import inf, sqrt
from typing import NamedTuple, TypeVar

from abeval.drafts import words
from abeval.drafts.counts import CountTable, find_metric_stem, parse_number, read_interval_end
from abeval.errors import LogError

_EXACT = ("units", "views", "counted")
_ROUNDED = 1e-9
"""Relative tolerance for numbers that were computed elsewhere."""

_LEAST, _MOST, _MANY = 0.9, 6.0, 10
"""Plausible standard errors from a mean to an end (65 % to 100 %); least units."""

_Ends = tuple[float, ...]


class _Reading(NamedTuple):
    """One meaning of a column: the values that other cells of the row allow."""

    columns: tuple[str, ...]
    ends: Callable[..., _Ends]
    scale: float = 1.0


def check_restated(table: CountTable, name: str) -> list[str]:
    """Refuse a column that contradicts the others; return those that repeat nothing.

    Raises:
        LogError: With the first row where the two differ.
    """
    unused, steps = [], {column: _find_step(table, column) for column in table.numbers}
    for column in table.other_numbers:
        readings = [*_list_readings(table, column)]
        odd = [_find_odd_row(table, column, reading, steps) for reading in readings]
        if not readings:
            unused.append(column)
        # One meaning that fits is enough: the name of a column may have several.
        elif all(odd):
            row, row_number = table.rows[odd[0] - 1], odd[0]
            values = ", ".join(f"{label} is {row[label]}" for label in readings[0].columns)
            what = f"{name}, row {row_number}: {column} is {row[column]}, but {values}"
            raise LogError(what, f"correct one of them, or leave {column} out")
    return unused


def _find_odd_row(
    table: CountTable, column: str, reading: _Reading, steps: Mapping[str, float]
) -> int:
    """Return the number of the first row that a reading does not fit, or 0."""
    for row_number, row in enumerate(table.rows, start=1):
        cells = [_find_span(row[label], steps[label]) for label in reading.columns]
        # Printed numbers are rounded: the extremes are at the corners of what they leave open.
        ends = [end for corner in product(*cells) for end in reading.ends(*corner)]
        low, high = (reading.scale * end for end in _find_span(row[column], steps[column]))
        slack = _ROUNDED * max(abs(low), abs(high))
        if row[column] and not (low <= max(ends) + slack and min(ends) <= high + slack):
            return row_number
    return 0


def _find_step(table: CountTable, column: str) -> float:
    """Return one unit of the last printed digit of a column; 0 for counts."""
    if table.numbers[column] in _EXACT:
        return 0.0
    values = (parse_number(row[column]) for row in table.rows)
    exponents = [int(value.as_tuple().exponent) for value in values if value is not None]
    return 10.0 ** min([*exponents, 0])


def _find_span(cell: str, step: float) -> tuple[float, float]:
    """Return the range of values that a printed number can stand for."""
    value = float(parse_number(cell) or 0)
    # Rounded values are up to half a step off, truncated ones up to a whole step.
    return (value - step / 2, value + step) if value >= 0 else (value - step, value + step / 2)


def _list_readings(table: CountTable, column: str) -> Iterator[_Reading]:
    """Yield the readings of a column, by its role and its name."""
    role, stem, numbers = table.numbers[column], find_metric_stem(column), table.numbers
    alike = [item for item in table.outcomes if find_metric_stem(item.column) == stem]
    if not stem and len(table.outcomes) == 1:
        alike = [*table.outcomes]
    side = read_interval_end(column)
    if side and all(row[column] for row in table.rows):
        for item, scale in product(alike, _list_scales(table, column)):
            cells = (item.column, item.n, *filter(None, [item.spread]))
            yield _Reading(cells, partial(_find_ends, side, item.spread), scale)
    elif role == "spread":
        for spread, n in ((item.spread, item.n) for item in alike):
            if spread is not None:
                yield _Reading((spread, n), partial(_find_spreads, spread, column))
    elif role in ("rate", "mean"):
        roles = "once", "several", "click"
        is_any = not stem or any(words.mentions_role(item, *roles) for item in stem)
        counted = [item.column for item in table.outcomes if item.spread is None] if is_any else []
        sums = [y for y in numbers if numbers[y] in (*_EXACT, "other") and not read_interval_end(y)]
        of = [y for y in sums if any(map(find_metric_stem(y).count, stem))] or counted
        for item in (item for item in alike if item.spread is not None):
            yield _Reading((item.column,), lambda mean: (mean,))
        for y, d, scale in product(of, numbers, _list_scales(table, column)):
            if d != y and numbers[d] in _EXACT:
                yield _Reading((y, d), lambda of, n: (of / n,) if n else (-inf, inf), scale)
    else:
        for item in (item for item in alike if item.spread is not None):
            yield _Reading((item.column, item.n), lambda mean, n: (mean * n,))


def _list_scales(table: CountTable, column: str) -> Iterator[float]:
    """Yield the possible scales of a column: 1, and 0.01 for per cent."""
    cells = [row[column] for row in table.rows if row[column]]
    has_sign = any("%" in cell for cell in cells)
    is_percent = "%" in column or words.mentions_role(column, "percent")
    if has_sign or not is_percent:
        yield 1.0
    if not has_sign and (is_percent or any(_find_span(cell, 0.0)[1] > 1 for cell in cells)):
        yield 0.01


_Number = TypeVar("_Number", float, Fraction)


def compute_variance(spread: str, size: _Number, n: _Number) -> _Number:
    """Compute the variance between n units that a spread implies: at least 0."""
    is_square, is_error = classify_spread(spread)
    # A printed 0 may stand for less than 0.
    size = max(size, size * 0)
    return (size if is_square else size * size) * (n if is_error else 1)


def _find_spreads(spread: str, target: str, size: float, n: float) -> _Ends:
    """Return the range of another spread of the same units."""
    is_square, is_error = classify_spread(target)
    square = compute_variance(spread, size, n) / (n if is_error else 1)
    # A variance divides by n or by n − 1, and the table does not say by which.
    ends = square * (1 - 1 / max(n, 1)), square * (1 + 1 / max(n - 1, 1))
    return ends if is_square else (sqrt(ends[0]), sqrt(ends[1]))


def _find_ends(side: str, spread: str | None, value: float, n: float, size: float = 0.0) -> _Ends:
    """Return the range in which an end of an interval can lie."""
    least, most, sign = 0.0, inf, -1 if side == "low" else 1
    if spread is None:
        value = value / n if n else 0.0
    elif n >= _MANY:
        error = sqrt(compute_variance(spread, size, n) / n)
        least, most = _LEAST * error, _MOST * error
    return value + sign * least, value + sign * most


def classify_spread(spread: str) -> tuple[bool, bool]:
    """Tell whether a spread is a variance, and whether it is a standard error.

    >>> classify_spread("revenue_se"), classify_spread("variance")
    ((False, True), (True, False))
    """
    kinds = {*words.split(spread)}
    return bool(kinds & {"variance", "var"}), bool(kinds & {"se", "sem", "stderr", "error"})
