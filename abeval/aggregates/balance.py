"""What is known of units from before, by variant: exact sums of the covariates of a table of units.

`collect.py` keeps them with the sums of the metrics; `inference/trust/before.py` compares the
variants with them.
"""

from collections.abc import Sequence

from abeval.aggregates.metric_queries import MetricQueries
from abeval.aggregates.moment_rows import BALANCE
from abeval.aggregates.terms import Row, SliceTerms, Terms
from abeval.metrics.definition import Metric
from abeval.metrics.sources import UNIT_DAY


def balance_sums(queries: MetricQueries, covariates: Sequence[Metric]) -> list[Row]:
    """Rows of `moment_rows.MOMENT_COLUMNS` for each covariate, over all analysed units."""
    if not covariates:
        return []
    queries.load(UNIT_DAY)
    queries.total_units(UNIT_DAY)
    return queries.sums(
        [
            SliceTerms(metric, BALANCE, "''", Terms(queries.covariate(metric), "1"))
            for metric in covariates
        ]
    )
