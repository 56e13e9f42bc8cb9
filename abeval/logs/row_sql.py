"""SQL of the user's expressions over a row of a log, in the names of the views.

`shape.py` makes the columns of the views with it.
"""

from collections.abc import Sequence
from functools import cache

from abeval.engines.sql import quoted
from abeval.errors import ExperimentError
from abeval.experiment.problems import near_miss
from abeval.logs.mapping import LogColumns
from abeval.metrics.definition import RowTerm, UnitTerm
from abeval.metrics.per_unit import RowValue
from abeval.metrics.row_text import columns_of, is_plain, renamed

EXPRESSION_COLUMNS = (
    "impression_id",
    "request_id",
    "unit_id",
    "item_id",
    "ts",
    "position",
    "category",
    "click",
    "dwell",
    "dwell_ms",
    "score",
)
"""Canonical columns that row-level expressions may read, besides the log's own."""

UNIT_COLUMNS = ("unit_id",)
"""The same of the row of a unit."""

OUTCOME_COLUMNS = ("unit_id", "ts")
"""Canonical columns that expressions over an outcome log may read, besides the log's own."""


def canonical_columns(of_unit: bool) -> tuple[str, ...]:
    """The canonical columns that expressions may read; of a row that is a unit, only its id."""
    return UNIT_COLUMNS if of_unit else EXPRESSION_COLUMNS


def component_name(index: int) -> str:
    """The name of a summed column."""
    return f"c_{index + 1}"


def event_name(index: int) -> str:
    """The name of a column of values by impression."""
    return f"v_{index + 1}"


def event_sql(term: RowTerm, score: str | None) -> str:
    """A term as a whole number per impression, null if it has no finite value."""
    text = in_view_names(term.expression, score, canonical_columns(term.of_unit))
    if term.resolution is None:
        return f"cast({text} as bigint)"
    return _rounded(text, term.resolution)


def row_value_sql(value: RowValue, canonical: Sequence[str]) -> str:
    """What a row is worth to a metric, null for nothing: a whole number, or any value to count."""
    text = in_view_names(value.expression, None, canonical)
    if value.combine == "count_distinct":
        return text
    return (
        f"cast({text} as bigint)" if value.resolution is None else _rounded(text, value.resolution)
    )


def unit_term_sql(term: UnitTerm) -> str:
    """A covariate of the table of units as a whole number, 0 if it has no finite value."""
    return _rounded(in_view_names(term.expression, None, UNIT_COLUMNS), term.resolution, " else 0")


@cache
def component_sql(term: RowTerm, score: str | None) -> str:
    """A term as a whole number per impression, 0 if it has no finite value."""
    text = in_view_names(term.expression, score, canonical_columns(term.of_unit))
    if term.resolution is None:
        return text if text.isdigit() else f"coalesce({text}, 0)"
    return _rounded(text, term.resolution, " else 0")


def _rounded(text: str, resolution: float, otherwise: str = "") -> str:
    """A finite number as a multiple of a resolution; sums of those depend on no order of rows."""
    value = f"cast({text} as double)"
    whole = f"cast(round({value} / {resolution!r}) as bigint)"
    # NaN and infinity compare false.
    return f"case when abs({value}) < 1e300 then {whole}{otherwise} end"


def own_name(column: str) -> str:
    """The name of a log's own column in the views, which no canonical column has."""
    return f"raw_{column}"


def cut_name(name: str) -> str:
    """The column of the views with the value of a cut."""
    return f"k_{name}"


def in_view_names(text: str, score: str | None, canonical: Sequence[str]) -> str:
    """An expression over the views' columns: canonical names stay, the log's own get a prefix."""

    def name(column: str) -> str:
        """The column of the views; empty for the score of a variant without one."""
        if column.lower() not in canonical:
            return own_name(column)
        return column if column.lower() != "score" else score or ""

    if is_plain(text):
        return renamed(text, lambda column: quoted(own) if (own := name(column)) else "null")
    from abeval.metrics.expressions import with_columns

    return with_columns(text, name)


def own_columns_of(
    texts: Sequence[str], impressions: LogColumns, canonical: Sequence[str]
) -> tuple[str, ...]:
    """The log's columns that expressions read, besides the canonical ones."""
    own: dict[str, None] = {}
    known = {name.lower() for name in (*canonical, *impressions.types)}
    for text in texts:
        missing = [column for column in columns_of(text) if column.lower() not in known]
        if missing:
            raise ExperimentError(
                f"expression {text!r} reads {missing[0]!r}, which the {impressions.log} do not have"
                f"{near_miss(missing[0], impressions.types)}",
                f"the log has: {', '.join(impressions.types)}",
            )
        own |= dict.fromkeys(c for c in columns_of(text) if c.lower() not in canonical)
    return tuple(own)
