"""Tell a table of counts by its columns: a row a variant, its units, and what was counted of them.

Rows may be by day and by segment, too. What the columns are follows from their names and from
what the caller says; where two columns fit, nothing is guessed: the error names the option.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from abeval.drafts import words
from abeval.drafts.columns import Column, Table
from abeval.drafts.guess import Guess, arms, variant_candidates
from abeval.engines.protocol import Engine
from abeval.engines.sql import quoted
from abeval.errors import LogError
from abeval.experiment.sources import ROW_UNIT

MOST_ROWS = 10_000
DAY_UNIT = "day"
"""The unit of a table of counts by day, where a person says that days may be units."""


UNITS = words.listed(
    """
    n nobs trials sample_size sample size total count units exposed assigned users visitors
    customers members people persons players subscribers participants subjects patients
    respondents recipients accounts devices cookies population
    """
)
"""Columns of how many units a variant has."""

_NEUTRAL = words.listed("n nobs trials sample_size sample size total count units exposed assigned")

_PERSONS = tuple(word for word in UNITS if word not in _NEUTRAL)

VIEWS = words.listed(
    """
    impressions views pageviews page_views sends sent emails delivered sessions visits requests
    searches loads hits exposures opportunities
    """
)
"""Columns of what one unit has several of; they are no units of a test."""

ONCE = words.listed(
    """
    success successes conversion conversions converted converters convs clickers buyers bought
    purchasers purchased orderers signups signup signed registered registrations activated
    activations retained responded responders responses subscribed installed installs opened wins
    positives yes completed churned cancelled unsubscribed refunded bounced complained
    """
)
"""Outcomes that a unit has or has not."""

SEVERAL = words.listed(
    """
    clicks click orders order purchases purchase sales transactions bookings opens downloads leads
    subscriptions renewals checkouts completions returns refunds unsubscribes bounces complaints
    cancellations errors likes shares plays events
    """
)
"""Outcomes that a unit may have several of."""

MEAN = words.listed("mean average avg mu")
SPREAD = words.listed(
    """
    sd std stdev stddev standard_deviation se sem stderr std_error standard_error variance var
    """
)
RATE = words.listed("rate rates per ctr cvr cr pct percent percentage share proportion %")
DAY = (*words.TIME, "week", "dt", "ds", "day_number", "week_start")
METRIC = words.listed("metric kpi measure outcome goal")
_AFFIXES = words.listed(
    "num number nr no of total unique uniques distinct count counts n cnt nb the"
)
_INDEX = re.compile(r"(unnamed:?_?\s?\d*|column\d+|index|)", re.IGNORECASE)
_TOTALS = words.listed("total totals all sum overall grand_total subtotal summe gesamt итого всего")


class Outcome(NamedTuple):
    """A metric of a table: the column of its counts, of their share of `n`, or of its means.

    `spread` is the column of the standard deviation, standard error or variance of a mean.
    """

    metric: str
    column: str
    n: str
    spread: str | None = None
    is_rate: bool = False

    @property
    def may_repeat(self) -> bool:
        """Tell whether one unit may count several times, by the name of the column."""
        is_once = words.has_word(self.column, (*ONCE, "unique", "distinct", *_PERSONS))
        return self.spread is None and not self.is_rate and not is_once

    @property
    def of_views(self) -> bool:
        """Tell whether `n` counts what one unit has several of."""
        return _is(self.n, VIEWS)

    @property
    def is_worse(self) -> bool:
        """Tell whether fewer are better."""
        return words.has_word(self.column, words.COST)


Row = Mapping[str, str]


@dataclass(frozen=True)
class CountTable:
    """A table of counts: its rows as text, by column, and what the columns are.

    Attributes:
        parts: Columns whose values part the units of a variant; those of `segments` are shown.
        rates: Columns that say what others say already, and are only checked.
        unused: Columns of numbers that are none of these.
    """

    rows: Sequence[Row]
    variant: str
    outcomes: tuple[Outcome, ...]
    day: str | None = None
    metric: str | None = None
    parts: tuple[str, ...] = ()
    segments: tuple[str, ...] = ()
    rates: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()


def unit_of(n: str) -> str:
    """Name the unit that a column counts; `unit` where its name does not say it."""
    return "unit" if words.named(n, _NEUTRAL) is not None else n


class Named(NamedTuple):
    """What the caller says of a table: its columns, and metrics as name → column and `n`.

    `unit` is `row` where each one that `n` counts was assigned by itself and counts once, `day`
    where days may be units.
    """

    variant: str = ""
    unit: str = ""
    metrics: Mapping[str, tuple[str, str | None]] | None = None
    segments: Sequence[str] = ()


def counts_of(engine: Engine, table: Table, named: Named) -> CountTable | None:
    """Return what a table counts; None where it is no table of counts.

    Raises:
        LogError: It is one, but two columns may be the same thing, or none is what is needed.
    """
    own = [c.name for c in table.columns if c.name.lower() == named.variant.lower()]
    variant = next(iter([*own, *(c.name for c in variant_candidates(table))]), None)
    if variant is None or not 0 < table.rows <= MOST_ROWS or any(map(_is_id, table.columns)):
        return None
    names = [c.name for c in table.columns if not _INDEX.fullmatch(c.name)]
    listed = ", ".join(f"cast({quoted(name)} as varchar)" for name in names)
    read = engine.rows(f"select {listed} from {quoted(table.relation)}")
    cells = [["" if cell is None else str(cell).strip() for cell in row] for row in read]
    # A blank row, such as the last line of a sheet, is no row.
    rows = [dict(zip(names, row, strict=True)) for row in cells if any(row)]
    times = [c.name for c in table.columns if c.kind == "time"]
    days = times + [name for name in names if words.named(name, DAY) is not None]
    day = next((name for name in days if name != variant), None)
    texts = [n for n in names if n not in (variant, day) and not _is_numbers(rows, n)]
    metric = next((name for name in texts if words.named(name, METRIC) is not None), None)
    parts = tuple(name for name in texts if name != metric)
    labels = [name for name in (variant, day, metric, *parts) if name]
    keys = {tuple(row[name] for name in labels) for row in rows}
    if 2 * len(keys) < len(rows) or 3 * len({key[1:] for key in keys}) > 2 * len(rows):
        # Many rows of one key, or keys that variants do not share, are units or events.
        return None
    numbers = _Numbers([name for name in names if name not in labels], rows)
    has_units = numbers.units or numbers.views
    if not has_units and not any(n for _, n in (named.metrics or {}).values()):
        return None
    outcomes = _outcomes(numbers, named)
    used = {name for one in outcomes for name in (one.column, one.n, one.spread)}
    rates = tuple(name for name in numbers.rates if name not in used)
    unused = tuple(name for name in numbers.names if name not in (*used, *rates))
    shown = tuple(name for name in parts if name in named.segments) or parts
    # Hours are no days: their rows are then of one day twice.
    rows = [row | {name: row[name][:10] for name in times} for row in rows]
    return CountTable(rows, variant, outcomes, day, metric, parts, shown, rates, unused)


def _is_id(column: Column) -> bool:
    return words.named(column.name, words.UNIT) is not None and column.distinct > 2


def number(text: str) -> Decimal | None:
    """Read a number as tables have it: `12,345`, `4.5%` (which is .045); None where it is none.

    Example:
        >>> number("12,345"), number("4.5%"), number("many")
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


