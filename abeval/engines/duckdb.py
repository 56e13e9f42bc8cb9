"""Run queries on DuckDB, embedded: the default engine."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import numpy as np

from abeval.engines import builders
from abeval.engines.builders import write_duckdb_macros
from abeval.engines.duckdb_connection import query_errors
from abeval.engines.duckdb_logs import Logs
from abeval.engines.sql import Cell, Engine, literal, quote
from abeval.errors import QueryError
from abeval.experiment.sections import EngineOptions

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray


class DuckDBEngine(Logs, Engine):
    """Run one DuckDB database for one run.

    It is in memory, or in a temporary file if memory is limited. Beside the caller's `connection`,
    whose committed tables logs may name, `options` are not used, and the run creates everything in
    an attached database of its own: names do not clash, settings stay, and `close` leaves the
    connection as it was.
    """

    in_process = True

    def __init__(
        self,
        options: "EngineOptions | None" = None,
        folder: Path = Path(),
        connection: duckdb.DuckDBPyConnection | None = None,
    ) -> None:
        self._kinds: dict[str, str] = {}
        super().__init__(options or EngineOptions(), folder, connection)
        try:
            with query_errors():
                # Beside a caller's connection the database of the run is open already.
                self._set("set timezone = 'UTC'", *write_duckdb_macros())
        except QueryError:
            self.close()
            raise

    @query_errors()
    def add_arrays(self, name: str, columns: "Mapping[str, NDArray[np.generic]]") -> None:
        """Make arrays of one length the columns of the relation `name`."""
        self._make_waiting()
        self._connection.register("abeval_arrays", dict(columns))
        ((count,),) = self._run(
            f"create or replace table {quote(name)} as select * from abeval_arrays"
        )
        self._connection.unregister("abeval_arrays")
        self._forget(name)
        self._rows[name] = count

    def view(self, name: str, sql: str) -> None:
        """Name a query, to be run each time it is read."""
        if self._is_open:
            self._create("view", name, sql)
        else:
            self._waiting.append(partial(self._create, "view", name, sql))

    def write_steps(self, steps: Mapping[str, str], sql: str) -> str:
        """Write a query with the steps that only it reads, in their order."""
        # DuckDB plans each view when it is made, with all that it reads.
        named = ", ".join(f"{name} as not materialized ({step})" for name, step in steps.items())
        return f"with {named} select * from ({sql}) as answer" if steps else sql

    def table(self, name: str, sql: str) -> None:
        """Run a query and keep its rows as the relation `name`."""
        self._create("table", name, sql)

    @query_errors()
    def drop(self, *names: str) -> None:
        """Drop relations, and free what their rows take."""
        for name in names:
            self._forget(name)
        drops = (f"drop {self._kinds.pop(n, 'table')} if exists {quote(n)}" for n in names)
        self._run("; ".join(drops))

    @query_errors()
    def _create(self, kind: str, name: str, sql: str) -> None:
        """Create a relation, in place of one of its name."""
        before = self._kinds.get(name, kind)
        # `create or replace view` fails where a table has the name, and the other way round.
        drop = "" if before == kind else f"drop {before} if exists {quote(name)}; "
        counts = self._run(f"{drop}create or replace {kind} {quote(name)} as {sql}")
        self._kinds[name] = kind
        self._forget(name)
        if kind == "table":
            ((self._rows[name],),) = counts

    @query_errors()
    def rows(self, sql: str) -> Sequence[tuple[Cell, ...]]:
        """Run a query and fetch its rows as plain Python values."""
        return self._run(sql)

    @query_errors()
    def frame(self, sql: str) -> "pd.DataFrame":
        """Run a query and fetch its rows as a frame."""
        self._make_waiting()
        return self._wait(lambda: self._connection.execute(sql).df())

    @query_errors()
    def arrays(self, sql: str) -> "Mapping[str, NDArray[np.generic]]":
        """Run a query and fetch its columns as arrays, masked where something is null."""
        self._make_waiting()
        return self.compute(sql)

    @query_errors()
    def compute(self, sql: str) -> "Mapping[str, NDArray[np.generic]]":
        """Fetch the columns of a query that reads no relation.

        Relations that wait to be made still wait.
        """
        columns = self._wait(lambda: self._connection.execute(sql).fetchnumpy())
        # Enums are fetched as pandas categoricals, everything else as arrays already.
        return {name: np.asanyarray(column) for name, column in columns.items()}

    def local_time(self, milliseconds: str, timezone: str) -> str:
        """Write the local timestamp of an epoch-milliseconds expression."""
        utc = f"make_timestamp({milliseconds} * 1000)"
        if timezone == "UTC":
            return utc
        since, until = (int(end.timestamp()) * 1000 for end in (builders.SINCE, builders.UNTIL))
        added = builders.write_offset(milliseconds, builders.list_offsets(timezone))
        return (
            f"case when {milliseconds} >= {since} and {milliseconds} < {until} "
            f"then make_timestamp(({milliseconds} + {added}) * 1000) "
            f"else timezone({literal(timezone)}, timezone('UTC', {utc})) end"
        )

    def hash64(self, values: Sequence[str]) -> str:
        """Write a whole number of 64 bits that stands for values, nulls among them."""
        return f"cast(hash({', '.join(values)}) >> 1 as bigint)"
