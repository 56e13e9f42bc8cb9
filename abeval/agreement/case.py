"""What a cause is checked on, and what it says: the contract of the modules of `causes/`.

A cause is a `CauseCheck`: the queries of `queries/agreement/` that it reads, the columns that they
need, and a pure function from their rows to a `Finding`. `agreement/log.py` runs the queries,
`agreement/compare.py` makes a `Cause` of the finding.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import pandas as pd

from abeval.experiment.model import Experiment
from abeval.results.agreement import AgreementRow, Backtest, Evidence
from abeval.results.analysis import Result
from abeval.results.replay import PairRow, ReplayResult
from abeval.stats.distributions import quantile
from abeval.stats.records import Estimate

Frames = Mapping[str, pd.DataFrame]
"""Name of a query in `queries/agreement/` → its rows."""


@dataclass(frozen=True)
class Case:
    """One variant against control, with all that is known of both.

    Attributes:
        control: The name of control.
        variant: The variant compared with it.
        baseline: The model of control; empty where it names none.
        candidate: The model of the variant.
        alpha: Level of the intervals.
        result: The analysis.
        replay: Both models on the log; None without two models.
        backtests: Off-policy estimates of the variant and of control from each other's log.
        experiment: Its file, for causes that read its entries; None of two results alone.
        gap: The offline and the online result that are explained; None where there are none.
    """

    control: str
    variant: str
    baseline: str
    candidate: str
    alpha: float
    result: Result
    replay: ReplayResult | None
    backtests: tuple[Backtest, ...] = ()
    experiment: Experiment | None = None
    gap: AgreementRow | None = None

    @cached_property
    def _pairs(self) -> dict[tuple[str, str], PairRow]:
        rows = () if self.replay is None else self.replay.pairs
        own = (r for r in rows if (r.control, r.model) == (self.baseline, self.candidate))
        return {(row.metric, row.traffic): row for row in own}

    def pair(self, metric: str, traffic: str) -> PairRow | None:
        """Candidate minus baseline on one traffic; None if the replay does not have it."""
        return self._pairs.get((metric, traffic))

    def estimate(self, metric: str, model: str, traffic: str) -> Estimate | None:
        """A model's value on one traffic with its variance; None without an interval."""
        if self.replay is None:
            return None
        for row in self.replay.rows:
            if (row.metric, row.model, row.traffic) == (metric, model, traffic):
                return spread(row.value, row.low, row.high, row.units, self.replay.alpha)
        return None


def spread(
    value: float | None, low: float | None, high: float | None, units: int, alpha: float
) -> Estimate | None:
    """An estimate over units from its interval by t with `units - 1` degrees of freedom.

    Example:
        >>> round(spread(1.0, 0.0, 2.0, 1_000_000, 0.05).variance, 4)
        0.2603
    """
    if value is None or low is None or high is None or units < 2:
        return None
    half = (high - low) / 2 / quantile(1 - alpha / 2, units - 1.0)
    return Estimate(value, half * half, units, units - 1.0)


class Finding(NamedTuple):
    """What a cause's function says; `found` follows after Holm over all causes.

    Attributes:
        exceeds: Whether its deciding number passes the threshold.
        message: What was seen, in words, with the number.
        evidence: The numbers that it rests on.
        threshold: What the deciding number has to reach.
        threshold_reason: Why.
        p_value: That there is nothing of it; None where it is no test but a fact.
        accounts_for: Share of the gap that closes without it (`agreement/gap.py`).
        remedy: What to do if it is found.
    """

    exceeds: bool
    message: str
    evidence: tuple[Evidence, ...]
    threshold: float | None
    threshold_reason: str
    p_value: float | None
    accounts_for: float | None
    remedy: str


class Unchecked(NamedTuple):
    """Why a cause cannot be checked on this case, and what would make it checkable."""

    message: str
    needs: tuple[str, ...]


@dataclass(frozen=True)
class CauseCheck:
    """How one cause is checked.

    Attributes:
        name: Its id.
        judge: From the case and the rows of its queries to what it says; a pure function.
        queries: Names in `queries/agreement/`; empty where the results are enough.
        columns: Columns of `agreement_rows` without which it cannot be checked.
        shows: What they would show, in words that follow "would show".
    """

    name: str
    judge: Callable[[Case, Frames], Finding | Unchecked]
    queries: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    shows: str = ""
