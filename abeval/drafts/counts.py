"""Recognise a table of counts by its columns: variant, units, successes.

Rows may be by day and by segment, too. What the columns are follows from their names and from
what the caller says; where two columns fit, nothing is guessed: the error names the option.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import combinations
from typing import Literal, NamedTuple

from abeval.drafts import words
from abeval.drafts.columns import Table
from abeval.drafts.guess import list_variant_candidates
from abeval.engines.sql import Engine, quote
from abeval.errors import LogError
from abeval.experiment.sources import ROW_UNIT

MOST_ROWS = 10_000
DAY_UNIT = "day"
"""The unit of counts by day, if a person says that days may be units."""

_INDEX = re.compile(r"(unnamed:?_?\s?\d*|column\d+|index|)", re.IGNORECASE)


class Outcome(NamedTuple):
    """A metric of a table of counts: its column, of counts or of means.

    `spread` is the column of the standard deviation, standard error or variance of a mean.
    """

    metric: str
    column: str
    n: str
    spread: str | None = None

    @property
    def counts_views(self) -> bool:
        """Tell whether `n` counts views, of which one unit has several."""
        return _is_called(self.n, "views")


Row = Mapping[str, str]

_Role = Literal["spread", "mean", "rate", "counted", "units", "views", "other"]


@dataclass(frozen=True)
class CountTable:
    """A table of counts: its rows as text, and the roles of its columns.

    Attributes:
        parts: Columns whose values divide the units of a variant; `segments` are those to show.
        numbers: Columns of numbers, and what they are by their names.
        other_numbers: Columns of numbers that are no outcomes.
    """

    rows: Sequence[Row]
    variant: str
    outcomes: tuple[Outcome, ...]
    numbers: Mapping[str, _Role]
    other_numbers: tuple[str, ...]
    day: str | None = None
    metric: str | None = None
    parts: tuple[str, ...] = ()
    segments: tuple[str, ...] = ()


def name_unit(n: str) -> str:
    """Name the unit that a column counts; `unit` if its name does not say it."""
    return "unit" if words.is_role_name(n, "neutral") else n


class CallerNames(NamedTuple):
    """Columns that the caller names; metrics are name → column and `n`.

    `unit` is `row` where each one that `n` counts was assigned by itself and counts once, `day`
    where days may be units.
    """

    variant: str = ""
    unit: str = ""
    metrics: Mapping[str, tuple[str, str | None]] | None = None
    segments: Sequence[str] = ()


def read_counts(engine: Engine, table: Table, caller_names: CallerNames) -> CountTable | None:
    """Read a table of counts; None if the table is another one.

    Raises:
        LogError: It is one, but two columns may be the same thing, or none is what is needed.
    """
    chosen = [c.name for c in table.columns if c.name.lower() == caller_names.variant.lower()]
    variant = next(iter([*chosen, *(c.name for c in list_variant_candidates(table))]), None)
    # Ids of users mean a row per user, not a row per variant.
    has_ids = any(c.has_role_name("unit") and c.distinct > 2 for c in table.columns)
    if variant is None or not 0 < table.rows <= MOST_ROWS or has_ids or table.clusters:
        return None
    names = [c.name for c in table.columns if c.name == variant or not _INDEX.fullmatch(c.name)]
    select_list = ", ".join(f"cast({quote(name)} as varchar)" for name in names)
    read = engine.rows(f"select {select_list} from {quote(table.relation)}")
    cells = [["" if cell is None else str(cell).strip() for cell in row] for row in read]
    # A blank row, such as the last line of a sheet, is no row.
    rows = [dict(zip(names, row, strict=True)) for row in cells if any(row)]
    times = [c.name for c in table.columns if c.kind == "time" and c.name in names]
    days = times + [name for name in names if words.is_role_name(name, "time", "day")]
    day = next((name for name in days if name != variant), None)
    texts = [n for n in names if n not in (variant, day) and not _holds_numbers(rows, n)]
    metric = next((name for name in texts if words.is_role_name(name, "metric")), None)
    parts = tuple(name for name in texts if name != metric)
    labels = [name for name in (variant, day, metric, *parts) if name]
    keys = {tuple(row[name] for name in labels) for row in rows}
    # Keys that variants do not share are those of units or events.
    if are_many_rows(len(rows), len(keys)) or 3 * len({key[1:] for key in keys}) > 2 * len(rows):
        return None
    numbers = {name: _find_role(name, rows) for name in names if name not in labels}
    has_units = {"units", "views"} & {*numbers.values()}
    if not has_units and not any(n for _, n in (caller_names.metrics or {}).values()):
        return None
    outcomes = _find_outcomes(numbers, caller_names)
    used = {name for outcome in outcomes for name in (outcome.column, outcome.n, outcome.spread)}
    other_numbers = tuple(name for name in numbers if name not in used)
    segments = tuple(name for name in parts if name in caller_names.segments) or parts
    # Hours are no days: their rows are then of one day twice.
    rows = [row | {name: row[name][:10] for name in times} for row in rows]
    return CountTable(rows, variant, outcomes, numbers, other_numbers, day, metric, parts, segments)


def are_many_rows(rows: int, keys: int) -> bool:
    """Tell whether keys of variant, day and parts have more rows than counts do."""
    return 2 * keys < rows


def may_be_key(name: str, holds_numbers: bool) -> bool:
    """Tell whether a column may divide counts: a day, or one without numbers."""
    return not holds_numbers or words.is_role_name(name, "time", "day")


def parse_number(text: str) -> Decimal | None:
    """Parse a number such as `12,345` or `4.5%` (0.045); None for other text.

    Example:
        >>> parse_number("12,345"), parse_number("4.5%"), parse_number("many")
        (Decimal('12345'), Decimal('0.045'), None)
    """
    plain = text.replace("\N{NO-BREAK SPACE}", " ").strip()
    plain, is_percent = plain.removesuffix("%").strip(), plain.endswith("%")
    if re.fullmatch(r"[+-]?\d{1,3}([, ]\d{3})+(\.\d+)?", plain):
        plain = re.sub("[, ]", "", plain)
    try:
        value = Decimal(plain)
    except InvalidOperation:
        return None
    if not value.is_finite():
        return None
    return value.scaleb(-2) if is_percent else value


def _holds_numbers(rows: Sequence[Row], name: str) -> bool:
    values = [row[name] for row in rows if row[name]]
    return bool(values) and all(parse_number(value) is not None for value in values)


def _find_role(name: str, rows: Sequence[Row]) -> _Role:
    """Find the role of a column of numbers by its name and its per cent signs."""
    is_percent = "%" in name or any(row[name].endswith("%") for row in rows)
    if read_interval_end(name):
        return "other"
    # The first role that fits is taken: `conversion_rate` is a rate, not a count.
    roles: Mapping[_Role, bool] = {
        "spread": _find_stem(name, "spread") is not None,
        "mean": _find_stem(name, "mean") is not None,
        "rate": is_percent or words.mentions_role(name, "rate"),
        "counted": words.mentions_role(name, "once", "several"),
        "units": _is_called(name, "neutral", "persons"),
        "views": _is_called(name, "views"),
    }
    return next((role for role, is_so in roles.items() if is_so), "other")


def _select_role(numbers: Mapping[str, _Role], role: _Role) -> list[str]:
    return [name for name, column_role in numbers.items() if column_role == role]


def _is_called(name: str, *roles: str) -> bool:
    """Tell whether a column's name has a role, ignoring affixes such as `num_`."""
    bare = [part for part in words.split(name) if not words.is_role_name(part, "affix")]
    # `num_users`, `page views total` and `user_count` count users and views.
    plurals = [f"{part}{end}" for part in ("_".join(bare), *bare[-1:]) for end in ("", "s")]
    return any(words.is_role_name(spelling, *roles) for spelling in (name, *plurals))


