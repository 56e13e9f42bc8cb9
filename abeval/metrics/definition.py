"""Define what a metric is: its source, terms, direction, role and margin."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from abeval.packaged import load_toml_next_to

Past = Literal["", "items", "units"]
"""Of the time before the period: the popularity of items alone, or what each unit clicked, too."""


@dataclass(frozen=True)
class Source:
    """Where a metric's values come from, and what can be done with them.

    One of `daily`, `of_days` and `no_days` says what the values by day are.

    Attributes:
        reads: Columns of `impressions` that the query reads; none if it only reads sums per unit.
        per_unit: Whether each unit has one value; if not, other queries compute the metric.
        daily: Whether the query has rows by `day` that add up. Only such metrics are compared in
            the pre-period.
        of_past: What the query reads of the time before the period. If not empty, the metrics exist
            only for a file that names them.
        of_days: Whether each day has a value, but the days do not add up to the period's value.
        no_days: Why the metric has no effects by day, for users to read.
        no_replays: Why A/A replays cannot split it, None if they can.
        no_cuts: Why parts of the traffic cannot have it, None if they can.
        is_average: Whether the values are averages of a quality, whose total means nothing.
        events: For values since exposure: their log, empty if there are several; else None.
        file: Its query in `queries/` if that has another name; empty if it has none.
        sql: The text of the query of an added metric; None for a file of `queries/`.

    Example:
        >>> GAUC.query, GAUC.daily, AUC.no_days, AUC.can_cap
        ('4_metrics/gauc', False, 'AUC over all impressions does not add up over days', False)
    """

    name: str
    title: str
    reads: tuple[str, ...] = ()
    scored: bool = False
    per_unit: bool = True
    daily: bool = False
    of_past: Past = ""
    of_days: bool = False
    no_days: str | None = None
    no_replays: str | None = None
    no_cuts: str | None = None
    is_average: bool = False
    events: str | None = None
    file: str | None = None
    sql: str | None = None

    def __post_init__(self) -> None:
        """Check that the source says what its values are by day."""
        if self.daily + self.of_days + (self.no_days is not None) != 1:
            raise ValueError(f"source {self.name!r}: set one of daily, of_days and no_days")

    @property
    def can_cap(self) -> bool:
        """Tell whether units' totals can be capped: windows need them by day."""
        return self.no_days is None

    @property
    def has_before(self) -> bool:
        """Tell whether its units have pre-period values, to compare groups."""
        return (self.daily and self.of_past != "units") or self.events not in (None, "units")

    @property
    def reads_rows(self) -> bool:
        """Tell whether its query reads single impressions."""
        return bool(self.reads) and self.events is None

    @property
    def reads_metric_rows(self) -> bool:
        """Tell whether its query reads `metric_rows`: a unit's impressions of all days."""
        return self.reads_rows and self.per_unit and not self.scored

    @property
    def query(self) -> str:
        """Return the path of its query in `queries/`; empty for functions of metrics."""
        if self.file is not None:
            return self.file
        return f"4_metrics/{self.name if self.events is None else 'unit_events'}"

    def __str__(self) -> str:
        return self.name


SOURCES: Mapping[str, Source] = {
    name: Source(name, **{**entry, "reads": (*entry.get("reads", ()),)})
    for name, entry in load_toml_next_to(__file__, "sources.toml").items()
}
"""The sources of built-in metrics, and of those that an experiment file defines, by name."""

UNIT_DAY = SOURCES["unit_day"]
PAGE_VIEWS = SOURCES["page_views"]
SESSIONS = SOURCES["sessions"]
GAUC = SOURCES["gauc"]
AUC = SOURCES["auc"]
QUANTILE = SOURCES["quantile"]
FUNCTION = SOURCES["function"]
CATALOGUE = SOURCES["catalogue"]


def build_events_source(log: str) -> Source:
    """Build the source of a log's events since exposure.

    A funnel has several logs: its source has an empty name.
    """
    of_impressions = log in ("impressions", "")
    return Source(
        f"events_of_{log}" if log else "funnels",
        f"events of {log}" if log else "funnels",
        ("in_period", "time_ms", "day") if of_impressions else (),
        no_days="a value since a unit's exposure does not add up over days",
        no_cuts="a value since a unit's exposure is not a sum over the impressions of a cell",
        events=log,
    )


Combine = Literal["any", "sum", "max", "count_distinct", "first"]
"""How the values of a unit's rows are combined."""

Missing = Literal["zero", "drop", "refuse"]
"""What happens to a value that is null, NaN or infinite: 0, left out, or an error."""

SPAN = r"^\d+(\.\d+)?\s*(m|minutes?|h|hours?|d|days?|weeks?)$"

_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}


def span_ms(text: str) -> int:
    """Convert a span of time of the form `SPAN` to milliseconds; a day has 24 hours.

    Example:
        >>> span_ms("7 days"), span_ms("1.5h")
        (604800000, 5400000)
    """
    number, word = re.findall(r"[\d.]+|[a-z]+", text)
    return round(float(number) * _MS[word[0]])


