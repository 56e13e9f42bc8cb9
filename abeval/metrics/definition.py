"""What a metric is: its terms, direction, role, and the list that an experiment is judged by."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from abeval.experiment.model import AbsoluteMargin, Experiment, MetricChoice, Role, Toward
from abeval.metrics.expressions import columns_of, parse_expression
from abeval.metrics.functions import names_of

Kind = Literal["mean", "ratio", "quantile", "function", "auc", "catalogue"]
Source = Literal[
    "unit_day",
    "page_views",
    "served_ranking",
    "category_diversity",
    "sessions",
    "gauc",
    "auc",
    "quantile",
    "function",
    "catalogue",
]
Need = Literal[
    "unit", "ts", "click", "dwell", "request_id", "item_id", "position", "score", "category"
]

READS: dict[Source, tuple[str, ...]] = {
    "page_views": ("in_period", "day", "request_id"),
    "served_ranking": ("in_period", "day", "request_id", "position", "item_id", "click"),
    "category_diversity": ("in_period", "day", "request_id", "category"),
    "sessions": ("in_period", "day", "time_ms"),
    "gauc": ("in_period", "day", "click"),
    "auc": ("in_period", "click"),
    "quantile": ("in_period", "day"),
    "catalogue": ("in_period", "item_id"),
}
"""Columns of the impressions that the query of a source reads, beside scores."""


@dataclass(frozen=True)
class Direction:
    """Which way is better: up, down, or toward a value.

    Example:
        >>> str(Direction(toward=1.0)), Direction(sign=-1).label
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

    def __str__(self) -> str:
        return self.label


INCREASE = Direction(sign=1)
DECREASE = Direction(sign=-1)


@dataclass(frozen=True)
class Margin:
    """The worst harm a guardrail may do: a fraction of control, or in the metric's own unit."""

    size: float
    relative: bool


@dataclass(frozen=True)
class RowTerm:
    """A row-level expression over the impression, summed by the engine as an integer.

    Attributes:
        expression: SQL over the columns of an impression.
        scale: What one counted unit is worth: the value is the sum times this.
        resolution: None where the expression is an integer as it stands; otherwise it is
            rounded to whole multiples of this before the sum, so that no order of summing matters.
    """

    expression: str
    scale: float = 1.0
    resolution: float | None = None


@dataclass(frozen=True)
class ColumnTerm:
    """A summable integer column of the metric's source query.

    Attributes:
        column: Its name.
        scale: What one counted unit is worth.
        rounded: Whether its values were rounded to whole multiples of the scale.
    """

    column: str
    scale: float = 1.0
    rounded: bool = False


Term = RowTerm | ColumnTerm


@dataclass(frozen=True)
class Metric:
    """A metric with its definition, and how this experiment judges it.

    Attributes:
        name: Its id.
        kind: `mean` (a sum per unit), `ratio` (sum over sum), `quantile` (of a value per
            impression), `function` (of other metrics), `auc`, or `catalogue`.
        formula: In words, as a reader would check it.
        unit: Of the value, empty for a pure number.
        direction: Which way is better.
        role: `goal`, `guardrail` or `diagnostic`.
        source: The query that its per-unit values come from.
        value: Numerator, or the value of a mean; of a quantile, the value of an impression, null
            where it has none; None for catalogue metrics.
        per: Denominator of a ratio; None for a mean, whose denominator is the units.
        level: Of a quantile, between 0 and 1.
        function: Arithmetic over the names of `parts`.
        parts: The means and ratios that a function is of.
        needs: What the log must have.
        left_out: What the definition leaves out, in words, and the term that counts it.
        covariates: Further sums that CUPED takes from before the period, beside the metric's own.
        margin: Of a guardrail, or of an equivalence.
        cap: Share of units, over all variants, whose values stay as they are; the largest are
            brought down to theirs.
    """

    name: str
    kind: Kind
    formula: str
    unit: str = ""
    direction: Direction = INCREASE
    role: Role = "diagnostic"
    source: Source = "unit_day"
    value: Term | None = None
    per: Term | None = None
    level: float | None = None
    function: str | None = None
    parts: "tuple[Metric, ...]" = ()
    needs: frozenset[Need] = frozenset()
    left_out: tuple[tuple[str, Term], ...] = ()
    covariates: tuple[Term, ...] = ()
    margin: Margin | None = None
    cap: float | None = None


def rounding(metric: Metric) -> float:
    """The step to which values of the numerator are rounded; 0 where they are exact."""
    match metric.value:
        case RowTerm(resolution=float(step)):
            return step
        case ColumnTerm(rounded=True, scale=step):
            return step
        case _:
            return 0.0


