"""Check the traffic split against its weights, overall and by part.

A treatment that sends users elsewhere changes which units a cell has. The split of that cell is
then uneven, but only the segment is at fault, not the experiment. If a segment's value is known
from before the assignment, no treatment can change it, and an uneven cell is a fault of the split.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from abeval.aggregates.sums import SEGMENT
from abeval.experiment.model import Experiment
from abeval.experiment.problems import NOT_JOINED, list_arms, suggest_near_name, write_join_line
from abeval.inference.compare import Analysis
from abeval.inference.comparison import none_if_refused
from abeval.inference.trust.finding import RawCheck, TrustCheck, skip_check
from abeval.logs import placing
from abeval.logs.placing import (
    Enrollment,
    SplitPeriod,
    SplitPeriods,
    group_enrollments,
    list_planned_splits,
)
from abeval.results import format as fmt
from abeval.results.trust import Check, SplitDay, SplitPlace
from abeval.stats import multiplicity, srm
from abeval.stats.records import Refusal
from abeval.stats.srm import CHI_SQUARE_MINIMUM, SRM

# Unknown variants that a message lists at most.
_LISTED = 5

# Periods, dimensions and hours with a smaller p-value are named in the message.
_NAMED = 0.01

# Below this p-value of the whole split, an uneven cell is more likely its fault.
_SOUND = 0.001

# With more hours only days are tested, for each hour is one more cell.
_MOST_HOURS = 24 * 62


# The cell of an entry, by dimension of time.
_WHEN: dict[str, Callable[[Enrollment], str]] = {
    "entry day": lambda entry: entry.entry_day,
    "entry hour": lambda entry: f"{entry.entry_day} {entry.entry_hour:02}:00",
    "hour of the day": lambda entry: f"{entry.entry_hour:02}:00",
}


_LOOK = {
    "entry day": "at what was released, ramped or cleaned then; a log that begins or ends in "
    "mid-day for one variant does the same",
    "entry hour": "at what was released, restarted or down then, and for files of these hours that "
    "are missing",
    "hour of the day": "at what runs at that hour each day (jobs, caches, budgets that are used "
    "up), and for clocks of one variant in another time zone",
}
"""What to look at where the split is off, by dimension of time."""

_LOOK_FOR_LOSS = (
    "look for units lost after assignment, redirects, bots, or a filter that acts on one variant"
)
_UNEVEN_CELL = (
    "{segment} = {cell!r} does not match the weights (p = {p:.2g}, corrected for the number of "
    "cells; without this cell p = {without:.2g})"
)
_LOOK_IN_SEGMENT = "at assignment, redirect and logging there, such as of one client's release"


def _count_segment_units(analysis: Analysis, name: str) -> dict[str, list[list[int]]]:
    """Count analysed units by cell, split period and variant."""
    experiment, aggregates = analysis.experiment, analysis.aggregates
    rows = [row for row in aggregates.moments if row.slice == SEGMENT + name]
    index = {variant: i for i, variant in enumerate(experiment.variants)}
    counts: dict[str, list[list[int]]] = {}
    for row in rows:
        if row.metric == rows[0].metric:
            empty = [[0] * len(index) for _ in aggregates.period_numbers]
            of_stretch = counts.setdefault(row.cell, empty)[row.group.split_period]
            of_stretch[index[row.group.variant]] = row.units
    return dict(sorted(counts.items()))


def split_period_weights(analysis: Analysis) -> list[list[float]]:
    """Return the planned weights of each split period, else its observed shares."""
    split_periods, entries = analysis.aggregates.split_periods, analysis.aggregates.enrollments
    if split_periods:
        return [list((period.weights or period.shares).values()) for period in split_periods]
    # All units entered in one scheduled split, which need not be the first.
    plans, used = list_planned_splits(analysis.experiment), {entry.planned for entry in entries}
    return [list(plans[min(used, default=0)].weights.values())]


def split_days(analysis: Analysis) -> tuple[SplitDay, ...]:
    """Return units by entry day, with the running test of the split."""
    return tuple(
        SplitDay(day, dict(zip(analysis.experiment.variants, units, strict=True)), p_value)
        for day, units, p_value in _run_sequential_test(analysis, "entry day")
    )


def _run_sequential_test(analysis: Analysis, when: str) -> list[tuple[str, list[int], float]]:
    """Return cells in time order, with units and the running p-value."""
    counts = _count_entries(analysis, when)
    if not counts or not _has_one_split(analysis):
        return []
    path = np.cumsum(np.array(list(counts.values())), axis=0)
    p_values = none_if_refused(
        lambda: srm.check_split_at_looks(path, split_period_weights(analysis)[0])
    )
    if p_values is None:
        return []
    return list(zip(counts, counts.values(), p_values, strict=True))


def _count_entries(analysis: Analysis, when: str) -> dict[str, list[int]]:
    return group_enrollments(analysis.experiment, analysis.aggregates.enrollments, _WHEN[when])


def _has_one_split(analysis: Analysis) -> bool:
    return not analysis.aggregates.split_periods and analysis.experiment.weights != "observed"


def split_places(analysis: Analysis) -> tuple[SplitPlace, ...]:
    """Rank days, hours and segments by how strongly the split differs in them."""
    if not _has_one_split(analysis):
        return ()
    (weights,) = split_period_weights(analysis)
    tables = {name: _count_entries(analysis, name) for name in _WHEN}
    tables["entry hour"] = _pool_small_hours(tables["entry hour"], np.array(weights))
    for name in analysis.experiment.segment_names:
        counts = _count_segment_units(analysis, name)
        tables[name] = {cell: rows[0] for cell, rows in counts.items()}
    try:
        tested = {
            name: srm.check_segments(list(rows), list(rows.values()), weights)
            for name, rows in tables.items()
            if len(rows) > 1
        }
    except Refusal:
        return ()
    return tuple(
        SplitPlace(
            dimension=row.dimension,
            p_value=row.p_adjusted,
            cells=len(tested[row.dimension].segments),
            worst=row.worst_segment,
            worst_p_value=row.worst_p_adjusted,
            p_value_without=tested[row.dimension].segments[0].p_value_without,
        )
        for row in srm.rank_dimensions(list(tested), list(tested.values()))
    )


def _pool_small_hours(counts: Mapping[str, list[int]], weights: np.ndarray) -> dict[str, list[int]]:
    """Return hours with enough units for a chi-square; pool the others."""
    if not counts or len(counts) > _MOST_HOURS:
        return {}
    # The variant with the smallest weight must expect enough units.
    least = CHI_SQUARE_MINIMUM * weights.sum() / weights[weights > 0].min()
    few = [units for units in counts.values() if sum(units) < least]
    many = {cell: units for cell, units in counts.items() if sum(units) >= least}
    return many | ({"(hours with few units)": np.sum(few, axis=0).tolist()} if few else {})


def _locate_mismatch(analysis: Analysis) -> tuple[str, dict[str, str]]:
    """Return the state that says where the split is off, and its slots."""
    dimensions = split_places(analysis)
    if not dimensions:
        return "", {}
    first, slots = dimensions[0], {"seen": _describe_sequential_test(analysis)}
    if first.p_value >= _NAMED:
        return "everywhere", slots
    where = f", in no single one of its {first.cells}"
    if first.worst_p_value < _NAMED:
        cell = first.worst if first.dimension in _WHEN else f"= {first.worst!r}"
        where = f" {cell} (all others together p = {first.p_value_without:.2g})"
    look = _LOOK.get(first.dimension, _LOOK_IN_SEGMENT)
    return "somewhere", slots | {"place": f"{first.dimension}{where}", "look": look}


def _describe_sequential_test(analysis: Analysis) -> str:
    """Describe the running test of the split (Lindon and Malek 2022)."""
    path = _run_sequential_test(analysis, "entry hour")
    if not path:
        return ""
    since = next((hour for hour, _, p_value in path if p_value < _NAMED), None)
    if since is not None:
        return f"; it shows from {since} on"
    return (
        "; a test that may be read every day does not see it yet "
        f"(p = {path[-1][2]:.2g}): where `srm` is read every day, it warns of sound splits too"
    )


class _SplitTest(NamedTuple):
    """The deciding test of the split, with its units and weights."""

    test: SRM
    counts: Mapping[str, int]
    weights: Sequence[float] = ()
    where: str = ""
    remedy: str = ""

    @property
    def units_text(self) -> str:
        """Format the units of each variant."""
        return ", ".join(f"{name} {n:,}" for name, n in self.counts.items())

    @property
    def alarm(self) -> str:
        """Describe the variant that is farthest from its expected units."""
        total, kind = sum(self.counts.values()), "exact" if self.test.is_exact else "chi-square"
        p = "< 1e-300" if self.test.p_value == 0 else f"= {self.test.p_value:.2g}"
        if not self.weights or not total:
            return f"units do not match the weights{self.where} ({self.units_text}; {kind} p {p})"
        shares = [weight / sum(self.weights) for weight in self.weights]
        (name, units), share = max(
            zip(self.counts.items(), shares, strict=True),
            key=lambda pair: abs(pair[0][1] - total * pair[1]),
        )
        return (
            f"{name} has {units:,} of {total:,} units{self.where} where {total * share:,.0f} were "
            f"expected ({100 * units / total:.4g}%, not {100 * share:.4g}%; {kind} p {p})"
        )


@TrustCheck(
    "srm",
    of="both",
    calm="units match the weights{where}: {listed}",
    alarm="{alarm}",
    remedy=_LOOK_FOR_LOSS + "{also}",
    states={
        "nobody": {
            "alarm": "no unit was assigned to {empty}: the {log} have rows of other variants only",
            "remedy": (
                "leave out of [variants] what has not started; else look for {log} that are "
                "missing, and at the assignment"
            ),
        },
        "unnamed": {
            "alarm": (
                "no unit was assigned to {empty}, but the {log} have variants that the experiment "
                "does not name: {unnamed}{meant}"
            ),
            "remedy": (
                "write the names under [variants] as the {log} have them, or which of these names "
                "one joins, such as {join}"
            ),
        },
        "everywhere": {
            "alarm": (
                "{alarm}; the shift is the same on all days, at all hours of entry and in all "
                "segments{seen}"
            ),
            "remedy": (
                "look for a wrong weight, a redirect, users leaving a slow page, or bot filtering "
                "in one variant{also}"
            ),
        },
        "somewhere": {"alarm": "{alarm}; it shows most by {place}: look {look}{seen}"},
    },
)
def srm_check(analysis: Analysis) -> RawCheck:
    """Test for sample ratio mismatch, within each split period."""
    experiment, aggregates = analysis.experiment, analysis.aggregates
    if aggregates.days_are_units:
        return skip_check("days are the units, so the split of what was assigned is not known")
    if experiment.weights == "observed":
        why = "the weights are those of the table, so the split cannot be checked"
        return skip_check(why, remedy="say which shares were intended, as weights of the variants")
    try:
        split = _test_split(analysis)
    except Refusal as refusal:
        text = f"sample ratio: {refusal}"
        return RawCheck(None, text, text, least="fail", slots={"also": ""})
    p_value, state, more = split.test.p_value, "", dict[str, str]()
    if empty := [name for name in experiment.variants if aggregates.count_units(name) == 0]:
        state, more = _describe_empty_variants(analysis, empty)
    elif p_value < _NAMED:
        state, more = _locate_mismatch(analysis)
    slots = {"where": split.where, "listed": split.units_text, "also": split.remedy}
    return RawCheck(p_value, state=state, slots={"alarm": split.alarm, **slots, **more})


def _describe_empty_variants(
    analysis: Analysis, empty: Sequence[str]
) -> tuple[str, dict[str, str]]:
    """Return the state that suggests which logged names empty variants have."""
    experiment, aggregates = analysis.experiment, analysis.aggregates
    rows_of = aggregates.other_variants
    other_rows = {name.removesuffix(NOT_JOINED): rows for name, rows in rows_of.items()}
    log, arms = experiment.logs.rows_name, list_arms(experiment.variants)
    slots = {"log": str(log), "empty": fmt.join_items([repr(name) for name in empty])}
    if not other_rows:
        return "nobody", slots
    unnamed = fmt.join_items(
        [f"{name!r} ({other_rows[name]:,} rows)" for name in [*other_rows][:_LISTED]]
    )
    spellings = [arm for name in empty for arm in arms[name]]
    near = {
        arm: name
        for arm in spellings
        for name in other_rows
        if f"`{name}`" in suggest_near_name(arm, other_rows)
    }
    meant = "".join(f"; {arm!r} is likely {name!r}" for arm, name in near.items())
    likely = [*near.values()][:1] or [*other_rows][:1]
    slots |= {"unnamed": unnamed, "meant": meant, "join": write_join_line(empty[0], likely)}
    return "unnamed", slots


def _test_split(analysis: Analysis) -> _SplitTest:
    experiment, split_periods = analysis.experiment, analysis.aggregates.split_periods
    totals = {name: analysis.aggregates.count_units(name) for name in experiment.variants}
    # With one split, all units are one test against its weights.
    if not split_periods:
        (weights,) = split_period_weights(analysis)
        return _SplitTest(srm.check_stratum([*totals.values()], weights), totals, weights)
    if experiment.schedule:
        return _test_schedule(split_periods, split_period_weights(analysis))
    # The file's weights are those of all units together, or of the latest split period.
    weights = [variant.weight for variant in experiment.variants.values()]
    last = split_periods[-1]
    of_all, of_last = (
        srm.check_split([[*units.values()]], [weights]) for units in (totals, last.units)
    )
    remedy = ", or write the planned weights into [[assignment.splits]] if the split was changed"
    if of_all.p_value >= of_last.p_value:
        return _SplitTest(of_all, totals, weights, remedy=remedy)
    return _SplitTest(of_last, last.units, weights, f" of {_format_period(last)}", remedy)


def _test_schedule(split_periods: SplitPeriods, weights: Sequence[Sequence[float]]) -> _SplitTest:
    """Return the worst test over split periods and overall (Holm)."""
    units = np.array([list(split_period.units.values()) for split_period in split_periods])
    tests = [srm.check_split(units[[i]], [row]) for i, row in enumerate(weights)]
    tests.append(srm.check_split(units, weights))
    adjusted = multiplicity.adjust([test.p_value for test in tests], "holm")
    worst = int(np.argmin(adjusted))
    where, counts = f" of each of {len(split_periods)} split periods", split_periods[-1].units
    worst_weights: Sequence[float] = ()
    if adjusted[worst] < _NAMED and worst < len(split_periods):
        where, counts = f" of {_format_period(split_periods[worst])}", split_periods[worst].units
        worst_weights = weights[worst]
    elif adjusted[worst] < _NAMED:
        where = " of all split periods together"
        counts = dict(zip(counts, units.sum(axis=0).tolist(), strict=True))
    return _SplitTest(
        tests[worst]._replace(p_value=float(adjusted[worst])), counts, worst_weights, where
    )


def _format_period(split_period: SplitPeriod) -> str:
    start, end = split_period.start, split_period.end
    return start if start == end else f"{start} to {end}"


@TrustCheck(
    "split",
    of="both",
    limits=(1.0,),
    reason="a change is found where p < 1e-6: at one split, if entries do not move, in 0 of 9,000",
    states={
        "scheduled": {
            "calm": (
                "the split changed as [[assignment.splits]] says; units are compared within "
                "{periods} split periods, each weighed alike in all variants"
            ),
        },
        "unannounced": {
            "calm": (
                "the split changed {changes}, which no schedule announces; units are compared "
                "within {periods} split periods, each weighed alike in all variants"
            ),
            "remedy": (
                "if it was meant to change, write [[assignment.splits]]; if not, look for what "
                "lost units of one variant then"
            ),
        },
        "unexplained": {
            "limits": (1.0, 1.0),
            "remedy": (
                "map [logs.exposures] (ts: when a unit was assigned), or write how traffic was "
                "split. If it was ramped, one [[assignment.splits]] with `from` and the planned "
                "`weights` for each change, such as from = {change}. If it never changed: "
                "[[assignment.splits]] from = {start}, weights = {{ {weights} }}. If neither is "
                "so, look for what lost units of one variant then"
            ),
        },
    },
)
def split_check(analysis: Analysis) -> list[RawCheck]:
    """Report whether the split changed, and whether that was planned."""
    experiment = analysis.experiment
    split_periods = placing.find_enrollment_periods(experiment, analysis.aggregates.enrollments)
    if not split_periods:
        return []
    changes = float(len(split_periods) - 1)
    slots: dict[str, object] = {"changes": _describe_split_changes(experiment, split_periods)}
    slots["periods"] = len(split_periods)
    if not placing.knows_assignment(experiment):
        # Nobody planned the weights that were observed.
        planned = {k: f"{v.weight:g}" for k, v in experiment.variants.items()}
        planned |= dict.fromkeys(planned, "?") if experiment.weights == "observed" else {}
        weights = ", ".join(f'"{name}" = {weight}' for name, weight in planned.items())
        start, change = (split_period.start for split_period in split_periods[:2])
        slots |= {"start": start, "change": change, "weights": weights}
        text = explain_ambiguous_split(experiment, split_periods)
        return [RawCheck(changes, text, state="unexplained", slots=slots)]
    if experiment.schedule:
        return [RawCheck(0.0, slots=slots, state="scheduled")]
    return [RawCheck(changes, slots=slots, state="unannounced")]


def explain_ambiguous_split(experiment: Experiment, split_periods: SplitPeriods) -> str:
    """Explain why a change of the split by first impressions is ambiguous."""
    changes = _describe_split_changes(experiment, split_periods)
    return (
        f"by first impressions the split changed {changes}, and nothing says when units were "
        "assigned: a ramp and a treatment that moves first impressions look alike, and need "
        "opposite comparisons"
    )


def _describe_split_changes(experiment: Experiment, split_periods: SplitPeriods) -> str:
    """Describe when the split changed, by the treatment that moved most."""
    changes = []
    for before, after in pairwise(split_periods):
        shares = [(before.shares[name], after.shares[name], name) for name in experiment.treatments]
        was, then, name = max(shares, key=lambda share: abs(share[1] - share[0]))
        changes.append(f"from {after.start} on ({name} {was:.1%} before, {then:.1%} then)")
    return fmt.join_items(changes)


@TrustCheck(
    "srm:SEGMENT",
    of="both",
    calm="units match the weights in each of {cells} cells of {segment}",
    alarm=_UNEVEN_CELL,
    remedy=_LOOK_FOR_LOSS,
    states={
        "moved": {
            "alarm": (
                f"{_UNEVEN_CELL}, though all units together do: {{segment}} is a property that the "
                "treatment may have changed, so its table is not to be trusted"
            ),
            "remedy": (
                'with known = "before" a segment has the value from before the experiment, with '
                'known = "exposure" that of the first exposure: then units were lost if its cells '
                "are uneven"
            ),
        },
    },
)
def check_segment_splits(analysis: Analysis) -> list[RawCheck]:
    """Test the split in the worst cell of each segment.

    The test of a segment that the treatment may move can warn, but not fail.
    """
    experiment, table = analysis.experiment, analysis.experiment.unit_table
    is_planned = experiment.weights != "observed"
    split = none_if_refused(lambda: _test_split(analysis)) if is_planned else None
    sound = split is not None and split.test.p_value >= _SOUND
    fixed = {
        *experiment.known_from("before"),
        *experiment.known_from("exposure"),
        *(() if table is None else table.segments),
        experiment.inference.stratify_by,
    }
    return [
        _check_segment(analysis, name, movable=sound and name not in fixed)
        for name in experiment.segment_names
    ]


def _check_segment(analysis: Analysis, segment: str, *, movable: bool) -> RawCheck:
    name = f"srm:{segment}"
    counts = _count_segment_units(analysis, segment)
    weights = split_period_weights(analysis)
    try:
        worst = srm.check_segments([*counts], [*counts.values()], weights).segments[0]
    except Refusal:
        return skip_check(f"no units by {segment}", name)
    slots = {"segment": segment, "cells": len(counts), "cell": worst.segment}
    slots |= {"p": worst.p_adjusted, "without": worst.p_value_without}
    finding = RawCheck(worst.p_adjusted, name=name, family="segments", slots=slots)
    return finding._replace(state="moved", metrics=(), worst="warn") if movable else finding


def find_moved_segments(experiment: Experiment, checks: Sequence[Check]) -> frozenset[str]:
    """Return segments that the treatment may have moved."""
    warned = {check.name for check in checks if check.status == "warn" and check.metrics == ()}
    return frozenset(name for name in experiment.segment_names if f"srm:{name}" in warned)
