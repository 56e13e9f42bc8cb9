"""Sample ratio mismatch: did the variants get the shares of units they were promised?

`inference/trust/` hands over the units of each variant and the weights of the experiment file,
for the trust check `srm`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from abeval.stats import srm
from abeval.stats.records import Floats, Refusal


class SRM(NamedTuple):
    """A goodness-of-fit test of unit counts against weights.

    Attributes:
        statistic: Pearson chi-square.
        df: Arms with a positive weight, less one.
        p_value: Upper tail; alert below .001.
        is_exact: Whether the p-value is of the exact test instead, since few units are expected.
    """

    statistic: float
    df: int
    p_value: float
    is_exact: bool = False


class SequentialSRM(NamedTuple):
    """An anytime-valid test of the split, look by look.

    Attributes:
        log_bayes_factor: Natural logarithm at every look, against the promised split.
        p_values: Running always-valid p-value at every look; it never rises.
        p_value: The last of them.
    """

    log_bayes_factor: tuple[float, ...]
    p_values: tuple[float, ...]
    p_value: float


def chi_square(observed: Sequence[int], weights: Sequence[float]) -> SRM:
    """Test counts of units against the promised split.

    An arm of zero weight is not counted in the degrees of freedom (D6), and must be empty.

    Args:
        observed: Units per arm, shape (arms,).
        weights: Promised shares in any scale, shape (arms,), not negative.

    Returns:
        Statistic, degrees of freedom and p-value.

    Raises:
        Refusal: `too_few_units` without any unit; `not_finite`; `not_applicable` for units in an
            arm of zero weight, fewer than two arms, or lengths that differ.

    Source:
        Pearson (1900); Fabijan et al. (KDD 2019), "Diagnosing Sample Ratio Mismatch".

    Example:
        >>> round(chi_square([5100, 4900, 0], [0.5, 0.5, 0]).p_value, 6)
        0.0455
    """
    counts, shares = checked(observed, weights)
    if counts.sum() == 0:
        raise Refusal("too_few_units", "a split cannot be tested without units")
    return pearson(counts, counts.sum() * shares, len(shares) - 1)


def believable(observed: Sequence[int], weights: Sequence[float]) -> SRM:
    """Chi-square, or the exact test where an expected count is below five.

    With more than two arms the exact test is of each against the others: the smallest p-value is
    multiplied by the number of arms, which is valid and conservative.

    Args:
        observed: Units per arm, shape (arms,).
        weights: Promised shares in any scale, shape (arms,), not negative.

    Raises:
        Refusal: As `chi_square`.

    Source:
        Cochran (1954) for the count; Clopper & Pearson (1934); Bonferroni over arms.

    Example:
        >>> split = believable([291, 9], [99, 1])
        >>> round(split.p_value, 4), split.is_exact
        (0.0036, True)
    """
    result = chi_square(observed, weights)
    counts, shares = checked(observed, weights)
    if not srm.is_small(counts.sum() * shares):
        return result
    return result._replace(p_value=srm.of_split(counts, shares), is_exact=True)


def stratified(observed: ArrayLike, weights: ArrayLike) -> SRM:
    """Test counts against splits that differ between strata, such as stretches of a ramp.

    The excess of units over those promised, summed over strata, by its covariance: a loss that acts
    alike in all strata shows as plainly as in one large stratum. Where an expected count is below
    five, and few units are expected of an arm in all, the test is exact: the units of an arm are a
    sum of binomials, one a stratum. With more than two arms, the smallest p-value is multiplied by
    their number.

    Args:
        observed: Units, shape (strata, arms).
        weights: Promised shares in any scale, shape (strata, arms), not negative.

    Raises:
        Refusal: As `chi_square`.

    Example:
        >>> round(stratified([[900, 100], [460, 540]], [[9, 1], [1, 1]]).p_value, 4)
        0.0301
        >>> round(stratified([[2, 1], [0, 0]], [[99, 1], [1, 1]]).p_value, 4)
        0.0297
    """
    table, planned = np.asarray(observed, dtype=float), np.asarray(weights, dtype=float)
    if table.shape != planned.shape or table.ndim != 2 or len(table) == 0:
        raise Refusal("not_applicable", f"{table.shape} counts against {planned.shape} weights")
    if table.sum() == 0:
        raise Refusal("too_few_units", "a split cannot be tested without units")
    excess, covariance = np.zeros(table.shape[1]), np.zeros((table.shape[1],) * 2)
    for counts, promised in zip(table, planned, strict=True):
        checked(counts, promised)
        units, shares = counts.sum(), promised / promised.sum()
        excess += counts - units * shares
        covariance += units * (np.diag(shares) - np.outer(shares, shares))
    inverse = np.linalg.pinv(covariance, rcond=1e-10, hermitian=True)
    df = int(np.linalg.matrix_rank(covariance, tol=1e-10 * table.sum(), hermitian=True))
    statistic = max(float(excess @ inverse @ excess), 0.0)
    shares = planned / planned.sum(axis=1, keepdims=True)
    if srm.are_few(table, shares):
        return SRM(statistic, df, srm.of_strata(table, shares), is_exact=True)
    return SRM(statistic, df, float(special.chdtrc(df, statistic)))


def sequential(
    counts: ArrayLike, weights: Sequence[float], prior: Sequence[float] | None = None
) -> SequentialSRM:
    """Watch the split while units arrive; looking at any moment, and often, is allowed.

    Bayes factor of a Dirichlet-multinomial against the promised multinomial. Counts must be of
    distinct units: a returning unit is counted once, when it first arrives.

    Args:
        counts: Cumulative units, shape (looks, arms) or (arms,) for one look.
        weights: Promised shares in any scale, shape (arms,).
        prior: Dirichlet parameters, shape (arms,). By default 10,000 times the shares: tuned to
            mismatches of about one percent; `[1, 1]` is tuned to gross ones.

    Returns:
        Log Bayes factors and always-valid p-values per look.

    Raises:
        Refusal: As `chi_square`; also `not_applicable` for counts that fall from look to look or
            a prior that is not positive. A look without units has p-value 1.

    Source:
        Lindon & Malek (NeurIPS 2022), "Anytime-Valid Inference for Multinomial Count Data".

    Example:
        >>> path = sequential([[500, 480], [1100, 900], [2300, 1700]], [1, 1])
        >>> [round(p, 6) for p in path.p_values]
        [1.0, 0.206859, 3e-06]
    """
    path, shares = checked(np.atleast_2d(np.asarray(counts, dtype=float)), weights)
    if len(path) == 0:
        raise Refusal("not_applicable", "a sequential test needs at least one look")
    if np.any(np.diff(path, axis=0) < 0):
        raise Refusal("not_applicable", "cumulative counts cannot fall from one look to the next")
    log_factors = _log_bayes_factor(path, shares, _dirichlet(prior, weights, shares))
    p_values = np.exp(-np.maximum.accumulate(np.maximum(log_factors, 0.0)))
    return SequentialSRM(tuple(log_factors.tolist()), tuple(p_values.tolist()), float(p_values[-1]))


def checked(observed: ArrayLike, weights: ArrayLike) -> tuple[Floats, Floats]:
    """Counts, shape (..., arms), and shares of the arms with a positive weight."""
    counts, shares = np.asarray(observed, dtype=float), np.asarray(weights, dtype=float)
    if shares.ndim != 1 or counts.shape[-1:] != shares.shape:
        raise Refusal("not_applicable", f"{counts.shape} counts against {shares.shape} weights")
    if not (np.isfinite(counts).all() and np.isfinite(shares).all()):
        raise Refusal("not_finite", "counts and weights must be finite")
    if np.any(counts < 0) or np.any(shares < 0):
        raise Refusal("not_applicable", "counts and weights cannot be negative")
    if np.any(counts[..., shares == 0] > 0):
        raise Refusal("not_applicable", "units were observed in an arm of zero weight")
    open_arms = shares > 0
    if open_arms.sum() < 2:
        raise Refusal("not_applicable", "a split needs two arms of positive weight")
    return counts[..., open_arms], shares[open_arms] / shares.sum()


def pearson(counts: Floats, expected: Floats, df: int) -> SRM:
    """Chi-square test of counts against expected ones."""
    statistic = float(np.sum((counts - expected) ** 2 / expected))
    return SRM(statistic, df, float(special.chdtrc(df, statistic)) if df else 1.0)


def _dirichlet(prior: Sequence[float] | None, weights: ArrayLike, shares: Floats) -> Floats:
    if prior is None:
        return np.asarray(10_000.0 * shares)
    parameters, promised = np.asarray(prior, dtype=float), np.asarray(weights, dtype=float)
    if parameters.shape != promised.shape or not np.all(parameters[promised > 0] > 0):
        raise Refusal("not_applicable", "the prior needs one positive parameter per arm")
    return np.asarray(parameters[promised > 0])


def _log_bayes_factor(path: Floats, shares: Floats, prior: Floats) -> Floats:
    units = path.sum(axis=1)
    promised = np.sum(path * np.log(shares), axis=1)
    mixture = np.sum(special.gammaln(prior + path) - special.gammaln(prior), axis=1)
    normaliser = special.gammaln(prior.sum()) - special.gammaln(prior.sum() + units)
    return np.asarray(normaliser + mixture - promised)
