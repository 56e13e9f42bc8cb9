"""Exact sums of slices of metrics over a relation of values per unit, such as units in cells.

`cuts.py`, `quantiles.py` and `lacking.py` write the SQL of the values; the arrays that come back
are summed as those of units are.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from abeval.aggregates.unit_sums import Groups, Row, Slice, Terms, Variable, sums_of
from abeval.engines.protocol import Engine
from abeval.engines.sql import numbered
from abeval.logs.unit_arrays import Labels, labels


class SqlSlice(NamedTuple):
    """What one metric sums in one slice of a relation, by cell and variant.

    Attributes:
        metric: Its name.
        name: Of the slice.
        y: SQL of the numerator.
        x: SQL of the denominator.
        cell: SQL of the cell, a text.
    """

    metric: str
    name: str
    y: str
    x: str = "1"
    cell: str = "''"


def relation_sums(
    engine: Engine,
    slices: Sequence[SqlSlice],
    relation: str,
    variants: Sequence[str],
    by_stretch: bool = False,
) -> list[Row]:
    """Exact sums by cell, variant and stretch: rows of `moment_rows.MOMENT_COLUMNS`.

    Args:
        engine: Holds the relation.
        slices: What is summed.
        relation: Values per unit, with its `variant`, and its `stretch` if units are summed by it.
        variants: Those of the experiment.
        by_stretch: Whether units are summed by stretch.
    """
    numbers = list(dict.fromkeys(sql for one in slices for sql in (one.y, one.x)))
    columns = {sql: f"v_{place}" for place, sql in enumerate(numbers) if not sql.isdigit()}
    cells = {sql: f"cell_{i}" for i, sql in enumerate(dict.fromkeys(o.cell for o in slices))}
    listed = [
        f"cast({numbered('variant', variants)} as bigint) as arm",
        f"cast({'stretch' if by_stretch else '0'} as bigint) as part",
        *(f"cast({sql} as bigint) as {name}" for sql, name in columns.items()),
        *(f"cast({sql} as varchar) as {name}" for sql, name in cells.items()),
    ]
    arrays = engine.arrays(f"select {', '.join(listed)} from {relation}")
    known: dict[str, Variable] = {
        sql: arrays[name].astype(np.int64) for sql, name in columns.items()
    }
    known |= {sql: int(sql) for sql in numbers if sql.isdigit()}
    named: dict[str, Labels] = {sql: labels(arrays[name]) for sql, name in cells.items()}
    groups = Groups(arrays["arm"].astype(np.int64), arrays["part"].astype(np.int64), variants)
    return sums_of(
        [Slice(o.metric, o.name, Terms(known[o.y], known[o.x]), named[o.cell]) for o in slices],
        groups,
    )
