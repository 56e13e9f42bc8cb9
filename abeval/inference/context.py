"""The context of the effects: who was analysed, what was left out, what became of each row.

`judge.py` hands it experiment, metrics and aggregates, and puts what comes back into the result
beside the effects.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.sums import LEFT_OUT
from abeval.experiment.model import Experiment
from abeval.experiment.sources import ROW_UNIT
from abeval.inference.comparison import Arms
from abeval.inference.looks import START_PRECISION, START_UNITS, Planned, looks_of
from abeval.inference.means_and_ratios import MIN_STRETCH, left_out_of
from abeval.inference.trust.rows import expected_days
from abeval.logs.accounting import DayRows, other_variants
from abeval.logs.checks import USED, USED_BEFORE
from abeval.logs.placing import Stretches
from abeval.metrics.definition import Metric
from abeval.results import Account, ExperimentInfo, LeftOut, MetricInfo, Ramp, VariantInfo
from abeval.results import format as fmt

_USED = (USED, USED_BEFORE)
_HOUR_MS = 3_600_000
_NAMED = 8
"""Variants of the log, without those of the file, that a note names."""

_SMALL_ARM, _UNEVEN = 3_000, 3
_LARGE = ("auc", "function")
"""Kinds whose tests are for large samples; those of means and ratios change with the skewness."""


def experiment_info(experiment: Experiment, aggregates: Aggregates) -> ExperimentInfo:
    """What was analysed."""
    period, before = experiment.period, experiment.pre_period
    return ExperimentInfo(
        name=experiment.name,
        unit=experiment.unit,
        control=experiment.control,
        timezone=experiment.timezone,
        start=None if period is None else str(period.start),
        end=None if period is None else str(period.end),
        pre_start=None if before is None else str(before.start),
        pre_end=None if before is None else str(before.end),
        alpha=experiment.alpha,
        variants=tuple(
            VariantInfo(name, variant.weight, variant.model, aggregates.units_of(name))
            for name, variant in experiment.variants.items()
        ),
        family=experiment.inference.family,
        looks=experiment.inference.looks,
        adjust=experiment.inference.adjust,
    )


def metric_info(metric: Metric) -> MetricInfo:
    """The definition behind a metric's numbers."""
    margin = metric.margin
    return MetricInfo(
        name=metric.name,
        kind=metric.kind,
        formula=metric.formula,
        unit=metric.unit,
        direction=metric.direction.label,
        role=metric.role,
        margin=None if margin is None else margin.size,
        margin_relative=None if margin is None else margin.relative,
    )


def left_out(metrics: Sequence[Metric], aggregates: Aggregates) -> tuple[LeftOut, ...]:
    """What the definitions of metrics leave out, or count as 0, counted per variant."""
    return tuple(
        LeftOut(metric.name, variant, what, count, what in dict(metric.zeros))
        for metric in metrics
        for what, variant, count in aggregates.sums(metric.name, LEFT_OUT)
    )


def partial_days(experiment: Experiment, days: Sequence[DayRows]) -> frozenset[str]:
    """Days of which the log lacks more than an hour.

    Args:
        experiment: Its time zone.
        days: Those with an impression, in order.
    """
    zone = ZoneInfo(experiment.timezone)
    if all(one.first_ms == one.last_ms for one in days):
        # The log knows days but no time of day.
        return frozenset()
    first, last = days[0], days[-1]
    start = datetime.fromisoformat(first.day).replace(tzinfo=zone)
    end = datetime.fromisoformat(last.day).replace(tzinfo=zone) + timedelta(days=1)
    late = first.first_ms is not None and first.first_ms - start.timestamp() * 1000 > _HOUR_MS
    early = last.last_ms is not None and end.timestamp() * 1000 - last.last_ms > _HOUR_MS
    return frozenset([first.day] * late + [last.day] * early)


