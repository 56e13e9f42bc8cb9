"""Build the metadata and notes that accompany the effects."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from statistics import median
from zoneinfo import ZoneInfo

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.sums import LEFT_OUT, SEGMENT, pool_moments
from abeval.experiment.model import Experiment
from abeval.experiment.sources import OUTCOME, ROW_UNIT
from abeval.inference import clustered
from abeval.inference.compare import Analysis
from abeval.inference.comparison import Arms, Comparisons
from abeval.inference.looks import (
    START_PRECISION,
    START_UNITS,
    Looks,
    PlannedLooks,
    build_looks,
    find_next_look,
)
from abeval.inference.means_and_ratios import MIN_PERIOD_UNITS, find_comparable_periods
from abeval.inference.trust.rows import list_expected_days
from abeval.logs.accounting import DayRows
from abeval.logs.checks import USED, USED_BEFORE
from abeval.logs.placing import SplitPeriods
from abeval.metrics.definition import CATALOGUE, Metric, list_row_values, list_unit_terms
from abeval.metrics.row_text import list_columns
from abeval.results import format as fmt
from abeval.results.analysis import (
    Account,
    ExperimentInfo,
    LeftOut,
    MetricInfo,
    Ramp,
    Schedule,
    VariantInfo,
)
from abeval.results.effects import Row
from abeval.stats import decisions

_USED = (USED, USED_BEFORE)
_HOUR_MS = 3_600_000
# Unknown variants of the log that a note names at most.
_NAMED = 8

# If at least this many cells have only each one variant, that is no chance.
_LIKELY = 2

# A test with this power overstates a significant effect by at most an eighth.
_ENOUGH_POWER = 0.8

_SMALL_ARM, _UNEVEN = 3_000, 3
# Kinds whose tests need large samples; means and ratios have a test for skewed values.
_LARGE = ("auc", "function")


def add_questions(experiment: Experiment, aggregates: Aggregates) -> Experiment:
    """Add open questions on the logs to the questions of the experiment file."""
    questions = dict.fromkeys([*experiment.questions, *aggregates.questions])
    return experiment.model_copy(update={"questions": [*questions]})


def build_experiment_info(experiment: Experiment, aggregates: Aggregates) -> ExperimentInfo:
    """Build the record of the experiment as analysed."""
    period, before = experiment.period, experiment.pre_period
    return ExperimentInfo(
        name=experiment.name,
        control=experiment.control,
        timezone=experiment.timezone,
        alpha=experiment.alpha,
        unit=experiment.unit if experiment.design is None else experiment.design.randomisation_unit,
        title=experiment.title,
        hypothesis=experiment.hypothesis,
        owner=experiment.owner,
        link=experiment.link,
        family=experiment.inference.family,
        looks=experiment.inference.looks,
        adjust=experiment.inference.adjust,
        questions=tuple(experiment.questions),
        start=None if period is None else str(period.start),
        end=None if period is None else str(period.end),
        pre_start=None if before is None else str(before.start),
        pre_end=None if before is None else str(before.end),
        variants=tuple(
            VariantInfo(name, variant.weight, variant.model, aggregates.count_units(name))
            for name, variant in experiment.variants.items()
        ),
    )


def build_metric_info(metric: Metric) -> MetricInfo:
    """Build the record of a metric's definition."""
    margin = metric.margin
    return MetricInfo(
        name=metric.name,
        kind=metric.kind,
        formula=metric.formula,
        unit=metric.unit,
        role=metric.role,
        within=metric.within,
        label=metric.label,
        description=metric.description,
        query=metric.source.query,
        direction=metric.direction.label,
        margin=None if margin is None else margin.size,
        margin_relative=None if margin is None else margin.relative,
    )


def count_left_out(metrics: Sequence[Metric], aggregates: Aggregates) -> tuple[LeftOut, ...]:
    """Count, by variant, what metric definitions leave out or count as 0."""
    return tuple(
        LeftOut(metric.name, variant, what, count, is_zero and what in dict(metric.lacking))
        for metric in metrics
        for is_zero in (metric.missing == "zero",)
        for what, variant, count in aggregates.sums(metric.name, LEFT_OUT)
    )


