"""How much of each effect a few units make, and whether they, alone or together, decide a test.

`judge.py` puts the shares into the result, `inference/trust/checks.py` lists the check. Units are
counted, never named.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from abeval.aggregates.sums import CAPPED, WHOLE, pooled
from abeval.inference.compare import Analysis
from abeval.inference.trust.audits import listing, percent
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


_MOST_UNITS, _ONE_IN = 20, 50
"""A group that stands apart has at most so many units, and one in so many of its variant."""

_LEFT_OUT = 10
"""Each effect is also shown without so many units, those that move it most."""

_ONE_SIDED = 0.001


class Apart(NamedTuple):
    """The units that deviate from a metric's value in a variant far more than all others.

    Attributes:
        metric: The metric.
        variant: The variant.
        units: How many they are.
        share: Of the variance that they make.
        ratio: How many times as far out as the next unit each of them is.
        elsewhere: So many units of the other variants are about as far out.
        times: What is judged: `ratio`, or its square if chance does not put so many units into one
            variant; 0 if their share is small.
    """

    metric: str
    variant: str
    units: int
    share: float
    ratio: float
    elsewhere: int
    times: float


def influences(analysis: Analysis) -> tuple[Influence, ...]:
    """Every effect of a mean or a ratio with and without its ten most influential units."""
    return tuple(
        one
        for metric, variant in analysis.rows
        if (one := _influence(analysis, metric, variant)) is not None
    )


def influence_check(analysis: Analysis) -> Check:
    """Whether few units make much of a variance, far beyond all others: as bots and faults do."""
    if not analysis.aggregates.extremes:
        message = "units are not looked at one by one ([privacy] min_units, sums, or no mean)"
        return skipped("influence", message)
    looks = list(_looks(analysis))
    groups = sorted((look.apart for look in looks if look.apart), key=lambda one: -one.times)
    few = _few(looks)
    if not groups:
        reason = few or f"no mean or ratio with a variance of {FEWEST_UNITS} units or more"
        return skipped("influence", reason)
    also = f"; {few}" if few else ""
    worst, options = groups[0], analysis.experiment.trust
    reason = (
        "how many times as far out as the next those units are that make 30 % of a variance: the "
        "largest of few buyers is seldom 10 times as far out, a fault often 100 times; of units "
        "that chance does not put into one variant (p < .001) the square of it"
    )
    words = Words(
        f"no unit, and no group of units, stands apart from all others{also}",
        f"{_described(worst)}{_owed(analysis, worst)}{also}",
        "look whether they are people (bots, testers, shared ids); cap the metric ([[metrics]] "
        "cap), or filter bots alike in all variants",
    )
    limits = Limits(options.influence_warn, options.influence_fail, reason)
    # The same units are apart in several metrics, in some of them less.
    also_apart = [g for g in groups if g.variant == worst.variant and g.times >= limits.warn]
    metrics = tuple(dict.fromkeys(group.metric for group in also_apart))
    return graded("influence", worst.times, limits, words, metrics or None)


def _described(group: Apart) -> str:
    part = f"of the variance of {group.metric}"
    if group.units == 1:
        return (
            f"one single unit of {group.variant} makes {percent(group.share)} {part}, "
            f"{group.ratio:,.0f} times as far out as the next"
        )
    return (
        f"{group.units} units of {group.variant} together make {percent(group.share)} {part}, each "
        f"at least {group.ratio:,.1f} times as far out as the next "
        f"({group.elsewhere} such units in the other variants)"
    )


def _owed(analysis: Analysis, worst: Apart) -> str:
    """What the effect is with and without the units that move it most."""
    variants = [worst.variant] if worst.variant in analysis.experiment.treatments else []
    metric = next(m for m in analysis.metrics if m.name == worst.metric)
    for variant in variants or analysis.experiment.treatments:
        one = _influence(analysis, metric, variant, max(_LEFT_OUT, worst.units))
        if one is not None:
            return (
                f"; the effect is {one.lift:+.2%}, and {one.lift_without:+.2%} without the "
                f"{one.units} units that move it most"
            )
    return ""


class _Look(NamedTuple):
    """A metric in a variant, and its units that deviate most; None where too few have a value."""

    metric: str
    apart: Apart | None


def _looks(analysis: Analysis) -> Iterator[_Look]:
    for metric in analysis.metrics:
        if not _has_units(analysis, metric):
            continue
        moments = _moments(analysis, metric)
        groups = {name: _group(analysis, metric, name, moments) for name in moments}
        deviations = {name: _deviations(group) for name, group in groups.items() if group}
        for variant in analysis.experiment.variants:
            group = groups.get(variant)
            if group is None or moments[variant].n < FEWEST_UNITS:
                continue
            total = _squares(moments[variant], group.value)
            if total > 0 and deviations[variant]:
                others = [d for name in deviations if name != variant for d in deviations[name]]
                population = Population(
                    moments[variant].n,
                    sum(one.n for one in moments.values()),
                    units_apart(moments[variant], group.units),
                    total,
                )
                one = apart(deviations[variant], others, population)
                yield _Look(metric.name, one and one._replace(metric=metric.name, variant=variant))


def _deviations(group: influence.Group) -> list[float]:
    """From the metric's value, from the largest on."""
    return sorted((abs(unit.y - group.value * unit.x) for unit in group.units), reverse=True)


