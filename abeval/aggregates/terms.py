"""What a query sums: the terms of a metric in one slice, and the rows that come back.

`metric_queries.py`, `quantiles.py` and `time/time_sums.py` write the terms; `collect.py`
and `time/cut.py` put the rows into aggregates.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, combinations_with_replacement
from typing import NamedTuple

from abeval.aggregates.moment_rows import LABELS, MOMENT_COLUMNS
from abeval.engines.protocol import Cell
from abeval.metrics.definition import Metric

Row = tuple[Cell, ...]

_PARTS = {"_hh": 10**18, "_hl": 10**9, "_lh": 10**9, "_ll": 1}
"""What is a sum worth whose two split factors are high, in billions, or low."""

_LARGE = "_large"

_OTHERS = ("x", "y0", "x0")


class MomentQuery(NamedTuple):
    """A query that sums, and the columns that it returns after the units.

    Attributes:
        name: Its file in `queries/`.
        sums: The sums and products, in its order.
        ones: Variables that are 1 for every unit. Other variables that it lacks are 0.
    """

    name: str
    sums: tuple[str, ...]
    ones: frozenset[str] = frozenset()


def _products(names: str, thirds_of: str) -> tuple[str, ...]:
    """Sums of the variables, of products of two, and of three of `thirds_of`."""
    variables, of_three = names.split(), thirds_of.split()
    pairs = combinations_with_replacement(variables, 2)
    # A unit that is new has no values from before: products of z have those of now.
    now = [v for v in variables if v in ("y", "x")] if "z" in variables else []
    new = ((*pair, "z") for pair in combinations_with_replacement(now, 2))
    triples = combinations_with_replacement(of_three, 3)
    return (*variables, *map("_".join, chain(pairs, triples, new)))


MOMENTS = MomentQuery("metric/moments", _products("y x y0 x0 z", "y x y0 x0"))
PER_UNIT = MomentQuery(
    "metric/moments_per_unit", _products("y y0 z", "y y0"), frozenset({"x", "x0"})
)
NOW = MomentQuery("metric/moments_now", _products("y x", "y x"))
NOW_PER_UNIT = MomentQuery("metric/moments_now_per_unit", _products("y", "y"), frozenset({"x"}))


def large(summed: MomentQuery) -> MomentQuery:
    """The query of the same sums for values whose cubes do not fit.

    Example:
        >>> large(NOW_PER_UNIT).sums
        ('y', 'y_y', 'y_y_y_hh', 'y_y_y_hl', 'y_y_y_lh', 'y_y_y_ll')
    """
    sums = (
        name + part for name in summed.sums for part in (_PARTS if name.count("_") == 2 else ("",))
    )
    return MomentQuery(summed.name + _LARGE, tuple(sums), summed.ones)


class Terms(NamedTuple):
    """SQL of what is summed: numerator, denominator, both before the period, and newness."""

    y: str
    x: str
    y0: str = "0"
    x0: str = "0"
    is_new: str = "0"

    @property
    def query(self) -> MomentQuery:
        """The query that sums them at the least cost."""
        if self.is_new == "0" and len(self._varying) < 2:
            return self._of_now()
        return PER_UNIT if (self.x, self.x0) == ("1", "1") else MOMENTS

    def _of_now(self) -> MomentQuery:
        """A query of the numerator and at most one more variable, under the name of that one."""
        constant = frozenset(name for name in _OTHERS if getattr(self, name) == "1")
        if not self._varying:
            return NOW_PER_UNIT._replace(ones=constant)
        (name,) = self._varying
        sums = tuple(re.sub(r"\bx\b", name, one.replace("_", " ")) for one in NOW.sums)
        return NOW._replace(sums=tuple(one.replace(" ", "_") for one in sums), ones=constant)

    @property
    def _varying(self) -> list[str]:
        """The variables beside the numerator that are not the same for all units."""
        return [name for name in _OTHERS if getattr(self, name) not in ("0", "1")]

    @property
    def shown(self) -> str:
        """The terms under the names by which their query reads them."""
        if self.is_new == "0" and len(self._varying) == 1:
            return Terms(self.y, getattr(self, self._varying[0])).listed
        return self.listed

    @property
    def listed(self) -> str:
        """The terms as named columns."""
        return ", ".join(f"{sql} as {name}" for name, sql in self._asdict().items())


class SliceTerms(NamedTuple):
    """What one metric sums in one slice, by cell, variant and stretch of entry days.

    Attributes:
        metric: The metric.
        slice_name: The slice.
        cell: SQL of the cell, a text.
        terms: SQL of what is summed.
        of_units: Whether only the units are summed that the metric is of.
    """

    metric: Metric
    slice_name: str
    cell: str
    terms: Terms
    of_units: bool = True


@dataclass(frozen=True)
class SourceSums:
    """Sums of the metrics of one source.

    Attributes:
        rows: Rows of `moment_rows.MOMENT_COLUMNS`.
        caps: Metric → caps of numerator and denominator, where values are capped.
    """

    rows: list[Row]
    caps: Mapping[str, tuple[int, int | None]]


def add_signed(rows: Iterable[tuple[int, Row]]) -> list[Row]:
    """One row of `moment_rows.MOMENT_COLUMNS` per label: the sum of sign × row.

    Example:
        >>> label = ("ctr", "day", "2026-01-01", "a", 0)
        >>> add_signed([(1, (*label, 3, "9")), (-1, (*label, 1, "4"))])
        [('ctr', 'day', '2026-01-01', 'a', 0, 2, '5')]
    """
    totals: dict[Row, list[int]] = {}
    for sign, row in rows:
        sums = [sign * int(str(value)) for value in row[LABELS:]]
        total = totals.get(row[:LABELS], [0] * len(sums))
        totals[row[:LABELS]] = [a + b for a, b in zip(total, sums, strict=True)]
    return [(*labels, units, *map(str, sums)) for labels, (units, *sums) in totals.items() if units]


def moment_row(row: Row, summed: MomentQuery) -> Row:
    """A row of a query that sums as one of `moment_rows.MOMENT_COLUMNS`.

    Example:
        >>> row = moment_row(("m", "whole", "", "a", 0, 2, "3", "5", "9"), NOW_PER_UNIT)
        >>> dict(zip(MOMENT_COLUMNS, row))["y_y_x"]
        '5'
    """
    labels, units = row[: LABELS + 1], row[LABELS]
    known = dict(zip(summed.sums, row[LABELS + 1 :], strict=True))
    sums = _joined(known) if summed.name.endswith(_LARGE) else known

    def sum_of(name: str) -> Cell:
        if name in sums:
            return sums[name]
        factors = [factor for factor in name.split("_") if factor not in summed.ones]
        return sums.get("_".join(factors), "0") if factors else str(units)

    return (*labels, *map(sum_of, MOMENT_COLUMNS[LABELS + 1 :]))


def _joined(known: Mapping[str, Cell]) -> dict[str, Cell]:
    """Sums with those of split factors put together."""
    joined = {name: value for name, value in known.items() if name[-3:] not in _PARTS}
    for whole in (name.removesuffix("_hh") for name in known if name.endswith("_hh")):
        parts = (worth * int(str(known[whole + part])) for part, worth in _PARTS.items())
        joined[whole] = str(sum(parts))
    return joined
