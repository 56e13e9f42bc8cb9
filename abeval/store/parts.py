"""Parts: the sums of one input file each, made once, and read together."""

import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from abeval.engines import sources
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.queries import query
from abeval.engines.sql import literal, quoted
from abeval.errors import LogError
from abeval.logs.shape import LogShape, component_name
from abeval.logs.views import BEFORE
from abeval.store.definition import Definition
from abeval.store.manifest import DRAFT, PART, Entry, Input, fingerprint, is_whole, sha256_of


@dataclass(frozen=True)
class Parts:
    """Where parts lie, and what they hold.

    Attributes:
        folder: Of the store.
        wanted: What they must be made of.
        shape: Of the log.
        engine: Reads and writes them.
        analysis: Digest of what decides what they add up to (`state.state_definition`).
    """

    folder: Path
    wanted: Definition
    shape: LogShape
    engine: DuckDBEngine
    analysis: str

    def fits(self, entry: Entry, state: Input) -> bool:
        """Whether a part is of this state of its file, and has every sum."""
        has = entry.input == state and entry.definition == self.wanted.rows
        return has and set(self.wanted.components) <= set(entry.components)

    def broken(self, entries: Sequence[Entry]) -> list[Entry]:
        """The parts that are not as they were written."""
        with ThreadPoolExecutor() as pool:
            whole = pool.map(lambda e: is_whole(self.folder / e.file, e.sha256), entries)
            return [entry for entry, good in zip(entries, whole, strict=True) if not good]

    def make(self, file: str, state: Input) -> Entry:
        """Sum one file: the views are left as they are, and read it in the place of the whole log.

        Raises:
            LogError: The file changed while it was read.
        """
        self.engine.view("kept_impressions", _one_file(file, self.shape, self.engine))
        named = {component_name(i): _column(c) for i, c in enumerate(self.wanted.components)}
        renamed = ", ".join(f"{old} as {new}" for old, new in named.items())
        sql = f"select * rename ({renamed}) from (\n{query('units/logged_sums')}\n)"
        draft = self.folder / f"{DRAFT}{secrets.token_hex(8)}"
        ((rows,),) = self.engine.rows(f"copy (\n{sql}\n) to {literal(str(draft))} (format parquet)")
        self.engine.view("kept_impressions", "select * from raw_impressions")
        if fingerprint(file) != state:
            raise LogError(f"{file} changed while it was read", "run again when it is written")
        digest = sha256_of(draft)
        part = f"{PART}{digest[:32]}.parquet"
        found = self.engine.rows(
            f"select distinct cast({_DAY} as varchar) from read_parquet({literal(str(draft))}) "
            "order by 1"
        )
        draft.replace(self.folder / part)
        days = tuple(str(day) for (day,) in found if day is not None)
        has_others = len(days) < len(found)
        wanted = self.wanted
        return Entry(
            input=state,
            definition=wanted.rows,
            components=wanted.components,
            file=part,
            sha256=digest,
            days=days,
            has_others=has_others,
            rows=int(rows or 0),
        )

    def together(self, entries: Sequence[Entry], where: str = "true") -> str:
        """SQL: the rows of parts, as `logged_sums` has them: whoever reads them adds them up.

        Args:
            entries: At least one part.
            where: A condition on the rows that are wanted.
        """
        files = ", ".join(literal(str(self.folder / entry.file)) for entry in entries)
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
"""The day of a row that has one in either period; that of other rows is nobody's concern."""


def _one_file(file: str, shape: LogShape, engine: DuckDBEngine) -> str:
    """A file with the columns and types that all files have together."""
    hive = "true" if sources.has_partitions([file]) else "false"
    read = f"read_parquet({literal(file)}, hive_partitioning = {hive}, hive_types_autocast = false)"
    own = {str(row[0]).lower(): row for row in engine.rows(f"describe from {read}")}
    columns = []
    for name, kind in shape.impressions.types.items():
        found = own.get(name.lower())
        if found is None:
            columns.append(f"cast(null as {kind}) as {quoted(name)}")
        elif str(found[1]) == kind:
            columns.append(f"{quoted(str(found[0]))} as {quoted(name)}")
        else:
            columns.append(f"cast({quoted(str(found[0]))} as {kind}) as {quoted(name)}")
    return f"select {', '.join(columns)} from {read}"


def _column(component: str) -> str:
    """The name of a sum in a part, where its place among the metrics does not matter."""
    return f"sum_{component}"
