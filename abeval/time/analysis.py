"""Logs → everything that time says of an experiment."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from types import MappingProxyType

from abeval.experiment.model import Experiment
from abeval.inference.balance import balance
from abeval.inference.comparison import Rule
from abeval.logs.run import Run
from abeval.metrics.definition import Metric
from abeval.results.time import TIME_SCHEMA_VERSION, TimeResult
from abeval.results.windows import EventRow, Look, Novelty, Ramp, Stability, WindowRow
from abeval.stats.records import Refusal
from abeval.time import peeking
from abeval.time.axes import Axis, calendar, since_entry
from abeval.time.clock import By
from abeval.time.cut import CutWindow, Key, cut_windows
from abeval.time.events import event_rows
from abeval.time.novelty import find_decays
from abeval.time.open import open_logs
from abeval.time.ramps import Strata, shares_of, strata_of
from abeval.time.rhythm import clock_rows
from abeval.time.stability import agreement, judge
from abeval.time.time_sums import TimeSums, sums_of
from abeval.time.windows import effect_of, row_of, window_rows


@dataclass(frozen=True)
class MetricOverTime:
    """Everything about one metric in one variant."""

    stability: Stability
    novelty: tuple[Novelty, ...]
    windows: tuple[WindowRow, ...]
    looks: tuple[Look, ...]
    events: tuple[EventRow, ...]


def windows(
    run: Run,
    metrics: Sequence[Metric],
    widths: Sequence[int],
    looks: Sequence[int],
    by: Sequence[By] = (),
) -> TimeResult:
    """Analyse an experiment over time."""
    experiment, step = run.experiment, run.step
    logs = open_logs(run, metrics)
    sums = sums_of(logs, step, by)
    cuts: Mapping[Key, Sequence[CutWindow]] = {}
    if len(strata_of(sums.activity)) == 1:
        cuts = cut_windows(logs, sums.days, widths, step)
    step("windows")
    return judge_time(experiment, metrics, sums, widths, looks, cuts)


def judge_time(
    experiment: Experiment,
    metrics: Sequence[Metric],
    sums: TimeSums,
    widths: Sequence[int] = (3, 7),
    looks: Sequence[int] = (),
    cuts: Mapping[Key, Sequence[CutWindow]] = MappingProxyType({}),
) -> TimeResult:
    """What the sums say, without a log; `cuts` are the windows that are no sums over days."""
    strata, own = strata_of(sums.activity), frozenset(name for name, _ in cuts)
    pairs = [(metric, variant) for metric in metrics for variant in experiment.treatments]
    found = [
        metric_over_time(experiment, *pair, sums, strata, widths, looks, cuts.get(_key(*pair)))
        for pair in pairs
        if pair[0].name in sums.metrics
    ]
    alone = [
        cut_over_time(experiment, *pair, sums, looks, cuts[_key(*pair)])
        for pair in pairs
        if pair[0].name not in sums.metrics and _key(*pair) in cuts
    ]
    clocks = [clock_rows(experiment, metrics, clock, strata) for clock in sums.clocks]
    windows = [one.windows for one in found] + [rows for rows, _ in (*alone, *clocks)]
    seen = [one.looks for one in found] + [looks for _, looks in alone]
    return TimeResult(
        schema_version=TIME_SCHEMA_VERSION,
        name=experiment.name,
        alpha=experiment.alpha,
        days=sums.days,
        partial=tuple(sorted(sums.partial)),
        stability=tuple(one.stability for one in found),
        novelty=tuple(row for one in found for row in one.novelty),
        windows=tuple(chain(*windows)),
        looks=tuple(chain(*seen)),
        events=tuple(row for one in found for row in one.events),
        ramps=_ramps(sums, strata),
        refused=_refused(metrics, sums, strata, own),
        notes=_notes(metrics, sums, strata, own),
        rhythms=tuple(row for _, tests in clocks for row in tests),
        before=balance(experiment, metrics, sums.before),
    )


def _key(metric: Metric, variant: str) -> Key:
    return metric.name, variant


def metric_over_time(
    experiment: Experiment,
    metric: Metric,
    variant: str,
    sums: TimeSums,
    strata: Strata,
    widths: Sequence[int] = (),
    looks: Sequence[int] = (),
    cut: Sequence[CutWindow] | None = None,
) -> MetricOverTime:
    """One metric in one variant; `cut` are its windows on the calendar where it has its own."""
    arms, control = sums.metrics[metric.name], experiment.control
    days = calendar(arms, control, strata, sums.days, sums.partial)
    ages = since_entry(arms, control, strata, days.partial)
    rule = Rule(experiment.alpha, experiment.inference.relative)
    if cut is None:
        rows = window_rows(metric, days, variant, rule, widths)
        seen = looks_at(metric, days, variant, rule)
    else:
        rows, seen = cut_rows(metric, days, variant, cut), cut_looks(metric, cut)
    decays = find_decays(metric, ages, variant, sums.days)
    judged = judge(metric, days, variant, decays)
    told, row = _with_looks(experiment, metric, variant, seen, sums, looks, judged.row)
    signs, conclusions = agreement(metric, rows)
    events: tuple[EventRow, ...] = ()
    if judged.series is not None:
        events = event_rows(metric, variant, experiment.events, judged.series, sums.days)
    return MetricOverTime(
        stability=replace(row, sign_share=signs, significance_share=conclusions),
        novelty=decays.rows,
        windows=(*rows, *window_rows(metric, ages, variant, rule, widths)),
        looks=told,
        events=events,
    )


def cut_over_time(
    experiment: Experiment,
    metric: Metric,
    variant: str,
    sums: TimeSums,
    looks: Sequence[int],
    cut: Sequence[CutWindow],
) -> tuple[tuple[WindowRow, ...], tuple[Look, ...]]:
    """Windows and looks of a metric whose days do not add up, and have no known covariance.

    The catalogue is not looked at: what it is compared at grows with the traffic.
    """
    axis = calendar({}, experiment.control, (), sums.days, sums.partial)
    rows = cut_rows(metric, axis, variant, cut)
    if metric.kind == "catalogue":
        return rows, ()
    nothing = Stability(metric.name, variant, "too_early", "")
    seen = cut_looks(metric, cut)
    return rows, _with_looks(experiment, metric, variant, seen, sums, looks, nothing)[0]


def cut_rows(
    metric: Metric, axis: Axis, variant: str, cut: Sequence[CutWindow]
) -> tuple[WindowRow, ...]:
    """The rows of windows that were worked out one by one."""
    return tuple(row_of(metric, axis, variant, one.kind, one.span, one.comparison) for one in cut)


def cut_looks(metric: Metric, cut: Sequence[CutWindow]) -> tuple[peeking.Seen, ...]:
    """The looks that such windows give."""
    cumulative = [(one.span[1], one.comparison) for one in cut if one.kind == "cumulative"]
    return peeking.seen_of(metric, cumulative)


def looks_at(metric: Metric, axis: Axis, variant: str, rule: Rule) -> tuple[peeking.Seen, ...]:
    """The effect on the data up to each day, once there are units enough."""
    upto = [
        (day, effect_of(metric, axis, variant, (0, day), rule, entered=True))
        for day in range(len(axis.labels))
    ]
    return peeking.seen_of(metric, upto)


def _with_looks(
    experiment: Experiment,
    metric: Metric,
    variant: str,
    seen: Sequence[peeking.Seen],
    sums: TimeSums,
    planned: Sequence[int],
    row: Stability,
) -> tuple[tuple[Look, ...], Stability]:
    """The looks, and the verdict with the window that the metric needs."""
    try:
        path = peeking.follow(seen, experiment.alpha, _planned_share(experiment, sums))
        days = planned or peeking.planned_days(experiment, sums.days)
        spending = experiment.inference.spending
        looks = peeking.look_rows(
            metric, variant, path, sums.days, experiment.alpha, days, spending
        )
    except Refusal:
        return (), row
    needed = peeking.window_needed(looks, sums.days)
    unclear = looks[-1].always_declares == "unclear"
    more = peeking.days_needed(path, experiment.alpha) if unclear else None
    return looks, replace(row, window_days=needed, days_needed=more)


def _planned_share(experiment: Experiment, sums: TimeSums) -> float:
    """Share of the period's days that the log has covered."""
    if experiment.period is None:
        return 1.0
    start, end = experiment.period.bounds
    planned = (end - start).total_seconds() / 86_400
    return min(1.0, len(sums.days) / planned) if planned > 0 else 1.0