def find_partial_days(experiment: Experiment, days: Sequence[DayRows]) -> dict[str, float]:
    """Find the share that the log has of its first and of its last day.

    Only a day that lacks over an hour is returned. A site may be quiet at night, so the other days
    tell when a day begins and ends.
    """
    if all(day.first_ms == day.last_ms for day in days):
        # The log knows days but no time of day.
        return {}
    zone = ZoneInfo(experiment.timezone)
    midnights = [datetime.fromisoformat(day.day).replace(tzinfo=zone) for day in days]
    starts = [at.timestamp() * 1000 for at in midnights]
    ends = [(at + timedelta(days=1)).timestamp() * 1000 for at in midnights]
    late = [
        0.0 if d.first_ms is None else d.first_ms - at for d, at in zip(days, starts, strict=True)
    ]
    early = [0.0 if d.last_ms is None else at - d.last_ms for d, at in zip(days, ends, strict=True)]
    # Of a single day, nothing but the clock tells.
    usual = (median(late[1:]), median(early[:-1])) if len(days) > 1 else (0.0, 0.0)
    length, lacking = max(_HOUR_MS, 24 * _HOUR_MS - sum(usual)), defaultdict[str, float](float)
    for day, lack in ((days[0], late[0] - usual[0]), (days[-1], early[-1] - usual[1])):
        if lack > _HOUR_MS:
            lacking[day.day] += lack / length
    return {day: max(0.0, 1 - lack) for day, lack in lacking.items()}


def account_for_rows(aggregates: Aggregates) -> tuple[Account, ...]:
    """Count the rows of each log: read, used, and left out by reason."""
    # A reason without rows would only be noise.
    accounts, rows = [], [row_count for row_count in aggregates.row_counts if row_count.rows]
    for log in dict.fromkeys(row_count.log for row_count in aggregates.row_counts):
        counts = [(row_count.reason, row_count.rows) for row_count in rows if row_count.log == log]
        unused = tuple(pair for pair in counts if pair[0] not in _USED)
        read = sum(n for _, n in counts)
        accounts.append(Account(log, read, read - sum(n for _, n in unused), unused))
    return tuple(accounts)


def list_ramps(split_periods: SplitPeriods) -> tuple[Ramp, ...]:
    """Build a record for each period with a constant split; none if it never changed."""
    return tuple(Ramp(p.start, p.end, p.shares, p.weights) for p in split_periods)


def write_analysis_notes(
    analysis: Analysis, comparisons: Comparisons, rows: Sequence[Row], schedule: Schedule
) -> tuple[str, ...]:
    """Write the notes on how to read the numbers."""
    experiment, aggregates = analysis.experiment, analysis.aggregates
    return (
        *_note_unused_logs(experiment, analysis.metrics),
        *_note_winners_curse(analysis, comparisons, rows),
        *_note_few_units(comparisons),
        *_note_plan(experiment, analysis.metrics),
        *_note_rows(experiment, aggregates, schedule),
        *_note_look(experiment, aggregates),
        *_note_small_arms(analysis),
        *_note_split_changes(experiment, aggregates),
        *clustered.note_clusters(analysis.metrics, experiment, aggregates, comparisons),
        *_note_segments_of_one_variant(analysis),
        *aggregates.notes,
    )


def _note_unused_logs(experiment: Experiment, metrics: Sequence[Metric]) -> Iterator[str]:
    """Note the logs of the file that no metric or segment reads."""
    read = {value.log for metric in metrics for value in list_row_values(metric)}
    texts = [*experiment.row_segments.values(), *experiment.cuts.values()]
    reads_items = any("category" in m.needs or m.source is CATALOGUE for m in metrics)
    table = experiment.unit_table
    used = {
        "items": reads_items or any("category" in list_columns(text) for text in texts),
        "units": table is None or bool(table.segments or "units" in read),
        **{OUTCOME + log: log in read for log in experiment.logs.events},
    }
    used["units"] |= any(list_unit_terms(metric) for metric in metrics)
    unused = {
        name: log for name, log in experiment.logs.logs_by_name.items() if not used.get(name, True)
    }
    if unused:
        paths = {n: f" ({', '.join(log.paths)})" if log.paths else "" for n, log in unused.items()}
        labels = [f"[logs.{name}]{of_log}" for name, of_log in paths.items()]
        them = "it" if len(labels) == 1 else "them"
        yield f"Not used: {fmt.join_items(labels)}: no metric, segment or covariate reads {them}."


def _note_winners_curse(
    analysis: Analysis, comparisons: Comparisons, rows: Sequence[Row]
) -> Iterator[str]:
    """Note significant goals whose test has little power.

    Even if the true effect equals the estimate, significant estimates are larger on average (type M
    error; Gelman and Carlin 2014).
    """
    # Planned looks have a correction of their own.
    is_fixed = analysis.experiment.inference.looks == "fixed"
    for row in rows if is_fixed else ():
        effect = comparisons[row.metric, row.variant].effect
        is_significant = row.role == "goal" and row.status in ("better", "worse")
        if not is_significant or effect is None or effect.se <= 0:
            continue
        errors = decisions.type_s_m(effect.difference, effect.se, analysis.experiment.alpha)
        if errors.power < _ENOUGH_POWER:
            lift = fmt.format_lift(row.lift, row.lift_low, row.lift_high)
            size = f" of {lift.point}" if lift else ""
            yield (
                f"Winner's curse: {row.metric} of {row.variant} is significant by little. If its "
                f"true effect were the estimate{size}, a test like this would find it in "
                f"{errors.power:.0%}, and then overstate it {errors.exaggeration:.2f} times on "
                "average: expect less."
            )