def row_terms(metric: Metric) -> tuple[RowTerm, ...]:
    """The terms of a metric that are summed over impressions."""
    counted = (term for _, term in metric.left_out)
    value = None if metric.kind == "quantile" else metric.value
    terms = (value, metric.per, *counted, *metric.covariates)
    own = tuple(term for term in terms if isinstance(term, RowTerm))
    return (*own, *(term for part in metric.parts for term in row_terms(part)))


def own_terms(metric: Metric) -> tuple[Term, ...]:
    """Numerator and, of a ratio, denominator."""
    return tuple(term for term in (metric.value, metric.per) if term is not None)


def event_terms(metric: Metric) -> tuple[RowTerm, ...]:
    """The terms of a metric that every impression has by itself, and no sum replaces."""
    if metric.kind == "quantile" and isinstance(metric.value, RowTerm):
        return (metric.value,)
    return ()


def chosen_metrics(experiment: Experiment, builtin: dict[str, Metric]) -> tuple[Metric, ...]:
    """The metrics of the scorecard, in the order of the file, as the file wants them judged.

    A file that lists none gets every built-in metric, CTR as the goal.
    """
    if not experiment.metrics:
        return tuple(builtin.values())
    known = dict(builtin)
    known |= {c.name: _own(c) for c in experiment.metrics if c.is_own and c.function is None}
    functions = {
        c.name: _function(c.name, c.function, known)
        for c in experiment.metrics
        if c.function is not None
    }
    return tuple(_chosen(choice, known | functions) for choice in experiment.metrics)


def _function(name: str, text: str, known: Mapping[str, Metric]) -> Metric:
    """The user's own function of means and ratios."""
    parts = tuple(known[part] for part in names_of(text))
    needs = frozenset(need for part in parts for need in part.needs)
    return Metric(
        name,
        "function",
        text,
        role="goal",
        source="function",
        function=text,
        parts=parts,
        needs=needs,
    )


def _chosen(choice: MetricChoice, known: Mapping[str, Metric]) -> Metric:
    metric = known[choice.name]
    named = [term for name in choice.covariates or () for term in own_terms(known[name])]
    own = own_terms(metric)
    return replace(
        metric,
        role=choice.role or metric.role,
        direction=_direction(choice, metric.direction),
        unit=metric.unit if choice.unit is None else choice.unit,
        covariates=tuple(term for term in dict.fromkeys(named) if term not in own),
        margin=_margin(choice),
        cap=choice.cap,
    )


def _own(choice: MetricChoice) -> Metric:
    """The user's own metric: a mean of `value` per unit, or `numerator` over `denominator`."""
    if choice.value is not None:
        value, per, formula = choice.value, None, f"Σ {choice.value} / units"
    else:
        value, per = str(choice.numerator), str(choice.denominator)
        formula = f"Σ {value} / Σ {per}"
    term = RowTerm(value, choice.resolution, choice.resolution)
    under = None if per is None else RowTerm(per, choice.resolution, choice.resolution)
    kind: Kind = "mean" if under is None else "ratio"
    if choice.quantile is not None:
        kind, formula = (
            "quantile",
            f"{choice.quantile:g} quantile of {choice.value} over impressions",
        )
    read = {
        c for text in (value, per) if text is not None for c in columns_of(parse_expression(text))
    }
    needs = frozenset(_NEEDED_BY[column] for column in read if column in _NEEDED_BY)
    return Metric(
        choice.name,
        kind,
        formula,
        role="goal",
        source="quantile" if kind == "quantile" else "unit_day",
        value=term,
        per=under,
        level=choice.quantile,
        needs=needs,
        left_out=tuple(_not_numbers(text) for text in dict.fromkeys((value, per)) if text),
    )


def _not_numbers(text: str) -> tuple[str, Term]:
    """Impressions that add nothing, because their value is no number."""
    missing = f"case when abs(cast(({text}) as double)) < 1e300 then 0 else 1 end"
    return f"impressions whose {text} is null, NaN or infinite", RowTerm(missing)


_NEEDED_BY: dict[str, Need] = {
    "click": "click",
    "dwell": "dwell",
    "dwell_ms": "dwell",
    "score": "score",
    "position": "position",
    "category": "category",
    "request_id": "request_id",
    "item_id": "item_id",
}


def _direction(choice: MetricChoice, default: Direction) -> Direction:
    match choice.direction:
        case None:
            return default
        case Toward(toward=value):
            return Direction(toward=value)
        case "increase":
            return INCREASE
        case "decrease":
            return DECREASE


def _margin(choice: MetricChoice) -> Margin | None:
    match choice.margin:
        case None:
            return None
        case AbsoluteMargin(absolute=size):
            return Margin(size, relative=False)
        case float(size):
            return Margin(size, relative=True)
