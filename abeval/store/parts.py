"""Parts: the sums of one input file each, made once and read together.

`store/collect.py` opens them; `store/refresh.py` makes those that are missing, and
`store/closing.py` and `store/totals.py` read them as `logged_sums`.
"""

import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import compress
from pathlib import Path

from abeval.engines import sources
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.protocol import whole_number
from abeval.engines.queries import query
from abeval.engines.sql import literal, quoted
from abeval.errors import LogError
from abeval.logs.checks import check_clicks
from abeval.logs.duplicates import keep_impressions
from abeval.logs.row_sql import component_name
from abeval.logs.shape import LogShape
from abeval.logs.views import BEFORE
from abeval.store.definition import Definition
from abeval.store.manifest import DRAFT, PART, Entry, Input, fingerprint, is_whole, sha256_of


@dataclass(frozen=True)
class Parts:
    """The parts of a store, for one analysis.

    Attributes:
        folder: Of the store.
        wanted: What their rows must be.
        shape: Of the log.
        engine: Reads and writes them.
        analysis: Digest of what decides what they add up to (`state.analysis_digest`).
    """

    folder: Path
    wanted: Definition
    shape: LogShape
    engine: DuckDBEngine
    analysis: str

    def fits(self, entry: Entry, source: Input) -> bool:
        """Whether a part is of this file, unchanged, and has every sum."""
        same_rows = entry.input == source and entry.definition == self.wanted.rows
        return same_rows and set(self.wanted.components) <= set(entry.components)

    def broken(self, entries: Sequence[Entry]) -> list[Entry]:
        """The parts that are damaged or missing."""
        with ThreadPoolExecutor() as pool:
            broken = pool.map(lambda e: not is_whole(self.folder / e.file, e.sha256), entries)
            return list(compress(entries, broken))

    def make(self, file: str, source: Input) -> Entry:
        """Write the part of one file, which the views read in place of the whole log meanwhile.

        Raises:
            LogError: The file changed while it was read.
        """
        names = {component_name(i): _column(c) for i, c in enumerate(self.wanted.components)}
        renamed = ", ".join(f"{old} as {new}" for old, new in names.items())
        keep_impressions(self.engine, _one_file(file, self.shape, self.engine))
        check_clicks(self.shape, self.engine)
        part, digest, rows = self.write(
            f"select * rename ({renamed}) from (\n{query('units/logged_sums')}\n)", PART
        )
        keep_impressions(self.engine, "select * from raw_impressions")
        if fingerprint(file) != source:
            raise LogError(f"{file} changed while it was read", "run again when it is written")
        written = self.engine.rows(
            f"select distinct cast({_DAY} as varchar) "
            f"from read_parquet({_named(self.folder / part)}) order by 1"
        )
        days = tuple(str(day) for (day,) in written if day is not None)
        return Entry(
            input=source,
            definition=self.wanted.rows,
            components=self.wanted.components,
            file=part,
            sha256=digest,
            days=days,
            has_others=len(days) < len(written),
            rows=rows,
        )

    def write(self, sql: str, prefix: str) -> tuple[str, str, int]:
        """Write rows to a file named by its content: its name, sha256 and number of rows."""
        draft = self.folder / f"{DRAFT}{secrets.token_hex(8)}"
        copy = f"copy (\n{sql}\n) to {literal(str(draft))} (format parquet)"
        try:
            rows = whole_number(self.engine, copy)
            digest = sha256_of(draft)
            file = f"{prefix}{digest[:32]}.parquet"
            draft.replace(self.folder / file)
        finally:
            draft.unlink(missing_ok=True)
        return file, digest, rows

    def together(self, entries: Sequence[Entry], where: str = "true") -> str:
        """SQL: the rows of parts, as `logged_sums` has them.

        Args:
            entries: At least one part.
            where: Which rows.
        """
        files = ", ".join(_named(self.folder / entry.file) for entry in entries)
        segments = [quoted(f"s_{name}") for name in self.shape.segments]
        sums = [
            f"{_column(c)} as {component_name(i)}" for i, c in enumerate(self.wanted.components)
        ]
        columns = ["unit_id", "phase", f"{_DAY} as day", "variant", "is_exposed", *segments]
        return (
            f"select {', '.join([*columns, 'first_ms', 'last_ms', *sums])} "
            f"from read_parquet([{files}], union_by_name = true) where {where}"
        )


_DAY = f"case when phase >= {BEFORE} then day end"
"""The day of rows in either period, null for other rows."""


def _one_file(file: str, shape: LogShape, engine: DuckDBEngine) -> str:
    """SQL: the rows of a file, with the columns and types of all files together."""
    hive = "true" if sources.has_partitions([file]) else "false"
    read = f"read_parquet({_named(file)}, hive_partitioning = {hive}, hive_types_autocast = false)"
    described = engine.rows(f"describe from {read}")
    own = {str(name).lower(): (quoted(str(name)), str(kind)) for name, kind, *_ in described}
    columns = []
    for name, kind in shape.impressions.types.items():
        column, type_ = own.get(name.lower(), ("null", None))
        value = column if type_ == kind else f"cast({column} as {kind})"
        columns.append(f"{value} as {quoted(name)}")
    return f"select {', '.join(columns)} from {read}"


def _named(file: str | Path) -> str:
    """SQL: the name of a file, for `read_parquet`."""
    return literal(sources.exact(str(file)))


def _column(component: str) -> str:
    """The name of a sum in a part, whatever its place among the metrics."""
    return f"sum_{component}"
