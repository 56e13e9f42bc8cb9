"""What a replay reads, and what it adds up to: the waist between queries and statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from abeval.offline.candidates.rows import Rows
from abeval.offline.metrics.units import UnitValues
from abeval.results.replay import ModelCoverage

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Replayed:
    """Models to be replayed, as SQL over what an engine holds already.

    Attributes:
        candidates: Model → its candidates: `unit_id, request_id, item_id, score, tie, grade`.
        same_lists: Whether all models order the same items of a request.
        history: SQL of `unit_id, item_id`, a row per earlier choice, where that is known.
        catalogue: SQL of `item_id`, the items that could have been listed, beside those that were.
        rows: The same candidates as arrays, where kernels may do what queries else do.
    """

    candidates: Mapping[str, str]
    same_lists: bool
    history: str | None = None
    catalogue: str | None = None
    rows: Rows | None = None


@dataclass(frozen=True)
class ModelSums:
    """What one model adds up to.

    Attributes:
        values: Per unit.
        curve: The calibration curve by traffic and group of units, where a metric asks.
        listed: In how many lists each item stands, by traffic, cut-off and group, where one asks.
        low: Its smallest score.
        high: Its largest.
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
    """What a replay adds up to.

    Attributes:
        traffic: The traffic of each unit, in the order of every model's values.
        group: The group of each unit, for jackknives.
        models: Model → its sums; a model without any score is not in it.
        coverage: How much each model scores.
        uncompared: Requests that only some of the models score.
        longest: Items of the longest list with a relevant item.
        catalogue: Items that could have been listed.
        has_history: Whether it is known what was chosen before.
        largest_grade: Of any item.
    """

    traffic: NDArray[np.str_]
    group: NDArray[np.int64]
    models: Mapping[str, ModelSums]
    coverage: tuple[ModelCoverage, ...]
    uncompared: int
    longest: int
    catalogue: int
    has_history: bool
    largest_grade: float
