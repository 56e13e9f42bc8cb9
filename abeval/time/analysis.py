"""Logs → effects over time: windows, stability, novelty, looks, events.

`api/` calls `windows` (`abeval windows`) with a `Run` and metrics. It opens the logs, asks
`time/time_sums.py` for sums and the other modules of `time/` for verdicts: a `TimeResult`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

from abeval.experiment.model import Experiment
from abeval.inference.comparison import Arms, Rule
from abeval.inference.context import ramps
from abeval.inference.trust.groups import balance
from abeval.inference.trust.split import unexplained_words
from abeval.logs.placing import knows_assignment
from abeval.logs.run import Run
from abeval.metrics.definition import CATALOGUE, QUANTILE, Metric
from abeval.results import Ramp
from abeval.results.windows import (
    TIME_SCHEMA_VERSION,
    EventRow,
    Look,
    Novelty,
    Stability,
    TimeResult,
    WindowRow,
)
from abeval.stats.records import Refusal
from abeval.time import peeking
from abeval.time.change import Decays, agreement, event_rows, find_decays, stability_of
from abeval.time.cut import By, ClockSums, Key, clock_rows, cut_windows, hour_sums, weekday_sums
from abeval.time.day_sums import NO_DAYS, Known, known_of
from abeval.time.open import OpenLogs, open_logs
from abeval.time.time_sums import TimeSums, sums_of, timed
from abeval.time.windows import (
    Course,
    Strata,
    Window,
    calendar,
    since_entry,
    strata_of,
    window_rows,
    windows_of,
)


@dataclass(frozen=True)
class Timeline:
    """An experiment's sums over time, and which windows and looks are wanted of them.

    Attributes:
        experiment: The experiment.
        sums: Its sums.
        widths: Days of rolling windows.
        looks: Days of planned looks; without, those of the experiment file.
        cuts: Metric and variant → windows that are no sums over days.
        clocks: Sums by hour and by weekday, if chosen.
    """

    experiment: Experiment
    sums: TimeSums
    widths: Sequence[int] = ()
    looks: Sequence[int] = ()
    cuts: Mapping[Key, Sequence[Window]] = field(default_factory=dict)
    clocks: Sequence[ClockSums] = ()

    @cached_property
    def strata(self) -> Strata:
        """Groups of entry days whose traffic was split at the same shares."""
        return strata_of(self.sums.stretches, self.sums.days)

    @property
    def cut_names(self) -> frozenset[str]:
        """Metrics with windows that are no sums over days."""
        return frozenset(name for name, _ in self.cuts)

    @property
    def rule(self) -> Rule:
        """How effects are judged: at a fixed horizon, without adjustment."""
        return Rule(self.experiment.alpha, self.experiment.inference.relative)

    def known(self, metric: Metric, variant: str) -> Known | None:
        """How skewed a metric's values are in a variant and control, None where it is not known."""
        thirds, arms = self.sums.thirds.get(metric.name), Arms(self.experiment.control, variant)
        return None if thirds is None else known_of(metric, thirds, arms, self.sums.days)


@dataclass(frozen=True)
class MetricOverTime:
    """Everything about one metric in one variant; no verdict where its days do not add up."""

    windows: tuple[WindowRow, ...]
    looks: tuple[Look, ...]
    stability: Stability
    novelty: tuple[Novelty, ...] = ()
    events: tuple[EventRow, ...] = ()


def windows(
    run: Run,
    metrics: Sequence[Metric],
    widths: Sequence[int],
    looks: Sequence[int],
    by: Sequence[By] = (),
    logs: OpenLogs | None = None,
) -> TimeResult:
    """Analyse an experiment over time; `logs` may be open already."""
    # Of sources without days only those of `time/cut.py` have windows.
    dated = [m for m in metrics if m.source.no_days is None or m.source in (QUANTILE, CATALOGUE)]
    logs = logs or open_logs(run, metrics, dated, by_day=True)
    if logs.stretches and not knows_assignment(run.experiment):
        words = f"split_changed: {unexplained_words(run.experiment, logs.stretches)}"
        refused = dict.fromkeys((metric.name for metric in logs.metrics), words)
        logs = replace(logs, metrics=(), refused={**logs.refused, **refused})
    read = timed(logs, run.step)
    clocks: list[ClockSums] = []
    if "hour" in by:
        run.step("hours of the day")
        clocks.append(hour_sums(read))
    if "weekday" in by:
        clocks.append(weekday_sums(read))
    cuts = cut_windows(read, widths, run.step)
    run.step("windows")
    timeline = Timeline(run.experiment, sums_of(read), widths, looks, cuts, clocks)
    # The cells of the log are large, and nothing reads them any more.
    del logs, read
    return time_result(timeline, metrics)