def accounting(aggregates: Aggregates) -> tuple[Account, ...]:
    """Rows of each log: read, used, and left out by reason."""
    accounts, by_log = [], dict[str, list[tuple[str, int]]]()
    for log, reason, rows in aggregates.accounts:
        by_log.setdefault(log, []).append((reason, rows))
    for log, pairs in by_log.items():
        used = sum(n for reason, n in pairs if reason in _USED)
        unused = tuple((reason, n) for reason, n in pairs if reason not in _USED and n)
        accounts.append(Account(log, used + sum(n for _, n in unused), used, unused))
    return tuple(accounts)


def _look_words(experiment: Experiment) -> str:
    match experiment.inference.looks:
        case "fixed":
            return "Intervals and p-values are valid for one look, at the planned end."
        case "group_sequential":
            return "Intervals and p-values are valid over all planned looks together."
        case "always_valid":
            every = "Intervals and p-values are valid at every look, however often you look"
    planned = experiment.inference.planned_units
    plan = (
        "with planned_units they would be tighter"
        if planned is None
        else f"they are tightest at the planned {planned:,} units"
    )
    return (
        f"{every}, from {START_UNITS} units in each variant on, once a metric's standard error is "
        f"{fmt.percent(START_PRECISION)} of its value or less; {plan}."
    )


def ramps(stretches: Stretches) -> tuple[Ramp, ...]:
    """Stretches of entry days of one split each; none where it did not change."""
    return tuple(Ramp(one.start, one.end, one.shares, one.weights) for one in stretches)


def _guardrail_words(experiment: Experiment, metrics: Sequence[Metric]) -> Iterator[str]:
    """What the number of guardrails does to the verdict."""
    count = sum(metric.role == "guardrail" for metric in metrics)
    if count < 2:
        return
    side = fmt.percent(experiment.alpha / 2)
    stops = (
        "unadjusted" if experiment.inference.family == "none" else f"after Holm over the {count}"
    )
    yield (
        f"To ship, each of the {count} guardrails has to hold, at {side} one-sided without a "
        f"correction, because all must; a guardrail stops a variant if it is worse {stops}."
    )


def _family_words(family: str) -> str:
    if family == "none":
        return "unadjusted"
    return f"after {family.capitalize()} over goals × variants"


def notes(
    experiment: Experiment, metrics: Sequence[Metric], aggregates: Aggregates
) -> tuple[str, ...]:
    """Sentences on how to read the numbers."""
    exposed = experiment.logs.exposures is not None
    units = "exposed units, zeros included" if exposed else "units with an impression in the period"
    if experiment.of_units:
        units = "the units of the table"
    sentences = [
        f"Metrics per unit divide by {units}.",
        "Intervals are not adjusted for the number of metrics, unless a row says so; "
        f"the status of a goal follows its p-value {_family_words(experiment.inference.family)}.",
        *_guardrail_words(experiment, metrics),
        _look_words(experiment),
    ]
    if experiment.unit == ROW_UNIT:
        sentences.append(
            "Every row is its own unit: several rows of one user count as independent."
        )
    if early := early_end(experiment, aggregates):
        sentences.append(
            f"{early.capitalize()}: the experiment still runs, or the log has lost its last days."
        )
    outcome = "is refused" if experiment.metrics else "is not shown"
    sentences += [
        f"{metric} {outcome}: the logs lack {', '.join(columns)}."
        for metric, columns in aggregates.refused.items()
    ]
    sentences += _not_compared(aggregates)
    before = _rows(aggregates, experiment.logs.rows_name, USED_BEFORE)
    if before:
        sentences.append(
            f"{before:,} of the used impressions are from before the period; they only "
            "serve to compare the groups before it."
        )
    sentences += [
        *_without_time(experiment, aggregates),
        *_look(experiment, aggregates),
        *_small_arms(experiment, metrics, aggregates),
        *_stretches(experiment, aggregates),
    ]
    return (*sentences, *experiment.overrides, *aggregates.notes)


def _without_time(experiment: Experiment, aggregates: Aggregates) -> Iterator[str]:
    """Impressions that count although their time is unknown: only without a period."""
    if experiment.period is not None or not len(aggregates.days):
        return
    used = _rows(aggregates, "impressions", USED)
    missing = used - sum(day.impressions for day in aggregates.days)
    if missing > 0:
        yield (
            f"Used impressions without a usable time: {missing:,}. They count in the totals, and "
            "on no day."
        )


