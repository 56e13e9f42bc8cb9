"""The shape of the views, from the columns of the logs and what the metrics read of them.

`prepare.py` calls `shape_of` once it knows the columns.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from abeval.errors import LogError
from abeval.experiment.model import Experiment
from abeval.experiment.problems import near_miss
from abeval.experiment.segment_rules import of_impressions
from abeval.experiment.sources import OUTCOME
from abeval.logs.mapping import LogColumns, is_number, no_column
from abeval.logs.row_sql import (
    EXPRESSION_COLUMNS,
    OUTCOME_COLUMNS,
    canonical_columns,
    component_sql,
    event_sql,
    in_view_names,
    own_columns_of,
    row_value_sql,
)
from abeval.logs.shape import CLICKED, SCORED, LogShape, OutcomeShape
from abeval.logs.unit_table import UNITS, unit_table
from abeval.metrics.definition import Metric, Need, RowTerm, event_terms, row_terms, row_values
from abeval.metrics.per_unit import RowValue


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
    read = _read(metrics, shape.needs_met(experiment.unit))
    parts = {**of_impressions(experiment), **experiment.cuts}
    own = _own_columns(experiment, read, parts.values(), impressions)
    served = list(dict.fromkeys(score_of.get(variant) for variant in experiment.variants))
    named = _as_text(experiment, parts)
    table = experiment.unit_table
    return replace(
        shape,
        components=_components(read, served, score_of.values()),
        # The impressions have nothing of a segment that is known from the exposure.
        segments={name: named.get(name, "cast('' as varchar)") for name in experiment.segments},
        cuts={name: named[name] for name in experiment.cuts},
        own_columns=own,
        kept_columns=_with_extra(own, extra, impressions),
        events=_events(read, served),
        outcomes=_outcomes(experiment, read, logs),
        table=None if table is None else unit_table(logs[UNITS], table, read.metrics),
    )


class _Read(NamedTuple):
    """What metrics read of the logs.

    Attributes:
        metrics: Those that these logs can give.
        summed: Their terms that are summed over impressions.
        ranked: The values that quantiles rank.
        values: What rows of logs are worth since exposure.
    """

    metrics: list[Metric]
    summed: list[RowTerm]
    ranked: list[RowTerm]
    values: list[RowValue]

    def of_log(self, name: str) -> list[RowValue]:
        """The values of the rows of one log."""
        return [value for value in self.values if value.log == name]


def _read(metrics: Sequence[Metric], has: frozenset[Need]) -> _Read:
    met = [metric for metric in metrics if metric.needs <= has]
    return _Read(
        met,
        summed=[term for metric in met for term in row_terms(metric)],
        ranked=[term for metric in met for term in event_terms(metric)],
        values=[value for metric in met for value in row_values(metric)],
    )


def _own_columns(
    experiment: Experiment, read: _Read, parts: Iterable[str], impressions: LogColumns
) -> tuple[str, ...]:
    """The columns of the impressions that expressions read under names of the log."""
    texts = [term.expression for term in (*read.summed, *read.ranked)]
    texts += [value.expression for value in read.of_log("impressions")]
    return own_columns_of([*texts, *parts], impressions, canonical_columns(experiment.of_units))


def _as_text(experiment: Experiment, parts: Mapping[str, str]) -> dict[str, str]:
    """Segments and cuts of impressions as SQL over the columns of the views."""
    canonical = canonical_columns(experiment.of_units)
    return {
        name: f"cast({in_view_names(text, None, canonical)} as varchar)"
        for name, text in parts.items()
    }


def _components(
    read: _Read, served: Sequence[str | None], scores: Iterable[str]
) -> tuple[str, ...]:
    """What is summed of the impressions of a unit."""
    known = [component_sql(CLICKED, None)]
    if any("score" in metric.needs for metric in read.metrics):
        known += [component_sql(SCORED, score) for score in scores]
    sums = [component_sql(term, score) for term in read.summed for score in served]
    return tuple(dict.fromkeys(["1", *known, *sums]))


def _events(read: _Read, served: Sequence[str | None]) -> tuple[str, ...]:
    """What is kept of single impressions."""
    ranked = [event_sql(term, score) for term in read.ranked for score in served]
    values = [row_value_sql(one, EXPRESSION_COLUMNS) for one in read.of_log("impressions")]
    return tuple(dict.fromkeys([*ranked, *values]))


def _outcomes(
    experiment: Experiment, read: _Read, logs: Mapping[str, LogColumns]
) -> dict[str, OutcomeShape]:
    """The outcome logs that metrics read."""
    return {
        name: _outcome_shape(logs[OUTCOME + name], values)
        for name in experiment.logs.events
        if (values := read.of_log(name))
    }


def _outcome_shape(log: LogColumns, values: Sequence[RowValue]) -> OutcomeShape:
    texts = [value.expression for value in values]
    return OutcomeShape(
        log,
        tuple(dict.fromkeys(row_value_sql(value, OUTCOME_COLUMNS) for value in values)),
        own_columns_of(texts, log, OUTCOME_COLUMNS),
    )


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
