"""Turn a table of counts into sums, over units or over days.

Counts of users are sums of zeros and ones. Impressions are no units: those of one user are alike,
and a test of each would take chance for an effect. By day, the days can be units instead.

A column that may say again what others say, and fits none of its readings, contradicts the table. A
printed number may be rounded or cut off: half a unit of its last digit less, or a whole one more.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import product
from math import inf, sqrt
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from abeval.aggregates.sums import BUCKETS
from abeval.drafts import counts, words
from abeval.drafts.counts import (
    DAY_UNIT,
    CountTable,
    Outcome,
    Row,
    find_metric_stem,
    parse_number,
    read_interval_end,
)
from abeval.drafts.variants import find_nulls
from abeval.errors import LogError
from abeval.experiment.sources import ROW_UNIT
from abeval.stats.resampling import MIN_DAYS
from abeval.table.columns import quote_column

_MOST_DIGITS = 50
"""Most digits of a value; third powers of sums must stay finite."""


class Summary(NamedTuple):
    """Sums of a metric over the units of a variant, by column.

    `day` is the day whose values are summed, over the units active in it; None for the period.
    `segment` is the segment and value whose units are summed; None for all. `steps` are what whole
    sums of y, x and c count, if the table has scales.
    """

    metric: str
    variant: str
    day: str | None
    units: int
    sums: Mapping[str, Fraction]
    segment: tuple[str, str] | None = None
    steps: Mapping[str, Fraction] = MappingProxyType({})


@dataclass(frozen=True)
class Sums:
    """A table of sums, and what its columns say about them.

    Attributes:
        unit: What was randomised, as far as the table says it.
        entries: Of counts, metric → what an experiment file would say of it.
        segments: Name of a segment → its column.
        days_are_units: Whether rows are by day, and each day is one unit of both variants.
    """

    name: str
    rows: Sequence[Summary]
    unit: str = "unit"
    entries: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    segments: Mapping[str, str] = field(default_factory=dict)
    days_are_units: bool = False
    questions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class _Cell(NamedTuple):
    """One metric in one row of a table of counts."""

    metric: str
    outcome: Outcome
    variant: str
    day: str
    parts: Mapping[str, str]
    n: int
    y: Fraction
    yy: Fraction


def sum_counts(table: CountTable, unit: str, name: str) -> Sums:
    """Turn a table of counts into sums.

    Raises:
        LogError: A row is no count, or the table does not say enough for a verdict.
    """
    _check_labels(table, name)
    days_are_units = table.day is not None and unit != ROW_UNIT
    if not days_are_units:
        _check_units(table, unit, name)
    cells = [cell for item in table.outcomes for cell in _read_cells(table, item, name)]
    # The sum of squares of counts is known only if each unit counts at most once.
    more = {item.metric: item for item in cells if item.outcome.spread is None and item.y > item.n}
    for metric, item in more.items() if not days_are_units else ():
        raise LogError(
            f"{name}: {metric} of {item.variant} is {int(item.y):,} of {item.n:,}, "
            "more than one each",
            "counts are of units that have it or not; where a unit has several, bring mean and sd, "
            "or sums by user (docs/data.md)",
        )
    unused = _check_restated(table, name)
    rows = _sum_days(cells, name) if days_are_units else _sum_units(cells, table)
    outcomes = {cell.metric: cell.outcome for cell in cells}
    return Sums(
        name,
        rows,
        unit=DAY_UNIT if days_are_units else counts.name_unit(table.outcomes[0].n),
        entries={
            metric: _make_entry(outcome, metric not in more, days_are_units)
            for metric, outcome in outcomes.items()
        },
        segments={}
        if days_are_units
        else {words.slugify_name(part): part for part in table.segments},
        days_are_units=days_are_units,
        questions=tuple(counts.list_questions(table, unit)),
        notes=tuple(_list_notes(table, unused, days_are_units)),
    )


def _make_entry(outcome: Outcome, may_be_share: bool, is_ratio: bool) -> dict[str, str]:
    value, per = quote_column(outcome.column), quote_column(outcome.n)
    entry = {"numerator": value, "denominator": per} if is_ratio else {"value": value}
    entry |= {"unit": "share"} if may_be_share and outcome.spread is None else {}
    is_cost = words.mentions_role(outcome.column, "cost")
    return entry | ({"direction": "decrease"} if is_cost else {})


def _check_labels(table: CountTable, name: str) -> None:
    """Refuse rows without labels, totals of other rows, and duplicate rows."""
    labels = [table.variant, *filter(None, (table.day, table.metric)), *table.parts]
    nulls = find_nulls({row[table.variant] for row in table.rows})
    seen: dict[tuple[str, ...], int] = {}
    for row_number, row in enumerate(table.rows, start=1):
        key = tuple(row[label] for label in labels)
        for label, value in zip(labels, key, strict=True):
            if words.is_role_name(value, "total"):
                what = f"{name}, row {row_number}: {label} is {value!r}, the sum of other rows"
                raise LogError(what, "leave it out: sums are made of the rows")
            if not value or (label == table.variant and value in nulls):
                what = f"{name}, row {row_number}: {label} is {repr(value) if value else 'empty'}"
                raise LogError(what, "name it in each row, or leave the row out")
        if key in seen:
            both = f"rows {seen[key]} and {row_number} are both of {', '.join(key)}"
            raise LogError(f"{name}: {both}", "give one row of each: add up those of other units")
        seen[key] = row_number


def _check_units(table: CountTable, unit: str, name: str) -> None:
    if unit == DAY_UNIT:
        raise LogError(f"{name} has no rows by day", "add a column `day`, or say another unit")
    views = next((outcome.n for outcome in table.outcomes if outcome.counts_views), None)
    if views is not None and unit != ROW_UNIT:
        raise LogError(
            f"{name} counts {views}, not the units that were assigned: those of one user are "
            "alike, so how far chance goes cannot be known, and there is no verdict",
            f"bring sums by user (docs/data.md; `abeval tools sql --sums` writes the statement), "
            f"or rows by day. If each of the {views} was assigned by itself, say so: --unit row",
        )


def _read_cells(table: CountTable, outcome: Outcome, name: str) -> Iterator[_Cell]:
    for row_number, row in enumerate(table.rows, start=1):
        where = f"{name}, row {row_number}"
        n = _read_whole(row, outcome.n, where)
        if outcome.spread is not None:
            y, yy = _expand_mean(row, outcome, n, where)
        else:
            # Values are 0 or 1, so their squares have the same sum.
            y = yy = Fraction(_read_whole(row, outcome.column, where))
        metric = outcome.metric
        if table.metric is not None:
            metric_name = words.slugify_name(row[table.metric])
            metric = metric_name if len(table.outcomes) == 1 else f"{metric_name}_{metric}"
        parts = {part: row[part] for part in table.parts}
        day = "" if table.day is None else row[table.day]
        yield _Cell(metric, outcome, row[table.variant], day, parts, n, y, yy)


def _read_value(row: Row, column: str, where: str) -> Fraction:
    value = parse_number(row[column])
    if value is None:
        what = repr(row[column]) if row[column] else "empty"
        raise LogError(f"{where}: {column} is {what}", "write a number, 0 where there was none")
    return check_bounds(value, f"{where}: {column}")


def check_bounds(value: Decimal, what: str) -> Fraction:
    """Return a number as a fraction; refuse one that is too large or too small."""
    if value and abs(value.adjusted()) > _MOST_DIGITS:
        raise LogError(f"{what} is {value:.6g}", "no such value can be summed: is it a mistake?")
    return Fraction(value)


def _read_whole(row: Row, column: str, where: str) -> int:
    value = _read_value(row, column, where)
    if value < 0 or value.denominator != 1:
        what = f"{where}: {column} is {row[column]}, but counts are whole numbers"
        raise LogError(what, "write them in full, without decimals (12,345 is read as 12345)")
    return int(value)


def _expand_mean(row: Row, outcome: Outcome, n: int, where: str) -> tuple[Fraction, Fraction]:
    """Compute Σy and Σy² of n units from their mean and their spread."""
    spread = str(outcome.spread)
    mean, size = _read_value(row, outcome.column, where), _read_value(row, spread, where)
    if size < 0:
        raise LogError(f"{where}: {spread} is {row[spread]}", "a spread is not negative")
    # Σy² = (n − 1) · variance + n · mean².
    variance = _compute_variance(spread, size, Fraction(n))
    return n * mean, max(n - 1, 0) * variance + n * mean * mean


def _add_cells(
    cells: Iterable[_Cell], day: str | None = None, segment: tuple[str, str] | None = None
) -> list[Summary]:
    """Add up cells by metric and variant."""
    totals: dict[tuple[str, str], tuple[int, Fraction, Fraction]] = {}
    for cell in cells:
        n, y, yy = totals.get((cell.metric, cell.variant), (0, Fraction(0), Fraction(0)))
        totals[cell.metric, cell.variant] = n + cell.n, y + cell.y, yy + cell.yy
    return [
        Summary(*key, day, n, {"sum_y": y, "sum_yy": yy}, segment)
        for key, (n, y, yy) in totals.items()
    ]


def _sum_units(cells: Sequence[_Cell], table: CountTable) -> list[Summary]:
    """Sum cells of units: all of them, by day and by segment."""
    rows = _add_cells(cells)
    for day in sorted({cell.day for cell in cells if parse_day(cell.day)}):
        rows += _add_cells((cell for cell in cells if cell.day == day), day)
    for part in table.segments:
        for value in sorted({cell.parts[part] for cell in cells}):
            part_cells = (cell for cell in cells if cell.parts[part] == value)
            rows += _add_cells(part_cells, segment=(words.slugify_name(part), value))
    return rows


def parse_day(text: str) -> str | None:
    """Return the ISO date of a date or time; None for other texts."""
    with suppress(ValueError):
        return str(date.fromisoformat(text[:10]))
    return None


def _sum_days(cells: Sequence[_Cell], name: str) -> list[Summary]:
    """Sum cells by day, where each day is one unit of both variants."""
    days = list(dict.fromkeys(cell.day for cell in cells))
    if not MIN_DAYS <= len(days) <= BUCKETS:
        what = f"{name} has {len(days)} days, and days are its units"
        hint = f"bring {MIN_DAYS} to {BUCKETS} days, or sums by user (docs/data.md)"
        raise LogError(what, hint)
    keys, rows = dict.fromkeys((cell.metric, cell.variant) for cell in cells), list[Summary]()
    for day in days:
        day_rows = _add_cells((cell for cell in cells if cell.day == day), day)
        there = {(row.metric, row.variant) for row in day_rows}
        # Days are paired: one that lacks a variant compares nothing.
        for metric, variant in (key for key in keys if key not in there):
            what = f"{name} has no {metric} of {variant} on {day}"
            hint = "variants are compared on the same days: add it, or leave out the day"
            raise LogError(what, hint)
        rows += (
            row._replace(sums={"sum_y": row.sums["sum_y"], "sum_x": Fraction(row.units)})
            for row in day_rows
        )
    return rows


def _list_notes(table: CountTable, unused: Sequence[str], days_are_units: bool) -> Iterator[str]:
    if days_are_units:
        yield (
            "Days are the units: a variant's value is the sum of all days over the sum of all "
            "days, and its error is that of leaving out each day of both variants in turn. It "
            "holds what differs from day to day, but not users who return on other days, nor "
            "effects that change slowly. The split cannot be checked."
        )
        if table.parts:
            yield f"By day, effects are not shown by {', '.join(table.parts)}."
        for outcome in table.outcomes:
            if outcome.spread:
                yield f"By day, {outcome.spread} is not used."
    if unused:
        yield f"Columns of the table that are not used: {', '.join(unused)}."


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


def _check_restated(table: CountTable, name: str) -> list[str]:
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


def _compute_variance(spread: str, size: _Number, n: _Number) -> _Number:
    """Compute the variance between n units that a spread implies: at least 0."""
    is_square, is_error = _classify_spread(spread)
    # A printed 0 may stand for less than 0.
    size = max(size, size * 0)
    return (size if is_square else size * size) * (n if is_error else 1)


def _find_spreads(spread: str, target: str, size: float, n: float) -> _Ends:
    """Return the range of another spread of the same units."""
    is_square, is_error = _classify_spread(target)
    square = _compute_variance(spread, size, n) / (n if is_error else 1)
    # A variance divides by n or by n − 1, and the table does not say by which.
    ends = square * (1 - 1 / max(n, 1)), square * (1 + 1 / max(n - 1, 1))
    return ends if is_square else (sqrt(ends[0]), sqrt(ends[1]))


def _find_ends(side: str, spread: str | None, value: float, n: float, size: float = 0.0) -> _Ends:
    """Return the range in which an end of an interval can lie."""
    least, most, sign = 0.0, inf, -1 if side == "low" else 1
    if spread is None:
        value = value / n if n else 0.0
    elif n >= _MANY:
        error = sqrt(_compute_variance(spread, size, n) / n)
        least, most = _LEAST * error, _MOST * error
    return value + sign * least, value + sign * most


def _classify_spread(spread: str) -> tuple[bool, bool]:
    """Tell whether a spread is a variance, and whether it is a standard error.

    >>> _classify_spread("revenue_se"), _classify_spread("variance")
    ((False, True), (True, False))
    """
    kinds = {*words.split(spread)}
    return bool(kinds & {"variance", "var"}), bool(kinds & {"se", "sem", "stderr", "error"})
