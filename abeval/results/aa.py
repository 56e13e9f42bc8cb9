"""A/A replays: how often each metric's test rejects when nothing differs.

`inference/aa.py` fills it, for `time/open.py` (`abeval aa`) and the trust check of an analysis;
`report/aa_part.py` draws it.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from scipy import special

from abeval.assignment import SUB_BUCKETS
from abeval.results.record import DrawnRecord, named
from abeval.results.trust import AAMetric

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class AAResult(DrawnRecord):
    """A/A replays of an experiment's metrics on its own logs.

    Attributes:
        alpha: Level of the tests.
        share: Share of units that a replay assigns to treatment: the smallest share among the
            variants compared with control.
        dealt: What is assigned at random: `sub_buckets` or `units`.
        units: Analysed units.
        metrics: One row per metric.
        histograms: Metric → number of p-values in each of `BINS` equal bins.
        refused: Metric → why it is not replayed.
        notes: How the tests that are replayed differ from those of the rows.
        seed: Of the re-splits.
    """

    alpha: float
    share: float
    dealt: str
    units: int
    metrics: tuple[AAMetric, ...]
    histograms: Mapping[str, tuple[int, ...]]
    refused: Mapping[str, str]
    notes: tuple[str, ...] = ()
    seed: int | None = None

    def __getitem__(self, metric: str) -> AAMetric:
        """The row of a metric."""
        return named(self.metrics, "metric", metric)

    def off(self) -> tuple[str, ...]:
        """Metrics whose rejection rate is more than three standard errors above alpha.

        Example:
            >>> row = AAMetric("ctr", 10_000, 0.0497, 0.0455, 0.0541, 0.61)
            >>> AAResult(0.05, 0.5, "sub_buckets", 10**6, (row,), {}, {}).off()
            ()
        """
        return tuple(name for name, errors in self.errors().items() if errors > 3)

    def errors(self) -> dict[str, float]:
        """Metric → distance of its rejection rate from alpha, in standard errors of a valid test.

        Two errors add up: the Monte Carlo error, and that of assigning a finite number B of
        sub-buckets, whose standard deviation differs from that of the units by 1 / sqrt(2 B).
        """
        z = -float(special.ndtri(self.alpha / 2))
        # Error of the rate when the standard error is off by a fraction: 2 z phi(z) of it.
        assigning = 0.0 if self.dealt == "units" else 2 * z * _density(z) / (2 * SUB_BUCKETS) ** 0.5
        return {
            row.metric: (row.rejection_rate - self.alpha)
            / (self.alpha * (1 - self.alpha) / row.runs + assigning**2) ** 0.5
            for row in self.metrics
        }

    def doubts(self) -> dict[str, float]:
        """Metric → p-value of a rate of alpha or less, Bonferroni over the metrics.

        A test that rejects too rarely is no reason to doubt what it does reject.

        Example:
            >>> rows = [AAMetric(name, 2_000, rate, 0.0, 1.0, 0.5) for name, rate in
            ...         (("ctr", 0.05), ("dwell", 0.09))]
            >>> doubts = AAResult(0.05, 0.5, "units", 9_000, tuple(rows), {}, {}).doubts()
            >>> doubts["ctr"], doubts["dwell"] < 1e-12
            (1.0, True)
        """
        tests = len(self.metrics)
        return {
            name: min(1.0, tests * float(special.ndtr(-errors)))
            for name, errors in self.errors().items()
        }

    def to_frame(self) -> "pd.DataFrame":
        """One row per metric."""
        import pandas as pd

        return pd.DataFrame([asdict(row) for row in self.metrics])


def _density(z: float) -> float:
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
