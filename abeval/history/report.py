"""Report a history: predictions, choices, sensitivity and total gains."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np

from abeval.errors import ExperimentError
from abeval.experiment.problems import suggest_name
from abeval.history.lasting import estimate_lasting, find_kept
from abeval.history.measures import Measure, Measures, build_measures
from abeval.history.predictions import (
    FittedPrediction,
    choose_predictor,
    estimate_prediction,
    signal,
)
from abeval.history.programme import Holdout, describe_programme
from abeval.history.table import StoredRows
from abeval.results import history as records
from abeval.results.history import HistoryRow
from abeval.stats import shrinkage
from abeval.stats.distributions import two_sided_quantile
from abeval.stats.proportions import Count, compute_share_interval
from abeval.stats.shrinkage import FEWEST

_UNSIGNED = (
    "the history has no digest, so that damage to it would not be seen; the next abeval history "
    "add that changes it writes one"
)
_OFFLINE = ("auc", "gauc[impressions]", "log_loss")
# Default offline metrics: one definition each, at the largest k.
_OFFLINE_AT_K = ("ndcg@{k}[lin]", "map@{k}[min]", "mrr@{k}", "recall@{k}", "precision@{k}")


def report(
    path: Path,
    kept: StoredRows,
    metrics: Sequence[str] | None,
    offline: Sequence[str] | None,
    alpha: float,
    holdout: Holdout | None = None,
) -> records.HistoryReport:
    """Report what a history says, with the arguments of `History.report`."""
    # The holdout may be in the history too: it is all launches together, and none of them.
    rows = [row for row in kept.rows if holdout is None or row.experiment != holdout.name]
    history = build_measures(rows)
    names = tuple(dict.fromkeys(row.experiment for row in rows))
    if len(names) < FEWEST:
        count = "1 experiment" if len(names) == 1 else f"{len(names)} experiments"
        what = f"{path} has {count}: {FEWEST} are needed to say anything"
        raise ExperimentError(what, "add more with abeval history add")
    if not history.select_side("online"):
        hint = "add the results of abeval analyze"
        raise ExperimentError(f"{path} has no online effect", hint)
    online = _select_online_measures(history, metrics)
    before = choose_offline(history, offline)
    predictions = [
        prediction
        for target in online
        for predictor in before
        if predictor.sign and target.sign
        if (prediction := estimate_prediction(predictor, target, alpha)) is not None
    ]
    of_targets = groupby(predictions, key=lambda prediction: prediction.row.target)
    choices = [choose_predictor([*group], alpha) for _, group in of_targets]
    unsigned = () if kept.is_signed else (_UNSIGNED,)
    lasting = [(m, [*estimate_lasting(m, rows, alpha)]) for m in online]
    quarter = [
        describe_programme(m, rows, holdout, find_kept(weeks, alpha), alpha)
        for m, weeks in lasting
        if holdout
    ]
    programmes = tuple(programme for programme, _, _ in quarter)
    return records.HistoryReport(
        schema_version=records.HISTORY_SCHEMA_VERSION,
        history=str(path),
        alpha=alpha,
        experiments=names,
        predictions=tuple(prediction.row for prediction in predictions),
        choices=tuple(choice for choice in choices if choice is not None),
        sensitivity=tuple(_estimate_sensitivity(m, alpha) for m in online),
        gained=tuple(_sum_gains(m, history, alpha) for m in online),
        effects=tuple(e for m in (*before, *online) for e in _list_effects(m, history, alpha)),
        left_out=tuple(history.left_out.items()),
        notes=(
            *_write_notes(history, before, online, predictions, programmes),
            *_name_triggered(rows, programmes),
            *unsigned,
        ),
        programmes=programmes,
        launches=tuple(launch for _, launches, _ in quarter for launch in launches),
        weeks=tuple(week for _, _, weeks in quarter for week in weeks),
        lasting=tuple(week for _, weeks in lasting for week in weeks),
    )


def _select_measures(measures: Sequence[Measure], names: Sequence[str], kind: str) -> list[Measure]:
    """Select measures by metric; raise if the history lacks one."""
    by_name = {measure.metric: measure for measure in measures}
    for name in names:
        if name not in by_name:
            what = f"the history has no {kind} metric {name!r}{suggest_name(name, by_name)}"
            raise ExperimentError(what, f"it has {', '.join(by_name) or 'none'}")
    return [by_name[name] for name in dict.fromkeys(names)]


def _select_online_measures(history: Measures, names: Sequence[str] | None) -> list[Measure]:
    measures = history.select_side("online")
    if names:
        return _select_measures(measures, names, "online")
    # Diagnostics are shown only if there is nothing else.
    judged = [m for m in measures if m.role in ("goal", "guardrail")] or measures
    return sorted(judged, key=lambda m: m.role != "goal")


def choose_offline(history: Measures, names: Sequence[str] | None) -> list[Measure]:
    """Choose the offline metrics to compare: those named, or the most quoted ones."""
    measures = history.select_side("offline")
    if names:
        return _select_measures(measures, names, "offline")
    by_name = {measure.metric: measure for measure in measures}
    # Metric names have the cut-off after `@`, as in `ndcg@10[lin]`.
    cuts = [int(k) for m in by_name if (k := m.partition("@")[2].partition("[")[0]).isdigit()]
    at_k = [name.format(k=max(cuts, default=0)) for name in _OFFLINE_AT_K]
    of_lists = [name for name in by_name if name.startswith("preference:")]
    return [by_name[name] for name in (*of_lists, *_OFFLINE, *at_k) if name in by_name] or measures


def _write_notes(
    history: Measures,
    before: Sequence[Measure],
    online: Sequence[Measure],
    predictions: Sequence[FittedPrediction],
    programmes: Sequence[records.Programme],
) -> Iterable[str]:
    if predictions:
        yield (
            "noise that two metrics share because the same units are behind both is not known: it "
            "makes correlations too high if it is positive"
        )
    hidden = len(history.select_side("offline")) - len(before)
    if hidden > 0:
        yield f"{hidden} more offline metrics are in the history: name them to see them"
    if sideless := [m.metric for m in (*before, *online) if not m.sign]:
        yield f"not compared, as neither more nor less is better: {', '.join(sideless)}"
    yield (
        "these estimates assume normally distributed true effects: their intervals are too "
        "narrow where most experiments do nothing and few do much"
    )
    if any(programme.kept == 1 for programme in programmes):
        yield (
            "what was launched is taken to last as it was measured: effects by week since entry "
            f"of {FEWEST} experiments or more say what wears off (abeval windows, history add)"
        )
    if not before:
        yield "no offline metrics: add the JSON of abeval replay with that of analyze"


def _name_triggered(
    rows: Sequence[HistoryRow], programmes: Sequence[records.Programme]
) -> Iterable[str]:
    """Name tests whose effects on a programme's metric are of exposed units alone."""
    exposed = [r for r in rows if r.source == "analysis" and r.triggered and r.site_lift is None]
    for metric in (programme.metric for programme in programmes):
        if rest := dict.fromkeys(row.experiment for row in exposed if row.metric == metric):
            yield (
                f"not in the gain of {metric}, as only the lift of exposed units is known and not "
                f"that of all traffic: {', '.join(rest)}"
            )


