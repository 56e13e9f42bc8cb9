"""The units of a replay, and the variant whose traffic each of them is.

`offline/candidates/impressions.py` makes the view `traffic`, or `offline/evaluate.py` and
`evaluate_log.py` for frames; `offline/sums/run.py` sums in the order of its units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from abeval.engines.protocol import Engine
from abeval.engines.sql import literal
from abeval.results.replay import POOLED
from abeval.stats.records import Bools, Integers

UNIT_GROUPS = 64
"""Groups of units; a jackknife leaves out one at a time."""


@dataclass(frozen=True, eq=False)
class Units:
    """The units of a replay.

    Attributes:
        ids: Ascending.
        group: The jackknife group of each, from 0.
        names: The variants, ascending, or `all` for units without.
        traffic: The index of the variant of each.
    """

    ids: NDArray[np.generic]
    group: Integers
    names: Sequence[str]
    traffic: Integers

    @classmethod
    def of_one_traffic(cls, ids: NDArray[np.generic]) -> Units:
        """Units without variants; groups by their order."""
        order = np.arange(1, ids.size + 1)
        return cls(ids, order % UNIT_GROUPS, ["all"], np.zeros_like(order))

    @cached_property
    def masks(self) -> Mapping[str, Bools]:
        """The units of each traffic, and of all of them where there are several.

        Example:
            >>> units = Units(np.array([7, 8]), np.array([0, 1]), ["a", "b"], np.array([1, 0]))
            >>> {name: mask.tolist() for name, mask in units.masks.items()}
            {'a': [False, True], 'b': [True, False], 'pooled': [True, True]}
        """
        every = {POOLED: np.ones(self.ids.size, dtype=np.bool_)} if len(self.names) > 1 else {}
        return {name: self.traffic == i for i, name in enumerate(self.names)} | every


def write_traffic(engine: Engine, sql: str) -> None:
    """Make the view `traffic` of `unit_id, traffic, unit_group`."""
    engine.view("traffic", sql)


def read_units(engine: Engine) -> Units:
    """The units of the relation `traffic`."""
    names = [
        str(name) for (name,) in engine.rows("select distinct traffic from traffic order by 1")
    ]
    cases = " ".join(f"when traffic = {literal(name)} then {i}" for i, name in enumerate(names))
    number = f"case {cases} end" if names else "0"
    sql = f"select unit_id, unit_group, {number} as traffic from traffic order by unit_id"
    columns = engine.arrays(sql)
    ids, group, traffic = (np.asarray(columns[c]) for c in ("unit_id", "unit_group", "traffic"))
    return Units(ids, group.astype(np.int64), names, traffic.astype(np.int64))


def one_traffic(rows: str) -> str:
    """SQL of `traffic` for the units of a relation without variants."""
    number = "row_number() over (order by unit_id)"
    return (
        f"select unit_id, 'all' as traffic, {number} % {UNIT_GROUPS} as unit_group "
        f"from (select distinct unit_id from {rows}) as u"
    )
