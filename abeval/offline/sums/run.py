"""Sums every metric of every model per unit, over the requests that every model scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from abeval.engines.protocol import Engine, whole_number
from abeval.engines.queries import query
from abeval.errors import LogError
from abeval.offline.candidates.rows import Rows
from abeval.offline.candidates.traffic import Units
from abeval.offline.kernels import choice as kernels
from abeval.offline.metrics.definitions import OfflineMetric
from abeval.offline.metrics.presets import Policy
from abeval.offline.metrics.units import UnitValues
from abeval.offline.sums import beyond, scores
from abeval.offline.sums.coverage import Overview, overview_by_queries, overview_of_rows
from abeval.offline.sums.ranking import add_ranking
from abeval.offline.sums.sums import ModelSums, Replayed, Sums
from abeval.steps import Step

if TYPE_CHECKING:
    import pandas as pd

_LARGEST_GRADE = 1e4
"""Larger relevance would not fit the sums, which are of whole multiples of 1e-12."""

_LARGEST_SCORE = 1e6
"""Larger scores are no predictions of anything; their errors would not fit the sums."""


def run_models(
    engine: Engine,
    replayed: Replayed,
    units: Units,
    metrics: Sequence[OfflineMetric],
    policy: Policy,
    options: scores.ScoreOptions,
    step: Step,
) -> Sums:
    """Sum every metric of every model per unit.

    Args:
        engine: Holds the relations that the candidates read, and `traffic` (unit_id, traffic).
        replayed: The models.
        units: Those of `traffic`.
        metrics: What to sum.
        policy: What is left out.
        options: Of the metrics of scores.
        step: Told the name of each step as it begins.

    Raises:
        LogError: Relevance is too large to be summed.
    """
    step("requests")
    overview = _overview(engine, replayed, policy)
    _check_grade(overview.largest_grade)
    run = _Run.of(engine, replayed, overview, metrics, options)
    if run.rows is not None and run.queried and overview.uncompared:
        # Kernels know which requests are compared; the queries read it from a table.
        overview_by_queries(engine, replayed, policy)
    catalogue = _write_catalogue(engine, replayed, metrics, overview.scored)
    models = {}
    for model in overview.scored:
        step(f"metrics of {model}")
        models[model] = run.sums(model, UnitValues(units.ids))
    return Sums(
        traffic=units.traffic,
        group=units.group,
        models=models,
        coverage=overview.coverage,
        uncompared=overview.uncompared,
        longest=max((sums.longest for sums in models.values()), default=0),
        catalogue=catalogue,
        has_history=replayed.history is not None,
        largest_grade=overview.largest_grade,
    )


def _overview(engine: Engine, replayed: Replayed, policy: Policy) -> Overview:
    if replayed.rows is None:
        return overview_by_queries(engine, replayed, policy)
    return overview_of_rows(replayed.rows, policy)


def _check_grade(largest: float) -> None:
    if largest > _LARGEST_GRADE:
        raise LogError(
            f"the largest relevance is {largest:g}, above {_LARGEST_GRADE:g}",
            "divide it, for example dwell in seconds rather than milliseconds",
        )


def _write_catalogue(
    engine: Engine, replayed: Replayed, metrics: Sequence[OfflineMetric], models: Sequence[str]
) -> int:
    """Make what metrics of lists read; items of the catalogue, 0 where none of those is asked."""
    if all(m.definition.family not in ("beyond", "catalogue") for m in metrics):
        return 0
    sources = [replayed.candidates[model] for model in models]
    sources += [sql for sql in (replayed.history, replayed.catalogue) if sql is not None]
    items = _items(engine, sources)
    beyond.write_history(engine, replayed.history, items)
    return items


def _items(engine: Engine, sources: Sequence[str]) -> int:
    """Different items of some relations."""
    if not sources:
        return 0
    every = " union ".join(f"select item_id from ({sql}) as s" for sql in sources)
    return whole_number(engine, f"select count(*) from ({every}) as c where item_id is not null")


@dataclass(frozen=True)
class _Run:
    """Sums the metrics of one model after another.

    Attributes:
        engine: Where the queries run.
        replayed: The models.
        rows: The requests that are compared, as arrays, where kernels may have them.
        metrics: What to sum.
        queried: Those of them that queries sum.
        options: Of the metrics of scores.
        filtered: Whether requests are left out, those of `uncompared_requests`.
    """

    engine: Engine
    replayed: Replayed
    rows: Rows | None
    metrics: Sequence[OfflineMetric]
    queried: Sequence[OfflineMetric]
    options: scores.ScoreOptions
    filtered: bool

    @classmethod
    def of(
        cls,
        engine: Engine,
        replayed: Replayed,
        overview: Overview,
        metrics: Sequence[OfflineMetric],
        options: scores.ScoreOptions,
    ) -> _Run:
        """Kernels for what they cover, queries for the rest."""
        rows, filtered = replayed.rows, bool(overview.uncompared)
        if rows is not None and filtered:
            rows = rows.only(~rows.uncompared())
        queried = [m for m in metrics if rows is None or not kernels.covers(m, rows)]
        return cls(engine, replayed, rows, metrics, queried, options, filtered)

    def sums(self, model: str, values: UnitValues) -> ModelSums:
        """What a model adds up to; `values` has its units, and is filled."""
        if self.rows is None:
            self._open(model)
            low, high = _add_counts(self.engine, values)
            longest = _longest(self.engine)
        else:
            low, high = kernels.add(self.rows, model, self.metrics, values)
            longest = self.rows.longest
            if self.queried:
                self._open(model)
        curve, listed = self._add(values, low, high)
        return ModelSums(values, curve, listed, low, high, longest)

    def _open(self, model: str) -> None:
        """Make `model_items`, `requests`, `scored_rows` and `traffic_rows` those of a model."""
        engine, candidates = self.engine, self.replayed.candidates
        engine.view("model_items", self._compared(candidates[model]))
        if self.replayed.rows is None:
            number = list(candidates).index(model)
            engine.view("requests", self._compared(f"select * from requests_{number}"))
        else:
            engine.view("requests", query("offline/requests"))
        engine.view(
            "scored_rows",
            "select unit_id, request_id, item_id, score, grade, "
            "case when grade > 0 then 1 else 0 end as click from model_items "
            "where score is not null",
        )
        engine.view(
            "traffic_rows",
            "select t.traffic, t.unit_group, s.* from scored_rows s "
            "join traffic t on s.unit_id = t.unit_id",
        )

    def _compared(self, rows: str) -> str:
        """SQL of those rows whose request is compared."""
        if not self.filtered:
            return rows
        uncompared = "anti join uncompared_requests u on c.request_id = u.request_id"
        return f"select c.* from ({rows}) c {uncompared}"

    def _add(
        self, values: UnitValues, low: float, high: float
    ) -> tuple[pd.DataFrame | None, pd.DataFrame | None]:
        """Add the sums of metrics by queries; the calibration curve and the listed items."""
        engine, metrics = self.engine, self.queried
        add_ranking(engine, metrics, values)
        scores.add_pairs(engine, metrics, values)
        for by in ("traffic", "pooled"):
            scores.add_auc(engine, metrics, values, by)
        if max(abs(low), abs(high)) <= _LARGEST_SCORE:
            scores.add_points(engine, metrics, values, self.options.threshold)
        binned = any(m.definition.family == "bins" for m in metrics)
        fit = binned and low >= 0 and high <= 1
        curve = scores.calibration(engine, self.options.bins) if fit else None
        return curve, beyond.add_lists(engine, metrics, values)


def _longest(engine: Engine) -> int:
    return whole_number(engine, "select max(items) from requests where relevant > 0")


def _add_counts(engine: Engine, values: UnitValues) -> tuple[float, float]:
    """Add the counts of requests; the smallest and the largest score."""
    counts = ("requests", "relevant", "listed", "listed_relevant")
    values.add(engine.frame(query("offline/unit_requests")), {name: name for name in counts})
    ((low, high),) = engine.rows("select min(score), max(score) from scored_rows")
    return float(low or 0), float(high or 0)
