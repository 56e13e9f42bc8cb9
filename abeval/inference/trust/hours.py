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
from abeval.inference.trust.audits import SHOWN, Cells, by_cell, compared, uneven
from abeval.inference.trust.finding import Finding, skipped
from abeval.inference.trust.split import stretch_weights
from abeval.results import format as fmt
from abeval.stats import faults
from abeval.stats.records import Floats

MOST_HOURS = 24 * 400
"""Longer logs are not compared by hour: a single time of 1970 makes one."""

_NO_HOURS = "no times, over 400 days, no audit, or variants in turn: hours cannot be compared"
_DAY_CHANCE = 1e-4
_LAST_HOURS = 6
_FEWEST_DAYS = 3
_FEWEST_ROWS = 200.0
_LITTLE = 1e-9


def _span(aggregates: Aggregates) -> range:
    """Return the hours (since 1970) that the log spans; none without times."""
    hours = [int(row.cell) for row in aggregates.audits.get("hour", ())]
    span = range(min(hours), max(hours) + 1) if hours else range(0)
    return span if len(span) <= MOST_HOURS else range(0)


def _hours(aggregates: Aggregates, span: range, audit: str = "hour") -> dict[str, faults.Hours]:
    """Return each variant's rows by hour, and how units share them."""
    hours: dict[str, faults.Hours] = {}
    for row in aggregates.audits.get(audit, ()):
        if row.variant not in hours:
            hours[row.variant] = faults.Hours(*np.zeros((3, len(span))))
        own, place = hours[row.variant], int(row.cell) - span.start
        own.rows[place], own.active[place] = row.own.y, row.active
        own.even[place] = faults.count_even_units(row.own, CLUSTERS)
    return hours


def _unknown(analysis: Analysis, what: str) -> str:
    """Say why days or hours cannot be compared; empty if they can."""
    if not _span(analysis.aggregates) or analysis.experiment.switchback is not None:
        return _NO_HOURS
    return f"a clock is off, so {what} cannot be compared" if _shifts(analysis) else ""


def _shifts(analysis: Analysis) -> list[tuple[str, faults.Shift]]:
    """Find variants whose daily rhythm is shifted; by segment if not overall."""
    everywhere = _shifts_of(analysis)
    names = () if everywhere else analysis.experiment.segments
    return everywhere or [one for name in names for one in _shifts_of(analysis, name)]


def _shifts_of(analysis: Analysis, segment: str = "") -> list[tuple[str, faults.Shift]]:
    """Find shifted rhythms in all units, or in the cells of a segment."""
    rhythms: dict[tuple[str, str], dict[str, dict[str, faults.Sums]]] = {}
    for row in analysis.aggregates.audits.get(f"rhythm:{segment}" if segment else "rhythm", ()):
        part, _, own_cell = row.cell.partition(" ")
        stretch, _, value = own_cell.partition(" ")
        rhythms.setdefault((value, stretch), {}).setdefault(row.variant, {})[part] = row.own
    variants, control = compared(analysis), analysis.experiment.control
    several = len(rhythms) * len(variants)
    shifts = {
        f"{variant} in {segment} = {value!r}" if segment else variant: shift
        for (value, _), own in rhythms.items()
        for variant in variants
        if _has_enough(own, control) and _has_enough(own, variant)
        if (shift := faults.shift(_rhythm(own[control]), _rhythm(own[variant]), several)).hours
    }
    return list(shifts.items())


def _has_enough(own: Mapping[str, Mapping[str, faults.Sums]], variant: str) -> bool:
    return variant in own and own[variant]["cos"].clusters >= MIN_UNITS


def _rhythm(parts: Mapping[str, faults.Sums]) -> faults.Rhythm:
    return faults.Rhythm([parts[str(h)] for h in range(24)], [parts["cos"], parts["sin"]])


def clock(analysis: Analysis) -> Finding | None:
    """Find a variant whose daily rhythm is shifted by whole hours."""
    if not _span(analysis.aggregates) or analysis.experiment.switchback is not None:
        return None
    shifts = _shifts(analysis)
    listed = [
        f"{who} is {'' if shift.exact else 'about '}{abs(shift.hours)} "
        f"{'hour' if abs(shift.hours) == 1 else 'hours'} "
        f"{'later' if shift.hours > 0 else 'earlier'} than {analysis.experiment.control}"
        for who, shift in shifts[:SHOWN]
    ]
    furthest = float(max((abs(shift.hours) for _, shift in shifts), default=0))
    return Finding(furthest, slots={"listed": fmt.listing(listed)})


def short_days(analysis: Analysis) -> Finding | None:
    """Find days on which one variant lacks rows.

    The expected rows come from the other variant and from the seven days before and after.
    """
    aggregates = analysis.aggregates
    if why := _unknown(analysis, "days"):
        return skipped(why)
    before, after = (by_cell(aggregates.audits.get(f"day_{s}", ())) for s in ("before", "after"))
    if not before or aggregates.stretches:
        return None
    short = sorted(_shortest(analysis, before, after), key=lambda one: one[0])
    last = max(before)
    listed = [
        f"{variant} has {kept:.0%} of the rows that are expected on {day}"
        f"{' (the last day)' if day == last else ''}"
        for kept, variant, day in short[:SHOWN]
    ]
    return Finding(1 - short[0][0] if short else 0.0, slots={"listed": fmt.listing(listed)})


