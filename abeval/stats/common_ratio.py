"""The ratio of treatment to control that fits all segments best, and how far they are from it.

`heterogeneity.lifts` tests by it whether segments share one lift.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from abeval.stats.distributions import brentq
from abeval.stats.effects import satterthwaite
from abeval.stats.heterogeneity import welch_tail
from abeval.stats.records import Estimate, Floats, Refusal


class Arms(NamedTuple):
    """Values, variances and their degrees of freedom of both variants, shape (segments,) each."""

    control: Floats
    treatment: Floats
    control_variance: Floats
    treatment_variance: Floats
    control_df: Floats
    treatment_df: Floats

    def q(self, ratio: float) -> float:
        """How far the segments are from one ratio of treatment to control."""
        distance = self.treatment - ratio * self.control
        return float(np.sum(distance**2 / self.variance(ratio)))

    def slope(self, ratio: float) -> float:
        """The derivative of `q` by the ratio."""
        apart = (self.treatment - ratio * self.control) / self.variance(ratio)
        terms = apart * (self.control + apart * ratio * self.control_variance)
        return -2 * float(np.sum(terms))

    def variance(self, ratio: float) -> Floats:
        """Variance of treatment − ratio × control in each segment."""
        return self.treatment_variance + ratio**2 * self.control_variance

    def p_value(self, ratio: float) -> float:
        """Of one ratio in all segments, at the ratio that fits them best."""
        variance = self.variance(ratio)
        parts = self.treatment_variance, ratio**2 * self.control_variance
        terms = zip(*parts, self.treatment_df, self.control_df, strict=True)
        dfs = np.array([satterthwaite((t, c), (t_df, c_df)) for t, c, t_df, c_df in terms])
        weight = self.control**2 / variance
        return welch_tail(self.q(ratio), len(dfs) - 1, weight / weight.sum(), dfs)


def arms_of(control: Sequence[Estimate], treatment: Sequence[Estimate]) -> Arms:
    """The segments, refused where no ratio can be fitted to them."""
    if len(control) != len(treatment) or len(control) < 2:
        raise Refusal("too_few_units", "heterogeneity needs two segments or more")
    arms = Arms(
        *(np.array([one.value for one in variant]) for variant in (control, treatment)),
        *(np.array([one.variance for one in variant]) for variant in (control, treatment)),
        *(np.array([one.df for one in variant]) for variant in (control, treatment)),
    )
    if not np.isfinite(np.concatenate(arms[:4])).all():
        raise Refusal("not_finite", "values and variances must be finite")
    if np.any(arms.control_variance + arms.treatment_variance <= 0):
        raise Refusal("zero_variance", "one of a segment's two values needs a positive variance")
    return arms


def common_ratio(arms: Arms) -> float:
    """The ratio that fits the segments best."""
    positive = (arms.control > 0) & (arms.treatment > 0)
    if not positive.any():
        raise Refusal("not_applicable", "no segment has a positive value in both variants")
    # Q falls towards the ratio of each segment, so its minimum lies among them.
    ratios = arms.treatment[positive] / arms.control[positive]
    low, high = float(ratios.min()), float(ratios.max())
    return _lowest(arms, low, high) if high > low else low


def _lowest(arms: Arms, low: float, high: float) -> float:
    """Where the segments are nearest: by the best of a grid, between its neighbours."""
    grid = np.linspace(low, high, 65)
    best = int(np.argmin([arms.q(float(one)) for one in grid]))
    ends = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, 64)])
    if arms.slope(ends[0]) >= 0 or arms.slope(ends[1]) <= 0:
        return float(grid[best])
    return brentq(arms.slope, *ends, xtol=1e-15 * (high - low))