def is_total(text: str) -> bool:
    """Tell whether a value names the sum of the other rows."""
    return words.named(text, _TOTALS) is not None or text.strip().casefold() in _TOTALS


def _is_numbers(rows: Sequence[Row], name: str) -> bool:
    values = [row[name] for row in rows if row[name]]
    return bool(values) and all(number(value) is not None for value in values)


def _is(name: str, listed: Sequence[str]) -> bool:
    """Tell whether a column is called so, also as `num_users`, `page views total`, `user_count`."""
    bare = [part for part in words.words(name) if part not in _AFFIXES]
    plurals = [f"{part}{end}" for part in ("_".join(bare), *bare[-1:]) for end in ("", "s")]
    return any(words.named(one, listed) is not None for one in (name, *plurals))


def _stem(name: str, listed: Sequence[str]) -> str | None:
    """Return what a column is the mean or the spread of; None where it is neither.

    >>> _stem("revenue_sd", SPREAD), _stem("avg revenue", MEAN), _stem("revenue", MEAN)
    ('revenue', 'revenue', None)
    """
    joined = f"_{'_'.join(words.words(name))}_"
    for word in sorted(listed, key=len, reverse=True):
        if f"_{word}_" in joined:
            return joined.replace(f"_{word}_", "_").strip("_")
    return None