@dataclass(frozen=True)
class RowValue:
    """The value of a log row for a unit; null if the row does not count.

    Numbers that are not whole are rounded to multiples of `resolution`.
    """

    log: str
    expression: str
    combine: Combine = "any"
    resolution: float | None = None


@dataclass(frozen=True)
class PerUnit:
    """How to compute a unit's value from its log rows since exposure.

    Attributes:
        number: Number of the metric in its experiment. The names of its columns contain it.
        values: The value of a row, and the denominator of a ratio; for a funnel, the value of each
            step.
        nulls: Counts of rows whose value is no number, in the order of `values`.
        presence: Counts of rows with a value, if units without any such row are left out.
        day: The local day since exposure, 0 for the day of the exposure; None for all days.
    """

    number: int
    values: tuple[RowValue, ...]
    nulls: tuple[RowValue, ...] = ()
    presence: tuple[RowValue, ...] = ()
    within_ms: int | None = None
    day: int | None = None
    is_funnel: bool = False

    @property
    def logs(self) -> tuple[str, ...]:
        """List the logs whose rows it reads."""
        return tuple(dict.fromkeys(value.log for value in self.values))

    @property
    def is_timed(self) -> bool:
        """Tell whether a unit counts only if the logs cover its whole window."""
        return self.within_ms is not None or self.day is not None

    def column(self, what: str) -> str:
        """Name one of its columns: `value`, `under`, `whole`, `open`, `null`, `known`."""
        return f"{what}_{self.number}"


Role = Literal["goal", "guardrail", "diagnostic"]
Kind = Literal["mean", "ratio", "quantile", "function", "auc", "catalogue"]
Need = Literal[
    "unit",
    "ts",
    "click",
    "dwell",
    "request_id",
    "item_id",
    "position",
    "score",
    "category",
    "[pre_period]",
]

ROW_NEEDS: Mapping[str, Need] = {
    **{
        need: need for need in get_args(Need) if need not in ("unit", "ts", "dwell", "[pre_period]")
    },
    "dwell_ms": "dwell",
    "time_ms": "ts",
}
"""Column of an impression that a query of an added metric may read → what the log must have."""


@dataclass(frozen=True)
class Direction:
    """Which way is better: up, down, or toward a target value.

    `toward` is the target; with one, `sign` says nothing. Else 1 is up and −1 is down.
    """

    sign: Literal[1, -1] = 1
    toward: float | None = None

    @property
    def label(self) -> str:
        """Return `increase`, `decrease` or `toward VALUE`."""
        if self.toward is not None:
            return f"toward {self.toward:g}"
        return "increase" if self.sign > 0 else "decrease"


INCREASE = Direction(sign=1)
DECREASE = Direction(sign=-1)
DIRECTIONS: Mapping[str, Direction] = {"increase": INCREASE, "decrease": DECREASE}


@dataclass(frozen=True)
class Margin:
    """The largest harm a guardrail allows, relative or in the metric's unit."""

    size: float
    relative: bool


@dataclass(frozen=True)
class RowTerm:
    """A row-level expression over an impression, summed as an integer.

    Attributes:
        scale: Factor from the integer sum to the metric's value.
        resolution: None if the expression is an integer; otherwise it is rounded to whole
            multiples of this before the sum, so that the order of summing does not matter.
        of_unit: Whether each row is one unit, with covariates measured before the experiment.
        test: What the expression asks of other values; None if it is a value itself.
    """

    expression: str
    scale: float = 1.0
    resolution: float | None = None
    of_unit: bool = False
    test: "NumberTest | None" = None


@dataclass(frozen=True)
class NumberTest:
    """Mark the rows whose values are all finite numbers, or all other rows, by 1.

    Attributes:
        values: Expressions of a row.
        marks_finite: Whether 1 stands for rows of finite numbers; otherwise for the others.
    """

    values: tuple[str, ...]
    marks_finite: bool


@dataclass(frozen=True)
class ColumnTerm:
    """An integer column of the source's query, in units of `scale`."""

    column: str
    scale: float = 1.0
    rounded: bool = False


@dataclass(frozen=True)
class UnitTerm:
    """A covariate from the units table, in multiples of `resolution`."""

    expression: str
    resolution: float

    @property
    def scale(self) -> float:
        """Return the worth of one counted unit."""
        return self.resolution


Term = RowTerm | ColumnTerm | UnitTerm


