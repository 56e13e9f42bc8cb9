"""Guess which log each table is: clicks, items, exposures, events, units."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import permutations
from typing import Literal

from abeval.drafts import guess, words
from abeval.drafts.columns import FEW, Column, Table
from abeval.drafts.match import (
    ALONE,
    MIN_SHARE,
    Key,
    Match,
    find_keys,
    has_clock,
    match_columns,
    measure_join,
)
from abeval.drafts.origins import DONE, rate_impression_name
from abeval.drafts.values import guess_values
from abeval.engines.sql import Engine
from abeval.experiment.sources import CANONICAL_COLUMNS, IDS, OWN_TABLE

Kind = Literal["sums", "impressions", "items", "clicks", "exposures", "units", "events"]

_MIN_FOLLOWING_SHARE = 0.1
"""Least share of rows after an impression of their unit for them to be events."""


_MIN_SHARED = 0.02
"""Least share of rows of known units for events that say by their names what they are."""

_ASK_OTHERS = (
    "{share:.0%} of its rows have a unit of the impressions, and only these count: are all the "
    "others of units outside of the experiment, or are ids written in two ways?"
)

_ROWS = ("item_id", "request_id", "impression_id")
"""Roles of ids that no unit has."""


@dataclass(frozen=True)
class Log:
    """A table as a log: its columns by entries such as `unit_id`, `ts`, `item_id`.

    Attributes:
        variant: The column of which most units have one value.
        alias: Its name in the experiment file, of events.
        kind: What it is; None where that is not clear, and it is not used.
        join: What ties clicks to impressions, where the experiment file has to say it.
        reason: Why it is of this kind, or is not used.
        question: What a person has to say of it; empty where it is plain.
    """

    table: Table
    columns: Mapping[str, Column]
    variant: Column | None = None
    kind: Kind | None = None
    alias: str = ""
    join: tuple[str, ...] = ()
    reason: str = ""
    question: str = ""

    @property
    def name(self) -> str:
        """Return the name of the file, or of the type of the rows."""
        return self.table.origin.name

    @property
    def entry(self) -> str:
        """Return the name of the log below `logs` in the experiment file."""
        return ".".join(filter(None, [self.kind, self.alias]))

    @property
    def is_clicks(self) -> bool:
        """Tell whether the log is named like clicks."""
        return words.mentions_role(self.name, "clicks")

    @cached_property
    def outcomes(self) -> list[Column]:
        """List the numeric columns that are outcomes by their names."""
        return [column for column in self.numbers if column.mentions_role("outcome")]

    @cached_property
    def numbers(self) -> list[Column]:
        """List the numeric columns that may be outcomes, whatever their names."""
        taken = {c.name for e, c in self.columns.items() if e in ("unit_id", "ts")}
        ids, times = (*_ROWS, "position", "dwell"), guess.list_times(self.table)
        others = (c for c in self.table.columns if c.has_role_name(*ids) or c in times)
        taken |= {c.name for c in others}
        columns = [g.column for g in guess_values(self.table, taken) if g.entry == "outcome"]
        return [column for column in columns if column is not None]

    @property
    def is_event(self) -> bool:
        """Tell whether rows are events such as orders, by the name or the columns."""
        return (words.mentions_role(self.name, *DONE) and not self.is_clicks) or bool(self.outcomes)

    @property
    def has_one_row(self) -> bool:
        """Tell whether each unit has one row."""
        return "unit_id" in self.columns and self.columns["unit_id"].distinct == self.table.rows

    @property
    def shows_rows(self) -> bool:
        """Tell whether rows may be impressions: a unit, and clicks, items or positions."""
        return "unit_id" in self.columns and bool(self.columns.keys() - {"unit_id", "ts"})


def _make_log(engine: Engine, table: Table) -> Log:
    """Make a log of a table: find its columns, and the variant of its units."""
    ids = [c for c in table.columns if c.may_be_id and c.has_role_name("unit")]
    # A table of few units, such as refunds, has ids of few values.
    unit = guess.guess_unit(table).column or next(iter(ids), None)
    taken = set() if unit is None else {unit.name}
    canonical = {g.entry: g.column for g in guess.guess_log_columns(table, taken)}
    every = {"unit_id": unit, "ts": guess.guess_time(table).column, **canonical}
    columns = {entry: column for entry, column in every.items() if column is not None}
    return Log(table, columns, guess.guess_variant(engine, table).column)


def choose_main_log(engine: Engine, tables: Sequence[Table]) -> tuple[Log, list[Log]]:
    """Choose the main table, and classify the others.

    It is the one named like impressions, else the longest one with units and variants. A table
    that only assigns variants is not the main one if another has impressions.
    """

    def rank(log: Log) -> tuple[int, bool, bool, int]:
        name_rank = rate_impression_name(log.name) if "unit_id" in log.columns else 0
        shows = log.shows_rows and not log.is_event and not log.is_clicks
        return name_rank, shows, log.variant is not None, log.table.rows

    logs = [_make_log(engine, table) for table in _find_shared_units(engine, tables)]
    ranked = sorted(logs, key=rank, reverse=True)
    # Where names leave it open, the main table is the one that clicks follow.
    is_open = rank(ranked[0])[0] == 0 and len(logs) == 2
    choices = [
        _classify_logs(engine, [log for log in logs if log is not main], main)
        for main in (ranked if is_open else ranked[:1])
    ]
    followed = (c for c in choices if any(log.kind == "clicks" for log in c[1]))
    return next(followed, choices[0])


def _find_shared_units(engine: Engine, tables: Sequence[Table]) -> list[Table]:
    """Find the units that no column name tells, by the rows of two tables.

    Such a unit has one row in one table, and several rows in the other.
    """
    units = {t.relation: guess.guess_unit(t).column for t in tables}
    names: dict[str, str] = {}
    for table, other in permutations(tables, 2):
        of_one, of_many = units[table.relation], units[other.relation]
        if of_one is not None and of_many is not None:
            continue
        for match in match_columns(engine, other, table):
            is_key = match.seen.distinct == table.rows > FEW and match.column.kind != "real"
            again = match.column.distinct < match.column.rows and match.share >= ALONE
            is_unit = of_one in (None, match.seen) and of_many in (None, match.column)
            if is_key and again and is_unit and _splits_units(engine, other, match):
                names |= {table.relation: match.seen.name, other.relation: match.column.name}
                break
    return [replace(table, shared_unit=names.get(table.relation, "")) for table in tables]


def _splits_units(engine: Engine, table: Table, match: Match) -> bool:
    """Tell whether shared ids may be units: not of items, and with one variant each."""
    if match.column.has_role_name(*_ROWS) or match.seen.has_role_name(*_ROWS):
        return False
    as_unit = replace(table, shared_unit=match.column.name)
    is_told = bool(guess.list_variant_candidates(table))
    return not is_told or guess.guess_variant(engine, as_unit).column is not None


def _classify_logs(engine: Engine, logs: Sequence[Log], main: Log) -> tuple[Log, list[Log]]:
    """Guess the kinds of the other tables, each kind but events once.

    Returns the main log, with the columns that clicks name too, and the others.
    """
    other_logs, taken = list[Log](), {*CANONICAL_COLUMNS, OWN_TABLE}
    # A table named like clicks is the first to be tried as clicks.
    for log in sorted(logs, key=lambda log: not log.is_clicks):
        kinds = {candidate.kind for candidate in other_logs} - {"events", None}
        matches = match_columns(engine, log.table, main.table)
        unit_log = _guess_unit_log(engine, log, main, matches)
        clicks, seen = _guess_clicks(engine, log, main, matches, unit_log)
        readings = [_guess_items(log, main, matches), clicks, unit_log]
        # Rows of nothing but a unit, its variant and a time are no clicks, whatever ids they share.
        if unit_log.kind == "exposures" and not log.is_clicks:
            readings.remove(clicks)
        twice = replace(log, reason="another file has these already")
        choice = next((c for c in readings if c and c.kind not in kinds), twice)
        if choice.kind == "events":
            choice = replace(
                choice, alias=words.choose_name(taken, words.slugify_name(choice.name))
            )
        if choice is clicks and choice.kind == "clicks":
            main = replace(main, columns={**main.columns, **seen})
        other_logs.append(choice)
    return main, other_logs


def _guess_items(log: Log, main: Log, matches: Sequence[Match]) -> Log | None:
    """Guess whether each row is an item of the impressions."""
    is_called_so = words.mentions_role(log.name.rstrip("s"), "item_id")
    seen, unit = main.columns.get("item_id"), main.columns.get("unit_id")
    if seen is None or "ts" in log.columns:
        return None
    matches = [match for match in matches if match.share >= MIN_SHARE]
    unit_ids = {m.column.name for m in matches if unit and m.seen.name == unit.name}
    for match in matches:
        is_item = match.seen.name == seen.name and match.column.distinct == log.table.rows
        if is_item and (is_called_so or match.is_named_so or match.column.name not in unit_ids):
            columns = {e: c for e, c in log.columns.items() if e == "category"}
            columns |= {"item_id": match.column}
            return replace(log, kind="items", columns=columns, reason="each row is an item")
    return None


def _guess_clicks(
    engine: Engine, log: Log, main: Log, matches: Sequence[Match], unit_log: Log
) -> tuple[Log | None, Mapping[str, Column]]:
    """Guess whether rows are clicks: most follow an impression of the same keys.

    Returns them with the columns of the impressions that they name. A table named like clicks that
    follows no impressions is `unit_log`, what its rows are of units, with a question.
    """
    is_other = log.is_event or "click" in main.columns
    # There are no more clicks than impressions.
    if log.table.rows > main.table.rows or (is_other and not log.is_clicks):
        return None, {}
    question = "no column has the ids of impressions, items or requests, so it gives no CTR"
    unit = main.columns.get("unit_id")
    names_rows = bool({*_ROWS} & log.columns.keys() & main.columns.keys())
    for key in find_keys(engine, log.table, main.table, matches, unit):
        if key.names_no_item:
            # Without an item a click is of the last row before it: of a day, any row may be.
            is_told = key.times is not None and has_clock(engine, main.table, key.times[1])
            is_clicks = log.is_clicks and not log.is_event and not names_rows
            if not (is_clicks and is_told and key.after >= ALONE):
                continue
        if (key.after if key.needs_time else key.matched) >= MIN_SHARE:
            seen = {entry: match.seen for entry, match in key.columns.items()}
            seen |= {} if key.times is None else {"ts": key.times[1]}
            return _make_clicks(log, key), seen
        question = (
            f"{key.matched:.0%} of its rows have ids of an impression, {key.after:.0%} of an "
            "earlier one, so it gives no CTR: are ids and times written alike in both files?"
        )
    return (replace(unit_log, question=question), {}) if log.is_clicks else (None, {})


def _make_clicks(log: Log, key: Key) -> Log:
    """Make clicks of rows that a key ties to impressions, and note the doubts."""
    columns = {entry: match.column for entry, match in key.columns.items()}
    if key.times is not None:
        columns["ts"] = key.times[0]
    if "dwell" in log.columns:
        columns["dwell"] = log.columns["dwell"]
    named = " and ".join(match.column.name for match in key.columns.values())
    reason = f"{key.matched:.1%} of the rows have the {named} of an impression"
    reason += f", {key.after:.1%} of an earlier one" if key.needs_time else ""
    question = "" if log.is_clicks or "dwell" in columns else "are its rows clicks?"
    if key.names_no_item:
        question = f"it names no item: is each click on the last row of its {named} before?"
    elif key.needs_time and key.soon < 0.9 * key.after:
        question = (
            f"{1 - key.soon / key.after:.0%} of the clicks come later than 24 hours after "
            "their impression, and do not count: should attribution_hours be longer?"
        )
    join = () if key.join == ("impression_id",) else key.join
    log = replace(log, kind="clicks", columns=columns, join=join)
    return replace(log, reason=reason, question=question)


def _guess_unit_log(engine: Engine, log: Log, main: Log, matches: Sequence[Match]) -> Log:
    """Guess the kind of a table that shares units with the main one."""
    unit, seen = log.columns.get("unit_id"), main.columns.get("unit_id")
    matched = [m for m in matches if m.share >= (MIN_SHARE if m.is_named_so else ALONE)]
    of_units = [m.column for m in matched if seen is not None and m.seen.name == seen.name]
    if of_units and (unit is None or unit.name not in {column.name for column in of_units}):
        unit = of_units[0]
    if unit is None or seen is None:
        return replace(log, reason="no column has the units or the items of the impressions")
    log = replace(log, columns={**log.columns, "unit_id": unit})
    time, main_time = log.columns.get("ts"), main.columns.get("ts")
    times = None if time is None or main_time is None else (time, main_time)
    share, after, _ = measure_join(engine, log.table, main.table, [(unit, seen)], times)
    if share < MIN_SHARE:
        # Orders of a whole shop have other people's, too.
        is_whole = log.is_event and times is not None and unit.name == seen.name
        if not is_whole or share < _MIN_SHARED:
            few = f"only {share:.0%} of its rows have a unit of the impressions"
            return replace(log, reason=few)
        log = replace(log, question=_ASK_OTHERS.format(share=share))
    expected = (unit, time, *guess.list_variant_candidates(log.table))
    is_bare = time is not None and all(column in expected for column in log.table.columns)
    # A sign-up, before what a unit saw, describes it; of events after it a unit may have one each.
    follows = not log.has_one_row or after >= _MIN_FOLLOWING_SHARE
    is_dated = time is not None and (is_bare or follows or time.has_role_name("time"))
    columns = {e: c for e, c in log.columns.items() if e == "unit_id" or (e == "ts" and is_dated)}
    is_placing = is_bare or (log.has_one_row and not log.shows_rows and not main.variant)
    if log.variant and is_placing:
        columns["variant"] = log.variant
        return replace(log, kind="exposures", columns=columns, reason="units with their variant")
    if not is_dated and log.has_one_row:
        return replace(log, kind="units", columns=columns, reason="each row is a unit")
    if not is_dated:
        return replace(log, reason="units have several rows, and no row has a time")
    if "ts" not in main.columns:
        return replace(log, reason="its rows have times, but the impressions have none")
    return replace(log, kind="events", columns=columns, reason="rows of units, with times")


def find_casts(log: Log, main: Log) -> dict[str, str]:
    """Find casts for ids that are text in one table and numbers in the other."""
    casts = {}
    unit = main.columns["unit_id"].name if "unit_id" in main.columns else ""
    # Columns of canonical names are ids, too.
    names = {c.name: c for c in log.table.columns if c.name in (unit, *IDS)}
    by_name = {"unit_id" if name == unit else name: column for name, column in names.items()}
    for entry, column in {**by_name, **log.columns}.items():
        seen = main.columns.get(entry, column)
        is_other = (seen.kind == "text") != (column.kind == "text") or column.kind == "real"
        if entry in IDS and is_other:
            casts[column.name] = "varchar" if seen.kind == "text" else "bigint"
    return casts
