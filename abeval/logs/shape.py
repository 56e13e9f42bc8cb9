"""Describe what is read of the logs, as columns and SQL.

Each expression is a column once: `c_1`, … are summed, `v_1`, … values of rows, `u_1`, … covariates.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from types import MappingProxyType
from typing import get_args

from abeval.engines.sql import is_number, quote
from abeval.errors import ExperimentError, LogError
from abeval.experiment.model import Experiment
from abeval.experiment.problems import suggest_near_name
from abeval.experiment.sources import CANONICAL_COLUMNS, OUTCOME, ROW_UNIT
from abeval.logs.mapping import SERVED_FLAGS, LogColumns, make_missing_column_error, name_raw_column
from abeval.metrics import definition
from abeval.metrics.row_text import (
    find_expression_problem,
    is_plain,
    list_columns,
    replace_plain_columns,
    write_column_expression,
)

IMPRESSIONS, UNITS = "impressions", "units"
"""Logs of values since exposure, besides outcome logs."""

_NOT_READ = {"variant", "propensity", *SERVED_FLAGS}
EXPRESSION_COLUMNS = frozenset({*CANONICAL_COLUMNS["impressions"], "dwell_ms"} - _NOT_READ)
"""Canonical columns that expressions over impressions may read, besides the log's own."""

UNIT_COLUMNS, _OUTCOME_COLUMNS = frozenset({"unit_id"}), frozenset({"unit_id", "ts"})
"""Canonical columns that expressions over units, or over outcomes, may read."""

_NOT_IN_SCORES = {"click", "dwell", "dwell_ms", "score", "ts"}
SCORE_COLUMNS = EXPRESSION_COLUMNS - _NOT_IN_SCORES
"""Canonical columns that a score may read: those known before a click."""

_OF_SLOTS = {"design.slot": "cast(slot as varchar)", "design.part": "part"}
"""Segments of the units of a switchback, from `1_log/switched`."""

_CLICKED = definition.RowTerm("click")
_SCORED = definition.RowTerm("case when score is not null then 1 else 0 end")


