"""Estimates of the cells of a cut: rows of each model, and models in pairs with Holm's p.

`offline/replay.py` calls it with the `Estimates` of each cell; what comes back goes into the
`ReplayResult`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from abeval.offline.estimates import Estimates, pairs
from abeval.offline.metrics import OfflineMetric
from abeval.results.replay import ReplayCutPair, ReplayCutRow
from abeval.stats import multiplicity

MIN_UNITS = 30
"""A cell with fewer units in a traffic than this is too little data for an interval."""

_FAMILIES = ("pairs", "auc", "point", "bins")
"""Metrics of rows or of a unit's rows; the others need whole lists."""


def metrics_by_cut(metrics: Sequence[OfflineMetric]) -> list[OfflineMetric]:
    """The metrics that parts of the traffic have: those that need no whole lists."""
    return [metric for metric in metrics if metric.definition.family in _FAMILIES]


def cell_rows(
    cut: str, cell: str, estimates: Estimates, units: Mapping[str, int]
) -> Iterator[ReplayCutRow]:
    """Model × traffic × metric of one cell; too few units are refused."""
    for row in estimates.rows():
        few = units[row.traffic] < MIN_UNITS
        yield ReplayCutRow(
            *(cut, cell, row.model, row.traffic, row.metric),
            *((None, None, None) if few else (row.value, row.low, row.high)),
            units=units[row.traffic],
            counted=row.counted,
            reason="too_few_units" if few else row.reason,
        )


def cell_pairs(
    cut: str, cell: str, estimates: Estimates, control: str | None, units: Mapping[str, int]
) -> Iterator[ReplayCutPair]:
    """Two models × traffic × metric of one cell, before p-values are adjusted."""
    for pair in pairs(estimates, control):
        few = units[pair.traffic] < MIN_UNITS
        numbers = (pair.value_control, pair.value, pair.difference, pair.low, pair.high)
        yield ReplayCutPair(
            *(cut, cell, pair.control, pair.model, pair.traffic, pair.metric),
            *((None,) * 5 if few else numbers),
            p_value=None if few else pair.p_value,
            p_adjusted=None,
            units=units[pair.traffic],
            reason="too_few_units" if few else pair.reason,
        )


def adjusted(rows: Sequence[ReplayCutPair]) -> list[ReplayCutPair]:
    """The pairs with Holm's p over the cells of each cut."""
    families: dict[tuple[str, ...], list[int]] = {}
    for i, row in enumerate(rows):
        if row.p_value is not None:
            key = row.cut, row.control, row.model, row.traffic, row.metric
            families.setdefault(key, []).append(i)
    adjusted: dict[int, float] = {}
    for places in families.values():
        p_values = [p for i in places if (p := rows[i].p_value) is not None]
        holm = multiplicity.adjust(p_values, "holm").tolist()
        adjusted |= dict(zip(places, holm, strict=True))
    return [replace(row, p_adjusted=adjusted.get(i)) for i, row in enumerate(rows)]
