"""Read a replay and the facts of the same logs, and set an analysis beside them.

The logs are read once for all of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from abeval.agreement.case import COLUMNS, Frames
from abeval.agreement.causes import CAUSES
from abeval.agreement.compare import compare
from abeval.agreement.gap import estimate_levels
from abeval.agreement.levels import Levels
from abeval.agreement.log import AgreementLog, list_cause_columns, open_training
from abeval.errors import ExperimentError, LogError
from abeval.experiment.model import Experiment
from abeval.logs.prepare import Extra, prepare
from abeval.logs.run import Run
from abeval.logs.shape import LogSchema
from abeval.off_policy.log import PolicyChoice
from abeval.off_policy.run import evaluate_policy
from abeval.offline.impressions import check_relevance
from abeval.offline.replay import ReplayOptions
from abeval.offline.replay import replay as replay_models
from abeval.results.agreement import Agreement, Backtest
from abeval.results.analysis import Result
from abeval.results.format import join_items
from abeval.results.history import HistoryRow
from abeval.results.replay import ReplayResult

# AUC is among them because `compare` explains it before any other metric.
OFFLINE = (
    *("auc", "gauc[impressions]", "q_ctr", "log_loss", "ne", "ndcg@5[bin]", "ndcg@10[bin]"),
    *("mrr@10", "map@10[R]", "recall@5", "precision@5", "hit@5"),
)
"""The offline metrics of the agreement table, unless others are named."""


class Offline(NamedTuple):
    """All that an agreement reads of the logs besides the analysis.

    Notes say why no replay is.
    """

    replay: ReplayResult | None
    facts: Mapping[str, Frames]
    backtests: tuple[Backtest, ...]
    notes: tuple[str, ...]
    levels: Mapping[str, Levels | str]


def build_agreement(
    result: Result, offline: Offline, experiment: Experiment, history: Sequence[HistoryRow] = ()
) -> Agreement:
    """Join an analysis with what was read offline of the same logs, and a history."""
    return compare(result, **offline._asdict(), experiment=experiment, history=history)


def choose_offline_columns(experiment: Experiment) -> Extra:
    """Choose the columns of the impressions that `read_offline` reads besides scores."""
    # A table of units has no impressions; `read_offline` refuses it with a message.
    return lambda log: [] if experiment.is_unit_table else list_cause_columns(experiment, log)


def read_offline(
    run: Run, options: ReplayOptions, schema: LogSchema | None = None, also: Sequence[str] = ()
) -> Offline:
    """Replay the models, and run the queries of the causes.

    A `schema` is that of logs that were prepared with `choose_offline_columns`; without, they are
    opened. Metrics of `also` are replayed beside those that the options ask for.
    """
    experiment = run.experiment
    if experiment.is_unit_table:
        raise ExperimentError(
            "agree compares models on impressions, but the file has none",
            "add [logs.impressions] to the table of units",
        )
    if schema is None:
        schema = prepare(run, [], choose_offline_columns(experiment)).schema
    log = AgreementLog(experiment, run.engine, schema, open_training(run))
    replay, notes = _replay_models(run, options, schema, also)
    run.step("causes")
    facts, levels = dict[str, Frames](), dict[str, Levels | str]()
    for name in experiment.treatments:
        has = log.open(name)
        facts[name] = _read_facts(log, has)
        levels[name] = _estimate_lift_levels(log, has)
    return Offline(replay, facts, tuple(_run_backtests(run, log)), notes, levels)


def _replay_models(
    run: Run, options: ReplayOptions, schema: LogSchema, also: Sequence[str]
) -> tuple[ReplayResult | None, tuple[str, ...]]:
    """Replay the models; None where the log has no two, with the reason."""
    models = {variant.model for variant in run.experiment.variants.values()} - {None}
    # One model has no difference to set beside the effect; causes can still be checked.
    if len(models) < 2:
        return None, ("nothing is replayed: the variants have no two models",)
    # A log without items or clicks is no error here: only the replay is left out.
    try:
        check_relevance(schema, "click")
    except LogError as error:
        return None, (f"nothing is replayed: {error}",)
    replay = replay_models(run, options, schema, also)
    return replay, replay.notes


def _estimate_lift_levels(log: AgreementLog, has: frozenset[str]) -> Levels | str:
    """Estimate the lifts between promise and outcome.

    Return a reason where the log lacks what they need.
    """
    missing = {"click", "baseline", "candidate"} - has
    if missing:
        return f"the log has no {join_items(sorted(missing))}"
    return estimate_levels(log.engine)


def _read_facts(log: AgreementLog, has: frozenset[str]) -> Frames:
    """Return the rows of every query whose columns the log has, for one variant."""
    chosen = dict.fromkeys(q for c in CAUSES if has >= {*c.needed_columns} for q in c.queries)
    # A frame without rows says what the log has, so that causes can tell what it lacks.
    return {COLUMNS: pd.DataFrame(columns=sorted(has)), **{q: log.rows(q) for q in chosen}}


def _run_backtests(run: Run, log: AgreementLog) -> Iterator[Backtest]:
    """Estimate each variant from the log of the other, where propensities are logged."""
    columns = log.schema.impressions
    if "propensity" not in columns or "item_id" not in columns:
        return
    control = run.experiment.control
    for variant in run.experiment.treatments:
        for source, target in ((control, variant), (variant, control)):
            result = evaluate_policy(run, source, PolicyChoice(to=target))
            realised = None if result.realised is None else result.realised.value
            for row in result.rows:
                numbers = (row.value, row.low, row.high, realised, row.z, row.reason)
                yield Backtest(variant, source, target, row.estimator, *numbers)
