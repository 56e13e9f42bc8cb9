"""Draw schedules of slots again: for effects, for what carries over, for hours and weekdays.

The coins of a schedule are independent, whatever the values of slots are: that these depend on each
other, hour by hour and day by day, does no harm (Bojinov, Simchi-Levi and Zhao 2023).
"""

import numpy as np

from abeval.aggregates.aggregates import Aggregates
from abeval.experiment.sections import Switchback
from abeval.inference.comparison import or_none
from abeval.logs.unit_arrays import Turns
from abeval.metrics.definition import Metric
from abeval.stats import randomisation
from abeval.stats.randomisation import Randomised
from abeval.stats.records import Bools, Integers

_CELLS = 20_000_000
"""Of slots times draws, which are in memory together."""


def tossed(treated: Bools, coin: Integers) -> randomisation.Assignments:
    """Draw other schedules of the same kind, as many as memory allows."""
    draws = max(999, min(randomisation.DRAWS, _CELLS // len(treated)))
    return randomisation.tossed(treated, coin, draws=draws)


def carry_over(metric: Metric, aggregates: Aggregates) -> float | None:
    """Test whether a slot soon after its start still shows the variant of the slot before.

    Its change over its quarters, by a line over 1 / quarter, so that the first counts most, is
    compared by the variant of the slot before, within cluster, time of day and the slot's own
    variant; schedules are drawn again. None where the two variants cannot be told apart, or no slot
    follows another.
    """
    own, sums = aggregates.clusters, aggregates.cluster_sums.get(metric.name)
    if own is None or own.turns is None or sums is None:
        return None
    chosen = np.flatnonzero((own.turns.before >= 0) & (sums[:, 9::2].sum(axis=1) > 0))
    before, treated = own.turns.before[chosen], own.variant == 1
    if len(np.unique(own.variant[chosen] == treated[before])) < 2:
        return None
    y, x = sums[chosen, 8::2], sums[chosen, 9::2]
    score = 1 / np.arange(1, y.shape[1] + 1)
    centred = score - (x @ score / x.sum(axis=1))[:, None]
    change, weight = (y * centred).sum(axis=1), (x * centred**2).sum(axis=1)
    within = 2 * own.stratum[chosen].astype(np.int64) + own.variant[chosen]
    drawn = tossed(treated, own.turns.coin)
    lagged = drawn._replace(treated=drawn.treated[:, before])
    test = Randomised(change, weight, treated[before], lagged, within)
    return or_none(test.p_value)


_WEEK = 7


def balance(plan: Switchback, slots: Turns, treated: Bools) -> float:
    """Test whether each hour of the day and day of the week has its half of treated slots."""
    day, time = np.divmod(slots.number, plan.per_day)
    member = np.hstack([np.eye(plan.per_day)[time], np.eye(_WEEK)[day % _WEEK]])
    size, every = member.sum(axis=0), np.vstack([treated, tossed(treated, slots.coin).treated])
    spread = ((every @ member - size / 2) ** 2 / np.maximum(size, 1)).sum(axis=1)
    return (1 + int((spread[1:] >= spread[0] * (1 - 1e-9)).sum())) / len(spread)


def described(plan: Switchback, slots: Turns, aggregates: Aggregates) -> dict[str, object]:
    """Return what the note on slots names."""
    burnt = sum(one.rows for one in aggregates.accounts if one.reason == "burn_in")
    counts = {"slots": len(slots.coin), "coins": len(np.unique(slots.coin)), "burnt": burnt}
    return {**plan.model_dump(), **counts}