def _find_stem(name: str, role: str) -> str | None:
    """Return the quantity of a mean or spread by its name; None for other names.

    >>> _find_stem("revenue_std_error", "spread"), _find_stem("sales", "mean")
    ('revenue', None)
    """
    parts = words.split(name)
    # Longer groups of words first: `std error` is no `std`.
    for start, end in sorted(combinations(range(len(parts) + 1), 2), key=lambda p: p[0] - p[1]):
        if "".join(parts[start:end]) in words.LISTS[role]:
            return "_".join((*parts[:start], *parts[end:]))
    return None


def read_interval_end(column: str) -> Literal["low", "high", ""]:
    """Return the end of an interval that a column's name means, or empty.

    >>> [read_interval_end(name) for name in ("revenue_ci_low", "upper 95", "high_value_users")]
    ['low', 'high', '']
    """
    parts = words.split(column)
    for end in ("low", "high"):
        if words.is_role_name("".join(parts[-1:]), end) or (
            words.mentions_role(column, end) and words.mentions_role(column, "interval")
        ):
            return end
    return ""


def find_metric_stem(column: str) -> tuple[str, ...]:
    """Return the words of a column's name that name its quantity.

    >>> [find_metric_stem(name) for name in ("avg_revenue_per_user", "total clicks")]
    [('revenue',), ('clicks',)]
    """
    stems = (_find_stem(column, role) for role in ("spread", "mean"))
    parts = words.split(next((word for word in stems if word is not None), column))
    parts = parts[: parts.index("per")] if "per" in parts[1:] else parts
    roles = ("rate", "affix", "sum", "low", "high", "interval")
    return tuple(word for word in parts if not words.is_role_name(word, *roles))


