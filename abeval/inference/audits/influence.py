"""How much of each effect a few units make, and whether one unit decides a test.

`judge.py` puts the shares into the result, `inference/trust/checks.py` lists the check. Units are
counted, never named.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from abeval.aggregates.moment_rows import CAPPED, WHOLE, pooled
from abeval.inference.audits.counts import listing, percent
from abeval.inference.compare import Analysis
from abeval.inference.trust.finding import Limits, Words, graded, skipped
from abeval.metrics.definition import Metric, scales
from abeval.results import Check, Influence
from abeval.stats import influence
from abeval.stats.moments import Moments

FEWEST_UNITS = 100
"""Of fewer units some always make much of the variance."""

FEWEST_APART = 10
"""Where fewer units have another value than the rest, one of them is all of the variance."""

_MOST = 1e6
"""Times as far out as the next, beyond which no more is told."""

_MUCH = 0.3
"""Share of a variance, below which one unit decides nothing."""


class Single(NamedTuple):
    """The unit that deviates most from a metric's value in a variant.

    Attributes:
        metric: The metric.
        variant: The variant.
        share: Of the variance that the unit makes.
        times: How many times as far out as the next unit it is; 0 if its share is small.
    """

    metric: str
    variant: str
    share: float
    times: float


def influences(analysis: Analysis) -> tuple[Influence, ...]:
    """Every effect of a mean or a ratio with and without its ten most influential units."""
    return tuple(
        one
        for metric, variant in analysis.rows
        if (one := _influence(analysis, metric, variant)) is not None
    )


def influence_check(analysis: Analysis) -> Check:
    """Whether one unit makes much of a variance, far beyond every other: as bots and faults do."""
    if not analysis.aggregates.extremes:
        message = "units are not looked at one by one ([privacy] min_units, sums, or no mean)"
        return skipped("influence", message)
    looks = list(_looks(analysis))
    singles = sorted((look.single for look in looks if look.single), key=lambda one: -one.times)
    few = _few(looks)
    if not singles:
        reason = few or f"no mean or ratio with a variance of {FEWEST_UNITS} units or more"
        return skipped("influence", reason)
    also = f"; {few}" if few else ""
    worst, options = singles[0], analysis.experiment.trust
    reason = (
        "how many times as far out as the next unit one is that makes 30 % of a variance: the "
        "largest of few buyers is seldom 10 times as far out, a fault often 100 times"
    )
    words = Words(
        f"no unit stands apart from every other{also}",
        f"one single unit of {worst.variant} makes {percent(worst.share)} of the variance of "
        f"{worst.metric}, {worst.times:,.0f} times as far out as the next"
        f"{_owed(analysis, worst)}{also}",
        "look whether it is a person; cap the metric ([[metrics]] cap), or filter bots alike in "
        "all variants",
    )
    limits = Limits(options.influence_warn, options.influence_fail, reason)
    failed, warned = _metrics(singles, options.influence_fail), _metrics(singles, limits.warn)
    return graded("influence", worst.times, limits, words, failed or warned or None)


def _metrics(singles: Sequence[Single], times: float) -> tuple[str, ...]:
    """The metrics with a unit that is at least so many times as far out as the next."""
    return tuple(dict.fromkeys(one.metric for one in singles if one.times >= times))


def _owed(analysis: Analysis, worst: Single) -> str:
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


class _Look(NamedTuple):
    """A metric in a variant, and its unit that deviates most; None where too few stand apart."""

    metric: str
    single: Single | None


def _looks(analysis: Analysis) -> Iterator[_Look]:
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
                enough = units_apart(moments[variant], group.units) >= FEWEST_APART
                one = single(metric.name, variant, deviations, total) if enough else None
                yield _Look(metric.name, one)


def _few(looks: Sequence[_Look]) -> str:
    """Which metrics are not looked at, and why; empty if none is left out."""
    names = list(dict.fromkeys(look.metric for look in looks if look.single is None))
    if not names:
        return ""
    return (
        f"not looked at in every variant: {listing(names)}, where fewer than {FEWEST_APART} units "
        "have another value than all the others"
    )


def units_apart(moments: Moments, units: Sequence[influence.Unit]) -> float:
    """A number of units that surely have another value than the rest.

    That is another than 0. Where the value that deviates most is between 0 and 1, as a share is,
    the rest may as well have 1: then the units with another value than 1 count, if they are fewer.

    Args:
        moments: Of (y, x) over the units of a variant.
        units: Those that deviate most, in order.

    Example:
        >>> one_failure = Moments.of([1.0] * 299 + [0.0], [1.0] * 300)
        >>> round(units_apart(one_failure, [influence.Unit(0.0, 1.0), influence.Unit(1.0, 1.0)]), 6)
        1.0
    """
    y, x = moments.mean[:2]
    products = moments.comoment[:2, :2] + moments.n * np.outer([y, x], [y, x])
    apart = influence.fewest_apart(
        [unit.y for unit in units], moments.n * float(y), float(products[0, 0])
    )
    if not 0 <= units[0].y <= units[0].x:
        return apart
    below = influence.fewest_apart(
        [unit.x - unit.y for unit in units],
        moments.n * float(x - y),
        float(products[0, 0] - 2 * products[0, 1] + products[1, 1]),
    )
    return min(apart, below)


def single(metric: str, variant: str, deviations: Sequence[float], total: float) -> Single:
    """Whether the unit that deviates most stands apart.

    Args:
        metric: The metric.
        variant: The variant.
        deviations: The largest ones from the metric's value, from the largest on.
        total: Sum of the squares of all deviations, above 0.

    Example:
        >>> single("clicks", "treatment", [49_000.0, 70.0, 65.0], 2.402e9)
        Single(metric='clicks', variant='treatment', share=0.9995836802664446, times=700.0)
    """
    largest, following = (*deviations, 0.0)[:2]
    share = min(1.0, largest**2 / total)
    times = largest / max(following, largest / _MOST)
    return Single(metric, variant, share, times if share >= _MUCH else 0.0)


def _has_units(analysis: Analysis, metric: Metric) -> bool:
    known = {name for name, _ in analysis.aggregates.extreme_units}
    return metric.is_mean_or_ratio and metric.name in known


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
    rows = analysis.aggregates.extreme_units.get((metric.name, variant), ())
    per_y, per_x = scales(metric)
    units = [influence.Unit(y * per_y, x * per_x) for y, x in rows]
    return influence.Group(own.n * float(own.mean[0]), own.n * float(own.mean[1]), units)


def _influence(analysis: Analysis, metric: Metric, variant: str) -> Influence | None:
    if not _has_units(analysis, metric):
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
