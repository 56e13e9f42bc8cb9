"""Write pieces of SQL, read the queries of `queries/`, define an engine."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from abeval.errors import QueryError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from abeval.experiment.sources import LogSource, Span

    Columns = Mapping[str, NDArray[np.generic]]


def quote(name: str) -> str:
    """Quote an identifier, whatever characters it has."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Write a string literal, whatever characters it has."""
    return "'" + text.replace("'", "''") + "'"


def cast_query(kinds: Mapping[str, str], cast: Literal["cast", "try_cast"] = "cast") -> str:
    """Write the `query` of a log that gives columns other types; column → type.

    With `try_cast`, values that have none of the type become null.

    Example:
        >>> cast_query({"user_id": "bigint"})
        'select * replace (cast("user_id" as bigint) as "user_id") from log'
    """
    casts = ", ".join(
        f"{cast}({quote(column)} as {kind}) as {quote(column)}" for column, kind in kinds.items()
    )
    return f"select * replace ({casts}) from log"


MONEY = re.compile(r"[-+]?[^\w,.()]*([0-9]+|[0-9]{1,3}(,[0-9]{3})+)([.][0-9]*)?[^\w,.()]*")
"""Numbers as people write them: $1,234.50 or 12.5%."""


def number_cast(text: str, example: str) -> str | None:
    """Write SQL of the number in texts such as $1,234.50 or 12.5%.

    None if the example has no number in it.

    Example:
        >>> number_cast("share", "12.5%")
        "cast(replace(replace(share, '%', ''), ',', '') as double) / 100"
    """
    if not MONEY.fullmatch(example.strip()):
        return None
    for mark in [*sorted({*example} - {*"+-.,0123456789"}), ","]:
        text = f"replace({text}, {literal(mark)}, '')"
    return f"cast({text} as double)" + (" / 100" if "%" in example else "")


WHOLE = re.compile(r"^(U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|DECIMAL\(\d+,0\))$")
FRACTION = re.compile(r"^(FLOAT|DOUBLE|DECIMAL.*)$")
NO_TYPE = '"NULL"'
"""Types of columns: of whole numbers, of other numbers, of nulls alone."""


def is_number(kind: str) -> bool:
    """Tell whether a column of this type, a boolean too, can be summed.

    Example:
        >>> is_number("DECIMAL(9,2)"), is_number("VARCHAR")
        (True, False)
    """
    return any(r.match(kind) for r in (WHOLE, FRACTION)) or kind in ("BOOLEAN", NO_TYPE)


def write_case(subject: str, answers: Mapping[str, str]) -> str:
    """Write a `case` on the value of other SQL: value → result, else null.

    Example:
        >>> write_case("u.variant", {"control": "a", "treatment": "b"})
        "case u.variant when 'control' then a when 'treatment' then b end"
    """
    cases = " ".join(f"when {literal(value)} then {sql}" for value, sql in answers.items())
    return f"case {subject} {cases} end"


def write_index(subject: str, values: Sequence[str]) -> str:
    """Write the index of a value in a list; null for any other value."""
    return write_case(subject, {value: str(i) for i, value in enumerate(values)})


_HERE = Path(__file__).parents[1]
_FOLDER = _HERE / "queries" if (_HERE / "queries").is_dir() else _HERE.parent / "queries"


_texts: ContextVar[dict[str, str] | None] = ContextVar("texts", default=None)


@contextmanager
def record_queries() -> Iterator[dict[str, str]]:
    """Record the queries that are read meanwhile: name → text."""
    texts: dict[str, str] = {}
    token = _texts.set(texts)
    try:
        yield texts
    finally:
        _texts.reset(token)


def query(name: str, added: str | None = None) -> str:
    """Read the text of a query, one SELECT, by its path below `queries/`.

    `added` is the text of a query that is in no file.
    """
    text, texts = _read_query_file(name) if added is None else added, _texts.get()
    if texts is not None:
        texts[name] = text
    return text


@cache
def _read_query_file(name: str) -> str:
    file = _FOLDER / f"{name}.sql"
    if name not in query_names():
        raise QueryError(f"no query is called {name!r}", f"known: {', '.join(query_names())}")
    return file.read_text(encoding="utf-8")


@cache
def query_names() -> tuple[str, ...]:
    """List the names of all queries, sorted."""
    files = _FOLDER.rglob("*.sql")
    return tuple(sorted(str(f.relative_to(_FOLDER).with_suffix("")) for f in files))


@cache
def is_query(sql: str) -> bool:
    """Tell whether a text is that of a query in `queries/`."""
    return any(sql == query(name) for name in query_names())


Cell = str | int | float | bool | None

Result = TypeVar("Result")


