"""Model effects by window: covariance, contrasts and shapes over time."""

import math
from collections.abc import Sequence
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from abeval.stats import effects
from abeval.stats.distributions import compute_p_value, quantile
from abeval.stats.means import correct_leverage
from abeval.stats.moments import Moments
from abeval.stats.records import Effect, Floats, Refusal, check_finite
from abeval.stats.resampling import compute_permutation_p_value

_Scale = Literal["relative", "absolute"]

# Effects are relative if every value is this many standard errors above zero.
_STEADY = 4.0


_NOT_FINITE = "effects and covariances must be finite"


class Windows(NamedTuple):
    """Values of both variants and effects in D windows, shape (D,) each.

    Effects are log(treatment / control) if relative, else treatment - control, with a covariance of
    shape (D, D), estimated with `df` degrees of freedom.
    """

    control: Floats
    treatment: Floats
    effect: Floats
    covariance: Floats
    scale: _Scale
    df: float


def estimate_window_effects(control: Moments, treatment: Moments) -> Windows:
    """Estimate effects by window and their covariance, by the delta method.

    Source: Deng, Knoblich & Lu (2018).

    Moments over units are of D numerators, then D denominators, one of each per window; a unit that
    is absent from a window has zeros there. Effects are relative if every value is `_STEADY`
    standard errors above zero. Refusals: `zero_denominator` if the denominator of a window sums to
    zero; `too_few_units`.

    Example:
        >>> control = Moments.of([1, 3, 2, 2], [2, 2, 1, 3], [1, 1, 1, 1], [1, 1, 1, 1])
        >>> windows = estimate_window_effects(control, control)
        >>> windows.effect.tolist(), windows.covariance.round(3).tolist()
        ([0.0, 0.0], [[0.083, 0.0], [0.0, 0.083]])
    """
    days = control.mean.size // 2
    blocks = tuple((day, days + day) for day in range(days))
    control, treatment = (correct_leverage(m, blocks=blocks) for m in (control, treatment))
    c, t = _estimate_window_values(control), _estimate_window_values(treatment)
    relative = _is_steady(control, c) and _is_steady(treatment, t)
    parts = [
        _estimate_covariance(control, c, relative),
        _estimate_covariance(treatment, t, relative),
    ]
    df = _estimate_df(parts, (control.df, treatment.df))
    effect = np.log(t / c) if relative else t - c
    return Windows(c, t, effect, parts[0] + parts[1], "relative" if relative else "absolute", df)


def _estimate_window_values(moments: Moments) -> Floats:
    days = moments.mean.size // 2
    denominator = moments.mean[days:]
    if np.any(denominator == 0):
        raise Refusal("zero_denominator", "the denominator of a window sums to zero")
    return np.asarray(moments.mean[:days] / denominator)


def _estimate_covariance(moments: Moments, values: Floats, relative: bool) -> Floats:
    """Return the covariance of the values, or of their logs if relative."""
    days = len(values)
    denominator = moments.mean[days:] * (values if relative else 1.0)
    covariance, of_y, of_x = moments.covariance / moments.n, 1 / denominator, -values / denominator
    rows = of_y[:, None] * covariance[:days] + of_x[:, None] * covariance[days:]
    return np.asarray(rows[:, :days] * of_y + rows[:, days:] * of_x)


def _estimate_df(parts: Sequence[Floats], dfs: Sequence[float]) -> float:
    """Return the df of a sum of independent covariance matrices.

    Source: Krishnamoorthy and Yu (2004).
    """
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


def _is_steady(moments: Moments, values: Floats) -> bool:
    se = np.sqrt(np.maximum(np.diag(_estimate_covariance(moments, values, relative=False)), 0.0))
    return bool(np.all(values > _STEADY * se))


def contrast(differences: Floats, covariance: Floats, weights: ArrayLike) -> Effect:
    """Test a linear contrast of windows, such as late minus early, by z.

    Weights that sum to zero compare windows (Kohavi, Tang & Xu 2020, chapter 3; Hohnhold, O'Brien &
    Tang 2015). The positive part of the contrast is the effect's treatment, the negative its
    control. Refusals: `zero_variance` or `not_finite`.

    Example:
        >>> sigma = np.array([[0.01, 0.002], [0.002, 0.01]])
        >>> round(contrast(np.array([0.5, 0.3]), sigma, [-1, 1]).statistic, 4)
        -1.5811
    """
    effect, sigma = check_finite(differences, _NOT_FINITE), check_finite(covariance, _NOT_FINITE)
    weight = np.asarray(weights, dtype=float)
    variance = float(weight @ sigma @ weight)
    if variance <= 0:
        raise Refusal("zero_variance", "the contrast has no variance")
    late, early = float(np.maximum(weight, 0) @ effect), float(np.maximum(-weight, 0) @ effect)
    se = math.sqrt(variance)
    return effects.effect_from_difference(early, late, late - early, se, method="window_contrast_z")


