"""What the audits of a log read: the impressions of analysed units, narrow, each with its flags.

`aggregates/audits.py` creates these relations after `prepare.py`, and runs the queries of
`queries/audit/` on them.
"""

from collections.abc import Sequence
from typing import NamedTuple

from abeval.engines.protocol import Engine
from abeval.engines.sql import quoted
from abeval.experiment.model import Experiment
from abeval.logs.mapping import SERVED_FLAGS
from abeval.logs.row_sql import own_name
from abeval.logs.shape import LogShape

CLUSTERS = 64
"""Units are put into so many groups, which are the clusters of every test of an audit."""

HEAVY = CLUSTERS
"""The cluster of units that are read because they are heavy, and are not in the sample."""

PARTS = 4096
"""Units are put into so many parts by their hash, of which a sample has some."""


class Sample(NamedTuple):
    """The units of which rows are read: those of some parts, and some by their hashes."""

    parts: int
    hashes: Sequence[int]

    def has(self, unit_hash: str) -> str:
        """SQL: whether a hash is of the sample."""
        if self.parts == PARTS:
            return "true"
        listed = ", ".join(map(str, self.hashes))
        some = f" or {unit_hash} in ({listed})" if listed else ""
        return f"({unit_hash} % {PARTS} < {self.parts}{some})"


class Flag(NamedTuple):
    """Something that is true or false of an impression.

    Attributes:
        audit: `null` for a missing value, `served` for one of `SERVED_FLAGS`.
        name: The column, by its canonical name or the log's own.
        sql: True where it is flagged; empty where no impression can be.
        among: Of which impressions; all of them if empty.
        variants: Of which variants it is counted; of all if empty.
    """

    audit: str
    name: str
    sql: str
    among: str = ""
    variants: Sequence[str] = ()


def flags(experiment: Experiment, shape: LogShape, never_null: frozenset[str]) -> list[Flag]:
    """The flags of each impression that these columns can give.

    Args:
        experiment: Its variants.
        shape: Its columns.
        never_null: Columns of the log in lower case that have no null.
    """
    log = shape.impressions
    columns = {
        "request_id": "i.request_id",
        "item_id": "i.item_id",
        "position": "i.position",
        "category": "i.own_category",
        "propensity": "i.propensity",
    }
    nulls = [
        Flag("null", name, "" if log.mapped[name].lower() in never_null else f"{sql} is null")
        for name, sql in columns.items()
        if name in log
    ]
    if "dwell" in log and "click" in log:
        clicked = "i.own_click = 1"
        nulls.append(Flag("null", "dwell", f"{clicked} and i.own_dwell_ms is null", clicked))
    serving: dict[str, list[str]] = {}
    for variant in experiment.variants:
        serving.setdefault(shape.score_of.get(variant, ""), []).append(variant)
    if "" not in serving:
        nulls += [
            Flag("null", "score", f"i.{score} is null", variants=variants)
            for score, variants in serving.items()
        ]
    mapped = {column.lower() for column in log.mapped.values()}
    nulls += [
        Flag(
            "null",
            name,
            "" if name.lower() in never_null else f"i.{quoted(own_name(name))} is null",
        )
        for name in shape.own_columns
        if name.lower() not in mapped
    ]
    return nulls + [
        Flag("served", name, f"coalesce(i.{name} > 0, false)")
        for name in SERVED_FLAGS
        if name in log
    ]


def audited_keys(engine: Engine, sample: Sample) -> str:
    """The keys of clicked impressions of the sample, with the hash of the unit."""
    unit = engine.hash64(["unit_id"])
    return f"select *, {unit} as unit_hash from clicked_keys where {sample.has(unit)}"


def audited_view(engine: Engine, chosen: list[Flag], has_lists: bool, sample: Sample) -> str:
    """One row per impression in the period of a unit of the sample."""
    listed = [
        f"cast(case when {sql} then 1 else 0 end as tinyint) as f_{number}"
        for number, flag in enumerate(chosen)
        for sql, number in ((flag.sql, 2 * number), (flag.among, 2 * number + 1))
        if sql
    ]
    lists = ["i.request_id", "i.position", "i.item_id"] if has_lists else []
    unit = engine.hash64(["i.unit_id"])
    return f"""
    select {", ".join([f"{unit} as unit_hash", "i.time_ms", *lists, *listed])}
    from seen i
    where i.in_period and i.set_aside is null and {sample.has(unit)}
    """
