"""The columns of a table on an engine, by their names in any case."""

from collections.abc import Sequence

from sqlglot import exp

from abeval.engines.protocol import Engine
from abeval.engines.sql import quoted
from abeval.errors import LogError
from abeval.experiment.problems import near_miss
from abeval.logs.mapping import is_number
from abeval.metrics.expressions import expression_problem, parse_expression
from abeval.metrics.row_text import columns_of

TABLE = "looked_at"
"""The relation of the engine."""


class Columns:
    """Names and types of a table's columns.

    Args:
        engine: Has the table as `TABLE`.
    """

    def __init__(self, engine: Engine) -> None:
        self._types = engine.columns(TABLE)
        self._known = {column.lower(): column for column in self._types}

    def named(self, name: str) -> str:
        """A column by its name, whatever its case.

        Raises:
            LogError: There is none.
        """
        if name.lower() not in self._known:
            raise LogError(
                f"the table has no column {name!r}{near_miss(name, self._types)}",
                f"it has: {', '.join(self._types)}",
            )
        return self._known[name.lower()]

    def numbers(self) -> Sequence[str]:
        """The columns of numbers."""
        return [column for column, kind in self._types.items() if is_number(kind)]

    def sql(self, text: str) -> str:
        """SQL of a number: a column by its name, whatever it is; else an expression.

        Raises:
            LogError: The column is no number, or there is none.
        """
        column = self._known.get(text.strip().lower())
        if column is not None and not is_number(self._types[column]):
            raise LogError(f"column {column!r} is {self._types[column]}, but a metric is a number")
        sql = text if column is None else reference(column)
        for name in columns_of(sql):
            self.named(name)
        return sql

    def type_of(self, text: str) -> str | None:
        """The type of a column by its name; None of an expression."""
        tree = parse_expression(text)
        if not isinstance(tree, exp.Column):
            return None
        return self._types[self.named(columns_of(text)[0])]

    def is_whole(self, text: str) -> bool:
        """Whether every value is a whole number, by its type."""
        kind = self.type_of(text) or ""
        return kind in ("BOOLEAN", "INTEGER") or kind.endswith("INT")


def reference(column: str) -> str:
    """SQL of a column, in quotes where it would be read as something else."""
    plain = expression_problem(column) is None and isinstance(parse_expression(column), exp.Column)
    return column if plain else quoted(column)
