"""Keep rows that report one event twice once.

The log is on the engine as `raw_impressions` or `raw_units`; views read `kept_impressions`. Only
rows that share a key can be duplicates. Of rows with an id of the event, the id says which they
are, whatever else differs; other rows are the same event if they are equal but for how they were
delivered.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from abeval.engines.sql import Engine, fetch_int, query, quote, read_int
from abeval.experiment.sections import Cleaning
from abeval.logs.columns import name_copies_column, write_click
from abeval.logs.mapping import EVENT_IDS, LogColumns, list_compared_columns, tells_events_apart

_MOST_POSITIONS = 62
"""Number of positions that fit a set of bits in a signed 64-bit number."""

_MOST_HASHES = 1 << 24
"""Largest number of rows to hash: more would take more memory than a table of keys."""

_IDS = ("impression_id", "unit_id", "request_id")
"""Columns of which one identifies the subject of a row."""


class Repeats(NamedTuple):
    """Count rows that `kept_impressions` leaves out.

    Attributes:
        duplicates: Rows beyond the first of equal ones; None if duplicates were not checked
            (disabled, or nothing tells equal rows apart).
        unidentified: Rows without an `impression_id`, of a log that has some: not looked at.
        dropped: Duplicates that are set aside: all, unless the file says to keep them.
        units: Rows of a table of units that are set aside, because their unit has several.
    """

    duplicates: int | None
    dropped: int
    units: int
    unidentified: int


def find_repeats(engine: Engine, log: LogColumns, cleaning: Cleaning) -> Repeats:
    """Create `kept_impressions`, without rows that repeat another's event."""
    of_units = log.log == "units" and "unit_id" in log
    # By the ids alone most tables are known to have each unit once, and each row.
    once = of_units and _has_unique_keys(engine, "raw_units", [log.mapped["unit_id"]])
    duplicate_key = cleaning.duplicate_key
    has_ids = any(name in log for name in _IDS) and tells_events_apart(log)
    is_identified = duplicate_key is not None or has_ids
    checked = cleaning.duplicates != "unchecked" and is_identified
    looked_for = checked and not (once and duplicate_key is None)
    # A table whose units are unique has no equal rows: the costly search is skipped.
    facts = _read_id_facts(engine, log, duplicate_key) if looked_for else _IdFacts()
    found = _separate_repeats(engine, log, duplicate_key, facts) if looked_for else None
    drops = found is not None and cleaning.duplicates == "drop"
    kept, duplicates = f"select * from {log.raw}", 0 if found is None else found.copies
    if found is not None and drops:
        unrepeated = f"select r.* from {log.raw} r anti join repeated_keys k on {found.same}"
        kept = f"{unrepeated} union all select {_quote_list(log.types)} from first_rows"
    keep_impressions(engine, kept)
    units = _set_units_aside(engine, log) if of_units and not once else 0
    reported = duplicates if checked else None
    return Repeats(reported, duplicates if drops else 0, units, facts.unidentified)


def _has_unique_keys(engine: Engine, rows: str, key: Sequence[str]) -> bool:
    """Tell whether no two rows have the same key, by 64 bits of its hash."""
    if not engine.in_process or engine.count(rows) > _MOST_HASHES:
        return False
    ordered = np.sort(engine.arrays(f"select hash({_quote_list(key)}) as h from {rows}")["h"])
    return not bool((ordered[1:] == ordered[:-1]).any())


def _set_units_aside(engine: Engine, log: LogColumns) -> int:
    """Set the rows of units with several rows aside, and count them.

    They differ, and nothing says which is the unit's: any choice could favour a variant.
    """
    unit = quote(log.mapped["unit_id"])
    repeated = (
        f"select {unit} as unit_id, count(*) as n from kept_impressions "
        f"where {unit} is not null group by {unit} having count(*) > 1"
    )
    engine.table("repeated_units", repeated)
    rows = fetch_int(engine, "select coalesce(sum(n), 0) from repeated_units")
    if rows:
        engine.table("unit_rows", "select * from kept_impressions")
        keep_impressions(
            engine,
            f"select r.* from unit_rows r anti join repeated_units u on r.{unit} = u.unit_id",
        )
    return rows


def keep_impressions(engine: Engine, sql: str) -> None:
    """Create `kept_impressions`, the rows that all views of the log read."""
    engine.view("kept_impressions", sql)


class _IdFacts(NamedTuple):
    """Tell what the ids of a log's rows look like.

    Attributes:
        positions_fit: Whether a request's positions fit a set of bits in one number.
        unidentified: Rows without an `impression_id`, of a log that has some.
    """

    positions_fit: bool = False
    unidentified: int = 0


def _list_position_columns(log: LogColumns) -> list[str]:
    return [log.mapped[name] for name in ("request_id", "position") if name in log]


