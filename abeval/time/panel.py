"""The analysed units, the days on which they are active, and what they add up to, as arrays.

`time/open.py` hands over prepared logs; `time/time_sums.py`, `time/clock.py` and `time/cut.py` sum
the arrays.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.metric_queries import MetricQueries
from abeval.engines.protocol import ArrayEngine, Engine
from abeval.engines.sql import numbered, quoted
from abeval.logs.shape import LogShape
from abeval.logs.unit_arrays import NO_DAY, Labels, UnitDays, Units, Whole
from abeval.metrics.definition import Metric, Term, UnitTerm

_SINCE = "date_diff('day', date '1970-01-01', {})"


class Panel(NamedTuple):
    """The analysed units, and the days (hours, weekdays) on which each is active.

    Attributes:
        units: The units.
        entry: Day of entry of each, as a place among the days; below 0 where it is not known.
        unit: Place of the unit of each row, shape (rows,).
        day: Place of the day of each row; sorted by unit and day, each once.
        days: How many days there are.
    """

    units: Units
    entry: NDArray[np.int64]
    unit: NDArray[np.int32]
    day: NDArray[np.int32]
    days: int

    @property
    def variant(self) -> NDArray[np.int8]:
        """Place of the variant of each row."""
        return self.units.variant[self.unit]


class SourceSums(NamedTuple):
    """What units add up to in the columns of a source, by its name.

    Attributes:
        by_day: On each row of a `Panel`, 0 where the source knows nothing of the day.
        whole: Over the period, shape (units,).
        before: Before it, shape (units,).
    """

    by_day: Mapping[str, Whole]
    whole: Mapping[str, Whole]
    before: Mapping[str, Whole]


def analysed_units(queries: MetricQueries, stratum: str | None) -> tuple[Units, Whole]:
    """The units, and the local day of entry of each: its first impression, or its exposure.

    Args:
        queries: Of prepared logs.
        stratum: The segment that is needed, None for none.
    """
    experiment, table = queries.experiment, queries.shape.table
    variant = numbered("variant", list(experiment.variants))
    entered = queries.engine.local_time("first_ms", experiment.timezone)
    covariates = [f"u_{i}" for i in range(1, 1 + len(table.covariates if table else ()))]
    listed = [
        *("unit_id", f"{variant} as variant", "stretch", "is_new"),
        "coalesce(first_ms, -1) as first_ms",
        f"coalesce({_SINCE.format(f'cast({entered} as date)')}, {NO_DAY}) as entry",
        *covariates,
        *(() if stratum is None else (f"{quoted(f's_{stratum}')} as segment",)),
    ]
    sql = f"select {', '.join(listed)} from units order by unit_id"
    columns = _fetched(queries.engine, sql)
    segments = {}
    if stratum is not None:
        names, codes = np.unique(columns["segment"].astype(str), return_inverse=True)
        segments[stratum] = Labels(codes.astype(np.int32), names.tolist())
    units = Units(
        hash=columns["unit_id"].astype(np.uint64),
        variant=columns["variant"].astype(np.int8),
        stretch=columns["stretch"].astype(np.int16),
        is_new=columns["is_new"].astype(np.int8),
        first_ms=columns["first_ms"].astype(np.int64),
        segments=segments,
        covariates={name: columns[name].astype(np.int64) for name in covariates},
    )
    return units, columns["entry"].astype(np.int64)


def unit_days(
    engine: Engine, units: Units, relation: str, columns: Iterable[str], day: str = "day"
) -> UnitDays:
    """The rows of a relation (unit_id, in_period, day, c_ columns) that are of analysed units.

    Args:
        engine: Holds the relation.
        units: The units.
        relation: Its name.
        columns: Those that are needed.
        day: SQL of the day as a whole number, if it is no date.
    """
    number = _SINCE.format("day") if day == "day" else day
    listed = [f"cast(coalesce({name}, 0) as bigint) as {name}" for name in columns]
    listed = ["unit_id", "in_period", f"coalesce({number}, {NO_DAY}) as day", *listed]
    fetched = _fetched(engine, f"select {', '.join(listed)} from {relation}")
    place = np.searchsorted(units.hash, fetched["unit_id"].astype(np.uint64))
    place = np.minimum(place, max(len(units.hash) - 1, 0))
    known = np.flatnonzero(units.hash[place] == fetched["unit_id"].astype(np.uint64))
    in_period, number_of_day = fetched["in_period"].astype(bool), fetched["day"].astype(np.int64)
    order = (place * 2 + in_period << 32) + (number_of_day - NO_DAY)
    rows = known[np.argsort(order[known], kind="stable")]
    return UnitDays(
        unit=place[rows].astype(np.int32),
        in_period=in_period[rows],
        day=number_of_day[rows].astype(np.int32),
        columns={name: fetched[name][rows].astype(np.int64) for name in columns},
    )


def _fetched(engine: Engine, sql: str) -> dict[str, NDArray[np.generic]]:
    """The columns of a query without nulls."""
    if isinstance(engine, ArrayEngine):
        return {name: np.asarray(column) for name, column in engine.arrays(sql).items()}
    frame = engine.frame(sql)
    return {str(name): frame[name].to_numpy() for name in frame.columns}


def source_sums(panel: Panel, days: UnitDays, first: int) -> SourceSums:
    """The sums of a source on the rows of a panel whose first day is this one."""
    wanted = panel.unit.astype(np.int64) * panel.days + panel.day
    inside = days.in_period & (days.day >= first) & (days.day < first + panel.days)
    rows = np.flatnonzero(inside)
    given = days.unit[rows].astype(np.int64) * panel.days + (days.day[rows] - first)
    place = np.searchsorted(wanted, given)
    known = np.flatnonzero(np.append(wanted, -1)[place] == given)
    place, rows = place[known], rows[known]

    def on_rows(column: Whole) -> Whole:
        values = np.zeros(len(wanted), dtype=np.int64)
        values[place] = column[rows]
        return values

    size = len(panel.entry)
    return SourceSums(
        {name: on_rows(column) for name, column in days.columns.items()},
        {n: by_unit(days.unit, c * days.in_period, size) for n, c in days.columns.items()},
        {n: by_unit(days.unit, c * ~days.in_period, size) for n, c in days.columns.items()},
    )


def by_unit(unit: NDArray[np.int32], values: Whole, size: int) -> Whole:
    """The sum of each unit's values."""
    totals = np.zeros(size, dtype=np.int64)
    np.add.at(totals, unit, values)
    return totals


def columns_of(shape: LogShape, variants: Iterable[str], metrics: Sequence[Metric]) -> list[str]:
    """The columns of their source that metrics of one source read, each once."""
    terms = [t for metric in metrics for t in (metric.value, metric.per, *metric.covariates)]
    logged = [term for term in terms if term is not None and not isinstance(term, UnitTerm)]
    return list(dict.fromkeys(shape.component(t, v) for t in logged for v in variants))


def values_of(
    queries: MetricQueries, units: Units, term: Term | None, sums: Mapping[str, Whole]
) -> Whole:
    """What each unit has of a term; 1 of the denominator of a metric per unit."""
    if term is None:
        return np.ones(len(units.variant), dtype=np.int64)
    shape = queries.shape
    if isinstance(term, UnitTerm):
        none = np.zeros(len(units.variant), dtype=np.int64)
        return none if shape.table is None else units.covariates[shape.table.covariate(term)]
    names = [shape.component(term, variant) for variant in queries.experiment.variants]
    if len(set(names)) == 1:
        return sums[names[0]]
    return np.stack([sums[name] for name in names])[units.variant, np.arange(len(units.variant))]
