"""The sums of a replay: all that the statistics get from queries and kernels.

`offline/sums/run.py` makes them; `offline/estimates/judge.py` makes the result of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from abeval.offline.candidates import Units
from abeval.offline.kernels import UnitValues
from abeval.results.replay import ModelCoverage

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class ModelSums:
    """The sums of one model.

    Attributes:
        values: Per unit.
        curve: The calibration curve by traffic and group of units; None unless a metric needs it.
        listed: Lists that hold each item, by traffic, cut-off and group; None unless needed.
        low: Its smallest score.
        high: Its largest score.
        longest: Items of its longest list with a relevant item.
    """

    values: UnitValues
    curve: pd.DataFrame | None
    listed: pd.DataFrame | None
    low: float
    high: float
    longest: int

    @property
    def probabilities(self) -> bool:
        """Whether every score lies in [0, 1]."""
        return self.low >= 0 and self.high <= 1


@dataclass(frozen=True)
class Sums:
    """The sums of a replay.

    Attributes:
        units: The units, in the order of every model's values.
        models: Model → its sums; models without any score are left out.
        coverage: How much each model scores.
        uncompared: Requests that only some of the models score.
        longest: Items of the longest list with a relevant item.
        catalogue: Items that could have been listed.
        has_history: Whether earlier choices are known.
        largest_grade: The largest relevance of any item.
        same_lists: Whether all models order the same items of a request.
    """

    units: Units
    models: Mapping[str, ModelSums]
    coverage: tuple[ModelCoverage, ...]
    uncompared: int
    longest: int
    catalogue: int
    has_history: bool
    largest_grade: float
    same_lists: bool
