"""Compare time by variant: missing hours or days, shifted clocks, late data.

Also check the slots of a switchback, for balance over time and for carry-over.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import numpy as np

from abeval.aggregates.aggregates import GroupRows
from abeval.aggregates.audit_arrays import CLOCK, CLUSTERS, HOURS
from abeval.aggregates.breaks import DAYS, IMPRESSIONS
from abeval.experiment.model import Experiment
from abeval.inference import clustered
from abeval.inference.compare import Analysis
from abeval.inference.comparison import MIN_UNITS
from abeval.inference.trust.audits import (
    SHOWN,
    WEEK,
    find_losses,
    list_comparable_variants,
    sum_day_windows,
    sum_groups,
)
from abeval.inference.trust.finding import RawCheck, TrustCheck, skip_check
from abeval.inference.trust.split import split_period_weights
from abeval.results import format as fmt
from abeval.stats import faults
from abeval.stats.records import Floats, Integers

# Longer logs are not compared by hour: a single time of 1970 makes one.
_MOST_HOURS = 24 * 400

_NO_HOURS = "the log has no hours to compare"
_DAY_CHANCE = 1e-4
_LAST_HOURS = 6
_FEWEST_DAYS = 3
_FEWEST_ROWS = 200.0
_LITTLE = 1e-9

_TURN = 1_000
"""Whole number that stands for 1 in the cosine and sine of the hour."""


def _list_times(analysis: Analysis) -> Sequence[int]:
    """List the hours (since 1970) with rows, in order; none without times."""
    parts = analysis.aggregates.audits.get(HOURS)
    return parts[0].times.tolist() if parts else []


def _span(analysis: Analysis) -> range:
    """Return the hours that the log spans; none without times, or of too many."""
    times = _list_times(analysis)
    span = range(times[0], times[-1] + 1) if times else range(0)
    return span if len(span) <= _MOST_HOURS else range(0)


def _spread_hours(analysis: Analysis, span: range) -> Integers:
    """Spread rows over all hours of a span.

    The result has the shape (split periods, hours, variants, groups).
    """
    parts = analysis.aggregates.audits[HOURS]
    rows = np.zeros((len(parts), len(span), *parts[0].rows.shape[1:]), np.int64)
    rows[:, parts[0].times - span.start] = [part.rows for part in parts]
    return rows


def _find_no_hours(analysis: Analysis) -> str:
    """Find why variants have no hours to compare; empty if they have."""
    if analysis.experiment.switchback is not None:
        return "variants take turns, so no hour has both"
    if _span(analysis):
        return ""
    many = f"the log spans more than {_MOST_HOURS // 24} days"
    return many if _list_times(analysis) else _NO_HOURS


def _explain_no_comparison(analysis: Analysis, what: str) -> str:
    """Say why days or hours cannot be compared; empty if they can."""
    if why := _find_no_hours(analysis):
        return why
    return f"a clock is off, so {what} cannot be compared" if _find_clock_shifts(analysis) else ""


def _find_clock_shifts(analysis: Analysis) -> list[tuple[str, faults.Shift]]:
    """Find variants whose daily rhythm is shifted; by segment if not overall."""
    everywhere = _find_shifts(analysis)
    names = () if everywhere else analysis.experiment.segments
    return everywhere or [shift for name in names for shift in _find_shifts(analysis, name)]


def _find_shifts(analysis: Analysis, segment: str = "") -> list[tuple[str, faults.Shift]]:
    """Find shifted rhythms in all units, or in the cells of a segment."""
    audit = analysis.aggregates.audits.get(f"{CLOCK}{segment}", ())
    cells = [cell for cell in audit if cell.rows.any()]
    variants = list_comparable_variants(analysis)
    shifts = dict[str, faults.Shift]()
    for cell in cells:
        rows = dict(zip(analysis.experiment.variants, np.moveaxis(cell.rows, 1, 0), strict=True))
        control = rows[analysis.experiment.control]
        for variant in variants if _has_enough(control) else ():
            if not _has_enough(rows[variant]):
                continue
            pair = _sum_rhythm(control), _sum_rhythm(rows[variant])
            shift = faults.shift(*pair, len(cells) * len(variants))
            if shift.hours:
                who = f"{variant} in {segment} = {cell.value!r}" if segment else variant
                shifts[who] = shift
    return list(shifts.items())


def _has_enough(rows: Integers) -> bool:
    return bool(np.count_nonzero(rows.any(axis=0)) >= MIN_UNITS)


def _sum_rhythm(rows: Integers) -> faults.Rhythm:
    """Sum a variant's rows by hour of the day, and the mean direction of the clock."""
    angle, all_rows = np.arange(24) * (2 * np.pi / 24), rows.sum(axis=0)
    # Whole numbers, so that sums do not depend on the order of rows.
    turns = [np.round(_TURN * f(angle)).astype(np.int64) for f in (np.cos, np.sin)]
    return faults.Rhythm(sum_groups(rows, all_rows), sum_groups(np.array(turns) @ rows, all_rows))