def _few(looks: Sequence[_Look]) -> str:
    """Which metrics are not looked at, and why; empty if none is left out."""
    names = list(dict.fromkeys(look.metric for look in looks if look.apart is None))
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


class Population(NamedTuple):
    """The units of which some may stand apart.

    Attributes:
        units: Of the variant.
        everyone: Of all variants.
        valued: Units of the variant that have another value than the rest.
        squares: Sum of the squares of their deviations, above 0.
    """

    units: float
    everyone: float
    valued: float
    squares: float


def apart(
    deviations: Sequence[float], others: Sequence[float], population: Population
) -> Apart | None:
    """The one unit, or the group, that stands apart most; None where too few have a value.

    A group counts only if ten other units have another value than the rest: the buyers of a rare
    product are apart from everybody else, and are no fault.

    Args:
        deviations: The largest ones from the metric's value, from the largest on.
        others: Those of the other variants, in any order.
        population: The units.

    Example:
        >>> everyone = Population(2_000, 4_000, 500.0, 2.402e9)
        >>> one = apart([49_000.0, 70.0, 65.0], [80.0, 70.0], everyone)
        >>> one.units, one.times
        (1, 700.0)
        >>> bots = apart([*[400.0] * 12, 50.0], [50.0], everyone._replace(squares=2.5e6))
        >>> bots.units, bots.ratio, bots.elsewhere, bots.times
        (12, 8.0, 0, 64.0)
    """
    if population.valued < FEWEST_APART:
        return None
    most = min(_MOST_UNITS, population.units / _ONE_IN, population.valued - FEWEST_APART)
    most = max(1, min(int(most), len(deviations) - 1))
    groups = [_group_of(units, deviations, others, population) for units in range(1, most + 1)]
    return max(groups, key=lambda one: one.times)


def _group_of(
    units: int, deviations: Sequence[float], others: Sequence[float], population: Population
) -> Apart:
    """The units that deviate most, so many."""
    own, after = (*deviations, 0.0)[units - 1 : units + 1]
    ratio = own / max(after, deviations[0] / _MOST)
    share = min(1.0, sum(value**2 for value in deviations[:units]) / population.squares)
    elsewhere = sum(value * math.sqrt(ratio) >= own for value in others)
    chance = influence.one_sided(units, elsewhere, population.units / population.everyone)
    times = ratio**2 if units > 1 and chance < _ONE_SIDED else ratio
    return Apart("", "", units, share, ratio, elsewhere, times if share >= _MUCH else 0.0)


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


def _influence(
    analysis: Analysis, metric: Metric, variant: str, most: int = _LEFT_OUT
) -> Influence | None:
    if not _has_units(analysis, metric):
        return None
    moments = _moments(analysis, metric)
    control = _group(analysis, metric, analysis.experiment.control, moments)
    treatment = _group(analysis, metric, variant, moments)
    if control is None or treatment is None:
        return None
    one = influence.influence(control, treatment, most)
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
