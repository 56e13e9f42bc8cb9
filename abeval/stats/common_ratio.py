"""The ratio of treatment to control that fits all segments best, and how far they are from it.

`heterogeneity.lifts` tests by it whether segments share one lift.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import optimize

from abeval.stats.arrays import Floats
from abeval.stats.records import Estimate, Refusal


class Arms(NamedTuple):
    """Values and variances of both variants in each segment, shape (segments,) each."""

    control: Floats
    treatment: Floats
    control_variance: Floats
    treatment_variance: Floats

    def q(self, ratio: float) -> float:
        """How far the segments are from one ratio of treatment to control."""
        distance = self.treatment - ratio * self.control
        variance = self.treatment_variance + ratio**2 * self.control_variance
        return float(np.sum(distance**2 / variance))


def arms_of(control: Sequence[Estimate], treatment: Sequence[Estimate]) -> Arms:
    """The segments, refused where no ratio can be fitted to them."""
    if len(control) != len(treatment) or len(control) < 2:
        raise Refusal("too_few_units", "heterogeneity needs two segments or more")
    arms = Arms(
        *(np.array([one.value for one in variant]) for variant in (control, treatment)),
        *(np.array([one.variance for one in variant]) for variant in (control, treatment)),
    )
    if not np.isfinite(np.concatenate(arms)).all():
        raise Refusal("not_finite", "values and variances must be finite")
    if np.any(arms.treatment_variance <= 0):
        raise Refusal("zero_variance", "a segment's value needs a positive variance")
    return arms


def common_ratio(arms: Arms) -> float:
    """The ratio that fits the segments best."""
    positive = (arms.control > 0) & (arms.treatment > 0)
    if not positive.any():
        raise Refusal("not_applicable", "no segment has a positive value in both variants")
    # Q falls towards the ratio of each segment, so its minimum lies among them.
    ratios = arms.treatment[positive] / arms.control[positive]
    low, high = float(ratios.min()), float(ratios.max())
    return _lowest(arms.q, low, high) if high > low else low


def _lowest(of: Callable[[float], float], low: float, high: float) -> float:
    """Where a function is lowest: the best of a grid, refined between its neighbours."""
    grid = np.linspace(low, high, 65)
    best = int(np.argmin([of(float(one)) for one in grid]))
    ends = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, 64)])
    fine = optimize.minimize_scalar(
        of, bounds=ends, method="bounded", options={"xatol": 1e-9 * (ends[1] - ends[0])}
    )
    return float(fine.x)
