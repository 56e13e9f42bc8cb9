"""Moments over units with third ones, from exact sums of arrays of whole numbers.

`time/skew.py` asks for those of days and of the period, `time/time_sums.py` for those before it.
"""

from collections.abc import Mapping
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.metric_queries import MetricQueries
from abeval.aggregates.source_values import SourceValues
from abeval.aggregates.sums import exact_sums
from abeval.errors import ExperimentError
from abeval.logs.unit_arrays import Units, Whole
from abeval.metrics.definition import Metric, scales
from abeval.stats.moments import Moments


def moments_by(
    metric: Metric, values: tuple[Whole, Whole], group: NDArray[np.integer]
) -> dict[int, Moments]:
    """Moments of (y, x), with third ones, over the units of each group.

    Args:
        metric: What y and x are of.
        values: Numerator and denominator of each unit.
        group: The number of its group.

    Raises:
        ExperimentError: Values are too large.
    """
    order = np.argsort(group, kind="stable")
    numbers, starts, units = np.unique(group[order], return_index=True, return_counts=True)
    varies = (0,) if metric.per is None else (0, 1)
    products = [p for n in (1, 2, 3) for p in combinations_with_replacement(varies, n)]
    sums = exact_sums([values[place][order] for place in varies], products, starts)
    if sums is None:
        raise ExperimentError(
            f"metric {metric.name!r}: its sums cannot be computed: they are too large",
            "divide the value, or set a coarser resolution",
        )
    sums[()] = units.tolist()

    def total(place: int, *factors: int) -> int:
        return sums[tuple(sorted(factor for factor in factors if factor in varies))][place]

    return {
        number: Moments.from_sums(
            total(place),
            [total(place, 0), total(place, 1)],
            [[total(place, a, b) for b in (0, 1)] for a in (0, 1)],
            scales(metric),
            [total(place, *three) for three in combinations_with_replacement((0, 1), 3)],
        )
        for place, number in enumerate(numbers.tolist())
    }


def values_of(
    queries: MetricQueries, units: Units, metric: Metric, sums: Mapping[str, Whole]
) -> tuple[Whole, Whole]:
    """Numerator and denominator of each unit; 1 is the denominator of a metric per unit."""
    values = SourceValues(queries.experiment, queries.shape, units, sums, {})
    y, x = (np.broadcast_to(one, len(units.hash)) for one in values.pair(metric, sums))
    return y, x