@dataclass(frozen=True)
class ComputedColumns:
    """Hold what is computed of the rows of a log beside the impressions.

    Attributes:
        own_columns: Columns that expressions read under their own names.
        values: SQL of what a row is worth to a metric, null for nothing → column.
        segments: Name of each segment → its SQL.
        covariates: SQL of each covariate, a whole number → column.
    """

    log: LogColumns
    own_columns: tuple[str, ...]
    values: Mapping[str, str]
    segments: Mapping[str, str] = field(default_factory=dict)
    covariates: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LogSchema:
    """Hold everything the views depend on: log columns and choices of the file.

    Attributes:
        scores: Each score once → its `score_N`: columns of the log, or expressions over a row.
        score_of: Variant → the `score_N` of the model that it serves.
        model_scores: Model → its `score_N`.
        components: SQL of what is summed → column; the first, `c_1`, counts impressions.
        segments: Name of each segment → its SQL.
        own_columns: The log's columns that expressions read under their own names.
        kept_columns: Those, and others that a caller reads.
        events: SQL of each value per impression that quantiles rank, or that units are judged by
            since their exposure, null for no value → column.
        table: The table of units beside the impressions, None without one.
        has_pre_period: Whether the experiment says which impressions are from before it.
    """

    impressions: LogColumns
    clicks: LogColumns | None
    items: LogColumns | None
    exposures: LogColumns | None
    scores: Mapping[str, str]
    score_of: Mapping[str, str]
    model_scores: Mapping[str, str]
    components: Mapping[str, str] = field(default_factory=dict)
    segments: Mapping[str, str] = field(default_factory=dict)
    cuts: Mapping[str, str] = field(default_factory=dict)
    own_columns: tuple[str, ...] = ()
    kept_columns: tuple[str, ...] = ()
    events: Mapping[str, str] = field(default_factory=dict)
    outcomes: Mapping[str, ComputedColumns] = field(default_factory=dict)
    table: ComputedColumns | None = None
    has_pre_period: bool = False

    @property
    def blends(self) -> dict[str, str]:
        """Return the scores that are expressions over a row: text → `score_N`."""
        return {t: n for t, n in self.scores.items() if t not in self.impressions.types}

    @property
    def names_variant(self) -> bool:
        """Tell whether impressions have a variant."""
        return "variant" in self.impressions

    @property
    def tells_variant(self) -> bool:
        """Tell whether impressions or exposures say which variant a unit was in."""
        of_exposures = self.exposures is not None and "variant" in self.exposures
        return self.names_variant or of_exposures

    @property
    def knows_entries(self) -> bool:
        """Tell whether impressions or exposures say when a unit entered."""
        return self.has_time or (self.exposures is not None and "ts" in self.exposures)

    @property
    def has_time(self) -> bool:
        """Tell whether impressions have a time."""
        return "ts" in self.impressions

    @property
    def has_item_categories(self) -> bool:
        """Tell whether categories come from the item log."""
        return self.items is not None and "category" in self.items and "item_id" in self.impressions

    @property
    def clicks_component(self) -> str:
        """Return the summed column that counts clicks."""
        return self.components[_write_summand(_CLICKED)]

    @property
    def scored_components(self) -> list[str]:
        """List the summed columns that count impressions with a served score.

        Empty if no metric reads a score.
        """
        served = (_write_summand(_SCORED, score) for score in dict.fromkeys(self.score_of.values()))
        # Columns of scores are not read just to count them.
        return [self.components[sql] for sql in served if sql in self.components]

    def needs_met(self, unit: str) -> frozenset[definition.Need]:
        """Return which of the metrics' needs the logs meet."""
        derived_needs: dict[definition.Need, bool] = {
            "unit": unit != ROW_UNIT,
            "click": self.clicks is not None,
            "dwell": self.clicks is not None and "dwell" in self.clicks,
            "category": self.has_item_categories,
            # Whatever the columns are called that variants serve.
            "score": bool(self.score_of),
            "[pre_period]": self.has_pre_period,
        }
        column_needs = {need for need in get_args(definition.Need) if need in self.impressions}
        return frozenset(
            column_needs - {"score"} | {need for need, is_met in derived_needs.items() if is_met}
        )

    def component(self, term: definition.Term, variant: str) -> str:
        """Return the column of the sums of a term for a variant.

        The term may read the score of the variant's model. The variant "" has no model.
        """
        if isinstance(term, definition.ColumnTerm):
            return term.column
        return self.components[_write_summand(term, self.score_of.get(variant))]

    def event(self, term: definition.RowTerm, variant: str) -> str:
        """Return the column of the impressions with a term's values, in one variant."""
        return self.events[write_row_value(term, self.score_of.get(variant))]

    def row_value(self, value: definition.RowValue) -> str:
        """Return the column of a log with what its rows are worth to their units."""
        of_log = self.table if value.log == UNITS else self.outcomes.get(value.log)
        return (self.events if of_log is None else of_log.values)[write_row_value(value)]

    def covariate(self, term: definition.UnitTerm) -> str | None:
        """Return the column of a covariate of the units' table; None without one."""
        return None if self.table is None else self.table.covariates[_write_summand(term)]