class Engine(Protocol):
    """Run DuckDB SQL over named relations, and fetch only small results.

    SQL is always in the DuckDB dialect; an engine with another dialect transpiles it. What every
    dialect writes differently, time and hash, are calls that DuckDB knows as macros and the last
    step of a translation replaces (`builders.py`).
    """

    in_process: bool
    """Whether queries run in this process, which has their rows in memory."""

    def add_log(self, name: str, source: "LogSource", reads: str | None = None) -> None:
        """Make a log readable as the relation `name`.

        Columns whose names do not stand in the text `reads`, if it is given, may be left out until
        `complete` is called.
        """

    def add_frame(
        self, name: str, frame: object, source: "LogSource | None" = None, reads: str | None = None
    ) -> None:
        """Make a frame of the caller's the relation `name`.

        It is anything with an Arrow stream. `source` is the log's entry in the experiment file,
        where the frame is a log.
        """

    def complete(self, name: str) -> None:
        """Make every column of a log readable; by default none was left out."""
        return

    def blank_rows(self, name: str) -> int:
        """Count rows of a log that were not read, as no column has a value."""
        return 0

    def read_span(self, name: str) -> "Span | None":
        """Return the span outside of which rows of a log were not read; None if all were."""
        return None

    def plain_frame(self, name: str) -> "pd.DataFrame | None":
        """Return the frame of a log if its columns can be read without SQL, else None."""
        return None

    def count(self, name: str) -> int:
        """Count the rows of a log or a table."""
        return count_rows(self, quote(name))

    def columns(self, relation: str) -> Mapping[str, str]:
        """List columns and types of a relation; of a log, also those left out."""

    def view(self, name: str, sql: str) -> None:
        """Name a query, to be run each time it is read."""

    def write_steps(self, steps: Mapping[str, str], sql: str) -> str:
        """Write a query with the steps that only it reads, in their order.

        Here each step is a view.
        """
        for name, step in steps.items():
            self.view(name, step)
        return sql

    def table(self, name: str, sql: str) -> None:
        """Run a query and keep its rows as the relation `name` for this run."""

    def drop(self, *names: str) -> None:
        """Drop relations, and free what their rows take."""

    def rows(self, sql: str) -> Sequence[tuple[Cell, ...]]:
        """Run a query and fetch its rows as plain Python values."""

    def frame(self, sql: str) -> "pd.DataFrame":
        """Run a query and fetch its rows as a frame."""

    def epoch_ms(self, timestamp: str) -> str:
        """Write whole milliseconds since 1970 of a UTC timestamp, rounded down."""
        return f"abeval_epoch_ms({timestamp})"

    def utc_time(self, timestamp: str, timezone: str) -> str:
        """Write the UTC timestamp of a local timestamp expression of a time zone."""
        return f"abeval_utc_time({timestamp}, {literal(timezone)})"

    def local_time(self, milliseconds: str, timezone: str) -> str:
        """Write the local timestamp of an epoch-milliseconds expression."""
        return f"abeval_local_time({milliseconds}, {literal(timezone)})"

    def hash60(self, salt: str, unit: str) -> str:
        """Write the `md5_60` of a salt and a unit expression."""
        return f"abeval_hash60({literal(salt)}, {unit})"

    def hash64(self, values: Sequence[str]) -> str:
        """Write a whole number of 64 bits that stands for values, nulls among them."""

    def arrays(self, sql: str) -> "Mapping[str, NDArray[np.generic]]":
        """Run a query and fetch its columns as arrays, masked where something is null."""

    def compute(self, sql: str) -> "Mapping[str, NDArray[np.generic]]":
        """Fetch the columns of a query that reads no relation."""
        return self.arrays(sql)

    def add_arrays(self, name: str, columns: "Columns") -> None:
        """Make arrays of one length the columns of the relation `name`."""

    def confine(self, logs: "Iterable[LogSource]", folders: Sequence[str] = ()) -> None:
        """Open from now on only the files of these logs and these folders.

        By default nothing: an engine elsewhere opens what statements name.
        """
        return

    def close(self) -> None:
        """Release memory and files."""


def measure_columns(
    rows: Callable[[str], Sequence[Sequence[Any]]],
    relation: str,
    columns: Iterable[str],
    write_fact: Callable[[str], str],
    at_once: int = 1000,
) -> dict[str, Any]:
    """Measure a fact of each column, `at_once` columns with one query; column → fact.

    `rows` runs a query. A fact of several parts is a list or a struct.
    """
    names, facts = [*columns], list[Any]()
    for start in range(0, len(names), at_once):
        select_list = ", ".join(write_fact(quote(name)) for name in names[start : start + at_once])
        facts += rows(f"select {select_list} from {relation}")[0]
    return dict(zip(names, facts, strict=True))


def fetch_int(engine: Engine, sql: str) -> int:
    """Fetch the one whole number that a query returns; 0 if it is null."""
    ((number,),) = engine.rows(sql)
    return read_int(number)


def count_rows(engine: Engine, relation: str) -> int:
    """Count the rows of a relation."""
    return fetch_int(engine, f"select count(*) from {relation}")


def read_int(cell: Cell) -> int:
    """Read a cell as a whole number; 0 if it is null."""
    return int(cell or 0)
