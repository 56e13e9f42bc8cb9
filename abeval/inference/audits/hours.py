"""Checks of time by variant: hours or days that one variant lacks, clocks that are off, late data.

`inference/trust/checks.py` lists them; `stats/faults.py` knows the shapes.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.audit_arrays import CLUSTERS
from abeval.inference.compare import Analysis
from abeval.inference.trust.audits import (
    SHOWN,
    Cells,
    cells_of,
    compared,
    listing,
    uneven,
    without_few,
)
from abeval.inference.trust.finding import Limits, Words, graded, skipped
from abeval.results import Check
from abeval.stats import faults
from abeval.stats.records import Floats

MOST_HOURS = 24 * 400
"""Of a longer log, as one time of 1970 makes it, hours are not compared; a [period] cuts it."""

_NAMES = ("clock", "short_days", "missing_hours", "late_data")
_DAY_WARN, _DAY_FAIL, _DAY_CHANCE = 0.25, 0.4, 1e-4
_LAST_HOURS = 6
_FEWEST_DAYS = 3
_FEWEST_ROWS = 200.0
_THIN = 0.5


class _Timeline(NamedTuple):
    """Rows and active clusters by hour: the first hour since 1970, and arrays by variant."""

    first: int
    hours: Mapping[str, faults.Hours]


def hour_checks(analysis: Analysis) -> list[Check]:
    """Every check of hours, the one that explains the others first."""
    aggregates = analysis.aggregates
    timeline = _timeline(aggregates)
    if timeline is None:
        message = "no times, more than 400 days, or no audit, so hours cannot be compared"
        return [skipped(name, message) for name in _NAMES]
    shifts = _shifts(analysis)
    return [
        without_few(analysis, _clock(analysis, shifts)),
        without_few(analysis, _short_days(analysis, bool(shifts))),
        _missing(analysis, timeline, bool(shifts)),
        _late(analysis, timeline),
    ]


def _timeline(aggregates: Aggregates) -> _Timeline | None:
    rows = aggregates.audit_rows.get("hour", ())
    if not rows:
        return None
    first = min(int(row.cell) for row in rows)
    size = max(int(row.cell) for row in rows) - first + 1
    if size > MOST_HOURS:
        return None
    hours: dict[str, faults.Hours] = {}
    for row in rows:
        own = hours.setdefault(row.variant, faults.Hours(np.zeros(size), np.zeros(size)))
        own.rows[int(row.cell) - first] = row.y
        own.active[int(row.cell) - first] = row.active
    return _Timeline(first, hours)


class _Shifted(NamedTuple):
    """A variant whose clock is off: everywhere, where the cell is empty, or in one of a segment."""

    variant: str
    cell: str
    shift: faults.Shift

    @property
    def words(self) -> str:
        """Such as `about 9 hours later`."""
        hours = abs(self.shift.hours)
        unit = "hour" if hours == 1 else "hours"
        return (
            f"{'' if self.shift.exact else 'about '}{hours} {unit} "
            f"{'later' if self.shift.hours > 0 else 'earlier'}"
        )


def _shifts(analysis: Analysis) -> list[_Shifted]:
    """Where the rhythm of a variant is control's some hours later; by segment if not everywhere."""
    everywhere = _shifts_of(analysis, "rhythm", "")
    if everywhere:
        return everywhere
    names = analysis.experiment.segments
    return [one for name in names for one in _shifts_of(analysis, f"rhythm:{name}", f"{name} = ")]


def _shifts_of(analysis: Analysis, audit: str, named: str) -> list[_Shifted]:
    experiment = analysis.experiment
    rhythms: dict[str, dict[str, dict[str, faults.Sums]]] = {}
    for cell, of_variant in cells_of(analysis.aggregates, audit).items():
        part, _, value = cell.partition(" ")
        for variant, sums in of_variant.items():
            rhythms.setdefault(value, {}).setdefault(variant, {})[part] = sums
    variants, control = compared(analysis), experiment.control
    moved = [
        _Shifted(variant, f"{named}{value!r}" if named else "", shift)
        for value, own in rhythms.items()
        for variant in variants
        if control in own and variant in own
        for several in [len(rhythms) * len(variants)]
        for shift in [faults.shift(_rhythm(own[control]), _rhythm(own[variant]), several)]
    ]
    return [one for one in moved if one.shift.hours]