def build_schema(
    experiment: Experiment,
    metrics: Sequence[definition.Metric],
    logs: Mapping[str, LogColumns],
    extra: Sequence[str] = (),
) -> LogSchema:
    """Find what the views of these logs hold for these metrics.

    `extra` names more columns of the impressions to keep, under their name in the views.

    Raises:
        LogError: A model's score column, or an extra one, is missing.
        ExperimentError: An expression reads a column that the log does not have.
    """
    log, schema = logs[experiment.logs.rows_name], _find_scores(experiment, logs)
    canonical = UNIT_COLUMNS if experiment.is_unit_table else EXPRESSION_COLUMNS
    computable = [m for m in metrics if m.needs <= schema.needs_met(experiment.unit)]
    ranked = [term for metric in computable for term in definition.list_event_terms(metric)]
    values = [value for metric in computable for value in definition.list_row_values(metric)]
    own_values = [value for value in values if value.log == IMPRESSIONS]
    segments_and_cuts = {**experiment.row_segments, **experiment.cuts}
    terms = [term for metric in computable for term in definition.list_row_terms(metric)]
    read: list[definition.RowTerm | definition.RowValue] = [*terms, *ranked, *own_values]
    texts = [term.expression for term in read]
    texts += [
        str(write_column_expression(name))
        for metric in computable
        if metric.source.sql is not None
        for name in metric.source.reads
        if name_row_column(name) != name
    ]
    own_columns = list_own_columns([*texts, *segments_and_cuts.values()], log, canonical)
    extra = [*list_own_columns([*schema.blends], log, SCORE_COLUMNS), *extra]
    label_sql = write_texts(segments_and_cuts, canonical)
    served = list(dict.fromkeys(map(schema.score_of.get, experiment.variants)))
    ranks = [write_row_value(term, score) for term in ranked for score in served]
    is_scored = any("score" in metric.needs for metric in computable)
    scored = [_write_summand(_SCORED, score) for score in schema.score_of.values() if is_scored]
    sums = [_write_summand(term, score) for term in terms for score in served]
    return replace(
        schema,
        # The first, `c_1`, counts impressions: others read it by this name.
        components=_number_columns("c", ["1", _write_summand(_CLICKED), *scored, *sums]),
        # The impressions have nothing of a segment that is known from the exposure.
        segments={
            name: label_sql.get(name, "cast('' as varchar)") for name in experiment.unit_values
        }
        | ({} if experiment.switchback is None else _OF_SLOTS),
        cuts={name: label_sql[name] for name in experiment.cuts},
        own_columns=own_columns,
        kept_columns=_add_extra_columns(own_columns, extra, log),
        events=_number_columns("v", [*ranks, *map(write_row_value, own_values)]),
        outcomes={
            name: _build_computed(logs[OUTCOME + name], _OUTCOME_COLUMNS, of_log)
            for name in experiment.logs.events
            if (of_log := [value for value in values if value.log == name])
        },
        table=None
        if experiment.unit_table is None
        else _build_computed(
            logs[UNITS],
            UNIT_COLUMNS,
            [value for value in values if value.log == UNITS],
            experiment.unit_table.segments,
            [term for metric in computable for term in definition.list_unit_terms(metric)],
        ),
    )


def _find_scores(experiment: Experiment, logs: Mapping[str, LogColumns]) -> LogSchema:
    """Find the logs and their scores, whatever the metrics are."""
    log = logs[experiment.logs.rows_name]
    of_variants, of_models = _score_texts(experiment, log)
    scores = _number_columns("score", [*of_variants.values(), *of_models.values()])
    return LogSchema(
        log,
        logs.get("clicks"),
        logs.get("items"),
        logs.get("exposures"),
        scores,
        score_of={name: scores[text] for name, text in of_variants.items()},
        model_scores={name: scores[text] for name, text in of_models.items()},
        has_pre_period=experiment.pre_period is not None,
    )


def _build_computed(
    log: LogColumns,
    canonical: Collection[str],
    values: Sequence[definition.RowValue],
    segments: Mapping[str, str] = MappingProxyType({}),
    terms: Sequence[definition.UnitTerm] = (),
) -> ComputedColumns:
    """Find what metrics read of an outcome log, or of the table of units."""
    read: list[definition.UnitTerm | definition.RowValue] = [*terms, *values]
    texts = [*segments.values(), *(term.expression for term in read)]
    return ComputedColumns(
        log,
        list_own_columns(texts, log, canonical),
        _number_columns("v", map(write_row_value, values)),
        write_texts(segments, canonical),
        _number_columns("u", map(_write_summand, terms)),
    )


def _number_columns(kind: str, columns: Iterable[str]) -> dict[str, str]:
    """Number SQL expressions, each once: SQL → column name."""
    return {sql: f"{kind}_{i}" for i, sql in enumerate(dict.fromkeys(columns), start=1)}


