"""What a metric is: its terms, its direction, its role and its margin.

`builtin.py` and `experiment/metrics.py` make `Metric`s; each step reads from them what to sum and
how to judge it.
"""

from dataclasses import dataclass
from typing import Literal

Role = Literal["goal", "guardrail", "diagnostic"]
Kind = Literal["mean", "ratio", "quantile", "function", "auc", "catalogue"]
Need = Literal[
    "unit", "ts", "click", "dwell", "request_id", "item_id", "position", "score", "category"
]


@dataclass(frozen=True)
class Direction:
    """Which way is better: up, down, or toward a value.

    Example:
        >>> Direction(toward=1.0).label, Direction(sign=-1).label
        ('toward 1', 'decrease')
    """

    sign: Literal[1, -1] = 1
    toward: float | None = None

    @property
    def label(self) -> str:
        """`increase`, `decrease` or `toward VALUE`."""
        if self.toward is not None:
            return f"toward {self.toward:g}"
        return "increase" if self.sign > 0 else "decrease"


INCREASE = Direction(sign=1)
DECREASE = Direction(sign=-1)


@dataclass(frozen=True)
class Margin:
    """The worst harm a guardrail may do: a fraction of control, or in the metric's own unit."""

    size: float
    relative: bool


@dataclass(frozen=True)
class RowTerm:
    """A row-level expression over an impression, summed by the engine as an integer.

    Attributes:
        expression: SQL over the columns of an impression.
        scale: The value of 1 in the integer sum: the metric's value is the sum times this.
        resolution: None if the expression is an integer; otherwise it is rounded to whole
            multiples of this before the sum, so that the order of summing does not matter.
        of_unit: Whether it is of a row that is a unit: its columns are all the log's own, and as a
            covariate it was measured before, although it is in the same row.
    """

    expression: str
    scale: float = 1.0
    resolution: float | None = None
    of_unit: bool = False


@dataclass(frozen=True)
class ColumnTerm:
    """A summable integer column of the metric's source query.

    Attributes:
        column: Its name.
        scale: The worth of one counted unit.
        rounded: Whether its values were rounded to whole multiples of the scale.
    """

    column: str
    scale: float = 1.0
    rounded: bool = False


@dataclass(frozen=True)
class UnitTerm:
    """A value of a unit, from its row in the table of units beside the impressions.

    Attributes:
        expression: SQL over the columns of the row.
        resolution: It is rounded to whole multiples of this; also its scale.
    """

    expression: str
    resolution: float

    @property
    def scale(self) -> float:
        """The worth of one counted unit."""
        return self.resolution


Term = RowTerm | ColumnTerm | UnitTerm


@dataclass(frozen=True)
class Metric:
    """A metric: its definition, and how an experiment judges it.

    Attributes:
        name: Its id.
        kind: `mean` (a sum per unit), `ratio` (sum over sum), `quantile` (of a value per
            impression), `function` (of other metrics), `auc`, or `catalogue`.
        formula: In words.
        unit: Of the value, empty for a pure number.
        direction: Which way is better.
        role: `goal`, `guardrail` or `diagnostic`.
        source: The query that its per-unit values come from.
        value: Numerator, or the value of a mean; of a quantile, the value of an impression, null
            where it has none; None for functions and catalogue metrics.
        per: Denominator of a ratio; None for a mean, which is divided by the units.
        level: Of a quantile, between 0 and 1.
        function: Arithmetic over the names of `parts`.
        parts: The means and ratios that a function is of.
        needs: What the log must have.
        left_out: What the definition leaves out, in words, and the term that counts it.
        zeros: What it counts as 0, because it is no number, in the same form.
        covariates: Further sums of the pre-period for CUPED, beside the metric's own.
        margin: Of a guardrail, or of an equivalence.
        cap: The quantile of all units' values, over all variants, to which larger ones are cut.
        per_unit: How it follows from a unit's rows since its exposure; None for other metrics.
        among: The term that is 1 for units that it is a mean or a ratio of, None for all units.
    """

    name: str
    kind: Kind
    formula: str
    unit: str = ""
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
    zeros: tuple[tuple[str, Term], ...] = ()
    covariates: tuple[Term, ...] = ()
    margin: Margin | None = None
    cap: float | None = None
    per_unit: PerUnit | None = None
    among: ColumnTerm | None = None

    @property
    def is_mean_or_ratio(self) -> bool:
        """Whether its value is a sum over units, divided by the units or by another sum."""
        return self.kind in ("mean", "ratio")


def no_cuts(metric: Metric) -> str | None:
    """Why a metric has no value in a part of the traffic, None where it has.

    Example:
        >>> no_cuts(Metric("days", "mean", "days", value=ColumnTerm("c_days")))
        'a day may have impressions of several cells'
    """
    if metric.source.no_cuts is None and ColumnTerm("c_days") in own_terms(metric):
        return "a day may have impressions of several cells"
    return metric.source.no_cuts


def splits_by_cut(metric: Metric) -> bool:
    """Whether its difference is that within cells and that of their mix: a ratio of sums."""
    return metric.kind == "ratio" and metric.source == UNIT_DAY and no_cuts(metric) is None


def rounding(metric: Metric) -> float:
    """The step to which values of the numerator are rounded; 0 if they are exact.

    It tells spread from rounding noise.
    """
    match metric.value:
        case RowTerm(resolution=float(step)):
            return step
        case ColumnTerm(rounded=True, scale=step):
            return step
        case _:
            return 0.0


def row_terms(metric: Metric) -> tuple[RowTerm, ...]:
    """The terms of a metric that are summed over impressions."""
    counted = (term for _, term in (*metric.left_out, *metric.zeros))
    value = None if metric.kind == "quantile" else metric.value
    terms = (value, metric.per, *counted, *metric.covariates)
    own = tuple(term for term in terms if isinstance(term, RowTerm))
    return (*own, *(term for part in metric.parts for term in row_terms(part)))


def own_terms(metric: Metric) -> tuple[Term, ...]:
    """Numerator and, of a ratio, denominator."""
    return tuple(term for term in (metric.value, metric.per) if term is not None)


def scales(metric: Metric) -> tuple[float, float]:
    """The worth of one counted unit of the numerator and of the denominator."""
    value, per = (1.0 if term is None else term.scale for term in (metric.value, metric.per))
    return value, per


def covariate_scales(metric: Metric) -> tuple[float, ...]:
    """The worth of one counted unit of y, x, the covariates and newness.

    The covariates are the metric's own earlier sums first, then the further ones.
    """
    terms = (*own_terms(metric), *metric.covariates)
    return (*scales(metric), *(term.scale for term in terms), 1.0)


def event_terms(metric: Metric) -> tuple[RowTerm, ...]:
    """The value that a quantile ranks; none for other kinds."""
    if metric.kind == "quantile" and isinstance(metric.value, RowTerm):
        return (metric.value,)
    return ()


def row_values(metric: Metric) -> tuple[RowValue, ...]:
    """What rows of logs are worth to a metric since exposure, and to its parts."""
    own = () if metric.per_unit is None else (*metric.per_unit.values, *metric.per_unit.nulls)
    return (*own, *(value for part in metric.parts for value in row_values(part)))


def unit_terms(metric: Metric) -> tuple[UnitTerm, ...]:
    """The covariates of a metric that are in the table of units."""
    return tuple(term for term in metric.covariates if isinstance(term, UnitTerm))
