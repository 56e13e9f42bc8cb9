"""The replay of an experiment's models on its own log."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from abeval.engines.protocol import Engine
from abeval.errors import ExperimentError
from abeval.experiment.model import Experiment
from abeval.logs.prepare import prepare
from abeval.offline import replay_log, score_log
from abeval.offline.definitions import OfflineMetric, metrics_of
from abeval.offline.judge import result_of
from abeval.offline.presets import NoRelevant, Policy, Ties, chosen
from abeval.offline.replay_log import Blend
from abeval.offline.result import ReplayResult
from abeval.offline.run import read_units, run_models
from abeval.offline.scores import ScoreOptions
from abeval.offline.shown import candidates, read_shown, write_rows

Step = Callable[[str], None]

_AT_THRESHOLD = ("precision[threshold]", "recall[threshold]", "f1[threshold]")


@dataclass(frozen=True)
class ReplayOptions:
    """How a replay is done.

    Attributes:
        k: Cut-offs.
        metrics: Ids, instead of all on offer.
        compat: The library whose definitions and policies to follow.
        relevance: `click`, `long_click`, `dwell` (seconds), or an expression over the impression.
        ties: Instead of the policy's.
        no_relevant: Instead of the policy's.
        threshold: The score from which on a click is predicted.
        kept_negatives: Share of non-clicks that the models were trained on, to be undone.
        bins: Of the calibration curve and error.
        blend: Shares of the treatment's model in a blend with control's.
    """

    k: Sequence[int] = (1, 5, 10)
    metrics: Sequence[str] | None = None
    compat: str | None = None
    relevance: str = "click"
    ties: Ties | None = None
    no_relevant: NoRelevant | None = None
    threshold: float | None = None
    kept_negatives: float | None = None
    blend: Sequence[float] = ()
    bins: int = 10


def replay(
    experiment: Experiment,
    engine: Engine,
    frames: Mapping[str, object],
    step: Step,
    options: ReplayOptions,
) -> ReplayResult:
    """Score every model of an experiment on its own log.

    Args:
        experiment: Whose models and logs they are.
        engine: Where the queries run.
        frames: Logs given from Python, by name.
        step: Told the name of each step as it begins.
        options: What to compute, and how.

    Raises:
        ExperimentError: An unknown metric, preset or model.
        LogError: The logs do not have what a replay needs.
    """
    metrics, policy = _wanted(options)
    relevance = replay_log.relevance_metric(experiment, options.relevance)
    terms = [] if relevance is None else [relevance]
    extra = replay_log.score_columns(experiment)
    prepared = prepare(experiment, terms, engine, frames, step, extra)
    step("candidates")
    shape = prepared.shape
    replay_log.name_rows(experiment, engine, shape, options.relevance, relevance)
    blends = _blends(experiment, options.blend)
    scores = replay_log.model_scores(experiment, shape, options.kept_negatives, blends)
    units = read_units(engine)
    rows = None
    if experiment.logs.scores is None:
        has_requests = "request_id" in shape.impressions
        fetched = read_shown(engine, scores, policy.ties, has_requests)
        rows = None if fetched is None else fetched.of_units(units.ids)
    accounts = write_rows(engine, rows, metrics)
    sources = candidates(scores, policy.ties)
    listed = score_log.add_score_log(
        experiment, engine, frames, policy.ties, accounts, list(sources)
    )
    models = replay_log.replayed(experiment, shape, sources | listed, list(listed), rows)
    score_options = ScoreOptions(options.threshold, options.bins)
    sums = run_models(engine, models, units, metrics, policy, score_options, step)
    step("inference")
    return result_of(
        *(sums, metrics, policy),
        alpha=experiment.alpha,
        same_lists=models.same_lists,
        control=experiment.variants[experiment.control].model,
        accounting=accounts,
        notes=_notes("request_id" in shape.impressions, options),
    )


def _wanted(options: ReplayOptions) -> tuple[tuple[OfflineMetric, ...], Policy]:
    if options.kept_negatives is not None and not 0 < options.kept_negatives <= 1:
        what = f"kept_negatives {options.kept_negatives} is not a share between 0 and 1"
        raise ExperimentError(what, "0.1 where one non-click in ten was kept")
    metrics, policy = chosen(options.compat, options.k, options.metrics)
    if options.threshold is not None and options.metrics is None:
        metrics += metrics_of(_AT_THRESHOLD)
    if options.threshold is None and any(m.definition.variant == "threshold" for m in metrics):
        raise ExperimentError("a [threshold] metric needs a threshold", "such as threshold=0.5")
    ties, no_relevant = options.ties or policy.ties, options.no_relevant or policy.no_relevant
    return metrics, replace(policy, ties=ties, no_relevant=no_relevant)


def _blends(experiment: Experiment, shares: Sequence[float]) -> list[Blend]:
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


def _notes(has_requests: bool, options: ReplayOptions) -> list[str]:
    notes = [
        "offline values rest on what was shown: an item that no variant showed has no click",
        f"relevance: {options.relevance}",
    ]
    if not has_requests:
        notes.append("the log has no request_id: all that a unit was shown is one list")
    if options.kept_negatives is not None:
        notes.append(f"scores corrected for negatives sampled at {options.kept_negatives:g}")
    return notes
