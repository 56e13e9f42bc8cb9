"""Compute quantiles over impressions, with ends by the design effect of units."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from abeval.aggregates.aggregates import Quantile
from abeval.aggregates.kernels.values import Events
from abeval.aggregates.metric_queries import ReadLogs
from abeval.aggregates.wanted import COMPARED, CURVE, at_level, value_of
from abeval.logs.shape import value_columns
from abeval.metrics.definition import Metric
from abeval.stats import quantiles
from abeval.stats.moments import Moments
from abeval.stats.quantiles import place
from abeval.stats.records import Refusal


def collect_quantiles(
    logs: ReadLogs, metrics: Sequence[Metric], spreads: Sequence[Metric] = ()
) -> dict[str, Mapping[str, Quantile]]:
    """Compute quantiles of every metric over the period, with one sort for those of a value.

    Args:
        logs: What was read.
        metrics: Quantile metrics.
        spreads: Values whose distribution is wanted (`wanted.spread_metrics`): quantiles at the
            levels of `CURVE`, those of `COMPARED` with their ends.
    """
    every = [*metrics, *(at_level(one, level) for one in spreads for level in COMPARED)]
    bare = [at_level(one, lv) for one in spreads for lv in CURVE if lv not in COMPARED]
    return quantiles_of(every, values_of(logs, every), bare)


def values_of(logs: ReadLogs, metrics: Sequence[Metric]) -> list[Events]:
    """Return the values over the period that each of `quantile_groups(metrics)` ranks."""
    columns = (
        value_columns(logs.shape, logs.experiment, group[0]) for group in quantile_groups(metrics)
    )
    return [logs.rows.values[tuple(own.values())] for own in columns]


def quantile_groups(metrics: Sequence[Metric]) -> list[list[Metric]]:
    """Return the metrics by the value that they are quantiles of."""
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
        levels = {metric.name: metric.level or 0.5 for metric in (*group, *more)}
        judged = {levels[metric.name] for metric in group}
        of_level = {level: _at(ranked, level, level in judged) for level in set(levels.values())}
        of_metric |= {name: of_level[level] for name, level in levels.items()}
    return of_metric


def _at(ranked: Events, level: float, judged: bool) -> dict[str, Quantile]:
    """Variant → its quantile at a level, with ends if it is judged."""
    spans = ranked.spans
    centres = {name: place(own.events, level) for name, own in spans.items()}
    steps = ranked.steps([*centres.items()])
    effects = _design_effects(ranked.below(steps), level) if judged else {}
    found = {}
    for name, own in spans.items():
        at = name, centres[name]
        outermost = own.lowest if level < 0.5 else own.highest
        value = steps[at].value(at[1]) if at in steps else float(outermost)
        low = high = refused = None
        try:
            if judged:
                low, high = _ends(ranked, name, own.events, level, effects.get(name))
        except Refusal as refusal:
            refused = refusal.reason
        found[name] = Quantile(own.events, value, low, high, refused)
    return found


def _ends(
    ranked: Events, variant: str, events: int, level: float, effect: float | None
) -> list[float]:
    """Return the ends of a quantile; it has no design effect where it is beyond the values.

    Raises:
        Refusal: An end lies beyond the middle of the lowest or the highest value.
    """
    if effect is None:
        raise quantiles.beyond(events, level)
    places = [(variant, place(events, at)) for at in quantiles.ends(events, level, effect)]
    steps = ranked.steps(places)
    if any(at not in steps for at in places):
        raise quantiles.beyond(events, level)
    return [steps[at].value(at[1]) for at in places]


def _design_effects(counts: Mapping[str, Moments], level: float) -> dict[str, float]:
    """Variant → its design effect; none for a variant of one unit."""
    several = {variant: one for variant, one in counts.items() if one.n > 1}
    own = [quantiles.design_effect(one, level) for one in several.values()]
    if not own:
        return {}
    pooled = quantiles.pooled(own, [one.n for one in several.values()])
    return dict(zip(several, pooled, strict=True))
