"""The replay of an experiment's models on its own log.

`api/` calls it (`abeval replay`) with a `Run` and options. `offline/replay_run.py` sums,
`offline/estimates/` judges; the `ReplayResult` goes back to `api/`.
"""

from collections.abc import Mapping
from dataclasses import replace

from abeval.errors import ExperimentError
from abeval.logs.prepare import prepare
from abeval.logs.run import Run
from abeval.logs.shape import LogShape
from abeval.offline.estimates import result_of
from abeval.offline.impressions import Relevance, relevance_metric, score_columns
from abeval.offline.metrics import OfflineMetric
from abeval.offline.options import ReplayOptions, notes_of, scoring_of, slice_columns
from abeval.offline.other_logs import TRUTH, needs_vectors, open_scores, open_truth, write_vectors
from abeval.offline.parts import Periods, cut_parts, parts_of, parts_of_column
from abeval.offline.slices import (
    adjusted,
    cell_pairs,
    cell_rows,
    curve_metrics,
    curves,
    cut_by_value,
    gaps,
    metrics_by_cut,
)
from abeval.results.replay import CutByValue, ReplayCutPair, ReplayCutRow, ReplayResult, Split

__all__ = ["ReplayOptions", "replay"]


def replay(run: Run, options: ReplayOptions) -> ReplayResult:
    """Score every model of an experiment on its own log.

    Args:
        run: The experiment, its logs and an engine.
        options: What to compute, and how.

    Raises:
        ExperimentError: An unknown metric, preset or model.
        LogError: The logs lack something that a replay needs.
    """
    return replayed(prepared_replay(run, options))


def replayed(prepared: ReplayRun) -> ReplayResult:
    """Score every model on a log that `prepared_replay` opened.

    Raises:
        ExperimentError: A column of the options has no such value.
        LogError: There is no model, or nothing to replay.
    """
    run, options = prepared.run, prepared.options
    summed = prepared.sums(prepared.scoring)
    control = run.experiment.variants[run.experiment.control].model
    run.step("inference")
    result = result_of(
        summed.sums,
        prepared.scoring,
        name=run.experiment.name,
        models=summed.models,
        control=control,
        accounting=summed.accounts,
        notes=notes_of(options, "request_id" in prepared.shape.impressions),
    )
    if options.split is not None:
        result = _with_splits(result, prepared, options.split)
    if run.experiment.cuts:
        result = _with_cuts(result, prepared, control)
    if options.curve is not None:
        run.step("curves")
        by_k = curve_metrics(options.metrics, options.curve)
        result = replace(result, curves=tuple(curves(prepared.estimates(by_k))))
    if options.k_by is not None:
        result = replace(result, by_value=_by_value(prepared, control, *options.k_by))
    return result


def prepared_replay(run: Run, options: ReplayOptions, shape: LogShape | None = None) -> ReplayRun:
    """Open the logs for a replay, but for those that were prepared with the models' scores.

    Raises:
        ExperimentError: An unknown metric or preset, or a number out of range.
        LogError: The logs lack something that a replay needs.
    """
    experiment, engine = run.experiment, run.engine
    scoring = scoring_of(options, experiment.alpha)
    metric = relevance_metric(experiment, options.relevance)

    if shape is None:
        columns = [*score_columns(experiment), *slice_columns(options)]
        shape = prepare(run, [] if metric is None else [metric], columns).shape
    run.step("candidates")
    reader = needs_vectors(scoring.metrics, options.relevance)
    if reader is not None:
        write_vectors(engine, shape.items, reader)
    truth = open_truth(run) if options.relevance == TRUTH else None
    relevance = Relevance(options.relevance, metric, truth)
    log = open_scores(run)
    return ReplayRun(run, shape, log, relevance, options, scoring)


def _with_splits(result: ReplayResult, prepared: ReplayRun, split: str | Periods) -> ReplayResult:
    parts = {
        part.name: prepared.estimates(prepared.scoring.metrics, part.where)
        for part in parts_of(prepared.run.engine, prepared.shape, split)
    }
    splits = tuple(Split(name, tuple(estimates.rows())) for name, estimates in parts.items())
    return replace(result, splits=splits, gaps=tuple(gaps(parts)) if parts else ())


def _with_cuts(result: ReplayResult, prepared: ReplayRun, control: str | None) -> ReplayResult:
    """The result with the metrics of every cell that need no whole lists."""
    metrics = metrics_by_cut(prepared.scoring.metrics)
    if not metrics or prepared.relevance.truth is not None:
        why = "a ground truth names items that no cell has shown" if metrics else _NO_CUTS
        return replace(result, notes=(*result.notes, f"no metrics by cut: {why}"))
    rows, pairs = list[ReplayCutRow](), list[ReplayCutPair]()
    notes = list(result.notes)
    for cut in prepared.run.experiment.cuts:
        prepared.run.step(f"cut {cut}")
        cells = cut_parts(prepared.run, prepared.shape, cut)
        notes += cells.notes
        for part in cells.parts:
            estimates, units = prepared.estimates(metrics, part.where), cells.units[part.name]
            rows += cell_rows(cut, part.name, estimates, units)
            pairs += cell_pairs(cut, part.name, estimates, control, units)
    return replace(
        result, cut_rows=tuple(rows), cut_pairs=tuple(adjusted(pairs)), notes=tuple(notes)
    )


_NO_CUTS = "all of these metrics need whole lists, and a cut takes rows out of them"


def _by_value(
    prepared: ReplayRun, control: str | None, column: str, ks: Mapping[str, int]
) -> CutByValue:
    values = parts_of_column(prepared.run.engine, prepared.shape.impressions, column)
    parts = [part for part in values if part.name in ks]
    missing = sorted(set(ks) - {part.name for part in parts})
    if missing:
        raise ExperimentError(f"k by {column!r}: no impression has the value {missing[0]!r}")
    cut = dict.fromkeys(m.definition for m in prepared.scoring.metrics if m.k is not None)
    estimates = {
        part.name: prepared.estimates([OfflineMetric(d, ks[part.name]) for d in cut], part.where)
        for part in parts
    }
    return cut_by_value(column, ks, estimates, control)
