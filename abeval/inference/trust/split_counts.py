"""Units against weights, counted by day and hour of entry, by segment and by stretch.

`split.py`, `segments.py` and `split_places.py` test them.
"""

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.moment_rows import SEGMENT
from abeval.experiment.model import Experiment
from abeval.logs.stretches import entered_by, planned_splits


def by_day(experiment: Experiment, aggregates: Aggregates) -> dict[str, list[int]]:
    """Day of entry → units by variant, in the order of the file; empty without times."""
    return _entered(experiment, aggregates, "{day}")


def by_hour(experiment: Experiment, aggregates: Aggregates) -> dict[str, list[int]]:
    """Local hour of entry, such as `2026-09-14 08:00` → units by variant; empty without times."""
    return _entered(experiment, aggregates, "{day} {hour:02}:00")


def by_clock(experiment: Experiment, aggregates: Aggregates) -> dict[str, list[int]]:
    """Hour of the day at which units entered, such as `08:00` → units by variant."""
    return _entered(experiment, aggregates, "{hour:02}:00")


def _entered(experiment: Experiment, aggregates: Aggregates, cell: str) -> dict[str, list[int]]:
    """Cell of the local day and hour of entry → units by variant, in the order of time."""
    rows = aggregates.entered
    if rows.empty:
        return {}
    times = zip(rows["entry_day"], rows["entry_hour"], strict=True)
    cells = [cell.format(day=day, hour=int(hour)) for day, hour in times]
    table = entered_by(experiment, rows, cells)
    return dict(zip(table.index.tolist(), table.to_numpy().tolist(), strict=True))


def by_segment(
    experiment: Experiment, aggregates: Aggregates, name: str
) -> dict[str, list[list[int]]]:
    """Cell → analysed units in each stretch and variant, in the order of the file."""
    rows = aggregates.moments
    rows = rows[rows["slice"] == SEGMENT + name]
    if rows.empty:
        return {}
    rows = rows[rows["metric"] == rows["metric"].iloc[0]]
    place = {variant: i for i, variant in enumerate(experiment.variants)}
    counts: dict[str, list[list[int]]] = {}
    columns = (rows[label] for label in ("cell", "stretch", "variant", "units"))
    for cell, stretch, variant, units in zip(*columns, strict=True):
        empty = [[0] * len(place) for _ in aggregates.places]
        counts.setdefault(str(cell), empty)[int(stretch)][place[str(variant)]] = int(units)
    return dict(sorted(counts.items()))


def weights_by_stretch(experiment: Experiment, aggregates: Aggregates) -> list[list[float]]:
    """The weights in each stretch: the planned ones, or the shares of its own units."""
    if not aggregates.stretches:
        # All units entered in one scheduled split, which need not be the first.
        plans, used = planned_splits(experiment), set(aggregates.entered["planned"])
        return [list(plans[min(used, default=0)].weights.values())]
    return [list((stretch.weights or stretch.shares).values()) for stretch in aggregates.stretches]
