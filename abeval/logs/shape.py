"""The columns of an experiment's logs, and the columns to sum for each metric's terms.

`prepare.py` makes the `LogShape` of what `mapping.py` matched and of the metrics; `views.py`,
`aggregates/`, `store/` and `offline/` take their columns from it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from abeval.errors import LogError
from abeval.experiment.model import Experiment
from abeval.experiment.problems import near_miss
from abeval.experiment.segment_rules import of_impressions
from abeval.experiment.sources import OUTCOME, ROW_UNIT
from abeval.logs.mapping import LogColumns, is_number, no_column
from abeval.logs.row_sql import (
    EXPRESSION_COLUMNS,
    OUTCOME_COLUMNS,
    UNIT_COLUMNS,
    canonical_columns,
    component_name,
    component_sql,
    event_name,
    event_sql,
    in_view_names,
    own_columns_of,
    row_value_sql,
)
from abeval.logs.unit_table import UNITS, UnitTable, unit_table
from abeval.metrics.definition import (
    ColumnTerm,
    Metric,
    Need,
    RowTerm,
    Term,
    UnitTerm,
    event_terms,
    row_terms,
    row_values,
)
from abeval.metrics.expressions import columns_of, parse_expression
from abeval.metrics.per_unit import RowValue


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


def shape_of(
    experiment: Experiment,
    metrics: Sequence[Metric],
    logs: Mapping[str, LogColumns],
    extra: Sequence[str] = (),
) -> LogShape:
    """The shape of the views for these logs and metrics.

    Args:
        experiment: Its segments and models name columns.
        metrics: Their terms read columns.
        logs: The columns of each log.
        extra: More columns of the impressions to keep, under `own_name`.

    Raises:
        LogError: A model's score column, or an extra one, is missing.
        ExperimentError: An expression reads a column that the log does not have.
    """
    impressions = logs[experiment.logs.rows_name]
    scores, score_of = _served_scores(experiment, impressions)
    shape = LogShape(
        impressions=impressions,
        clicks=logs.get("clicks"),
        items=logs.get("items"),
        exposures=logs.get("exposures"),
        scores=scores,
        score_of=score_of,
    )
    has = shape.needs_met(experiment.unit)
    met = [metric for metric in metrics if metric.needs <= has]
    terms = [term for metric in met for term in row_terms(metric)]
    ranked = [term for metric in met for term in event_terms(metric)]
    valued = [value for metric in met for value in row_values(metric)]
    of_rows = [value for value in valued if value.log == "impressions"]
    table = experiment.unit_table
    texts = [t.expression for t in (*terms, *ranked)] + [v.expression for v in of_rows]
    parts = {**of_impressions(experiment), **experiment.cuts}
    texts += parts.values()
    canonical = canonical_columns(experiment.of_units)
    own = _with_extra(own_columns_of(texts, impressions, canonical), extra, impressions)
    served = dict.fromkeys(score_of.get(variant) for variant in experiment.variants)
    sums = [component_sql(term, score) for term in terms for score in served]
    known = [component_sql(CLICKED, None)]
    if any("score" in metric.needs for metric in met):
        known += [component_sql(SCORED, score) for score in score_of.values()]
    named = {
        name: f"cast({in_view_names(text, None, canonical)} as varchar)"
        for name, text in parts.items()
    }
    return replace(
        shape,
        components=tuple(dict.fromkeys(["1", *known, *sums])),
        # The impressions have nothing of a segment that is known from the exposure.
        segments={name: named.get(name, "cast('' as varchar)") for name in experiment.segments},
        cuts={name: named[name] for name in experiment.cuts},
        own_columns=own,
        events=tuple(
            dict.fromkeys(
                [
                    *(event_sql(term, score) for term in ranked for score in served),
                    *(row_value_sql(value, EXPRESSION_COLUMNS) for value in of_rows),
                ]
            )
        ),
        outcomes={
            name: _outcome_shape(logs[OUTCOME + name], [v for v in valued if v.log == name])
            for name in experiment.logs.events
            if any(value.log == name for value in valued)
        },
        table=None if table is None else unit_table(logs[UNITS], table, met),
    )


def _outcome_shape(log: LogColumns, values: Sequence[RowValue]) -> OutcomeShape:
    texts = [value.expression for value in values]
    return OutcomeShape(
        log,
        tuple(dict.fromkeys(row_value_sql(value, OUTCOME_COLUMNS) for value in values)),
        own_columns_of(texts, log, OUTCOME_COLUMNS),
    )


def has_one_row(experiment: Experiment, shape: LogShape) -> bool:
    """Whether every unit has one row, without a day: repeated units are set aside."""
    return experiment.of_units and not shape.has_time


def columns_read(experiment: Experiment, metrics: Sequence[Metric], shape: LogShape) -> list[str]:
    """The log's own names of the columns of the impressions that this analysis reads."""
    log, has = shape.impressions, shape.needs_met(experiment.unit)
    needs = {need for metric in metrics if metric.needs <= has for need in metric.needs}
    texts = [*of_impressions(experiment).values(), *experiment.cuts.values()]
    named = {name.lower() for text in texts for name in columns_of(parse_expression(text))}
    canonical = {"unit_id", "variant", "ts", "click", *needs, *named}
    scores = shape.scores if "score" in needs else ()
    mapped = [column for name, column in log.mapped.items() if name in canonical]
    return list(dict.fromkeys([*mapped, *scores, *shape.own_columns]))


def _with_extra(
    own: tuple[str, ...], extra: Sequence[str], impressions: LogColumns
) -> tuple[str, ...]:
    """The log's own columns and extra ones, each once, ignoring case."""
    by_lower = {column.lower(): column for column in impressions.types}
    for column in extra:
        if column.lower() not in by_lower:
            raise no_column(impressions, column)
    wanted = {column.lower(): by_lower[column.lower()] for column in extra}
    return (*own, *(c for lower, c in wanted.items() if lower not in {o.lower() for o in own}))


def _served_scores(
    experiment: Experiment, impressions: LogColumns
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The score columns of the log, and the `score_N` that each variant serves."""
    for name, model in experiment.models.items():
        _check_score(name, model.score, impressions)
    plain = impressions.mapped.get("score")
    by_variant = {
        name: plain if variant.model is None else experiment.models[variant.model].score
        for name, variant in experiment.variants.items()
    }
    columns = tuple(dict.fromkeys(column for column in by_variant.values() if column is not None))
    served = {v: f"score_{columns.index(c) + 1}" for v, c in by_variant.items() if c is not None}
    return columns, served


def _check_score(model: str, column: str, impressions: LogColumns) -> None:
    where, hint = f"models.{model}.score", "name the column with the model's predictions"
    if column not in impressions.types:
        near = near_miss(column, impressions.types)
        raise LogError(f"{where}: the impressions have no column {column!r}{near}", hint)
    if not is_number(impressions.types[column]):
        kind = impressions.types[column]
        raise LogError(f"{where}: column {column!r} is {kind}, but a score is a number", hint)
