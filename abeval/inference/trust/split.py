"""Check the traffic split: units against weights, overall, by stretch, hour and segment."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.sums import SEGMENT, SLICE
from abeval.experiment.consistency import known_from
from abeval.experiment.model import Experiment
from abeval.inference.trust.finding import Finding, Limits, Significance, Words, graded, skipped
from abeval.logs.placing import (
    Stretch,
    Stretches,
    entered_by,
    entry_stretches,
    knows_assignment,
    planned_splits,
)
from abeval.results import Check
from abeval.results import format as fmt
from abeval.results.trust import SplitDay, SplitPlace
from abeval.stats import multiplicity, srm
from abeval.stats.records import Refusal
from abeval.stats.srm import CHI_SQUARE_MINIMUM, SRM


def by_day(experiment: Experiment, aggregates: Aggregates) -> dict[str, list[int]]:
    """Day of entry → units by variant, in the order of the file; empty without times."""
    return entered_by(experiment, aggregates.entered, lambda one: one.entry_day)


def by_hour(experiment: Experiment, aggregates: Aggregates) -> dict[str, list[int]]:
    """Local hour of entry, such as `2026-09-14 08:00` → units by variant; empty without times."""
    return entered_by(
        experiment, aggregates.entered, lambda one: f"{one.entry_day} {one.entry_hour:02}:00"
    )


def by_clock(experiment: Experiment, aggregates: Aggregates) -> dict[str, list[int]]:
    """Hour of the day at which units entered, such as `08:00` → units by variant."""
    return entered_by(experiment, aggregates.entered, lambda one: f"{one.entry_hour:02}:00")


def by_segment(
    experiment: Experiment, aggregates: Aggregates, name: str
) -> dict[str, list[list[int]]]:
    """Cell → analysed units in each stretch and variant, in the order of the file."""
    rows = [row for row in aggregates.moments if row[SLICE] == SEGMENT + name]
    place = {variant: i for i, variant in enumerate(experiment.variants)}
    counts: dict[str, list[list[int]]] = {}
    for metric, _, cell, variant, stretch, units, *_ in rows:
        if metric == rows[0][0]:
            empty = [[0] * len(place) for _ in aggregates.places]
            of_stretch = counts.setdefault(str(cell), empty)[int(str(stretch))]
            of_stretch[place[str(variant)]] = int(str(units))
    return dict(sorted(counts.items()))


def weights_by_stretch(experiment: Experiment, aggregates: Aggregates) -> list[list[float]]:
    """The weights in each stretch: the planned ones, or the shares of its own units."""
    if not aggregates.stretches:
        # All units entered in one scheduled split, which need not be the first.
        plans, used = planned_splits(experiment), {one.planned for one in aggregates.entered}
        return [list(plans[min(used, default=0)].weights.values())]
    return [list((stretch.weights or stretch.shares).values()) for stretch in aggregates.stretches]


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


LOST = "look for units lost after assignment, redirects, bots, or a filter that acts on one variant"

_ANNOUNCE = (
    "if it was meant to change, write [[assignment.splits]]; if not, look for what lost units of "
    "one variant then"
)

_SETTLE = (
    "map [logs.exposures] (ts: when a unit was assigned), or write how traffic was split. If it "
    "was ramped, one [[assignment.splits]] with `from` and the planned `weights` for each change, "
    "such as from = {change}. If it never changed: [[assignment.splits]] from = {start}, "
    "weights = {{ {weights} }}. If neither is so, look for what lost units of one variant then"
)

_NAMED = 0.01
"""A stretch is named in the message where its p-value is smaller."""

_UNANNOUNCED = Limits(
    1, None, "a change is found where p < 1e-6: at one split, if entries do not move, in 0 of 9,000"
)
_UNEXPLAINED = _UNANNOUNCED._replace(fail=1)


def srm_check(experiment: Experiment, aggregates: Aggregates) -> Finding:
    """Whether units match the weights, in every stretch its own."""
    if experiment.weights == "observed":
        message = "the weights are those of the table, so the split cannot be checked"
        return skipped("srm", message)
    try:
        split = _split(experiment, aggregates)
    except Refusal as refusal:
        return Check("srm", "fail", None, None, f"sample ratio: {refusal}", remedy=LOST)
    calm = f"units match the weights{split.where}: {split.counts}"
    p = "< 1e-300" if split.p_value == 0 else f"= {split.p_value:.2g}"
    alarm = f"units do not match the weights{split.where} ({split.counts}; {split.test} p {p})"
    if empty := [name for name in experiment.variants if aggregates.units_of(name) == 0]:
        alarm = f"no units in {', '.join(empty)}; {alarm}"
    remedy = f"{LOST}{split.remedy}"
    if split.p_value < _NAMED:
        places = split_places(experiment, aggregates)
        words = where(places, running(experiment, aggregates, _NAMED))
        alarm = "; ".join(filter(None, (alarm, words)))
    return Significance("srm", split.p_value, Words(calm, alarm, remedy))


class _Split(NamedTuple):
    """The test of the split whose p-value counts, and what it is of."""

    p_value: float
    test: str
    where: str
    counts: str
    remedy: str = ""


def _split(experiment: Experiment, aggregates: Aggregates) -> _Split:
    stretches = aggregates.stretches
    totals = {name: aggregates.units_of(name) for name in experiment.variants}
    if not stretches:
        planned = weights_by_stretch(experiment, aggregates)[0]
        whole = srm.believable(list(totals.values()), planned)
        return _Split(whole.p_value, _test(whole), "", _listed(totals))
    if experiment.schedule:
        return _as_scheduled(stretches)
    weights = {name: variant.weight for name, variant in experiment.variants.items()}
    return _unannounced(stretches, totals, weights)


def _as_scheduled(stretches: Stretches) -> _Split:
    """The worst of all stretches and of all units together, Holm over these tests."""
    observed = [list(stretch.units.values()) for stretch in stretches]
    planned = [list((stretch.weights or {}).values()) for stretch in stretches]
    tests = [
        *(_against(stretch.units, stretch.weights or {}) for stretch in stretches),
        srm.stratified(observed, planned),
    ]
    adjusted = multiplicity.adjust([test.p_value for test in tests], "holm")
    worst = int(np.argmin(adjusted))
    if adjusted[worst] >= _NAMED:
        where, counts = f" of each of {len(stretches)} stretches", stretches[-1].units
    elif worst == len(stretches):
        where, counts = " of all stretches together", _sums(stretches)
    else:
        where, counts = f" of {_named(stretches[worst])}", stretches[worst].units
    return _Split(float(adjusted[worst]), _test(tests[worst]), where, _listed(counts))


def _unannounced(
    stretches: Stretches, totals: Mapping[str, int], weights: Mapping[str, float]
) -> _Split:
    """The file's weights are those of all units together, or of the latest stretch."""
    last = stretches[-1]
    of_all, of_last = _against(totals, weights), _against(last.units, weights)
    remedy = ", or write the planned weights into [[assignment.splits]] if the split was changed"
    if of_all.p_value >= of_last.p_value:
        return _Split(of_all.p_value, _test(of_all), "", _listed(totals), remedy)
    where, counts = f" of {_named(last)}", _listed(last.units)
    return _Split(of_last.p_value, _test(of_last), where, counts, remedy)