@TrustCheck(
    "clock",
    pairs=True,
    limits=(1.0, 1.0),
    absent=_NO_HOURS,
    calm="people come at the same hours of the day in all variants",
    alarm="the daily rhythm of one variant is shifted: {listed}",
    reason=(
        "the variant's day is shifted: its mean hour surely differs, and a shift by whole hours "
        "removes three quarters of the difference"
    ),
    remedy=(
        "look at the time zones and clocks of the services that write the log (`ts_zone`); days "
        "and the ends of the period are wrong too"
    ),
)
def clock(analysis: Analysis) -> RawCheck | None:
    """Find a variant whose daily rhythm is shifted by whole hours."""
    if why := _find_no_hours(analysis):
        return skip_check(why)
    shifts = _find_clock_shifts(analysis)
    texts = [
        f"{who} is {'' if shift.exact else 'about '}{abs(shift.hours)} "
        f"{'hour' if abs(shift.hours) == 1 else 'hours'} "
        f"{'later' if shift.hours > 0 else 'earlier'} than {analysis.experiment.control}"
        for who, shift in shifts[:SHOWN]
    ]
    furthest = float(max((abs(shift.hours) for _, shift in shifts), default=0))
    return RawCheck(furthest, slots={"listed": fmt.join_items(texts)})


@TrustCheck(
    "short_days",
    pairs=True,
    limits=(0.25, 0.4),
    absent="the log has one day, or its split changed: no day can be compared",
    calm="no day lacks rows of one variant alone",
    alarm="one variant lost rows, judging by the other variant and other days: {listed}",
    reason=(
        "a variant's rows of one day against those of seven days before and after, relative to "
        "the other variant (sure: an error has the chance 1e-4); an effect that grows or fades "
        "does not take a quarter of a single day"
    ),
    remedy=(
        "look for files or events of that day that are not loaded yet, or were dropped, for the "
        "variant; load them again, or leave the day out of [period]"
    ),
)
def short_days(analysis: Analysis) -> RawCheck | None:
    """Find days on which one variant lacks rows.

    The expected rows come from the other variant and from the seven days before and after.
    """
    aggregates = analysis.aggregates
    if why := _explain_no_comparison(analysis, "days"):
        return skip_check(why)
    audit = aggregates.audits.get(f"{DAYS}{IMPRESSIONS}:")
    if not audit or aggregates.split_periods:
        return None
    (days,) = audit
    short = sorted(_find_short_days(analysis, days), key=lambda short_day: short_day[0])
    texts = [
        f"{variant} has {kept:.0%} of the expected rows on {days.times[day].astype('M8[D]')}"
        f"{' (the last day)' if day == len(days.times) - 1 else ''}"
        for kept, variant, day in short[:SHOWN]
    ]
    return RawCheck(1 - short[0][0] if short else 0.0, slots={"listed": fmt.join_items(texts)})


