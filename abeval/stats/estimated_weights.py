"""Tests of several estimates whose weights are estimated too.

`heterogeneity.py` judges Q by it: with hundreds of units in each cell it is chi-square, but with
many small cells their variances, which are the weights, are too uncertain for that.
"""

import numpy as np
from scipy import special

from abeval.stats.records import Estimate, Floats


def welch_tail(q: float, df: int, leverages: Floats, dfs: Floats) -> float:
    """P-value of a weighted sum of squares whose weights are one over estimated variances.

    Args:
        q: Σ weight × residual², shape ().
        df: Residuals less fitted parameters, of which there is one.
        leverages: How much each residual moves its own fit, in [0, 1], shape (residuals,).
        dfs: Degrees of freedom of each variance; infinite where it is known.

    Returns:
        Upper tail of F at q over its mean; of chi-square where all variances are known.

    Source:
        Welch (1951); Johansen (1980) for any linear fit; Kulinskaya, Dollinger, Knight and Gao
        (2004) for differences of two variants with Satterthwaite's degrees of freedom.

    Example:
        >>> even, known = np.full(40, 1 / 40), np.full(40, np.inf)
        >>> [round(welch_tail(54.6, 39, even, dfs), 3) for dfs in (known, np.full(40, 58.0))]
        [0.05, 0.073]
    """
    noise = float(np.sum((1 - leverages) ** 2 / dfs))
    if noise == 0:
        return float(special.chdtrc(df, q))
    n = df + 1
    mean = df * (1 + 2 * (n - 2) * noise / (n**2 - 1))
    return float(special.fdtrc(df, (n**2 - 1) / (3 * noise), q / mean))


def pooled(control: Estimate, treatment: Estimate) -> tuple[Estimate, Estimate]:
    """Two estimates with the variances of values that spread alike in both variants.

    Where values are skewed and units uneven, a variant's own variance follows its own value, and
    the difference over its error is too often large. A permutation of the units has this variance.

    Args:
        control: Control's value.
        treatment: The treatment's.

    Returns:
        Both, with variances that sum to that of the difference under pooling. The treatment's
        still grows with the square of its values, so that a lift divides it out.

    Example:
        >>> large, small = Estimate(5.0, 0.01, 900, 899.0), Estimate(5.0, 0.09, 100, 99.0)
        >>> [round(one.variance, 4) for one in pooled(large, small)]
        [0.0901, 0.0099]
    """
    c, t = control.units, treatment.units
    share = (1 / c + 1 / t) / (c + t - 2)
    return (
        control._replace(variance=control.variance * c * (c - 1) * share),
        treatment._replace(variance=treatment.variance * t * (t - 1) * share),
    )