def _rhythm(parts: Mapping[str, faults.Sums]) -> faults.Rhythm:
    return faults.Rhythm([parts[str(h)] for h in range(24)], [parts["cos"], parts["sin"]])


def _clock(analysis: Analysis, shifts: Sequence[_Shifted]) -> Check:
    reason = (
        "the rhythm of the hours of a day is that of other hours: its mean hour is another for "
        "sure, and a shift by whole hours takes three quarters of the distance away"
    )
    listed = listing(
        [
            f"{one.variant}{f' in {one.cell}' if one.cell else ''} is {one.words} than "
            f"{analysis.experiment.control}"
            for one in shifts[:SHOWN]
        ]
    )
    words = Words(
        "people come at the same hours of the day in all variants",
        f"the daily rhythm of one variant is shifted: {listed}",
        "look at the time zones and clocks of the services that write the log (`ts_zone`); days "
        "and the ends of the period are wrong too",
    )
    largest = max((abs(one.shift.hours) for one in shifts), default=0)
    return graded("clock", float(largest), Limits(1.0, 1.0, reason), words)


class _Short(NamedTuple):
    """A day on which a variant has fewer rows than the other and the days around make expect."""

    day: str
    variant: str
    kept: float


def _short_days(analysis: Analysis, shifted: bool) -> Check:
    """Days on which one variant lacks rows against the days before, and against those after."""
    name = "short_days"
    before = cells_of(analysis.aggregates, "day_before")
    if shifted:
        return skipped(name, "a clock is off, so days cannot be compared")
    if not before or analysis.aggregates.stretches:
        return skipped(name, "one day alone, or a split that changed: no day can be compared")
    after = cells_of(analysis.aggregates, "day_after")
    short = sorted(_shortest(analysis, before, after), key=lambda one: one.kept)
    last = max(before)
    listed = listing(
        [
            f"{one.variant} has {one.kept:.0%} of the rows that are expected on {one.day}"
            f"{' (the last day)' if one.day == last else ''}"
            for one in short[:SHOWN]
        ]
    )
    words = Words(
        "no day lacks rows of one variant alone",
        f"rows of one variant are lost: {listed}, by the other variant and the days around it",
        "look for files or events of that day that are not loaded yet, or were dropped, for the "
        "variant; load them again, or leave the day out of [period]",
    )
    reason = (
        "a variant's rows of one day against those of seven days before and after, over the same "
        "of the other variant (sure: an error has the chance 1e-4); an effect that grows or fades "
        "does not take a quarter of a single day"
    )
    value = max((1 - one.kept for one in short), default=0.0)
    return graded(name, value, Limits(_DAY_WARN, _DAY_FAIL, reason), words)


def _shortest(analysis: Analysis, before: Cells, after: Cells) -> Iterator[_Short]:
    control = analysis.experiment.control
    # The last day is the one that most often lacks rows: half of the chance is for it.
    last = max(before)
    earlier = {day: cells for day, cells in before.items() if day != last}
    low = {
        side: {
            (one.cell, one.variant): one.difference
            for cells in parts
            for one in uneven(analysis, cells, _DAY_CHANCE / 2)
        }
        for side, parts in (("before", ({last: before[last]}, earlier)), ("after", (after,)))
    }
    for (day, variant), first in low["before"].items():
        second = low["after"].get((day, variant))
        if second is None and day in after:
            continue
        pairs = [(one.control, one.treatment) for one in (first, second) if one is not None]
        if all(0 <= treatment < own for own, treatment in pairs):
            yield _Short(day, variant, max(treatment / own for own, treatment in pairs))
        elif all(0 <= own < treatment for own, treatment in pairs):
            yield _Short(day, control, max(own / treatment for own, treatment in pairs))