def _find_outcomes(numbers: Mapping[str, _Role], caller_names: CallerNames) -> tuple[Outcome, ...]:
    """Find the metrics: those of the caller, else those that column names show."""
    means, metrics = _select_role(numbers, "mean"), caller_names.metrics
    if metrics is None:
        plain = [name for name in means if _find_spread(numbers, name)]
        plain = [*_select_role(numbers, "counted"), *plain]
        names = {name: name for name in plain or means or _select_role(numbers, "rate")}
        names |= {name: _find_stem(name, "mean") or "mean" for name in means if name in names}
        metrics = {words.slugify_name(name): (column, None) for column, name in names.items()}
    outcomes = []
    for metric, (column, n) in metrics.items():
        for name in (column, n):
            if name is not None and name not in numbers:
                what = f"metric {metric}: no column of numbers is called {name!r}"
                raise LogError(what, f"there are: {', '.join(numbers)}")
        spread = _find_spread(numbers, column)
        if column in means and spread is None:
            what = f"{column} is a mean, and no column has its standard deviation or error"
            raise LogError(what, "add it, such as `sd`, `se` or `variance`")
        if numbers[column] == "rate":
            what = f"{column} is a share that fits several counts"
            raise LogError(what, "give the number of successes as a column of its own")
        outcomes.append(Outcome(metric, column, n or _find_units(numbers), spread))
    if not outcomes:
        what = f"no column clearly says what was counted of the {_find_units(numbers)}"
        example = next(iter(_select_role(numbers, "other")), "conversions")
        raise LogError(what, f"name it: --metric {example}, or metrics=[{example!r}]")
    return tuple(outcomes)


def _find_spread(numbers: Mapping[str, _Role], column: str) -> str | None:
    """Find the spread of a mean, by its name or because there is only one."""
    spreads = _select_role(numbers, "spread") if numbers[column] == "mean" else []
    if len(spreads) == len(_select_role(numbers, "mean")) == 1:
        return spreads[0]
    stem = _find_stem(column, "mean")
    return next((name for name in spreads if _find_stem(name, "spread") == stem), None)


def _find_units(numbers: Mapping[str, _Role]) -> str:
    """Find the column of units; refuse to choose between two."""
    candidates = _select_role(numbers, "units") or _select_role(numbers, "views")
    if len(candidates) > 1:
        named = [*_select_role(numbers, "counted"), *_select_role(numbers, "other")]
        outcome = next(iter(named), "conversions")
        raise LogError(
            f"{' and '.join(candidates)} could each be the number of units",
            "say which: abeval analyze FILE --metric "
            + shlex.quote(f"{words.slugify_name(outcome)}={outcome}/{candidates[0]}"),
        )
    return candidates[0]


def list_questions(table: CountTable, unit: str) -> Iterator[str]:
    """Yield the open questions about a table of counts."""
    n = table.outcomes[0].n
    if unit == ROW_UNIT or (table.day is not None and unit == DAY_UNIT):
        return
    if table.day is not None:
        yield (
            f"unit: do the {n} of one day come back on others? If hardly any do, the days are the "
            "units: unit = 'day' (--unit day). If many do, chance looks like an effect by days: "
            "bring sums by user (docs/data.md)"
        )
        return
    if any(outcome.counts_views for outcome in table.outcomes):
        yield (
            f"unit: was each of the {n} assigned by itself? If so, unit = 'row' (--unit row); if "
            "users were, bring sums by user (docs/data.md)"
        )
    for outcome in table.outcomes:
        is_once = words.mentions_role(outcome.column, "once", "persons", "distinct")
        # A count of purchases may have several of one user: then it is no share.
        if outcome.spread is None and not (is_once or outcome.counts_views):
            yield (
                f"{outcome.metric}: does each of the {n} count at most once in {outcome.column}? "
                "If so, unit = 'row' (--unit row); if not, bring sums by user (docs/data.md)"
            )