def _note_few_units(comparisons: Comparisons) -> Iterator[str]:
    """Note ratios in which one unit holds much of the denominator."""
    for (metric, variant), comparison in comparisons.items():
        if comparison.few_units_decide:
            yield (
                f"{metric} of {variant}: one unit holds {comparison.largest_share:.0%} of the "
                "denominator in its variant. Few units decide the ratio; its interval takes that "
                "into account, but not what other such units would do."
            )


def _note_plan(experiment: Experiment, metrics: Sequence[Metric]) -> Iterator[str]:
    """Note what values divide by, the corrections and the looks."""
    family, units = experiment.inference.family, "units with an impression in the period"
    if experiment.is_unit_table:
        units = "the units of the table"
    elif experiment.logs.exposures is not None:
        units = "exposed units, zeros included"
    names = [metric.name for metric in metrics if metric.presence_terms is not None]
    by_known = f"; {fmt.join_items(names)} by those with a value" if names else ""
    yield f"Metrics per unit divide by {units}{by_known}."
    if len(metrics) * len(experiment.treatments) > 1:
        after = f"after {family.capitalize()} over goals × variants"
        after = "unadjusted" if family == "none" else after
        yield (
            "Intervals are not adjusted for the number of metrics, unless a row says so; the "
            f"status of a goal follows its p-value {after}."
        )
    count = sum(metric.role == "guardrail" for metric in metrics)
    if count > 1:
        side = fmt.format_percent(experiment.alpha / 2)
        stops = "unadjusted" if family == "none" else f"after Holm over the {count}"
        yield (
            f"To ship, each of the {count} guardrails has to hold, at {side} one-sided without a "
            f"correction, because all must; a guardrail stops a variant if it is worse {stops}."
        )
    yield _note_validity(experiment)
    if experiment.unit == ROW_UNIT:
        yield "Every row is its own unit: several rows of one user count as independent."


def _note_validity(experiment: Experiment) -> str:
    """Note at which looks intervals and p-values are valid."""
    if experiment.inference.looks == "fixed":
        return "Intervals and p-values are valid for one look, at the planned end."
    if experiment.inference.looks == "group_sequential":
        return "Intervals and p-values are valid over all planned looks together."
    planned, plan = experiment.inference.planned_units, "with planned_units they would be tighter"
    if planned is not None:
        plan = f"they are tightest at the planned {planned:,} units"
    return (
        "Intervals and p-values are valid at every look, however often you look, from "
        f"{START_UNITS} units in each variant on, once a metric's standard error is "
        f"{fmt.format_percent(START_PRECISION)} of its value or less; {plan}."
    )


