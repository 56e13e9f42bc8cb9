"""Which sums a store carries from one run to the next.

If few units have new rows, the totals of all units (`totals`): a refresh adds up these units only.
Otherwise closed days (`closing`): a refresh adds up the days after them. `store/collect.py` asks.
"""

from collections.abc import Sequence

from abeval.aggregates.buckets import deals_units
from abeval.experiment.model import Experiment
from abeval.metrics.definition import Metric
from abeval.store.manifest import Entry
from abeval.store.totals import Totals

FEWEST_UNITS = 20_000
"""With fewer units, adding up all takes no longer than finding those with new rows."""


def has_totals(experiment: Experiment, metrics: Sequence[Metric]) -> bool:
    """Whether all results are sums over units of the impressions.

    Caps use a quantile of all units, so they cannot be added incrementally.
    """
    capped = any(metric.cap is not None for metric in metrics)
    return experiment.logs.exposures is None and not capped


def replays_add_up(experiment: Experiment, analysed: int) -> bool:
    """Whether A/A replays, if any, use sums of sub-buckets, which add up, and not units.

    Args:
        experiment: What is analysed.
        analysed: The fewest units that may be analysed.
    """
    return experiment.trust.aa_runs == 0 or not deals_units(analysed)


def prefers_totals(
    experiment: Experiment, totals: Totals, parts: Sequence[Entry], more: int
) -> bool:
    """Whether updating the units of new parts is cheaper than adding up all units.

    Replays must add up even if half of the units leave.

    Args:
        experiment: What is analysed.
        totals: Of all units so far.
        parts: Those that the totals are of, with one row or more per unit and day.
        more: How many new parts there are.
    """
    few_replayed = not replays_add_up(experiment, totals.analysed // 2)
    if totals.units < FEWEST_UNITS or not parts or few_replayed:
        return False
    rows = sum(part.rows for part in parts)
    touched = min(totals.units, rows / len(parts) * more)
    return touched * rows / totals.units < totals.units