def _ramps(sums: TimeSums, strata: Strata) -> tuple[Ramp, ...]:
    shares = shares_of(sums.activity, strata)
    return tuple(
        Ramp(sums.days[days[0]], sums.days[days[-1]], share)
        for days, share in zip(strata, shares, strict=True)
    )


def _refused(
    metrics: Sequence[Metric], sums: TimeSums, strata: Strata, cut: Collection[str]
) -> dict[str, str]:
    """Why metrics have no windows."""
    left = {name: why for name, why in sums.refused.items() if name not in cut}
    if len(strata) == 1:
        return left
    why = (
        "traffic shares changed, and only sums over days are compared within stretches of one share"
    )
    no_days = {metric.name: metric.source.no_days for metric in metrics}
    return {name: why if text == no_days[name] else text for name, text in left.items()}


def _notes(
    metrics: Sequence[Metric], sums: TimeSums, strata: Strata, cut: Collection[str]
) -> tuple[str, ...]:
    said = []
    if len(strata) > 1:
        said.append(
            f"Traffic shares changed during the experiment: units are compared within "
            f"{len(strata)} stretches of entry days of one share each."
        )
    if sums.partial:
        said.append(f"Only partly covered: {', '.join(sorted(sums.partial))}.")
    if "gauc" in sums.metrics:
        said.append("GAUC over time is that of units within a day, weighted by impressions.")
    said.extend(
        f"Not by {clock.by}, because no sums over impressions: {', '.join(clock.refused)}."
        for clock in sums.clocks
        if clock.refused
    )
    own = [m.name for m in metrics if m.name in cut and m.name in sums.metrics]
    if own:
        said.append(
            "Capped or adjusted on the calendar and at looks; not in the tests of stability and "
            f"novelty, nor by days since entry, hour and weekday: {', '.join(own)}."
        )
    return tuple(said)
