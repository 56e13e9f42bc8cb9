"""Exact duplicate rows: found cheaply by a key they must share, and kept once."""

from collections.abc import Iterable, Sequence

from abeval.engines.protocol import Engine
from abeval.engines.queries import query
from abeval.engines.sql import quoted
from abeval.experiment.model import Cleaning
from abeval.logs.mapping import LogColumns

_MOST_POSITIONS = 62
"""Positions that fit a set of bits in a signed 64-bit number."""


def find_duplicates(engine: Engine, log: LogColumns, cleaning: Cleaning) -> int:
    """Make `kept_impressions`, and count the rows that repeat another.

    Rows that are equal in all columns are equal in any few of them: only rows that share a key
    with another are compared in full.

    Returns:
        The rows beyond the first of each; 0 where the check is switched off.
    """
    engine.view("kept_impressions", "select * from raw_impressions")
    if cleaning.duplicates == "unchecked":
        return 0
    key = _repeated_keys(engine, log, cleaning.duplicate_key)
    if _count(engine, "repeated_keys") == 0:
        return 0
    same = " and ".join(f"r.{quoted(c)} is not distinct from k.{quoted(c)}" for c in key)
    engine.table(
        "repeated_rows", f"select r.* from raw_impressions r join repeated_keys k on {same}"
    )
    engine.table("restored_rows", _once(log, cleaning.duplicate_key or list(log.types)))
    if cleaning.duplicates == "drop":
        engine.view(
            "kept_impressions",
            f"select r.* from raw_impressions r anti join repeated_keys k on {same} "
            "union all select * from restored_rows",
        )
    return _count(engine, "repeated_rows") - _count(engine, "restored_rows")


def _repeated_keys(engine: Engine, log: LogColumns, named: list[str] | None) -> Sequence[str]:
    """Make `repeated_keys`, and say its columns: the user's, or the fewest that tell rows apart."""
    if named is None and _positions_fit(engine, log):
        request, position = log.mapped["request_id"], log.mapped["position"]
        engine.view(
            "positioned_impressions",
            f"select {quoted(request)} as request_id, {quoted(position)} as position "
            "from raw_impressions",
        )
        found = query("log/repeated_positions")
        engine.table("repeated_keys", f"select request_id as {quoted(request)} from ({found})")
        return [request]
    key = named or _telling_columns(log)
    engine.view("keyed_impressions", f"select {_list(key)} from raw_impressions")
    engine.table("repeated_keys", query("log/repeated_keys"))
    return key


def _telling_columns(log: LogColumns) -> list[str]:
    if "impression_id" in log:
        return [log.mapped["impression_id"]]
    named = [log.mapped[name] for name in ("unit_id", "ts", "request_id", "item_id") if name in log]
    return named if len(named) > 1 else list(log.types)


def _positions_fit(engine: Engine, log: LogColumns) -> bool:
    if "request_id" not in log or "position" not in log:
        return False
    position, request = quoted(log.mapped["position"]), quoted(log.mapped["request_id"])
    ((low, high, missing),) = engine.rows(
        f"select min({position}), max({position}), "
        f"count_if({position} is null or {request} is null) from raw_impressions"
    )
    if low is None or high is None or missing:
        return False
    return float(low) >= 0 and float(high) <= _MOST_POSITIONS


def _once(log: LogColumns, identity: Sequence[str]) -> str:
    """One row of each identity: the first in the order of all columns, the same on every run."""
    if len(identity) == len(log.types):
        return "select distinct * from repeated_rows"
    copy = quoted(log.unused("copy"))
    return (
        f"select {_list(log.types)} from (select *, row_number() over ("
        f"partition by {_list(identity)} order by {_list(log.types)}) as {copy} "
        f"from repeated_rows) where {copy} = 1"
    )


def _list(columns: Iterable[str]) -> str:
    return ", ".join(quoted(column) for column in columns)


def _count(engine: Engine, relation: str) -> int:
    ((rows,),) = engine.rows(f"select count(*) from {relation}")
    return int(rows or 0)
