"""Compute quantiles over impressions, with ends by the units' design effect."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from abeval.aggregates.aggregates import Quantile
from abeval.aggregates.metric_queries import ReadLogs
from abeval.aggregates.ranked_values import Ranked, UnitValues
from abeval.aggregates.wanted import COMPARED, CURVE, at_level, value_of
from abeval.logs.shape import value_columns
from abeval.metrics.definition import Metric
from abeval.stats import quantiles
from abeval.stats.quantiles import place
from abeval.stats.records import Refusal


def collect_quantiles(
    logs: ReadLogs, metrics: Sequence[Metric], spreads: Sequence[Metric] = ()
) -> dict[str, Mapping[str, Quantile]]:
    """Compute quantiles of every metric over the period.

    `spreads` have quantiles at the levels of `CURVE`, those of `COMPARED` with their ends.
    """
    every = [*metrics, *(at_level(one, level) for one in spreads for level in COMPARED)]
    # The curve is only drawn; its other levels are not compared, so they need no ends.
    bare = [at_level(one, lv) for one in spreads for lv in CURVE if lv not in COMPARED]
    return quantiles_of(every, values_of(logs, every), bare)


def values_of(logs: ReadLogs, metrics: Sequence[Metric]) -> list[UnitValues]:
    """Return the period's values that each of `quantile_groups` ranks."""
    columns = (
        value_columns(logs.shape, logs.experiment, group[0]) for group in quantile_groups(metrics)
    )
    return [logs.rows.values[tuple(own.values())] for own in columns]


def quantile_groups(metrics: Sequence[Metric]) -> list[list[Metric]]:
    """Group metrics by the value that they are quantiles of."""
    return [list(group) for _, group in groupby(sorted(metrics, key=value_of), key=value_of)]


def quantiles_of(
    metrics: Sequence[Metric], values: Sequence[UnitValues], bare: Sequence[Metric] = ()
) -> dict[str, Mapping[str, Quantile]]:
    """Compute quantiles over some impressions: metric → variant → quantile.

    `values` are those of each of `quantile_groups(metrics)`; `bare` are further quantiles of them,
    without the ends of their intervals.
    """
    of_metric: dict[str, Mapping[str, Quantile]] = {}
    for group, ranked in zip(quantile_groups(metrics), values, strict=True):
        more = [metric for metric in bare if value_of(metric) == value_of(group[0])]
        levels = {metric.name: metric.level or 0.5 for metric in (*group, *more)}
        judged = {levels[metric.name] for metric in group}
        of_level = {level: _at(ranked, level, level in judged) for level in set(levels.values())}
        of_metric |= {name: of_level[level] for name, level in levels.items()}
    return of_metric


def _at(events: UnitValues, level: float, judged: bool) -> dict[str, Quantile]:
    """Return variant → its quantile at a level, with ends if it is judged."""
    of_variants = events.by_variant
    effects = _design_effects(of_variants, level) if judged else {}
    known = {}
    for name, own in of_variants.items():
        at, levels = place(own.size, level), own.levels
        step, outermost = levels.step(at), levels.values[0 if level < 0.5 else -1]
        low = high = refused = None
        try:
            if judged:
                low, high = _ends(own, level, effects.get(name))
        except Refusal as refusal:
            refused = refusal.reason
        value = float(outermost) if step is None else step.value(at)
        known[name] = Quantile(own.size, value, low, high, refused)
    return known


def _ends(ranked: Ranked, level: float, effect: float | None) -> list[float]:
    """Return the ends of a quantile's interval.

    Raises:
        Refusal: An end lies beyond the middle of the outermost values.
    """
    events = ranked.size
    sides = quantiles.ends(events, level, effect) if effect is not None else ()
    places = [place(events, side) for side in sides]
    ends = [step.value(at) for at in places if (step := ranked.levels.step(at)) is not None]
    if len(ends) < 2:
        raise quantiles.beyond(events, level)
    return ends


def _design_effects(of_variants: Mapping[str, Ranked], level: float) -> dict[str, float]:
    """Return variant → design effect; none for a variant of one unit."""
    below = {name: one.below(place(one.size, level)) for name, one in of_variants.items()}
    several = {name: one for name, one in below.items() if one is not None and one.n > 1}
    own = [quantiles.design_effect(one, level) for one in several.values()]
    if not own:
        return {}
    # Variants are alike in their units, so a joint estimate is steadier.
    pooled = quantiles.pooled(own, [one.n for one in several.values()])
    return dict(zip(several, pooled, strict=True))