def _find_short_days(analysis: Analysis, days: GroupRows) -> Iterator[tuple[float, str, int]]:
    """Yield the share of expected rows, the variant and the index of the day."""
    rows, last = days.rows, len(days.times) - 1
    before, after = sum_day_windows(rows, -WEEK, 0), sum_day_windows(rows, 1, 1 + WEEK)
    # The last day is the one that most often lacks rows: half of the chance is for it.
    sides = list[dict[tuple[int, str, str], float]]()
    for first, until, others in ((last, last + 1, before), (1, last, before), (1, last, after)):
        level = _DAY_CHANCE / 2 / max(1, (until - first) * len(analysis.experiment.treatments))
        compared = rows[first:until], others[first:until]
        losses = find_losses(analysis, *compared, least=0.0, chance=level)
        sides.append({(first + x.day, x.variant, x.short): x.lost for x in losses})
    of_last, low, low_after = sides
    for key, lost in {**of_last, **low}.items():
        # On the other side a day must be as low, if there are days.
        lost_after = lost if key in of_last else low_after.get(key, 0.0)
        if lost_after > 0:
            day, _, short = key
            yield 1 - min(lost, lost_after), short, day


@TrustCheck(
    "missing_hours",
    limits=(1.0, 1.0),
    calm="no hour lacks the rows of one variant alone",
    alarm="{total} {lack} rows of one variant alone: {listed}",
    reason=(
        "less than half of the rows expected from the other variants, the split and the hours "
        "around, with a chance of 1e-6 over all hours"
    ),
    remedy="load the missing files or events again, or leave the hours out of [period]",
)
def missing_hours(analysis: Analysis) -> RawCheck:
    """Find hours with less than half of the rows expected of a variant."""
    if why := _explain_no_comparison(analysis, "hours"):
        return skip_check(why)
    span = _span(analysis)
    parts = _spread_hours(analysis, span)
    rows, shares = parts.sum(axis=0), _estimate_hour_shares(analysis, parts)
    hours = {
        name: _sum_variant_hours(rows[:, number])
        for number, name in enumerate(analysis.experiment.variants)
    }
    gaps = {
        name: [span[index] for index in _find_hour_gaps(analysis.experiment, hours, shares, name)]
        for name in analysis.experiment.variants
    }
    total = sum(map(len, gaps.values()))
    lack = "hour lacks" if total == 1 else "hours lack"
    text = fmt.join_items(
        [f"{name} {_format_hours(hours)}" for name, hours in gaps.items() if hours]
    )
    return RawCheck(float(total), slots={"total": total, "lack": lack, "listed": text})


def _find_hour_gaps(
    experiment: Experiment,
    hours: Mapping[str, faults.Hours],
    shares: Mapping[str, Floats],
    variant: str,
) -> list[int]:
    """Return the indices of the hours that a variant lacks."""
    references = experiment.treatments if variant == experiment.control else [experiment.control]
    pairs = [
        set(
            faults.list_gap_hours(
                hours[reference], hours[variant], CLUSTERS, shares[variant] / shares[reference]
            )
        )
        for reference in references
        if reference in hours and variant in hours and shares[reference].all()
    ]
    # An hour that control lacks is one that every other variant has.
    return sorted(set.intersection(*pairs)) if pairs else []


def _sum_variant_hours(rows: Integers) -> faults.Hours:
    """Sum a variant's rows of each hour, and count the equal units behind each sum.

    `rows` has the shape (hours, groups). Equal units have the same number of rows
    (`count_even_units`).
    """
    even = [faults.count_even_units(sums, CLUSTERS) for sums in sum_groups(rows, rows)]
    active = np.count_nonzero(rows, axis=1).astype(np.float64)
    return faults.Hours(rows.sum(axis=1).astype(np.float64), active, np.array(even))


def _estimate_hour_shares(analysis: Analysis, parts: Integers) -> dict[str, Floats]:
    """Return the share of each hour's rows expected of each variant.

    Units keep the variant they entered with, so the units of each split period are divided by its
    weights. An hour without rows has the mean of the periods.
    """
    rows, variants = parts.sum(axis=(2, 3)) + _LITTLE, analysis.experiment.variants
    weights = np.array(split_period_weights(analysis)[: len(rows)], dtype=np.float64)
    expected = (weights / weights.sum(axis=1, keepdims=True)).T @ rows
    return dict(zip(variants, expected / expected.sum(axis=0), strict=True))


