"""Group the rows of a history into effects by metric."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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


class _Analyses:
    """What the analyses of a history say about its experiments."""

    def __init__(self, rows: Iterable[HistoryRow]) -> None:
        self.rows = [row for row in rows if row.source == "analysis"]
        self.control = {row.experiment: row.control for row in self.rows}
        self.untrusted = {(r.experiment, r.variant, r.metric) for r in self.rows if not r.trusted}
        self._models: dict[str, dict[str, str | None]] = {}
        for row in self.rows:
            self._models.setdefault(row.experiment, {})[row.variant] = row.model

    def case(self, row: HistoryRow) -> Case | None:
        """Return a row's experiment and variant, also if it names a model."""
        models = self._models.get(row.experiment, {})
        if row.variant in models and row.source != "replay":
            return row.experiment, row.variant
        serving = [variant for variant, model in models.items() if model == row.variant]
        # A single treatment without a model name serves whatever was replayed.
        if not serving and [*models.values()] == [None]:
            serving = [*models]
        # A model stands for a variant only if exactly one variant serves it.
        return (row.experiment, serving[0]) if len(serving) == 1 else None

    def effect(self, row: HistoryRow) -> tuple[Case, Effect] | str:
        """Return a row's effect and its case, or why it is not used."""
        case = self.case(row)
        if case is None:
            has_analysis = row.experiment in self.control
            return "model of no variant" if has_analysis else "experiment without an analysis"
        if row.effect is None or row.se is None:
            return "no effect with an error"
        if not row.trusted or (*case, row.metric) in self.untrusted:
            return "untrusted"
        return case, Effect(row.effect, row.se, row.p_value)

    def is_other_traffic(self, row: HistoryRow) -> bool:
        """Tell whether an offline row is not of control's traffic."""
        control = self.control.get(row.experiment, row.traffic)
        return row.source == "replay" and row.traffic != control


def build_measures(rows: Sequence[HistoryRow]) -> Measures:
    """Group all usable effects by metric.

    Offline effects are those on control's traffic: what was known before launch.
    """
    analyses = _Analyses(rows)
    left_out: Counter[str] = Counter()
    groups: dict[tuple[Side, str], tuple[HistoryRow, dict[Case, Effect]]] = {}
    for row in rows:
        # Effects by week are of the same units: `lasting.py` reads them.
        if row.source != "windows" and not analyses.is_other_traffic(row):
            answer = analyses.effect(row)
            if isinstance(answer, str):
                left_out[answer] += 1
                continue
            case, effect = answer
            groups.setdefault((row.side, row.metric), (row, {}))[1][case] = effect
    # A metric may change role or direction: the last analysis counts.
    last = {row.metric: row for row in analyses.rows}
    both = groups.values()
    measures = tuple(_measure(row, last.get(row.metric), effects) for row, effects in both)
    shipped = frozenset((r.experiment, r.variant) for r in analyses.rows if r.shipped)
    return Measures(measures, shipped, left_out)


def _measure(row: HistoryRow, judged: HistoryRow | None, effects: Mapping[Case, Effect]) -> Measure:
    """Build the measure of a row, with the direction of the last analysis."""
    source = row if row.side == "offline" else judged
    direction, role = (None, None) if source is None else (source.direction, source.role)
    return Measure(row.metric, row.side, direction, role, effects)
