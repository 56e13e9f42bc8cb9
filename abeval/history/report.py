"""A history → what it says: predictions, choices, sensitivity, and what was gained.

`history.py` reads the rows and hands them over.
"""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from abeval.errors import ExperimentError
from abeval.experiment.problems import suggestion
from abeval.history import report
from abeval.history.measures import Measure, Measures, measures_of
from abeval.history.predictions import Options, Predicted, chosen, predicted
from abeval.history.table import Kept
from abeval.results.history import HISTORY_SCHEMA_VERSION, Choice, HistoryReport
from abeval.stats.shrinkage import FEWEST

_UNSIGNED = (
    "the history has no digest, so that damage to it would not be seen; the next abeval history "
    "add that changes it writes one"
)
_OFFLINE = ("auc", "gauc[impressions]", "log_loss")
_OFFLINE_AT_K = ("ndcg@{k}[lin]", "map@{k}[min]", "mrr@{k}", "recall@{k}", "precision@{k}")
"""Offline metrics that are compared where none is named: one definition each, at the largest k."""


def report(
    path: Path,
    kept: Kept,
    metrics: Sequence[str] | None,
    offline: Sequence[str] | None,
    options: Options,
) -> HistoryReport:
    """What a history says.

    Args:
        path: Of the history.
        kept: Its rows.
        metrics: Online metrics; None for goals and guardrails.
        offline: Offline metrics; None for those that most teams quote.
        options: Level, and the shared noise that is assumed where none was measured.

    Raises:
        ExperimentError: The history has too few experiments, or lacks a metric.
    """
    history = measures_of(kept.rows)
    names = tuple(dict.fromkeys(row.experiment for row in kept.rows))
    _check(path, names, history)
    online = _online(history, metrics)
    before = _offline(history, offline)
    wanted = {measure.metric for measure in online}
    ends = [m for m in history.of("early", "late") if m.metric in wanted]
    predictions = [
        one
        for target in online + [m for m in ends if m.side == "late"]
        for predictor in (before if target.side == "online" else _early(ends))
        if predictor.sign and target.sign
        if (one := predicted(predictor, target, history, options)) is not None
    ]
    shown = (*before, *online, *ends)
    return HistoryReport(
        schema_version=HISTORY_SCHEMA_VERSION,
        history=str(path),
        alpha=options.alpha,
        experiments=names,
        predictions=tuple(one.row for one in predictions),
        choices=tuple(_choices(predictions, options.alpha)),
        sensitivity=tuple(report.sensitivity(m, options.alpha) for m in (*online, *ends)),
        gained=tuple(report.gained(m, history, options.alpha) for m in online),
        effects=tuple(e for m in shown for e in report.effects(m, history, options.alpha)),
        left_out=tuple(history.left_out.items()),
        notes=(
            *_notes(history, before, online, predictions, options),
            *(() if kept.is_signed else (_UNSIGNED,)),
        ),
    )


def _check(path: Path, names: Sequence[str], history: Measures) -> None:
    if len(names) < FEWEST:
        count = "1 experiment" if len(names) == 1 else f"{len(names)} experiments"
        what = f"{path} has {count}: {FEWEST} are needed to say anything"
        raise ExperimentError(what, "add more with abeval history add")
    if not history.of("online"):
        what = f"{path} has no online effect"
        raise ExperimentError(what, "add the results of abeval analyze")


def named(measures: Sequence[Measure], names: Sequence[str], kind: str) -> list[Measure]:
    """The measures of some metrics.

    Raises:
        ExperimentError: The history lacks one.
    """
    known = {measure.metric: measure for measure in measures}
    for name in names:
        if name not in known:
            what = f"the history has no {kind} metric {name!r}{suggestion(name, known)}"
            raise ExperimentError(what, f"it has {', '.join(known) or 'none'}")
    return [known[name] for name in dict.fromkeys(names)]


def _online(history: Measures, names: Sequence[str] | None) -> list[Measure]:
    measures = history.of("online")
    if names:
        return named(measures, names, "online")
    judged = [m for m in measures if m.role in ("goal", "guardrail")] or measures
    return sorted(judged, key=lambda m: m.role != "goal")


def _offline(history: Measures, names: Sequence[str] | None) -> list[Measure]:
    measures = history.of("offline")
    if names:
        return named(measures, names, "offline")
    known = {measure.metric: measure for measure in measures}
    cuts = [int(k) for m in known if (k := m.partition("@")[2].partition("[")[0]).isdigit()]
    at_k = [name.format(k=max(cuts, default=0)) for name in _OFFLINE_AT_K]
    return [known[name] for name in (*_OFFLINE, *at_k) if name in known] or measures


def _early(ends: Sequence[Measure]) -> list[Measure]:
    return [measure for measure in ends if measure.side == "early"]


def _choices(predictions: Sequence[Predicted], alpha: float) -> list[Choice]:
    groups = groupby(predictions, key=lambda one: (one.row.target, one.row.side))
    each = (chosen([*group], alpha) for _, group in groups)
    return [choice for choice in each if choice is not None]


def _notes(
    history: Measures,
    before: Sequence[Measure],
    online: Sequence[Measure],
    predictions: Sequence[Predicted],
    options: Options,
) -> list[str]:
    notes = []
    unknown = [one.row for one in predictions if not one.row.shared_known]
    if unknown:
        assumed = f"{options.shared:g}" if options.shared else "none"
        notes.append(
            "noise that two metrics share because the same units are behind both was not measured "
            f"for {len(unknown)} of {len(predictions)} predictions; assumed correlation of their "
            f"errors: {assumed}. It makes correlations too high if it is positive"
        )
    hidden = len(history.of("offline")) - len(before)
    if hidden > 0:
        notes.append(f"{hidden} more offline metrics are in the history: name them to see them")
    sideless = [m.name for m in (*before, *online) if not m.sign]
    if sideless:
        notes.append(f"not compared, as neither more nor less is better: {', '.join(sideless)}")
    notes.append(
        "what was gained, and the prior, are those of normal true effects: their intervals are too "
        "narrow where most experiments do nothing and few do much"
    )
    if not before:
        notes.append("no offline metrics: add the JSON of abeval replay with that of analyze")
    if not history.of("early"):
        notes.append("no early and late days: add the JSON of abeval windows")
    return notes