class _Numbers:
    """The columns of numbers, by what their names say."""

    def __init__(self, names: Sequence[str], rows: Sequence[Row]) -> None:
        self.names = names
        stems = [(name, _stem(name, SPREAD), _stem(name, MEAN)) for name in names]
        self.spreads = {spread: name for name, spread, _ in stems if spread is not None}
        self.means = {mean: n for n, spread, mean in stems if spread is None and mean is not None}
        taken = {*self.spreads.values(), *self.means.values()}
        self.rates = [n for n in names if n not in taken and _is_rate(rows, n)]
        plain = [n for n in names if n not in taken and n not in self.rates]
        self.counted = [n for n in plain if words.has_word(n, (*ONCE, *SEVERAL))]
        rest = [n for n in plain if n not in self.counted]
        self.units = [n for n in rest if _is(n, UNITS)]
        self.views = [n for n in rest if n not in self.units and _is(n, VIEWS)]
        self.others = [n for n in rest if n not in (*self.units, *self.views)]

    def spread_of(self, column: str) -> str | None:
        """Return the spread of a mean: of the same name, or the only one of the only mean."""
        stem = next((stem for stem, name in self.means.items() if name == column), None)
        if stem is not None and len(self.means) == len(self.spreads) == 1:
            return next(iter(self.spreads.values()))
        return None if stem is None else self.spreads.get(stem)

    def outcome(self, metric: str, column: str, n: str) -> Outcome:
        """Return the outcome in a column."""
        spread = self.spread_of(column)
        if column in self.means.values() and spread is None:
            what = f"{column} is a mean, and no column has its standard deviation or error"
            raise LogError(what, "add it, such as `sd`, `se` or `variance`")
        return Outcome(metric, column, n, spread, column in self.rates)

    def name_of(self, column: str) -> str:
        """Name the metric of a column."""
        stem = next((stem for stem, name in self.means.items() if name == column), column)
        return words.slug(stem or "mean")


def _is_rate(rows: Sequence[Row], name: str) -> bool:
    shown = "%" in name or words.has_word(name, RATE)
    return shown or any(row[name].endswith("%") for row in rows)


def _outcomes(numbers: _Numbers, named: Named) -> tuple[Outcome, ...]:
    """Return the metrics that the caller names, else those that names of columns say."""
    if named.metrics is not None:
        outcomes = []
        for metric, (column, n) in named.metrics.items():
            for one in (column, n):
                if one is not None and one not in numbers.names:
                    what = f"metric {metric}: no column of numbers is called {one!r}"
                    raise LogError(what, f"there are: {', '.join(numbers.names)}")
            outcomes.append(numbers.outcome(metric, column, n or _units_of(numbers)))
        return tuple(outcomes)
    means = [name for name in numbers.means.values() if numbers.spread_of(name)]
    columns = [*numbers.counted, *means] or [*numbers.means.values()] or numbers.rates
    if not columns:
        what = f"no column is plainly what was counted of the {_units_of(numbers)}"
        others = numbers.others or ["conversions"]
        raise LogError(what, f"name it: --metric {others[0]}, or metrics=[{others[0]!r}]")
    n = _units_of(numbers)
    return tuple(numbers.outcome(numbers.name_of(column), column, n) for column in columns)