def _read_id_facts(engine: Engine, log: LogColumns, duplicate_key: list[str] | None) -> _IdFacts:
    """Read the range of positions, and how many rows have no id, in one pass."""
    columns, counts_missing = _list_position_columns(log), "impression_id" in log
    if duplicate_key is not None:
        counts_missing = False
        columns = columns if {*columns} <= {*duplicate_key} else []
    has_positions = len(columns) == 2
    if not (has_positions or counts_missing):
        return _IdFacts()
    request, position = map(quote, columns) if has_positions else ("null", "null")
    unidentified = f"count_if(not ({write_has_id(log)}))" if counts_missing else "0"
    ((low, high, missing, without_id),) = engine.rows(
        f"select min({position}), max({position}), "
        f"count_if({position} is null or {request} is null), {unidentified} from {log.raw}"
    )
    has_all = not missing and low is not None and high is not None
    fits = has_all and float(low or 0) >= 0 and float(high or 0) <= _MOST_POSITIONS
    return _IdFacts(fits, read_int(without_id))


class _Found(NamedTuple):
    """Describe the rows that repeat another.

    Attributes:
        same: The join of rows `r` with the keys `k` that several share.
        copies: Number of rows beyond the first of equal ones.
    """

    same: str
    copies: int


def _separate_repeats(
    engine: Engine, log: LogColumns, duplicate_key: list[str] | None, facts: _IdFacts
) -> _Found | None:
    """Create `repeated_rows` and `first_rows`; None if no row repeats another.

    `first_rows` has the row of each event that stays, and the number of its `copies`.
    """
    event = None if duplicate_key else _find_event_key(log)
    if event is not None:
        found = _match_repeats(engine, log, event, event, f"{quote(event[0])} is not null", facts)
        # An id of which most rows are repetitions is that of a list or a page.
        if found is None or 2 * found.copies <= engine.count(log.raw):
            return found
    identity = duplicate_key or list_compared_columns(log)
    names = ("impression_id", "unit_id", "ts", "request_id", "item_id")
    # A short key is searched first: most rows share it with none.
    key = duplicate_key or [log.mapped[name] for name in names if name in log]
    if len(key) < 2 and not duplicate_key and log.log != "units":
        # All columns are compared, so those that were not read yet are needed now.
        engine.complete(log.raw)
        key = identity
    is_identified = "true" if duplicate_key else write_has_id(log)
    return _match_repeats(engine, log, key, identity, is_identified, facts)


def _find_event_key(log: LogColumns) -> list[str] | None:
    """Return the event's id with its unit, list and item; None without an id."""
    ids = [column for column in log.types if column.lower() in EVENT_IDS]
    ids = [log.mapped["impression_id"]] if "impression_id" in log else ids
    if log.log == "units" or not ids:
        return None
    names = ("unit_id", "request_id", "item_id", "position")
    return [ids[0], *(log.mapped[name] for name in names if name in log)]


def _match_repeats(
    engine: Engine,
    log: LogColumns,
    key: Sequence[str],
    identity: Sequence[str],
    where: str,
    facts: _IdFacts,
) -> _Found | None:
    """Separate the rows that share a key, and the first of each identity."""
    steps = dict[str, str]()
    if facts.positions_fit and {*_list_position_columns(log)} <= {*identity}:
        key = _list_position_columns(log)
        request, position = map(quote, key)
        steps["positioned_impressions"] = (
            f"select {request} as request_id, {position} as position from {log.raw}"
        )
        where = f"{request} in (select request_id from ({query('1_log/repeated_positions')}) as p)"
    elif log.log != "units" and _has_unique_keys(engine, log.raw, key):
        return None
    steps["keyed_impressions"] = f"select {_quote_list(key)} from {log.raw} where {where}"
    engine.table("repeated_keys", engine.write_steps(steps, query("1_log/repeated_keys")))
    if engine.count("repeated_keys") == 0:
        return None
    engine.complete(log.raw)
    same = " and ".join(f"r.{quote(c)} is not distinct from k.{quote(c)}" for c in key)
    repeated = {"repeated_rows": f"select r.* from {log.raw} r join repeated_keys k on {same}"}
    engine.table("first_rows", engine.write_steps(repeated, _write_first_rows(log, identity)))
    copies = f"select sum({name_copies_column(log)} - 1) from first_rows"
    return _Found(same, fetch_int(engine, copies))


def write_has_id(log: LogColumns) -> str:
    """Write SQL of whether a row has an id."""
    # Rows without any id may be of different people, so they are never duplicates.
    ids = ["impression_id"] if "impression_id" in log else [name for name in _IDS if name in log]
    return " or ".join(f"{quote(log.mapped[name])} is not null" for name in ids)


def _write_first_rows(log: LogColumns, identity: Sequence[str]) -> str:
    """Write the first row of each identity with its copies, alike on every run.

    The first is clicked if any copy is: it may have been sent again once it was.
    """
    order = [*([f"{write_click(log)} desc"] if "click" in log else []), *map(quote, log.types)]
    rank_column = quote(log.make_unused_name("place"))
    return (
        f"select * from (select *, row_number() over (partition by {_quote_list(identity)} "
        f"order by {', '.join(order)}) as {rank_column}, count(*) over (partition "
        f"by {_quote_list(identity)}) "
        f"as {name_copies_column(log)} from repeated_rows) where {rank_column} = 1"
    )


def _quote_list(columns: Iterable[str]) -> str:
    return ", ".join(quote(column) for column in columns)
