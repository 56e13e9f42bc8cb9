"""Quantiles over impressions: neighbouring values around them, and each unit's impressions below.

It gets `MetricQueries` and the quantile metrics from `collect.py`, or from `time/cut.py` for
windows; `inference/other_kinds.py` compares variants by the result. What the quantiles are, and how
wide the ends stand, is in `stats/quantiles.py`.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from abeval.aggregates.aggregates import Quantile
from abeval.aggregates.kernels.values import Events, Place, Span
from abeval.aggregates.metric_queries import MetricQueries
from abeval.aggregates.wanted import COMPARED, CURVE, at_level, value_of
from abeval.logs.shape import value_columns
from abeval.metrics.definition import Metric
from abeval.stats import quantiles
from abeval.stats.moments import Moments
from abeval.stats.quantiles import Step, place
from abeval.stats.records import Refusal, RefusalReason


def collect_quantiles(
    queries: MetricQueries, metrics: Sequence[Metric], spreads: Sequence[Metric] = ()
) -> dict[str, Mapping[str, Quantile]]:
    """Quantiles of every metric over the period; one sort for all quantiles of the same value.

    Args:
        queries: The metric queries.
        metrics: Quantile metrics.
        spreads: Values whose distribution is wanted, `spreads.spread_metrics`: quantiles at the
            levels of `spreads.CURVE`, those of `spreads.COMPARED` with their ends.
    """
    every = [*metrics, *(at_level(one, level) for one in spreads for level in COMPARED)]
    bare = [at_level(one, lv) for one in spreads for lv in CURVE if lv not in COMPARED]
    values = [values_of(queries, group[0]) for group in quantile_groups(every)]
    return quantiles_of(every, values, bare)


def values_of(queries: MetricQueries, metric: Metric) -> Events:
    """The values that a metric ranks, over the period."""
    if queries.rows is None:
        raise ValueError("nothing has read the values of impressions")
    return queries.rows.events(value_columns(queries.shape, queries.experiment, metric))


def quantile_groups(metrics: Sequence[Metric]) -> list[list[Metric]]:
    """The metrics by the value that they are quantiles of."""
    return [list(group) for _, group in groupby(sorted(metrics, key=value_of), key=value_of)]


def quantiles_of(
    metrics: Sequence[Metric], values: Sequence[Events], bare: Sequence[Metric] = ()
) -> dict[str, Mapping[str, Quantile]]:
    """Quantiles of every metric over some impressions: metric → variant → its quantile.

    Args:
        metrics: Quantile metrics.
        values: Those of each of `quantile_groups(metrics)`.
        bare: Further quantiles of the same values, without the ends of their intervals.
    """
    of_metric: dict[str, Mapping[str, Quantile]] = {}
    for group, ranked in zip(quantile_groups(metrics), values, strict=True):
        more = [metric for metric in bare if value_of(metric) == value_of(group[0])]
        of_metric |= _of_group(ranked, group, more)
    return of_metric


def _of_group(
    ranked: Events, metrics: Sequence[Metric], bare: Sequence[Metric]
) -> dict[str, Mapping[str, Quantile]]:
    """Metric → variant → its quantile of the values."""
    values = ranked.spans
    levels = {metric.name: metric.level or 0.5 for metric in (*metrics, *bare)}
    centres = {
        level: {variant: place(own.events, level) for variant, own in values.items()}
        for level in sorted(set(levels.values()))
    }
    steps = ranked.steps([pair for places in centres.values() for pair in places.items()])
    judged = sorted({levels[metric.name] for metric in metrics})
    below = ranked.below([_at(steps, centres[level]) for level in judged])
    ends = {
        level: _ends_of(values, level, counts) for level, counts in zip(judged, below, strict=True)
    }
    places = [(v, at) for own in ends.values() for v, pair in own.items() for at in pair.places]
    steps |= ranked.steps(places)
    of_level = {
        level: {
            variant: _of_places(own, level, steps, variant, at, ends.get(level, {}).get(variant))
            for variant, own in values.items()
            for at in (centres[level][variant],)
        }
        for level in centres
    }
    return {name: of_level[level] for name, level in levels.items()}


def _at(steps: Mapping[Place, Step], places: Mapping[str, float]) -> dict[Place, Step]:
    """The steps of the places of one level."""
    return {place: steps[place] for place in places.items() if place in steps}


def _ends_of(
    values: Mapping[str, Span], level: float, counts: Mapping[str, Moments]
) -> dict[str, "_Ends"]:
    """Variant → the places of the ends of its quantile.

    Args:
        values: Of each variant.
        level: Of the quantile.
        counts: Variant → moments over units of the values below the quantile, and of all.
    """
    effects = _design_effects(counts, level)
    return {name: _ends(own.events, level, effects.get(name)) for name, own in values.items()}


def _of_places(
    values: Span,
    level: float,
    steps: Mapping[Place, Step],
    variant: str,
    centre: float,
    ends: "_Ends | None",
) -> Quantile:
    """The quantile at a place; without ends where none are wanted."""
    if ends is None:
        value = _quantile(values, level, [_between(steps, (variant, centre))], None).value
        return Quantile(values.events, value, None, None)
    read = [_between(steps, (variant, at)) for at in (centre, *ends.places)]
    return _quantile(values, level, read, ends.refused)


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
    values: Span, level: float, read: Sequence[float | None], refused: RefusalReason | None
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
