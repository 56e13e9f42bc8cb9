"""Make tables of files, and guess which log each table is.

Files of the same columns are one table; rows of several types are several.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from abeval.drafts import guess, words
from abeval.drafts.columns import FEW, Column, Origin, Table
from abeval.drafts.values import guess_values
from abeval.engines.copies import likely_encodings
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.sources import Files, find_files, is_table
from abeval.engines.sql import Engine, literal, quote
from abeval.engines.text_files import decimal_commas
from abeval.errors import LogError
from abeval.experiment.load import check_read_options, make_source
from abeval.experiment.sources import CANONICAL_COLUMNS, IDS, OWN_TABLE
from abeval.files import real

DONE = ("clicks", "outcome", "events")
"""Roles of words for what units did, not saw."""


def make_tables(
    engine: DuckDBEngine, files: Sequence[Path], folder: Path, read: Mapping[str, str]
) -> list[Table]:
    """Make tables of files, each a relation of the engine."""
    groups: dict[object, tuple[Origin, list[Path]]] = {}
    for file in (member for path in files for member in _members(engine, path, read)):
        for columns, origin in _readings(engine, file, read):
            # Files with the same columns, read alike, are one table.
            key = columns, *origin.read.items()
            groups.setdefault(key, (origin, []))[1].append(file)
    tables = [
        _table(engine, f"raw_table_{index}", origin, group, folder)
        for index, (origin, group) in enumerate(groups.values())
    ]
    return [part for table in tables for part in _parts(engine, table, len(tables) == 1)]


def _table(
    engine: DuckDBEngine, relation: str, origin: Origin, files: Sequence[Path], folder: Path
) -> Table:
    """Make one table of files; each file may have the rows of one variant."""
    paths = {"": [str(file) for file in files]}

    def add_table(**entries: object) -> Table:
        source = {"path": paths.get("", paths), **origin.read, **entries}
        engine.add_log(relation, make_source(source))
        relative = {
            variant: [_relative_path(folder, path) for path in group]
            for variant, group in paths.items()
        }
        name = origin.read.get("table") or _name(files[0])
        return guess.inspect_table(engine, relation, replace(origin, name=name, paths=relative))

    table = add_table()
    files_by_variant = _files_by_variant(files, origin.read.get("format", "auto"))
    if files_by_variant and guess.guess_variant(engine, table).column is None:
        paths = files_by_variant
        table = add_table()
    list_candidates = guess.list_variant_candidates
    variants = list_candidates(table) or list_candidates(table, weakly=True)
    if variants and variants[0].kind == "boolean":
        # In text files, names of variants are text, such as Yes.
        table = add_table(columns={"variant": variants[0].name})
    return table


def _readings(
    engine: DuckDBEngine, file: Path, options: Mapping[str, str]
) -> Iterator[tuple[tuple[str, ...], Origin]]:
    """Yield the columns of a file, or of each table of a database, and its origin."""
    format = check_read_options(options).get("format", "auto")
    plain = make_source({"path": str(file), "format": format})
    files = find_files("file", plain, Path())
    usable = {key: value for key, value in options.items() if files.takes(key)}
    tables = [] if "table" in usable else engine.tables_in(files)
    several = [{**usable, "table": table} for table in tables] if len(tables) > 1 else [usable]
    for entries in several:
        yield _reading(engine, files, file, entries)


def _reading(
    engine: DuckDBEngine, files: Files, file: Path, read: dict[str, str]
) -> tuple[tuple[str, ...], Origin]:
    """Read a file; find its encoding and decimal sign if the defaults fail.

    Args:
        engine: Where the file becomes a relation.
        files: The file, as found in its folder.
        file: Its path.
        read: Options of reading, such as `encoding`; those that are found are added.

    Returns the names of its columns, and where they come from.
    """
    relation = f"raw_file {file} {read.get('table', '')}"
    reasons, questions = dict[str, str](), list[str]()

    def add() -> Mapping[str, str]:
        engine.add_log(relation, make_source({"path": str(file), **read}))
        # It is read again under its own name: the engine keeps what it has parsed.
        engine.spare(relation)
        return engine.columns(relation)

    def change(key: str, value: str, reason: str, is_doubtful: bool) -> Mapping[str, str]:
        read[key] = value
        reasons[key] = f"{'not sure' if is_doubtful else 'likely'}: {reason}"
        questions.extend([f"{key}: is it {value!r}? {reason}"] if is_doubtful else [])
        return add()

    try:
        columns = add()
    except LogError:
        is_text = "encoding" not in read and files.kind == "csv"
        encodings = next(filter(None, map(likely_encodings, files.read)), {}) if is_text else {}
        if not encodings:
            raise
        examples = ", ".join(f"{word!r} in {encoding}" for encoding, word in encodings.items())
        reason = f"it is not UTF-8, and has words such as {examples}"
        columns = change("encoding", next(iter(encodings)), reason, len(encodings) > 1)
    if files.takes("decimal") and "decimal" not in read:
        texts = [name for name, kind in columns.items() if kind == "VARCHAR"]
        commas = decimal_commas(relation, texts, engine.rows)
        for column, text in sorted(commas.items(), key=lambda item: _is_of_thousands(item[1]))[:1]:
            reason = f"{column} has values such as {text}"
            columns = change("decimal", ",", reason, _is_of_thousands(text))
    return tuple(columns), Origin(read=read, reasons=reasons, questions=tuple(questions))


def _is_of_thousands(number: str) -> bool:
    """Tell whether the comma of a number may separate thousands."""
    # 1,234 may be either number; 12,34 cannot be.
    return re.fullmatch(r"[+-]?\d{1,3},\d{3}", number.strip()) is not None


def _members(engine: DuckDBEngine, file: Path, read: Mapping[str, str]) -> list[Path]:
    """List the logs in a folder of several logs; else the file or folder itself."""
    if is_table(file) or not file.is_dir():
        return [file]
    inside = sorted(path for path in file.iterdir() if path.name[0] not in "._")
    logs = [path for path in inside if is_table(path) or path.is_dir()]
    names = {_split_file_name(path) for path in logs}
    # `day=2026-09-14` is a partition of one log.
    if not 1 < len(names) <= FEW or any("=" in path.name for path in logs):
        return [file]
    kinds = {columns for path in logs for columns, _ in _readings(engine, path, read)}
    return [file] if len(kinds) == 1 else logs


def _split_file_name(path: Path) -> tuple[str, ...]:
    """Split the name of a file into words, without numbers."""
    # Numbers are those of parts and days, which do not make another log.
    return tuple(word for word in words.words(path.name.split(".")[0]) if not word.isdigit())


def _name(file: Path) -> str:
    """Name a table by its file; files with numbers for names, by their folder."""
    path = real(file)
    return (path if _split_file_name(path) else path.parent).name.split(".")[0]


def _files_by_variant(files: Sequence[Path], format: str) -> dict[str, list[str]]:
    """Group files by the variant in their names; empty if none names a control."""
    paths = make_source({"path": [str(file) for file in files], "format": format})
    every = find_files("files", paths, Path()).read
    top = Path(os.path.commonpath([Path(file).parent for file in every]))
    name_words = {
        file: [
            w for part in Path(file).relative_to(top).parts for w in _split_file_name(Path(part))
        ]
        for file in every
    }
    common = set.intersection(*({*entries} for entries in name_words.values()))
    variants: dict[str, list[str]] = {}
    for file, entries in name_words.items():
        variants.setdefault("_".join(w for w in entries if w not in common), []).append(file)
    if not 1 < len(variants) <= guess.MOST_VARIANTS or not any(map(guess.names_control, variants)):
        return {}
    return {variant: _shorten_paths(entries, format) for variant, entries in variants.items()}


def _shorten_paths(files: list[str], format: str) -> list[str]:
    """Replace all files of a folder by the folder."""
    top = os.path.commonpath([Path(file).parent for file in files])
    folder = make_source({"path": top, "format": format})
    is_all = len(files) > 1 and find_files("files", folder, Path()).read == files
    return [top] if is_all else files


def _relative_path(folder: Path, path: str) -> str:
    """Return a path relative to the folder of the experiment file, if it is inside."""
    target, home = real(path), real(folder)
    return (target.relative_to(home) if target.is_relative_to(home) else target).as_posix()


def _parts(engine: Engine, table: Table, is_alone: bool) -> Iterator[Table]:
    """Split a table by the types of its rows, such as impressions and clicks.

    Impressions may also be in another table, unless the table is alone.
    """
    column = next(filter(_types_rows, table.columns), None)
    is_clicked = any(candidate.has_role_name("click") for candidate in table.columns)
    if (
        column is None
        or is_clicked
        or not any(candidate.has_role_name("unit") for candidate in table.columns)
    ):
        yield table
        return
    type_names = ", ".join(map(repr, column.values))
    rate = _rate_impression_name
    views = sorted(filter(rate, column.values), key=rate, reverse=True)
    is_coded = column.kind != "text"
    if is_coded or (is_alone and not views):
        question = f"{column.name}: which of {type_names} is an impression, and which a click?"
        is_asked = is_coded or any(words.mentions_role(value, "clicks") for value in column.values)
        yield guess.add_question(table, question) if is_asked else table
        return
    # Names of types of rows need no quotes.
    name = column.name if column.name.isidentifier() else quote(column.name)
    for index, value in enumerate(column.values):
        relation, where = f"{table.relation}_{index}", f"{name} = {literal(value)}"
        part = guess.filter_rows(engine, table, relation, where)
        part = replace(part, origin=replace(part.origin, name=value))
        question = f"{column.name}: are the impressions {value!r}? The types are {type_names}"
        yield (guess.add_question(part, question) if len(views) > 1 and value == views[0] else part)


def _rate_impression_name(name: str) -> int:
    """Rate how clearly a name means impressions; 0 if it does not."""
    ranks = words.LISTS["shown"]
    scores = (len(ranks) - ranks[word] for word in words.words(name) if word in ranks)
    return max(scores, default=0)


def _types_rows(column: Column) -> bool:
    """Tell whether a column has the types of rows, in words or in codes."""
    if not column.has_role_name("event_type") or not 2 <= column.distinct <= FEW:
        return False
    if column.kind == "text":
        return any(words.mentions_role(value, *DONE) for value in column.values)
    return column.kind == "integer" and words.words(column.name)[1:] == ("type",)


Kind = Literal["sums", "impressions", "items", "clicks", "exposures", "units", "events"]

_MIN_JOIN_SHARE = 0.5
"""Least share of rows or units in the main table for two tables to join."""

_MIN_FOLLOWING_SHARE = 0.1
"""Least share of rows after an impression of their unit for them to be events."""

_JOINS = (("impression_id",), ("request_id", "item_id"), ("unit_id", "item_id"))
"""Keys that join a click to its impression, best first; units need times, too."""


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

    @property
    def outcomes(self) -> list[Column]:
        """List the numeric columns that are outcomes by their names."""
        taken = {c.name for e, c in self.columns.items() if e in ("unit_id", "ts")}
        columns = [g.column for g in guess_values(self.table, taken) if g.entry == "outcome"]
        return [column for column in columns if column and column.mentions_role("outcome")]

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
        name_rank = _rate_impression_name(log.name) if "unit_id" in log.columns else 0
        shows = log.shows_rows and not log.is_event and not log.is_clicks
        return name_rank, shows, log.variant is not None, log.table.rows

    logs = [_make_log(engine, table) for table in tables]
    main = max(logs, key=rank)
    other_logs = [log for log in logs if log is not main]
    ids = [c for c in main.table.columns if c.has_role_name("id") and c.distinct == main.table.rows]
    is_asked = any("impression_id" in log.columns for log in other_logs)
    is_known = "impression_id" in main.columns or (ids and ids[0] in main.columns.values())
    if ids and is_asked and not is_known:
        # The `id` of the impressions is what another table calls the id of an impression.
        main = replace(main, columns={**main.columns, "impression_id": ids[0]})
    return main, _classify_logs(engine, other_logs, main)


def _classify_logs(engine: Engine, logs: Sequence[Log], main: Log) -> list[Log]:
    """Guess the kinds of the other tables; each kind but events once."""
    other_logs, taken = list[Log](), {*CANONICAL_COLUMNS, OWN_TABLE}
    # A table named like clicks is the first to be tried as clicks.
    for log in sorted(logs, key=lambda log: not log.is_clicks):
        kinds = {candidate.kind for candidate in other_logs} - {"events", None}
        readings = (classify(engine, log, main) for classify in (_items, _clicks, _guess_unit_log))
        twice = replace(log, reason="another file has these already")
        choice = next((c for c in readings if c and c.kind not in kinds), twice)
        if choice.kind == "events":
            alias = words.unique_name(taken, words.slug(choice.name))
            choice = replace(choice, alias=alias)
        other_logs.append(choice)
    return other_logs


def _items(engine: Engine, log: Log, main: Log) -> Log | None:
    """Guess whether each row is an item of the impressions."""
    is_called_so = words.mentions_role(log.name.rstrip("s"), "item_id")
    ids = [c for c in log.table.columns if is_called_so and c.has_role_name("id")]
    item = log.columns.get("item_id") or next(iter(ids), None)
    seen, unit = main.columns.get("item_id"), log.columns.get("unit_id")
    is_of_units = unit not in (None, item) and "ts" in log.columns
    if item is None or seen is None or item.distinct < log.table.rows or is_of_units:
        return None
    columns = {e: c for e, c in log.columns.items() if e == "category"} | {"item_id": item}
    items = replace(log, kind="items", columns=columns, reason="each row is an item")
    share, *_ = _measure_join_shares(engine, main, items, ("item_id",))
    return items if share >= _MIN_JOIN_SHARE else None


def _clicks(engine: Engine, log: Log, main: Log) -> Log | None:
    """Guess whether rows are clicks: most follow an impression of the same keys.

    A table named like clicks that follows no impressions is events, with a question.
    """
    is_other = log.is_event or "click" in main.columns
    # There are no more clicks than impressions.
    if log.table.rows > main.table.rows or (is_other and not log.is_clicks):
        return None
    both = log.columns.keys() & main.columns.keys()
    question = "it shares no item, request or impression with the impressions, so it gives no CTR"
    joins = [j for j in _JOINS if {*j} <= both and ("unit_id" not in j or "ts" in both)]
    for join in joins:
        by_time = "unit_id" in join
        matched_share, after, soon = _measure_join_shares(engine, log, main, join)
        if (after if by_time else matched_share) < _MIN_JOIN_SHARE:
            question = (
                f"{matched_share:.0%} of its rows have ids of an impression, {after:.0%} of one "
                "before, so it gives no CTR: are ids and times written alike in both files?"
            )
            continue
        keys = " and ".join(log.columns[entry].name for entry in join)
        reason = f"{matched_share:.1%} of the rows have the {keys} of an impression"
        names = [e for e in CANONICAL_COLUMNS["clicks"] if by_time or e != "unit_id"]
        columns = {entry: log.columns[entry] for entry in names if entry in log.columns}
        question = "" if log.is_clicks or "dwell" in columns else "are its rows clicks?"
        if by_time:
            reason += f", {after:.1%} of one before"
        if by_time and soon < 0.9 * after:
            question = (
                f"{1 - soon / after:.0%} of the clicks come later than 24 hours after their "
                "impression, and do not count: is attribution_hours longer?"
            )
        kept = () if join == joins[0] and not by_time else join
        log = replace(log, kind="clicks", columns=columns)
        return replace(log, join=kept, reason=reason, question=question)
    return replace(_guess_unit_log(engine, log, main), question=question) if log.is_clicks else None


def _guess_unit_log(engine: Engine, log: Log, main: Log) -> Log:
    """Guess the kind of a table that shares units with the main one."""
    unit, seen = log.columns.get("unit_id"), main.columns.get("unit_id")
    if unit is None or seen is None:
        return replace(log, reason="no column has units, or items of the impressions")
    share, after, _ = _measure_join_shares(engine, log, main, ("unit_id",))
    if share < _MIN_JOIN_SHARE:
        return replace(log, reason=f"{share:.0%} of its rows are of units of the impressions")
    time = log.columns.get("ts")
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
        return replace(log, reason="units have several rows, and those no times")
    if "ts" not in main.columns:
        return replace(log, reason="its rows have times, but the impressions have none")
    return replace(log, kind="events", columns=columns, reason="rows of units, with times")


def find_casts(log: Log, main: Log) -> dict[str, str]:
    """Find casts for ids that are text in one table and numbers in the other."""
    casts = {}
    for entry, column in log.columns.items():
        seen = main.columns.get(entry, column)
        is_other = (seen.kind == "text") != (column.kind == "text") or column.kind == "real"
        if entry in IDS and is_other:
            casts[column.name] = "varchar" if seen.kind == "text" else "bigint"
    return casts


def _measure_join_shares(
    engine: Engine, clicks: Log, main: Log, join: Sequence[str]
) -> tuple[float, float, float]:
    """Measure the shares of clicks that have a matching impression.

    Of any time, of before the click, and of at most a day before it.
    """
    rows, impressions = (
        f"select {', '.join(f'{_text(log.columns[e])} as k_{i}' for i, e in enumerate(join))}, "
        f"{log.columns['ts'].moment if 'ts' in log.columns else 'cast(null as timestamp)'} as t "
        f"from {quote(log.table.relation)}"
        for log in (clicks, main)
    )
    keys = " and ".join(f"c.k_{i} = s.k_{i}" for i in range(len(join)))
    (shares,) = engine.rows(
        f"with seen as ({impressions}), named as (select distinct * exclude t from seen), "
        f"tied as (select c.*, s.k_0 is not null as is_known from ({rows}) c left join named s "
        f"on {keys}) select count_if(is_known) / count(*), count(s.t) / count(*), "
        "count_if(c.t - s.t <= interval 1 day) / count(*) from tied c "
        f"asof left join (select * from seen where t is not null) s on {keys} and c.t >= s.t"
    )
    matched_share, after, soon = (float(share or 0) for share in shares)
    return matched_share, after, soon


def _text(column: Column) -> str:
    """Write SQL of an id as text."""
    name = quote(column.name)
    # Ids that pandas wrote as 7.0 become whole again.
    return f"cast({f'cast({name} as bigint)' if column.kind == 'real' else name} as varchar)"
