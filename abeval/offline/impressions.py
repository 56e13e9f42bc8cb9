"""Make candidates of an experiment's impressions: models, scores and relevance."""

from collections.abc import Mapping, Sequence

from abeval.engines.sql import literal
from abeval.errors import LogError
from abeval.experiment.model import Experiment
from abeval.logs.run import Run
from abeval.logs.shape import EXPRESSION_COLUMNS, LogSchema, write_view_expression
from abeval.metrics.definition import Metric, Need, RowTerm
from abeval.offline.candidates import (
    UNIT_GROUPS,
    JudgedLog,
    write_cutoff_columns,
    write_finite,
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


def define_relevance(experiment: Experiment, name: str) -> Metric | None:
    """Return the metric that sums relevance by an expression; None of any other relevance."""
    if name in ("click", "dwell", SIMILARITY):
        return None
    text = name
    if name == "long_click":
        long_ms = round(experiment.clicks.long_seconds * 1000)
        text = f"case when click = 1 and dwell_ms >= {long_ms} then 1 else 0 end"
    term = RowTerm(text, scale=_RESOLUTION, resolution=_RESOLUTION)
    return Metric("relevance", "mean", text, value=term)


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


def _write_grade(experiment: Experiment, schema: LogSchema, relevance: str) -> str:
    """Return SQL of the grade of an impression."""
    metric = define_relevance(experiment, relevance)
    if metric is not None and metric.value is not None:
        column = schema.component(metric.value, experiment.control)
        # Errors are of any relevance; metrics of ranking count what is not above 0 as none.
        return f"coalesce({column} * {_RESOLUTION!r}, 0.0e0)"
    if relevance == "dwell":
        return f"coalesce({write_finite('dwell_ms / 1000.0e0')}, 0)"
    if relevance == SIMILARITY:
        # A clicked item is most like itself, whether or not it has a vector.
        return "case when click = 1 then 1.0e0 else coalesce(similarity, 0.0e0) end"
    return "cast(click as double)"


PART_COLUMNS = EXPRESSION_COLUMNS - {"score"}
"""Canonical columns that the expression of a part may read; `score` is the log's own column."""

_NOTHING = (
    "nothing to replay: no unit of a variant has an impression in the period",
    "check logs.impressions.path, [period], timezone and [variants]",
)


def write_impressions(
    run: Run,
    schema: LogSchema,
    relevance: str,
    part: Expression | None = None,
    cutoffs: Sequence[Expression] = (),
) -> JudgedLog:
    """Write the impressions of an experiment, or of a part, without models."""
    where, units_sql = "in_period", "select unit_id, variant as traffic"
    if part is not None:
        where = f"in_period and ({write_view_expression(part.text, None, PART_COLUMNS)})"
        # The units of a part are one traffic with its name, whatever their variant.
        units_sql = f"select unit_id, {literal(part.name)} as traffic"
    check_relevance(schema, relevance)
    # Without ids of items, its position tells a row of a request from the others.
    item = "item_id" if "item_id" in schema.impressions else "position"
    request = "request_id" if "request_id" in schema.impressions else "unit_id"
    selected = ["unit_id", f"{request} as request_id", f"{item} as item_id", "position", "category"]
    # Without models there is one score, the plain `score` column, first in the view.
    columns = dict.fromkeys(schema.model_scores.values() or schema.scores.values())
    selected += [f"{column} as {column.replace('score_', 'm_')}" for column in columns]
    selected += write_cutoff_columns(
        write_view_expression(cutoff.text, None, PART_COLUMNS) for cutoff in cutoffs
    )
    source = "impressions"
    if relevance == SIMILARITY:
        write_similar_items(run.engine, "in_period")
        source = (
            "impressions left join (select unit_id as of_unit, item_id as of_item, similarity "
            "from similar_items) as s on unit_id = of_unit and item_id = of_item"
        )
    grade = _write_grade(run.experiment, schema, relevance)
    # Only units with a row in a part are units of it.
    seen = f" semi join (select unit_id from impressions where {where}) i on u.unit_id = i.unit_id"
    return JudgedLog(
        rows=f"select {', '.join(selected)}, {grade} as grade from {source} where {where}",
        # Sub-buckets are hashes of units, so the groups are random and the same on each run.
        units=f"{units_sql}, sub_bucket % {UNIT_GROUPS} as unit_group from units u"
        f"{'' if part is None else seen}",
        nothing=_NOTHING,
    )
