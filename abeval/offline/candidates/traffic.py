"""The units of a replay, and the variant whose traffic each of them is.

`offline/candidates/impressions.py` makes the view `traffic`, or `offline/evaluate.py` and
`evaluate_log.py` for frames; `offline/sums/run.py` sums in the order of its units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abeval.engines.protocol import ArrayEngine, Engine
from abeval.results.replay import POOLED
from abeval.stats.arrays import Bools, Integers

UNIT_GROUPS = 64
"""Groups of units; a jackknife leaves out one at a time."""


@dataclass(frozen=True, eq=False)
class Units:
    """The units of a replay.

    Attributes:
        ids: Ascending.
        traffic: The variant of each, or `all`.
        group: The jackknife group of each, from 0.
    """

    ids: NDArray[np.generic]
    traffic: NDArray[np.str_]
    group: Integers

    @classmethod
    def of_one_traffic(cls, ids: NDArray[np.generic]) -> Units:
        """Units without variants; groups by their order."""
        return cls(ids, np.full(ids.size, "all"), np.arange(1, ids.size + 1) % UNIT_GROUPS)


def write_traffic(engine: Engine, sql: str) -> None:
    """Make the view `traffic` of `unit_id, traffic, unit_group`."""
    engine.view("traffic", sql)


def read_units(engine: Engine) -> Units:
    """The units of the relation `traffic`."""
    sql = "select unit_id, traffic, unit_group from traffic order by unit_id"
    columns = engine.arrays(sql) if isinstance(engine, ArrayEngine) else engine.frame(sql)
    ids, traffic, group = (np.asarray(columns[c]) for c in ("unit_id", "traffic", "unit_group"))
    return Units(ids, traffic.astype(np.str_), group.astype(np.int64))


def one_traffic(rows: str) -> str:
    """SQL of `traffic` for the units of a relation without variants."""
    number = "row_number() over (order by unit_id)"
    return (
        f"select unit_id, 'all' as traffic, {number} % {UNIT_GROUPS} as unit_group "
        f"from (select distinct unit_id from {rows}) as u"
    )


def masks(traffic: NDArray[np.str_]) -> Mapping[str, Bools]:
    """The units of each traffic, and of all of them where there are several.

    Example:
        >>> {name: mask.tolist() for name, mask in masks(np.array(["b", "a"])).items()}
        {'a': [False, True], 'b': [True, False], 'pooled': [True, True]}
    """
    names = sorted(set(traffic.tolist()))
    every = {POOLED: np.ones(len(traffic), dtype=np.bool_)} if len(names) > 1 else {}
    return {name: traffic == name for name in names} | every
