"""Per-unit values of metrics, summed exactly by static queries.

They read what `logs/prepare.py` created, and `slice_sums.py` adds up. `collect.py` makes
`Aggregates` of the rows; `time/` and `store/closing.py` use the same methods.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from abeval.aggregates.buckets import BucketSums
from abeval.aggregates.moment_rows import (
    BUCKET,
    BUCKETS,
    CAPPED,
    COVARIATES,
    DAY,
    LEFT_OUT,
    SEGMENT,
    WHOLE,
)
from abeval.aggregates.row_pass import RowSums
from abeval.aggregates.slice_sums import SliceQueries, condition_of
from abeval.aggregates.terms import Row, SliceTerms, SourceSums, Terms
from abeval.aggregates.unit_events import write_unit_event
from abeval.engines.protocol import Engine, whole
from abeval.engines.queries import query
from abeval.engines.sql import by_value, literal, quoted
from abeval.experiment.model import Experiment
from abeval.logs.outcomes import Coverage
from abeval.logs.shape import LogShape
from abeval.metrics.definition import Metric, RowTerm, Term, UnitTerm
from abeval.metrics.sources import UNIT_DAY, Source


@dataclass(frozen=True)
class MetricQueries:
    """The metric queries of one experiment on one engine.

    Attributes:
        experiment: The experiment.
        shape: What its logs have.
        engine: Where the queries run.
        units: The relation of the units, with the columns of `units` that the queries read; a
            window has its own.
        by_stretch: Whether the split changed, so that units are summed by stretch.
        covered: Log that units are judged by since their exposure → up to when it is whole.
        rows: Sources that were computed over arrays already.
    """

    experiment: Experiment
    shape: LogShape
    engine: Engine
    units: str = "units"
    by_stretch: bool = False
    covered: Mapping[str, Coverage | None] = field(default_factory=dict)
    rows: RowSums | None = None

    def of_source(
        self,
        source: Source,
        metrics: Sequence[Metric],
        resampled: Sequence[Metric] = (),
        more: Sequence[SliceTerms] = (),
    ) -> SourceSums:
        """Sums of every metric whose per-unit values come from one query.

        Args:
            source: The query.
            metrics: Metrics of the scorecard.
            resampled: Metrics that are summed by sub-bucket too.
            more: Further slices of the values.
        """
        self.load(source, [*metrics, *resampled])
        self.total_units(source)
        by_bucket = [self._of_buckets(metric) for metric in resampled]
        sums = self.of_totals(metrics, [*by_bucket, *more])
        if not source.daily or self.experiment.period is None or not self.shape.has_time:
            return sums
        self.place_days()
        return SourceSums([*sums.rows, *self.of_days(metrics)], sums.caps)

    def of_totals(self, metrics: Sequence[Metric], more: Sequence[SliceTerms] = ()) -> SourceSums:
        """Sums of metrics over `source_unit` as it stands: whole, by segment, capped.

        Args:
            metrics: Metrics to sum.
            more: Further slices of the same relation.
        """
        slices = [terms for metric in metrics for terms in self._of_units(metric)]
        caps = {metric.name: self._caps(metric) for metric in metrics if metric.cap is not None}
        slices += [self._of_capped(m, caps[m.name]) for m in metrics if m.name in caps]
        return SourceSums(self.sums([*slices, *more]), caps)

    def of_days(self, metrics: Sequence[Metric], relation: str = "placed_day") -> list[Row]:
        """Sums of metrics by the days of a relation."""
        day = "cast(day as varchar)"
        return self.sums(
            [SliceTerms(m, DAY, day, Terms(*self.both(m, "c_"))) for m in metrics], relation
        )

    def load(self, source: Source, metrics: Sequence[Metric] = ()) -> None:
        """Run the query of a source, and show it as `source_day`.

        Args:
            source: The source.
            metrics: Of a source of events: the metrics whose values it computes.
        """
        if source.events is not None:
            write_unit_event(self.experiment, self.engine, self.shape, self.covered, metrics)
        kernel = None if self.rows is None else self.rows.frame(source)
        if kernel is not None:
            self.engine.add_frame(f"{source}_rows", kernel)
            self.engine.view(source.name, f"select * replace ({_DATE} as day) from {source}_rows")
        elif source is not UNIT_DAY:
            if source.scored:
                show_scored(self.engine, self.scored(("unit_id", "click")))
            self.engine.table(source.name, query(source.query))
        self.show_days(f"select * from {source}")

    def show_days(self, sql: str) -> None:
        """Show a source's values by unit and day as `source_day`."""
        self.engine.view("source_day", sql)

    def total_units(self, source: Source) -> None:
        """Sum `source_day`, which `load` made of a source, by unit: as `source_unit`."""
        one_row = source is UNIT_DAY and self.experiment.of_units
        name = "row_total" if one_row else "unit_total"
        self.engine.table("source_unit", query(f"units/{name}", self.units))

    def place_days(self) -> None:
        """Give every active day of a unit its values of `source_day`, as `placed_day`."""
        self.engine.table("placed_day", query("units/placed_day", self.units))

    def scored(self, columns: Sequence[str]) -> str:
        """SQL of the period's impressions: variant, score of the variant's model, and columns."""
        score = by_value("u.variant", {v: f"i.{s}" for v, s in self.shape.score_of.items()})
        kept = ", ".join(f"i.{column}" for column in columns)
        return f"""
        with served as (
          select u.variant, {kept}, {score} as score
          from impressions i join units u on i.unit_id = u.unit_id
          where i.in_period
        )
        select * from served where score is not null
        """

    def judged_terms(self, metric: Metric) -> Terms:
        """The terms of the scorecard over `source_unit`: capped if the metric is."""
        if metric.cap is None:
            return self.terms(metric)
        return self._capped_terms(metric, self._caps(metric))

    def bucket_sums(self, metric: Metric, by_units: bool) -> BucketSums:
        """Sums of `source_unit` for A/A replays: by sub-bucket, or by unit if units are few."""
        terms = self.judged_terms(metric)
        listed = f"sub_bucket, {terms.listed}"
        self.engine.view("bucket_value", f"select {listed} from source_unit{condition_of(metric)}")
        if not by_units:
            return BucketSums.of_buckets(self.engine.frame(query("time/bucket_sums")))
        values = self.engine.frame(query("time/unit_values")).to_numpy(float)
        return BucketSums.of_units(values[:, 0], values[:, 1], values[:, 2:])

    def _of_units(self, metric: Metric) -> list[SliceTerms]:
        terms = self.terms(metric)
        now = Terms(terms.y, terms.x)
        segments = [
            SliceTerms(metric, SEGMENT + name, quoted(f"s_{name}"), now)
            for name in self.shape.segment_names
        ]
        all_units = SliceTerms(metric, WHOLE, "''", terms)
        return [all_units, *self._of_covariates(metric, terms), *segments, *self.left_out(metric)]

    def _of_covariates(self, metric: Metric, terms: Terms) -> list[SliceTerms]:
        """Sums with each pair of covariates in place of the metric's own earlier values.

        Columns of a table of units are covariates of the same row, and no unit is new in it.
        """
        own = [terms.y0] if metric.per is None else [terms.y0, terms.x0]
        if not metric.covariates:
            return []
        of_unit = any(isinstance(t, RowTerm) and t.of_unit for t in metric.covariates)
        when, is_new = ("t_", "0") if of_unit else ("p_", terms.is_new)
        columns = [*own, *(self._column(term, when) for term in metric.covariates)]
        terms = terms._replace(is_new=is_new)
        return [
            SliceTerms(metric, COVARIATES, literal(f"{i},{j}"), terms._replace(y0=first, x0=second))
            for (i, first), (j, second) in combinations(enumerate(columns), 2)
        ]

    def _of_buckets(self, metric: Metric) -> SliceTerms:
        terms = self.terms(metric)
        group = f"cast(sub_bucket % {BUCKETS} as varchar)"
        return SliceTerms(metric, BUCKET, group, Terms(terms.y, terms.x))

    def left_out(self, metric: Metric) -> list[SliceTerms]:
        """Counts of what the definition of a metric leaves out, or counts as 0."""
        return [
            SliceTerms(metric, LEFT_OUT, literal(what), Terms(self._column(term, "t_"), "0"), False)
            for what, term in (*metric.left_out, *metric.zeros)
        ]

    def _caps(self, metric: Metric) -> tuple[int, int | None]:
        """Caps over the units of all variants together, in counted units."""
        self._slices.show([SliceTerms(metric, CAPPED, "''", self.terms(metric))], "source_unit")
        self.engine.view("cap_level", f"select cast({metric.cap} as double) as level")
        ((y_cap, x_cap),) = self.engine.rows(query("metric/cap"))
        return whole(y_cap), None if metric.per is None else whole(x_cap)

    def _of_capped(self, metric: Metric, caps: tuple[int, int | None]) -> SliceTerms:
        return SliceTerms(metric, CAPPED, "''", self._capped_terms(metric, caps))

    def _capped_terms(self, metric: Metric, caps: tuple[int, int | None]) -> Terms:
        terms, (y_cap, x_cap) = self.terms(metric), caps
        return terms._replace(
            y=f"least({terms.y}, {y_cap})",
            y0=f"least({terms.y0}, {y_cap})",
            x=terms.x if x_cap is None else f"least({terms.x}, {x_cap})",
            x0=terms.x0 if x_cap is None else f"least({terms.x0}, {x_cap})",
        )

    def sums(self, slices: Sequence[SliceTerms], relation: str = "source_unit") -> list[Row]:
        """Exact sums by cell, variant and stretch: rows of `moment_rows.MOMENT_COLUMNS`."""
        return self._slices.sums(slices, relation)

    @property
    def _slices(self) -> SliceQueries:
        return SliceQueries(self.engine, list(self.experiment.variants), self.by_stretch)

    def terms(self, metric: Metric) -> Terms:
        """The terms of a metric over `source_unit`."""
        if self.experiment.of_units:
            return Terms(*self.both(metric, "t_"))
        before = self.both(metric, "p_")
        is_new = "is_new"
        if metric.per_unit is not None:
            # A unit without impressions before may have other rows then.
            nothing = " and ".join(f"{sql} = 0" for sql in before if sql != "1")
            is_new = f"case when {nothing} then is_new else 0 end"
        return Terms(*self.both(metric, "t_"), *before, is_new=is_new)

    def both(self, metric: Metric, prefix: str) -> tuple[str, str]:
        """Numerator and denominator; a metric without a denominator is per unit."""
        value = "0" if metric.value is None else self._column(metric.value, prefix)
        return value, "1" if metric.per is None else self._column(metric.per, prefix)

    def covariate(self, metric: Metric) -> str:
        """The column of the only covariate of a metric, in `source_unit`."""
        (term,) = metric.covariates
        return self._column(term, "t_")

    def _column(self, term: Term, prefix: str) -> str:
        """The column of a term; where variants serve different scores, each variant's own."""
        if isinstance(term, UnitTerm):
            return "0" if self.shape.table is None else self.shape.table.covariate(term)
        names = {v: self.shape.component(term, v) for v in self.experiment.variants}
        columns = {v: prefix + name.removeprefix("c_") for v, name in names.items()}
        if len(set(columns.values())) == 1:
            return next(iter(columns.values()))
        cases = " ".join(f"when {literal(v)} then {column}" for v, column in columns.items())
        return f"case variant {cases} end"


_DATE = "date '1970-01-01' + day"


def show_scored(engine: Engine, sql: str) -> None:
    """Show impressions or candidates (variant, unit_id, score, click) as `scored`."""
    engine.view("scored", sql)
