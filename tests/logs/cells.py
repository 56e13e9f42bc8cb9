"""Small logs as cells: what the pass over a log leaves of a few impressions, and who is placed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.sql import query
from abeval.experiment.load import parse_experiment
from abeval.experiment.model import Experiment
from abeval.logs.cells import (
    BEFORE,
    IN_PERIOD,
    NO_TIME,
    OUTSIDE,
    LogCells,
    read_cells,
    write_hashed_cells,
)
from abeval.logs.duplicates import Repeats
from abeval.logs.files import FileFacts
from abeval.logs.mapping import map_columns
from abeval.logs.placing import (
    ObservedUnits,
    UnitAssignment,
    assign_units,
    find_exposed_units,
    find_observed_units,
)
from abeval.logs.prepare import Prepared
from abeval.logs.run import Run
from abeval.logs.shape import LogSchema, build_schema
from abeval.logs.unit_arrays import NO_FIRST, NONE
from abeval.logs.units import find_hash_indices, write_names
from abeval.logs.views import write_not_compared
from tests.relations import Row, relation

HOUR = 3_600_000
DAY = 24 * HOUR


class Shown(NamedTuple):
    """Impressions of a unit: one cell of the log; `c_2` counts clicks."""

    unit: str | None
    variant: str | None = None
    first_ms: int | None = None
    last_ms: int | None = None
    phase: int = IN_PERIOD
    city: str = ""
    impressions: int = 1
    clicks: int = 0
    is_exposed: bool = True


class Exposed(NamedTuple):
    """A row of the log of exposures."""

    unit: str
    variant: str | None = None
    time_ms: int | None = None
    city: str = ""


class Where(NamedTuple):
    """Where logs show a unit: the time of the first row, and the names of the variants."""

    first_ms: int | None
    low: str | None
    high: str | None
    first: str | None


_SUMS = (
    "unit_id varchar, ts timestamp, variant varchar, is_exposed boolean, s_city varchar, "
    "hour bigint, first_ms bigint, last_ms bigint, c_1 bigint, c_2 bigint"
)


_TIMES = {OUTSIDE: "2025-01-01", BEFORE: "2026-01-01", IN_PERIOD: "2026-02-01"}
"""A local time of each phase."""

_PERIODS = (
    "period_start timestamp, period_end timestamp, before_start timestamp, before_end timestamp",
    ("2026-02-01", "2026-03-01", "2026-01-01", "2026-02-01"),
)


def _sums(shown: Shown) -> Row:
    hour = None if shown.first_ms is None else shown.first_ms // HOUR
    last = shown.first_ms if shown.last_ms is None else shown.last_ms
    key = shown.unit, _TIMES.get(shown.phase), shown.variant, shown.is_exposed, shown.city
    first = None if shown.phase == NO_TIME else shown.first_ms
    return (*key, hour, first, last, shown.impressions, shown.clicks)


def plan(**entries: Any) -> Experiment:
    base = {"name": "e", "unit": "user_id", "control": "a", "variants": {"a": {}, "b": {}}}
    return parse_experiment({**base, "logs": {"impressions": {}}, **entries})


@dataclass(frozen=True)
class SmallLog:
    """The cells of a log on an engine.

    Attributes:
        run: The experiment.
        shape: What its logs have.
        cells: The cells.
        names: The unit of each hash.
    """

    run: Run
    shape: LogSchema
    cells: LogCells
    names: dict[int, str]

    def seen(self, *others: str) -> dict[str, Where]:
        """Where the impressions show units; of other variants that only exposures name, too."""
        return self._where(self._seen(others))

    def exposed(self) -> dict[str, Where]:
        """Where the exposures show units, or else the impressions."""
        return self._where(find_exposed_units(self.run.engine, self._seen()))

    def _seen(self, others: Sequence[str] = ()) -> ObservedUnits:
        named = {kind.variant for kind in self.cells.kinds if kind.variant is not None}
        return find_observed_units(
            self.cells, sorted(named | {*self.run.experiment.variants, *others})
        )

    def _where(self, logged: ObservedUnits) -> dict[str, Where]:
        names = [*logged.names, None]
        codes = zip(*(logged[column].tolist() for column in (2, 3, 4)), strict=True)
        return {
            unit: Where(None if time == NO_FIRST else time, *(names[code] for code in three))
            for unit, time, three in zip(
                self.units(logged.hashes), logged.first_ms.tolist(), codes, strict=True
            )
        }

    def units(self, hashes: NDArray[np.int64]) -> list[str]:
        """The units of hashes."""
        return [self.names[one] for one in hashes.tolist()]

    def placed(self) -> UnitAssignment:
        """Who is placed where."""
        return assign_units(self.run, self.shape, self.cells)

    def prepared(self) -> Prepared:
        """The log as accounts read it, without duplicates."""
        rows = int(self.cells.sums["c_1"].sum()) + sum(self.cells.nameless)
        return Prepared(
            schema=self.shape,
            repeats=Repeats(None, 0, 0, 0),
            cells=self.cells,
            assignment=self.placed(),
            variants=[*self.run.experiment.variants],
            covered={},
            files=FileFacts(),
            rows=rows,
        )

    def unit_of(self, *units: str) -> NDArray[np.int64]:
        """The place of each unit of the cells among some, `NONE` where it is not there."""
        of_cells = self.units(self.cells.hashes)
        return np.array([units.index(one) if one in units else NONE for one in of_cells])

    def place(self, unit: str, hashes: NDArray[np.int64]) -> int:
        """The place of a unit among hashes."""
        (own,) = (one for one, name in self.names.items() if name == unit)
        return int(find_hash_indices(np.array([own]), hashes)[0])


@contextmanager
def small_log(
    shown: Iterable[Shown],
    exposures: Sequence[Exposed] | None = None,
    only: bool = False,
    **entries: Any,
) -> Iterator[SmallLog]:
    """A log of these cells.

    Args:
        shown: Its cells.
        exposures: A log of them; None without one.
        only: Whether only impressions of the variants count; else something else places the units.
        entries: Of the experiment of the variants `a` and `b`.
    """
    logs = {"impressions": {}, **({} if exposures is None else {"exposures": {}})}
    experiment = plan(**{"logs": logs, "segments": {"city": "city"}, **entries})
    types = {"user_id": "VARCHAR", "variant": "VARCHAR", "ts": "TIMESTAMP", "city": "VARCHAR"}
    sources = {"impressions": experiment.logs.rows, "exposures": experiment.logs.exposures}
    columns = {
        name: map_columns(name, source, types, "user_id")
        for name, source in sources.items()
        if source is not None
    }
    shape = replace(build_schema(experiment, [], columns), segments={"city": "city"})
    with closing(DuckDBEngine()) as engine:
        engine.table("sums", relation(_SUMS, *map(_sums, shown)))
        engine.view("periods", relation(*_PERIODS))
        if exposures is not None:
            of_rows = "unit_id varchar, variant varchar, time_ms bigint, s_city varchar"
            engine.table("exposures", relation(of_rows, *exposures))
            engine.table("exposed", query("1_log/exposed"))
        # Where a salt assigns units, no variant of the log is set aside.
        by_log = experiment if only else plan(assignment={"salt": "s"})
        none = "cast(null as varchar) as slot_aside"
        engine.view(
            "timed_sums", f"select *, {write_not_compared(by_log, shape)}, {none} from sums"
        )
        engine.view("dated_sums", query("2_units/dated_sums"))
        engine.view("logged_cells", write_hashed_cells(engine, shape, "dated_sums"))
        cells = read_cells(engine, shape)
        write_names(engine, shape)
        rows = engine.rows("select unit_hash, logged_id from logged_names")
        names = {int(str(one)): str(name) for one, name in rows}
        yield SmallLog(Run(experiment, engine), shape, cells, names)
