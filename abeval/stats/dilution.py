"""The effect over all users of a change that reaches some of them (triggered analysis).

For your own numbers (docs/statistics.md): no analysis calls it.
"""

import math

from abeval.stats.records import Effect, Lift, Refusal


def dilute(effect: Effect, triggered_units: float, all_units: float) -> Effect:
    """Effect over all units of an effect measured on the triggered ones.

    Units that the change cannot reach are unaffected, so the additive effect shrinks with their
    share. The share is taken as known: triggering must not depend on the variant.

    Args:
        effect: Difference in a mean per unit over triggered units.
        triggered_units: Triggered units of all variants.
        all_units: Units of all variants, triggered or not.

    Returns:
        Difference, standard error and interval times the share; statistic and p-value unchanged.
        The levels of control and treatment stay those of triggered units times the share: the part
        of the overall mean that comes from them.

    Raises:
        Refusal: `too_few_units` without units; `not_applicable` for more triggered than all.

    Source:
        Deng & Hu (WSDM 2015); Kohavi, Tang & Xu (2020), chapter 20.

    Example:
        >>> from abeval.stats import effects
        >>> round(dilute(effects.from_difference(1.0, 1.2, 0.2, 0.05), 100, 400).difference, 6)
        0.05
    """
    share = _share(triggered_units, all_units, "units")
    return effect._replace(
        control=effect.control * share,
        treatment=effect.treatment * share,
        difference=effect.difference * share,
        se=effect.se * share,
        low=effect.low * share,
        high=effect.high * share,
        method=f"{effect.method}_diluted",
    )


def dilute_lift(lift: Lift, triggered_total: float, all_total: float) -> Lift:
    """Lift over all units of a lift measured on the triggered ones.

    The share that matters is the metric's, not the units': multiplying by the trigger rate is
    wrong whenever triggered units are more or less active than others.

    Args:
        lift: Relative effect over triggered units.
        triggered_total: The metric's total in control over triggered units.
        all_total: Its total in control over all units.

    Returns:
        The lift and its interval times the metric's share.

    Raises:
        Refusal: `control_near_zero` for a total of zero; `not_finite`; `not_applicable` for
            totals of opposite sign or a share above one.

    Source:
        Deng & Hu (WSDM 2015); Kohavi, Tang & Xu (2020), chapter 20.

    Example:
        >>> dilute_lift(Lift(0.10, 0.05, 0.15, True, "fieller"), 300.0, 400.0).value
        0.07500000000000001
    """
    if all_total == 0:
        raise Refusal("control_near_zero", "the metric's total in control is zero")
    share = _share(triggered_total, all_total, "total")
    if share == 0:
        return Lift(0.0, 0.0, 0.0, True, lift.method)
    return lift._replace(value=lift.value * share, low=lift.low * share, high=lift.high * share)


def _share(part: float, whole: float, what: str) -> float:
    if not (math.isfinite(part) and math.isfinite(whole)):
        raise Refusal("not_finite", f"{what} must be finite")
    if whole == 0:
        raise Refusal("too_few_units", f"no {what} to dilute over")
    share = part / whole
    if not 0 <= share <= 1 + 1e-12:
        raise Refusal("not_applicable", f"triggered {what} {part:g} of {whole:g} is not a share")
    return share
