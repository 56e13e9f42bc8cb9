"""Sums over units of every pair of their active days or hours, by day of entry."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from abeval.aggregates.metric_queries import MetricQueries
from abeval.engines.queries import query
from abeval.metrics.definition import Metric, scales
from abeval.time.sums import Activity, DaySums, Whole


def pair_sums(
    run: MetricQueries,
    metrics: Sequence[Metric],
    relation: str,
    cohorts: Sequence[str],
    days: Sequence[str],
    activity: Mapping[str, Activity],
) -> dict[str, Mapping[str, DaySums]]:
    """Metric → variant → its sums.

    Args:
        run: The metric queries.
        metrics: Those whose values are columns of the relation.
        relation: `unit_id, variant, entry_day, day, c_...`, one row per unit and day.
        cohorts: Days of entry.
        days: Every day, or other part of time, that the relation may have.
        activity: Variant → when its units were there.
    """
    terms = {m.name: run.both(m, "c_") for m in metrics}
    values = list(dict.fromkeys(sql for pair in terms.values() for sql in pair))
    run.engine.view("day_pair", pair_view(relation, values, products(terms.values(), values)))
    rows = run.engine.frame(query("time/co_moments"))
    pairs = {v: _Pairs.of(rows[rows["variant"] == v], cohorts, days) for v in activity}
    return {
        m.name: {v: _sums(m, terms, values, pairs[v], there) for v, there in activity.items()}
        for m in metrics
    }


def cohort_of(entry: str, days: Sequence[str]) -> int:
    """The place of an entry day; exposures may lie beyond the days that have impressions."""
    return bisect_left(days, min(max(entry, days[0]), days[-1]))


Product = tuple[int, int]


def products(terms: Iterable[tuple[str, str]], values: Sequence[str]) -> list[Product]:
    """Places of the values of every product that some metric needs, each once."""
    wanted: dict[Product, None] = {}
    for y, x in terms:
        i, j = values.index(y), values.index(x)
        wanted |= dict.fromkeys([(i, i), (i, j), (j, i), (j, j)])
    return list(wanted)


def pair_view(relation: str, values: Sequence[str], pairs: Sequence[Product]) -> str:
    """Every pair of active days of a unit, with the products of the metrics' values."""
    listed = ", ".join(f"cast({sql} as decimal(38, 0)) as v_{i}" for i, sql in enumerate(values))
    products = ", ".join(f"a.v_{i} * b.v_{j} as p_{i}_{j}" for i, j in pairs)
    # A value of the earlier day alone, for plain sums where a day meets itself.
    plain = ", ".join(f"a.v_{i} as p_{i}" for i in range(len(values)))
    return f"""
    with valued as (select unit_id, variant, entry_day, day, {listed} from {relation})
    select a.variant, a.entry_day, a.day, b.day as later_day, {products}, {plain}
    from valued a join valued b on a.unit_id = b.unit_id and a.day <= b.day
    """


def _sums(
    metric: Metric,
    terms: Mapping[str, tuple[str, str]],
    values: Sequence[str],
    pairs: "_Pairs",
    activity: Activity,
) -> DaySums:
    y, x = (values.index(sql) for sql in terms[metric.name])
    return DaySums(
        activity=activity,
        y=pairs.plain(y),
        x=pairs.plain(x),
        yy=pairs.products(y, y),
        yx=pairs.products(y, x),
        xx=pairs.products(x, x),
        scales=scales(metric),
        per_unit=metric.per is None,
    )


@dataclass(frozen=True)
class _Pairs:
    """Rows of `co_moments` of one variant, with the places of their days."""

    rows: pd.DataFrame
    cohorts: int
    days: int
    cohort: Whole
    day: Whole
    later: Whole

    @classmethod
    def of(cls, rows: pd.DataFrame, cohorts: Sequence[str], days: Sequence[str]) -> "_Pairs":
        place = {day: i for i, day in enumerate(days)}
        cohort = np.array([cohort_of(day, cohorts) for day in rows["cohort"]], dtype=int)
        day, later = (
            np.array([place[d] for d in rows[c]], dtype=int) for c in ("day", "later_day")
        )
        return cls(rows, len(cohorts), len(days), cohort, day, later)

    def plain(self, value: int) -> Whole:
        """Sums of a value, by cohort and day: where a day meets itself."""
        same = self.day == self.later
        whole = self._whole(f"p_{value}")
        made = np.zeros((self.cohorts, self.days), dtype=whole.dtype)
        np.add.at(made, (self.cohort[same], self.day[same]), whole[same])
        return made

    def products(self, one: int, other: int) -> Whole:
        """Sums of products of one value on a day with another on another day."""
        ahead, back = self._whole(f"p_{one}_{other}"), self._whole(f"p_{other}_{one}")
        kind = object if object in (ahead.dtype, back.dtype) else np.int64
        made = np.zeros((self.cohorts, self.days, self.days), dtype=kind)
        np.add.at(made, (self.cohort, self.day, self.later), ahead)
        off = self.day != self.later
        np.add.at(made, (self.cohort[off], self.later[off], self.day[off]), back[off])
        return made

    def _whole(self, column: str) -> Whole:
        """Exact: 64-bit where there is room for sums over cohorts and days, else Python's own."""
        texts = self.rows[column]
        short = max(map(len, texts), default=1) <= 14
        return np.array([int(text) for text in texts], dtype=np.int64 if short else object)
