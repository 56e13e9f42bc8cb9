"""The replay of an experiment's models on its own log."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from abeval.engines.protocol import Engine
from abeval.errors import ExperimentError
from abeval.experiment.model import Experiment
from abeval.logs.prepare import prepare
from abeval.logs.run import Run
from abeval.offline.candidates import impressions as replay_log
from abeval.offline.candidates.truth_log import TRUTH, open_truth
from abeval.offline.candidates.vectors import vectors_asked, write_vectors
from abeval.offline.estimates.curves import curve_metrics, curves
from abeval.offline.estimates.judge import result_of
from abeval.offline.estimates.slices import (
    check_days,
    cut_by_value,
    gaps,
    parts_of_column,
    parts_of_periods,
    split_of,
)
from abeval.offline.metrics.definitions import OfflineMetric
from abeval.offline.options import ReplayOptions, notes_of, sliced_by, wanted
from abeval.offline.replay_run import ReplayRun
from abeval.results.replay import CutByValue, Gap, ReplayResult, Split
from abeval.steps import Step

__all__ = ["ReplayOptions", "replay"]


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
    metrics, policy = wanted(options)
    relevance = replay_log.relevance_metric(experiment, options.relevance)
    terms = [] if relevance is None else [relevance]
    extra = [*replay_log.score_columns(experiment), *sliced_by(options)]
    shape = prepare(Run(experiment, engine, frames, step), terms, extra).shape
    step("candidates")
    asked_by = vectors_asked(metrics, options.relevance)
    if asked_by is not None:
        write_vectors(engine, shape.items, asked_by)
    truth = open_truth(experiment, engine, frames) if options.relevance == TRUTH else None
    run = ReplayRun(experiment, engine, frames, shape, options, policy, relevance, truth, step)
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
        notes=notes_of(options, "request_id" in shape.impressions),
    )
    return replace(found, **_extras(run, metrics, control))


def _extras(
    run: ReplayRun, metrics: Sequence[OfflineMetric], control: str | None
) -> dict[str, Any]:
    """What is asked beyond the rows of the whole log."""
    options = run.options
    extras: dict[str, Any] = {}
    if options.split is not None:
        extras["splits"], extras["gaps"] = _splits(run, metrics, options.split)
    if options.curve is not None:
        run.step("curves")
        asked = curve_metrics(options.metrics, options.curve)
        extras["curves"] = tuple(curves(run.estimates(asked)))
    if options.k_by is not None:
        extras["by_value"] = _by_value(run, metrics, control, *options.k_by)
    return extras


def _splits(
    run: ReplayRun, metrics: Sequence[OfflineMetric], split: str | Mapping[str, tuple[str, str]]
) -> tuple[tuple[Split, ...], tuple[Gap, ...]]:
    if isinstance(split, str):
        parts = parts_of_column(run.engine, run.shape.impressions, split)
    else:
        parts = parts_of_periods(split)
        check_days(run.engine, parts, run.shape.has_time)
    of_parts = {part.name: run.estimates(metrics, part.where) for part in parts}
    splits = tuple(split_of(name, estimates) for name, estimates in of_parts.items())
    return splits, tuple(gaps(of_parts)) if of_parts else ()


def _by_value(
    run: ReplayRun,
    metrics: Sequence[OfflineMetric],
    control: str | None,
    column: str,
    ks: Mapping[str, int],
) -> CutByValue:
    values = parts_of_column(run.engine, run.shape.impressions, column)
    parts = [part for part in values if part.name in ks]
    if {part.name for part in parts} != set(ks):
        missing = sorted(set(ks) - {part.name for part in parts})
        raise ExperimentError(f"k by {column!r}: the log has no {missing[0]!r} there")
    cut = [metric.definition for metric in metrics if metric.k is not None]
    of_parts = {
        part.name: run.estimates([OfflineMetric(d, ks[part.name]) for d in cut], part.where)
        for part in parts
    }
    return cut_by_value(column, ks, of_parts, metrics, control)
