"""Draw schedules of slots again: for effects, for what carries over, for hours and weekdays.

The coins of a schedule are independent, whatever the values of slots are: that these depend on each
other, hour by hour and day by day, does no harm (Bojinov, Simchi-Levi and Zhao 2023).
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from abeval.aggregates.aggregates import Aggregates
from abeval.experiment.sections import Switchback
from abeval.inference.comparison import or_none
from abeval.logs.unit_arrays import Turns
from abeval.metrics.definition import UNIT_DAY, Metric, scales
from abeval.results.analysis import SlotQuarter
from abeval.stats import randomisation
from abeval.stats.randomisation import Randomised
from abeval.stats.records import Bools, Floats, Integers, Refusal

_CELLS = 20_000_000
"""Of slots times draws, which are in memory together."""


def is_of_rows(metric: Metric) -> bool:
    """Tell whether slots have the metric: a ratio of sums over rows, whosever they are."""
    return metric.source is UNIT_DAY and metric.per is not None


def tossed(treated: Bools, coin: Integers) -> randomisation.Assignments:
    """Draw other schedules of the same kind, as many as memory allows."""
    draws = max(999, min(randomisation.DRAWS, _CELLS // len(treated)))
    return _tossed(treated.tobytes(), coin.astype(np.int64).tobytes(), draws)


@lru_cache(maxsize=1)
def _tossed(treated: bytes, coin: bytes, draws: int) -> randomisation.Assignments:
    """Keep the last schedules: each metric and check of an analysis needs the same ones."""
    return randomisation.tossed(np.frombuffer(treated, bool), np.frombuffer(coin, np.int64), draws)


class Lagged(NamedTuple):
    """Slots that follow another one, by the variant of the slot before.

    Attributes:
        y: Numerator of each quarter of a slot, shape (slots, 4); so the denominator x.
        before: Whether the slot before was treated, shape (slots,).
        drawn: The same of schedules drawn again.
        within: Group of the same cluster, time of day and own variant.
    """

    y: Floats
    x: Floats
    before: Bools
    drawn: randomisation.Assignments
    within: Integers

    @classmethod
    def of(cls, metric: Metric, aggregates: Aggregates) -> "Lagged | None":
        """Return the slots of a metric; None where slots before have no variant of their own."""
        own, sums = aggregates.clusters, aggregates.cluster_sums.get(metric.name)
        if own is None or own.turns is None or sums is None or not is_of_rows(metric):
            return None
        chosen = np.flatnonzero((own.turns.before >= 0) & (sums[:, 9::2].sum(axis=1) > 0))
        before, treated = own.turns.before[chosen], own.variant == 1
        if len(np.unique(own.variant[chosen] == treated[before])) < 2:
            return None
        drawn = tossed(treated, own.turns.coin)
        lagged = drawn._replace(treated=drawn.treated[:, before])
        within = 2 * own.stratum[chosen].astype(np.int64) + own.variant[chosen]
        scale = scales(metric)
        y, x = sums[chosen, 8::2] * scale[0], sums[chosen, 9::2] * scale[1]
        return cls(y, x, treated[before], lagged, within)


def carry_over(slots: Lagged) -> float | None:
    """Test whether a slot soon after its start still shows the variant of the slot before.

    Its change over its quarters, by a line over 1 / quarter, so that the first counts most, is
    compared by the variant of the slot before.
    """
    score = 1 / np.arange(1, slots.y.shape[1] + 1)
    centred = score - (slots.x @ score / slots.x.sum(axis=1))[:, None]
    change, weight = (slots.y * centred).sum(axis=1), (slots.x * centred**2).sum(axis=1)
    return or_none(Randomised(change, weight, slots.before, slots.drawn, slots.within).p_value)


def slot_quarters(
    metrics: Sequence[Metric], plan: Switchback | None, aggregates: Aggregates, alpha: float
) -> Iterator[SlotQuarter]:
    """Compare each quarter of slots by the variant of the slot before, of what is judged."""
    for metric in metrics:
        slots = None if metric.role == "diagnostic" else Lagged.of(metric, aggregates)
        if plan is None or slots is None:
            continue
        parts = slots.y.shape[1]
        ends = np.linspace(plan.burn_in_ms, plan.slot_ms, parts + 1) / 60_000
        for quarter in range(parts):
            y, x = slots.y[:, quarter], slots.x[:, quarter]
            test = Randomised(y, x, slots.before, slots.drawn, slots.within)
            with suppress(Refusal):
                low, high = test.interval(alpha)
                value, (start, end) = y.sum() / x.sum(), ends[quarter : quarter + 2]
                numbers = value, test.difference, low, high, test.p_value()
                yield SlotQuarter(metric.name, *map(float, (start, end, *numbers)))


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
