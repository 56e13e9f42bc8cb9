"""Find bots and outlier units, and measure their influence on effects.

Units are counted, never named.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from abeval.aggregates.sums import CAPPED, WHOLE, pool_moments
from abeval.inference.compare import Analysis
from abeval.inference.trust.audits import (
    find_largest_sure_difference,
    find_uneven_shares,
    format_percent,
    pool_variant_shares,
    read_audit,
)
from abeval.inference.trust.finding import RawCheck, TrustCheck, skip_check
from abeval.metrics.definition import Metric, list_scales
from abeval.results import Influence
from abeval.results import format as fmt
from abeval.stats import influence
from abeval.stats.moments import Moments

# Among fewer units, some always make much of the variance.
_FEWEST_UNITS = 100

# If fewer units have an unusual value, one of them is all of the variance.
_FEWEST_APART = 10

# Cap on how many times as far out as the next unit.
_MOST = 1e6

# A unit with a smaller share of the variance decides nothing.
_MUCH = 0.3

# Largest outlier group: this many units, and one in so many of its variant.
_MOST_UNITS, _ONE_IN = 20, 50

# Effects are also shown without this many of their most influential units.
_LEFT_OUT = 10

_ONE_SIDED = 0.001

# If more units than this share act like machines, the product itself is periodic.
_COMMON = 0.05


_Arm = tuple[Moments, influence.Group]
"""Moments of all units of a variant, and those that deviate most from the metric's value."""


def _collect_arms(analysis: Analysis, metric: Metric) -> dict[str, _Arm]:
    """Return the variants of a metric with their most deviating units."""
    aggregates = analysis.aggregates
    if not (metric.is_mean_or_ratio and any(n == metric.name for n, _ in aggregates.extremes)):
        return {}
    per_y, per_x = list_scales(metric)
    slice_name = CAPPED if metric.name in aggregates.caps else WHOLE
    arms: dict[str, _Arm] = {}
    for variant, moments in pool_moments(analysis.moments(metric, slice_name)).items():
        if moments.mean[1]:
            rows = aggregates.extremes.get((metric.name, variant), ())
            units = [influence.Unit(y * per_y, x * per_x) for y, x in rows]
            y, x = (moments.n * float(mean) for mean in moments.mean[:2])
            arms[variant] = moments, influence.Group(y, x, units)
    return arms


def measure_influences(analysis: Analysis) -> tuple[Influence, ...]:
    """Return effects with and without their ten most influential units."""
    arms = {metric.name: _collect_arms(analysis, metric) for metric in analysis.metrics}
    every = (_measure_influence(analysis, m.name, v, arms[m.name]) for m, v in analysis.rows)
    return tuple(row for row in every if row is not None)


def _measure_influence(
    analysis: Analysis, metric: str, variant: str, arms: Mapping[str, _Arm], most: int = _LEFT_OUT
) -> Influence | None:
    control, treatment = (arms.get(name) for name in (analysis.experiment.control, variant))
    if control is None or treatment is None:
        return None
    result = influence.find_influence(control[1], treatment[1], most)
    if result is None:
        return None
    return Influence(
        metric=metric,
        variant=variant,
        units=result.control + result.treatment,
        units_in_variant=result.treatment,
        lift=result.lift,
        lift_without=result.lift_without,
        share=(result.lift - result.lift_without) / result.lift if result.lift else None,
    )


class _Population(NamedTuple):
    """The units of a variant, and what is needed to judge its outliers.

    `valued` units have an unusual value, `squares` is the sum of squared deviations, and `everyone`
    the number of units in all variants.
    """

    units: float
    everyone: float
    valued: float
    squares: float


class _OutlierGroup(NamedTuple):
    """A group of units that deviate far more than all others of a variant.

    Attributes:
        share: Their share of the variance.
        ratio: How many times as far out as the next unit each of them is.
        elsewhere: Number of units of other variants that are about as far out.
        times: Value of the check: `ratio`, squared if chance would not put so many into one
            variant; 0 if their share is small.
    """

    units: int
    share: float
    ratio: float
    elsewhere: int
    times: float


