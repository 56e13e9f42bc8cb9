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
from abeval.experiment.problems import NOT_JOINED, arms_of, joined_line, near_miss
from abeval.inference.compare import Analysis
from abeval.inference.comparison import or_none
from abeval.inference.trust.finding import Finding, skipped
from abeval.logs import placing
from abeval.logs.accounting import other_variants
from abeval.logs.placing import Entered, Stretch, Stretches, entered_by, planned_splits
from abeval.results import Check
from abeval.results import format as fmt
from abeval.results.trust import SplitDay, SplitPlace
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
_WHEN: dict[str, Callable[[Entered], str]] = {
    "entry day": lambda one: one.entry_day,
    "entry hour": lambda one: f"{one.entry_day} {one.entry_hour:02}:00",
    "hour of the day": lambda one: f"{one.entry_hour:02}:00",
}


def _by_segment(analysis: Analysis, name: str) -> dict[str, list[list[int]]]:
    """Count analysed units by cell, split period and variant."""
    experiment, aggregates = analysis.experiment, analysis.aggregates
    rows = [row for row in aggregates.moments if row.slice == SEGMENT + name]
    place = {variant: i for i, variant in enumerate(experiment.variants)}
    counts: dict[str, list[list[int]]] = {}
    for row in rows:
        if row.metric == rows[0].metric:
            empty = [[0] * len(place) for _ in aggregates.places]
            of_stretch = counts.setdefault(row.cell, empty)[row.group.stretch]
            of_stretch[place[row.group.variant]] = row.units
    return dict(sorted(counts.items()))


def stretch_weights(analysis: Analysis) -> list[list[float]]:
    """Return the planned weights of each split period, else its observed shares."""
    stretches, entries = analysis.aggregates.stretches, analysis.aggregates.entered
    if stretches:
        return [list((stretch.weights or stretch.shares).values()) for stretch in stretches]
    # All units entered in one scheduled split, which need not be the first.
    plans, used = planned_splits(analysis.experiment), {one.planned for one in entries}
    return [list(plans[min(used, default=0)].weights.values())]


def split_days(analysis: Analysis) -> tuple[SplitDay, ...]:
    """Return units by entry day, with the running test of the split."""
    return tuple(
        SplitDay(day, dict(zip(analysis.experiment.variants, units, strict=True)), p_value)
        for day, units, p_value in _running(analysis, "entry day")
    )


def _running(analysis: Analysis, when: str) -> list[tuple[str, list[int], float]]:
    """Return cells in time order, with units and the running p-value."""
    counts = _entered(analysis, when)
    if not counts or not _has_one_split(analysis):
        return []
    path = np.cumsum(np.array(list(counts.values())), axis=0)
    p_values = or_none(lambda: srm.sequential(path, stretch_weights(analysis)[0]))
    if p_values is None:
        return []
    return list(zip(counts, counts.values(), p_values, strict=True))


def _entered(analysis: Analysis, when: str) -> dict[str, list[int]]:
    return entered_by(analysis.experiment, analysis.aggregates.entered, _WHEN[when])


def _has_one_split(analysis: Analysis) -> bool:
    return not analysis.aggregates.stretches and analysis.experiment.weights != "observed"


