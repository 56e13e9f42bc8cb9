"""What is known of units from before, by variant: exact sums of the covariates of a table of units.

`per_unit.py` takes them with the sums of the metrics; `inference/trust/before.py` compares the
variants with them.
"""

from collections.abc import Sequence

from abeval.aggregates.metric_queries import MetricQueries
from abeval.aggregates.moment_rows import BALANCE
from abeval.aggregates.terms import SliceTerms, Terms
from abeval.metrics.definition import Metric


def balance_slices(queries: MetricQueries, covariates: Sequence[Metric]) -> list[SliceTerms]:
    """A slice of `source_unit` of each covariate, over all analysed units."""
    return [
        SliceTerms(metric, BALANCE, "''", Terms(queries.covariate(metric), "1"))
        for metric in covariates
    ]