Kind = Literal["trend", "decay", "shock"]

# Candidate time constants, in days.
_DECAYS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 14.0, 21.0)

DRAWS = 20_000
_SEED = 20_111


class Shape(NamedTuple):
    """A shape of a change, by its value at each time.

    `trend` is a straight line, `decay` exp(-t/at) with `at` in days, `shock` the one day `at`.
    """

    kind: Kind
    at: float
    values: tuple[float, ...]


class Match(NamedTuple):
    """One fitted shape; `z` is the normal score of coefficient / se."""

    shape: Shape
    coefficient: float
    se: float
    z: float


class Search(NamedTuple):
    """The matches of all shapes that the nuisance columns do not explain.

    The best has the largest absolute z; its p-value is adjusted for all of them.
    """

    matches: tuple[Match, ...]
    best: Match
    p_value: float


class Fit(NamedTuple):
    """A generalised least squares fit.

    The covariance is that of the coefficients. `q` is the sum of the squared whitened residuals,
    and `df` the number of times minus that of columns. `q_p_value` tests by Hotelling's T² whether
    the residuals are noise.
    """

    coefficients: Floats
    covariance: Floats
    q: float
    df: int
    q_p_value: float


def build_trend(times: ArrayLike) -> Shape:
    """Draw a straight line: 0 at the first time, 1 a day later."""
    t = np.asarray(times, dtype=float)
    return Shape("trend", 0.0, tuple((t - t.min()).tolist()))


def build_decays(times: ArrayLike, longest: float) -> tuple[Shape, ...]:
    """Draw decays exp(−t / tau), for tau up to `longest` days."""
    t = np.asarray(times, dtype=float)
    return tuple(
        Shape("decay", tau, tuple(np.exp(-t / tau).tolist())) for tau in _DECAYS if tau <= longest
    )


def build_shocks(times: ArrayLike) -> tuple[Shape, ...]:
    """Draw one shock per time: 1 at that time, 0 elsewhere."""
    t = np.asarray(times, dtype=float)
    return tuple(Shape("shock", float(at), tuple((t == at).astype(float).tolist())) for at in t)


def build_rhythm_columns(times: ArrayLike) -> Floats:
    """Return weekday columns that sum to zero over a whole week, shape (times, 6)."""
    weekday = np.asarray(times).astype(int) % 7
    columns = [(weekday == k).astype(float) - (weekday == 6) for k in range(6)]
    return np.stack(columns, axis=1)


def fit(
    effects: ArrayLike, covariance: ArrayLike, design: ArrayLike, free: float = math.inf
) -> Fit:
    """Fit by generalised least squares with an estimated covariance.

    Source: Aitken (1935); Rao (1967).

    Effects have the shape (times,), the design (times, columns). The covariance of effects has
    `free` degrees of freedom, infinitely many if it is known. Refusals: `too_few_units` for fewer
    times than columns; `zero_variance` if the effects, as with more days than units, or the columns
    are linearly dependent; `not_finite`.

    Example:
        >>> mean = fit([1.0, 3.0], np.eye(2), np.ones((2, 1)))
        >>> mean.coefficients.tolist(), mean.q, mean.df
        ([2.0], 2.0, 1)
    """
    y, columns = _whiten(effects, covariance, design)
    if len(y) < columns.shape[1]:
        raise Refusal("too_few_units", f"{len(y)} times for {columns.shape[1]} coefficients")
    information = columns.T @ columns
    if np.linalg.cond(information) > 1e12:
        raise Refusal("zero_variance", "the columns are linearly dependent")
    inverse = np.asarray(np.linalg.inv(information), dtype=np.float64)
    coefficients = np.asarray(inverse @ (columns.T @ y), dtype=np.float64)
    q, df = float(np.sum((y - columns @ coefficients) ** 2)), len(y) - columns.shape[1]
    spread = inverse * _estimate_inflation(q, df, free)
    return Fit(coefficients, spread, q, df, _test_gain(q, 0.0, df, df, free))


def compare_fits(without: Fit, added: Fit, free: float = math.inf) -> float:
    """Test added columns, from the fits without and with them.

    Source: Rao (1973), section 8c.4.
    """
    gain = max(without.q - added.q, 0.0)
    return _test_gain(gain, added.q, without.df - added.df, without.df, free)


def _test_gain(gain: float, rest: float, columns: int, df: int, free: float) -> float:
    """Test a gain in T² by some of `df` contrasts, given the other contrasts.

    The covariance of the contrasts has `free` degrees of freedom. Without other contrasts it is the
    test of Hotelling (1931).
    """
    if columns == 0:
        return 1.0
    if math.isinf(free):
        return float(special.chdtrc(columns, gain))
    left = max(free - df + 1, 1.0)
    return float(special.fdtrc(columns, left, left / columns * gain / (free + rest)))


