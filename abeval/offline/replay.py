"""The replay of an experiment's models on its own log."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from abeval.engines.protocol import Engine
from abeval.errors import ExperimentError, LogError
from abeval.experiment.model import Experiment
from abeval.logs.prepare import prepare
from abeval.logs.shape import LogShape
from abeval.metrics import Metric
from abeval.offline import replay_log
from abeval.offline.curves import curve_metrics, curves
from abeval.offline.definitions import OfflineMetric, at_cutoff, metrics_of
from abeval.offline.judge import Judge, result_of
from abeval.offline.models import Blend, ReplayModel, replayed_models
from abeval.offline.presets import NoRelevant, Policy, Ties, chosen
from abeval.offline.result import ReplayResult
from abeval.offline.run import Sums, read_units, run_models
from abeval.offline.score_log import add_score_log
from abeval.offline.scores import ScoreOptions
from abeval.offline.shown import candidates, read_shown, write_rows
from abeval.offline.slices import (
    check_days,
    cut_by_value,
    gaps,
    parts_of_column,
    parts_of_periods,
    split_of,
)
from abeval.offline.truth_log import TRUTH, longest_shown, open_truth, truth_accounts
from abeval.offline.vectors import (
    SIMILARITY,
    rows_without_vector,
    vectors_asked,
    write_vectors,
)

Step = Callable[[str], None]

_AT_THRESHOLD = ("precision[threshold]", "recall[threshold]", "f1[threshold]")


@dataclass(frozen=True)
class ReplayOptions:
    """How a replay is done.

    Attributes:
        k: Cut-offs.
        metrics: Ids, instead of all on offer.
        compat: The library whose definitions and policies to follow.
        relevance: `click`, `long_click`, `dwell` (seconds), `similarity` (to what the unit
            clicked, by the vectors of items), `truth` (as the truth log has it), or an
            expression over the impression.
        ties: Instead of the policy's.
        no_relevant: Instead of the policy's.
        threshold: The score from which on a click is predicted.
        kept_negatives: Share of non-clicks that the models were trained on, to be undone.
        bins: Of the calibration curve and error.
        blend: Shares of the treatment's model in a blend with control's.
        split: A column that names the split of each impression, or name → its first and last day.
        curve: The largest cut-off of curves over 1, 2, …
        k_by: A column of the impressions, and its value → the cut-off there.
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
    split: str | Mapping[str, tuple[str, str]] | None = None
    curve: int | None = None
    k_by: tuple[str, Mapping[str, int]] | None = None


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
    extra = [*replay_log.score_columns(experiment), *_sliced_by(options)]
    shape = prepare(experiment, terms, engine, frames, step, extra).shape
    step("candidates")
    asked_by = vectors_asked(metrics, options.relevance)
    if asked_by is not None:
        write_vectors(engine, shape.items, asked_by)
    truth = open_truth(experiment, engine, frames) if options.relevance == TRUTH else None
    run = _Run(experiment, engine, frames, shape, options, policy, relevance, truth, step)
    summed = run.sums(metrics)
    control = experiment.variants[experiment.control].model
    step("inference")
    found = result_of(
        *(summed.sums, metrics, policy),
        name=experiment.name,
        alpha=experiment.alpha,
        models=summed.models,
        same_lists=summed.same_lists,
        control=control,
        accounting=summed.accounts,
        notes=_notes("request_id" in shape.impressions, options),
    )
    return replace(found, **_extras(run, metrics, control))


class _Summed(NamedTuple):
    """The sums of some rows.

    Attributes:
        sums: Per unit.
        accounts: What was set aside or merged, counted.
        same_lists: Whether all models order the same items of a request.
        models: What was replayed.
    """

    sums: Sums
    accounts: list[tuple[str, int]]
    same_lists: bool
    models: tuple[ReplayModel, ...]