def _add_extra_columns(
    own_columns: tuple[str, ...], extra: Sequence[str], log: LogColumns
) -> tuple[str, ...]:
    """List the log's own columns and extra ones, each once, ignoring case."""
    by_lower = {column.lower(): column for column in log.types}
    kept = {column.lower(): column for column in own_columns}
    for column in extra:
        if column.lower() not in by_lower:
            raise make_missing_column_error(log, column)
        kept.setdefault(column.lower(), by_lower[column.lower()])
    return tuple(kept.values())


def _as_logged(text: str, log: LogColumns) -> str:
    """Write a score's column as the log does; leave any other text as it is."""
    if text in log.types:
        return text
    return next((column for column in log.types if column.lower() == text.lower()), text)


def _score_texts(experiment: Experiment, log: LogColumns) -> tuple[dict[str, str], dict[str, str]]:
    """Find the score of each variant that has one, and of each model.

    Raises:
        LogError: A score is no number, or reads what the log does not have.
    """
    for name, model in experiment.models.items():
        if problem := _score_problem(model.score, log):
            hint = "name the column with the model's predictions, or an expression over columns"
            raise LogError(f"models.{name}.score: {problem}", hint)
    of_models = {name: _as_logged(model.score, log) for name, model in experiment.models.items()}
    of_variants = {
        name: log.mapped.get("score") if variant.model is None else of_models[variant.model]
        for name, variant in experiment.variants.items()
    }
    return {name: text for name, text in of_variants.items() if text is not None}, of_models


def _score_problem(text: str, log: LogColumns) -> str | None:
    """Say why the impressions have no such score; None where they have it."""
    kind = log.types.get(_as_logged(text, log))
    if kind is not None:
        return None if is_number(kind) else f"column {text!r} is {kind}, but a score is a number"
    problem = find_expression_problem(text)
    if problem is not None or list_columns(text) == (text.lower(),):
        lacks = f"the impressions have no column {text!r}{suggest_near_name(text, log.types)}"
        return (
            lacks
            if problem is None or re.fullmatch(r"\w+", text)
            else f"{lacks}; as an expression {problem}"
        )
    readable = {name.lower() for name in (*SCORE_COLUMNS & log.mapped.keys(), *log.types)}
    for read in list_columns(text):
        if read in ("click", "dwell", "dwell_ms"):
            return f"{text!r} reads {read!r}, which is known only after the score"
        if read not in readable:
            what = f"{text!r} reads {read!r}, which the impressions do not have"
            return what + suggest_near_name(read, log.types)
    return None


def list_columns_read(
    experiment: Experiment, metrics: Sequence[definition.Metric], schema: LogSchema
) -> list[str]:
    """List the impression columns that this analysis reads, as the log names them."""
    log, has = schema.impressions, schema.needs_met(experiment.unit)
    needs = {need for metric in metrics if metric.needs <= has for need in metric.needs}
    texts = [*experiment.row_segments.values(), *experiment.cuts.values()]
    text_columns = {name.lower() for text in texts for name in list_columns(text)}
    canonical = {"unit_id", "variant", "ts", "click", *needs, *text_columns}
    served = {*schema.score_of.values()} if "score" in needs else set[str]()
    scores = {text: [text] for text, name in schema.scores.items() if name in served}
    scores |= {
        t: [*list_own_columns([t], log, SCORE_COLUMNS)] for t in schema.blends if t in scores
    }
    mapped = [column for name, column in log.mapped.items() if name in canonical]
    return list(dict.fromkeys([*mapped, *chain(*scores.values()), *schema.own_columns]))


def find_quantile_columns(
    schema: LogSchema, experiment: Experiment, metric: definition.Metric
) -> dict[str, str]:
    """Find the column that a quantile ranks, for each variant."""
    (value,) = definition.list_event_terms(metric)
    return {variant: schema.event(value, variant) for variant in experiment.variants}


