"""Units against weights, counted by day and hour of entry, by segment and by stretch.

`split.py`, `segments.py` and `split_places.py` test them.
"""

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.sums import SEGMENT, SLICE
from abeval.experiment.model import Experiment
from abeval.logs.placing import entered_by, planned_splits


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
