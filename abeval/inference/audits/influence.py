"""How much of each effect a few units make, and whether one unit decides a test.

`judge.py` puts the shares into the result, `inference/trust/checks.py` lists the check. Units are
counted, never named.
"""

from collections.abc import Iterator
from typing import NamedTuple

from abeval.aggregates.aggregates import CAPPED, WHOLE, pooled
from abeval.inference.audits.counts import percent
from abeval.inference.compare import Analysis
from abeval.inference.trust.finding import Limits, Words, graded, skipped
from abeval.metrics.definition import Metric, scales
from abeval.results import Check, Influence
from abeval.stats import influence
from abeval.stats.moments import Moments

FEWEST_UNITS = 100
"""Of fewer units some always make much of the variance."""

_APART = 3.0
"""One unit stands apart if it deviates so many times as far as the tenth."""


class _Single(NamedTuple):
    """The unit that makes most of the variance of a metric in a variant."""

    metric: str
    variant: str
    share: float


def influences(analysis: Analysis) -> tuple[Influence, ...]:
    """Every effect of a mean or a ratio with and without its ten most influential units."""
    return tuple(
        one
        for metric, variant in analysis.rows
        if (one := _influence(analysis, metric, variant)) is not None
    )


def influence_check(analysis: Analysis) -> Check:
    """Whether one unit makes much of the variance of a metric: then the test is about this unit."""
    if analysis.aggregates.extremes.empty:
        message = "units are not looked at one by one ([privacy] min_units, a store, or no mean)"
        return skipped("influence", message)
    singles = sorted(_singles(analysis), key=lambda one: -one.share)
    if not singles:
        return skipped(
            "influence", f"no mean or ratio with a variance of {FEWEST_UNITS} units or more"
        )
    worst, options = singles[0], analysis.experiment.trust
    reason = (
        "the share of one unit in the variance of a variant, where it stands apart from the tenth: "
        "the tests hold for sums of many units, none of which decides"
    )
    words = Words(
        f"no unit stands apart: at most {percent(worst.share)} of the variance of {worst.metric}",
        f"one single unit of {worst.variant} makes {percent(worst.share)} of the variance of "
        f"{worst.metric}{_owed(analysis, worst)}",
        "look whether it is a person; cap the metric ([[metrics]] cap), or filter bots alike in "
        "all variants",
    )
    touched = tuple(
        dict.fromkeys(one.metric for one in singles if one.share >= options.influence_fail)
    )
    apart = tuple(
        dict.fromkeys(one.metric for one in singles if one.share >= options.influence_warn)
    )
    limits = Limits(options.influence_warn, options.influence_fail, reason)
    return graded("influence", worst.share, limits, words, touched or apart or None)


def _owed(analysis: Analysis, worst: _Single) -> str:
    """What the effect is with and without the units that move it most."""
    variants = [worst.variant] if worst.variant in analysis.experiment.treatments else []
    metric = next(m for m in analysis.metrics if m.name == worst.metric)
    for variant in variants or analysis.experiment.treatments:
        one = _influence(analysis, metric, variant)
        if one is not None:
            return (
                f"; the effect is {one.lift:+.2%}, and {one.lift_without:+.2%} without the "
                f"{one.units} units that move it most"
            )
    return ""


def _singles(analysis: Analysis) -> Iterator[_Single]:
    for metric in analysis.metrics:
        if not _has_units(analysis, metric):
            continue
        moments = _moments(analysis, metric)
        for variant in analysis.experiment.variants:
            group = _group(analysis, metric, variant, moments)
            if group is None or moments[variant].n < FEWEST_UNITS:
                continue
            total = _squares(moments[variant], group.value)
            deviations = sorted((abs(u.y - group.value * u.x) for u in group.units), reverse=True)
            if total > 0 and deviations:
                apart = deviations[0] >= _APART * deviations[-1]
                share = deviations[0] ** 2 / total if apart else 0.0
                yield _Single(metric.name, variant, min(1.0, share))


def _has_units(analysis: Analysis, metric: Metric) -> bool:
    extremes = analysis.aggregates.extremes
    return metric.is_mean_or_ratio and metric.name in set(extremes["metric"])


def _moments(analysis: Analysis, metric: Metric) -> dict[str, Moments]:
    capped = metric.name in analysis.aggregates.caps
    return pooled(analysis.moments(metric, CAPPED if capped else WHOLE))


def _squares(moments: Moments, value: float) -> float:
    """Σ (y − value · x)² over the units of a variant."""
    c = moments.comoment
    return float(c[0, 0] - 2 * value * c[0, 1] + value * value * c[1, 1])


def _group(
    analysis: Analysis, metric: Metric, variant: str, moments: dict[str, Moments]
) -> influence.Group | None:
    own = moments.get(variant)
    if own is None or not own.mean[1]:
        return None
    rows = analysis.aggregates.extremes
    rows = rows[(rows["metric"] == metric.name) & (rows["variant"] == variant)]
    per_y, per_x = scales(metric)
    units = [
        influence.Unit(float(y) * per_y, float(x) * per_x)
        for y, x in zip(rows["y"], rows["x"], strict=True)
    ]
    return influence.Group(own.n * float(own.mean[0]), own.n * float(own.mean[1]), units)


def _influence(analysis: Analysis, metric: Metric, variant: str) -> Influence | None:
    if analysis.aggregates.extremes.empty or not _has_units(analysis, metric):
        return None
    moments = _moments(analysis, metric)
    control = _group(analysis, metric, analysis.experiment.control, moments)
    treatment = _group(analysis, metric, variant, moments)
    if control is None or treatment is None:
        return None
    one = influence.influence(control, treatment)
    if one is None:
        return None
    owed = (one.lift - one.lift_without) / one.lift if one.lift else None
    return Influence(
        metric=metric.name,
        variant=variant,
        units=one.control + one.treatment,
        units_in_variant=one.treatment,
        lift=one.lift,
        lift_without=one.lift_without,
        share=owed,
    )
