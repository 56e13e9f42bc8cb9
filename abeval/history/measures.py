"""Group the rows of a history into effects by metric."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from abeval.results.history import HistoryRow, Side
from abeval.stats.records import Floats

Case = tuple[str, str]
"""Experiment and variant."""


class Effect(NamedTuple):
    """One effect with its error."""

    value: float
    se: float
    p_value: float | None


class Measure(NamedTuple):
    """A metric, offline or online, and its effect in every experiment.

    Attributes:
        direction: Which way is better, as in `increase`; None if no row says it.
    """

    metric: str
    side: Side
    direction: str | None
    role: str | None
    effects: Mapping[Case, Effect]

    @property
    def values(self) -> Floats:
        """Return its effects, raw sign."""
        return np.array([effect.value for effect in self.effects.values()])

    @property
    def ses(self) -> Floats:
        """Return the standard errors of its effects."""
        return np.array([effect.se for effect in self.effects.values()])

    @property
    def experiments(self) -> int:
        """Count the experiments that have an effect of this metric."""
        return len({experiment for experiment, _ in self.effects})

    @property
    def sign(self) -> int:
        """Return 1 if more is better, −1 if less is better, 0 if neither."""
        if self.direction is not None and self.direction.startswith("toward"):
            return 0
        return -1 if self.direction == "decrease" else 1


class Measures(NamedTuple):
    """The metrics of a history, what was shipped, and what was left out."""

    measures: tuple[Measure, ...]
    shipped: frozenset[Case]
    left_out: Mapping[str, int]

    def select_side(self, side: Side) -> list[Measure]:
        """Return the measures of one side."""
        return [measure for measure in self.measures if measure.side == side]


def build_measures(rows: Sequence[HistoryRow]) -> Measures:
    """Group all usable effects by metric.

    Offline effects are those on control's traffic: what was known before launch.
    """
    analyses = [row for row in rows if row.source == "analysis"]
    control = {row.experiment: row.control for row in analyses}
    untrusted = {(r.experiment, r.variant, r.metric) for r in analyses if not r.trusted}
    models: dict[str, dict[str, str | None]] = {}
    for row in analyses:
        models.setdefault(row.experiment, {})[row.variant] = row.model
    left_out: Counter[str] = Counter()
    groups: dict[tuple[Side, str], tuple[HistoryRow, dict[Case, Effect]]] = {}
    for row in rows:
        is_other_traffic = row.traffic != control.get(row.experiment, row.traffic)
        # Effects by week are of the same units: `lasting.py` reads them.
        if row.source == "windows" or (row.source == "replay" and is_other_traffic):
            continue
        case = _find_case(row, models.get(row.experiment, {}))
        if case is None:
            has_analysis = row.experiment in control
            left_out[
                "model of no variant" if has_analysis else "experiment without an analysis"
            ] += 1
        elif row.effect is None or row.se is None:
            left_out["no effect with an error"] += 1
        elif not row.trusted or (*case, row.metric) in untrusted:
            left_out["untrusted"] += 1
        else:
            _, effects = groups.setdefault((row.side, row.metric), (row, {}))
            effects[case] = Effect(row.effect, row.se, row.p_value)
    # A metric may change role or direction: the last analysis counts.
    last = {row.metric: row for row in analyses}
    measures = []
    for row, effects in groups.values():
        says = row if row.side == "offline" else last.get(row.metric)
        direction, role = (None, None) if says is None else (says.direction, says.role)
        measures.append(Measure(row.metric, row.side, direction, role, effects))
    shipped = frozenset((r.experiment, r.variant) for r in analyses if r.shipped)
    return Measures(tuple(measures), shipped, left_out)


def _find_case(row: HistoryRow, models: Mapping[str, str | None]) -> Case | None:
    """Find a row's experiment and variant.

    Where a row names a model, `models` (variant → its model) tells the variant.
    """
    if row.variant in models and row.source != "replay":
        return row.experiment, row.variant
    serving = [variant for variant, model in models.items() if model == row.variant]
    # A single treatment without a model name serves whatever was replayed.
    if not serving and [*models.values()] == [None]:
        serving = [*models]
    # A model stands for a variant only if exactly one variant serves it.
    return (row.experiment, serving[0]) if len(serving) == 1 else None
