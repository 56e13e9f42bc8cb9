"""Where a split that does not match its weights goes wrong: when, and in which segments.

`split.py` puts the words into the check `srm`, and `judge.py` the records into the result.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from abeval.aggregates.aggregates import Aggregates
from abeval.experiment.model import Experiment
from abeval.inference.trust.audits import by_clock, by_day, by_hour, by_segment, weights_by_stretch
from abeval.results.trust import SplitDay, SplitPlace
from abeval.stats import srm
from abeval.stats.records import Refusal
from abeval.stats.srm import CHI_SQUARE_MINIMUM

DAY, HOUR, CLOCK = "entry day", "entry hour", "hour of the day"
"""Dimensions of when units entered: the local day, each hour of each day, and the 24 hours."""

_MOST_HOURS = 24 * 62
"""Of more hours only the days are tested: each is a cell of its own."""

_FEW = "(hours with few units)"

_LIKELY = 0.01
"""A dimension is named where its p-value, Holm over dimensions, is smaller."""

_EVERYWHERE = (
    "it is alike on all days and at all hours of entry, and in all segments: look for what acts on "
    "all units of a variant, such as its weight, a redirect, a slow page that is left, or a filter "
    "of bots"
)
_WHEN = {
    DAY: "look at what was released, ramped or cleaned then; a log that begins or ends in mid-day "
    "for one variant does the same",
    HOUR: "look at what was released, restarted or down then, and for files of these hours that "
    "are missing",
    CLOCK: "look at what runs at that hour each day (jobs, caches, budgets that are used up), and "
    "for clocks of one variant in another time zone",
}
_IN_SEGMENT = "look at assignment, redirect and logging there, such as of one client's release"


def split_days(experiment: Experiment, aggregates: Aggregates) -> tuple[SplitDay, ...]:
    """Units by day of entry, with the test of all until then that may be read on any day.

    Empty without times, without weights to test, and where the split changed.
    """
    path = _along(experiment, aggregates, by_day(experiment, aggregates))
    return tuple(
        SplitDay(day, dict(zip(experiment.variants, units, strict=True)), p_value)
        for (day, units), p_value in path
    )


def _along(
    experiment: Experiment, aggregates: Aggregates, counts: Mapping[str, list[int]]
) -> list[tuple[tuple[str, list[int]], float]]:
    """The cells in the order of time, each with the p-value of all units until then."""
    if not counts or aggregates.stretches or experiment.weights == "observed":
        return []
    path = np.cumsum(np.array(list(counts.values())), axis=0)
    try:
        p_values = srm.sequential(path, weights_by_stretch(experiment, aggregates)[0]).p_values
    except Refusal:
        return []
    return list(zip(counts.items(), p_values, strict=True))


def split_places(experiment: Experiment, aggregates: Aggregates) -> tuple[SplitPlace, ...]:
    """Days, hours, segments by how plainly the split differs within them, the plainest first."""
    tables = _tables(experiment, aggregates)
    if not tables or aggregates.stretches or experiment.weights == "observed":
        return ()
    weights = weights_by_stretch(experiment, aggregates)[0]
    try:
        tested = {
            name: srm.by_segment(list(rows), list(rows.values()), weights)
            for name, rows in tables.items()
        }
    except Refusal:
        return ()
    ranked = srm.rank_dimensions(list(tested), list(tested.values()))
    return tuple(
        SplitPlace(
            dimension=row.dimension,
            p_value=row.p_adjusted,
            cells=len(tested[row.dimension].segments),
            worst=row.worst_segment,
            worst_p_value=row.worst_p_adjusted,
            p_value_without=tested[row.dimension].segments[0].p_value_without,
        )
        for row in ranked
    )


def _tables(
    experiment: Experiment, aggregates: Aggregates
) -> dict[str, Mapping[str, Sequence[int]]]:
    """Dimension → cell → units by variant, of dimensions of at least two cells."""
    tables: dict[str, Mapping[str, Sequence[int]]] = {
        DAY: by_day(experiment, aggregates),
        HOUR: _hours(experiment, aggregates),
        CLOCK: by_clock(experiment, aggregates),
    }
    for name in experiment.segment_names:
        counts = by_segment(experiment, aggregates, name)
        tables[name] = {cell: rows[0] for cell, rows in counts.items()}
    return {name: rows for name, rows in tables.items() if len(rows) > 1}


def _hours(experiment: Experiment, aggregates: Aggregates) -> dict[str, list[int]]:
    """Hours of entry with enough units for a chi-square, and all others as one cell."""
    counts = by_hour(experiment, aggregates)
    weights = np.array(weights_by_stretch(experiment, aggregates)[0])
    if not counts or len(counts) > _MOST_HOURS:
        return {}
    least = CHI_SQUARE_MINIMUM * weights.sum() / weights[weights > 0].min()
    few = [cell for cell, units in counts.items() if sum(units) < least]
    rest = np.sum([counts.pop(cell) for cell in few], axis=0).tolist() if few else []
    return counts | ({_FEW: rest} if few else {})


class Running(NamedTuple):
    """The test of the split that may be read at any hour.

    Attributes:
        p_value: Of all units, however often it was read before; None without times.
        since: The hour from which on it sees a split that does not match its weights.
    """

    p_value: float | None = None
    since: str | None = None


def running(experiment: Experiment, aggregates: Aggregates, alarm: float) -> Running:
    """The test that runs along with the hours of entry (Lindon and Malek 2022).

    Args:
        experiment: Its weights.
        aggregates: When units entered.
        alarm: The p-value from which on it sees a mismatch.
    """
    path = _along(experiment, aggregates, by_hour(experiment, aggregates))
    seen = (cell for (cell, _), p_value in path if p_value < alarm)
    return Running(path[-1][1], next(seen, None)) if path else Running()


def where(places: Sequence[SplitPlace], test: Running) -> str:
    """Where it goes wrong, since when, and what is likely, in words; empty without places.

    Args:
        places: As `split_places` ranks them.
        test: The test that runs along.
    """
    if not places:
        return ""
    seen = _seen(test)
    first = places[0]
    if first.p_value >= _LIKELY:
        return f"{_EVERYWHERE}{seen}"
    timed = first.dimension in _WHEN
    named = f"{first.dimension} {first.worst}" if timed else _cell(first)
    if first.worst_p_value >= _LIKELY:
        named = f"{first.dimension}, in no single one of its {first.cells}"
    rest = (
        f" (all others together p = {first.p_value_without:.2g})"
        if first.worst_p_value < _LIKELY
        else ""
    )
    likely = _WHEN[first.dimension] if timed else _IN_SEGMENT
    return f"it shows most by {named}{rest}: {likely}{seen}"


def _seen(test: Running) -> str:
    if test.p_value is None:
        return ""
    if test.since is not None:
        return f"; a test that runs along sees it from {test.since} on"
    return (
        "; a test that may be read every day does not see it yet "
        f"(p = {test.p_value:.2g}): where `srm` is read every day, it warns of sound splits too"
    )


def _cell(place: SplitPlace) -> str:
    return f"{place.dimension} = {place.worst!r}"
