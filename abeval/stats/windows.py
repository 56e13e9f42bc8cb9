"""Effects in several time windows of the same units, with the covariance between windows.

`time/axes.py` and `time/change.py` hand over moments of daily values; the tests in
`stats/shapes.py` read what comes back.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from abeval.stats.effects import satterthwaite
from abeval.stats.moments import Moments
from abeval.stats.records import Floats, Refusal

Scale = Literal["relative", "absolute"]

STEADY = 4.0
"""Standard errors that every window's value must be above zero for a relative effect."""


class Windows(NamedTuple):
    """Effects in D windows.

    Attributes:
        control: Value of control in each window, shape (D,).
        treatment: Value of treatment in each window, shape (D,).
        effect: log(treatment / control), or treatment - control, shape (D,).
        covariance: Covariance of the effects, shape (D, D).
        scale: `relative` or `absolute`.
        df: Degrees of freedom of `covariance`, which is estimated.
    """

    control: Floats
    treatment: Floats
    effect: Floats
    covariance: Floats
    scale: Scale
    df: float


def effects(control: Moments, treatment: Moments, scale: Scale | None = None) -> Windows:
    """Effects in windows and their covariance, by the delta method (Deng, Knoblich & Lu 2018).

    Args:
        control: Moments over units of D numerators, then D denominators, one of each per window;
            a unit that is absent from a window has zeros there.
        treatment: The same in treatment.
        scale: Scale of the effects; by default relative if every value is `STEADY` standard errors
            above zero.

    Raises:
        Refusal: `zero_denominator` if the denominator of a window sums to zero; `too_few_units`.

    Example:
        >>> control = Moments.of([1, 3, 2, 2], [2, 2, 1, 3], [1, 1, 1, 1], [1, 1, 1, 1])
        >>> windows = effects(control, control, "absolute")
        >>> windows.effect.tolist(), windows.covariance.round(3).tolist()
        ([0.0, 0.0], [[0.333, 0.0], [0.0, 0.333]])
    """
    values = [_values(arm) for arm in (control, treatment)]
    arms = [(arm, value) for arm, value in zip((control, treatment), values, strict=True)]
    chosen = scale or ("relative" if all(_steady(*arm) for arm in arms) else "absolute")
    relative = chosen == "relative"
    parts = [_covariance(*arm, relative) for arm in arms]
    df = _df(parts, (control.df, treatment.df))
    c, t = values
    effect = np.log(t / c) if relative else t - c
    return Windows(c, t, effect, np.asarray(sum(parts)), "relative" if relative else "absolute", df)


def stratified(strata: Sequence[Moments], shares: Sequence[float]) -> Moments:
    """Post-stratified moments: strata have the sizes `shares` (Miratrix, Sekhon & Yu 2013).

    The mean is the weighted mean, and `covariance / n` the covariance of that mean, so that every
    test on moments becomes post-stratified. Without it, an experiment whose split changes compares
    early units with late ones (Simpson's paradox). Its degrees of freedom are Satterthwaite's, of
    variable 0.

    Args:
        strata: Moments of each stratum.
        shares: Weights that sum to 1, the same in all variants.

    Raises:
        Refusal: `too_few_units` for a stratum of fewer than two units.

    Example:
        >>> both = stratified([Moments.of([1, 1]), Moments.of([5, 5, 5, 5])], [0.5, 0.5])
        >>> both.mean.tolist(), both.n
        ([3.0], 6)
    """
    n = sum(moments.n for moments in strata)
    mean = sum(share * m.mean for share, m in zip(shares, strata, strict=True))
    pairs = zip(shares, strata, strict=True)
    parts = [share**2 * m.covariance / m.n for share, m in pairs]
    terms, dfs = [float(part[0, 0]) for part in parts], [m.df for m in strata]
    effective = satterthwaite(terms, dfs) + 1 if sum(terms) > 0 else None
    return Moments(n, np.asarray(mean), np.asarray(sum(parts)) * n * (n - 1), effective)


def _values(moments: Moments) -> Floats:
    days = moments.mean.size // 2
    denominator = moments.mean[days:]
    if np.any(denominator == 0):
        raise Refusal("zero_denominator", "the denominator of a window sums to zero")
    return np.asarray(moments.mean[:days] / denominator)


def _covariance(moments: Moments, values: Floats, relative: bool) -> Floats:
    """Covariance of the values, or of their logarithms if relative."""
    days = len(values)
    denominator = moments.mean[days:] * (values if relative else 1.0)
    covariance, of_y, of_x = moments.covariance / moments.n, 1 / denominator, -values / denominator
    rows = of_y[:, None] * covariance[:days] + of_x[:, None] * covariance[days:]
    return np.asarray(rows[:, :days] * of_y + rows[:, days:] * of_x)


def _df(parts: Sequence[Floats], dfs: Sequence[float]) -> float:
    """Degrees of freedom of a sum of independent covariances (Krishnamoorthy and Yu 2004)."""
    total = np.asarray(sum(parts))
    size = np.sqrt(np.maximum(np.diag(total), np.finfo(float).tiny))
    inverse = np.linalg.pinv(total / np.outer(size, size), hermitian=True)
    shares = [part / np.outer(size, size) @ inverse for part in parts]
    windows = float(np.trace(sum(shares)))
    spread = sum(
        (float(np.trace(share @ share)) + float(np.trace(share)) ** 2) / df
        for share, df in zip(shares, dfs, strict=True)
    )
    return (windows + windows**2) / spread if spread > 0 else 1.0


def _steady(moments: Moments, values: Floats) -> bool:
    se = np.sqrt(np.maximum(np.diag(_covariance(moments, values, relative=False)), 0.0))
    return bool(np.all(values > STEADY * se))
