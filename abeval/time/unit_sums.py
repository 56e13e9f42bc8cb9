"""Exact sums and moments over units, of arrays of whole numbers.

`time/skew.py` and `time/time_sums.py` ask for moments, `time/cut.py` for the rows that the
scorecard reads.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.kernels.exact import Product, exact_sums
from abeval.aggregates.metric_queries import MetricQueries
from abeval.aggregates.source_values import SourceValues
from abeval.errors import ExperimentError
from abeval.logs.unit_arrays import Units, Whole
from abeval.metrics.definition import Metric, scales
from abeval.stats.moments import Moments


class Group(NamedTuple):
    """Units that are summed together.

    Attributes:
        variant: Their variant.
        stretch: Number of the stretch in which they entered.
        units: Their places.
    """

    variant: str
    stretch: int
    units: NDArray[np.intp]


def groups_of(
    variant: NDArray[np.integer], stretch: NDArray[np.integer], names: Sequence[str]
) -> list[Group]:
    """The units of each variant and stretch, where there are some."""
    code = stretch.astype(np.int64) * len(names) + variant
    order = np.argsort(code, kind="stable")
    known, starts = np.unique(code[order], return_index=True)
    parts = np.split(order, starts[1:])
    return [
        Group(names[number % len(names)], number // len(names), units)
        for number, units in zip(known.tolist(), parts, strict=False)
    ]


def moments_of(metric: Metric, y: Whole, x: Whole) -> Moments:
    """Moments of (y, x) over units, with third ones.

    Raises:
        ExperimentError: Values are too large.
    """
    varies = (0,) if metric.per is None else (0, 1)
    columns = [y, x][: len(varies)]
    products = [p for n in (1, 2, 3) for p in combinations_with_replacement(varies, n)]
    sums = _exact(metric, columns, products)

    def total(*places: int) -> int:
        kept = tuple(place for place in places if place in varies)
        return sums[kept] if kept else len(y)

    return Moments.from_sums(
        len(y),
        [total(0), total(1)],
        [[total(0, 0), total(0, 1)], [total(0, 1), total(1, 1)]],
        scales(metric),
        [total(*triple) for triple in combinations_with_replacement((0, 1), 3)],
    )


def values_of(
    queries: MetricQueries, units: Units, metric: Metric, sums: Mapping[str, Whole]
) -> tuple[Whole, Whole]:
    """Numerator and denominator of each unit; 1 is the denominator of a metric per unit."""
    values = SourceValues(queries.experiment, queries.shape, units, sums, {})
    y, x = (np.broadcast_to(one, len(units.hash)) for one in values.pair(metric, sums))
    return y, x


def _exact(
    metric: Metric, columns: Sequence[Whole], products: Iterable[Product]
) -> dict[Product, int]:
    sums = exact_sums(columns, products)
    if sums is None:
        raise ExperimentError(
            f"metric {metric.name!r}: its sums cannot be computed: they are too large",
            "divide the value, or set a coarser resolution",
        )
    return {product: of_all for product, (of_all,) in sums.items()}