def _missing(analysis: Analysis, timeline: _Timeline, shifted: bool) -> Check:
    """Hours in which one variant has no rows, or less than half of what the others make expect."""
    experiment = analysis.experiment
    if shifted:
        return skipped("missing_hours", "a clock is off, so hours cannot be compared")
    gaps = {name: _gaps(analysis, timeline, name) for name in experiment.variants}
    gaps = {name: hours for name, hours in gaps.items() if hours}
    total = sum(map(len, gaps.values()))
    listed = listing([f"{name} {_listed(hours)}" for name, hours in gaps.items()])
    words = Words(
        "no hour lacks the rows of one variant alone",
        f"{total} {'hour lacks' if total == 1 else 'hours lack'} rows of one variant alone: "
        f"{listed}",
        "load the missing files or events again, or leave the hours out of [period]",
    )
    reason = (
        "less than half of the rows that the other variants and the hours around make expect, "
        "with a chance of 1e-6 over all hours"
    )
    return graded("missing_hours", float(total), Limits(1.0, 1.0, reason), words)


def _gaps(analysis: Analysis, timeline: _Timeline, variant: str) -> list[int]:
    """The hours since 1970 that a variant lacks, by each variant that it is compared with."""
    experiment, hours = analysis.experiment, timeline.hours
    others = experiment.treatments if variant == experiment.control else [experiment.control]
    pairs = [
        set(faults.gaps(hours[other], hours[variant], CLUSTERS))
        for other in others
        if other in hours and variant in hours
    ]
    # An hour that control lacks is one that every other variant has.
    common = set.intersection(*pairs) if pairs else set()
    return [timeline.first + place for place in sorted(common)]


def _listed(hours: Sequence[int]) -> str:
    """Runs of hours in local time, such as `2026-09-16 10:00 to 13:00`."""
    runs: list[tuple[int, int]] = []
    for hour in hours:
        if runs and runs[-1][1] == hour:
            runs[-1] = runs[-1][0], hour + 1
        else:
            runs.append((hour, hour + 1))

    def local(hour: int) -> datetime:
        return datetime(1970, 1, 1) + timedelta(hours=hour)

    shown = [
        f"{local(start):%Y-%m-%d %H:%M} to "
        f"{local(end):{'%H:%M' if local(start).date() == local(end).date() else '%Y-%m-%d %H:%M'}}"
        for start, end in runs[:SHOWN]
    ]
    more = len(runs) - SHOWN
    return "from " + listing(shown) + (f" and {more} more times" if more > 0 else "")


def _late(analysis: Analysis, timeline: _Timeline) -> Check:
    """Whether the last hours have less than half of the rows of these hours on any day before."""
    rows = np.sum([hours.rows for hours in timeline.hours.values()], axis=0)
    share = _last_share(rows)
    if share is None:
        message = (
            f"fewer than {_FEWEST_DAYS} days, or too few rows, to tell whether the log is whole"
        )
        return skipped("late_data", message)
    reason = f"the last {_LAST_HOURS} hours against the fewest rows of these hours on a day before"
    words = Words(
        f"the last {_LAST_HOURS} hours of the log have as many rows as on the days before",
        f"the last {_LAST_HOURS} hours of the log have {share:.0%} of the fewest rows that these "
        "hours had on a day before: more may be on its way",
        "analyse again when the log is whole, or let [period] end before",
    )
    return graded("late_data", 1 - share, Limits(_THIN, None, reason), words)


def _last_share(rows: Floats) -> float | None:
    """Rows of the last hours over the fewest of the same hours on an earlier day, at most 1."""
    days = (rows.size - _LAST_HOURS) // 24
    if days < _FEWEST_DAYS:
        return None
    earlier = [
        rows[rows.size - _LAST_HOURS - 24 * day : rows.size - 24 * day].sum()
        for day in range(1, days + 1)
    ]
    fewest = float(min(earlier))
    return min(1.0, float(rows[-_LAST_HOURS:].sum()) / fewest) if fewest >= _FEWEST_ROWS else None
