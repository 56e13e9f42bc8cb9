"""Stretches of entry days over which traffic was split alike, as scheduled or as the log shows.

Where 10 % became 50 %, treatment's units entered later than control's, and whatever differs between
early and late units looks like an effect (Simpson's paradox). A unit enters with its first
impression of the period, or its exposure. `placing.py` gives each unit its stretch;
`aggregates/` sums by it, and `inference/stretches.py` compares units within stretches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import numpy as np
import pandas as pd

from abeval.engines.protocol import Engine
from abeval.engines.queries import query
from abeval.engines.sql import literal
from abeval.experiment.model import Experiment
from abeval.experiment.sources import ROW_UNIT
from abeval.experiment.values import moment
from abeval.stats import changed_split

ENTERED = ("planned", "entry_day", "entry_hour", "variant", "units")
"""Columns of the counts of entries: the scheduled split, the local day and its hour (0 to 23), the
variant, its units."""


@dataclass(frozen=True)
class Stretch:
    """Entry days, one after another, on which traffic was split alike.

    Attributes:
        start: Its first local day, or the local time at which its split began (ISO).
        end: Its last local day.
        units: Variant → analysed units that entered in it.
        weights: Variant → planned weight; None where no schedule says which.
        announced: Whether the file says that the split changed at its start.
    """

    start: str
    end: str
    units: Mapping[str, int]
    weights: Mapping[str, float] | None
    announced: bool

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


def entered(experiment: Experiment, engine: Engine) -> pd.DataFrame:
    """Units that entered in each scheduled split, hour and variant: `ENTERED`."""
    local = engine.local_time("first_ms", experiment.timezone)
    starts = [plan.start for plan in planned_splits(experiment)[1:] if plan.start is not None]
    engine.view(
        "entry_day",
        f"select variant, {place_of(local, starts)} as planned, "
        f"cast({local} as date) as entry_day, hour({local}) as entry_hour "
        "from candidates where set_aside is null and first_ms is not null",
    )
    return engine.frame(query("units/entered"))


def stretches_of(experiment: Experiment, counts: pd.DataFrame) -> Stretches:
    """The stretches, from the counts of entries; none where there is only one.

    Args:
        experiment: Its variants and its schedule.
        counts: Rows of `ENTERED`.
    """
    stretches = [
        stretch
        for number, plan in enumerate(planned_splits(experiment))
        for stretch in _of_plan(experiment, plan, counts[counts["planned"] == number])
    ]
    return tuple(stretches) if len(stretches) > 1 else ()


def _of_plan(experiment: Experiment, plan: PlannedSplit, counts: pd.DataFrame) -> list[Stretch]:
    """The stretches of one scheduled split: one, unless the log shows that it changed."""
    if counts.empty:
        return []
    by_day: dict[str, dict[str, int]] = {}
    columns = counts[["entry_day", "variant", "units"]]
    for day, variant, n in columns.itertuples(index=False, name=None):
        of_day = by_day.setdefault(str(day), {})
        of_day[str(variant)] = of_day.get(str(variant), 0) + int(n)
    days = sorted(by_day)
    table = np.array([[by_day[day].get(v, 0) for v in experiment.variants] for day in days])
    stretches = []
    # Rows of one user come together: counts of rows vary more than the search allows for.
    whole = [range(len(days))]
    for part in whole if experiment.unit == ROW_UNIT else changed_split.stretches(table):
        first = part.start == 0
        start = days[part.start]
        if first and plan.start is not None and plan.start > datetime.fromisoformat(start):
            # It began within its first day.
            start = plan.start.isoformat(" ")
        sums = table[part.start : part.stop].sum(axis=0).tolist()
        units = dict(zip(experiment.variants, sums, strict=True))
        weights = plan.weights if experiment.schedule else None
        announced = first and plan.start is not None
        stretches.append(Stretch(start, days[part[-1]], units, weights, announced))
    return stretches


def stretched(experiment: Experiment, engine: Engine, stretches: Stretches) -> str:
    """SQL of the candidates, each with the number of its stretch."""
    local = engine.local_time("first_ms", experiment.timezone)
    starts = [datetime.fromisoformat(stretch.start) for stretch in stretches[1:]]
    return f"select *, {place_of(local, starts)} as stretch from candidates"


def place_of(local: str, starts: Sequence[datetime]) -> str:
    """SQL: how many of these local times are over at a local time; 0 where it is null."""
    if not starts:
        return "cast(0 as integer)"
    numbered = reversed(list(enumerate(starts, start=1)))
    cases = [f"when {local} >= timestamp {literal(str(start))} then {n}" for n, start in numbered]
    return f"cast(case {' '.join(cases)} else 0 end as integer)"