def _rows(aggregates: Aggregates, log: str, reason: str) -> int:
    """Rows of a log that were used, or set aside for a reason."""
    return sum(one.rows for one in aggregates.accounts if (one.log, one.reason) == (log, reason))


def early_end(experiment: Experiment, aggregates: Aggregates) -> str:
    """Which day of the period the log ends on, in words; empty where it ends with the period."""
    days = [one.day for one in aggregates.days]
    planned = expected_days(experiment, days) if days else []
    if not planned or days[-1] >= planned[-1]:
        return ""
    return f"the log ends on {days[-1]}, day {planned.index(days[-1]) + 1} of {len(planned)}"


def _not_compared(aggregates: Aggregates) -> Iterator[str]:
    rows = sum(one.rows for one in aggregates.accounts if one.reason == "not_compared")
    if rows:
        yield (
            f"{rows:,} impressions of variants that the experiment does not name are not "
            f"compared{_named(list(other_variants(aggregates.facts)))}."
        )


def _named(variants: Sequence[str]) -> str:
    """The names of variants in a sentence, if any are known."""
    shown = [repr(name) for name in variants[:_NAMED]]
    more = [f"{len(variants) - _NAMED} more"] if len(variants) > _NAMED else []
    return f": {fmt.listing([*shown, *more])}" if shown else ""


def _look(experiment: Experiment, aggregates: Aggregates) -> Iterator[str]:
    """Which of the planned looks this is."""
    control = aggregates.units_of(experiment.control)
    others = sum(aggregates.units_of(name) for name in experiment.treatments)
    looks = looks_of(experiment, (control, others), aggregates.days)
    if not isinstance(looks, Planned):
        return
    shares = [fmt.percent(share) for share in looks.shares]
    if looks.planned:
        yield f"This is look {len(shares)} of {looks.of}, at {shares[-1]} of the plan."
    else:
        yield (
            f"This look, at {shares[-1]} of the plan, is not a planned one: its boundary is valid "
            f"only if the looks so far were at {fmt.listing(shares)}."
        )


def _stretches(experiment: Experiment, aggregates: Aggregates) -> Iterator[str]:
    """That the split changed, and which units this leaves out."""
    stretches = aggregates.stretches
    if not stretches:
        return
    yield (
        f"The split changed: units are compared within {len(stretches)} stretches of entry days "
        "of one split, each weighed by its share of all units. Quantiles, AUC, catalogue metrics "
        "and exact tests are then refused."
    )
    for variant in experiment.treatments:
        skipped = [stretches[i] for i in left_out_of(aggregates, Arms(experiment.control, variant))]
        if skipped:
            units = sum(one.units[experiment.control] + one.units[variant] for one in skipped)
            days = fmt.listing([one.start for one in skipped])
            yield (
                f"{variant}: {units:,} units of the stretches from {days} are not compared, "
                f"because {variant} or {experiment.control} has fewer than {MIN_STRETCH} there."
            )


def _small_arms(
    experiment: Experiment, metrics: Sequence[Metric], aggregates: Aggregates
) -> Iterator[str]:
    """Uneven splits where other tests than those of means and ratios reject too often."""
    resampled = experiment.inference.resample is not None
    names = [m.name for m in metrics if m.kind in _LARGE or (resampled and m.is_mean_or_ratio)]
    control = aggregates.units_of(experiment.control)
    for variant in experiment.treatments if names else ():
        small, large = sorted((control, aggregates.units_of(variant)))
        # Measured: too often at 9,000/1,000, at the level at 27,000/3,000 and at even splits.
        if 0 < small < _SMALL_ARM and large > _UNEVEN * small:
            yield (
                f"{variant} and {experiment.control} have uneven numbers of units, and the "
                f"smaller has {small:,}: if their values are skewed, tests of "
                f"{fmt.listing(names)} reject about 6 % here, instead of 5 %."
            )