def _shortest(
    analysis: Analysis, before: Cells[AuditSums], after: Cells[AuditSums]
) -> Iterator[tuple[float, str, str]]:
    """Yield the share of expected rows, the variant and the day."""
    # The last day is the one that most often lacks rows: half of the chance is for it.
    last = max(before)
    earlier = {day: cells for day, cells in before.items() if day != last}
    low, low_after = (
        {
            (one.cell, one.variant): (one.control, one.treatment)
            for cells in parts
            for one in uneven(analysis, cells, _DAY_CHANCE / 2)
        }
        for parts in (({last: before[last]}, earlier), (after,))
    )
    for (day, variant), first in low.items():
        # On the other side a day must be as low, if there are days.
        second = low_after.get((day, variant), None if day in after else first)
        for short, place in ((variant, 1), (analysis.experiment.control, 0)):
            if second and all(side[place] < side[1 - place] for side in (first, second)):
                yield max(side[place] / side[1 - place] for side in (first, second)), short, day


def missing_hours(analysis: Analysis) -> Finding:
    """Find hours with less than half of the rows expected of a variant."""
    if why := _unknown(analysis, "hours"):
        return skipped(why)
    span = _span(analysis.aggregates)
    hours, shares = _hours(analysis.aggregates, span), _shares(analysis, span)
    gaps = {
        name: [span[place] for place in _gaps(analysis.experiment, hours, shares, name)]
        for name in analysis.experiment.variants
    }
    total = sum(map(len, gaps.values()))
    lack = "hour lacks" if total == 1 else "hours lack"
    listed = fmt.listing([f"{name} {_listed(hours)}" for name, hours in gaps.items() if hours])
    return Finding(float(total), slots={"total": total, "lack": lack, "listed": listed})


def _gaps(
    experiment: Experiment,
    hours: Mapping[str, faults.Hours],
    shares: Mapping[str, Floats],
    variant: str,
) -> list[int]:
    """Return the indices of the hours that a variant lacks."""
    others = experiment.treatments if variant == experiment.control else [experiment.control]
    pairs = [
        set(faults.gaps(hours[other], hours[variant], CLUSTERS, shares[variant] / shares[other]))
        for other in others
        if other in hours and variant in hours and shares[other].all()
    ]
    # An hour that control lacks is one that every other variant has.
    return sorted(set.intersection(*pairs)) if pairs else []


def _shares(analysis: Analysis, span: range) -> dict[str, Floats]:
    """Return the share of each hour's rows expected of each variant.

    Units keep the variant they entered with, so the units of each split period are divided by its
    weights. An hour without rows has the mean of the periods.
    """
    expected = np.zeros((len(analysis.experiment.variants), len(span)))
    for number, weights in enumerate(stretch_weights(analysis)):
        of_stretch = _hours(analysis.aggregates, span, f"hour_of_stretch:{number}").values()
        rows = sum((own.rows for own in of_stretch), np.full(len(span), _LITTLE))
        expected += np.outer(np.array(weights) / sum(weights), rows)
    return dict(zip(analysis.experiment.variants, expected / expected.sum(axis=0), strict=True))


def _listed(hours: Sequence[int]) -> str:
    """Format runs of hours in local time, as in `2026-09-16 10:00 to 13:00`."""
    runs: list[tuple[datetime, datetime]] = []
    for hour in hours:
        start = datetime(1970, 1, 1) + timedelta(hours=hour)
        end = start + timedelta(hours=1)
        if runs and runs[-1][1] == start:
            start = runs.pop()[0]
        runs.append((start, end))
    day, clock = "%Y-%m-%d %H:%M", "%H:%M"
    shown = [
        f"{start:{day}} to {end:{clock if start.date() == end.date() else day}}"
        for start, end in runs[:SHOWN]
    ]
    more = len(runs) - SHOWN
    return "from " + fmt.listing(shown) + (f" and {more} more times" if more > 0 else "")


def late_data(analysis: Analysis) -> Finding | None:
    """Find last hours with less than half of their usual rows."""
    span = _span(analysis.aggregates)
    if not span:
        return None
    rows = np.sum([hours.rows for hours in _hours(analysis.aggregates, span).values()], axis=0)
    days = (rows.size - _LAST_HOURS) // 24
    # The last hours of each day, counted back from the end of the log, the latest first.
    ends = [rows.size - 24 * day for day in range(days + 1)]
    last, *earlier = [float(rows[end - _LAST_HOURS : end].sum()) for end in ends] or [0.0]
    if days < _FEWEST_DAYS or min(earlier) < _FEWEST_ROWS:
        return skipped(
            f"fewer than {_FEWEST_DAYS} days, or too few rows, to tell whether the log is whole"
        )
    share = min(1.0, last / min(earlier))
    return Finding(1 - share, slots={"hours": _LAST_HOURS, "share": share})


def slot_hours(analysis: Analysis) -> list[Finding]:
    """Test whether treated slots are balanced over hours and weekdays."""
    plan, own = analysis.experiment.switchback, analysis.aggregates.clusters
    if plan is None or own is None or own.turns is None:
        return []
    p_value = clustered.balance(plan, own.turns, own.variant == 1)
    return [Finding(p_value, slots={"p": p_value})]


def carry_over(analysis: Analysis) -> list[Finding]:
    """Test goals and guardrails for carry-over from the previous slot."""
    if analysis.experiment.switchback is None:
        return []
    judged = [m for m in analysis.metrics if m.role != "diagnostic"] or analysis.metrics
    slots = {one.name: clustered.Lagged.of(one, analysis.aggregates) for one in judged}
    tests = {name: clustered.carry_over(one) for name, one in slots.items() if one is not None}
    known = {name: p_value for name, p_value in tests.items() if p_value is not None}
    if not known:
        return [skipped("no slot follows another", remedy="load the slots that the log lacks")]
    findings = []
    for name, p in known.items():
        check, words = "carry_over" + f":{name}" * (len(known) > 1), {"metric": name, "p": p}
        findings.append(Finding(p, metrics=(name,), worst="warn", name=check, slots=words))
    return findings
