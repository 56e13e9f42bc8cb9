"""What an A/A replay splits, so that it tests a metric as its rows are tested.

`aa.py` asks it for each metric: values less what their past explains, as CUPED takes it out; how
skewed they are, which chooses the test; and why the test of the rows is none that can be replayed.
"""

import numpy as np

from abeval.aggregates.aggregates import BucketSums
from abeval.inference.special_tests import FEW, FEW_UNEVEN, UNEVEN
from abeval.stats.split_moments import Skewed

_ROUNDING = 1e-11


def without_past(sums: BucketSums) -> BucketSums:
    """Units less what their own past explains, with one slope over all (Deng et al. 2013).

    Of a ratio, the numerator carries it all, which is the same to first order. Where no unit has a
    past, nothing changes.

    Example:
        >>> y, before = np.array([1.0, 2.0, 3.0, 5.0]), np.array([[1.0, 2.0, 3.0, 4.0]]).T
        >>> past = np.hstack([before, np.ones((4, 1)), np.zeros((4, 1))])
        >>> after = without_past(BucketSums.of_units(y, np.ones(4), past)).sums[:, 0]
        >>> float(after.mean()), round(float(after.var()), 4)
        (2.75, 0.075)
    """
    if sums.before is None or sums.before[:, 2].all():
        return sums
    y, x = sums.sums[:, 0], sums.sums[:, 1]
    past = sums.before - sums.before.mean(axis=0)
    past = past[:, past.any(axis=0)]
    if not past.size:
        return sums
    slopes = np.linalg.lstsq(past, y - y.sum() / x.sum() * x, rcond=None)[0]
    return BucketSums.of_units(y - past @ slopes, x)


def skewness_of_units(sums: BucketSums) -> float:
    """Skewness of single units' values, linearised for a ratio; 0 if they do not vary."""
    y, x = sums.sums[:, 0], sums.sums[:, 1]
    d = y - y.sum() / x.sum() * x
    d = d - d.mean()
    spread = float((d * d).mean())
    return float((d**3).mean()) / spread**1.5 if spread > 0 else 0.0


def skewness_of(compared: Skewed) -> float:
    """The same from the units of two variants.

    Example:
        >>> from abeval.stats import skewed
        >>> from abeval.stats.moments import Moments
        >>> arm = Moments.with_third([0.0, 0.0, 0.0, 4.0])
        >>> round(skewness_of(skewed.means(arm, arm)), 4)
        1.1547
    """
    arms = [(arm, s.share) for s in compared.strata for arm in (s.control, s.treatment)]
    square = sum(arm.square for arm, _ in arms) / compared.units
    cube = sum(arm.cube for arm, _ in arms) / compared.units
    return cube / square**1.5 if square > 0 else 0.0


def left_in_difference(skewness: float, units: float, share: float) -> float:
    """Skewness of the difference of two variants, one of them with this share of the units.

    Example:
        >>> left_in_difference(10.0, 10_000, 0.5), round(left_in_difference(10.0, 10_000, 0.1), 3)
        (0.0, 0.267)
    """
    smaller, larger = 1 / (units * share), 1 / (units * (1 - share))
    return float(skewness * (smaller**2 - larger**2) / (smaller + larger) ** 1.5)


def few_expected(sums: BucketSums, share: float) -> bool:
    """Whether values of 0 and 1 are so few in the smaller variant that an exact test judges them.

    Args:
        sums: Pooled sums of a metric, in its own unit.
        share: Of units that go to treatment.

    Example:
        >>> nine = np.arange(1000) < 9.0
        >>> few_expected(BucketSums.of_units(nine.astype(float), np.ones(1000)), 0.5)
        True
    """
    y, x, yy, _, xx = sums.sums.sum(axis=0).tolist()
    n = float(sums.units.sum())
    # Values in steps of a resolution are rounded when they are scaled.
    shares, means = np.isclose([y, y], [yy, round(y)], rtol=_ROUNDING, atol=0), (x, xx)
    if not shares.all() or not np.allclose(means, n, rtol=_ROUNDING, atol=0):
        return False
    smaller = min(share, 1 - share)
    limit = FEW_UNEVEN if 1 - smaller > UNEVEN * smaller else FEW
    return bool(smaller * min(y, n - y) < limit)
