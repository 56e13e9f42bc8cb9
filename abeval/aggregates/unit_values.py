"""The values of single units, without their ids, where units and their values are few.

`per_unit.py` asks for them while a source's values per unit are at hand; `Aggregates` hands them to
the tests with the moments, for values that are too skewed for sums alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from abeval.aggregates.metric_queries import MetricQueries
from abeval.aggregates.slice_sums import condition_of
from abeval.aggregates.terms import Row
from abeval.engines.protocol import whole
from abeval.engines.queries import query
from abeval.engines.sql import literal
from abeval.metrics.definition import Metric
from abeval.stats.moments import Moments, Units

LABELS = ("metric", "variant", "y", "x", "y0", "x0", "z")

COLUMNS = (*LABELS, "units")

FEW_UNITS = 20_000
"""With more units than this in all variants together, sums tell enough."""

FEW_VALUES = 1_000
"""Metrics whose units have more values than this are summed alone, as the query has it."""


def units_of(values: pd.DataFrame) -> dict[str, dict[str, Units]]:
    """Metric → variant → values of its units, in counted units, where they are few."""
    return {
        str(metric): {
            str(name): Units(own[[*LABELS[2:]]].to_numpy(float), own["units"].to_numpy(int))
            for name, own in rows.groupby("variant")
        }
        for metric, rows in (values.groupby("metric") if len(values) else ())
        if len(rows) <= FEW_VALUES
    }


def with_units(
    moments: Mapping[str, Moments], units: Mapping[str, Units], scales: tuple[float, float]
) -> dict[str, Moments]:
    """Moments of (y, x, …) by variant, with the values of the units if all are known."""
    worth = np.array([*scales, *scales, 1.0])
    known = {name: one for name, one in units.items() if name in moments}
    each = {
        name: Units((one.values * worth)[:, : moments[name].mean.size], one.counts)
        for name, one in known.items()
        if one.counts.sum() == moments[name].n
    }
    return {name: replace(one, each=each.get(name)) for name, one in moments.items()}
