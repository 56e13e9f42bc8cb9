"""The log of an experiment as candidates to be replayed: what was shown, and each model's score."""

from collections.abc import Mapping, Sequence

from abeval.engines.protocol import Engine
from abeval.engines.sql import quoted
from abeval.errors import ExperimentError, LogError
from abeval.experiment.model import Experiment
from abeval.experiment.problems import suggestion
from abeval.logs.shape import LogShape, own_name
from abeval.metrics.definition import Metric, Need, RowTerm
from abeval.offline.candidates.rows import Rows
from abeval.offline.candidates.shown import finite
from abeval.offline.candidates.truth_log import TRUTH, write_judged
from abeval.offline.candidates.vectors import SIMILARITY, write_similar_items
from abeval.offline.estimates.jackknife import UNIT_GROUPS
from abeval.offline.sums.sums import Replayed
from abeval.results.replayed_models import Blend

RESOLUTION = 1e-6
"""Relevance given by an expression is rounded to multiples of this."""

PLAIN_MODEL = "score"
"""What the model of a log with one plain `score` column is called."""


def score_columns(experiment: Experiment) -> list[str]:
    """The impression columns that models are scored by."""
    return list(dict.fromkeys(model.score for model in experiment.models.values()))


def relevance_metric(experiment: Experiment, relevance: str) -> Metric | None:
    """An expression of relevance as a term to be computed with the rows; None for a named one."""
    long_ms = round(experiment.clicks.long_seconds * 1000)
    named = {
        "click": None,
        "dwell": None,
        SIMILARITY: None,
        TRUTH: None,
        "long_click": f"case when click = 1 and dwell_ms >= {long_ms} then 1 else 0 end",
    }
    expression = named.get(relevance, relevance)
    if expression is None:
        return None
    term = RowTerm(expression, scale=RESOLUTION, resolution=RESOLUTION)
    return Metric("relevance", "mean", expression, value=term)


def name_rows(
    experiment: Experiment,
    engine: Engine,
    shape: LogShape,
    relevance: str,
    metric: Metric | None,
    truth: str | None,
    where: str = "in_period",
) -> None:
    """Make the views `candidate_rows`, `analysed_rows` of analysed units, and `traffic`.

    Args:
        experiment: Whose logs they are.
        engine: Has the views of `prepare`.
        shape: What the logs have.
        relevance: What makes an item relevant.
        metric: Its expression, where it is one.
        truth: What the ground truth is about, where relevance is that.
        where: SQL: which impressions count.

    Raises:
        LogError: The log does not have what a replay needs.
    """
    _check(shape, relevance)
    columns = _columns(experiment, shape)
    scores = [f"{finite(column)} as m_{i}" for i, column in enumerate(columns)]
    item = "item_id" if "item_id" in shape.impressions else "position"
    request = "request_id" if "request_id" in shape.impressions else "unit_id"
    keys = ["unit_id", f"{request} as request_id", f"{item} as item_id", "position", "category"]
    shown = f"select {', '.join([*keys, *scores])}"
    if truth is not None:
        engine.view("shown_rows", f"{shown} from impressions where {where}")
        write_judged(engine, truth, [f"m_{i}" for i in range(len(columns))])
    else:
        grade, source = _grade(experiment, shape, relevance, metric), "impressions"
        if relevance == SIMILARITY:
            write_similar_items(engine, where)
            source += (
                " left join (select unit_id as of_unit, item_id as of_item, similarity "
                "from similar_items) as s on unit_id = of_unit and item_id = of_item"
            )
        engine.view("candidate_rows", f"{shown}, {grade} as grade from {source} where {where}")
    engine.view(
        "analysed_rows", "select s.* from candidate_rows s join units u on s.unit_id = u.unit_id"
    )
    group = f"sub_bucket % {UNIT_GROUPS} as unit_group"
    engine.view("traffic", f"select unit_id, variant as traffic, {group} from units")


def _columns(experiment: Experiment, shape: LogShape) -> list[str]:
    """The columns of scores as the view of impressions calls them."""
    by_lower = {column.lower(): column for column in shape.impressions.types}
    named = [quoted(own_name(by_lower[c.lower()])) for c in score_columns(experiment)]
    # Without models the plain `score` column, which the view has as its first, is the only one.
    return named or [f"score_{i}" for i in range(1, len(shape.scores) + 1)]


