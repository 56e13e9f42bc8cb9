"""Compute quantiles over impressions, with ends by the units' design effect."""

from collections.abc import Mapping, Sequence

from abeval.aggregates.aggregates import Quantile
from abeval.aggregates.metric_queries import ReadLogs
from abeval.aggregates.ranked_values import RankedValues, UnitValues
from abeval.aggregates.wanted import COMPARED, CURVE, read_quantile_expression, set_level
from abeval.logs.shape import find_quantile_columns
from abeval.metrics.definition import Metric
from abeval.stats import quantiles
from abeval.stats.quantiles import locate_quantile
from abeval.stats.records import Refusal

_ValuesByExpression = Mapping[tuple[str, float], UnitValues]
"""What quantiles rank and its step of rounding → the period's values."""


def collect_quantiles(
    logs: ReadLogs, metrics: Sequence[Metric], spreads: Sequence[Metric] = ()
) -> dict[str, Mapping[str, Quantile]]:
    """Compute quantiles of every metric over the period.

    `spreads` have quantiles at the levels of `CURVE`, those of `COMPARED` with their ends.
    """
    compared = [*metrics, *(set_level(spread, level) for spread in spreads for level in COMPARED)]
    # The curve is only drawn; its other levels are not compared, so they need no ends.
    drawn = [set_level(spread, lv) for spread in spreads for lv in CURVE if lv not in COMPARED]
    values = find_ranked_values(logs, compared)
    return compute_quantiles(compared, values) | compute_quantiles(drawn, values, judged=False)


def find_ranked_values(logs: ReadLogs, metrics: Sequence[Metric]) -> _ValuesByExpression:
    """Find the period's values that quantile metrics rank."""
    columns = {
        read_quantile_expression(metric): find_quantile_columns(
            logs.schema, logs.experiment, metric
        )
        for metric in metrics
    }
    return {ranked: logs.rows.values[tuple(of.values())] for ranked, of in columns.items()}


def compute_quantiles(
    metrics: Sequence[Metric], values: _ValuesByExpression, judged: bool = True
) -> dict[str, Mapping[str, Quantile]]:
    """Compute quantiles over some impressions, by metric and variant.

    Only `judged` quantiles have the ends of an interval.
    """
    keys = {m.name: (read_quantile_expression(m), m.level or 0.5) for m in metrics}
    # Several metrics may have one quantile.
    estimates = {
        (ranked, level): _estimate_variant_quantiles(values[ranked], level, judged)
        for ranked, level in set(keys.values())
    }
    return {name: estimates[key] for name, key in keys.items()}


def _estimate_variant_quantiles(
    events: UnitValues, level: float, judged: bool
) -> dict[str, Quantile]:
    """Return variant → its quantile at a level, with ends if it is judged."""
    by_variant = {}
    effects = _design_effects(events.variant_values, level) if judged else {}
    for name, variant_values in events.variant_values.items():
        at, levels = locate_quantile(variant_values.size, level), variant_values.levels
        step, outermost = levels.step(at), levels.values[0 if level < 0.5 else -1]
        low = high = refused = None
        try:
            if judged:
                low, high = _compute_interval_ends(variant_values, level, effects.get(name))
        except Refusal as refusal:
            refused = refusal.reason
        value = float(outermost) if step is None else step.value(at)
        by_variant[name] = Quantile(variant_values.size, value, low, high, refused)
    return by_variant


def _compute_interval_ends(ranked: RankedValues, level: float, effect: float | None) -> list[float]:
    """Return the ends of a quantile's interval.

    Raises:
        Refusal: An end lies beyond the middle of the outermost values.
    """
    events = ranked.size
    sides = quantiles.ends(events, level, effect) if effect is not None else ()
    positions = [locate_quantile(events, side) for side in sides]
    ends = [step.value(at) for at in positions if (step := ranked.levels.step(at)) is not None]
    if len(ends) < 2:
        raise quantiles.explain_no_quantile(events, level)
    return ends


def _design_effects(of_variants: Mapping[str, RankedValues], level: float) -> dict[str, float]:
    """Return variant → design effect; none for a variant of one unit."""
    below = {
        name: value.below(locate_quantile(value.size, level)) for name, value in of_variants.items()
    }
    several = {name: value for name, value in below.items() if value is not None and value.n > 1}
    effects = [quantiles.design_effect(value, level) for value in several.values()]
    if not effects:
        return {}
    # Variants are alike in their units, so a joint estimate is steadier.
    pooled = quantiles.pool_design_effects(effects, [value.n for value in several.values()])
    return dict(zip(several, pooled, strict=True))
