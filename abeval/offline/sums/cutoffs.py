"""Values per request and cut-off → sums per unit.

`offline/sums/ranking.py` and `offline/sums/beyond.py` hand it the SQL of the values; it adds the
columns to the `UnitValues` of the model.
"""

from collections.abc import Sequence

from abeval.engines.protocol import Engine
from abeval.engines.sql import query
from abeval.offline.kernels import UnitValues, full_ideal


def write_cutoffs(engine: Engine, ks: Sequence[int]) -> None:
    """Make `cutoffs` (`k`, `full_ideal`: DCG of k relevant items, in multiples of 1e-12)."""
    ideals = ("null" if ideal is None else repr(ideal) for ideal in map(full_ideal, ks))
    pairs = zip(ks, ideals, strict=True)
    rows = ", ".join(f"(cast({k} as bigint), cast({ideal} as double))" for k, ideal in pairs)
    engine.view("cutoffs", f"select * from (values {rows}) as v (k, full_ideal)")


def add_request_values(engine: Engine, sql: str, ks: Sequence[int], values: UnitValues) -> None:
    """Add the sums per unit of values per request; `sql` has `unit_id, k` and values `v_…`."""
    engine.view("wanted_values", sql)
    values.add_cuts(engine.frame(query("offline/unit_values")), ks)
