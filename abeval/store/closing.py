"""Closes days: what they add up to is kept, and stands beside the days that are still open."""

import secrets
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from abeval.aggregates.change import added_up
from abeval.aggregates.metric_queries import MetricQueries, Row
from abeval.engines.queries import query
from abeval.engines.sql import literal
from abeval.errors import ExperimentError
from abeval.experiment.model import Experiment
from abeval.logs import views
from abeval.logs.shape import LogShape
from abeval.logs.sums import DayTotals
from abeval.metrics.definition import Metric
from abeval.store.manifest import CLOSED, DRAFT, STATE, Entry, sha256_of
from abeval.store.parts import Parts
from abeval.store.state import (
    State,
    day_to_close,
    folded_parts,
    write_state,
)
from abeval.store.totals import will_do

CLOSED_CELLS = "closed_cells"


def load_open(parts: Parts, entries: Sequence[Entry], state: State | None) -> None:
    """Make `logged_sums` of the days that are open, and `closed_cells` of those that are not."""
    engine = parts.engine
    if state is None:
        engine.table("logged_sums", parts.together(entries))
        return
    both = [part for part in entries if part.file in state.folded and state.open_part(part)]
    new = [part for part in entries if part.file not in state.folded]
    selects = [parts.together(both, f"day > date {literal(state.last_day)}")] if both else []
    selects += [parts.together(new)] if new else []
    engine.table(
        "logged_sums", " union all ".join(selects or [parts.together(entries[:1], "false")])
    )
    cells = literal(str(parts.folder / state.cells))
    engine.table(CLOSED_CELLS, f"select * from read_parquet({cells})")


@dataclass(frozen=True)
class Closing:
    """Adds closed days to those at hand, and closes more.

    Attributes:
        parts: The store.
        experiment: What is analysed.
        entries: The parts of the log.
        state: Closed days, None where every day is at hand.
        known: The parts that there were in the run before.
        rewritten: Whether a file of the log was seen to change.
        adds_up: Whether totals may do what closed days do, where units come back seldom.
    """

    parts: Parts
    experiment: Experiment
    entries: Sequence[Entry]
    state: State | None
    known: Collection[str]
    rewritten: bool
    adds_up: bool

    def settle(
        self, run: MetricQueries, metrics: Sequence[Metric], at_hand: DayTotals
    ) -> DayTotals:
        """Closed days and those at hand; the state is written anew where more can be closed."""
        found = at_hand
        if self.state is not None:
            closed = self._closed(self.state, run, metrics)
            days = pd.concat([closed.days, at_hand.days], ignore_index=True)
            found = DayTotals([*closed.rows, *at_hand.rows], days)
        last_day = day_to_close(self.entries, self.known, self.state, self.rewritten)
        has_news = self.state is None or self._has_news(self.state)
        if last_day is not None and has_news and not self._is_spared():
            self._close(last_day, found)
        return found

    def _is_spared(self) -> bool:
        """Whether the next run will want totals, and not closed days."""
        ((units, aside),) = self.parts.engine.rows(
            "select count(*), count(set_aside) from candidates"
        )
        found, analysed = int(units or 0), int(units or 0) - int(aside or 0)
        return self.adds_up and will_do(self.experiment, found, analysed, self.entries, 1)

    def _has_news(self, state: State) -> bool:
        return {part.file for part in self.entries} != set(state.known)

    def _closed(self, state: State, run: MetricQueries, metrics: Sequence[Metric]) -> DayTotals:
        """Totals of closed days, with every unit in the variant that it is in as things stand."""
        engine = self.parts.engine
        days = pd.DataFrame(list(state.days), columns=list(_DAYS))
        engine.table("moved_units", query("store/moved_units"))
        ((moved,),) = engine.rows("select count(*) from moved_units")
        if not moved:
            return DayTotals([tuple(row) for row in state.rows], days)
        self._load_moved(state)
        rows: list[tuple[int, Row]] = [(1, tuple(row)) for row in state.rows]
        for sign, variant in ((-1, "placed"), (1, "variant")):
            engine.view(
                "moved_to",
                f"select {variant} as variant, * exclude (placed, variant) "
                f"from moved_day where {variant} is not null",
            )
            rows += [(sign, row) for row in run.of_days(metrics, "moved_to")]
        changes = engine.frame(query("store/moved_days")).set_index("day")
        days = days.set_index("day")
        counts = ["units", "new_units", "impressions"]
        days[counts] = days[counts].add(changes[counts], fill_value=0).loc[days.index].astype(int)
        return DayTotals(added_up(rows), days.reset_index())

    def _load_moved(self, state: State) -> None:
        """Read the closed days of moved units from their parts."""
        parts, engine = self.parts, self.parts.engine
        folded = [part for part in self.entries if part.file in state.folded]
        if parts.broken(folded):
            (parts.folder / STATE).unlink()
            raise ExperimentError(
                "the store has damaged parts, which units that moved need",
                "run again: the parts are computed anew",
            )
        where = (
            f"phase = {views.IN_PERIOD} and day <= date {literal(state.last_day)} "
            "and unit_id in (select logged_id from moved_units)"
        )
        engine.table("moved_sums", parts.together(folded, where))
        engine.view("moved_cells", views.cells_view(self.experiment, parts.shape, "moved_sums"))
        engine.table("moved_day", query("store/moved_day"))

    def _close(self, last_day: str, found: DayTotals) -> None:
        """Write the state up to a day; the one before it counts until this one is whole."""
        folder, engine = self.parts.folder, self.parts.engine
        engine.view("closing", f"select date {literal(last_day)} as last_day")
        draft = folder / f"{DRAFT}{secrets.token_hex(8)}"
        closed = _closed_sql(self.experiment, self.parts.shape)
        engine.rows(f"copy ({closed}) to {literal(str(draft))} (format parquet)")
        digest = sha256_of(draft)
        cells = f"{CLOSED}{digest[:32]}.parquet"
        draft.replace(folder / cells)
        days = found.days[found.days["day"] <= last_day]
        write_state(
            folder,
            State(
                definition=self.parts.analysis,
                last_day=last_day,
                known=tuple(part.file for part in self.entries),
                folded=folded_parts(self.entries, last_day),
                cells=cells,
                sha256=digest,
                rows=tuple(_plain(row) for row in found.rows if str(row[2]) <= last_day),
                days=tuple(_plain(row) for row in days[list(_DAYS)].to_numpy(object).tolist()),
            ),
        )
        _sweep_closed(folder, cells)