def time_result(timeline: Timeline, metrics: Sequence[Metric]) -> TimeResult:
    """The result, from a timeline; reads no log."""
    experiment, sums = timeline.experiment, timeline.sums
    summed, cut = list[MetricOverTime](), list[MetricOverTime]()
    for metric in metrics:
        if metric.name in sums.metrics:
            summed += metric_over_time(timeline, metric)
        else:
            keys = [key for key in timeline.cuts if key[0] == metric.name]
            cut += [cut_over_time(timeline, metric, variant) for _, variant in keys]
    clocks = [
        clock_rows(timeline.known, experiment, metrics, clock, timeline.strata)
        for clock in timeline.clocks
    ]
    rows = [*(one.windows for one in (*summed, *cut)), *(rows for rows, _ in clocks)]
    return TimeResult(
        schema_version=TIME_SCHEMA_VERSION,
        name=experiment.name,
        alpha=experiment.alpha,
        days=sums.days,
        partial=tuple(sorted(sums.partial)),
        stability=tuple(one.stability for one in summed),
        novelty=tuple(row for one in summed for row in one.novelty),
        windows=tuple(chain(*rows)),
        looks=tuple(row for one in (*summed, *cut) for row in one.looks),
        events=tuple(row for one in summed for row in one.events),
        ramps=_ramps(timeline),
        refused=_refused(timeline, metrics),
        notes=_notes(timeline, metrics),
        rhythms=tuple(row for _, tests in clocks for row in tests),
        before=balance(experiment, metrics, sums.before),
        units={metric.name: metric.unit for metric in metrics},
    )


def metric_over_time(timeline: Timeline, metric: Metric) -> list[MetricOverTime]:
    """One metric in every variant, from its sums; with windows of its own where it has them."""
    sums, rule, widths = timeline.sums, timeline.rule, timeline.widths
    control, by_day = timeline.experiment.control, sums.metrics[metric.name]
    known = {name: timeline.known(metric, name) for name in timeline.experiment.treatments}
    ages = since_entry(by_day, control, timeline.strata)
    since = {}
    for name, of_variant in known.items():
        course = Course(metric, name, ages, of_variant)
        rows = window_rows(course, windows_of(course, rule, widths))
        since[name] = rows, find_decays(course, sums.days)
    # Sums by days since entry and those of the calendar are large: one is gone before the other.
    del ages, course
    axis = calendar(by_day, control, timeline.strata, sums.days, sums.partial)
    return [
        _on_calendar(timeline, Course(metric, name, axis, known[name]), *of_variant)
        for name, of_variant in since.items()
    ]


def _on_calendar(
    timeline: Timeline, course: Course, since: Sequence[WindowRow], decays: Decays
) -> MetricOverTime:
    metric, dates = course.metric, timeline.sums.days
    windows = timeline.cuts.get((metric.name, course.variant))
    if windows is None:
        windows = windows_of(course, timeline.rule, timeline.widths)
    rows = window_rows(course, windows)
    verdict, series = stability_of(course, decays)
    looks, verdict = _with_looks(timeline, course, snapshots(metric, windows), verdict)
    sign_share, significance_share = agreement(metric, rows)
    events: tuple[EventRow, ...] = ()
    if series is not None:
        events = event_rows(metric, course.variant, timeline.experiment.events, series, dates)
    return MetricOverTime(
        windows=(*rows, *since),
        looks=looks,
        stability=replace(verdict, sign_share=sign_share, significance_share=significance_share),
        novelty=decays.rows,
        events=events,
    )


