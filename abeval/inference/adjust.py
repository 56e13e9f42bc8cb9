"""Variance reduction of means and ratios: by values from before the period, or by strata.

`means_and_ratios.py` hands it the moments of two variants, and puts the effects with and without
the adjustment into the comparison.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from abeval.experiment.sections import Adjust
from abeval.metrics.definition import Metric
from abeval.stats import adjustment
from abeval.stats.moments import Moments
from abeval.stats.records import Adjusted

MIN_STRATUM = 30
"""Strata with fewer units than this in a variant are merged."""


def by_covariates(
    metric: Metric, control: Moments, treatment: Moments, adjust: Adjust, alpha: float
) -> Adjusted | None:
    """The effect adjusted by values from before the period; None where no unit has any.

    Args:
        metric: A mean or a ratio.
        control: Moments of (y, x, values before, whether new) over control's units.
        treatment: The same of the treatment.
        adjust: `cuped`: one slope for both variants; `regression`: one each (Lin 2013).
        alpha: Error rate of test and interval.
    """
    picked = of_covariates(metric, control, treatment)
    if picked is None:
        return None
    if adjust == "regression":
        lin = adjustment.lin_moments if metric.kind == "mean" else adjustment.lin_ratio_moments
        return lin(*picked, alpha)
    method = adjustment.mean if metric.kind == "mean" else adjustment.ratio_with
    return method(*picked, alpha)


def of_covariates(
    metric: Metric, control: Moments, treatment: Moments
) -> tuple[Moments, Moments] | None:
    """Moments of the value and what it is adjusted by; None where no unit has any.

    Args:
        metric: A mean or a ratio.
        control: Moments of (y, x, values before, whether new) over control's units.
        treatment: The same of the treatment.
    """
    arms, is_new = (control, treatment), control.mean.size - 1
    # A constant explains nothing, such as the units of a mean, or the past of a table of units.
    before = [k for k in range(2, is_new) if any(arm.covariance[k, k] > 0 for arm in arms)]
    if not all(_known_before(arm, before) for arm in arms):
        return None
    # Units without a pre-period are a stratum of their own, if they are some and not all.
    stratum = (is_new,) if all(0 < arm.mean[is_new] < 1 for arm in arms) else ()
    terms = (0,) if metric.kind == "mean" else (0, 1)
    first, second = (arm.pick(*terms, *before, *stratum) for arm in arms)
    return first, second


def _known_before(arm: Moments, covariates: Sequence[int]) -> bool:
    """Whether a covariate varies: of units that are all new, their own past does not."""
    return any(arm.covariance[k, k] > 0 for k in covariates)


class Strata(NamedTuple):
    """Moments of (y, x, …) of two variants by cell of a segment, within a stretch of entry days."""

    control: Mapping[str, Moments]
    treatment: Mapping[str, Moments]


def by_strata(metric: Metric, strata: Sequence[Strata], alpha: float) -> Adjusted:
    """Differences within the cells of a segment, combined by the cells' shares.

    Args:
        metric: A mean or a ratio.
        strata: The cells of each stretch; small ones are merged within it.
        alpha: Error rate of test and interval.

    Raises:
        Refusal: `too_few_units`, `zero_denominator`, `zero_variance`.
    """
    pairs = pairs_of(strata)
    arms = [c for c, _ in pairs], [t for _, t in pairs]
    method = adjustment.mean_random if metric.kind == "mean" else adjustment.ratio_random
    return method(arms[0], arms[1], alpha).adjusted


def pairs_of(strata: Sequence[Strata]) -> list[tuple[Moments, Moments]]:
    """Control's and treatment's moments of each cell of each stretch, small cells merged."""
    return [pair for one in strata for pair in _merged(one.control, one.treatment)]


def _merged(
    control: Mapping[str, Moments], treatment: Mapping[str, Moments]
) -> list[tuple[Moments, Moments]]:
    """Control's and treatment's moments of each stratum; small cells are merged into one."""
    cells = sorted({*control, *treatment})
    width = next(iter((*control.values(), *treatment.values()))).mean.size
    empty = Moments.of(*[[]] * width)
    pairs = [(control.get(cell, empty), treatment.get(cell, empty)) for cell in cells]
    pairs.sort(key=_smaller)
    while len(pairs) > 1 and _smaller(pairs[0]) < MIN_STRATUM:
        (first, second), rest = pairs[:2], pairs[2:]
        pairs = sorted([(first[0] + second[0], first[1] + second[1]), *rest], key=_smaller)
    return pairs


def _smaller(pair: tuple[Moments, Moments]) -> int:
    return min(arm.n for arm in pair)
