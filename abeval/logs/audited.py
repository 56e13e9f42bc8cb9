"""What the audits of a log read: the impressions of analysed units, narrow, each with its flags.

`aggregates/audits.py` creates these relations after `prepare.py`, and runs the queries of
`queries/audit/` on them.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from abeval.engines.protocol import Engine
from abeval.engines.sql import quoted
from abeval.experiment.model import Experiment
from abeval.logs.mapping import SERVED_FLAGS, own_name
from abeval.logs.run import Run
from abeval.logs.shape import LogShape

CLUSTERS = 64
"""Units are put into so many groups, which are the clusters of every test of an audit."""

PARTS = 4096
"""Units are put into so many parts by their hash, of which a sample has some."""


class Sample(NamedTuple):
    """The impressions that are read; all of them without any of these.

    Attributes:
        spans: The first and the last millisecond of each span of time.
        parts: Of the units of so many of `PARTS`, where rows have no time.
        hashes: Only of these units.
    """

    spans: Sequence[tuple[int, int]] = ()
    parts: int = PARTS
    hashes: Sequence[int] = ()

    def has(self, unit_hash: str, kind: str | None = None) -> str:
        """Write the SQL that tells whether an impression is of the sample.

        Args:
            unit_hash: SQL of the hash of its unit.
            kind: Type of its column `own_ts`, if that is a time in UTC: of a column as it is the
                engine knows between which times it lies in each part of a file.
        """
        tests = []
        if self.spans:
            column = "time_ms" if kind is None else "own_ts"
            spans = (
                f"{column} >= {_bound(first, kind)} and {column} < {_bound(last + 1, kind)}"
                for first, last in self.spans
            )
            tests.append(f"({' or '.join(spans)})")
        if self.parts < PARTS:
            tests.append(f"{unit_hash} % {PARTS} < {self.parts}")
        if self.hashes:
            tests.append(f"{unit_hash} in ({', '.join(map(str, self.hashes))})")
        return " and ".join(tests) or "true"


def _bound(milliseconds: int, kind: str | None) -> str:
    if kind is None:
        return str(milliseconds)
    utc = datetime(1970, 1, 1) + timedelta(milliseconds=milliseconds)
    return f"cast('{utc}{'' if kind == 'TIMESTAMP' else '+00:00'}' as {kind})"


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

    def missing(name: str, column: str, sql: str) -> Flag:
        return Flag("null", name, "" if column.lower() in never_null else f"{sql} is null")

    nulls = [
        missing(name, log.mapped[name], f"i.{'own_' if name == 'category' else ''}{name}")
        for name in ("request_id", "item_id", "position", "category", "propensity")
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
    own = (name for name in shape.own_columns if name.lower() not in mapped)
    served = (name for name in SERVED_FLAGS if name in log)
    return [
        *nulls,
        *(missing(name, name, f"i.{quoted(own_name(name))}") for name in own),
        *(Flag("served", name, f"coalesce(i.{name} > 0, false)") for name in served),
    ]


def audited_keys(engine: Engine, sample: Sample) -> str:
    """The keys of clicked impressions of the sample, with the hash of the unit."""
    unit = engine.hash64(["unit_id"])
    return f"select *, {unit} as unit_hash from clicked_keys where {sample.has(unit)}"


def show_audited(
    run: Run, shape: LogShape, sample: Sample, chosen: Sequence[Flag], has_lists: bool
) -> None:
    """Show one row per impression in the period of the sample, as `audited`."""
    engine, log, source = run.engine, shape.impressions, run.experiment.logs.rows
    listed = [
        f"cast(case when {sql} then 1 else 0 end as tinyint) as f_{number}"
        for number, flag in enumerate(chosen)
        for sql, number in ((flag.sql, 2 * number), (flag.among, 2 * number + 1))
        if sql
    ]
    item = f"case when i.item_id is not null then {engine.hash64(['i.item_id'])} % {_ITEMS} end"
    lists = ["i.request_id", "i.position", f"{item} as item"] if has_lists else []
    unit = engine.hash64(["i.unit_id"])
    is_utc = source.ts_zone is None and log.type_of("ts") in _UTC
    sql = f"""
    select {", ".join([f"{unit} as unit_hash", "i.time_ms", *lists, *listed])}
    from seen i
    where i.in_period and i.set_aside is null
      and {sample.has(unit, log.type_of("ts") if is_utc else None)}
    """
    engine.view("audited", sql)


_ITEMS = 2**31 - 1
"""Items are told apart by hashes below this, so that sums of them fit into 64 bits."""

_UTC = ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE")
