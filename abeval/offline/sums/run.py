"""Sums of every metric of every model per unit, over the requests that every model scores.

`offline/replay_run.py`, `evaluate.py` and `evaluate_log.py` hand it the `Candidates`;
`offline/estimates/judge.py` makes a result of the `Sums`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from abeval.aggregates.row_pass import add_ranking
from abeval.agreement.causes import facts
from abeval.engines.protocol import Engine, whole_number
from abeval.engines.sql import query
from abeval.errors import LogError
from abeval.history import entries as kernels
from abeval.offline import groups, queried
from abeval.offline import kernels as kernels
from abeval.offline.candidates import Candidates, Units
from abeval.offline.kernels import UnitValues
from abeval.offline.metrics import OfflineMetric, Scoring
from abeval.offline.queried import ModelSums
from abeval.offline.rows import Rows
from abeval.offline.sums import Sums, open_model, overview_by_queries, overview_of_rows
from abeval.progress import Step

if TYPE_CHECKING:
    import pandas as pd

_LARGEST_GRADE = 1e4
"""Larger relevance would overflow the sums of whole multiples of 1e-12."""

_LARGEST_SCORE = 1e6
"""Larger scores are no predictions, and their errors would overflow the sums."""


def run_models(
    engine: Engine, candidates: Candidates, units: Units, scoring: Scoring, step: Step
) -> Sums:
    """Sum every metric of every model per unit.

    Args:
        engine: Has `traffic`, and the relations that the candidates read.
        candidates: The models.
        units: The units of `traffic`.
        scoring: The metrics and their options.
        step: Told the name of each step as it begins.

    Raises:
        LogError: Relevance is too large to be summed.
    """
    step("requests")
    rows, policy = candidates.rows, scoring.policy
    if rows is None:
        overview = overview_by_queries(engine, candidates, policy)
    else:
        overview = overview_of_rows(rows, policy)
    _check_grade(overview.largest_grade)
    filtered = overview.uncompared > 0
    if rows is not None and filtered:
        rows = rows.only(~rows.uncompared())
    queried = kernels.without_kernel(scoring.metrics, rows)
    if rows is not None and queried and filtered:
        # Kernels know which requests are compared; the queries read it from a table.
        overview_by_queries(engine, candidates, policy)
    summation = _Summation(engine, candidates, rows, queried, scoring, filtered)
    catalogue = _write_catalogue(engine, candidates, scoring.metrics, overview.scored)
    models = {}
    for model in overview.scored:
        step(f"metrics of {model}")
        models[model] = summation.sums(model, UnitValues(units.ids))
    return Sums(
        units=units,
        models=models,
        coverage=overview.coverage,
        uncompared=overview.uncompared,
        longest=max((sums.longest for sums in models.values()), default=0),
        catalogue=catalogue,
        has_history=candidates.history is not None,
        largest_grade=overview.largest_grade,
        same_lists=candidates.same_lists,
    )


def _check_grade(largest: float) -> None:
    if largest > _LARGEST_GRADE:
        raise LogError(
            f"the largest relevance is {largest:g}, above {_LARGEST_GRADE:g}",
            "divide it, for example dwell in seconds rather than milliseconds",
        )


def _write_catalogue(
    engine: Engine, candidates: Candidates, metrics: Sequence[OfflineMetric], models: Sequence[str]
) -> int:
    """Make what metrics of lists read; the items of the catalogue, 0 without such metrics."""
    if all(m.definition.family not in ("beyond", "catalogue") for m in metrics):
        return 0
    sources = [candidates.sql[model] for model in models]
    sources += [sql for sql in (candidates.history, candidates.catalogue) if sql is not None]
    items = 0
    if sources:
        every = " union ".join(f"select item_id from ({sql}) as s" for sql in sources)
        distinct = f"select count(*) from ({every}) as c where item_id is not null"
        items = whole_number(engine, distinct)
    queried.write_history(engine, candidates.history, items)
    return items


@dataclass(frozen=True)
class _Summation:
    """Sums the metrics of one model after another.

    Attributes:
        engine: Where the queries run.
        candidates: The models.
        rows: The requests that are compared, as arrays; None where only queries will do.
        queried: The metrics that queries sum.
        scoring: All metrics, and their options.
        filtered: Whether requests are left out, those of `uncompared_requests`.
    """

    engine: Engine
    candidates: Candidates
    rows: Rows | None
    queried: Sequence[OfflineMetric]
    scoring: Scoring
    filtered: bool

    def sums(self, model: str, values: UnitValues) -> ModelSums:
        """The sums of a model; `values` has its units, and gets the columns."""
        if self.rows is None:
            self._open(model)
            low, high = _add_counts(self.engine, values)
            longest = whole_number(
                self.engine, "select max(items) from requests where relevant > 0"
            )
        else:
            low, high = kernels.add(self.rows, model, self.scoring.metrics, values)
            longest = self.rows.longest
            if self.queried:
                self._open(model)
        curve, listed = self._add_queried(values, low, high)
        return ModelSums(values, curve, listed, low, high, longest)

    def _open(self, model: str) -> None:
        """Make `model_items`, `requests`, `scored_rows` and `traffic_rows` of a model."""
        engine, sql = self.engine, self.candidates.sql
        open_model(engine, self._compared(sql[model]))
        number = list(sql).index(model)
        known = self._compared(f"select * from requests_{number}")
        engine.view("requests", known if self.rows is None else query("offline/requests"))
        points = self.candidates.points.get(model)
        source = "model_items" if points is None else f"({self._compared(points)}) as p"
        engine.view(
            "scored_rows",
            "select unit_id, request_id, item_id, score, grade, "
            f"case when grade > 0 then 1 else 0 end as click from {source} "
            "where score is not null",
        )
        engine.view(
            "traffic_rows",
            "select t.traffic, t.unit_group, s.* from scored_rows s "
            "join traffic t on s.unit_id = t.unit_id",
        )

    def _compared(self, rows: str) -> str:
        """SQL of the rows whose request is compared."""
        if not self.filtered:
            return rows
        uncompared = "anti join uncompared_requests u on c.request_id = u.request_id"
        return f"select c.* from ({rows}) c {uncompared}"

    def _add_queried(
        self, values: UnitValues, low: float, high: float
    ) -> tuple[pd.DataFrame | None, pd.DataFrame | None]:
        """Add the sums of queried metrics; return the calibration curve and the listed items."""
        engine, metrics = self.engine, self.queried
        add_ranking(engine, metrics, values)
        groups.add_pairs(engine, metrics, values)
        for by in ("traffic", "pooled"):
            groups.add_auc(engine, metrics, values, by)
        if max(abs(low), abs(high)) <= _LARGEST_SCORE:
            groups.add_points(engine, metrics, values, self.scoring.threshold)
        binned = any(m.definition.family == "bins" for m in metrics)
        fit = binned and low >= 0 and high <= 1
        curve = facts.calibration(engine, self.scoring.bins) if fit else None
        return curve, groups.add_lists(engine, metrics, values)


def _add_counts(engine: Engine, values: UnitValues) -> tuple[float, float]:
    """Add the counts of requests; return the smallest and the largest score."""
    counts = ("requests", "relevant", "listed", "listed_relevant")
    values.add(engine.frame(query("offline/unit_requests")), {name: name for name in counts})
    ((low, high),) = engine.rows("select min(score), max(score) from scored_rows")
    return float(low or 0), float(high or 0)
