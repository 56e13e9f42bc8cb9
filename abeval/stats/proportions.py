"""Proportions from counts: two by the exact test and its mid-p, one by its interval."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from abeval.stats import effects, proportions
from abeval.stats.distributions import two_sided_quantile
from abeval.stats.records import Effect, Interval, Lift, Refusal

SingleMethod = Literal["wilson", "beta", "jeffreys", "agresti_coull", "normal"]


class Count(NamedTuple):
    """Units with the property, out of all units of a variant.

    Attributes:
        successes: Between zero and `units`.
        units: Units of randomisation. Clicks out of impressions are not a count of units:
            use `abeval.stats.means`.
    """

    successes: int
    units: int


def exact(control: Count, treatment: Count, alpha: float = 0.05) -> Effect:
    """Fisher's exact test by its mid-p, with the interval that agrees (Lancaster 1961).

    Two-sided as twice the smaller tail. Its error rate is near `alpha` or below at any rate and any
    split (docs/calibration.md). The standard error is that of one common rate.

    Args:
        control: Count of the control.
        treatment: Count of the treatment.
        alpha: Error rate of test and interval.

    Raises:
        Refusal: `too_few_units`; `zero_variance` when nobody or everybody succeeds.

    Example:
        >>> e = exact(Count(293, 11298), Count(5, 464))
        >>> round(e.p_value, 4), round(e.low, 4), round(e.high, 4)
        (0.0281, -0.0227, -0.0019)
    """
    c, t = _share(control), _share(treatment)
    common = (control.successes + treatment.successes) / (control.units + treatment.units)
    se = math.sqrt(common * (1 - common) * (1 / control.units + 1 / treatment.units))
    effect = effects.from_difference(c, t, t - c, se, method="fisher_mid_p")
    p = proportions.fisher(*control, *treatment)
    ends = proportions.exact_interval(*control, *treatment, lambda c, t: t - c, alpha)
    return effect._replace(
        low=max(ends.low, -1.0),
        high=min(ends.high, 1.0),
        p_value=p.p_value,
        log10_p_value=p.log10,
    )


def unchanged(control: Count, treatment: Count, alpha: float = 0.05) -> Effect:
    """Where nobody, or everybody, succeeds in both: no difference, and how large one may be.

    If nobody succeeds, treatment's share less control's is above treatment's largest by Clopper and
    Pearson (1934) in at most alpha / 2, and below minus control's likewise. The standard error is
    that of a normal interval as wide.

    Raises:
        Refusal: `not_applicable` where somebody succeeds and somebody does not.

    Example:
        >>> e = unchanged(Count(0, 6000), Count(0, 3000))
        >>> e.p_value, round(e.low, 5), round(e.high, 5)
        (1.0, -0.00061, 0.00123)
    """
    successes = control.successes + treatment.successes
    if successes not in (0, control.units + treatment.units):
        raise Refusal("not_applicable", "some succeed, and some do not")
    rare = [Count(0, count.units) for count in (control, treatment)]
    of_control, of_treatment = (proportions.clopper_pearson(*one, alpha).high for one in rare)
    ends = (-of_control, of_treatment) if successes == 0 else (-of_treatment, of_control)
    share = _share(control)
    se = (ends[1] - ends[0]) / 2 / two_sided_quantile(alpha)
    effect = effects.from_difference(share, share, 0.0, se, method="fisher_mid_p")
    return effect._replace(low=ends[0], high=ends[1])


def exact_lift(control: Count, treatment: Count, alpha: float = 0.05) -> Lift:
    """Relative effect with the interval of the exact test.

    Raises:
        Refusal: `too_few_units`; `control_near_zero` without a success in control;
            `zero_variance` when everybody succeeds.

    Example:
        >>> lift = exact_lift(Count(20, 1000), Count(0, 1000))
        >>> lift.value, lift.low, round(lift.high, 4)
        (-1.0, -1.0, -0.8387)
    """
    base, share = _share(control), _share(treatment)
    if base == 0:
        raise Refusal("control_near_zero", "no success in control: a lift has no meaning")
    if base == share == 1:
        raise Refusal("zero_variance", "everybody succeeds: no test is possible")
    low, high = proportions.exact_interval(*control, *treatment, _relative, alpha)
    return Lift(share / base - 1, max(low, -1.0), high, math.isfinite(high), "fisher_mid_p")


def _relative(control: float, treatment: float) -> float:
    return treatment / control - 1 if control > 0 else math.inf


def interval(count: Count, alpha: float = 0.05, method: SingleMethod = "wilson") -> Interval:
    """Interval of one proportion, as statsmodels has it.

    Args:
        count: Successes and units.
        alpha: Error rate.
        method: `wilson` (1927), `beta` (Clopper and Pearson 1934), `jeffreys`,
            `agresti_coull` or `normal`.

    Raises:
        Refusal: `too_few_units`.

    Example:
        >>> low, high = interval(Count(17, 120))
        >>> round(low, 4), round(high, 4)
        (0.0904, 0.2152)
    """
    _share(count)
    q = two_sided_quantile(alpha)
    if method == "wilson":
        return _wilson(count, q)
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(count.successes, count.units, alpha, method)
    return Interval(float(low), float(high))


def _share(count: Count) -> float:
    if count.units < 1:
        raise Refusal("too_few_units", "a proportion needs at least one unit")
    if not 0 <= count.successes <= count.units:
        raise ValueError(f"{count.successes} successes of {count.units} units")
    return count.successes / count.units


def _wilson(count: Count, q: float) -> Interval:
    x, n = count
    centre, half = x + q * q / 2, q * math.sqrt(x * (n - x) / n + q * q / 4)
    # The ends at no success and at all are exact, where rounding would pass them.
    low = 0.0 if x == 0 else (centre - half) / (n + q * q)
    return Interval(low, 1.0 if x == n else (centre + half) / (n + q * q))
