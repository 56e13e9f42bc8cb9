"""Replay an experiment's models on its own log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from abeval.errors import ExperimentError, LogError
from abeval.logs.mapping import LogColumns
from abeval.logs.prepare import prepare
from abeval.logs.run import Run
from abeval.logs.shape import LogShape
from abeval.offline import impressions, other_logs, slices
from abeval.offline.candidates import (
    TIE,
    Units,
    read_units,
    shown_candidates,
    shown_points,
    write_rows,
)
from abeval.offline.estimates import Estimates, result_of
from abeval.offline.kernels import without_kernel
from abeval.offline.metrics import OfflineMetric, Scoring
from abeval.offline.options import ReplayOptions, notes_of, scoring_of, slice_columns
from abeval.offline.parts import Periods, cut_parts, parts_of, parts_of_column
from abeval.offline.rows import Rows, read_rows
from abeval.offline.sums import Sums, run_models
from abeval.results.replay import (
    CutByValue,
    ReplayCutPair,
    ReplayCutRow,
    ReplayModel,
    ReplayResult,
    Split,
)


class Summed(NamedTuple):
    """The sums of some rows.

    Attributes:
        sums: Per unit.
        accounts: What was left out or merged, counted.
        models: The models that were replayed.
    """

    sums: Sums
    accounts: list[tuple[str, int]]
    models: tuple[ReplayModel, ...]


@dataclass(frozen=True)
class ReplayRun:
    """Replays a prepared log, or a part of it.

    Attributes:
        run: The experiment and an engine with the views of `prepare`.
        shape: The columns of the logs.
        score_log: The columns of the scores log; None without one.
        relevance: What makes an item relevant.
        options: The options of the replay.
        scoring: The metrics and their options.
    """

    run: Run
    shape: LogShape
    score_log: LogColumns | None
    relevance: impressions.Relevance
    options: ReplayOptions
    scoring: Scoring

    def sums(self, scoring: Scoring, where: str = "in_period") -> Summed:
        """Sum the impressions that meet a condition.

        Raises:
            LogError: There is no model, or nothing to replay.
        """
        experiment, engine, shape = self.run.experiment, self.run.engine, self.shape
        impressions.name_impressions(experiment, engine, shape, self.relevance, where)
        blends = {
            blend.name: blend for blend in impressions.blends_of(experiment, self.options.blend)
        }
        scores = impressions.model_scores(
            experiment, shape, self.options.kept_negatives, blends.values()
        )
        units = read_units(engine)
        if not units.ids.size:
            what = "nothing to replay: no unit of a variant has an impression in the period"
            raise LogError(what, "check logs.impressions.path, [period], timezone and [variants]")
        ties, rows = scoring.policy.ties, self._rows(scores, units)
        queried = bool(without_kernel(scoring.metrics, rows))
        accounts = write_rows(engine, unique=rows is not None, queried=queried)
        if self.relevance.truth is not None:
            accounts += other_logs.truth_accounts(engine)
        if other_logs.needs_vectors(scoring.metrics, self.relevance.name):
            accounts.append(
                ("rows_of_items_without_a_vector", other_logs.rows_without_vector(engine))
            )
        own, placed = shown_candidates(scores, ties), "position" in shape.impressions
        log = other_logs.judge_scores(engine, self.score_log, ties, own, placed)
        sql = own | log.sql
        # Models of a scores log have one score for an item of a request; so have all, beside them.
        points = {} if log.sql else shown_points(scores)
        candidates = impressions.experiment_candidates(experiment, shape, sql, points, rows)
        sums = run_models(engine, candidates, units, scoring, self.run.step)
        if self.relevance.truth is not None:
            # Relevant items that were never shown are in no list.
            sums = replace(sums, longest=other_logs.longest_shown(engine))
        models = (ReplayModel(name, log.stages.get(name), blends.get(name)) for name in sql)
        return Summed(sums, accounts + log.accounts, tuple(models))

    def estimates(self, metrics: Sequence[OfflineMetric], where: str = "in_period") -> Estimates:
        """Estimate metrics over the impressions that meet a condition."""
        scoring = replace(self.scoring, metrics=tuple(metrics))
        return Estimates(self.sums(scoring, where).sums, scoring)

    def _rows(self, scores: Mapping[str, str], units: Units) -> Rows | None:
        """Read the impressions as arrays; None where only queries will do, as with a scores log."""
        if self.score_log is not None:
            return None
        request = "request_id" if "request_id" in self.shape.impressions else "unit_id"
        tie = TIE[self.scoring.policy.ties]
        rows = read_rows(self.run.engine, "candidate_rows", tie, request, scores)
        return None if rows is None else rows.of_units(units.ids)


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
        by_k = slices.curve_metrics(options.metrics, options.curve)
        result = replace(result, curves=tuple(slices.curves(prepared.estimates(by_k))))
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
    metric = impressions.relevance_metric(experiment, options.relevance)

    if shape is None:
        columns = [*impressions.score_columns(experiment), *slice_columns(options)]
        shape = prepare(run, [] if metric is None else [metric], columns).shape
    run.step("candidates")
    reader = other_logs.needs_vectors(scoring.metrics, options.relevance)
    if reader is not None:
        other_logs.write_vectors(engine, shape.items, reader)
    truth = other_logs.open_truth(run) if options.relevance == other_logs.TRUTH else None
    relevance = impressions.Relevance(options.relevance, metric, truth)
    log = other_logs.open_scores(run)
    return ReplayRun(run, shape, log, relevance, options, scoring)


def _with_splits(result: ReplayResult, prepared: ReplayRun, split: str | Periods) -> ReplayResult:
    parts = {
        name: prepared.estimates(prepared.scoring.metrics, where)
        for name, where in parts_of(prepared.run.engine, prepared.shape, split).items()
    }
    splits = tuple(Split(name, tuple(estimates.rows())) for name, estimates in parts.items())
    return replace(result, splits=splits, gaps=tuple(slices.gaps(parts)) if parts else ())


def _with_cuts(result: ReplayResult, prepared: ReplayRun, control: str | None) -> ReplayResult:
    """Add the metrics of every cell that need no whole lists."""
    metrics = slices.metrics_by_cut(prepared.scoring.metrics)
    if not metrics or prepared.relevance.truth is not None:
        why = "a ground truth names items that no cell has shown" if metrics else _NO_CUTS
        return replace(result, notes=(*result.notes, f"no metrics by cut: {why}"))
    rows, pairs = list[ReplayCutRow](), list[ReplayCutPair]()
    notes = list(result.notes)
    for cut in prepared.run.experiment.cuts:
        prepared.run.step(f"cut {cut}")
        cells = cut_parts(prepared.run, prepared.shape, cut)
        notes += cells.notes
        for cell, where in cells.parts.items():
            estimates, units = prepared.estimates(metrics, where), cells.units[cell]
            rows += slices.cell_rows(cut, cell, estimates, units)
            pairs += slices.cell_pairs(cut, cell, estimates, control, units)
    return replace(
        result, cut_rows=tuple(rows), cut_pairs=tuple(slices.adjusted(pairs)), notes=tuple(notes)
    )


_NO_CUTS = "all of these metrics need whole lists, and a cut takes rows out of them"


def _by_value(
    prepared: ReplayRun, control: str | None, column: str, ks: Mapping[str, int]
) -> CutByValue:
    parts = parts_of_column(prepared.run.engine, prepared.shape.impressions, column)
    if missing := sorted(set(ks) - set(parts)):
        raise ExperimentError(f"k by {column!r}: no impression has the value {missing[0]!r}")
    cut = dict.fromkeys(m.definition for m in prepared.scoring.metrics if m.k is not None)
    estimates = {
        value: prepared.estimates([OfflineMetric(d, ks[value]) for d in cut], where)
        for value, where in parts.items()
        if value in ks
    }
    return slices.cut_by_value(column, ks, estimates, control)