def _format_hours(hours: Sequence[int]) -> str:
    """Format runs of hours in local time, as in `2026-09-16 10:00 to 13:00`."""
    runs: list[tuple[datetime, datetime]] = []
    for hour in hours:
        start = datetime(1970, 1, 1) + timedelta(hours=hour)
        end = start + timedelta(hours=1)
        if runs and runs[-1][1] == start:
            start = runs.pop()[0]
        runs.append((start, end))
    day, clock = "%Y-%m-%d %H:%M", "%H:%M"
    texts = [
        f"{start:{day}} to {end:{clock if start.date() == end.date() else day}}"
        for start, end in runs[:SHOWN]
    ]
    more = len(runs) - SHOWN
    return "from " + fmt.join_items(texts) + (f" and {more} more times" if more > 0 else "")


@TrustCheck(
    "late_data",
    limits=(0.5,),
    absent=_NO_HOURS,
    calm="the last {hours} hours of the log have as many rows as on the days before",
    alarm=(
        "the last {hours} hours of the log have {share:.0%} of the fewest rows that these hours "
        "had on an earlier day: more rows may be on their way"
    ),
    reason="the last {hours} hours against the fewest rows of these hours on a day before",
    remedy="analyse again when the log is whole, or let [period] end before",
)
def late_data(analysis: Analysis) -> RawCheck | None:
    """Find last hours with less than half of their usual rows."""
    span = _span(analysis)
    if not span:
        return None
    rows = _spread_hours(analysis, span).sum(axis=(0, 2, 3))
    days = (rows.size - _LAST_HOURS) // 24
    # The last hours of each day, counted back from the end of the log, the latest first.
    ends = [rows.size - 24 * day for day in range(days + 1)]
    last, *earlier = [float(rows[end - _LAST_HOURS : end].sum()) for end in ends] or [0.0]
    if days < _FEWEST_DAYS or min(earlier) < _FEWEST_ROWS:
        return skip_check(
            f"fewer than {_FEWEST_DAYS} days, or too few rows, to tell whether the log is whole"
        )
    share = min(1.0, last / min(earlier))
    return RawCheck(1 - share, slots={"hours": _LAST_HOURS, "share": share})


@TrustCheck(
    "slot_hours",
    calm=(
        "hours of the day and weekdays have as many slots of both variants as the schedule makes "
        "likely"
    ),
    alarm="slots are not balanced over hours or weekdays, by schedules drawn again (p = {p:.2g})",
    remedy=(
        "look for slots that are missing from the log, and whether `schedule` says how they were "
        "drawn; `abeval tools assign --slots` writes balanced ones"
    ),
)
def slot_hours(analysis: Analysis) -> list[RawCheck]:
    """Test whether treated slots are balanced over hours and weekdays."""
    plan, clustering = analysis.experiment.switchback, analysis.aggregates.clusters
    if plan is None or clustering is None or clustering.slots is None:
        return []
    p_value = clustered.balance(plan, clustering.slots, clustering.variant == 1)
    return [RawCheck(p_value, slots={"p": p_value})]


@TrustCheck(
    "carry_over",
    calm="{metric}: soon after the burn-in, slots show no trace of the variant before",
    alarm=(
        "{metric} soon after a slot's burn-in depends on the variant of the slot before (p = "
        "{p:.2g}): what one variant did carries over into the next, which mostly shrinks the "
        "effect"
    ),
    remedy=(
        "set a longer `burn_in`, such as twice as long, and assign longer slots in the next test"
    ),
)
def carry_over(analysis: Analysis) -> list[RawCheck]:
    """Test goals and guardrails for carry-over from the previous slot."""
    if analysis.experiment.switchback is None:
        return []
    judged = [m for m in analysis.metrics if m.role != "diagnostic"] or analysis.metrics
    slots = {
        metric.name: clustered.LaggedSlots.build(metric, analysis.aggregates) for metric in judged
    }
    tests = {
        name: clustered.carry_over(metric_slots)
        for name, metric_slots in slots.items()
        if metric_slots is not None
    }
    p_values = {name: p_value for name, p_value in tests.items() if p_value is not None}
    if not p_values:
        return [skip_check("no slot follows another", remedy="load the slots that the log lacks")]
    findings = []
    for name, p in p_values.items():
        check, fields = "carry_over" + f":{name}" * (len(p_values) > 1), {"metric": name, "p": p}
        findings.append(RawCheck(p, metrics=(name,), worst="warn", name=check, slots=fields))
    return findings
