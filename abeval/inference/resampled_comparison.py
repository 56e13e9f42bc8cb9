"""Any function of means and ratios in two variants, by resampling sub-buckets of units."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.aggregates import Aggregates
from abeval.inference.comparison import Comparison, Rule, reason_of, refused, scales, with_joint
from abeval.metrics.definition import Metric
from abeval.metrics.functions import evaluate
from abeval.stats import resampling
from abeval.stats.records import Adjusted, Effect, Estimate, Refusal

Floats = NDArray[np.float64]


def compare_resampled(
    metric: Metric, aggregates: Aggregates, control: str, variant: str, rule: Rule
) -> Comparison:
    """Compare two variants by the sums of each sub-bucket.

    Args:
        metric: A function of means and ratios, or one of these.
        aggregates: With the sums of `metric.parts`, or of the metric itself, by sub-bucket.
        control: The variant compared with.
        variant: The variant compared.
        rule: `rule.resample` says how; a jackknife where it does not.
    """
    parts = metric.parts or (metric,)
    arms = [_sums(parts, aggregates, name) for name in (control, variant)]
    units_control, units = (int(arm[:, 0].sum()) for arm in arms)
    if 0 in (units_control, units):
        return refused(units_control, units, "no_units")
    if any((arm[:, 2::2].sum(axis=0) == 0).any() for arm in arms):
        return refused(units_control, units, "empty_denominator")
    values = [float(_statistic(metric)(arm.sum(axis=0))) for arm in arms]
    if not np.isfinite(values).all():
        return refused(units_control, units, "not_finite")
    bare = Comparison(units_control, units, values[0], values[1], None, None, None)
    there = (arms[0][:, 0] > 0) | (arms[1][:, 0] > 0)
    try:
        found = _resampled(metric, arms[0][there], arms[1][there], rule)
        return with_joint(bare, found, rule)
    except Refusal as refusal:
        return replace(bare, reason=reason_of(refusal))


def _statistic(metric: Metric) -> resampling.Statistic:
    """The metric of sums of units and of each part's numerator and denominator."""
    parts = metric.parts or (metric,)
    text = metric.function or metric.name
    factors = [scales(part)[0] / scales(part)[1] for part in parts]

    def of_sums(sums: Floats) -> Floats:
        with np.errstate(all="ignore"):
            values = {
                part.name: sums[..., 1 + 2 * k] / sums[..., 2 + 2 * k] * factor
                for k, (part, factor) in enumerate(zip(parts, factors, strict=True))
            }
            return evaluate(text, values)

    return of_sums


def _sums(parts: Sequence[Metric], aggregates: Aggregates, variant: str) -> Floats:
    """Units, and each part's numerator and denominator, by sub-bucket, shape (buckets, 1 + 2 m)."""
    columns = [aggregates.buckets_of(part.name, variant) for part in parts]
    return np.column_stack([columns[0][:, :1], *(found[:, 1:] for found in columns)])


def _resampled(metric: Metric, control: Floats, treatment: Floats, rule: Rule) -> Adjusted:
    statistic = _statistic(metric)
    arms = control, treatment
    if rule.resample == "bootstrap":
        effect = resampling.bootstrap(*arms, statistic, rule.alpha)
        spread = resampling.bootstrap_spread(*arms, statistic)
    else:
        effect = resampling.jackknife(*arms, statistic, rule.alpha)
        spread = resampling.jackknife_spread(*arms, statistic)
    if rule.resample == "permutation":
        effect = resampling.permutation(*arms, statistic, rule.alpha)
    return _joint(effect, spread)


def _joint(effect: Effect, spread: Floats) -> Adjusted:
    """The effect with what a lift needs: the covariance of the two values."""
    control = Estimate(effect.control, float(spread[0, 0]), 0, effect.df)
    treatment = Estimate(effect.treatment, float(spread[1, 1]), 0, effect.df)
    shared = float(spread[0, 1] - spread[0, 0])
    return Adjusted(effect, effect, (), 0.0, control, treatment, shared)
