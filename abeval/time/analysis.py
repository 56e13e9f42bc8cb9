"""Analyse effects over time: windows, stability, novelty, looks, events."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from abeval.inference.context import list_ramps
from abeval.inference.trust.groups import balance
from abeval.inference.trust.split import explain_ambiguous_split
from abeval.logs.placing import knows_assignment
from abeval.logs.run import Run
from abeval.metrics.definition import CATALOGUE, QUANTILE, Metric
from abeval.results import windows as records
from abeval.results.analysis import Ramp
from abeval.stats.records import Refusal
from abeval.time import change, cut, peeking
from abeval.time import windows as axes
from abeval.time.time_sums import (
    By,
    DailyLogs,
    Timeline,
    build_timeline,
    find_entry_periods,
    load_days,
    read_logs,
)


@dataclass(frozen=True)
class MetricOverTime:
    """Hold everything about one metric in one variant.

    There is no verdict where its days do not add up.
    """

    windows: Sequence[records.WindowRow]
    looks: tuple[records.Look, ...]
    stability: records.Stability | None = None
    novelty: records.Novelty | None = None
    events: tuple[records.EventRow, ...] = ()
    weeks: tuple[records.WeekSinceEntry, ...] = ()


def analyze_windows(
    run: Run,
    metrics: Sequence[Metric],
    widths: Sequence[int],
    looks: Sequence[int],
    by: Sequence[By] = (),
    daily: DailyLogs | None = None,
) -> records.TimeResult:
    """Analyse an experiment over time; its days may be loaded already."""
    # Of sources without days only those of `time/cut.py` have windows.
    dated = [m for m in metrics if m.source.no_days is None or m.source in (QUANTILE, CATALOGUE)]
    read = daily.read if daily else read_logs(run, metrics, dated, by_day=True)
    reason = ""
    if run.experiment.design is not None:
        # Windows are of single units, whose variance says nothing of randomised clusters.
        reason = "clustered: windows are of single units, and clusters were randomised"
    elif not knows_assignment(run.experiment) and (split_periods := find_entry_periods(read)):
        reason = f"split_changed: {explain_ambiguous_split(run.experiment, split_periods)}"
    if daily is None or reason:
        daily = load_days(read, metrics, reason)
    clocks = [cut.CLOCKS[name](daily, run.step) for name in cut.CLOCKS if name in by]
    cuts = cut.cut_windows(daily, widths, run.step)
    run.step("windows")
    line = replace(build_timeline(daily), widths=widths, looks=looks, cuts=cuts, clocks=clocks)
    # The cells of the log are large, and nothing reads them any more.
    del read, daily
    return _build_time_result(line, metrics)


def _build_time_result(line: Timeline, metrics: Sequence[Metric]) -> records.TimeResult:
    """Build the result from a timeline; reads no log."""
    experiment = line.experiment
    parts = [part for metric in metrics for part in follow_metric(line, metric)]
    # Those without a verdict come last.
    parts.sort(key=lambda part: part.stability is None)
    clocks = [cut.estimate_clock_effects(line, metrics, clock) for clock in line.clocks]
    rows = [*(part.windows for part in parts), *(rows for rows, _ in clocks)]
    return records.TimeResult(
        schema_version=records.TIME_SCHEMA_VERSION,
        name=experiment.name,
        alpha=experiment.alpha,
        days=line.days,
        partial=tuple(sorted(line.partial)),
        stability=tuple(part.stability for part in parts if part.stability is not None),
        novelty=tuple(part.novelty for part in parts if part.novelty is not None),
        windows=tuple(chain(*rows)),
        looks=tuple(row for part in parts for row in part.looks),
        events=tuple(row for part in parts for row in part.events),
        ramps=_list_split_periods(line),
        refused=_explain_refusals(line, metrics),
        notes=tuple(_write_notes(line, metrics)),
        rhythms=tuple(row for _, tests in clocks for row in tests),
        weeks=tuple(week for part in parts for week in part.weeks),
        before=balance(experiment, metrics, line.before),
        units={metric.name: metric.unit for metric in metrics},
        questions=tuple(experiment.questions),
    )


def follow_metric(line: Timeline, metric: Metric) -> list[MetricOverTime]:
    """Follow one metric in every variant, from its sums or its windows."""
    control, strata, by_day = line.experiment.control, line.strata, line.metrics.get(metric.name)
    if by_day is None:
        # Its days do not add up, and have no known covariance.
        axis = axes.build_calendar_axis(None, control, strata, line.days, line.partial)
        cut_windows = {key: windows for key, windows in line.cuts.items() if key[0] == metric.name}
        return [
            _follow_windows(line, axes.Course(metric, variant, axis), windows)
            for (_, variant), windows in cut_windows.items()
        ]
    treatments = line.experiment.treatments
    skewness_inputs = {name: line.find_skewness(metric, name) for name in treatments}
    axis, since = axes.build_entry_axis(by_day, control, strata), []
    for name, of_variant in skewness_inputs.items():
        course = axes.Course(metric, name, axis, of_variant)
        windows = axes.compute_windows(course, line.rule, line.widths)
        rows = [axes.build_row(course, *window) for window in windows]
        since.append((rows, change.find_decay(course)))
    # Sums by days since entry and those of the calendar are large: one is gone before the other.
    del axis, course
    axis = axes.build_calendar_axis(by_day.sum_days(), control, strata, line.days, line.partial)
    courses = [axes.Course(metric, name, axis, inputs) for name, inputs in skewness_inputs.items()]
    return [_follow_calendar(line, *pair) for pair in zip(courses, since, strict=True)]


def _follow_windows(
    line: Timeline, course: axes.Course, windows: Sequence[axes.Window]
) -> MetricOverTime:
    """Follow a metric by its windows alone."""
    # Catalogue metrics are compared at a number of units that grows with the traffic, so looks at
    # them cannot be compared.
    is_looked_at = course.metric.kind != "catalogue"
    looks = _looks(line, course, windows) if is_looked_at else ()
    return MetricOverTime([axes.build_row(course, *window) for window in windows], looks)


def _follow_calendar(
    line: Timeline, course: axes.Course, since: tuple[Sequence[records.WindowRow], change.Decay]
) -> MetricOverTime:
    metric, (rows_since, decay) = course.metric, since
    windows = line.cuts.get((metric.name, course.variant))
    if windows is None:
        windows = axes.compute_windows(course, line.rule, line.widths)
    rows = [axes.build_row(course, *window) for window in windows]
    verdict, series = change.judge_stability(course, decay)
    looks = _looks(line, course, windows)
    sign_share, significance_share = change.compare_rolling_windows(metric, rows)
    dated = () if series is None else line.experiment.events
    events = tuple(change.compare_event_days(course, event, series) for event in dated if series)
    verdict = replace(
        verdict,
        window_days=peeking.find_conclusion_day(looks, line.days),
        sign_share=sign_share,
        significance_share=significance_share,
    )
    return MetricOverTime([*rows, *rows_since], looks, verdict, decay.row, events, decay.weeks)


def _looks(
    line: Timeline, course: axes.Course, windows: Sequence[axes.Window]
) -> tuple[records.Look, ...]:
    """Return the looks; none where no test has both ends."""
    experiment = line.experiment
    alpha, spending = experiment.alpha, experiment.inference.spending
    days = line.looks or peeking.list_look_days(experiment, line.days)
    share = None
    if experiment.period is not None:
        # The log may be longer than the planned period.
        share = min(1.0, len(line.days) / peeking.count_days(experiment.period))
    try:
        held = peeking.follow(peeking.take_snapshots(course.metric, windows), alpha, share)
        return peeking.look_rows(course, held, days, spending, alpha)
    except Refusal:
        return ()


def _list_split_periods(line: Timeline) -> tuple[Ramp, ...]:
    """Return the split periods; all days are one where the split did not change."""
    if line.split_periods:
        return list_ramps(line.split_periods)
    units = {name: int(entered.sum()) for name, entered in line.entry_counts.items()}
    total = max(sum(units.values()), 1)
    return (Ramp(line.days[0], line.days[-1], {name: n / total for name, n in units.items()}),)


def _explain_refusals(line: Timeline, metrics: Sequence[Metric]) -> dict[str, str]:
    """Say why metrics have no windows."""
    cut_names = {name for name, _ in line.cuts}
    refused = {name: why for name, why in line.refused.items() if name not in cut_names}
    if not line.split_periods:
        return refused
    no_days = {metric.name: metric.source.no_days for metric in metrics}
    changed = (
        "split_changed: traffic shares changed, and only sums over days can be compared among "
        "units that entered at the same share"
    )
    # Where the split changed, that is why windows by rows are missing, too.
    return {name: changed if text == no_days[name] else text for name, text in refused.items()}


def _write_notes(line: Timeline, metrics: Sequence[Metric]) -> Iterator[str]:
    if line.split_periods and line.metrics:
        yield (
            "Traffic shares changed during the experiment: units are compared within "
            f"{len(line.split_periods)} groups of entry days with the same shares."
        )
    if line.partial:
        yield f"Days that the log covers only in part: {', '.join(sorted(line.partial))}."
    if "gauc" in line.metrics:
        yield "GAUC over time is the AUC of a unit within a day, weighted by impressions."
    for clock in (clock for clock in line.clocks if clock.refused):
        names = ", ".join(clock.refused)
        yield f"Not by {clock.by}, because they are not sums over impressions: {names}."
    cut_names = {name for name, _ in line.cuts} & line.metrics.keys()
    adjusts = line.experiment.inference.adjust != "none"
    changed = [m.name for m in metrics if m.name in cut_names and (adjusts or m.cap is not None)]
    if changed:
        yield (
            "Capped or adjusted by calendar day and at looks, but not in the tests of stability "
            f"and novelty, nor by days since entry, hour and weekday: {', '.join(changed)}."
        )