def _count_units_apart(moments: Moments, units: Sequence[influence.Unit]) -> float:
    """Return a lower bound of the units whose value differs from the usual one.

    The usual value is 0. If values lie between 0 and 1, it may be 1, and the smaller count is
    returned. `units` are those that deviate most, in order.

    Example:
        >>> one_failure = Moments.of([1.0] * 299 + [0.0], [1.0] * 300)
        >>> units = [influence.Unit(0.0, 1.0), influence.Unit(1.0, 1.0)]
        >>> round(_count_units_apart(one_failure, units), 6)
        1.0
    """
    y, x = moments.mean[:2]
    products = moments.comoment[:2, :2] + moments.n * np.outer([y, x], [y, x])
    values = [unit.y for unit in units]
    fewest = influence.find_fewest_units(values, moments.n * float(y), float(products[0, 0]))
    if not 0 <= units[0].y <= units[0].x:
        return fewest
    squares = products[0, 0] - 2 * products[0, 1] + products[1, 1]
    values = [unit.x - unit.y for unit in units]
    below = influence.find_fewest_units(values, moments.n * float(x - y), float(squares))
    return min(fewest, below)


def _find_outlier_group(
    deviations: Sequence[float], other_deviations: Sequence[float], population: _Population
) -> _OutlierGroup | None:
    """Find the unit or group that stands out most; None if too few have a value.

    A group counts only if ten other units have an unusual value. The buyers of a rare product stand
    out from all others, and are no fault.

    `deviations` are the largest deviations from the metric's value, in order;
    `other_deviations` those of other variants.

    Example:
        >>> everyone = _Population(2_000, 4_000, 500.0, 2.402e9)
        >>> one = _find_outlier_group([49_000.0, 70.0, 65.0], [80.0, 70.0], everyone)
        >>> one.units, one.times
        (1, 700.0)
        >>> squared = everyone._replace(squares=2.5e6)
        >>> bots = _find_outlier_group([*[400.0] * 12, 50.0], [50.0], squared)
        >>> bots.units, bots.ratio, bots.elsewhere, bots.times
        (12, 8.0, 0, 64.0)
    """
    if population.valued < _FEWEST_APART:
        return None
    most = min(_MOST_UNITS, population.units / _ONE_IN, population.valued - _FEWEST_APART)
    most = max(1, min(int(most), len(deviations) - 1))
    groups = [
        _measure_outlier_group(units, deviations, other_deviations, population)
        for units in range(1, most + 1)
    ]
    return max(groups, key=lambda group: group.times)


def _measure_outlier_group(
    units: int,
    deviations: Sequence[float],
    other_deviations: Sequence[float],
    population: _Population,
) -> _OutlierGroup:
    """Measure the group of the units that deviate most, of a given size."""
    last, after = (*deviations, 0.0)[units - 1 : units + 1]
    ratio = last / max(after, deviations[0] / _MOST)
    share = min(1.0, sum(value**2 for value in deviations[:units]) / population.squares)
    elsewhere = sum(value * math.sqrt(ratio) >= last for value in other_deviations)
    # A fault puts such units into one variant; chance spreads them by the split.
    chance = influence.compute_binomial_tail(
        units, elsewhere, population.units / population.everyone
    )
    times = ratio**2 if units > 1 and chance < _ONE_SIDED else ratio
    return _OutlierGroup(units, share, ratio, elsewhere, times if share >= _MUCH else 0.0)


def _find_outliers(analysis: Analysis) -> Iterator[tuple[_OutlierGroup | None, str, str]]:
    """Yield the outlier group of each metric and variant; None if too few values."""
    for metric in analysis.metrics:
        arms = _collect_arms(analysis, metric)
        everyone = sum(moments.n for moments, _ in arms.values())
        deviations = {name: group.deviations for name, (_, group) in arms.items()}
        for variant in [name for name in analysis.experiment.variants if name in arms]:
            moments, group = arms[variant]
            c, value = moments.comoment, group.value
            squares = float(c[0, 0] - 2 * value * c[0, 1] + value * value * c[1, 1])
            if moments.n < _FEWEST_UNITS or not group.units or squares <= 0:
                continue
            other_deviations = [d for name in arms if name != variant for d in deviations[name]]
            valued = _count_units_apart(moments, group.units)
            population = _Population(moments.n, everyone, valued, squares)
            outliers = _find_outlier_group(deviations[variant], other_deviations, population)
            yield outliers, metric.name, variant


