"""Ranking metrics of one model by queries: places → values per request → sums per unit.

`offline/sums/run.py` calls it for the metrics that no kernel sums, with `model_items` and
`requests` of a model; it adds the columns to the `UnitValues`.
"""

import math
from collections.abc import Sequence
from itertools import accumulate

from abeval.engines.protocol import Engine, whole, whole_number
from abeval.engines.sql import query
from abeval.offline.kernels import UnitValues
from abeval.offline.metrics import Family, OfflineMetric
from abeval.offline.sums.cutoffs import add_request_values, write_cutoffs

_PAIRS_A_ROW = 6
"""With more pairs of a relevant item and another of its request per row, sorting is faster."""


def add_ranking(engine: Engine, metrics: Sequence[OfflineMetric], values: UnitValues) -> None:
    """Add each metric's sums per unit, read from the relations `model_items` and `requests`."""
    wanted = [m for m in metrics if m.definition.family in ("list", "r_precision", "tied")]
    if not wanted:
        return
    engine.table("places", query(f"offline/{_places(engine)}"))
    engine.view("hits", query("offline/hits"))
    ks = sorted({m.cutoff for m in wanted})
    write_cutoffs(engine, ks)
    engine.view("list_values", query("offline/list_values"))
    _add(engine, "list_values", _of(wanted, "list"), values)
    _add(engine, f"({query('offline/r_precision')})", _of(wanted, "r_precision"), values)
    if tied := _of(wanted, "tied"):
        engine.table("discounts", _discounts(engine, ks))
        _add(engine, f"({query('offline/tied_ndcg')})", tied, values)


def _of(metrics: Sequence[OfflineMetric], family: Family) -> list[OfflineMetric]:
    return [m for m in metrics if m.definition.family == family]


def _places(engine: Engine) -> str:
    """The faster query: count the items above each relevant item, or sort every list."""
    ((pairs, rows),) = engine.rows(
        "select cast(sum(items * relevant) as bigint), cast(sum(items) as bigint) from requests"
    )
    few = whole(pairs) <= _PAIRS_A_ROW * whole(rows)
    return "places_of_few" if few else "places"


def _add(engine: Engine, source: str, metrics: Sequence[OfflineMetric], values: UnitValues) -> None:
    if not metrics:
        return
    ks = sorted({m.cutoff for m in metrics})
    columns = ", ".join(dict.fromkeys(f"v_{m.definition.numerator}" for m in metrics))
    k = f"{ks[0]} as k" if metrics[0].definition.family == "r_precision" else "k"
    add_request_values(engine, f"select unit_id, {k}, {columns} from {source}", ks, values)


def _discounts(engine: Engine, ks: Sequence[int]) -> str:
    """SQL of the running sum of discounts, up to the last place of any list or cut-off."""
    last = min(whole_number(engine, "select max(items) from requests"), max(ks))
    totals = accumulate((1 / math.log2(1 + i) for i in range(1, last + 1)), initial=0.0)
    rows = ", ".join(f"(cast({i} as bigint), {total!r})" for i, total in enumerate(totals))
    return f"select * from (values {rows}) as v (place, total)"