@dataclass(frozen=True)
class _Run:
    """Replays a prepared log, or a part of it."""

    experiment: Experiment
    engine: Engine
    frames: Mapping[str, object]
    shape: LogShape
    options: ReplayOptions
    policy: Policy
    relevance: Metric | None
    truth: str | None
    step: Step

    def sums(self, metrics: Sequence[OfflineMetric], where: str = "in_period") -> _Summed:
        """The sums of the rows that a condition holds for."""
        experiment, engine, shape, options = self.experiment, self.engine, self.shape, self.options
        graded = (options.relevance, self.relevance, self.truth)
        replay_log.name_rows(experiment, engine, shape, *graded, where)
        blends = _blends(experiment, options.blend)
        scores = replay_log.model_scores(experiment, shape, options.kept_negatives, blends)
        units, ties = read_units(engine), self.policy.ties
        if not units.ids.size:
            what = "nothing to replay: no unit of a variant has an impression in the period"
            raise LogError(what, "check logs.impressions.path, [period], timezone and [variants]")
        rows = None
        if experiment.logs.scores is None:
            fetched = read_shown(engine, scores, ties, "request_id" in shape.impressions)
            rows = None if fetched is None else fetched.of_units(units.ids)
        accounts = write_rows(engine, rows, metrics)
        if self.truth is not None:
            accounts += truth_accounts(engine)
        if vectors_asked(metrics, options.relevance):
            accounts.append(("rows_of_items_without_a_vector", rows_without_vector(engine)))
        own = candidates(scores, ties)
        placed = "position" in shape.impressions
        log = add_score_log(experiment, engine, self.frames, ties, accounts, list(own), placed)
        sources, listed = own | log.candidates, list(log.candidates)
        replayed = replay_log.replayed(experiment, shape, sources, listed, rows)
        how = ScoreOptions(options.threshold, options.bins)
        sums = run_models(engine, replayed, units, metrics, self.policy, how, self.step)
        if self.truth is not None:
            # What was never shown has no place in any order of the list.
            sums = replace(sums, longest=longest_shown(engine))
        models = replayed_models(sources, log.stages, blends)
        return _Summed(sums, accounts, replayed.same_lists, models)

    def judge(self, metrics: Sequence[OfflineMetric], where: str = "in_period") -> Judge:
        """The sums of a part of the log, ready to be judged."""
        summed = self.sums(metrics, where)
        alpha, same_lists = self.experiment.alpha, summed.same_lists
        return Judge(summed.sums, metrics, self.policy, alpha, same_lists)


def _extras(run: _Run, metrics: Sequence[OfflineMetric], control: str | None) -> dict[str, Any]:
    """What is asked beyond the rows of the whole log."""
    options, alpha, log = run.options, run.experiment.alpha, run.shape.impressions
    extras: dict[str, Any] = {}
    if options.split is not None:
        if isinstance(options.split, str):
            parts = parts_of_column(run.engine, log, options.split)
        else:
            parts = parts_of_periods(options.split)
            check_days(run.engine, parts, run.shape.has_time)
        judges = {part.name: run.judge(metrics, part.where) for part in parts}
        extras["splits"] = tuple(split_of(name, judge) for name, judge in judges.items())
        extras["gaps"] = tuple(gaps(judges, alpha)) if judges else ()
    if options.curve is not None:
        run.step("curves")
        extras["curves"] = tuple(curves(run.judge(curve_metrics(options.metrics, options.curve))))
    if options.k_by is not None:
        column, ks = options.k_by
        parts = [p for p in parts_of_column(run.engine, log, column) if p.name in ks]
        if {part.name for part in parts} != set(ks):
            missing = sorted(set(ks) - {part.name for part in parts})
            raise ExperimentError(f"k by {column!r}: the log has no {missing[0]!r} there")
        judges = {
            part.name: run.judge(
                [at_cutoff(m.definition, ks[part.name]) for m in metrics if m.k is not None],
                part.where,
            )
            for part in parts
        }
        extras["by_value"] = cut_by_value(column, ks, judges, metrics, control, alpha)
    return extras


def _sliced_by(options: ReplayOptions) -> list[str]:
    """The columns of the impressions that say which part a row is of."""
    by_split = [options.split] if isinstance(options.split, str) else []
    return [*by_split, *([] if options.k_by is None else [options.k_by[0]])]


def _wanted(options: ReplayOptions) -> tuple[tuple[OfflineMetric, ...], Policy]:
    if options.kept_negatives is not None and not 0 < options.kept_negatives <= 1:
        what = f"kept_negatives {options.kept_negatives} is not a share between 0 and 1"
        raise ExperimentError(what, "0.1 where one non-click in ten was kept")
    if options.threshold is not None and not math.isfinite(options.threshold):
        raise ExperimentError(f"threshold {options.threshold} is no score", "such as threshold=0.5")
    if options.bins < 1:
        raise ExperimentError(f"{options.bins} bins", "10 are usual, 1 is the least")
    if options.curve is not None and not curve_metrics(options.metrics, options.curve):
        what = "a curve is over k, and none of the metrics has a cut-off of requests"
        raise ExperimentError(what, "name one, such as ndcg@10[lin], or name no metric")
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
    if options.relevance == SIMILARITY:
        notes.append(
            "a model that was trained on these vectors is graded by itself; "
            "metrics that know only relevant or not count every item with a cosine above 0"
        )
    if not has_requests:
        notes.append("the log has no request_id: all that a unit was shown is one list")
    if options.kept_negatives is not None:
        notes.append(f"scores corrected for negatives sampled at {options.kept_negatives:g}")
    return notes
