"""A replay with some of its metrics: one reading of the logs serves a replay and an agreement.

`study/run.py` calls it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import TypeVar

from abeval.results.replay import PairRow, ReplayCutPair, ReplayCutRow, ReplayResult, ReplayRow

Row = TypeVar("Row", ReplayRow, PairRow, ReplayCutRow, ReplayCutPair)


def of_metrics(result: ReplayResult, metrics: Sequence[str]) -> ReplayResult:
    """The result that a replay of these metrics alone has: rows in their order.

    Args:
        result: A replay without splits and curves.
        metrics: Ids; those that the result does not have are left out.
    """
    places = {name: place for place, name in enumerate(metrics)}
    known = dict(result.definitions)
    return replace(
        result,
        definitions=tuple((name, known[name]) for name in places if name in known),
        rows=_ordered(result.rows, places, "model", "traffic"),
        pairs=_ordered(result.pairs, places, "control", "model", "traffic"),
        cut_rows=_ordered(result.cut_rows, places, "cut", "cell", "model", "traffic"),
        cut_pairs=_ordered(result.cut_pairs, places, "cut", "cell", "control", "model", "traffic"),
    )


def _ordered(rows: Sequence[Row], places: Mapping[str, int], *keys: str) -> tuple[Row, ...]:
    """The rows of some metrics, ordered within each group."""
    group = attrgetter(*keys)
    groups = {key: place for place, key in enumerate(dict.fromkeys(map(group, rows)))}
    kept = (row for row in rows if row.metric in places)
    return tuple(sorted(kept, key=lambda row: (groups[group(row)], places[row.metric])))
