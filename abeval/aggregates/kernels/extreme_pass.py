"""The units that deviate most, by arrays, in one pass over all metrics of a source.

`extremes.py` uses the rows in place of those of the query `audit/influence`, which defines them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.terms import Terms
from abeval.engines.protocol import ArrayEngine, whole
from abeval.engines.sql import numbered

PLACES = 20
"""So many units of each variant are kept."""

Extreme = tuple[int, str, int, str, str]
"""Number of the terms, variant, place from 1, and y and x as text."""


class _Most(NamedTuple):
    """The units that deviate most so far, the first most.

    Attributes:
        deviation: What y is beyond the value of the variant, in size, shape (units,).
        y: Numerators, shape (units,).
        x: Denominators, shape (units,).
    """

    deviation: NDArray[np.float64]
    y: NDArray[np.int64]
    x: NDArray[np.int64]

    def with_rows(self, more: "_Most") -> "_Most":
        """These and more, cut to the places there are; ties go to larger y, then to smaller x."""
        least = self.deviation[-1] if len(self.deviation) == PLACES else -np.inf
        places = np.flatnonzero(more.deviation >= least)
        if len(places) > PLACES:
            sizes = more.deviation[places]
            places = places[sizes >= np.partition(sizes, -PLACES)[-PLACES]]
        deviation, y, x = (
            np.concatenate([old, new[places]]) for old, new in zip(self, more, strict=True)
        )
        order = np.lexsort((x, -y, -deviation))[:PLACES]
        return _Most(deviation[order], y[order], x[order])


_NONE = _Most(np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64))


_Key = tuple[int, str]
"""Number of the terms, and variant."""


def extremes_by_arrays(
    engine: ArrayEngine, terms: Sequence[Terms], variants: Sequence[str]
) -> list[Extreme] | None:
    """What `audit/influence` would return of these terms over `source_unit`.

    Returns:
        None where a value is no whole number of 64 bits.
    """
    places: dict[str, int] = {}
    pairs = [(_place(one.y, places), _place(one.x, places)) for one in terms]
    arm = numbered("variant", variants)
    shown = ", ".join(f"{sql} as v_{place}" for sql, place in places.items())
    engine.view("judged_value", f"select {arm} as arm, {shown} from source_unit")
    totals = _totals(engine, len(places))
    most: dict[_Key, _Most] = {}
    for chunk in engine.chunks("select * from judged_value"):
        if any(column.dtype.kind != "i" for column in chunk.values()):
            return None
        for number in np.flatnonzero(np.bincount(chunk["arm"])).tolist():
            rows = np.flatnonzero(chunk["arm"] == number)
            columns = [chunk[f"v_{place}"][rows].astype(np.int64) for place in range(len(places))]
            _keep(most, variants[number], pairs, columns, totals[number])
    return [row for key in sorted(most) for row in _rows(key, most[key])]


def _place(sql: str, places: dict[str, int]) -> int:
    return places.setdefault(sql, len(places))


def _totals(engine: ArrayEngine, width: int) -> dict[int, list[float]]:
    """Number of the variant → the total of each column."""
    sums = (f"cast(sum(cast(v_{place} as decimal(38, 0))) as double)" for place in range(width))
    rows = engine.rows(f"select arm, {', '.join(sums)} from judged_value group by arm")
    return {whole(arm): [float(total or 0) for total in totals] for arm, *totals in rows}


def _keep(
    most: dict[_Key, _Most],
    variant: str,
    pairs: Sequence[tuple[int, int]],
    columns: Sequence[NDArray[np.int64]],
    totals: Sequence[float],
) -> None:
    """Compare the units of a variant with those that are kept."""
    for number, (y, x) in enumerate(pairs):
        if totals[x] > 0:
            deviation = np.abs(columns[y] - totals[y] / totals[x] * columns[x])
            known = most.get((number, variant), _NONE)
            most[number, variant] = known.with_rows(_Most(deviation, columns[y], columns[x]))


def _rows(key: _Key, most: _Most) -> list[Extreme]:
    values = zip(most.y.tolist(), most.x.tolist(), strict=True)
    return [(*key, place, str(y), str(x)) for place, (y, x) in enumerate(values, start=1)]