@TrustCheck(
    "influence",
    of="both",
    limits=("influence_warn", "influence_fail"),
    absent="units cannot be checked one by one ([privacy] min_units, sums, clusters, or no mean)",
    calm="no unit, and no group of units, stands apart from all others{few}",
    reason=(
        "how many times as far out as the next unit those are that make 30 % of a variance: the "
        "largest of few buyers is seldom 10 times as far out, a fault often 100 times; squared "
        "for units that chance does not put into one variant (p < .001)"
    ),
    remedy=(
        "check whether they are bots, testers or shared ids; cap the metric ([[metrics]] "
        "cap), or filter bots alike in all variants"
    ),
    states={
        "one": {
            "alarm": (
                "one single unit of {variant} makes {part} of the variance of {metric}, "
                "{ratio:,.0f} times as far out as the next{owed}{few}"
            ),
        },
        "group": {
            "alarm": (
                "{units} units of {variant} together make {part} of the variance of {metric}, "
                "each at least {ratio:,.1f} times as far out as the next ({elsewhere} such units "
                "in the other variants){owed}{few}"
            ),
        },
    },
)
def influence_check(analysis: Analysis) -> RawCheck | None:
    """Find the units that make much of a variance, far beyond all others."""
    if not analysis.aggregates.extremes:
        return None
    looks = [*_find_outliers(analysis)]
    left = fmt.join_items([*dict.fromkeys(metric for group, metric, _ in looks if group is None)])
    few = (
        f"not looked at in every variant: {left}, where fewer than {_FEWEST_APART} units have "
        "another value than all the others"
    )
    groups = [(group, metric, variant) for group, metric, variant in looks if group is not None]
    if not groups:
        none = f"no mean or ratio with a variance of {_FEWEST_UNITS} units or more"
        return skip_check(few if left else none)
    groups.sort(key=lambda group: -group[0].times)
    worst, metric, variant = groups[0]
    # The same units are apart in several metrics, in some of them less.
    least = analysis.experiment.trust.influence_warn
    metrics = [name for group, name, v in groups if v == variant and group.times >= least]
    slots = {"metric": metric, "variant": variant, "part": format_percent(worst.share)}
    slots |= {"owed": _describe_outlier_effect(analysis, worst, metric, variant)}
    return RawCheck(
        worst.times,
        metrics=tuple(metrics) or None,
        slots={**worst._asdict(), **slots, "few": f"; {few}" if left else ""},
        state="one" if worst.units == 1 else "group",
    )


def _describe_outlier_effect(
    analysis: Analysis, group: _OutlierGroup, name: str, worst: str
) -> str:
    """Describe the effect with and without the units that move it most."""
    arms = _collect_arms(
        analysis, next(metric for metric in analysis.metrics if metric.name == name)
    )
    treatments = analysis.experiment.treatments
    for variant in [worst] if worst in treatments else treatments:
        result = _measure_influence(analysis, name, variant, arms, max(_LEFT_OUT, group.units))
        if result is not None:
            return (
                f"; the effect is {result.lift:+.2%}, and {result.lift_without:+.2%} without the "
                f"{result.units} units that move it most"
            )
    return ""


@TrustCheck(
    "bots",
    pairs=True,
    difference="fail",
    absent="without times, or with [privacy] min_units, units cannot be checked one by one",
    calm="likely bots are equally frequent in all variants: {counts}",
    alarm="likely bots: {counts}; of all {worst} they make {shares}{every}",
    remedy=(
        "look for crawlers, monitors, test accounts, and ids that many people share (guests); "
        "leave them out alike in all variants, by what was known before the assignment"
    ),
)
def bots(analysis: Analysis) -> RawCheck | None:
    """Compare the share of units that act like machines, and of their rows."""
    cells = read_audit(analysis.aggregates, "machine")
    if not cells:
        return None
    gaps, machines = cells.pop("gap").values(), cells["impressions"].values()
    if sum(row.sums.total for row in machines) > _COMMON * sum(row.sums.units for row in machines):
        return skip_check("in this log, units that come at regular times are no exception")
    differing = find_uneven_shares(analysis, cells)
    worst = differing[0].cell if differing else "impressions"
    texts = [
        f"{format_percent(share)} in {v}"
        for v, share in pool_variant_shares({"": cells[worst]}).items()
    ]
    counts = [f"{row.variant} {row.sums.total:,} of {row.sums.units:,}" for row in machines]
    usual = max(gaps, key=lambda row: row.sums.total)
    every = f"; a list about every {usual.y / 1000:,.0f} seconds" if usual.sums.total else ""
    slots = {"counts": ", ".join(counts), "worst": worst, "shares": fmt.join_items(texts)}
    return RawCheck(find_largest_sure_difference(differing), slots={**slots, "every": every})