@dataclass(frozen=True)
class Metric:
    """A metric: its definition, and how an experiment judges it.

    Attributes:
        kind: `mean` (a sum per unit), `ratio` (sum over sum), `quantile` (of a value per
            impression), `function` (of other metrics), `auc`, or `catalogue`.
        unit: Unit of the value; empty for a pure number.
        label: Name of the metric in reports; empty if that is `name`.
        value: Numerator of a ratio, or the value of a mean. For a quantile, the value of an
            impression, null if it has none. None for functions and catalogue metrics.
        per: Denominator of a ratio; None for a mean, which is divided by the units.
        function: Arithmetic over the names of `parts`, which are means and ratios.
        left_out: What the definition leaves out, in words, and the term that counts these rows.
        lacking: Rows whose value is no number, in the form of `left_out`.
        missing: What happens to the rows of `lacking`.
        presence_terms: Terms that count rows with a value, and rows without. A unit with only rows
            of the second kind is left out. None if all units count.
        covariates: Further sums of the pre-period for CUPED, in addition to the metric's own.
        within: For a guardrail with a range in place of a margin: the least and the largest value
            allowed.
        cap: Quantile of all units' values, over all variants, to which larger values are cut.
        per_unit: How the value follows from a unit's rows since its exposure; None for other
            metrics.
        test: The name of an added test statistic; None for that of its kind.
        among: The term that is 1 for units that the metric covers; None if it covers all units.
    """

    name: str
    kind: Kind
    formula: str
    unit: str = ""
    label: str = ""
    description: str = ""
    direction: Direction = INCREASE
    role: Role = "diagnostic"
    source: Source = UNIT_DAY
    value: Term | None = None
    per: Term | None = None
    level: float | None = None
    function: str | None = None
    parts: "tuple[Metric, ...]" = ()
    needs: frozenset[Need] = frozenset()
    left_out: tuple[tuple[str, Term], ...] = ()
    lacking: tuple[tuple[str, Term], ...] = ()
    missing: Missing = "zero"
    presence_terms: tuple[Term, Term] | None = None
    covariates: tuple[Term, ...] = ()
    margin: Margin | None = None
    within: tuple[float, float] | None = None
    cap: float | None = None
    test: str | None = None
    per_unit: PerUnit | None = None
    among: ColumnTerm | None = None

    @property
    def is_mean_or_ratio(self) -> bool:
        """Tell whether its value is a sum over units, or a ratio of two such sums."""
        return self.kind in ("mean", "ratio")

    @property
    def has_target(self) -> bool:
        """Tell whether it should meet a value, so that neither way is better."""
        return self.direction.toward is not None or self.within is not None


def explain_no_cuts(metric: Metric) -> str | None:
    """Return why a metric has no value in a part of the traffic; None if it has."""
    # Days of several cells overlap, so their counts do not add up.
    if metric.source.no_cuts is None and ColumnTerm("c_days") in list_value_terms(metric):
        return "a day may have impressions of several cells"
    return metric.source.no_cuts


def splits_by_cut(metric: Metric) -> bool:
    """Tell whether a difference splits into changes within cells and of the mix."""
    return metric.kind == "ratio" and metric.source == UNIT_DAY and explain_no_cuts(metric) is None


def find_rounding_step(metric: Metric) -> float:
    """Return the rounding step of the numerator's values; 0 if exact.

    A smaller spread of values may be rounding noise.
    """
    match metric.value:
        case RowTerm(resolution=float(step)):
            return step
        case ColumnTerm(rounded=True, scale=step):
            return step
        case _:
            return 0.0


def list_row_terms(metric: Metric) -> tuple[RowTerm, ...]:
    """List the terms of a metric that are summed over impressions."""
    counted = (term for _, term in (*metric.left_out, *metric.lacking))
    value = None if metric.kind == "quantile" else metric.value
    terms = (value, metric.per, *counted, *(metric.presence_terms or ()), *metric.covariates)
    direct_terms = tuple(term for term in terms if isinstance(term, RowTerm))
    return (*direct_terms, *(term for part in metric.parts for term in list_row_terms(part)))


def list_value_terms(metric: Metric) -> tuple[Term, ...]:
    """Return the metric's numerator, and its denominator if it is a ratio."""
    return tuple(term for term in (metric.value, metric.per) if term is not None)


def list_scales(metric: Metric) -> tuple[float, float]:
    """Return the value of 1 in the integer sums of numerator and denominator."""
    value, per = (1.0 if term is None else term.scale for term in (metric.value, metric.per))
    return value, per


def list_covariate_scales(metric: Metric) -> tuple[float, ...]:
    """Return the scales of y, x, the covariates and the newness flag.

    The covariates are the metric's own earlier sums first, then the further ones.
    """
    terms = (*list_value_terms(metric), *metric.covariates)
    return (*list_scales(metric), *(term.scale for term in terms), 1.0)


def list_event_terms(metric: Metric) -> tuple[RowTerm, ...]:
    """Return the value that a quantile ranks; none for other kinds."""
    if metric.kind == "quantile" and isinstance(metric.value, RowTerm):
        return (metric.value,)
    return ()


def list_row_values(metric: Metric) -> tuple[RowValue, ...]:
    """List the row values that a metric, or a part of it, is computed from."""
    per_unit = metric.per_unit
    direct = () if per_unit is None else (*per_unit.values, *per_unit.nulls, *per_unit.presence)
    return (*direct, *(value for part in metric.parts for value in list_row_values(part)))


def list_unit_terms(metric: Metric) -> tuple[UnitTerm, ...]:
    """List the covariates of a metric that are in the table of units."""
    return tuple(term for term in metric.covariates if isinstance(term, UnitTerm))