def _check(shape: LogShape, relevance: str) -> None:
    has = shape.needs_met("")
    if "item_id" not in shape.impressions and "position" not in shape.impressions:
        what = "a replay needs the items that were shown, and there is no column item_id"
        raise LogError(what, 'map it: [logs.impressions] columns = { item_id = "..." }')
    if relevance in (SIMILARITY, TRUTH) and "item_id" not in shape.impressions:
        what = f"relevance = {relevance!r} needs item_id, which the impressions lack"
        raise LogError(what, 'map it: [logs.impressions] columns = { item_id = "..." }')
    needed: Mapping[str, tuple[Need, ...]] = {
        **{"click": ("click",), "long_click": ("click", "dwell"), "dwell": ("dwell",)},
        SIMILARITY: ("click",),
    }
    for need in needed.get(relevance, ()):
        if need not in has:
            raise LogError(
                f"relevance = {relevance!r} needs {need}, which the logs do not have",
                "give [logs.clicks], map the column, or name another relevance",
            )


def _grade(experiment: Experiment, shape: LogShape, relevance: str, metric: Metric | None) -> str:
    if metric is None or metric.value is None:
        return {
            "click": "cast(click as double)",
            "dwell": finite("dwell_ms / 1000.0e0", 0),
            # A clicked item is most like itself, whether or not it has a vector.
            SIMILARITY: "case when click = 1 then 1.0e0 else coalesce(similarity, 0.0e0) end",
        }[relevance]
    column = shape.component(metric.value, experiment.control)
    return f"greatest({column} * {RESOLUTION!r}, 0.0e0)"


def blends_of(experiment: Experiment, shares: Sequence[float]) -> list[Blend]:
    """Mixtures of control's model with each other that a treatment has.

    Args:
        experiment: Whose models they are.
        shares: Of the treatment's model.

    Raises:
        ExperimentError: There are no two models to mix, or a share is none.
    """
    if not shares:
        return []
    base = experiment.variants[experiment.control].model
    treated = [experiment.variants[name].model for name in experiment.treatments]
    models = [m for m in dict.fromkeys(treated) if m is not None and m != base]
    if base is None or not models:
        raise ExperimentError(
            "a blend needs a model of control and another of a treatment",
            'give [variants.NAME] model = "..."',
        )
    if any(not 0 <= share <= 1 for share in shares):
        raise ExperimentError("the shares of a blend lie between 0 and 1")
    return [Blend(model, base, share) for model in models for share in shares]


def model_scores(
    experiment: Experiment,
    shape: LogShape,
    kept_negatives: float | None,
    blends: Sequence[Blend],
) -> dict[str, str]:
    """Model → the SQL of its score, for the models that are columns of the impressions."""
    columns = score_columns(experiment)
    of = {name: f"m_{columns.index(m.score)}" for name, m in experiment.models.items()}
    if not of and shape.scores:
        of = {PLAIN_MODEL: "m_0"}
    scores = {name: _undone(column, kept_negatives) for name, column in of.items()}
    for blend in blends:
        for name in (blend.model, blend.base):
            if name not in scores:
                raise ExperimentError(f"no model is called {name!r}{suggestion(name, scores)}")
        mixed = f"{blend.alpha!r} * ({scores[blend.model]}) + {1 - blend.alpha!r} * "
        scores[blend.name] = f"{mixed}({scores[blend.base]})"
    return scores


def _undone(column: str, kept: float | None) -> str:
    """The score before negatives were sampled: q = p / (p + (1 − p) / w), w their kept share."""
    if kept is None:
        return column
    return f"{column} / nullif({column} + (1 - {column}) / {kept!r}, 0)"


def replayed(
    experiment: Experiment,
    shape: LogShape,
    sources: Mapping[str, str],
    listed: Sequence[str],
    rows: Rows | None,
) -> Replayed:
    """The models as the runner takes them; what was clicked in the pre-period is the history.

    Args:
        experiment: Whose models they are.
        shape: What its logs have.
        sources: Model → its candidates.
        listed: Models of the scores log, which may list other items than were shown.
        rows: The log as arrays, where it needs no mending.
    """
    if not sources:
        raise LogError(
            "there is no model to replay",
            'give [models.NAME] score = "COLUMN", map score in logs.impressions, or [logs.scores]',
        )
    history = None
    if experiment.pre_period is not None and "item_id" in shape.impressions:
        clicked = "not in_period and click = 1 and item_id is not null"
        history = f"select unit_id, item_id from impressions where {clicked}"
    catalogue = None if shape.items is None else "select item_id from items"
    return Replayed(sources, not listed, history, catalogue, rows)
