"""Is the effect the same on every day? Trend, stability and novelty with the full covariance.

The same units return on several days, so daily effects are correlated; tests that treat days as
independent are wrong.

`time/stability.py` calls `contrast` on the daily effects of `stats/windows.py`; the rest is for
your own numbers.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from abeval.stats import effects
from abeval.stats.arrays import Floats, finite
from abeval.stats.distributions import tail
from abeval.stats.moments import Moments
from abeval.stats.records import Effect, Refusal


class Stability(NamedTuple):
    """Trend and constancy of an effect over windows.

    Attributes:
        mean: Generalised least squares mean of the effects.
        mean_se: Its standard error.
        intercept: Effect at time 0 on the trend.
        slope: Change of the effect per unit of time.
        slope_se: Its standard error.
        z: `slope / slope_se`.
        slope_p_value: Two-sided.
        q: Wald statistic of equal effects in all windows.
        df: Number of windows minus one.
        q_p_value: P-value of `q`.
    """

    mean: float
    mean_se: float
    intercept: float
    slope: float
    slope_se: float
    z: float
    slope_p_value: float
    q: float
    df: int
    q_p_value: float


def covariance(control: Moments, treatment: Moments) -> Floats:
    """Covariance of the windows' differences in means: `Cov_t / n_t + Cov_c / n_c`.

    Shape (windows, windows); Kohavi, Tang & Xu (2020), chapter 3.

    Args:
        control: Moments of the sums per unit, one variable per window; zero for absent units.
        treatment: The same in treatment.

    Raises:
        Refusal: `too_few_units` below two units; `not_applicable` for different windows.

    Example:
        >>> covariance(Moments.of([0, 2], [0, 2]), Moments.of([0, 2], [2, 0])).tolist()
        [[2.0, 0.0], [0.0, 2.0]]
    """
    if control.mean.shape != treatment.mean.shape:
        raise Refusal("not_applicable", "the variants have different windows")
    return np.asarray(treatment.covariance / treatment.n + control.covariance / control.n)


def gls(differences: ArrayLike, covariance: ArrayLike, times: ArrayLike | None = None) -> Stability:
    """Trend of an effect over windows, and a test that it is constant.

    By generalised least squares (Aitken 1935; Wald 1943).

    Args:
        differences: Effect per window, shape (windows,).
        covariance: Covariance of the effects, shape (windows, windows).
        times: Time of each window, shape (windows,); 0, 1, 2, ... by default.

    Raises:
        Refusal: `too_few_units` below two windows; `zero_variance` for a covariance that is not
            positive definite; `not_finite`; `not_applicable` for shapes that differ or times that
            are all equal.

    Example:
        >>> trend = gls([0.5, 0.4, 0.3], 0.01 * (np.eye(3) + 0.3))
        >>> round(trend.slope, 6), round(trend.z, 4), round(trend.q, 4)
        (-0.1, -1.4142, 2.0)
    """
    effect, sigma = _checked(differences, covariance)
    time = np.arange(len(effect), dtype=float) if times is None else np.asarray(times, dtype=float)
    if len(effect) < 2:
        raise Refusal("too_few_units", "a trend needs two windows")
    if time.shape != effect.shape or np.ptp(time) == 0:
        raise Refusal("not_applicable", "times must be one per window and not all equal")
    # Centred, so that large numbers such as dates are not collinear with the constant.
    centre = float(time.mean())
    whitened = np.linalg.solve(
        _root(sigma), np.stack([effect, np.ones_like(effect), time - centre], axis=1)
    )
    y, design = whitened[:, 0], whitened[:, 1:]
    inverse = np.linalg.inv(design.T @ design)
    level, slope = (inverse @ (design.T @ y)).tolist()
    precision = float(design[:, 0] @ design[:, 0])
    mean = float(design[:, 0] @ y) / precision
    q = float(np.sum((y - mean * design[:, 0]) ** 2))
    slope_se = math.sqrt(inverse[1, 1])
    df = len(effect) - 1
    return Stability(
        mean,
        1 / math.sqrt(precision),
        level - slope * centre,
        slope,
        slope_se,
        slope / slope_se,
        tail(slope / slope_se).p_value,
        q,
        df,
        float(special.chdtrc(df, q)),
    )


def contrast(
    differences: ArrayLike, covariance: ArrayLike, weights: ArrayLike, alpha: float = 0.05
) -> Effect:
    """Test of a linear contrast of windows, such as late minus early.

    Kohavi, Tang & Xu (2020), chapter 3; Hohnhold, O'Brien & Tang (2015).

    Args:
        differences: Effect per window, shape (windows,).
        covariance: Covariance of the effects, shape (windows, windows).
        weights: Contrast, shape (windows,); weights that sum to zero compare windows.
        alpha: Level of the interval.

    Returns:
        Effect by z, with the positive part of the contrast as treatment, the negative as control.

    Raises:
        Refusal: As `gls`.

    Example:
        >>> round(contrast([0.5, 0.3], [[0.01, 0.002], [0.002, 0.01]], [-1, 1]).statistic, 4)
        -1.5811
    """
    effect, sigma = _checked(differences, covariance)
    weight = np.asarray(weights, dtype=float)
    if weight.shape != effect.shape or not np.isfinite(weight).all():
        raise Refusal("not_applicable", "one finite weight per window")
    variance = float(weight @ sigma @ weight)
    if variance <= 0:
        raise Refusal("zero_variance", "the contrast has no variance")
    late, early = np.maximum(weight, 0) @ effect, np.maximum(-weight, 0) @ effect
    return effects.from_difference(
        float(early),
        float(late),
        float(late - early),
        math.sqrt(variance),
        math.inf,
        alpha,
        "window_contrast_z",
    )


def novelty(
    differences: ArrayLike, covariance: ArrayLike, windows: int, alpha: float = 0.05
) -> Effect:
    """Mean effect of the last windows minus that of the first ones.

    For a positive effect, a negative difference is novelty that wears off, a positive one users
    who learn (primacy); Kohavi, Tang & Xu (2020), chapter 3.

    Args:
        differences: Effect per window in order of time, shape (windows,).
        covariance: Covariance of the effects, shape (windows, windows).
        windows: Number of windows at each end, at most half of all.
        alpha: Level of the interval.

    Returns:
        As `contrast`, with early as control and late as treatment.

    Raises:
        Refusal: As `contrast`; `too_few_units` if the ends overlap.

    Example:
        >>> change = novelty([0.5, 0.4, 0.3], 0.01 * np.eye(3), windows=1)
        >>> round(change.difference, 6), round(change.p_value, 4)
        (-0.2, 0.1573)
    """
    effect, sigma = _checked(differences, covariance)
    if windows < 1 or 2 * windows > len(effect):
        raise Refusal("too_few_units", f"{windows} early and late of {len(effect)} windows")
    weight = np.zeros(len(effect))
    weight[:windows], weight[-windows:] = -1 / windows, 1 / windows
    return contrast(effect, sigma, weight, alpha)


def _checked(differences: ArrayLike, covariance: ArrayLike) -> tuple[Floats, Floats]:
    effect, sigma = np.asarray(differences, dtype=float), np.asarray(covariance, dtype=float)
    if effect.ndim != 1 or sigma.shape != (len(effect), len(effect)):
        raise Refusal("not_applicable", "the covariance must have the shape (windows, windows)")
    message = "effects and covariances must be finite"
    return finite(effect, message), finite(sigma, message)


def _root(sigma: Floats) -> Floats:
    """Cholesky root; refused if windows are (nearly) linearly dependent."""
    scale = np.sqrt(np.maximum(np.diag(sigma), 0.0))
    if np.any(scale == 0):
        raise Refusal("zero_variance", "a window's effect has no variance")
    if np.linalg.eigvalsh(sigma / np.outer(scale, scale)).min() < 1e-10:
        raise Refusal("zero_variance", "the effects are linearly dependent")
    return np.asarray(np.linalg.cholesky(sigma), dtype=float)
