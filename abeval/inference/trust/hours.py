"""Compare time by variant: missing hours or days, shifted clocks, late data.

Also check the slots of a switchback, for balance over time and for carry-over.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import numpy as np

from abeval.aggregates.aggregates import Aggregates, AuditSums
from abeval.aggregates.audit_arrays import CLUSTERS
from abeval.experiment.model import Experiment
from abeval.inference import clustered
from abeval.inference.compare import Analysis
from abeval.inference.comparison import MIN_UNITS
from abeval.inference.trust.audits import (
    SHOWN,
    Cells,
    find_uneven_shares,
    index_by_cell,
    list_comparable_variants,
)
from abeval.inference.trust.finding import RawCheck, TrustCheck, skip_check
from abeval.inference.trust.split import split_period_weights
from abeval.results import format as fmt
from abeval.stats import faults
from abeval.stats.records import Floats

# Longer logs are not compared by hour: a single time of 1970 makes one.
_MOST_HOURS = 24 * 400

_NO_HOURS = "the log has no hours to compare"
_DAY_CHANCE = 1e-4
_LAST_HOURS = 6
_FEWEST_DAYS = 3
_FEWEST_ROWS = 200.0
_LITTLE = 1e-9


def _span(aggregates: Aggregates) -> range:
    """Return the hours (since 1970) that the log spans; none without times."""
    hours = [int(row.cell) for row in aggregates.audits.get("hour", ())]
    span = range(min(hours), max(hours) + 1) if hours else range(0)
    return span if len(span) <= _MOST_HOURS else range(0)


def _collect_hours(
    aggregates: Aggregates, span: range, audit: str = "hour"
) -> dict[str, faults.Hours]:
    """Return each variant's rows by hour, and how units share them."""
    hours: dict[str, faults.Hours] = {}
    for row in aggregates.audits.get(audit, ()):
        if row.variant not in hours:
            hours[row.variant] = faults.Hours(*np.zeros((3, len(span))))
        variant_hours, index = hours[row.variant], int(row.cell) - span.start
        variant_hours.rows[index], variant_hours.active[index] = row.sums.y, row.active
        variant_hours.even[index] = faults.count_even_units(row.sums, CLUSTERS)
    return hours


def _find_no_hours(analysis: Analysis) -> str:
    """Find why variants have no hours to compare; empty if they have."""
    if analysis.experiment.switchback is not None:
        return "variants take turns, so no hour has both"
    if _span(analysis.aggregates):
        return ""
    if analysis.aggregates.audits.get("hour"):
        return f"the log spans more than {_MOST_HOURS // 24} days"
    return _NO_HOURS


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
    rhythms: dict[tuple[str, str], dict[str, dict[str, faults.Sums]]] = {}
    for row in analysis.aggregates.audits.get(f"rhythm:{segment}" if segment else "rhythm", ()):
        part, _, own_cell = row.cell.partition(" ")
        split_period, _, value = own_cell.partition(" ")
        rhythms.setdefault((value, split_period), {}).setdefault(row.variant, {})[part] = row.sums
    variants, control = list_comparable_variants(analysis), analysis.experiment.control
    several = len(rhythms) * len(variants)
    shifts = {
        f"{variant} in {segment} = {value!r}" if segment else variant: shift
        for (value, _), by_variant in rhythms.items()
        for variant in variants
        if _has_enough(by_variant, control) and _has_enough(by_variant, variant)
        if (
            shift := faults.shift(
                _build_rhythm(by_variant[control]), _build_rhythm(by_variant[variant]), several
            )
        ).hours
    }
    return list(shifts.items())


def _has_enough(by_variant: Mapping[str, Mapping[str, faults.Sums]], variant: str) -> bool:
    return variant in by_variant and by_variant[variant]["cos"].clusters >= MIN_UNITS


def _build_rhythm(parts: Mapping[str, faults.Sums]) -> faults.Rhythm:
    return faults.Rhythm([parts[str(h)] for h in range(24)], [parts["cos"], parts["sin"]])


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
    before, after = (
        index_by_cell(aggregates.audits.get(f"day_{s}", ())) for s in ("before", "after")
    )
    if not before or aggregates.split_periods:
        return None
    short = sorted(_find_short_days(analysis, before, after), key=lambda short_day: short_day[0])
    last = max(before)
    texts = [
        f"{variant} has {kept:.0%} of the expected rows on {day}"
        f"{' (the last day)' if day == last else ''}"
        for kept, variant, day in short[:SHOWN]
    ]
    return RawCheck(1 - short[0][0] if short else 0.0, slots={"listed": fmt.join_items(texts)})


def _find_short_days(
    analysis: Analysis, before: Cells[AuditSums], after: Cells[AuditSums]
) -> Iterator[tuple[float, str, str]]:
    """Yield the share of expected rows, the variant and the day."""
    # The last day is the one that most often lacks rows: half of the chance is for it.
    last = max(before)
    earlier = {day: cells for day, cells in before.items() if day != last}
    low, low_after = (
        {
            (share.cell, share.variant): (share.control, share.treatment)
            for cells in cell_groups
            for share in find_uneven_shares(analysis, cells, _DAY_CHANCE / 2)
        }
        for cell_groups in (({last: before[last]}, earlier), (after,))
    )
    for (day, variant), first in low.items():
        # On the other side a day must be as low, if there are days.
        second = low_after.get((day, variant), None if day in after else first)
        for short, index in ((variant, 1), (analysis.experiment.control, 0)):
            if second and all(side[index] < side[1 - index] for side in (first, second)):
                yield max(side[index] / side[1 - index] for side in (first, second)), short, day


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
    span = _span(analysis.aggregates)
    hours, shares = _collect_hours(analysis.aggregates, span), _estimate_hour_shares(analysis, span)
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


def _estimate_hour_shares(analysis: Analysis, span: range) -> dict[str, Floats]:
    """Return the share of each hour's rows expected of each variant.

    Units keep the variant they entered with, so the units of each split period are divided by its
    weights. An hour without rows has the mean of the periods.
    """
    expected = np.zeros((len(analysis.experiment.variants), len(span)))
    for number, weights in enumerate(split_period_weights(analysis)):
        by_variant = _collect_hours(analysis.aggregates, span, f"hour_of_stretch:{number}").values()
        rows = sum(
            (variant_hours.rows for variant_hours in by_variant), np.full(len(span), _LITTLE)
        )
        expected += np.outer(np.array(weights) / sum(weights), rows)
    return dict(zip(analysis.experiment.variants, expected / expected.sum(axis=0), strict=True))


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
    span = _span(analysis.aggregates)
    if not span:
        return None
    rows = np.sum(
        [hours.rows for hours in _collect_hours(analysis.aggregates, span).values()], axis=0
    )
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
