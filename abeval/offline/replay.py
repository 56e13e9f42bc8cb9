"""Replay an experiment's models on its own log."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from abeval.calls import explain_types
from abeval.errors import ExperimentError, LogError, QueryError
from abeval.experiment.model import Experiment
from abeval.logs.prepare import Extra, find_faulty_expression, prepare
from abeval.logs.run import Inputs, Run, open_run
from abeval.logs.shape import LogSchema, list_own_columns
from abeval.offline import impressions, metrics
from abeval.offline.candidates import write_candidates
from abeval.offline.estimates import evaluate_parts
from abeval.offline.expressions import Expression
from abeval.offline.metrics import EvaluationOptions, Scoring
from abeval.offline.sums import Sums, sum_models
from abeval.results.replay import ReplayResult

_AT_THRESHOLD = ("precision[threshold]", "recall[threshold]", "f1[threshold]")


class ReplayOptions(EvaluationOptions, total=False):
    """Keywords of a replay besides the logs, as `abeval replay` has them.

    Attributes:
        relevance: What makes an item relevant: `click`, as without it, `long_click`, `dwell`
            (seconds), `similarity` (to the items the unit clicked, by their vectors), or an SQL
            expression over the impression.
        kept_negatives: Share of non-clicks, in (0, 1], that the models were trained on; scores are
            corrected for it. Without, all were kept.
    """

    relevance: str
    kept_negatives: float | None


_OPTIONS = ReplayOptions.__annotations__


class ReplayKeywords(ReplayOptions, Inputs, total=False):
    """Keywords of `LoadedExperiment.replay`."""


def choose_replay_scoring(options: ReplayOptions, alpha: float) -> Scoring:
    """Return the metrics and the policy of a replay, with intervals at level `alpha`."""
    kept = options.get("kept_negatives")
    if kept is not None and not 0 < kept <= 1:
        what = f"kept_negatives {kept} is not a share between 0 and 1"
        raise ExperimentError(what, "0.1 if one non-click in ten was kept")
    scoring = metrics.choose_scoring(options, alpha)
    # Whoever names metrics gets those alone.
    if scoring.threshold is not None and options.get("metrics") is None:
        at_threshold = metrics.parse_metrics(_AT_THRESHOLD)
        scoring = replace(scoring, metrics=(*scoring.metrics, *at_threshold))
    needs = any(metric.definition.variant == "threshold" for metric in scoring.metrics)
    if scoring.threshold is None and needs:
        raise ExperimentError("a [threshold] metric needs a threshold", "such as threshold=0.5")
    return scoring


def _write_notes(options: ReplayOptions, has_requests: bool) -> Iterator[str]:
    """Note what a reader of the result needs to know."""
    yield "offline values rest on what was shown: only shown items can be clicked"
    relevance, kept = options.get("relevance", "click"), options.get("kept_negatives")
    yield f"relevance: {relevance}"
    if relevance == impressions.SIMILARITY:
        yield (
            "a model that was trained on these vectors judges itself; metrics of binary relevance "
            "count every item with a cosine above 0 as relevant"
        )
    if not has_requests:
        yield "the log has no request_id: all items shown to a unit form one list"
    if kept is not None:
        yield f"scores corrected for negatives sampled at {kept:g}"


def choose_columns(scoring: Scoring) -> Extra:
    """Choose the columns of the impressions that parts and cut-offs read."""
    texts = [one.text for one in (*scoring.parts, *scoring.cutoffs)]
    return lambda log: list_own_columns(texts, log, impressions.PART_COLUMNS)


@explain_types
def replay(
    run: Run, options: ReplayOptions, schema: LogSchema | None = None, also: Sequence[str] = ()
) -> ReplayResult:
    """Score every model of an experiment on its own log.

    A `schema` is that of logs that were prepared with the scores; without it they are opened.
    Metrics of `also` are computed beside those that the options ask for.

    Raises:
        LogError: There is no model, or nothing to replay.
    """
    experiment, relevance = run.experiment, options.get("relevance", "click")
    scoring = choose_replay_scoring(options, experiment.alpha)
    # By id, so that a metric that is asked for twice is computed once.
    every = {metric.id: metric for metric in (*scoring.metrics, *metrics.parse_metrics(also))}
    scoring = replace(scoring, metrics=tuple(every.values()))
    if schema is None:
        metric = impressions.define_relevance(experiment, relevance)
        schema = prepare(run, [] if metric is None else [metric], choose_columns(scoring)).schema
    for part in scoring.parts:
        if part.name in experiment.variants:
            what = f"where: {part.name!r} is the name of a variant, whose traffic has rows"
            raise ExperimentError(what, "name the part otherwise")
    run.step("candidates")
    models = _open_models(run, schema, options, scoring)

    def sum_part(part_scoring: Scoring, part: Expression | None) -> Sums:
        log = impressions.write_impressions(run, schema, relevance, part, part_scoring.cutoffs)
        try:
            candidates = write_candidates(run.engine, replace(log, **models), part_scoring, part)
        except QueryError as error:
            # Scores of models are expressions too, and the engine does not say which has failed.
            raise find_faulty_expression(run, [], schema, error) from error
        return sum_models(run.engine, candidates, part_scoring, run.step)

    result, _ = evaluate_parts(
        sum_part,
        scoring,
        run.step,
        name=experiment.name,
        control=experiment.variants[experiment.control].model,
        notes=tuple(_write_notes(options, "request_id" in schema.impressions)),
    )
    return replace(result, questions=tuple(experiment.questions))


def _open_models(
    run: Run, schema: LogSchema, options: ReplayOptions, scoring: Scoring
) -> dict[str, Any]:
    """Open what the log of a replay has besides impressions.

    Return entries of the log's `JudgedLog`.
    """
    scores = impressions.model_scores(schema, options.get("kept_negatives"))
    lists = impressions.open_scores(run, scores)
    if not scores and not lists:
        raise LogError(
            "there is no model to replay",
            'give [models.NAME] score = "COLUMN", map score in logs.impressions, or [logs.scores]',
        )
    entries: dict[str, Any] = {
        "scores": scores,
        "lists": lists,
        "list_counts": impressions.SCORE_COUNTS,
    }
    reader = impressions.needs_vectors(scoring.metrics, options.get("relevance", "click"))
    if reader is not None:
        impressions.write_vectors(run.engine, schema.items, reader)
        entries["vectors"] = "select * from vectors"
    if run.experiment.pre_period is not None and "item_id" in schema.impressions:
        # Only clicks before the period: what a model itself brought is no news to it.
        clicked = "not in_period and click = 1 and item_id is not null"
        rows = f"select unit_id, item_id from impressions where {clicked}"
        # A table: items are numbered, counted and ranked by it, each in a pass over the log.
        run.engine.table("earlier_choices", rows)
        entries["history"] = "select unit_id, item_id from earlier_choices"
    if schema.items is not None:
        entries["catalogue"] = "select item_id from items"
    return entries


def split_keywords(keywords: ReplayKeywords) -> tuple[ReplayOptions, Inputs]:
    """Split keywords into the options of a replay and what says which logs to read."""
    own = {name: value for name, value in keywords.items() if name in _OPTIONS}
    rest = {name: value for name, value in keywords.items() if name not in _OPTIONS}
    return cast("ReplayOptions", own), cast("Inputs", rest)


def replay_logs(experiment: Experiment, keywords: ReplayKeywords) -> ReplayResult:
    """Open the logs of an experiment and replay its models."""
    options, inputs = split_keywords(keywords)
    with open_run(experiment, inputs) as run:
        return replay(run, options)