def list_own_columns(
    texts: Sequence[str], log: LogColumns, canonical: Collection[str]
) -> tuple[str, ...]:
    """List the log's columns that expressions read besides canonical ones."""
    own_columns: dict[str, None] = {}
    available = {name.lower() for name in (*canonical, *log.types)}
    for text in texts:
        missing = [column for column in list_columns(text) if column.lower() not in available]
        if missing:
            what = f"expression {text!r} reads {missing[0]!r}, which the {log.log} do not have"
            raise ExperimentError(
                f"{what}{suggest_near_name(missing[0], log.types)}", log.columns_hint
            )
        own_columns |= dict.fromkeys(c for c in list_columns(text) if c.lower() not in canonical)
    return tuple(own_columns)


def name_row_column(name: str) -> str:
    """Name the views' column for a column that an added metric's query reads.

    Example:
        >>> name_row_column("click"), name_row_column("price")
        ('click', 'raw_price')
    """
    return name if name in {*definition.ROW_NEEDS, "in_period", "day"} else name_raw_column(name)


def write_view_expression(
    text: str,
    score: str | None,
    canonical: Collection[str],
    renames: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Write an expression over the views' columns: the log's own get a prefix.

    `renames` has canonical columns that the view calls otherwise.
    """

    def name(column: str) -> str:
        """Return the column of the views; empty for the score of a variant without one."""
        if column.lower() not in canonical:
            return name_raw_column(column)
        if column.lower() in renames:
            return renames[column.lower()]
        return column if column.lower() != "score" else score or ""

    if is_plain(text):
        return replace_plain_columns(
            text, lambda column: quote(view_column) if (view_column := name(column)) else "null"
        )
    # Imported here: only expressions that are more than a column need the parser.
    from abeval.metrics.expressions import replace_columns

    return replace_columns(text, name)


def write_texts(texts: Mapping[str, str], canonical: Collection[str]) -> dict[str, str]:
    """Write the texts of segments or cuts over the views' columns, by name."""
    return {
        name: f"cast({write_view_expression(text, None, canonical)} as varchar)"
        for name, text in texts.items()
    }


@cache
def _write_summand(term: definition.RowTerm | definition.UnitTerm, score: str | None = None) -> str:
    """Write a term as a whole number of each row, 0 without a finite value."""
    text = write_view_expression(term.expression, score, _find_canonical_columns(term))
    if term.resolution is None:
        # A coalesce around what is never null would only make the query longer.
        return text if _NEVER_NULL.fullmatch(text) else f"coalesce({text}, 0)"
    return _write_whole_number(text, term.resolution, " else 0")


_NEVER_NULL = re.compile(r'[0-9]+|"click"|coalesce\("\w+", [0-9]+\)')
"""SQL over the views' columns that has a value in every row."""


def write_row_value(
    term: definition.RowTerm | definition.RowValue, score: str | None = None
) -> str:
    """Write a term as a whole number of each row, null for nothing."""
    text = write_view_expression(term.expression, score, _find_canonical_columns(term))
    # Distinct values are counted, not added: they may be of any type.
    if isinstance(term, definition.RowValue) and term.combine == "count_distinct":
        return text
    return _write_whole_number(text, term.resolution)


def _find_canonical_columns(
    term: definition.RowTerm | definition.UnitTerm | definition.RowValue,
) -> frozenset[str]:
    """Find the canonical columns that a term may read."""
    if isinstance(term, definition.RowValue):
        readable = {IMPRESSIONS: EXPRESSION_COLUMNS, UNITS: UNIT_COLUMNS}
        return readable.get(term.log, _OUTCOME_COLUMNS)
    of_unit = isinstance(term, definition.UnitTerm) or term.of_unit
    return UNIT_COLUMNS if of_unit else EXPRESSION_COLUMNS


def _write_whole_number(text: str, resolution: float | None, otherwise: str = "") -> str:
    """Write a finite number as a multiple of a resolution."""
    if resolution is None:
        return f"cast({text} as bigint)"
    value = f"cast({text} as double)"
    # Whole numbers add up to the same sum in any order of rows.
    rounded = f"cast(round({value} / {resolution!r}) as bigint)"
    # NaN and infinity compare false.
    return f"case when abs({value}) < 1e300 then {rounded}{otherwise} end"
