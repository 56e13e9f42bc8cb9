"""Make tables of files, and guess which log each table is.

Files of the same columns are one table; rows of several types are several.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from abeval.drafts import guess, words
from abeval.drafts.columns import FEW, Column, Origin, Table
from abeval.drafts.match import (
    ALONE,
    MIN_SHARE,
    Match,
    find_keys,
    has_clock,
    match_columns,
    measure_join,
)
from abeval.drafts.reshape import reshape
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
    engine: DuckDBEngine,
    files: Sequence[Path],
    folder: Path,
    read: Mapping[str, str],
    whence: Origin | None = None,
) -> list[Table]:
    """Make tables of files, each a relation of the engine.

    `whence` has the name of their log, and columns that the caller names.
    """
    groups: dict[Any, tuple[Origin, list[Path]]] = {}
    for file in (member for path in files for member in _members(engine, path, read)):
        for columns, origin in _readings(engine, file, read):
            # Files with the same columns, read alike, are one table.
            key = columns, *origin.read.items()
            groups.setdefault(key, (origin, []))[1].append(file)
    gone = _columns_of_some(groups)
    if gone:
        # Files of one variant each need not have the same columns.
        origin, *_ = (origin for origin, _ in groups.values())
        groups = {None: (origin, [file for _, group in groups.values() for file in group])}
    prefix = "table" if whence is None else whence.name
    tables = [
        _table(engine, f"raw_{prefix}_{index}", _join_origins(origin, whence), group, folder, gone)
        for index, (origin, group) in enumerate(groups.values())
    ]
    return [part for table in tables for part in _parts(engine, table, len(tables) == 1)]


def _join_origins(origin: Origin, whence: Origin | None) -> Origin:
    return origin if whence is None else replace(origin, name=whence.name, named=whence.named)


def inspect_rows(engine: Engine, relation: str, origin: Origin, is_alone: bool) -> list[Table]:
    """Make tables of a relation: one, or one for each type of its rows."""
    name, measured, made = reshape(engine, relation)
    whole = replace(origin, query=made.query, why=made.reason)
    table = guess.inspect_table(engine, name, whole, measured)
    return [*_parts(engine, table, is_alone)]


def _columns_of_some(groups: Mapping[Any, tuple[Origin, list[Path]]]) -> list[str]:
    """List the columns that only some of the files of a table have.

    Files are of one table if their names say the variant, and most of their columns are the same.
    """
    kinds = [{*columns} for columns, *_ in groups]
    files = [file for _, group in groups.values() for file in group]
    is_one_each = len(files) == len(kinds) > 1 and all(file.is_file() for file in files)
    if not is_one_each or len({file.suffix for file in files}) > 1:
        return []
    union, common = set.union(*kinds), set.intersection(*kinds)
    reads = [origin.read for origin, _ in groups.values()]
    if 2 * len(common) < len(union) or any(read != reads[0] for read in reads):
        return []
    variants = _files_by_variant(files, reads[0].get("format", "auto"))
    return sorted(union - common) if len(variants) == len(files) else []


def _table(
    engine: DuckDBEngine,
    relation: str,
    origin: Origin,
    files: Sequence[Path],
    folder: Path,
    gone: Sequence[str],
) -> Table:
    """Make one table of files; each file may have the rows of one variant."""
    paths = {"": [str(file) for file in files]}

    def add_table(**options: object) -> Table:
        source = {"path": paths.get("", paths), **origin.read, **options}
        engine.add_log(relation, make_source(source))
        name, measured, made = reshape(engine, relation, gone)
        relative = {
            variant: [_relative_path(folder, path) for path in group]
            for variant, group in paths.items()
        }
        called = origin.name or origin.read.get("table") or _name(files[0])
        whole = replace(origin, name=called, paths=relative, query=made.query, why=made.reason)
        return guess.inspect_table(engine, name, whole, measured)

    table = add_table()
    is_text = table.origin.read.get("format", "csv") == "csv" and files[0].suffix != ".parquet"
    times = [c for c in guess.list_times(table) if c.kind in ("time", "text")] if is_text else []
    if times and not origin.query and times[0].name in engine.columns(relation):
        source = {"path": paths.get("", paths), **origin.read}
        formats = find_time_formats(engine, source, times[0].name)
        if formats:
            origin = replace(origin, formats={times[0].name: formats[0]})
        if len(formats) > 1:
            choices = " or ".join(formats)
            question = f"time: is {times[0].name} written as {choices}? No value shows the day"
            origin = replace(origin, questions=(*origin.questions, question))
        table = replace(
            table, origin=replace(table.origin, formats=origin.formats, questions=origin.questions)
        )
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


_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
_TIMES = tuple(
    f"{day.replace('/', mark)}{clock}"
    for clock in _CLOCKS
    for mark in "/.-"
    for day in ("%m/%d/%Y", "%d/%m/%Y")
)
"""Formats of times in which the day may be before the month, or after it."""


def find_time_formats(engine: DuckDBEngine, source: Mapping[str, object], column: str) -> list[str]:
    """Find the formats that read every time of a text column; none if it needs no format."""
    relation = "raw_events_times"
    try:
        engine.add_log(relation, make_source({**source, "columns": {"ts": column}}))
    except LogError:
        # Names of variants stay text.
        engine.add_log(relation, make_source({**source, "columns": {"variant": column}}))
        text = f"trim({quote(column)})"
        tests = ", ".join(
            f"count(try_strptime({text}, {literal(form)})) = count({text})" for form in _TIMES
        )
        (fits,) = engine.rows(f"select {tests} from {quote(relation)}")
        return [form for form, is_so in zip(_TIMES, fits, strict=True) if is_so]
    return []


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
    if files.takes("delimiter") and "delimiter" not in read and "::" in "".join(columns):
        columns = change("delimiter", "::", "MovieLens writes so", False)
    if files.takes("header") and "header" not in read and _is_row(engine, relation, columns):
        columns = change("header", "false", "the first row has values, as the others", False)
    if files.takes("decimal") and "decimal" not in read:
        texts = [name for name, kind in columns.items() if kind == "VARCHAR"]
        commas = decimal_commas(relation, texts, engine.rows)
        for column, text in sorted(commas.items(), key=lambda item: _is_of_thousands(item[1]))[:1]:
            reason = f"{column} has values such as {text}"
            columns = change("decimal", ",", reason, _is_of_thousands(text))
    return tuple(columns), Origin(read=read, reasons=reasons, questions=tuple(questions))


def _is_row(engine: Engine, relation: str, columns: Mapping[str, str]) -> bool:
    """Tell whether the names of the columns are values: no name stands over numbers or times."""
    sample = f"(select * from {quote(relation)} limit 1000)"
    kinds = [name for name, kind in columns.items() if not kind.startswith("VARCHAR")]
    is_value = re.compile(r"-?\d+([.]\d+)?(_\d+)?|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}.*")
    numbers = [name for name in kinds if is_value.fullmatch(name)]
    ((rows,),) = engine.rows(f"select count(*) from {sample}")
    return bool(rows) and bool(numbers) and len(numbers) == len(kinds)


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
    if len(files) == 1:
        return files
    top = os.path.commonpath([Path(file).parent for file in files])
    folder = make_source({"path": top, "format": format})
    return [top] if find_files("files", folder, Path()).read == files else files


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
    has_unit = bool(table.clusters) or any(c.has_role_name("unit") for c in table.columns)
    if column is None or is_clicked or not has_unit:
        yield table
        return
    type_names = ", ".join(map(repr, column.values))
    rate = _rate_impression_name
    views = sorted(filter(rate, column.values), key=rate, reverse=True)
    if column.kind != "text":
        question = f"{column.name}: which of {type_names} is an impression, and which a click?"
        yield guess.add_question(table, question)
        return
    if is_alone and not views:
        first = next(iter(column.values))
        # A funnel begins with what most rows are; a table of orders does not.
        if words.mentions_role(first, *DONE):
            yield table
            return
        views = [first]
    is_doubtful = len(views) > 1 or not any(map(rate, views))
    # Names of types of rows need no quotes.
    name = column.name if column.name.isidentifier() else quote(column.name)
    for index, value in enumerate(column.values):
        relation, where = f"{table.relation}_{index}", f"{name} = {literal(value)}"
        part = guess.filter_rows(engine, table, relation, where)
        part = replace(part, origin=replace(part.origin, name=value))
        question = f"{column.name}: are the impressions {value!r}? The types are {type_names}"
        is_asked = is_doubtful and value in views[:1]
        yield guess.add_question(part, question) if is_asked else part


def _rate_impression_name(name: str) -> int:
    """Rate how clearly a name means impressions; 0 if it does not."""
    ranks = words.LISTS["shown"]
    scores = (len(ranks) - ranks[word] for word in words.words(name) if word in ranks)
    return max(scores, default=0)


def _types_rows(column: Column) -> bool:
    """Tell whether a column has the types of rows, in words or in codes."""
    if not 2 <= column.distinct <= FEW:
        return False
    if column.kind == "text":
        does = any(words.mentions_role(value, *DONE) for value in column.values)
        sees = any(map(_rate_impression_name, column.values))
        return does and (sees or column.has_role_name("event_type"))
    if not column.has_role_name("event_type"):
        return False
    return column.kind == "integer" and words.words(column.name)[1:] == ("type",)


Kind = Literal["sums", "impressions", "items", "clicks", "exposures", "units", "events"]

_MIN_FOLLOWING_SHARE = 0.1
"""Least share of rows after an impression of their unit for them to be events."""


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

    logs = sorted((_make_log(engine, table) for table in tables), key=rank, reverse=True)
    # Where names leave it open, the main table is the one that clicks follow.
    is_open = rank(logs[0])[0] == 0 and len(logs) == 2
    choices = [
        _classify_logs(engine, [log for log in logs if log is not main], main)
        for main in (logs if is_open else logs[:1])
    ]
    followed = (c for c in choices if any(log.kind == "clicks" for log in c[1]))
    return next(followed, choices[0])


def _classify_logs(engine: Engine, logs: Sequence[Log], main: Log) -> tuple[Log, list[Log]]:
    """Guess the kinds of the other tables, each kind but events once.

    Returns the main log, with the columns that clicks name too, and the others.
    """
    other_logs, taken = list[Log](), {*CANONICAL_COLUMNS, OWN_TABLE}
    # A table named like clicks is the first to be tried as clicks.
    for log in sorted(logs, key=lambda log: not log.is_clicks):
        kinds = {candidate.kind for candidate in other_logs} - {"events", None}
        matches = match_columns(engine, log.table, main.table)
        clicks, seen = _clicks(engine, log, main, matches)
        readings = (_items(log, main, matches), clicks, _guess_unit_log(engine, log, main, matches))
        twice = replace(log, reason="another file has these already")
        choice = next((c for c in readings if c and c.kind not in kinds), twice)
        if choice.kind == "events":
            alias = words.unique_name(taken, words.slug(choice.name))
            choice = replace(choice, alias=alias)
        if choice is clicks and choice.kind == "clicks":
            main = replace(main, columns={**main.columns, **seen})
        other_logs.append(choice)
    return main, other_logs


def _items(log: Log, main: Log, matches: Sequence[Match]) -> Log | None:
    """Guess whether each row is an item of the impressions."""
    is_called_so = words.mentions_role(log.name.rstrip("s"), "item_id")
    seen, units = main.columns.get("item_id"), main.columns.get("unit_id")
    matches = [match for match in matches if match.share >= MIN_SHARE]
    of_units = {m.column.name for m in matches if units and m.seen.name == units.name}
    for match in matches if seen is not None and "ts" not in log.columns else ():
        is_item = (
            match.seen.name == (seen and seen.name) and match.column.distinct == log.table.rows
        )
        if is_item and (is_called_so or match.is_named_so or match.column.name not in of_units):
            columns = {e: c for e, c in log.columns.items() if e == "category"}
            columns |= {"item_id": match.column}
            return replace(log, kind="items", columns=columns, reason="each row is an item")
    return None


def _clicks(
    engine: Engine, log: Log, main: Log, matches: Sequence[Match]
) -> tuple[Log | None, Mapping[str, Column]]:
    """Guess whether rows are clicks: most follow an impression of the same keys.

    Returns them with the columns of the impressions that they name. A table named like clicks that
    follows no impressions is events, with a question.
    """
    is_other = log.is_event or "click" in main.columns
    # There are no more clicks than impressions.
    if log.table.rows > main.table.rows or (is_other and not log.is_clicks):
        return None, {}
    question = "no column has the ids of impressions, items or requests, so it gives no CTR"
    unit, times = main.columns.get("unit_id"), [guess.list_times(t.table)[:3] for t in (log, main)]
    rows = {"impression_id", "request_id", "item_id"}
    names_rows = bool(rows & log.columns.keys() & main.columns.keys())
    for key in find_keys(engine, log.table, main.table, matches, unit, times):
        join = tuple(key.columns)
        is_bare = join in (("unit_id",), ("request_id",))
        is_by_time = is_bare or "unit_id" in join
        if is_by_time and is_bare:
            # Without an item a click is of the last row before it: of a day, any row may be.
            is_told = key.times is not None and has_clock(engine, main.table, key.times[1])
            is_clicks = log.is_clicks and not log.is_event and not names_rows
            if not (is_clicks and is_told and key.after >= ALONE):
                continue
        if (key.after if is_by_time else key.matched) < MIN_SHARE:
            question = (
                f"{key.matched:.0%} of its rows have ids of an impression, {key.after:.0%} of one "
                "before, so it gives no CTR: are ids and times written alike in both files?"
            )
            continue
        columns = {entry: match.column for entry, match in key.columns.items()}
        seen = {entry: match.seen for entry, match in key.columns.items()}
        if key.times:
            columns["ts"], seen["ts"] = key.times
        if "dwell" in log.columns:
            columns["dwell"] = log.columns["dwell"]
        named = " and ".join(match.column.name for match in key.columns.values())
        reason = f"{key.matched:.1%} of the rows have the {named} of an impression"
        question = "" if log.is_clicks or "dwell" in columns else "are its rows clicks?"
        if is_by_time:
            reason += f", {key.after:.1%} of one before"
        if is_by_time and is_bare:
            question = f"it names no item: is each click of the last row of its {named} before it?"
        elif is_by_time and key.soon < 0.9 * key.after:
            question = (
                f"{1 - key.soon / key.after:.0%} of the clicks come later than 24 hours after "
                "their impression, and do not count: is attribution_hours longer?"
            )
        log = replace(log, kind="clicks", columns=columns, reason=reason, question=question)
        return replace(log, join=() if join == ("impression_id",) else join), seen
    events = _guess_unit_log(engine, log, main, matches)
    return (replace(events, question=question), {}) if log.is_clicks else (None, {})


def _guess_unit_log(engine: Engine, log: Log, main: Log, matches: Sequence[Match]) -> Log:
    """Guess the kind of a table that shares units with the main one."""
    unit, seen = log.columns.get("unit_id"), main.columns.get("unit_id")
    matched = [m for m in matches if m.share >= (MIN_SHARE if m.is_named_so else ALONE)]
    of_units = [m.column for m in matched if seen is not None and m.seen.name == seen.name]
    if of_units and (unit is None or unit.name not in {column.name for column in of_units}):
        unit = of_units[0]
    if unit is None or seen is None:
        return replace(log, reason="no column has units, or items of the impressions")
    log = replace(log, columns={**log.columns, "unit_id": unit})
    time = log.columns.get("ts")
    share, after, _ = measure_join(
        engine,
        (log.table.relation, [unit], time),
        (main.table.relation, [seen], main.columns.get("ts")),
    )
    if share < MIN_SHARE:
        return replace(log, reason=f"{share:.0%} of its rows are of units of the impressions")
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
