"""Tables of logs that nobody reads any more, for the next log of the same rows.

`duckdb_logs.py` asks it before it reads files or copies a frame: a table that was looked at to
write an experiment is not read again by its analysis.
"""


class SpareTables:
    """What the tables of an engine were made of, and which of them are left over.

    Example:
        >>> tables = SpareTables()
        >>> tables.keep("looked_at", "from 'units.csv'")
        >>> tables.leave("looked_at")
        >>> tables.take("from 'other.csv'"), tables.take("from 'units.csv'")
        (None, 'looked_at')
        >>> tables.take("from 'units.csv'") is None
        True
    """

    def __init__(self) -> None:
        self._rows: dict[str, object] = {}
        self._left: list[str] = []

    def keep(self, name: str, rows: object) -> None:
        """A table was made of rows: of the SQL that reads files, or of a frame."""
        self._rows[name] = rows

    def leave(self, name: str) -> None:
        """A table is read no more."""
        if name in self._rows:
            self._left.append(name)

    def take(self, rows: object) -> str | None:
        """The left table of these rows, which is left no more; None where there is none."""
        for name in self._left:
            kept = self._rows[name]
            # Frames of equal values may be of other types: only itself is the same.
            if kept is rows or (isinstance(kept, str) and kept == rows):
                self._left.remove(name)
                del self._rows[name]
                return name
        return None