def split_places(analysis: Analysis) -> tuple[SplitPlace, ...]:
    """Rank days, hours and segments by how strongly the split differs in them."""
    if not _has_one_split(analysis):
        return ()
    (weights,) = stretch_weights(analysis)
    tables = {name: _entered(analysis, name) for name in _WHEN}
    tables["entry hour"] = _some_hours(tables["entry hour"], np.array(weights))
    for name in analysis.experiment.segment_names:
        tables[name] = {cell: rows[0] for cell, rows in _by_segment(analysis, name).items()}
    try:
        tested = {
            name: srm.by_segment(list(rows), list(rows.values()), weights)
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


def _some_hours(counts: Mapping[str, list[int]], weights: np.ndarray) -> dict[str, list[int]]:
    """Return hours with enough units for a chi-square; pool the others."""
    if not counts or len(counts) > _MOST_HOURS:
        return {}
    # The variant with the smallest weight must expect enough units.
    least = CHI_SQUARE_MINIMUM * weights.sum() / weights[weights > 0].min()
    few = [units for units in counts.values() if sum(units) < least]
    many = {cell: units for cell, units in counts.items() if sum(units) >= least}
    return many | ({"(hours with few units)": np.sum(few, axis=0).tolist()} if few else {})


def _where(analysis: Analysis) -> tuple[str, dict[str, str]]:
    """Return the state that says where the split is off, and its slots."""
    places = split_places(analysis)
    if not places:
        return "", {}
    first, slots = places[0], {"seen": _seen(analysis)}
    if first.p_value >= _NAMED:
        return "everywhere", slots
    is_time = first.dimension in _WHEN
    where = f", in no single one of its {first.cells}"
    if first.worst_p_value < _NAMED:
        cell = first.worst if is_time else f"= {first.worst!r}"
        where = f" {cell} (all others together p = {first.p_value_without:.2g})"
    slots["place"] = f"it shows most by {first.dimension}{where}"
    return first.dimension if is_time else "in a segment", slots


def _seen(analysis: Analysis) -> str:
    """Describe the running test of the split (Lindon and Malek 2022)."""
    path = _running(analysis, "entry hour")
    if not path:
        return ""
    since = next((hour for hour, _, p_value in path if p_value < _NAMED), None)
    if since is not None:
        return f"; it shows from {since} on"
    return (
        "; a test that may be read every day does not see it yet "
        f"(p = {path[-1][2]:.2g}): where `srm` is read every day, it warns of sound splits too"
    )


class _Split(NamedTuple):
    """The deciding test of the split, with its units and weights."""

    test: SRM
    counts: Mapping[str, int]
    weights: Sequence[float] = ()
    where: str = ""
    remedy: str = ""

    @property
    def listed(self) -> str:
        """Format the units of each variant."""
        return ", ".join(f"{name} {n:,}" for name, n in self.counts.items())

    @property
    def alarm(self) -> str:
        """Describe the variant that is farthest from its expected units."""
        total, kind = sum(self.counts.values()), "exact" if self.test.is_exact else "chi-square"
        p = "< 1e-300" if self.test.p_value == 0 else f"= {self.test.p_value:.2g}"
        if not self.weights or not total:
            return f"units do not match the weights{self.where} ({self.listed}; {kind} p {p})"
        shares = [weight / sum(self.weights) for weight in self.weights]
        (name, units), share = max(
            zip(self.counts.items(), shares, strict=True),
            key=lambda one: abs(one[0][1] - total * one[1]),
        )
        return (
            f"{name} has {units:,} of {total:,} units{self.where} where {total * share:,.0f} were "
            f"expected ({100 * units / total:.4g}%, not {100 * share:.4g}%; {kind} p {p})"
        )


def srm_check(analysis: Analysis) -> Finding:
    """Test for sample ratio mismatch, within each split period."""
    experiment, aggregates = analysis.experiment, analysis.aggregates
    if aggregates.days_are_units:
        return skipped("days are the units, so the split of what was assigned is not known")
    if experiment.weights == "observed":
        why = "the weights are those of the table, so the split cannot be checked"
        return skipped(why, remedy="say which shares were intended, as weights of the variants")
    try:
        split = _split(analysis)
    except Refusal as refusal:
        words = f"sample ratio: {refusal}"
        return Finding(None, words, words, least="fail", slots={"also": ""})
    p_value, state, more = split.test.p_value, "", dict[str, str]()
    if empty := [name for name in experiment.variants if aggregates.units_of(name) == 0]:
        state, more = _nobody(analysis, empty)
    elif p_value < _NAMED:
        state, more = _where(analysis)
    slots = {"where": split.where, "listed": split.listed, "also": split.remedy}
    return Finding(p_value, state=state, slots={"alarm": split.alarm, **slots, **more})


def _nobody(analysis: Analysis, empty: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return the state that suggests which logged names empty variants have."""
    experiment, aggregates = analysis.experiment, analysis.aggregates
    rows_of = other_variants(aggregates.facts)
    others = {name.removesuffix(NOT_JOINED): rows for name, rows in rows_of.items()}
    log, arms = experiment.logs.rows_name, arms_of(experiment.variants)
    slots = {"log": str(log), "empty": fmt.listing([repr(name) for name in empty])}
    if not others:
        return "nobody", slots
    listed = fmt.listing([f"{name!r} ({others[name]:,} rows)" for name in [*others][:_LISTED]])
    wanted = [arm for name in empty for arm in arms[name]]
    near = {arm: name for arm in wanted for name in others if f"`{name}`" in near_miss(arm, others)}
    meant = "".join(f"; {arm!r} is likely {name!r}" for arm, name in near.items())
    likely = [*near.values()][:1] or [*others][:1]
    slots |= {"unnamed": listed, "meant": meant, "join": joined_line(empty[0], likely)}
    return "unnamed", slots


def _split(analysis: Analysis) -> _Split:
    experiment, stretches = analysis.experiment, analysis.aggregates.stretches
    totals = {name: analysis.aggregates.units_of(name) for name in experiment.variants}
    # With one split, all units are one test against its weights.
    if not stretches:
        (weights,) = stretch_weights(analysis)
        return _Split(srm.believable([*totals.values()], weights), totals, weights)
    if experiment.schedule:
        return _as_scheduled(stretches, stretch_weights(analysis))
    # The file's weights are those of all units together, or of the latest stretch.
    weights = [variant.weight for variant in experiment.variants.values()]
    last = stretches[-1]
    of_all, of_last = (
        srm.check_split([[*units.values()]], [weights]) for units in (totals, last.units)
    )
    remedy = ", or write the planned weights into [[assignment.splits]] if the split was changed"
    if of_all.p_value >= of_last.p_value:
        return _Split(of_all, totals, weights, remedy=remedy)
    return _Split(of_last, last.units, weights, f" of {_named(last)}", remedy)


def _as_scheduled(stretches: Stretches, weights: Sequence[Sequence[float]]) -> _Split:
    """Return the worst test over split periods and overall (Holm)."""
    units = np.array([list(stretch.units.values()) for stretch in stretches])
    tests = [srm.check_split(units[[i]], [one]) for i, one in enumerate(weights)]
    tests.append(srm.check_split(units, weights))
    adjusted = multiplicity.adjust([test.p_value for test in tests], "holm")
    worst = int(np.argmin(adjusted))
    where, counts = f" of each of {len(stretches)} stretches", stretches[-1].units
    own: Sequence[float] = ()
    if adjusted[worst] < _NAMED and worst < len(stretches):
        where, counts = f" of {_named(stretches[worst])}", stretches[worst].units
        own = weights[worst]
    elif adjusted[worst] < _NAMED:
        where = " of all stretches together"
        counts = dict(zip(counts, units.sum(axis=0).tolist(), strict=True))
    return _Split(tests[worst]._replace(p_value=float(adjusted[worst])), counts, own, where)


def _named(stretch: Stretch) -> str:
    return stretch.start if stretch.start == stretch.end else f"{stretch.start} to {stretch.end}"


def change_checks(analysis: Analysis) -> list[Finding]:
    """Report whether the split changed, and whether that was planned."""
    experiment = analysis.experiment
    stretches = placing.entry_stretches(experiment, analysis.aggregates.entered)
    if not stretches:
        return []
    changes = float(len(stretches) - 1)
    slots: dict[str, object] = {"changes": _changes(experiment, stretches)}
    slots["stretches"] = len(stretches)
    if not placing.knows_assignment(experiment):
        # Nobody planned the weights that were observed.
        planned = {k: f"{v.weight:g}" for k, v in experiment.variants.items()}
        planned |= dict.fromkeys(planned, "?") if experiment.weights == "observed" else {}
        weights = ", ".join(f'"{name}" = {weight}' for name, weight in planned.items())
        start, change = (stretch.start for stretch in stretches[:2])
        slots |= {"start": start, "change": change, "weights": weights}
        words = unexplained_words(experiment, stretches)
        return [Finding(changes, words, state="unexplained", slots=slots)]
    if experiment.schedule:
        return [Finding(0.0, slots=slots, state="scheduled")]
    return [Finding(changes, slots=slots, state="unannounced")]


def unexplained_words(experiment: Experiment, stretches: Stretches) -> str:
    """Explain why a change of the split by first impressions is ambiguous."""
    return (
        f"by first impressions the split changed {_changes(experiment, stretches)}, and nothing "
        "says when units were assigned: a ramp and a treatment that moves first impressions look "
        "alike, and need opposite comparisons"
    )


def _changes(experiment: Experiment, stretches: Stretches) -> str:
    """Describe when the split changed, by the treatment that moved most."""
    changes = []
    for before, after in pairwise(stretches):
        shares = [(before.shares[name], after.shares[name], name) for name in experiment.treatments]
        was, then, name = max(shares, key=lambda share: abs(share[1] - share[0]))
        changes.append(f"from {after.start} on ({name} {was:.1%} before, {then:.1%} then)")
    return fmt.listing(changes)


def segment_checks(analysis: Analysis) -> list[Finding]:
    """Test the split in each segment's worst cell; movable ones only warn."""
    experiment, table = analysis.experiment, analysis.experiment.unit_table
    split = or_none(lambda: _split(analysis)) if experiment.weights != "observed" else None
    sound = split is not None and split.test.p_value >= _SOUND
    fixed = {
        *experiment.known_from("before"),
        *experiment.known_from("exposure"),
        *(() if table is None else table.segments),
        experiment.inference.stratify_by,
    }
    return [
        _of_segment(analysis, name, movable=sound and name not in fixed)
        for name in experiment.segment_names
    ]


def _of_segment(analysis: Analysis, segment: str, *, movable: bool) -> Finding:
    name = f"srm:{segment}"
    counts = _by_segment(analysis, segment)
    try:
        worst = srm.by_segment([*counts], [*counts.values()], stretch_weights(analysis)).segments[0]
    except Refusal:
        return skipped(f"no units by {segment}", name)
    slots = {"segment": segment, "cells": len(counts), "cell": worst.segment}
    slots |= {"p": worst.p_adjusted, "without": worst.p_value_without}
    found = Finding(worst.p_adjusted, name=name, family="segments", slots=slots)
    return found._replace(state="moved", metrics=(), worst="warn") if movable else found


def moved_segments(experiment: Experiment, checks: Sequence[Check]) -> frozenset[str]:
    """Return segments that the treatment may have moved."""
    warned = {check.name for check in checks if check.status == "warn" and check.metrics == ()}
    return frozenset(name for name in experiment.segment_names if f"srm:{name}" in warned)
