"""Closed days: their totals are carried on, and added to those of the days that are still open.

`store/collect.py` makes a `Closing` of the parts and the `Refresh`, loads the open days by it,
completes the aggregates, and closes more days at the end.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.metric_queries import MetricQueries
from abeval.aggregates.moment_rows import DAY, MOMENT_COLUMNS
from abeval.aggregates.terms import Row, add_signed
from abeval.engines.protocol import whole_number
from abeval.engines.queries import query
from abeval.engines.sources import exact
from abeval.engines.sql import literal
from abeval.errors import ExperimentError
from abeval.experiment.model import Experiment
from abeval.logs import views
from abeval.logs.sums import load_sums
from abeval.metrics.definition import Metric
from abeval.store.manifest import CLOSED, STATE, Entry
from abeval.store.parts import Parts
from abeval.store.refresh import Refresh
from abeval.store.state import Cells, State, day_to_close, write_state

CLOSED_CELLS = "closed_cells"
_DAYS = ("day", "units", "new_units", "impressions", "first_ms", "last_ms")
_COUNTS = ["units", "new_units", "impressions"]


@dataclass(frozen=True)
class Closing:
    """Adds closed days to open days, and closes more days.

    Attributes:
        parts: The store.
        experiment: What is analysed.
        entries: The parts of the log.
        refreshed: Previous closed days, if they can be carried on, and what has changed since.
    """

    parts: Parts
    experiment: Experiment
    entries: Sequence[Entry]
    refreshed: Refresh

    def load(self) -> str | None:
        """Make `logged_sums` of open days; name the relation with the closed days of units."""
        parts, state = self.parts, self.refreshed.state
        if state is None:
            load_sums(parts.engine, parts.together(self.entries))
            return None
        closed = [part for part in self.entries if part.file in state.closed_parts]
        both = [part for part in closed if state.is_open(part)]
        new = [part for part in self.entries if part not in closed]
        selects = [parts.together(both, f"day > date {literal(state.last_day)}")] if both else []
        selects += [parts.together(new)] if new else []
        first, *_ = self.entries
        load_sums(parts.engine, " union all ".join(selects or [parts.together([first], "false")]))
        cells = literal(exact(str(parts.folder / state.file)))
        parts.engine.table(CLOSED_CELLS, f"select * from read_parquet({cells})")
        return CLOSED_CELLS

    def with_closed_days(self, aggregates: Aggregates, metrics: Sequence[Metric]) -> Aggregates:
        """Aggregates of open days, with the rows of closed days added."""
        state = self.refreshed.state
        if state is None:
            return aggregates
        rows, days = self._closed(state, [m for m in metrics if m.name not in aggregates.refused])
        closed = pd.DataFrame(rows, columns=list(MOMENT_COLUMNS))
        return replace(
            aggregates,
            moments=pd.concat([aggregates.moments, closed], ignore_index=True),
            days=pd.concat([days, aggregates.days], ignore_index=True),
        )

    def _closed(self, state: State, metrics: Sequence[Metric]) -> tuple[list[Row], pd.DataFrame]:
        """Rows of `moments` and `days`, with every unit in its current variant."""
        engine = self.parts.engine
        rows: list[Row] = list(state.moments)
        days = pd.DataFrame(list(state.days), columns=list(_DAYS))
        engine.table("moved_units", query("store/moved_units"))
        if not whole_number(engine, "select count(*) from moved_units"):
            return rows, days
        self._load_moved(state)
        queries = MetricQueries(self.experiment, self.parts.shape, engine)
        signed = [(1, row) for row in rows]
        for sign, relation in ((-1, "moved_from"), (1, "moved_to")):
            engine.view(relation, query(f"store/{relation}"))
            signed += [(sign, row) for row in queries.of_days(metrics, relation)]
        changes = engine.frame(query("store/moved_days")).set_index("day")
        days = days.set_index("day")
        days[_COUNTS] = (
            days[_COUNTS].add(changes[_COUNTS], fill_value=0).loc[days.index].astype(int)
        )
        return add_signed(signed), days.reset_index()

    def _load_moved(self, state: State) -> None:
        """Make `moved_day`: the closed days of moved units, from their parts."""
        parts, engine = self.parts, self.parts.engine
        closed = [part for part in self.entries if part.file in state.closed_parts]
        if parts.broken(closed):
            (parts.folder / STATE).unlink()
            raise ExperimentError(
                "parts of the store that moved units need are damaged",
                "run again: the parts are recomputed",
            )
        where = (
            f"phase = {views.IN_PERIOD} and day <= date {literal(state.last_day)} "
            "and unit_id in (select logged_id from moved_units)"
        )
        engine.table("moved_sums", parts.together(closed, where))
        engine.view("moved_cells", views.cells_view(self.experiment, parts.shape, "moved_sums"))
        engine.table("moved_day", query("store/moved_day"))

    def close(self, aggregates: Aggregates) -> None:
        """Write the state up to the last day that may be closed, if there is anything new.

        Args:
            aggregates: Those of all days.
        """
        state, refreshed = self.refreshed.state, self.refreshed
        last_day = day_to_close(self.entries, refreshed.previous, state, refreshed.rewritten)
        parts = {part.file for part in self.entries}
        if last_day is None or (state is not None and parts == set(state.parts)):
            return
        moments, days = aggregates.moments, aggregates.days
        closed = moments[(moments["slice"] == DAY) & (moments["cell"] <= last_day)]
        file, digest = self._write_cells(last_day)
        new_state = State(
            definition=self.parts.analysis,
            last_day=last_day,
            parts=tuple(part.file for part in self.entries),
            closed_parts=tuple(
                part.file
                for part in self.entries
                if part.has_others or not part.days or part.days[0] <= last_day
            ),
            file=file,
            sha256=digest,
            moments=_plain_rows(closed),
            days=_plain_rows(days.loc[days["day"] <= last_day, list(_DAYS)]),
        )
        # Until the new state is written, the previous one counts.
        write_state(self.parts.folder, new_state)
        for path in self.parts.folder.glob(f"{CLOSED}{'[0-9a-f]' * 32}.parquet"):
            if path.name != file:
                path.unlink(missing_ok=True)

    def _write_cells(self, last_day: str) -> tuple[str, str]:
        """Write the closed days of units and the counts set aside: the file, and its digest."""
        engine, shape = self.parts.engine, self.parts.shape
        engine.view("closing", f"select date {literal(last_day)} as last_day")
        # In other experiments, impressions without a variant are set aside.
        may_lack = self.experiment.assigns or shape.exposures is not None
        engine.view(
            "nameless_units",
            query("store/nameless_units")
            if may_lack
            else "select unit_id as nameless_unit_id from seen_units where false",
        )
        engine.view(
            "closed_segments",
            "select unit_id as segmented_unit_id, columns('^s_') from first_segments"
            if shape.segments
            else "select unit_id as segmented_unit_id from seen_units where false",
        )
        cells = f"({query('store/closed_cells')}) union all by name ({query('store/closed_aside')})"
        file, digest, _ = self.parts.write(cells, CLOSED)
        return file, digest


def _plain_rows(frame: pd.DataFrame) -> tuple[Cells, ...]:
    return tuple(
        tuple(v if v is None or isinstance(v, str) else int(v) for v in row)
        for row in frame.to_numpy(object).tolist()
    )
