"""The ranking metrics of one model: places, values per request, sums per unit."""

import math
from collections.abc import Sequence
from itertools import accumulate

from abeval.engines.protocol import Engine, whole_number
from abeval.engines.queries import query
from abeval.offline.metrics.definitions import Family, OfflineMetric
from abeval.offline.metrics.units import FINE, UnitValues, cut_column, value_columns

_PAIRS_A_ROW = 6
"""Above so many pairs of a relevant item and another of its request a row, sorting is faster."""


def add_ranking(engine: Engine, metrics: Sequence[OfflineMetric], values: UnitValues) -> None:
    """Add each metric's sums per unit, read from the relations `model_items` and `requests`."""
    wanted = [m for m in metrics if m.definition.family in ("list", "r_precision", "tied")]
    if not wanted:
        return
    engine.table("places", query(f"offline/{_places(engine)}"))
    engine.view("hits", query("offline/hits"))
    ks = sorted({m.cutoff for m in wanted})
    engine.view("cutoffs", _cutoffs(ks))
    engine.view("list_values", query("offline/list_values"))
    _add(engine, "list_values", _of(wanted, "list"), values)
    _add(engine, "r_precision", _of(wanted, "r_precision"), values)
    if tied := _of(wanted, "tied"):
        engine.table("discounts", _discounts(_longest(engine), ks))
        _add(engine, "tied_ndcg", tied, values)


def _of(metrics: Sequence[OfflineMetric], family: Family) -> list[OfflineMetric]:
    return [m for m in metrics if m.definition.family == family]


def _places(engine: Engine) -> str:
    """Counting what stands above the few relevant items, or sorting every list."""
    ((pairs, rows),) = engine.rows(
        "select cast(sum(items * relevant) as bigint), cast(sum(items) as bigint) from requests"
    )
    few = int(pairs or 0) <= _PAIRS_A_ROW * int(rows or 0)
    return "places_of_few" if few else "places"


def _add(engine: Engine, source: str, metrics: Sequence[OfflineMetric], values: UnitValues) -> None:
    if not metrics:
        return
    columns = ", ".join(dict.fromkeys(f"v_{m.definition.numerator}" for m in metrics))
    cut = "k" if source != "r_precision" else f"{metrics[0].cutoff} as k"
    relation = source if source == "list_values" else f"({query(f'offline/{source}')})"
    engine.view("wanted_values", f"select unit_id, {cut}, {columns} from {relation}")
    frame = engine.frame(query("offline/unit_values"))
    for k in sorted({m.cutoff for m in metrics}):
        names = {name: cut_column(name.removeprefix("v_"), k) for name in value_columns(frame)}
        values.add(frame[frame["k"] == k], names, FINE)


def _cutoffs(ks: Sequence[int]) -> str:
    """Each cut-off with the ideal DCG of as many relevant items, in multiples of 1e-12."""
    rows = ", ".join(f"(cast({k} as bigint), cast({_ideal_sql(k)} as double))" for k in ks)
    return f"select * from (values {rows}) as v (k, full_ideal)"


def _ideal_sql(k: int) -> str:
    ideal = full_ideal(k)
    return "null" if ideal is None else repr(ideal)


def full_ideal(k: int) -> float | None:
    """DCG of k relevant items in multiples of 1e-12.

    None beyond any list's length, where it is of no use and long to add up.

    Example:
        >>> full_ideal(1)
        1000000000000.0
    """
    if k > _LONGEST:
        return None
    return float(sum(round(1e12 / math.log2(1 + i)) for i in range(1, k + 1)))


_LONGEST = 1_000_000


def _longest(engine: Engine) -> int:
    return whole_number(engine, "select max(items) from requests")


def _discounts(longest: int, ks: Sequence[int]) -> str:
    """The running sum of discounts up to every place that a list or a cut-off can have."""
    last = min(longest, max(ks))
    totals = accumulate((1 / math.log2(1 + i) for i in range(1, last + 1)), initial=0.0)
    rows = ", ".join(f"(cast({i} as bigint), {total!r})" for i, total in enumerate(totals))
    return f"select * from (values {rows}) as v (place, total)"
