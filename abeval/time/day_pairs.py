"""Sums over units of products of a metric's values on two days (hours, weekdays), by day of entry.

All pairs of days on which a unit is active count, a day with itself included. `time/time_sums.py`
(days) and `time/clock.py` (hours, weekdays) hand it a relation of `Cells`; the `DaySums` go into
`TimeSums`, of which `time/analysis.py` makes axes.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from abeval.aggregates.metric_queries import MetricQueries
from abeval.engines.protocol import Cell, whole
from abeval.engines.queries import query
from abeval.metrics.definition import Metric, scales
from abeval.time.day_sums import Activity, DaySums, Whole


@dataclass(frozen=True)
class Cells:
    """A relation with one row per unit and day (or hour, or weekday) on which it is active.

    Attributes:
        relation: Its name; its columns are `unit_id, variant, entry_day, day, c_…`.
        cohorts: Days of entry.
        days: Every value that its `day` may have, in order.
        activity: Variant → when its units were active.
    """

    relation: str
    cohorts: Sequence[str]
    days: Sequence[str]
    activity: Mapping[str, Activity]


def day_pair_sums(
    queries: MetricQueries, metrics: Sequence[Metric], cells: Cells
) -> dict[str, Mapping[str, DaySums]]:
    """Metric → variant → its sums, of metrics whose values are columns of the cells."""
    terms = {m.name: queries.both(m, "c_") for m in metrics}
    values = list(dict.fromkeys(sql for both in terms.values() for sql in both))
    factors = products(terms.values(), values)
    queries.engine.view("day_pair", day_pair_view(cells.relation, values, factors))
    rows = queries.engine.rows(query("time/co_moments"))
    names = ["variant", "cohort", "day", "later_day"]
    names += [f"p_{i}_{j}" for i, j in factors] + [f"p_{i}" for i in range(len(values))]
    by_variant = {}
    for variant, activity in cells.activity.items():
        own = [row for row in rows if row[0] == variant]
        columns = {name: [str(row[place]) for row in own] for place, name in enumerate(names)}
        by_variant[variant] = _CoMoments.of(columns, cells, activity)
    return {
        m.name: {
            variant: co_moments.day_sums(m, *map(values.index, terms[m.name]))
            for variant, co_moments in by_variant.items()
        }
        for m in metrics
    }


def activity_of(
    queries: MetricQueries,
    rows: Iterable[Sequence[Cell]],
    cohorts: Sequence[str],
    days: Sequence[str],
) -> dict[str, Activity]:
    """Variant → when its units were active.

    Args:
        queries: The metric queries; the engine has the table `entry`.
        rows: Variant, day of entry, active day before (empty for none), active day, units.
        cohorts: Days of entry.
        days: Days, or other parts of time.
    """
    place = {day: i for i, day in enumerate(days)}
    shape = len(cohorts), len(days) + 1, len(days)
    variants = queries.experiment.variants
    entered = {name: np.zeros(len(cohorts), dtype=np.int64) for name in variants}
    returns = {name: np.zeros(shape, dtype=np.int64) for name in variants}
    for variant, cohort, units in queries.engine.rows(query("time/entered")):
        entered[str(variant)][cohort_of(str(cohort), cohorts)] += whole(units)
    for variant, cohort, before, day, units in rows:
        where = cohort_of(str(cohort), cohorts), 1 + place.get(str(before), -1), place[str(day)]
        returns[str(variant)][where] += whole(units)
    return {name: Activity(entered[name], returns[name]) for name in variants}


def cohort_of(entry: str, days: Sequence[str]) -> int:
    """The place of an entry day; exposures may lie beyond the days that have impressions."""
    return bisect_left(days, min(max(entry, days[0]), days[-1]))


Product = tuple[int, int]


def products(terms: Iterable[tuple[str, str]], values: Sequence[str]) -> list[Product]:
    """Places of the values of every product that some metric needs, each once."""
    needed: dict[Product, None] = {}
    for y, x in terms:
        i, j = values.index(y), values.index(x)
        needed |= dict.fromkeys([(i, i), (i, j), (j, i), (j, j)])
    return list(needed)


def day_pair_view(relation: str, values: Sequence[str], factors: Sequence[Product]) -> str:
    """Every pair of active days of a unit, with the products of the metrics' values."""
    listed = ", ".join(f"cast({sql} as decimal(38, 0)) as v_{i}" for i, sql in enumerate(values))
    multiplied = ", ".join(f"a.v_{i} * b.v_{j} as p_{i}_{j}" for i, j in factors)
    # The value of the earlier day: its sum over pairs of a day with itself is the plain sum.
    plain = ", ".join(f"a.v_{i} as p_{i}" for i in range(len(values)))
    return f"""
    with valued as (select unit_id, variant, entry_day, day, {listed} from {relation})
    select a.variant, a.entry_day, a.day, b.day as later_day, {multiplied}, {plain}
    from valued a join valued b on a.unit_id = b.unit_id and a.day <= b.day
    """


@dataclass(frozen=True)
class _CoMoments:
    """Columns of `co_moments` of one variant, with the places of their days.

    `shape` is the number of cohorts and of days.
    """

    columns: Mapping[str, Sequence[str]]
    activity: Activity
    shape: tuple[int, int]
    cohort: Whole
    day: Whole
    later: Whole

    @classmethod
    def of(
        cls, columns: Mapping[str, Sequence[str]], cells: Cells, activity: Activity
    ) -> "_CoMoments":
        place = {day: i for i, day in enumerate(cells.days)}
        cohort = np.array([cohort_of(day, cells.cohorts) for day in columns["cohort"]], dtype=int)
        day, later = (
            np.array([place[d] for d in columns[c]], dtype=int) for c in ("day", "later_day")
        )
        return cls(columns, activity, (len(cells.cohorts), len(cells.days)), cohort, day, later)

    def day_sums(self, metric: Metric, y: int, x: int) -> DaySums:
        """The sums of a metric, from the places of its numerator and denominator."""
        return DaySums(
            activity=self.activity,
            y=self._plain(y),
            x=self._plain(x),
            yy=self._products(y, y),
            yx=self._products(y, x),
            xx=self._products(x, x),
            scales=scales(metric),
            per_unit=metric.per is None,
        )

    def _plain(self, value: int) -> Whole:
        """Sums of a value, by cohort and day."""
        same_day = self.day == self.later
        numbers = self._whole(f"p_{value}")
        sums = np.zeros(self.shape, dtype=numbers.dtype)
        np.add.at(sums, (self.cohort[same_day], self.day[same_day]), numbers[same_day])
        return sums

    def _products(self, one: int, other: int) -> Whole:
        """Sums of products of one value on a day with another on another day."""
        ahead, back = self._whole(f"p_{one}_{other}"), self._whole(f"p_{other}_{one}")
        kind = object if object in (ahead.dtype, back.dtype) else np.int64
        sums = np.zeros((*self.shape, self.shape[1]), dtype=kind)
        np.add.at(sums, (self.cohort, self.day, self.later), ahead)
        off = self.day != self.later
        np.add.at(sums, (self.cohort[off], self.later[off], self.day[off]), back[off])
        return sums

    def _whole(self, column: str) -> Whole:
        """Exact: 64-bit where there is room for sums over cohorts and days, else Python's own."""
        texts = self.columns[column]
        short = max(map(len, texts), default=1) <= 14
        return np.array([int(text) for text in texts], dtype=np.int64 if short else object)
