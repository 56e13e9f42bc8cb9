"""What makes an item relevant: a click, its dwell, a ground truth, or an expression of the user.

`offline/replay.py` makes the `Relevance` of the option of that name;
`offline/candidates/impressions.py` takes from it the grade of each impression.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from abeval.engines.protocol import Engine
from abeval.errors import LogError
from abeval.experiment.model import Experiment
from abeval.logs.shape import LogShape
from abeval.metrics.definition import Metric, Need, RowTerm
from abeval.offline.candidates import finite_sql
from abeval.offline.other_logs import SIMILARITY, TRUTH, write_similar_items

RESOLUTION = 1e-6
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
        name: `click`, `long_click`, `dwell`, `similarity`, `truth`, or an expression.
        metric: The expression as a metric, computed with the impressions; None for the others.
        truth: The key of the truth log, `request_id` or `unit_id`; None unless relevance is that.
    """

    name: str
    metric: Metric | None
    truth: str | None = None


def relevance_metric(experiment: Experiment, relevance: str) -> Metric | None:
    """The metric of a relevance that is an expression over the impression, else None."""
    if relevance in ("click", "dwell", SIMILARITY, TRUTH):
        return None
    if relevance == "long_click":
        long_ms = round(experiment.clicks.long_seconds * 1000)
        relevance = f"case when click = 1 and dwell_ms >= {long_ms} then 1 else 0 end"
    term = RowTerm(relevance, scale=RESOLUTION, resolution=RESOLUTION)
    return Metric("relevance", "mean", relevance, value=term)


def check_relevance(shape: LogShape, relevance: str) -> None:
    """Refuse logs that lack what relevance or a replay needs.

    Raises:
        LogError: A column or a log is missing.
    """
    hint = 'map it: [logs.impressions] columns = { item_id = "..." }'
    if "item_id" not in shape.impressions and "position" not in shape.impressions:
        what = "a replay needs the items that were shown, but there is no column item_id"
        raise LogError(what, hint)
    if relevance in (SIMILARITY, TRUTH) and "item_id" not in shape.impressions:
        what = f"relevance = {relevance!r} needs item_id, which the impressions lack"
        raise LogError(what, hint)
    for need in _NEEDS.get(relevance, ()):
        if need not in shape.needs_met(""):
            raise LogError(
                f"relevance = {relevance!r} needs {need}, which the logs do not have",
                "add [logs.clicks], map the column, or choose another relevance",
            )


def graded_impressions(
    experiment: Experiment, engine: Engine, shape: LogShape, relevance: Relevance, where: str
) -> tuple[str, str]:
    """SQL of the grade, and of the impressions it is read from; of any relevance but `truth`."""
    metric = relevance.metric
    if metric is not None and metric.value is not None:
        column = shape.component(metric.value, experiment.control)
        return f"greatest({column} * {RESOLUTION!r}, 0.0e0)", "impressions"
    if relevance.name == "dwell":
        return finite_sql("dwell_ms / 1000.0e0", 0), "impressions"
    if relevance.name != SIMILARITY:
        return "cast(click as double)", "impressions"
    write_similar_items(engine, where)
    # A clicked item is most like itself, whether or not it has a vector.
    grade = "case when click = 1 then 1.0e0 else coalesce(similarity, 0.0e0) end"
    return grade, (
        "impressions left join (select unit_id as of_unit, item_id as of_item, similarity "
        "from similar_items) as s on unit_id = of_unit and item_id = of_item"
    )
