"""An analysis, a replay and the facts of the same logs → their agreement.

`api/offline.py` (`abeval agree`) and `study/run.py` read the logs once for all of them.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pandas as pd

from abeval.agreement.case import Frames
from abeval.agreement.causes import CAUSES
from abeval.agreement.compare import COLUMNS, compare, needed
from abeval.agreement.log import AgreementLog, columns_beside, extra_columns, open_training
from abeval.errors import ExperimentError, LogError
from abeval.experiment.model import Experiment
from abeval.logs.mapping import LogColumns
from abeval.logs.prepare import Extra, prepare
from abeval.logs.run import Run
from abeval.logs.shape import LogShape
from abeval.off_policy.log import PolicyChoice
from abeval.off_policy.run import off_policy
from abeval.offline.impressions import check_relevance, score_columns
from abeval.offline.options import ReplayOptions
from abeval.offline.replay import prepared_replay, replayed
from abeval.results.agreement import Agreement, Backtest
from abeval.results.analysis import Result
from abeval.results.off_policy import OffPolicyResult
from abeval.results.replay import ReplayResult

OFFLINE = (
    *("auc", "gauc[impressions]", "q_ctr", "log_loss", "ne", "ndcg@5[bin]", "ndcg@10[bin]"),
    *("mrr@10", "map@10[R]", "recall@5", "precision@5", "hit@5"),
)
"""The offline metrics of the agreement table, unless others are named."""


def joined(result: Result, offline: "Offline", experiment: Experiment) -> Agreement:
    """The agreement of an analysis with what was read offline, of the same logs."""
    replay, facts, backtests, notes = offline
    return compare(result, replay, facts, backtests, notes, experiment)


class Offline(NamedTuple):
    """All that an agreement reads of the logs besides the analysis.

    Attributes:
        replay: None where the log has no two models to replay.
        facts: The rows of the causes' queries, by variant.
        backtests: Off-policy estimates against what happened.
        notes: Of the replay, or why there is none.
    """

    replay: ReplayResult | None
    facts: Mapping[str, Frames]
    backtests: tuple[Backtest, ...]
    notes: tuple[str, ...]


def offline_columns(experiment: Experiment) -> Extra:
    """What chooses the columns of the impressions that `read_offline` reads: scores, and others."""

    def columns(log: LogColumns) -> list[str]:
        if experiment.of_units:
            return []
        has = {column.lower() for column in log.types}
        scores = [column for column in score_columns(experiment) if column.lower() in has]
        own = extra_columns(experiment, log).values()
        return list(dict.fromkeys([*scores, *own, *columns_beside(experiment, log)]))

    return columns


def read_offline(run: Run, options: ReplayOptions, shape: LogShape | None = None) -> Offline:
    """Replay the models, and run the queries of the causes.

    Args:
        run: The experiment and its engine.
        options: Of the replay.
        shape: Of logs that were prepared with `offline_columns`; without it they are opened.

    Raises:
        LogError: The logs do not have what a replay needs.
    """
    known = _replayed(run, options, shape)
    run.step("causes")
    facts = {name: _facts(known.log, name) for name in run.experiment.treatments}
    return Offline(known.replay, facts, tuple(_backtests(run, known.log)), known.notes)


class _Replayed(NamedTuple):
    """A replay, if there is one, and the log as it was opened for it."""

    replay: ReplayResult | None
    log: AgreementLog
    notes: tuple[str, ...]


def _replayed(run: Run, options: ReplayOptions, shape: LogShape | None) -> _Replayed:
    experiment = run.experiment
    if experiment.of_units:
        raise ExperimentError(
            "agree compares models on impressions, but the file has none",
            "add [logs.impressions] to the table of units",
        )

    if shape is None:
        shape = prepare(run, [], offline_columns(experiment)).shape
    models = {variant.model for variant in experiment.variants.values()} - {None}
    if len(models) < 2:
        log = AgreementLog(experiment, run.engine, shape, open_training(run))
        return _Replayed(None, log, ("nothing is replayed: the variants have no two models",))
    prepared = prepared_replay(run, options, shape)
    log = AgreementLog(experiment, run.engine, shape, open_training(run))
    try:
        check_relevance(prepared.shape, "click")
    except LogError as error:
        return _Replayed(None, log, (f"nothing is replayed: {error}",))
    replay = replayed(prepared)
    return _Replayed(replay, log, replay.notes)


def _facts(log: AgreementLog, variant: str) -> Frames:
    """The rows of every query whose columns the log has, for one variant."""
    has = log.open(variant)
    chosen = dict.fromkeys(q for c in CAUSES if has >= {*needed(c)} for q in c.queries)
    return {COLUMNS: pd.DataFrame(columns=sorted(has)), **{q: log.rows(q) for q in chosen}}


def _backtests(run: Run, log: AgreementLog) -> Iterator[Backtest]:
    """Each variant estimated from the log of the other, where propensities are logged."""
    columns = log.shape.impressions
    if "propensity" not in columns or "item_id" not in columns:
        return
    control = run.experiment.control
    for variant in run.experiment.treatments:
        for source, target in ((control, variant), (variant, control)):
            result = off_policy(run, source, PolicyChoice(target, None, None))
            yield from _rows(result, variant, target)


def _rows(result: OffPolicyResult, variant: str, target: str) -> Iterator[Backtest]:
    realised = None if result.realised is None else result.realised.value
    for row in result.rows:
        numbers = (row.value, row.low, row.high, realised, row.z, row.reason)
        yield Backtest(variant, result.source, target, row.estimator, *numbers)
