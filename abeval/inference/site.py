"""Say what an effect among exposed units is on all traffic."""

from collections.abc import Mapping

from abeval.aggregates.sums import (
    EXPOSED_LATER,
    NEVER_EXPOSED,
    UNEXPOSED,
    map_moments,
    pool_moments,
)
from abeval.inference.compare import Analysis, build_rule, select_metric_moments
from abeval.inference.comparison import Arms, Comparison, Comparisons, Key, none_if_refused
from abeval.inference.means_and_ratios import compare_within, pool_pair
from abeval.metrics.definition import Metric
from abeval.stats.dilution import Rest, dilute_mean, dilute_ratio, measure_rest
from abeval.stats.moments import Moments
from abeval.stats.records import Lift

_NONE = Moments.of([], [])


def compute_site_lifts(analysis: Analysis, comparisons: Comparisons) -> Mapping[Key, Lift]:
    """Compute the lift of all traffic of each row that has one.

    There is none where every unit is exposed, nor of metrics that are no sums over impressions:
    what they are of other traffic is not known. Means of units with a value alone have none
    either, because their number may move.
    """
    lifts = dict[Key, Lift]()
    rests = {metric.name: _find_rest(analysis, metric) for metric in analysis.metrics}
    for metric, variant in analysis.rows:
        comparison, rest = comparisons[metric.name, variant], rests[metric.name]
        if rest is None or comparison.effect is None or metric.test is not None:
            continue
        if metric.kind != "mean":
            lift = _dilute_ratio(analysis, metric, variant, rest)
        else:
            lift = _dilute_mean(comparison, rest) if metric.presence_terms is None else None
        if lift is not None:
            lifts[metric.name, variant] = lift
    return lifts


def _find_rest(analysis: Analysis, metric: Metric) -> Rest | None:
    """Find the traffic without exposure of all variants, per exposed unit."""
    cells = analysis.aggregates.cells(metric.name, UNEXPOSED)
    if not cells:
        return None
    never, later = (
        _NONE.merge(*pool_moments(analysis.moments(metric, UNEXPOSED, cell)).values())
        if cell in cells
        else _NONE
        for cell in (NEVER_EXPOSED, EXPOSED_LATER)
    )
    exposed = sum(moments.n for moments in pool_moments(analysis.moments(metric)).values())
    return none_if_refused(lambda: measure_rest(never, later, exposed))


def _dilute_mean(comparison: Comparison, rest: Rest) -> Lift | None:
    effect, control, spread = comparison.effect, comparison.control, comparison.spread
    if effect is None or control is None:
        return None
    variance, covariance = (0.0, 0.0) if spread is None else (spread.control, spread.covariance)
    return none_if_refused(lambda: dilute_mean(effect, control, variance, covariance, rest))


def _dilute_ratio(analysis: Analysis, metric: Metric, variant: str, rest: Rest) -> Lift | None:
    """Compare a ratio with the rest added to every unit's numerator and denominator."""
    arms = Arms(analysis.experiment.control, variant)
    moments = map_moments(
        select_metric_moments(analysis, metric), lambda exposed: exposed.shift(*rest.means.tolist())
    )
    compared = compare_within(metric, moments, arms, build_rule(analysis, metric, arms))
    lift, effect = compared.lift, compared.effect
    control, treatment = pool_pair(moments, arms)
    if lift is None or effect is None or not lift.bounded or control is None or treatment is None:
        return None
    critical = (effect.high - effect.low) / 2 / effect.se
    return none_if_refused(lambda: dilute_ratio(lift, control, treatment, rest, critical))