def _sum_gains(measure: Measure, history: Measures, alpha: float) -> records.Gained:
    """Sum the effects that were shipped, naive and shrunk."""
    values, ses = measure.values, measure.ses
    shipped = np.array([case in history.shipped for case in measure.effects], dtype=bool)
    naive = float(values[shipped].sum())
    gained = records.Gained(measure.metric, int(shipped.sum()), len(values), naive)
    if measure.experiments < FEWEST:
        return replace(gained, reason="too_few_units")
    fitted = shrinkage.prior(values, ses, alpha)
    total = shrinkage.total(values, ses, shipped, alpha)
    return replace(
        gained,
        gained=total.value,
        low=total.low,
        high=total.high,
        prior_mean=fitted.mean,
        prior_sd=fitted.sd,
    )


def _list_effects(
    measure: Measure, history: Measures, alpha: float
) -> Iterable[records.HistoryEffect]:
    """Yield every effect, and its shrunk value if it is online."""
    shrunk: Sequence[Sequence[float | None]] = [(None, None, None)] * len(measure.effects)
    if measure.side == "online" and measure.experiments >= FEWEST:
        posterior = shrinkage.shrink(measure.values, measure.ses, alpha)
        shrunk = np.stack([posterior.value, posterior.low, posterior.high], axis=1).tolist()
    reach = two_sided_quantile(alpha)
    for (case, effect), (value, low, high) in zip(measure.effects.items(), shrunk, strict=True):
        half = reach * effect.se
        yield records.HistoryEffect(
            *case,
            measure=measure.metric,
            side=measure.side,
            direction=measure.direction,
            effect=effect.value,
            low=effect.value - half,
            high=effect.value + half,
            shrunk=value,
            shrunk_low=low,
            shrunk_high=high,
            shipped=case in history.shipped,
        )


def _estimate_sensitivity(measure: Measure, alpha: float) -> records.Sensitivity:
    """Count how often a metric moves, and estimate the spread of true effects."""
    p_values = [effect.p_value for effect in measure.effects.values()]
    tested = [p for p in p_values if p is not None]
    moved = sum(p < alpha for p in tested)
    low, high = compute_share_interval(Count(moved, len(tested)), alpha) if tested else (0.0, 1.0)
    values, ses = measure.values, measure.ses
    enough = measure.experiments >= FEWEST
    return records.Sensitivity(
        measure=measure.metric,
        experiments=measure.experiments,
        effects=len(tested),
        moved=moved,
        share=moved / max(len(tested), 1),
        low=low,
        high=high,
        spread=shrinkage.prior(values, ses, alpha).sd if enough else None,
        se=float(np.median(ses)),
        signal=signal(values, ses) if enough else None,
        reason=None if enough else "too_few_units",
    )