def _against(units: Mapping[str, int], weights: Mapping[str, float]) -> SRM:
    """The test of a stretch; without units there is nothing to doubt."""
    observed, planned = list(units.values()), [weights[name] for name in units]
    if sum(observed) == 0:
        return SRM(0.0, len(srm.checked(observed, planned)[1]) - 1, 1.0)
    return srm.believable(observed, planned)


def _test(split: SRM) -> str:
    return "exact" if split.is_exact else "chi-square"


def _sums(stretches: Stretches) -> dict[str, int]:
    return {name: sum(one.units[name] for one in stretches) for name in stretches[0].units}


def _listed(units: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {n:,}" for name, n in units.items())


def _named(stretch: Stretch) -> str:
    return stretch.start if stretch.start == stretch.end else f"{stretch.start} to {stretch.end}"


def change_checks(experiment: Experiment, aggregates: Aggregates) -> list[Check]:
    """Whether the split changed, and is known to have; no check where it did not."""
    stretches = entry_stretches(experiment, aggregates.entered)
    if not stretches:
        return []
    value = float(len(stretches) - 1)
    if not knows_assignment(experiment):
        message = unexplained_words(experiment, stretches)
        weights = ", ".join(f'"{name}" = {v.weight:g}' for name, v in experiment.variants.items())
        start, change = (stretch.start for stretch in stretches[:2])
        remedy = _SETTLE.format(start=start, change=change, weights=weights)
        return [graded("split", value, _UNEXPLAINED, Words(message, message, remedy))]
    within = (
        f"units are compared within {len(stretches)} stretches of entry days of one split, each "
        "weighed alike in all variants"
    )
    if experiment.schedule:
        message = f"the split changed as [[assignment.splits]] says; {within}"
        return [graded("split", 0.0, _UNANNOUNCED, Words(message, message))]
    changes = f"{_changes(experiment, stretches)}, which no schedule announces"
    message = f"the split changed {changes}; {within}"
    return [graded("split", value, _UNANNOUNCED, Words(message, message, _ANNOUNCE))]


def unexplained_words(experiment: Experiment, stretches: Stretches) -> str:
    """What first impressions show, and why that compares nothing."""
    return (
        f"by first impressions the split changed {_changes(experiment, stretches)}, and nothing "
        "says when units were assigned: a ramp and a treatment that moves first impressions look "
        "alike, and need opposite comparisons"
    )


def _changes(experiment: Experiment, stretches: Stretches) -> str:
    """When the split changed, with the shares of the treatment whose share moved most."""
    changes = []
    for before, after in pairwise(stretches):
        shares = [(before.shares[name], after.shares[name], name) for name in experiment.treatments]
        was, then, name = max(shares, key=lambda share: abs(share[1] - share[0]))
        changes.append(f"from {after.start} on ({name} {was:.1%} before, {then:.1%} then)")
    return fmt.listing(changes)


_NAME = "srm:"


def segment_checks(experiment: Experiment, aggregates: Aggregates, whole: Finding) -> list[Finding]:
    """The split in the worst cell of each segment: where a mismatch comes from.

    Args:
        experiment: Its segments.
        aggregates: The units of each cell.
        whole: What was found of the split of all units. Where that is sound, a segment that is not
            known from before can only warn.
    """
    sound = isinstance(whole, Significance) and whole.p_value >= _SOUND
    table = experiment.unit_table
    of_table = () if table is None else table.segments
    fixed = {
        *(name for source in _KNOWN for name in known_from(experiment, source)),
        *of_table,
        experiment.inference.stratify_by,
    }
    return [
        _finding(experiment, aggregates, name, movable=sound and name not in fixed)
        for name in experiment.segment_names
    ]


_KNOWN: tuple[Literal["before", "exposure"], ...] = ("before", "exposure")

_SOUND = 0.001
"""With a smaller p-value of the whole split, its fault is the likelier reason of an uneven cell."""


def _finding(
    experiment: Experiment, aggregates: Aggregates, name: str, *, movable: bool
) -> Finding:
    worst = worst_cell(experiment, aggregates, name)
    if worst is None:
        return skipped(f"{_NAME}{name}", f"no units by {name}")
    calm = f"units match the weights in each of {worst.cells} cells of {name}"
    alarm = (
        f"{name} = {worst.cell!r} does not match the weights (p = {worst.p_value:.2g} after "
        f"Holm; without it, all other units together p = {worst.p_value_without:.2g})"
    )
    if not movable:
        words = Words(calm, alarm, LOST)
        return Significance(f"{_NAME}{name}", worst.p_value, words, "segments")
    words = Words(
        calm,
        f"{alarm}, though all units together do: {name} is a property that the treatment may have "
        "changed, so its table is not to be trusted",
        'with known = "before" a segment has the value from before the experiment, with known = '
        '"exposure" that of the first exposure: then units were lost if its cells are uneven',
    )
    p_value = worst.p_value
    return Significance(f"{_NAME}{name}", p_value, words, "segments", metrics=(), worst="warn")


def moved_segments(experiment: Experiment, checks: Sequence[Check]) -> frozenset[str]:
    """Segments that the treatment may have changed: uneven, though the split as a whole is not."""
    warned = {check.name for check in checks if check.status == "warn" and check.metrics == ()}
    return frozenset(name for name in experiment.segment_names if f"{_NAME}{name}" in warned)


class CellSplit(NamedTuple):
    """The split in the cell of a segment that fits the weights least.

    Attributes:
        cell: Its name.
        p_value: Of its units against the weights, Holm over the cells.
        p_value_without: Of all other cells together.
        cells: Number of cells.
    """

    cell: str
    p_value: float
    p_value_without: float
    cells: int


def worst_cell(experiment: Experiment, aggregates: Aggregates, segment: str) -> CellSplit | None:
    """The cell of a segment with the worst split; None where there is nothing to test."""
    counts = by_segment(experiment, aggregates, segment)
    weights = weights_by_stretch(experiment, aggregates)
    if not counts:
        return None
    try:
        if len(weights) > 1:
            return _worst_by_stretch(counts, weights)
        table = [rows[0] for rows in counts.values()]
        worst = srm.by_segment(list(counts), table, weights[0]).segments[0]
    except Refusal:
        return None
    return CellSplit(worst.segment, worst.p_adjusted, worst.p_value_without, len(counts))


def _worst_by_stretch(
    counts: Mapping[str, Sequence[Sequence[int]]], weights: Sequence[Sequence[float]]
) -> CellSplit:
    total = np.sum([np.array(rows) for rows in counts.values()], axis=0)
    p_values = [srm.stratified(rows, weights).p_value for rows in counts.values()]
    adjusted = multiplicity.adjust(p_values, "holm")
    worst = int(np.argmin(adjusted))
    cell, rows = list(counts.items())[worst]
    others = total - np.array(rows)
    without = srm.stratified(others, weights).p_value if others.sum() else 1.0
    return CellSplit(cell, float(adjusted[worst]), without, len(counts))