_DAYS = ("day", "units", "new_units", "impressions", "first_ms", "last_ms")
_CLOSED = """
with cells as ({cells}), nameless as ({nameless})
select cast(null as date) as day, cast(null as varchar) as set_aside,
  * exclude (closed_unit_id, nameless_unit_id)
  replace (case when nameless_unit_id is null then variant end as variant)
from cells
left join nameless on closed_unit_id = nameless_unit_id {segments}
union all by name
select set_aside, in_period, cast(sum(c_1) as bigint) as c_1
from logged_cells
cross join closing
where set_aside is not null and (day is null or day <= last_day)
group by set_aside, in_period
"""
"""Closed days by unit, with its segments, and what of them is set aside."""
_SEGMENTS = """
left join (select unit_id as segmented_unit_id, * exclude (unit_id) from first_segments)
  on closed_unit_id = segmented_unit_id and in_period
"""


_NAMELESS = """
select c.unit_id as nameless_unit_id
from unit_cells c
join seen_units u on c.unit_id = u.unit_id and c.first_ms = u.first_ms
where c.in_period
group by c.unit_id
having count(c.variant) = 0
"""
"""Units that the log shows first in no variant; one that comes later is not their first."""
_NONE = "select cast(null as bigint) as nameless_unit_id where false"


def _closed_sql(experiment: Experiment, shape: LogShape) -> str:
    # Elsewhere impressions without a variant are set aside.
    may_lack = experiment.assignment is not None or shape.exposures is not None
    return _CLOSED.format(
        cells=query("store/closed_cells"),
        nameless=_NAMELESS if shape.names_variant and may_lack else _NONE,
        segments=_SEGMENTS if shape.segments else "",
    )


def _plain(row: Iterable[object]) -> tuple[str | int | None, ...]:
    return tuple(
        value if value is None or isinstance(value, str) else int(str(value)) for value in row
    )


def _sweep_closed(folder: Path, but: str) -> None:
    for path in folder.glob(f"{CLOSED}*"):
        if path.name != but:
            path.unlink(missing_ok=True)
