"""Quantiles over impressions: neighbouring values around them, and each unit's impressions below.

It gets `MetricQueries` and the quantile metrics from `collect.py`, or from `time/cut.py` for
windows; `inference/other_kinds.py` compares variants by the result. What the quantiles are, and how
wide the ends stand, is in `stats/quantiles.py`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from abeval.aggregates.aggregates import Quantile, moments_by_variant
from abeval.aggregates.metric_queries import MetricQueries
from abeval.aggregates.terms import Row, SliceTerms, Terms
from abeval.engines.queries import query
from abeval.engines.sql import by_value, literal
from abeval.metrics.definition import Metric, RowTerm
from abeval.metrics.sources import UNIT_DAY
from abeval.stats import quantiles
from abeval.stats.moments import Moments
from abeval.stats.quantiles import PARTS, Step, place
from abeval.stats.records import Refusal, RefusalReason


@dataclass(frozen=True)
class QuantileSums:
    """What quantile metrics come down to.

    Attributes:
        rows: Rows of `aggregates.MOMENT_COLUMNS`: what the definitions leave out.
        quantiles: Metric → variant → its quantile.
    """

    rows: list[Row]
    quantiles: Mapping[str, Mapping[str, Quantile]]


class _Values(NamedTuple):
    """The values of a variant's impressions: how many, and the outermost."""

    events: int
    lowest: int
    highest: int


def collect_quantiles(queries: MetricQueries, metrics: Sequence[Metric]) -> QuantileSums:
    """Quantiles of every metric; one sort for all quantiles of the same value."""
    events = [
        f"select variant, unit_id, value from ({events_of(queries, group[0])}) as events"
        for group in quantile_groups(metrics)
    ]
    of_metric = quantiles_of(queries, metrics, events)
    return QuantileSums(_left_out(queries, metrics), of_metric)


def quantile_groups(metrics: Sequence[Metric]) -> list[list[Metric]]:
    """The metrics by the value that they are quantiles of."""
    return [list(group) for _, group in groupby(sorted(metrics, key=_value), key=_value)]


def quantiles_of(
    queries: MetricQueries, metrics: Sequence[Metric], events: Sequence[str]
) -> dict[str, Mapping[str, Quantile]]:
    """Quantiles of every metric over some impressions: metric → variant → its quantile.

    Args:
        queries: The metric queries.
        metrics: Quantile metrics.
        events: SQL of `variant, unit_id, value` for each of `quantile_groups(metrics)`.
    """
    of_metric: dict[str, Mapping[str, Quantile]] = {}
    for group, sql in zip(quantile_groups(metrics), events, strict=True):
        queries.engine.table("quantile_event", sql)
        queries.engine.table("quantile_level", query("metric/quantile_levels"))
        rows = queries.engine.rows(query("metric/quantile_events"))
        values = {str(row[0]): _Values(*(int(one or 0) for one in row[1:])) for row in rows}
        of_metric |= {metric.name: _of_metric(queries, metric, values) for metric in group}
    return of_metric


def _value(metric: Metric) -> str:
    return metric.value.expression if isinstance(metric.value, RowTerm) else ""


def events_of(queries: MetricQueries, metric: Metric) -> str:
    """SQL of every impression of the period that has the metric's value, with its day.

    Where variants differ in the value, such as the score of their model, each has its own.
    """
    if not isinstance(metric.value, RowTerm):
        raise TypeError(f"the quantile {metric.name!r} has no value of an impression")
    shape, variants = queries.shape, queries.experiment.variants
    columns = {v: f"i.{shape.event(metric.value, v)}" for v in variants}
    return f"""
    with valued as (
      select u.variant, i.unit_id, i.day, {by_value("u.variant", columns)} as value
      from impressions i
      join units u on i.unit_id = u.unit_id
      where i.in_period
    )
    select variant, unit_id, day, value from valued where value is not null
    """


Place = tuple[str, float]
"""A variant, and a place on the scale of the middles of its values."""


def _of_metric(
    queries: MetricQueries, metric: Metric, values: Mapping[str, _Values]
) -> dict[str, Quantile]:
    """Variant → its quantile of the values in `quantile_event`."""
    level = metric.level or 0.5
    centres = {variant: place(own.events, level) for variant, own in values.items()}
    steps = _steps(queries, list(centres.items()))
    effects = _design_effects(_below(queries, metric, steps), level)
    ends = {v: _ends(own.events, level, effects.get(v)) for v, own in values.items()}
    steps |= _steps(queries, [(v, at) for v, pair in ends.items() for at in pair.places])
    return {
        variant: _quantile(
            own,
            level,
            [_between(steps, (variant, at)) for at in (centres[variant], *ends[variant].places)],
            ends[variant].refused,
        )
        for variant, own in values.items()
    }


