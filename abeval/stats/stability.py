"""Compare effects of several days with the covariance between them.

The same units return on several days, so daily effects are correlated; tests that treat days as
independent are wrong.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from abeval.stats import effects
from abeval.stats.moments import Moments
from abeval.stats.records import Effect, Floats, Refusal, finite


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


def _checked(differences: ArrayLike, covariance: ArrayLike) -> tuple[Floats, Floats]:
    effect, sigma = np.asarray(differences, dtype=float), np.asarray(covariance, dtype=float)
    if effect.ndim != 1 or sigma.shape != (len(effect), len(effect)):
        raise Refusal("not_applicable", "the covariance must have the shape (windows, windows)")
    message = "effects and covariances must be finite"
    return finite(effect, message), finite(sigma, message)
