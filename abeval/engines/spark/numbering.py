"""Row numbers in the order of a column, computed by many tasks.

Spark computes a window without partitions in one task. Here Spark sorts the rows across partitions
instead; the number of a row is its place in its partition, plus the sizes of those before it. The
engine calls this for every table whose query numbers its rows.
"""

from typing import TYPE_CHECKING, NamedTuple

from sqlglot import exp

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PLACE_BITS = 33
"""Bits of `monotonically_increasing_id` that hold the place in the partition."""


class Numbering(NamedTuple):
    """A select that numbers its rows.

    Attributes:
        select: The select without the number.
        order: The column of the result that orders the rows.
        number: The name of the number's column.
        columns: Columns of the result.
    """

    select: exp.Select
    order: str
    number: str
    columns: list[str]


def numbering_of(tree: exp.Query) -> Numbering | None:
    """How a query numbers all its rows in the order of one of its columns; None if it does not.

    Example:
        >>> from abeval.engines.transpile import parsed
        >>> n = numbering_of(parsed("select row_number() over (order by a) as n, a from t"))
        >>> n.select.sql(), n.order, n.number, n.columns
        ('SELECT a FROM t', 'a', 'n', ['n', 'a'])
        >>> numbering_of(parsed("select sum(a) over (order by b) as n, b from t")) is None
        True
    """
    if not isinstance(tree, exp.Select) or tree.is_star:
        return None
    windows = list(tree.find_all(exp.Window))
    if len(windows) != 1 or not isinstance(windows[0].parent, exp.Alias):
        return None
    window, item = windows[0], windows[0].parent
    order = _only_order(window)
    columns = [column.alias_or_name for column in tree.selects]
    if item.parent is not tree or order is None or order not in columns:
        return None
    if any(tree.args.get(part) for part in ("distinct", "order", "limit", "offset", "qualify")):
        return None
    select = tree.copy()
    select.set("expressions", [c.copy() for c in tree.expressions if c is not item])
    return Numbering(select, order, item.alias, columns)


def _only_order(window: exp.Window) -> str | None:
    order = window.args.get("order")
    if not isinstance(window.this, exp.RowNumber) or window.args.get("partition_by"):
        return None
    terms = order.expressions if order is not None else []
    if len(terms) != 1 or terms[0].args.get("desc") or not isinstance(terms[0].this, exp.Column):
        return None
    return str(terms[0].this.name)


def numbered(rows: "DataFrame", numbering: Numbering) -> "DataFrame":
    """The rows with their numbers from 1; rows without a value of `order` come last."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    placed = rows.orderBy(f.col(numbering.order).asc_nulls_last())
    # Checkpointed, because Spark may run the sort again and divide the rows differently.
    kept = placed.withColumn("_place", f.monotonically_increasing_id()).localCheckpoint(eager=True)
    kept = kept.withColumn("_partition", f.shiftright("_place", _PLACE_BITS))
    before = Window.orderBy("_partition").rowsBetween(Window.unboundedPreceding, -1)
    starts = (
        kept.groupBy("_partition")
        .agg(f.count(f.lit(1)).alias("_rows"))
        .select("_partition", f.coalesce(f.sum("_rows").over(before), f.lit(0)).alias("_start"))
    )
    place = f.col("_place").bitwiseAND((1 << _PLACE_BITS) - 1)
    number = (f.col("_start") + place + 1).alias(numbering.number)
    columns = (number if name == numbering.number else f.col(name) for name in numbering.columns)
    return kept.join(f.broadcast(starts), "_partition").select(*columns)
