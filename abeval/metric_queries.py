"""Each metric's per-unit values, summed exactly by one static query."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import pandas as pd

from abeval.aggregates import BUCKET, BUCKETS, CAPPED, COVARIATES, DAY, LEFT_OUT, SEGMENT, WHOLE
from abeval.buckets import BucketSums
from abeval.engines.protocol import ArrayEngine, Cell, Engine
from abeval.errors import ExperimentError, QueryError
from abeval.experiment.model import Experiment
from abeval.logs.shape import LogShape
from abeval.metrics import Metric, Source, Term
from abeval.queries import query
from abeval.score_sweep import ScoreTables, score_tables
from abeval.sql import literal, quoted

Row = tuple[Cell, ...]

_TOO_LARGE = (
    "sums of squares must stay below 1e38 steps of `resolution` (1e-6 unless told): divide, or "
    "give a coarser resolution"
)

DAILY: tuple[Source, ...] = (
    "unit_day",
    "page_views",
    "served_ranking",
    "category_diversity",
    "sessions",
)
"""Sources whose values belong to a day, and add up over days."""


class Terms(NamedTuple):
    """SQL of what is summed: numerator, denominator, both before the period, and newness."""

    y: str
    x: str
    y0: str = "0"
    x0: str = "0"
    is_new: str = "0"

    @property
    def listed(self) -> str:
        """The terms as named columns."""
        return ", ".join(f"{sql} as {name}" for name, sql in self._asdict().items())


@dataclass(frozen=True)
class SourceSums:
    """What the metrics of one source add up to.

    Attributes:
        rows: Rows of `aggregates.MOMENT_COLUMNS`.
        caps: Metric → caps of numerator and denominator, where values are capped.
    """

    rows: list[Row]
    caps: Mapping[str, tuple[int, int | None]]


@dataclass(frozen=True)
class MetricQueries:
    """The metric queries of one experiment on one engine."""

    experiment: Experiment
    shape: LogShape
    engine: Engine

    def of_source(
        self, source: Source, metrics: Sequence[Metric], resampled: Sequence[Metric] = ()
    ) -> SourceSums:
        """Sums of every metric whose per-unit values come from one query.

        Args:
            source: The query.
            metrics: Those of the scorecard.
            resampled: Those, of the scorecard or not, that are wanted by sub-bucket.
        """
        self.load(source)
        self.engine.table("source_unit", query("units/unit_total"))
        found = self.of_totals(metrics)
        more = [row for metric in resampled for row in self._of_buckets(metric)]
        if source in DAILY and self.experiment.period is not None and self.shape.has_time:
            self.engine.table("placed_day", query("units/placed_day"))
            more += [row for metric in metrics for row in self._of_days(metric)]
        return SourceSums([*found.rows, *more], found.caps)

    def of_totals(self, metrics: Sequence[Metric]) -> SourceSums:
        """Sums of metrics over `source_unit` as it stands: whole, by segment, capped."""
        rows = [row for metric in metrics for row in self._of_units(metric)]
        caps = {metric.name: self._caps(metric) for metric in metrics if metric.cap is not None}
        for metric in metrics:
            if metric.name in caps:
                rows += self._of_capped(metric, caps[metric.name])
        return SourceSums(rows, caps)

    def load(self, source: Source) -> None:
        """Run the query of a source, and show it as `source_day`."""
        kernel = self._kernel(source)
        if kernel is not None:
            self.engine.add_frame(source, kernel)
        elif source != "unit_day":
            self.engine.table(source, query(f"units/{source}"))
        self.engine.view("source_day", f"select * from {source}")

    def _kernel(self, source: Source) -> pd.DataFrame | None:
        """What a source's query would return, where arrays give it sooner."""
        if source == "gauc":
            return None if self._scores is None else self._scores.gauc
        if source == "auc":
            return None if self._scores is None else self._scores.auc
        return None

    @cached_property
    def _scores(self) -> ScoreTables | None:
        """GAUC and AUC come from one sort, which the first of them pays for."""
        if not isinstance(self.engine, ArrayEngine):
            return None
        folder = self.experiment.engine.temp_directory
        return score_tables(self.engine, list(self.experiment.variants), folder)

    def judged_terms(self, metric: Metric) -> Terms:
        """The terms over `source_unit` that the scorecard is about: capped where it caps."""
        if metric.cap is None:
            return self.terms(metric)
        return self._capped_terms(metric, self._caps(metric))

    def bucket_sums(self, metric: Metric, by_units: bool) -> BucketSums:
        """What A/A replays deal out, from `source_unit`: sub-buckets, or units where few."""
        terms = self.judged_terms(metric)
        listed = f"sub_bucket, {terms.y} as y, {terms.x} as x"
        self.engine.view("bucket_value", f"select {listed} from source_unit")
        if not by_units:
            return BucketSums.of_buckets(self.engine.frame(query("time/bucket_sums")))
        values = self.engine.frame(query("time/unit_values"))
        return BucketSums.of_units(values["y"].to_numpy(float), values["x"].to_numpy(float))

    def _of_units(self, metric: Metric) -> list[Row]:
        terms = self.terms(metric)
        rows = self.sums(metric, WHOLE, "''", terms)
        rows += self._of_covariates(metric, terms)
        for name in self.shape.segments:
            rows += self.sums(metric, SEGMENT + name, quoted(f"s_{name}"), terms[:2])
        return [*rows, *self.left_out(metric)]

    def _of_covariates(self, metric: Metric, terms: Terms) -> list[Row]:
        """Sums with each pair of covariates in the place of the metric's own values before."""
        own = [terms.y0] if metric.per is None else [terms.y0, terms.x0]
        if not metric.covariates:
            return []
        columns = [*own, *(self._column(term, "p_") for term in metric.covariates)]
        return [
            row
            for (i, first), (j, second) in combinations(enumerate(columns), 2)
            for row in self.sums(
                metric, COVARIATES, literal(f"{i},{j}"), terms._replace(y0=first, x0=second)
            )
        ]

    def _of_buckets(self, metric: Metric) -> list[Row]:
        group = f"cast(sub_bucket % {BUCKETS} as varchar)"
        return self.sums(metric, BUCKET, group, self.terms(metric)[:2])

    def left_out(self, metric: Metric) -> list[Row]:
        """What the definition of a metric leaves out, counted over `source_unit`."""
        return [
            row
            for what, term in metric.left_out
            for row in self.sums(metric, LEFT_OUT, literal(what), (self._column(term, "t_"), "0"))
        ]

    def _of_days(self, metric: Metric) -> list[Row]:
        terms = self.both(metric, "c_")
        return self.sums(metric, DAY, "cast(day as varchar)", terms, "placed_day")

    def _caps(self, metric: Metric) -> tuple[int, int | None]:
        """Caps over the units of all variants together, in counted units."""
        self._view("''", self.terms(metric))
        self.engine.view("cap_level", f"select cast({metric.cap} as double) as level")
        ((y_cap, x_cap, _),) = self.engine.rows(query("metric/cap"))
        return int(y_cap or 0), None if metric.per is None else int(x_cap or 0)

    def _of_capped(self, metric: Metric, caps: tuple[int, int | None]) -> list[Row]:
        return self.sums(metric, CAPPED, "''", self._capped_terms(metric, caps))

    def _capped_terms(self, metric: Metric, caps: tuple[int, int | None]) -> Terms:
        terms, (y_cap, x_cap) = self.terms(metric), caps
        return terms._replace(
            y=f"least({terms.y}, {y_cap})",
            y0=f"least({terms.y0}, {y_cap})",
            x=terms.x if x_cap is None else f"least({terms.x}, {x_cap})",
            x0=terms.x0 if x_cap is None else f"least({terms.x0}, {x_cap})",
        )

    def sums(
        self,
        metric: Metric,
        slice_name: str,
        cell: str,
        terms: Sequence[str],
        relation: str = "source_unit",
    ) -> list[Row]:
        """Exact sums of a metric's terms by cell of a slice and variant."""
        self._view(cell, Terms(*terms), relation)
        try:
            found = self.engine.rows(query("metric/moments"))
        except QueryError as error:
            if error.hint is not None:
                raise
            what = f"metric {metric.name!r}: its sums cannot be computed: {error.what}"
            raise ExperimentError(what, _TOO_LARGE) from error
        return [(metric.name, slice_name, *row) for row in found]

    def _view(self, cell: str, terms: Terms, relation: str = "source_unit") -> None:
        self.engine.view(
            "metric", f"select {cell} as cell, variant, {terms.listed} from {relation}"
        )

    def terms(self, metric: Metric) -> Terms:
        """The terms of a metric over `source_unit`."""
        return Terms(*self.both(metric, "t_"), *self.both(metric, "p_"), is_new="is_new")

    def both(self, metric: Metric, prefix: str) -> tuple[str, str]:
        """Numerator and denominator; a metric without a denominator is per unit."""
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