def cut_over_time(timeline: Timeline, metric: Metric, variant: str) -> MetricOverTime:
    """Windows and looks of a metric whose days do not add up, and have no known covariance.

    The catalogue has no looks: the number of units it is compared at grows with the traffic.
    """
    sums, cut = timeline.sums, timeline.cuts[metric.name, variant]
    axis = calendar(NO_DAYS, timeline.experiment.control, timeline.strata, sums.days, sums.partial)
    course = Course(metric, variant, axis)
    none = Stability(metric.name, variant, "too_early", "")
    looks: tuple[Look, ...] = ()
    if metric.kind != "catalogue":
        looks, _ = _with_looks(timeline, course, snapshots(metric, cut), none)
    return MetricOverTime(window_rows(course, cut), looks, none)


def snapshots(metric: Metric, windows: Sequence[Window]) -> tuple[peeking.Snapshot, ...]:
    """The looks at the data up to the end of each day."""
    cumulative = [(one.span[1], one.comparison) for one in windows if one.kind == "cumulative"]
    return peeking.snapshots_of(metric, cumulative)


def _with_looks(
    timeline: Timeline, course: Course, snapshots: Sequence[peeking.Snapshot], verdict: Stability
) -> tuple[tuple[Look, ...], Stability]:
    """The looks, and the verdict with the window that the metric needs."""
    experiment, dates = timeline.experiment, timeline.sums.days
    alpha = experiment.alpha
    days = timeline.looks or peeking.planned_days(experiment, dates)
    plan = peeking.LookPlan(days, alpha, experiment.inference.spending)
    try:
        path = peeking.follow(snapshots, alpha, _planned_share(timeline))
        looks = peeking.look_rows(course, path, plan)
    except Refusal:
        return (), verdict
    needed = peeking.window_needed(looks, dates)
    unclear = looks[-1].always_declares == "unclear"
    more = peeking.days_needed(path, alpha) if unclear else None
    return looks, replace(verdict, window_days=needed, days_needed=more)


def _planned_share(timeline: Timeline) -> float | None:
    """Share of the period's days that the log has covered, None without a period."""
    period = timeline.experiment.period
    if period is None:
        return None
    start, end = period.bounds
    return min(1.0, len(timeline.sums.days) / ((end - start).total_seconds() / 86_400))


def _ramps(timeline: Timeline) -> tuple[Ramp, ...]:
    """The stretches of one split; all days are one where it did not change."""
    sums = timeline.sums
    if sums.stretches:
        return ramps(sums.stretches)
    units = {name: int(entered.sum()) for name, entered in sums.entered.items()}
    total = max(sum(units.values()), 1)
    return (Ramp(sums.days[0], sums.days[-1], {name: n / total for name, n in units.items()}),)


def _refused(timeline: Timeline, metrics: Sequence[Metric]) -> dict[str, str]:
    """Why metrics have no windows."""
    cut = timeline.cut_names
    refused = {name: why for name, why in timeline.sums.refused.items() if name not in cut}
    if not timeline.sums.stretches:
        return refused
    why = (
        "split_changed: traffic shares changed, and only sums over days can be compared among "
        "units that entered at the same share"
    )
    no_days = {metric.name: metric.source.no_days for metric in metrics}
    return {name: why if text == no_days[name] else text for name, text in refused.items()}


def _notes(timeline: Timeline, metrics: Sequence[Metric]) -> tuple[str, ...]:
    sums = timeline.sums
    notes = []
    if sums.stretches and sums.metrics:
        notes.append(
            "Traffic shares changed during the experiment: units are compared within "
            f"{len(sums.stretches)} groups of entry days with the same shares."
        )
    if sums.partial:
        notes.append(f"Days that the log covers only in part: {', '.join(sorted(sums.partial))}.")
    if "gauc" in sums.metrics:
        notes.append("GAUC over time is the AUC of a unit within a day, weighted by impressions.")
    notes.extend(
        f"Not by {clock.by}, because they are not sums over impressions: "
        f"{', '.join(clock.refused)}."
        for clock in timeline.clocks
        if clock.refused
    )
    cut = [m.name for m in metrics if m.name in timeline.cut_names and m.name in sums.metrics]
    if cut:
        notes.append(
            "Capped or adjusted by calendar day and at looks, but not in the tests of stability "
            f"and novelty, nor by days since entry, hour and weekday: {', '.join(cut)}."
        )
    return tuple(notes)
