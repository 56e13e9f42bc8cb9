"""Make candidates of an experiment's impressions: models, scores and relevance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from abeval.engines.sql import literal
from abeval.errors import LogError
from abeval.experiment.model import Experiment
from abeval.logs.run import Run
from abeval.logs.shape import EXPRESSION_COLUMNS, LogSchema, write_view_expression
from abeval.metrics.definition import Metric, Need, RowTerm
from abeval.offline.candidates import (
    UNIT_GROUPS,
    Units,
    name_rows,
    write_cutoff_columns,
    write_finite,
    write_units,
)
from abeval.offline.expressions import Expression
from abeval.offline.other_logs import SIMILARITY, write_similar_items

_PLAIN_MODEL = "score"
"""The name of the model of a log with one plain `score` column."""


def model_scores(schema: LogSchema, kept_negatives: float | None) -> dict[str, str]:
    """Return model → SQL of its score, for models scored in the impressions."""
    scores = {name: score.replace("score_", "m_") for name, score in schema.model_scores.items()}
    if not scores and schema.scores:
        scores = {_PLAIN_MODEL: "m_1"}
    if kept_negatives is not None:
        # Undo negative sampling: q = p / (p + (1 − p) / w), w the share of negatives kept.
        scores = {
            m: f"{p} / nullif({p} + (1 - {p}) / {kept_negatives!r}, 0)" for m, p in scores.items()
        }
    return scores


# Whole multiples have the same sum in each order of adding.
_RESOLUTION = 1e-6
"""Relevance by an expression is rounded to multiples of this."""

_NEEDS: Mapping[str, tuple[Need, ...]] = {
    "click": ("click",),
    "long_click": ("click", "dwell"),
    "dwell": ("dwell",),
    SIMILARITY: ("click",),
}


@dataclass(frozen=True)
class Relevance:
    """What makes an item relevant.

    Attributes:
        name: `click`, `long_click`, `dwell`, `similarity`, or an expression.
        metric: What an expression sums; None for any other relevance.
    """

    name: str
    metric: Metric | None


def define_relevance(experiment: Experiment, name: str) -> Relevance:
    """Return what makes an item relevant, by its name or expression."""
    if name in ("click", "dwell", SIMILARITY):
        return Relevance(name, None)
    text = name
    if name == "long_click":
        long_ms = round(experiment.clicks.long_seconds * 1000)
        text = f"case when click = 1 and dwell_ms >= {long_ms} then 1 else 0 end"
    term = RowTerm(text, scale=_RESOLUTION, resolution=_RESOLUTION)
    return Relevance(name, Metric("relevance", "mean", text, value=term))


def check_relevance(schema: LogSchema, relevance: str) -> None:
    """Refuse logs that lack a column or a log that relevance or a replay needs."""
    hint = 'map it: [logs.impressions] columns = { item_id = "..." }'
    if "item_id" not in schema.impressions and "position" not in schema.impressions:
        what = "a replay needs the items that were shown, but there is no column item_id"
        raise LogError(what, hint)
    if relevance == SIMILARITY and "item_id" not in schema.impressions:
        what = f"relevance = {relevance!r} needs item_id, which the impressions lack"
        raise LogError(what, hint)
    for need in _NEEDS.get(relevance, ()):
        if need not in schema.needs_met(""):
            raise LogError(
                f"relevance = {relevance!r} needs {need}, which the logs do not have",
                "add [logs.clicks], map the column, or choose another relevance",
            )


def _write_grade(experiment: Experiment, schema: LogSchema, relevance: Relevance) -> str:
    """Return SQL of the grade of an impression."""
    if relevance.metric is not None and relevance.metric.value is not None:
        column = schema.component(relevance.metric.value, experiment.control)
        # Errors are of any relevance; metrics of ranking count what is not above 0 as none.
        return f"coalesce({column} * {_RESOLUTION!r}, 0.0e0)"
    if relevance.name == "dwell":
        return f"coalesce({write_finite('dwell_ms / 1000.0e0')}, 0)"
    if relevance.name == SIMILARITY:
        # A clicked item is most like itself, whether or not it has a vector.
        return "case when click = 1 then 1.0e0 else coalesce(similarity, 0.0e0) end"
    return "cast(click as double)"


PART_COLUMNS = EXPRESSION_COLUMNS - {"score"}
"""Canonical columns that the expression of a part may read; `score` is the log's own column."""


def write_impressions(
    run: Run,
    schema: LogSchema,
    relevance: Relevance,
    part: Expression | None = None,
    cutoffs: Sequence[Expression] = (),
) -> Units:
    """Make `candidate_rows` and `traffic` of an experiment, or of a part.

    Return its units.
    """
    experiment, engine = run.experiment, run.engine
    where, units_sql = "in_period", "select unit_id, variant as traffic"
    if part is not None:
        where = f"in_period and ({write_view_expression(part.text, None, PART_COLUMNS)})"
        # The units of a part are one traffic with its name, whatever their variant.
        units_sql = f"select unit_id, {literal(part.name)} as traffic"
    check_relevance(schema, relevance.name)
    # Without models there is one score, the plain `score` column, first in the view.
    columns = dict.fromkeys(schema.model_scores.values() or schema.scores.values())
    scores = [f"{column} as {column.replace('score_', 'm_')}" for column in columns]
    # Without ids of items, its position tells a row of a request from the others.
    item = "item_id" if "item_id" in schema.impressions else "position"
    request = "request_id" if "request_id" in schema.impressions else "unit_id"
    keys = ["unit_id", f"{request} as request_id", f"{item} as item_id", "position", "category"]
    own_k = write_cutoff_columns(
        write_view_expression(cutoff.text, None, PART_COLUMNS) for cutoff in cutoffs
    )
    select, source = f"select {', '.join([*keys, *scores, *own_k])}", "impressions"
    if relevance.name == SIMILARITY:
        write_similar_items(engine, "in_period")
        source = (
            "impressions left join (select unit_id as of_unit, item_id as of_item, similarity "
            "from similar_items) as s on unit_id = of_unit and item_id = of_item"
        )
    grade = _write_grade(experiment, schema, relevance)
    name_rows(engine, f"{select}, {grade} as grade from {source} where {where}")
    # Only units with a row in a part are units of it.
    seen = "" if part is None else f" semi join (select unit_id from impressions where {where}) i"
    on = seen and f"{seen} on u.unit_id = i.unit_id"
    # Sub-buckets are hashes of units, so the groups are random and the same on each run.
    return write_units(
        engine, f"{units_sql}, sub_bucket % {UNIT_GROUPS} as unit_group from units u{on}"
    )