def _units_of(numbers: _Numbers) -> str:
    """Return the column of the units; ask where two could be it."""
    candidates = numbers.units or numbers.views
    if len(candidates) > 1:
        outcome = next(iter([*numbers.counted, *numbers.others]), "conversions")
        raise LogError(
            f"{' and '.join(candidates)} could each be the number of units",
            f"say which: --metric {outcome}={outcome}/{candidates[0]}",
        )
    return candidates[0]


def questions_of(table: CountTable, unit: str) -> Iterator[str]:
    """Yield what a table of counts leaves open, and how to answer it."""
    n = table.outcomes[0].n
    if unit == ROW_UNIT:
        return
    if table.day is not None and unit != DAY_UNIT:
        yield (
            f"unit: do the {n} of one day come back on others? If hardly, the days are the units: "
            "unit = 'day' (--unit day). If they do, by days alone chance looks like an effect: "
            "bring sums by user (docs/sums.md)"
        )
    elif table.day is None and any(one.of_views for one in table.outcomes):
        yield (
            f"unit: was each of the {n} assigned by itself? If so, unit = 'row' (--unit row); if "
            "users were, bring sums by user (docs/sums.md)"
        )
    for one in table.outcomes if table.day is None else ():
        if one.may_repeat and not one.of_views:
            yield (
                f"{one.metric}: does each of the {n} count at most once in {one.column}? If so, "
                "unit = 'row' (--unit row); if not, bring sums by user (docs/sums.md)"
            )


def counts_draft(
    engine: Engine, looked_at: Table, path: str | None, name: str
) -> tuple[str, tuple[Guess, ...], tuple[str, ...]] | None:
    """Draft the file of a table of counts, its guesses and questions; None for another table."""
    table = counts_of(engine, looked_at, Named())
    if table is None:
        return None
    import tomlkit

    from abeval.drafts.write import head_text, likely_weights, questions_of_split

    def text(value: object) -> str:
        return tomlkit.item(value).as_string()

    def column(name: str) -> str:
        return text(name if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) else quoted(name))

    n = table.outcomes[0].n
    units: dict[str, int] = {}
    for row in table.rows:
        units[row[table.variant]] = units.get(row[table.variant], 0) + int(number(row[n]) or 0)
    likely = arms(units, {})
    weights = likely_weights(units)
    questions = list(questions_of(table, ""))
    plain = (*words.OUTCOME, *words.COST)
    questions += [
        f"direction: is more {one.metric} better, or less? Say its `direction`"
        for one in table.outcomes
        if one.spread is not None and not words.has_word(one.metric, plain)
    ]
    questions += questions_of_split(likely, weights)
    lines = [head_text(name, questions).rstrip("\n")]
    by_day = "; 'day': days are the units" if table.day else ""
    lines += [
        f"unit = {text(unit_of(n))} # 'row': each of the {n} was assigned by itself{by_day}",
        f"control = {text(likely.control)} # {likely.certainty}: {likely.reason}",
        "",
        *(f"variants.{tomlkit.key(v).as_string()}.weight = {w}" for v, w in weights.items()),
        "",
        "[logs.sums]",
        *([] if path is None else [f"path = {text(path)}"]),
        f"columns.variant = {text(table.variant)}",
    ]
    if table.segments and table.day is None:
        lines += ["", "[segments]"]
        lines += [f"{words.slug(part)} = {column(part)}" for part in table.segments]
    for one in table.outcomes:
        lines += ["", "[[metrics]]", f"name = {text(one.metric)}", 'role = "goal"']
        lines += [f"numerator = {column(one.column)}", f"denominator = {column(one.n)}"]
        lines += ['unit = "share"'] if one.spread is None else []
        lines += ['direction = "decrease" # by its name'] if one.is_worse else []
    by_name = {one.name: one for one in looked_at.columns}
    guesses = [Guess("variant", by_name[table.variant], "likely", f"{len(units)} values")]
    for one in table.outcomes:
        reason = f"of {one.n}" if one.spread is None else f"a mean, with {one.spread}"
        guesses.append(Guess("outcome", by_name[one.column], "likely", reason))
    guesses += [Guess("segment", by_name[part], "likely", "text") for part in table.segments]
    return "\n".join(lines) + "\n", tuple(guesses), tuple(questions)