class _Ends(NamedTuple):
    """Places of the two ends of a quantile, none where they are refused."""

    places: tuple[float, ...]
    refused: RefusalReason | None = None


def _ends(events: int, level: float, effect: float | None) -> _Ends:
    """Where a quantile's ends are; it has no design effect where it is beyond the values."""
    try:
        if effect is None:
            raise quantiles.beyond(events, level)
        between = quantiles.ends(events, level, effect)
    except Refusal as refusal:
        return _Ends((), refusal.reason)
    return _Ends(tuple(place(events, at) for at in between))


def _design_effects(counts: Mapping[str, Moments], level: float) -> dict[str, float]:
    """Variant → its design effect; none for a variant of one unit."""
    several = {variant: one for variant, one in counts.items() if one.n > 1}
    own = [quantiles.design_effect(one, level) for one in several.values()]
    if not own:
        return {}
    pooled = quantiles.pooled(own, [one.n for one in several.values()])
    return dict(zip(several, pooled, strict=True))


def _quantile(
    values: _Values, level: float, read: Sequence[float | None], refused: RefusalReason | None
) -> Quantile:
    """A quantile of what was read at its own place and at those of its ends."""
    value, *ends = read
    if value is None:
        value = float(values.lowest if level < 0.5 else values.highest)
    low, high = ends or (None, None)
    if low is None or high is None:
        reason = refused or quantiles.beyond(values.events, level).reason
        return Quantile(values.events, value, None, None, reason)
    return Quantile(values.events, value, low, high)


def _between(steps: Mapping[Place, Step], at: Place) -> float | None:
    """The value at a place; None beyond the middle of the lowest or the highest value."""
    return steps[at].value(at[1]) if at in steps else None


def _steps(queries: MetricQueries, places: Sequence[Place]) -> dict[Place, Step]:
    """The neighbouring values of each place that lies between two."""
    if not places:
        return {}
    # A middle is a whole number: it is at or below a place where it is at or below its floor.
    listed = {(variant, math.floor(at)) for variant, at in places}
    rows = [(literal(variant), str(at)) for variant, at in sorted(listed)]
    _show(queries, "wanted_place", ("place",), rows)
    steps = {
        (str(variant), int(at or 0)): Step(*(int(one or 0) for one in step))
        for variant, at, *step in queries.engine.rows(query("metric/quantile_values"))
    }
    return {
        (variant, at): steps[variant, math.floor(at)]
        for variant, at in places
        if (variant, math.floor(at)) in steps
    }


def _below(
    queries: MetricQueries, metric: Metric, steps: Mapping[Place, Step]
) -> dict[str, Moments]:
    """Variant → moments over units of the impressions below its quantile, and of all."""
    if not steps:
        return {}
    columns = ("lower", "upper", "whole", "at_lower", "at_upper")
    rows = [
        (literal(variant), *map(str, (step.lower, step.upper, PARTS, *step.weights(at))))
        for (variant, at), step in sorted(steps.items())
    ]
    _show(queries, "quantile_step", columns, rows)
    queries.show_days(query("units/quantile_below"))
    queries.total_units()
    terms = SliceTerms(metric, "quantile", "''", Terms("t_below", "t_events"))
    moments = moments_by_variant(queries.sums([terms]), (1 / PARTS, 1.0))
    return {variant: moments[variant] for variant, _ in steps}


def _show(
    queries: MetricQueries, name: str, columns: Sequence[str], rows: Iterable[Sequence[str]]
) -> None:
    """Show whole numbers of each variant as a relation."""
    listed = ", ".join(
        f"({', '.join([variant, *(f'cast({one} as bigint)' for one in numbers)])})"
        for variant, *numbers in rows
    )
    named = ", ".join(("variant", *columns))
    queries.engine.view(name, f"select * from (values {listed}) as v ({named})")


def _left_out(queries: MetricQueries, metrics: Sequence[Metric]) -> list[Row]:
    """Impressions that the metrics' definitions leave out."""
    if not any(metric.left_out for metric in metrics):
        return []
    queries.load(UNIT_DAY)
    queries.total_units()
    return queries.sums([count for metric in metrics for count in queries.left_out(metric)])
