"""Runs the queries of an experiment in order, and brings back its aggregates."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from abeval.aggregates import DAY, LEFT_OUT, MOMENT_COLUMNS, SEGMENT, WHOLE, Aggregates
from abeval.engines.protocol import Cell, Engine
from abeval.experiment.model import Experiment
from abeval.logs.prepare import prepare
from abeval.logs.accounting import accounts, facts
from abeval.logs.shape import LogShape
from abeval.metrics import Metric, Need, Source, Term
from abeval.queries import query
from abeval.sql import literal, quoted

Step = Callable[[str], None]

_DAILY: tuple[Source, ...] = (
    "unit_day",
    "page_views",
    "served_ranking",
    "category_diversity",
    "sessions",
)
_TITLES: Mapping[Source, str] = {
    "unit_day": "sums per unit",
    "page_views": "page views",
    "served_ranking": "served lists",
    "category_diversity": "category diversity",
    "sessions": "sessions",
    "gauc": "GAUC",
    "auc": "AUC",
    "catalogue": "catalogue",
}


def collect(
    experiment: Experiment,
    metrics: Sequence[Metric],
    engine: Engine,
    frames: Mapping[str, object],
    step: Step,
) -> Aggregates:
    """Aggregate the logs of an experiment.

    Args:
        experiment: What to analyse.
        metrics: The metrics of the scorecard.
        engine: Where the queries run.
        frames: Logs given from Python, by name; the others are read from where the file says.
        step: Told the name of each step as it begins.

    Raises:
        LogError: A log is missing, unreadable, or not what the file says.
        QueryError: The engine could not run a query.
    """
    prepared = prepare(experiment, metrics, engine, frames, step)
    shape = prepared.shape
    refused = refusals(metrics, shape.needs_met(experiment.unit))
    wanted = [metric for metric in metrics if metric.name not in refused]
    sources = list(dict.fromkeys(metric.source for metric in wanted))
    if any(source in ("gauc", "auc") for source in sources):
        engine.view("scored", scored_view(shape))
    run = _Run(experiment, shape, engine)
    parts = [
        part
        for source in sources
        if source != "catalogue"
        for part in run.of_source(source, [m for m in wanted if m.source == source], step)
    ]
    step("catalogue" if "catalogue" in sources else "accounting")
    reach, group_units, size = run.catalogue("catalogue" in sources)
    return Aggregates(
        moments=pd.DataFrame(parts, columns=list(MOMENT_COLUMNS)),
        reach=reach,
        group_units=group_units,
        catalogue_size=size,
        units=engine.frame(query("units/unit_counts")),
        accounts=accounts(prepared, engine),
        days=engine.frame(query("units/days")),
        refused=refused,
        facts=facts(prepared, engine),
    )


def refusals(metrics: Sequence[Metric], has: frozenset[Need]) -> dict[str, tuple[str, ...]]:
    """The metrics that these logs cannot give, each with what they lack."""
    return {
        metric.name: tuple(sorted(metric.needs - has))
        for metric in metrics
        if not metric.needs <= has
    }


def scored_view(shape: LogShape) -> str:
    """Impressions of the period with the score of the model that their variant serves."""
    cases = " ".join(
        f"when {literal(variant)} then i.{score}" for variant, score in shape.score_of.items()
    )
    return f"""
    with served as (
      select u.variant, i.unit_id, i.click, case u.variant {cases} end as score
      from impressions i
      join units u on i.unit_id = u.unit_id
      where i.in_period
    )
    select variant, unit_id, score, click from served where score is not null
    """


@dataclass(frozen=True)
class _Run:
    """The queries of one experiment on one engine."""

    experiment: Experiment
    shape: LogShape
    engine: Engine

    def of_source(
        self, source: Source, metrics: Sequence[Metric], step: Step
    ) -> list[tuple[Cell, ...]]:
        """Moment rows of every metric whose per-unit values come from one query."""
        step(_TITLES[source])
        if source != "unit_day":
            self.engine.table(source, query(f"units/{source}"))
        self.engine.view("source_day", f"select * from {source}")
        self.engine.table("source_unit", query("units/unit_total"))
        rows = [row for metric in metrics for row in self._of_units(metric)]
        if source in _DAILY and self.experiment.period is not None and self.shape.has_time:
            self.engine.table("placed_day", query("units/placed_day"))
            rows += [row for metric in metrics for row in self._of_days(metric)]
        return rows

    def _of_units(self, metric: Metric) -> list[tuple[Cell, ...]]:
        y, x = self._both(metric, "t_")
        y0, x0 = self._both(metric, "p_")
        rows = self._moments(metric.name, WHOLE, "''", f"{y} as y, {x} as x, {y0} as y0, {x0} as x0")
        plain = f"{y} as y, {x} as x, 0 as y0, 0 as x0"
        for name in self.shape.segments:
            rows += self._moments(metric.name, SEGMENT + name, quoted(f"s_{name}"), plain)
        for what, term in metric.left_out:
            count = f"{self._column(term, 't_')} as y, 0 as x, 0 as y0, 0 as x0"
            rows += self._moments(metric.name, LEFT_OUT, literal(what), count)
        return rows

    def _of_days(self, metric: Metric) -> list[tuple[Cell, ...]]:
        y, x = self._both(metric, "c_")
        terms = f"{y} as y, {x} as x, 0 as y0, 0 as x0"
        return self._moments(metric.name, DAY, "cast(day as varchar)", terms, "placed_day")

    def _moments(
        self, metric: str, slice_name: str, cell: str, terms: str, relation: str = "source_unit"
    ) -> list[tuple[Cell, ...]]:
        self.engine.view("metric", f"select {cell} as cell, variant, {terms} from {relation}")
        return [(metric, slice_name, *row) for row in self.engine.rows(query("metric/moments"))]

    def _both(self, metric: Metric, prefix: str) -> tuple[str, str]:
        value = "0" if metric.value is None else self._column(metric.value, prefix)
        return value, "1" if metric.per is None else self._column(metric.per, prefix)

    def _column(self, term: Term, prefix: str) -> str:
        """The column of a term; where variants serve different scores, each variant's own."""
        names = {v: self.shape.component(term, v) for v in self.experiment.variants}
        columns = {v: prefix + name.removeprefix("c_") for v, name in names.items()}
        if len(set(columns.values())) == 1:
            return next(iter(columns.values()))
        cases = " ".join(f"when {literal(v)} then {column}" for v, column in columns.items())
        return f"case variant {cases} end"

    def catalogue(self, wanted: bool) -> tuple[pd.DataFrame, pd.DataFrame, int | None]:
        """Who was shown what, and how many items there are."""
        if not wanted:
            return pd.DataFrame(), pd.DataFrame(), None
        reach = self.engine.frame(query("catalogue/reach"))
        shown = set(reach["item_id"].unique())
        if self.shape.items is not None:
            shown |= {row[0] for row in self.engine.rows("select item_id from items")}
        return reach, self.engine.frame(query("catalogue/group_units")), len(shown)