def _note_rows(experiment: Experiment, aggregates: Aggregates, schedule: Schedule) -> Iterator[str]:
    """Note what the logs lack, and rows that are not compared."""
    early = describe_early_end(schedule)
    # At a planned look the days to come are no loss.
    if early and not (schedule.look and schedule.on_plan):
        yield f"{early.capitalize()}: the experiment still runs, or the log has lost its last days."
    outcome = "is refused" if experiment.metrics else "is not shown"
    for metric, columns in aggregates.refused.items():
        yield f"{metric} {outcome}: the logs lack {', '.join(columns)}."
    log = experiment.logs.rows_name
    if uncompared_rows := aggregates.count_rows("not_compared"):
        names = [*aggregates.other_variants]
        texts = [repr(name) for name in names[:_NAMED]]
        texts += [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
        names_text = f": {fmt.join_items(texts)}" if texts else ""
        yield (
            f"{uncompared_rows:,} {log} of variants that the experiment does not name are not "
            f"compared{names_text}."
        )
    if before := aggregates.count_rows(USED_BEFORE, log):
        yield (
            f"{before:,} of the used impressions are from before the period; they only serve to "
            "compare the groups before it."
        )
    if experiment.period is None and len(aggregates.days):
        dated_rows = sum(day.impressions for day in aggregates.days)
        missing = aggregates.count_rows(USED, "impressions") - dated_rows
        if missing > 0:
            yield (
                f"Used impressions without a usable time: {missing:,}. They count in the totals, "
                "and on no day."
            )


def describe_early_end(schedule: Schedule) -> str:
    """Say on which day the log ends; empty if it covers the period."""
    if schedule.day is None or schedule.days is None or schedule.day >= schedule.days:
        return ""
    return f"the log ends on {schedule.last}, day {schedule.day} of {schedule.days}"


def build_look_schedule(experiment: Experiment, aggregates: Aggregates) -> Schedule:
    """Return the day of the experiment and the number of this look."""
    days, looks = [day_rows.day for day_rows in aggregates.days], _looks(experiment, aggregates)
    day: tuple[str | None, int | None, int | None] = None, None, None
    if days:
        planned = list_expected_days(experiment, days)
        so_far = sum(date <= days[-1] for date in planned)
        day = days[-1], so_far, None if experiment.period is None else len(planned)
    if not isinstance(looks, PlannedLooks):
        return Schedule(*day)
    return Schedule(
        *day, len(looks.shares), looks.total_looks, looks.planned, find_next_look(experiment, looks)
    )


def _looks(experiment: Experiment, aggregates: Aggregates) -> Looks | None:
    """Return the looks, by the units of all variants together."""
    control = aggregates.count_units(experiment.control)
    treated_units = sum(aggregates.count_units(name) for name in experiment.treatments)
    return build_looks(experiment, (control, treated_units), aggregates.days)


def _note_look(experiment: Experiment, aggregates: Aggregates) -> Iterator[str]:
    """Note which of the planned looks this is."""
    looks = _looks(experiment, aggregates)
    if isinstance(looks, PlannedLooks):
        shares = [fmt.format_percent(share) for share in looks.shares]
        if looks.planned:
            yield f"This is look {len(shares)} of {looks.total_looks}, at {shares[-1]} of the plan."
            return
        yield (
            f"This look, at {shares[-1]} of the plan, is not a planned one: its boundary is valid "
            f"only if the looks so far were at {fmt.join_items(shares)}."
        )


def _note_split_changes(experiment: Experiment, aggregates: Aggregates) -> Iterator[str]:
    """Note that the split changed, and which units are left out."""
    split_periods = aggregates.split_periods
    if split_periods:
        yield (
            f"The split changed: units are compared within {len(split_periods)} split "
            "periods, each weighed by its share of all units. Quantiles, AUC, catalogue "
            "metrics and exact tests are then refused."
        )
    for arms in [Arms(experiment.control, name) for name in experiment.treatments]:
        compared = find_comparable_periods(aggregates, arms)
        counts = {
            split_period.start: units
            for index, split_period in enumerate(split_periods)
            if index not in compared
            and (units := sum(split_period.units.get(name, 0) for name in arms))
        }
        if counts:
            days = fmt.join_items([*counts])
            yield (
                f"{arms.treatment}: {sum(counts.values()):,} units of the split periods from "
                f"{days} are not compared, because {arms.treatment} or {arms.control} has fewer "
                f"than {MIN_PERIOD_UNITS} there."
            )


def _note_segments_of_one_variant(analysis: Analysis) -> Iterator[str]:
    """Note segments that seem to be the assignment itself."""
    metric, aggregates = analysis.metrics[0], analysis.aggregates
    for name in analysis.experiment.segment_names if aggregates.clusters is None else ():
        cells = aggregates.cells(metric.name, SEGMENT + name)
        variants = [tuple(pool_moments(analysis.moments(metric, SEGMENT + name, c))) for c in cells]
        # Values of the assignment itself occur in one variant each.
        often = [
            variants.count(variant_names) >= _LIKELY and len(variant_names) == 1
            for variant_names in {*variants}
        ]
        if len(often) > 1 and all(often):
            yield (
                f"Each of the {len(cells):,} values of segment {name} has one variant only. If it "
                "was randomised, an analysis by unit finds effects that are not there: write "
                "[design] cluster."
            )


def _note_small_arms(analysis: Analysis) -> Iterator[str]:
    """Note uneven splits where large-sample tests reject too often."""
    experiment, aggregates = analysis.experiment, analysis.aggregates
    resampled, metrics = experiment.inference.resample is not None, analysis.metrics
    names = [m.name for m in metrics if m.kind in _LARGE or (resampled and m.is_mean_or_ratio)]
    control = aggregates.count_units(experiment.control)
    for variant in experiment.treatments if names else ():
        small, large = sorted((control, aggregates.count_units(variant)))
        # Measured: too often at 9,000/1,000, at the level at 27,000/3,000 and at even splits.
        if 0 < small < _SMALL_ARM and large > _UNEVEN * small:
            yield (
                f"{variant} and {experiment.control} have uneven numbers of units, and the smaller "
                f"has {small:,}: if their values are skewed, tests of {fmt.join_items(names)} "
                "reject about 6 % here, instead of 5 %."
            )
