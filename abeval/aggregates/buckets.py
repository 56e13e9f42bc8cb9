"""Sums of sub-buckets, or of units, over all variants: what an A/A replay splits at random.

`metric_queries.py` makes them from `source_unit`; `inference/aa.py` splits them, for the trust
check of an analysis and for `time/aa.py`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abeval.assignment import SUB_BUCKETS

Floats = NDArray[np.float64]

UNITS_PER_BUCKET = 10
"""With fewer units per sub-bucket than this, single units are split instead."""


def deals_units(units: int) -> bool:
    """Whether single units are split, because sub-buckets would hold too few."""
    return units < UNITS_PER_BUCKET * SUB_BUCKETS


@dataclass(frozen=True, eq=False)
class BucketSums:
    """Sums of one metric in each sub-bucket or unit, without regard to variants.

    Attributes:
        units: Per sub-bucket (or 1 per unit), shape (buckets,).
        sums: Σy, Σx, Σy², Σyx and Σx², shape (buckets, 5).
        before: Of single units, y and x before the period and whether the unit is new, shape
            (units, 3); None of sub-buckets.
    """

    units: Floats
    sums: Floats
    before: Floats | None = None

    @classmethod
    def of_units(cls, y: Floats, x: Floats, before: Floats | None = None) -> "BucketSums":
        """Every unit a bucket of its own.

        Example:
            >>> BucketSums.of_units(np.array([2.0]), np.array([3.0])).sums.tolist()
            [[2.0, 3.0, 4.0, 6.0, 9.0]]
        """
        return cls(np.ones(len(y)), np.stack([y, x, y * y, y * x, x * x], axis=1), before)

    def scaled(self, per_y: float, per_x: float) -> "BucketSums":
        """The same of values in the metric's own unit, where sums are multiples of a resolution.

        Example:
            >>> sums = BucketSums.of_units(np.array([2e6]), np.array([3.0]))
            >>> sums.scaled(1e-6, 1.0).sums.tolist()
            [[2.0, 3.0, 4.0, 6.0, 9.0]]
        """
        units = [per_y, per_x, per_y * per_y, per_y * per_x, per_x * per_x]
        before = None if self.before is None else self.before * np.array([per_y, per_x, 1.0])
        return BucketSums(self.units, self.sums * np.array(units), before)
