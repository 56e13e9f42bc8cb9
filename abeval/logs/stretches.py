"""Stretches of entry days over which traffic was split alike, as scheduled or as the log shows.

Where 10 % became 50 %, treatment's units entered later than control's, and whatever differs between
early and late units looks like an effect (Simpson's paradox). A unit enters with its first
impression of the period, or its exposure. First impressions alone do not tell a ramp from a
treatment that moves them: units are compared within stretches only where the file says how units
were assigned, or when. `placing.py` gives each unit its stretch; `aggregates/` sums by it, and
`inference/stretches.py` compares units within stretches.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.engines.builders import local_ms
from abeval.experiment.model import Experiment
from abeval.experiment.sections import moment
from abeval.experiment.sources import ROW_UNIT
from abeval.logs.unit_arrays import NO_FIRST, Whole, counted
from abeval.stats import srm


class Entered(NamedTuple):
    """Units of a variant that entered in an hour of a local day (ISO), under a scheduled split."""

    planned: int
    entry_day: str
    entry_hour: int
    variant: str
    units: int


@dataclass(frozen=True)
class Stretch:
    """Entry days, one after another, on which traffic was split alike.

    Attributes:
        start: Its first local day, or the local time at which its split began (ISO).
        end: Its last local day.
        units: Variant → analysed units that entered in it.
        weights: Variant → planned weight; None where no schedule says which.
    """

    start: str
    end: str
    units: Mapping[str, int]
    weights: Mapping[str, float] | None

    @property
    def shares(self) -> dict[str, float]:
        """Variant → its share of the units."""
        total = max(sum(self.units.values()), 1)
        return {name: n / total for name, n in self.units.items()}


Stretches = tuple[Stretch, ...]
"""In order of time; none where the split did not change, or where the log has no time."""


class PlannedSplit(NamedTuple):
    """Weights of the variants, from a local time on; None is the beginning."""

    start: datetime | None
    weights: Mapping[str, float]


def planned_splits(experiment: Experiment) -> list[PlannedSplit]:
    """The splits that the file plans, from the first on, without those that change nothing."""
    first = {name: variant.weight for name, variant in experiment.variants.items()}
    plans = [PlannedSplit(None, first)]
    for split in experiment.schedule:
        weights = {name: split.weights[name] for name in first}
        if _shares(weights) != _shares(plans[-1].weights):
            plans.append(PlannedSplit(moment(split.start), weights))
    return plans


def _shares(weights: Mapping[str, float]) -> dict[str, float]:
    total = sum(weights.values())
    return {name: round(weight / total, 12) for name, weight in weights.items()}


def entered(experiment: Experiment, first_ms: Whole, variant: Whole) -> list[Entered]:
    """Units that entered in each scheduled split, hour and variant.

    Args:
        experiment: Its variants, its schedule and its time zone.
        first_ms: When each unit entered, `NO_FIRST` where that is not known.
        variant: Place of its variant in the file.
    """
    known = first_ms != NO_FIRST
    local = local_ms(first_ms[known], experiment.timezone)
    starts = [plan.start for plan in planned_splits(experiment)[1:] if plan.start is not None]
    names = [*experiment.variants]
    hours = counted(_over(local, starts), local // _HOUR_MS, variant[known])
    return sorted(
        Entered(planned, str(np.datetime64(hour // 24, "D")), hour % 24, names[arm], units)
        for planned, hour, arm, units in hours
    )


def entered_by(
    experiment: Experiment, counts: Iterable[Entered], cell: Callable[[Entered], str]
) -> dict[str, list[int]]:
    """Cell → units by variant in the order of the file, cells in order.

    Args:
        experiment: Its variants.
        counts: Of entries.
        cell: The cell of one, such as its day.
    """
    place = {variant: i for i, variant in enumerate(experiment.variants)}
    table: dict[str, list[int]] = {}
    for one in counts:
        table.setdefault(cell(one), [0] * len(place))[place[one.variant]] += one.units
    return dict(sorted(table.items()))


def stretches_of(experiment: Experiment, counts: Sequence[Entered]) -> Stretches:
    """The stretches within which units are compared; none where the split did not change.

    Args:
        experiment: Its variants, its schedule, and whether it has a log of exposures.
        counts: Of entries.
    """
    return entry_stretches(experiment, counts) if knows_assignment(experiment) else ()


def entry_stretches(experiment: Experiment, counts: Sequence[Entered]) -> Stretches:
    """The stretches as scheduled, without a schedule as entries show; none where there is one."""
    stretches = [
        stretch
        for number, plan in enumerate(planned_splits(experiment))
        for stretch in _of_plan(experiment, plan, [o for o in counts if o.planned == number])
    ]
    return tuple(stretches) if len(stretches) > 1 else ()


def _is_declared(experiment: Experiment) -> bool:
    """Whether the file says how traffic was split: by a schedule, or by one rule for all units."""
    return bool(experiment.schedule) or experiment.assignment_rule is not None


def knows_assignment(experiment: Experiment) -> bool:
    """Whether the file says how units were assigned, or when: by a log of exposures."""
    return _is_declared(experiment) or experiment.logs.exposures is not None


def _of_plan(
    experiment: Experiment, plan: PlannedSplit, counts: Sequence[Entered]
) -> list[Stretch]:
    """The stretches of one scheduled split: one, or without a schedule those that entries show."""
    if not counts:
        return []
    by_day = entered_by(experiment, counts, lambda one: one.entry_day)
    days, table = list(by_day), np.array(list(by_day.values()))
    # Rows of one user come together: counts of rows vary more than the search allows for.
    is_one = _is_declared(experiment) or experiment.unit == ROW_UNIT
    parts = [range(len(days))] if is_one else srm.stretches(table)
    # A scheduled split may begin within its first day.
    starts = [days[part.start] for part in parts]
    if plan.start is not None and plan.start > datetime.fromisoformat(starts[0]):
        starts[0] = plan.start.isoformat(" ")
    weights = plan.weights if experiment.schedule else None
    sums = [table[list(part)].sum(axis=0).tolist() for part in parts]
    return [
        Stretch(start, days[part[-1]], dict(zip(experiment.variants, units, strict=True)), weights)
        for start, part, units in zip(starts, parts, sums, strict=True)
    ]


def stretch_of(experiment: Experiment, first_ms: Whole, stretches: Stretches) -> NDArray[np.int16]:
    """The number of the stretch in which each unit entered; 0 where that is not known."""
    starts = [datetime.fromisoformat(stretch.start) for stretch in stretches[1:]]
    known = first_ms != NO_FIRST
    number = np.zeros(len(first_ms), dtype=np.int16)
    number[known] = _over(local_ms(first_ms[known], experiment.timezone), starts)
    return number


def _over(local: Whole, starts: Sequence[datetime]) -> Whole:
    """How many of some local times are over at each local time."""
    moments = [round((start - _EPOCH) / timedelta(milliseconds=1)) for start in starts]
    return np.searchsorted(np.array(moments, dtype=np.int64), local, side="right")


_EPOCH, _HOUR_MS = datetime(1970, 1, 1), 3_600_000
