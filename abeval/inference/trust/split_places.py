"""Where a split that does not match its weights goes wrong: on which days, in which segments.

`split.py` puts the words into the check `srm`, and `judge.py` the records into the result.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from abeval.aggregates.aggregates import Aggregates
from abeval.experiment.model import Experiment
from abeval.inference.trust.split_counts import by_day, by_segment, weights_by_stretch
from abeval.results.trust import SplitDay, SplitPlace
from abeval.stats import srm, srm_segments
from abeval.stats.records import Refusal

DAY = "entry day"

_LIKELY = 0.01
"""A dimension is named where its p-value, Holm over dimensions, is smaller."""

_EVERYWHERE = (
    "it is alike on all days of entry and in all segments: look for what acts on all units of a "
    "variant, such as its weight, a redirect, a slow page that is left, or a filter of bots"
)
_ON_DAYS = (
    "look at what was released, ramped or cleaned then; a log that begins or ends in mid-day for "
    "one variant does the same"
)
_IN_SEGMENT = "look at assignment, redirect and logging there, such as of one client's release"


def split_days(experiment: Experiment, aggregates: Aggregates) -> tuple[SplitDay, ...]:
    """Units by day of entry, with the test of all until then that may be read on any day.

    Empty without times, without weights to test, and where the split changed.
    """
    counts = by_day(experiment, aggregates)
    if not counts or aggregates.stretches or experiment.weights == "observed":
        return ()
    path = np.cumsum(np.array(list(counts.values())), axis=0)
    try:
        p_values = srm.sequential(path, weights_by_stretch(experiment, aggregates)[0]).p_values
    except Refusal:
        return ()
    names = list(experiment.variants)
    return tuple(
        SplitDay(day, dict(zip(names, units, strict=True)), p_value)
        for (day, units), p_value in zip(counts.items(), p_values, strict=True)
    )


def split_places(experiment: Experiment, aggregates: Aggregates) -> tuple[SplitPlace, ...]:
    """Days and segments by how plainly the split differs within them, the plainest first."""
    tables = _tables(experiment, aggregates)
    if not tables or aggregates.stretches or experiment.weights == "observed":
        return ()
    weights = weights_by_stretch(experiment, aggregates)[0]
    try:
        tested = {
            name: srm_segments.by_segment(list(rows), list(rows.values()), weights)
            for name, rows in tables.items()
        }
    except Refusal:
        return ()
    ranked = srm_segments.rank_dimensions(list(tested), list(tested.values()))
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
    tables: dict[str, Mapping[str, Sequence[int]]] = {DAY: by_day(experiment, aggregates)}
    for name in experiment.segment_names:
        counts = by_segment(experiment, aggregates, name)
        tables[name] = {cell: rows[0] for cell, rows in counts.items()}
    return {name: rows for name, rows in tables.items() if len(rows) > 1}


def where(places: Sequence[SplitPlace], days: Sequence[SplitDay], alarm: float) -> str:
    """Where it goes wrong, since when, and what is likely, in words; empty without places.

    Args:
        places: As `split_places` ranks them.
        days: As of `split_days`.
        alarm: The p-value from which on the running test says so.
    """
    if not places:
        return ""
    since = next((one.day for one in days if one.p_value < alarm), None)
    seen = f"; a test that runs along sees it from {since} on" if since else ""
    first = places[0]
    if first.p_value >= _LIKELY:
        return f"{_EVERYWHERE}{seen}"
    named = f"{first.dimension} {first.worst}" if first.dimension == DAY else _cell(first)
    if first.worst_p_value >= _LIKELY:
        named = f"{first.dimension}, in no single one of its {first.cells}"
    rest = (
        f" (all others together p = {first.p_value_without:.2g})"
        if first.worst_p_value < _LIKELY
        else ""
    )
    likely = _ON_DAYS if first.dimension == DAY else _IN_SEGMENT
    return f"it shows most by {named}{rest}: {likely}{seen}"


def _cell(place: SplitPlace) -> str:
    return f"{place.dimension} = {place.worst!r}"