def _estimate_inflation(q: float, df: int, free: float) -> float:
    """Return the variance factor for estimated weights (Rao 1967).

    `q` is the weighted sum of squares of the `df` contrasts orthogonal to the coefficients'
    columns.
    """
    return 1.0 if math.isinf(free) else (free + q) / max(free - df, 1.0)


def search(
    effects: ArrayLike,
    covariance: ArrayLike,
    shapes: Sequence[Shape],
    nuisance: ArrayLike,
    free: float = math.inf,
) -> Search:
    """Find the shape that fits a change best, and test whether there is a change.

    Columns of `nuisance` do not count as a change. The p-value of the best shape is adjusted for
    all:
    by Monte Carlo with a fixed seed, or Bonferroni's if that is smaller (Hothorn, Bretz & Westfall
    2008). Refuses as `fit`, and `not_applicable` if all shapes depend linearly on the nuisance.

    Example:
        >>> t = np.arange(10)
        >>> shapes = [build_trend(t), *build_shocks(t)]
        >>> result = search(0.5 * t, np.eye(10), shapes, np.ones((10, 1)))
        >>> result.best.shape.kind, round(result.best.coefficient, 6), result.p_value < 0.01
        ('trend', 0.5, True)
    """
    columns = np.array([shape.values for shape in shapes]).T
    y, both = _whiten(effects, covariance, np.hstack([np.asarray(nuisance, float), columns]))
    nuisance_columns, candidates = both[:, : -len(shapes)], both[:, -len(shapes) :]
    basis, _ = np.linalg.qr(nuisance_columns)
    residual = candidates - basis @ (basis.T @ candidates)
    size = np.linalg.norm(residual, axis=0)
    usable = np.flatnonzero(size > 1e-6 * np.linalg.norm(candidates, axis=0))
    if not len(usable):
        raise Refusal("not_applicable", "too few days to separate a change from the weekly rhythm")
    unit = residual[:, usable] / size[usable]
    left = y - basis @ (basis.T @ y)
    q, df = float(left @ left), len(y) - basis.shape[1]
    matches = tuple(
        _match(shapes[i], float(size[i]), z, q - z * z, df - 1, free)
        for i, z in zip(usable.tolist(), (unit.T @ y).tolist(), strict=True)
    )
    # Of shapes that differ by rounding alone the first: beside a rhythm of two weeks, a day and the
    # same weekday of the other week fit alike.
    largest_z = max(abs(match.z) for match in matches)
    best = next(match for match in matches if abs(match.z) >= (1 - 1e-9) * largest_z)
    # Simulated, or Bonferroni's if smaller.
    largest = np.abs(_draw_normals(len(unit)) @ unit).max(axis=1)
    bonferroni = compute_p_value(best.z) * unit.shape[1]
    p_value = float(min(compute_permutation_p_value(largest, best.z), bonferroni))
    return Search(matches, best, p_value)


def _match(shape: Shape, size: float, z: float, rest: float, df: int, free: float) -> Match:
    """Fit one whitened shape, given its size, its z and the residual q."""
    wider = math.sqrt(_estimate_inflation(max(rest, 0.0), df, free))
    return Match(shape, z / size, wider / size, _convert_t_to_z(z / wider, free - df))


def _convert_t_to_z(t: float, df: float) -> float:
    """Return the z with the p-value of a t."""
    if math.isinf(df):
        return t
    return math.copysign(quantile(max(float(special.stdtr(max(df, 1.0), -abs(t))), 1e-300)), t)


@cache
def _draw_normals(times: int) -> Floats:
    return np.random.default_rng(_SEED).standard_normal((DRAWS, times))


def _whiten(effects: ArrayLike, covariance: ArrayLike, columns: ArrayLike) -> tuple[Floats, Floats]:
    """Whiten effects and columns, so that the noise has variance 1."""
    y, sigma = check_finite(effects, _NOT_FINITE), check_finite(covariance, _NOT_FINITE)
    x = np.asarray(columns, dtype=float)
    scale = np.sqrt(np.maximum(np.diag(sigma), 0.0))
    if np.any(scale == 0):
        raise Refusal("zero_variance", "a day's effect has no variance")
    correlation = sigma / np.outer(scale, scale)
    if np.linalg.eigvalsh(correlation).min() < 1e-10:
        raise Refusal("zero_variance", "the effects are linearly dependent")
    root = np.linalg.cholesky(correlation)
    solved = np.asarray(
        np.linalg.solve(root, np.column_stack([y, x]) / scale[:, None]), dtype=float
    )
    return solved[:, 0], solved[:, 1:]
