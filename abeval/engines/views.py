"""Keep named queries until they are read, and write them into what reads them.

Creating a view takes DuckDB longer than reading it, and most are read once. So a query that reads
one gets it as a CTE; a view that is read again is created.
"""

import re
from collections.abc import Iterable, Sequence

from abeval.engines.sql import quote

_READ = re.compile(r"\b(?:from|join)\s+(\"?)([a-z_]\w*)\1", re.IGNORECASE)
_PLAIN = re.compile(r"[a-z_]\w*")
_QUERY = re.compile(r"(?P<before>(?:\s|--[^\n]*\n|describe\b)*)(?P<first>with|select|from)\b")


class Views:
    """Hold queries by name, in the order in which they were named."""

    def __init__(self) -> None:
        self._sql: dict[str, str] = {}
        self._is_read = set[str]()
        self._is_created = set[str]()

    def add(self, name: str, sql: str, *, was_table: bool = False) -> Sequence[str]:
        """Name a query; return statements that have to run before the next one."""
        # What was created reads names by itself, also this one.
        is_created = was_table or name in self._is_created or not _PLAIN.fullmatch(name)
        self.forget(name)
        self._sql[name] = sql
        return self._create([*self._list_needed(sql), name]) if is_created else ()

    def forget(self, name: str) -> None:
        """Forget a name, which is to stand for something else."""
        self._sql.pop(name, None)
        self._is_read.discard(name)
        self._is_created.discard(name)

    def inline(self, sql: str) -> tuple[Sequence[str], str]:
        """Write the views that a statement reads into it.

        Returns statements that have to run before, and the statement.
        """
        query, needed = _QUERY.match(sql), self._list_needed(sql)
        if not needed:
            return (), sql
        if query is None:
            return self._create(needed), sql
        # Two CTEs cannot have one name.
        again = [n for n in needed if n in self._is_read or re.search(rf"\b{n} as \(", sql)]
        created = self._create(self._list_needed(*(f"from {name}" for name in again)))
        needed = [name for name in needed if name in self._sql]
        if not needed:
            return created, sql
        if "describe" not in query["before"]:
            self._is_read.update(needed)
        ctes = ", ".join(f"{name} as not materialized (\n{self._sql[name]}\n)" for name in needed)
        rest = sql[query.start("first") :]
        joint = f", {rest.removeprefix('with')}" if query["first"] == "with" else f"\n{rest}"
        return created, f"{query['before']}with {ctes}{joint}"

    def _list_needed(self, *texts: str) -> list[str]:
        """List the views that some SQL reads, each after those that it reads itself."""
        needed = dict[str, bool]()

        def visit(sql: str) -> None:
            for _, word in _READ.findall(sql):
                name = word.lower()
                if name in self._sql and name not in needed:
                    needed[name] = False
                    visit(self._sql[name])
                    # Its place is behind what it reads.
                    needed[name] = needed.pop(name)

        for text in texts:
            visit(text)
        return [*needed]

    def _create(self, names: Iterable[str]) -> list[str]:
        """Write statements that create views."""
        self._is_created.update(names)
        return [f"create or replace view {quote(n)} as {self._sql.pop(n)}" for n in names]
