"""The columns of an experiment's logs, and the columns to sum for each metric's terms.

`shaping.py` makes the `LogShape` of what `mapping.py` matched and of the metrics; `views.py`,
`aggregates/` and `offline/` take their columns from it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from abeval.experiment.model import Experiment
from abeval.experiment.segment_rules import of_impressions
from abeval.experiment.sources import ROW_UNIT
from abeval.logs.mapping import LogColumns
from abeval.logs.row_sql import (
    EXPRESSION_COLUMNS,
    OUTCOME_COLUMNS,
    UNIT_COLUMNS,
    component_name,
    component_sql,
    event_name,
    event_sql,
    row_value_sql,
)
from abeval.logs.unit_table import UNITS, UnitTable
from abeval.metrics.definition import ColumnTerm, Metric, Need, RowTerm, Term, UnitTerm
from abeval.metrics.per_unit import RowValue
from abeval.metrics.row_text import columns_of


@dataclass(frozen=True)
class OutcomeShape:
    """What the view of an outcome log depends on.

    Attributes:
        log: Its columns.
        values: SQL of what each row is worth to a metric, null for nothing.
        own_columns: Its columns that expressions read under their own names.
    """

    log: LogColumns
    values: tuple[str, ...]
    own_columns: tuple[str, ...]


@dataclass(frozen=True)
class LogShape:
    """Everything the views depend on: the logs' columns and the experiment's choices.

    Attributes:
        impressions: Columns of the impressions log.
        clicks: Columns of the click log, if there is one.
        items: Columns of the item log, if there is one.
        exposures: Columns of the exposures log, if there is one.
        scores: Impression columns with a model's score, each once.
        score_of: Variant → the canonical `score_N` of the model that it serves.
        components: SQL of each summed column; the first, `c_1`, counts impressions.
        segments: Name of each segment → its SQL.
        cuts: Name of each cut → its SQL.
        own_columns: The log's columns that expressions read under their own names.
        kept_columns: Those, and others that a caller reads.
        events: SQL of each value per impression that quantiles rank, or that units are judged by
            since their exposure; null for no value.
        outcomes: The outcome logs that metrics read, by name.
        table: The table of units beside the impressions, None without one.
    """

    impressions: LogColumns
    clicks: LogColumns | None
    items: LogColumns | None
    exposures: LogColumns | None
    scores: tuple[str, ...]
    score_of: Mapping[str, str]
    components: tuple[str, ...] = ()
    segments: Mapping[str, str] = field(default_factory=dict)
    cuts: Mapping[str, str] = field(default_factory=dict)
    own_columns: tuple[str, ...] = ()
    kept_columns: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    outcomes: Mapping[str, OutcomeShape] = field(default_factory=dict)
    table: UnitTable | None = None

    @property
    def names_variant(self) -> bool:
        """Whether impressions have a variant."""
        return "variant" in self.impressions

    @property
    def has_time(self) -> bool:
        """Whether impressions have a time."""
        return "ts" in self.impressions

    def needs_met(self, unit: str) -> frozenset[Need]:
        """What the logs have of all that metrics may need."""
        log = self.impressions
        has: set[Need] = {n for n in _DIRECT if n in log}
        if unit != ROW_UNIT:
            has.add("unit")
        if self.clicks is not None:
            has.add("click")
            if "dwell" in self.clicks:
                has.add("dwell")
        if self.score_of:
            has.add("score")
        if "category" in log or self.has_item_categories:
            has.add("category")
        return frozenset(has)

    @property
    def has_item_categories(self) -> bool:
        """Whether categories come from the item log."""
        return self.items is not None and "category" in self.items and "item_id" in self.impressions

    @property
    def clicks_component(self) -> str:
        """The summed column that counts clicks."""
        return self._named(component_sql(CLICKED, None))

    @property
    def scored_components(self) -> list[str]:
        """The summed columns that count impressions with a served model's score.

        Empty if no metric reads a score: the columns of scores are not read just to count them.
        """
        served = [component_sql(SCORED, score) for score in dict.fromkeys(self.score_of.values())]
        return [self._named(sql) for sql in served if sql in self.components]

    def component(self, term: Term, variant: str) -> str:
        """The summed column of a term in one variant."""
        if isinstance(term, ColumnTerm):
            return term.column
        if isinstance(term, UnitTerm):
            raise TypeError("a value of the table of units is no sum of a log")
        return self._named(component_sql(term, self.score_of.get(variant)))

    def event(self, term: RowTerm, variant: str) -> str:
        """The column of the impressions with a term's values, in one variant."""
        return event_name(self.events.index(event_sql(term, self.score_of.get(variant))))

    def row_value(self, value: RowValue) -> str:
        """The column of the rows of a log with what they are worth to their units."""
        canonical: Sequence[str]
        if value.log == UNITS and self.table is not None:
            known, canonical = self.table.values, UNIT_COLUMNS
        elif value.log in self.outcomes:
            known, canonical = self.outcomes[value.log].values, OUTCOME_COLUMNS
        else:
            known, canonical = self.events, EXPRESSION_COLUMNS
        return event_name(known.index(row_value_sql(value, canonical)))

    @property
    def segment_names(self) -> list[str]:
        """The segments of impressions, then those of the table of units."""
        return [*self.segments, *(self.table.segments if self.table is not None else ())]

    def _named(self, sql: str) -> str:
        return component_name(self.components.index(sql))


def value_columns(shape: LogShape, experiment: Experiment, metric: Metric) -> dict[str, str]:
    """Variant → the column of the impressions with the value that a quantile ranks."""
    if not isinstance(metric.value, RowTerm):
        raise TypeError(f"the quantile {metric.name!r} has no value of an impression")
    return {variant: shape.event(metric.value, variant) for variant in experiment.variants}


CLICKED = RowTerm("click")
SCORED = RowTerm("case when score is not null then 1 else 0 end")

_DIRECT: tuple[Need, ...] = (
    "ts",
    "click",
    "dwell",
    "request_id",
    "item_id",
    "position",
    "category",
)


def columns_read(experiment: Experiment, metrics: Sequence[Metric], shape: LogShape) -> list[str]:
    """The log's own names of the columns of the impressions that this analysis reads."""
    log, has = shape.impressions, shape.needs_met(experiment.unit)
    needs = {need for metric in metrics if metric.needs <= has for need in metric.needs}
    texts = [*of_impressions(experiment).values(), *experiment.cuts.values()]
    named = {name.lower() for text in texts for name in columns_of(text)}
    canonical = {"unit_id", "variant", "ts", "click", *needs, *named}
    scores = shape.scores if "score" in needs else ()
    mapped = [column for name, column in log.mapped.items() if name in canonical]
    return list(dict.fromkeys([*mapped, *scores, *shape.own_columns]))
