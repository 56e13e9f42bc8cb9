"""Units against weights, counted by day and hour of entry, by segment and by stretch.

`split.py`, `segments.py` and `split_places.py` test them.
"""

from collections.abc import Callable, Mapping

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.moment_rows import SEGMENT
from abeval.experiment.model import Experiment
from abeval.logs.stretches import planned_splits


def by_day(experiment: Experiment, aggregates: Aggregates) -> dict[str, list[int]]:
    """Day of entry → units by variant, in the order of the file; empty without times."""
    return _entered(experiment, aggregates, lambda day, _: day)


def by_hour(experiment: Experiment, aggregates: Aggregates) -> dict[str, list[int]]:
    """Local hour of entry, such as `2026-09-14 08:00` → units by variant; empty without times."""
    return _entered(experiment, aggregates, lambda day, hour: f"{day} {hour:02}:00")


def by_clock(experiment: Experiment, aggregates: Aggregates) -> dict[str, list[int]]:
    """Hour of the day at which units entered, such as `08:00` → units by variant."""
    return _entered(experiment, aggregates, lambda _, hour: f"{hour:02}:00")


def _entered(
    experiment: Experiment, aggregates: Aggregates, cell: Callable[[str, int], str]
) -> dict[str, list[int]]:
    """Cell of the local day and hour of entry → units by variant, in the order of time."""
    rows = aggregates.entered
    place = {variant: i for i, variant in enumerate(experiment.variants)}
    counts: dict[str, list[int]] = {}
    columns = (rows[label] for label in ("entry_day", "entry_hour", "variant", "units"))
    for day, hour, variant, units in zip(*columns, strict=True):
        row = counts.setdefault(cell(str(day), int(hour)), [0] * len(place))
        row[place[str(variant)]] += int(units)
    return dict(sorted(counts.items()))


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


def only_plan(experiment: Experiment, aggregates: Aggregates) -> Mapping[str, float]:
    """The weights of the single scheduled split in which all units entered."""
    used = set(aggregates.entered["planned"])
    plans = [plan for number, plan in enumerate(planned_splits(experiment)) if number in used]
    return plans[0].weights if plans else {}


def weights_by_stretch(experiment: Experiment, aggregates: Aggregates) -> list[list[float]]:
    """The weights in each stretch: the planned ones, or the shares of its own units."""
    if not aggregates.stretches:
        plan = only_plan(experiment, aggregates) if experiment.schedule else {}
        planned = plan or {name: one.weight for name, one in experiment.variants.items()}
        return [list(planned.values())]
    return [list((stretch.weights or stretch.shares).values()) for stretch in aggregates.stretches]
