"""Draft an experiment file for files or a frame, with questions for a person."""

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import tomlkit

from abeval.drafts import guess, values, words
from abeval.drafts.columns import Column, Origin, Table
from abeval.drafts.counts import (
    CallerNames,
    CountTable,
    list_questions,
    name_unit,
    number,
    read_counts,
)
from abeval.drafts.guess import Arms, Guess, add_question, guess_variant, make_arms, read_arms
from abeval.drafts.origins import (
    DONE,
    Kind,
    Log,
    choose_main_log,
    find_casts,
    inspect_rows,
    make_tables,
)
from abeval.drafts.values import DOUBT, Models, Period, guess_models, guess_period
from abeval.drafts.words import slug
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.sql import cast_query, quote
from abeval.errors import LogError, QueryError
from abeval.experiment.load import check_read_options, make_source
from abeval.experiment.problems import spelled_alike, suggest_near_name, write_join_line
from abeval.experiment.sources import CANONICAL_COLUMNS, IDS, ROW_UNIT
from abeval.logs.checks import write_zone_questions
from abeval.logs.run import extract_reason
from abeval.metrics.builtin import builtin_metrics


@dataclass
class _ExperimentFile:
    """An experiment file that is being written: its lines and its questions."""

    name: str
    questions: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def ask(self, *questions: str) -> None:
        """Add questions; empty and repeated ones are ignored."""
        self.questions += [q for q in dict.fromkeys(questions) if q and q not in self.questions]

    def section(self, *names: str) -> None:
        """Begin a TOML table."""
        self.lines += ["", f"[{'.'.join(tomlkit.key(name).as_string() for name in names)}]"]

    def entry(self, key: str, value: object, note: str = "") -> None:
        """Write an entry, with a comment that says why."""
        if isinstance(value, str) and "\n" in value and '"""' not in value:
            # A query of several lines; its comment would be lost behind it.
            escaped = value.replace("\\", "\\\\")
            self.lines += [f"# {' '.join(note.split())}", f'{key} = """\n{escaped}\n"""']
            return
        self.lines.append(
            f"{key} = {_value(value)}" + (f" # {' '.join(note.split())}" if note else "")
        )

    def metric(self, fields: Mapping[str, object], note: str) -> None:
        """Write the entries of a metric."""
        self.lines += ["", "[[metrics]]"]
        for key, value in fields.items():
            self.entry(key, value, note if key == "name" else "")

    @property
    def text(self) -> str:
        """Return the text of the file; the name and the questions come first."""
        head = [f"name = {_value(self.name)}"]
        if self.questions:
            until = "until then the analysis is a DRAFT and decides nothing."
            question_list = tomlkit.item(self.questions).multiline(True).as_string()
            head += [f"# Answer each, then remove it; {until}", f"questions = {question_list}"]
        return "\n".join([*head, *self.lines]) + "\n"


def _value(value: object) -> str:
    """Write a value as TOML."""
    if isinstance(value, Mapping):
        entries = (f"{tomlkit.key(k).as_string()} = {_value(item)}" for k, item in value.items())
        return f"{{ {', '.join(entries)} }}"
    # SQL has many quotes: a literal string needs no backslashes.
    if isinstance(value, str) and '"' in value and "'" not in value and value.isprintable():
        return f"'{value}'"
    return str(tomlkit.item(value).as_string())


@dataclass(frozen=True)
class _Findings:
    """What the draft found in the files.

    Attributes:
        main: The impressions, or the table of units, or of counts.
        one_row: Whether no unit has a second row.
    """

    main: Log
    other_logs: Sequence[Log]
    guesses: Sequence[Guess]
    arms: Arms | None
    unit: str
    one_row: bool
    period: Period | None = None
    models: Models | None = None

    @property
    def has_ctr(self) -> bool:
        """Tell whether the logs have clicks."""
        return "click" in self.main.columns or any(log.kind == "clicks" for log in self.other_logs)


def _experiment_file(name: str, findings: _Findings) -> _ExperimentFile:
    """Write the experiment file and its questions."""
    file = _ExperimentFile(name)
    unit, variant, *_ = findings.guesses
    file.entry("unit", findings.unit, f"{unit.certainty}: {unit.reason}")
    file.ask(unit.question, *findings.main.table.origin.questions)
    if findings.arms is None:
        file.entry("control", "?")
        has_files = len(findings.main.table.origin.files) > 1
        by_file = " Or is each file of one variant: path = { NAME = FILE, … }?" if has_files else ""
        file.ask(
            f"variant: {variant.reason}{by_file} Name it in `columns`, and its values as "
            "[variants.NAME]; if units are assigned by hash, give [assignment] a `salt`"
        )
    else:
        file.ask(variant.question)
        by_name = "likely: by its name" if findings.arms.is_sure else "not sure: the first by name"
        file.entry("control", findings.arms.control, by_name)
        _write_period(file, findings.period)
        _write_variants(file, findings.arms, findings.models)
    _write_logs(file, findings)
    _write_segments(file, findings)
    _write_metrics(file, findings)
    return file


def _write_period(file: _ExperimentFile, period: Period | None) -> None:
    if period is None:
        return
    spans = {"period": (period.start, period.end), "pre_period": (period.before, period.start)}
    for name, (start, end) in spans.items():
        file.section(name)
        file.entry("start", start, f"likely: {period.reason}")
        file.entry("end", end)


def _write_variants(file: _ExperimentFile, arms: Arms, models: Models | None) -> None:
    """Write the variants, and ask what their names and units leave open."""
    if not arms.is_sure:
        names = ", ".join(map(repr, arms.units))
        file.ask(f"control: is it {arms.control!r}? The variants are {names}")
    file.ask(*guess.ask_nulls(arms.nulls, "if it is one, add it to [variants]"))
    file.ask(*guess.ask_weights(arms.units, "weights of 1"))
    for spelled in spelled_alike(arms.units):
        names = ", ".join(map(repr, spelled))
        line = write_join_line(spelled[0], spelled)
        file.ask(f"variants: are {names} one variant? Then write {line}")
    for value, count in arms.units.items():
        file.section("variants", value)
        # Observed counts are no plan: with them as weights, no mismatch could be found.
        file.entry("weight", 1, f"{count:,} units: write the share that was planned")
        if models is not None and value in models.served:
            file.entry("model", models.served[value], "likely: by its name")
    for name, column in models.scores.items() if models else ():
        file.section("models", name)
        file.entry("score", column.name)
    if models is not None and not models.served:
        names = ", ".join(models.scores)
        file.ask(f"models: which of {names} does each variant serve? Add `model` to [variants]")


def _write_logs(file: _ExperimentFile, findings: _Findings) -> None:
    """Write `[logs]`, and ask about tables that are not used."""
    for log in (findings.main, *sorted(findings.other_logs, key=lambda log: log.kind == "events")):
        origin = log.table.origin
        source_name = (", ".join(origin.files) or origin.name) + (
            f" where {origin.where}" if origin.where else ""
        )
        source_name += f", table {origin.name}" if "table" in origin.read else ""
        if log.kind is None:
            file.ask(
                f"{source_name} is not used: {log.reason}. Are its rows [logs.clicks] (unit, item "
                "and time), [logs.exposures] (unit, variant and time), [logs.units] (one row a "
                "unit) or [logs.events.NAME] (unit and time)?"
            )
            continue
        file.section("logs", *log.entry.split("."))
        _write_log(file, log, findings)
        file.ask(*origin.questions, log.question and f"{source_name}: {log.question}")
    every = findings.main, *findings.other_logs
    logs = [log for log in every if log.kind and "ts" in log.columns]
    file.ask(*write_zone_questions({log.entry: log.columns["ts"].type for log in logs}))


def _write_log(file: _ExperimentFile, log: Log, findings: _Findings) -> None:
    """Write the entries of a log."""
    origin, is_main = log.table.origin, log is findings.main
    files = {name: paths[0] if len(paths) == 1 else paths for name, paths in origin.paths.items()}
    if files and "" not in files and "variant" in CANONICAL_COLUMNS.get(str(log.kind), ()):
        file.entry("path", files, "likely: each variant has its own files")
    elif files:
        file.entry("path", files.get("", origin.files))
    for key, value in origin.read.items():
        file.entry(key, value, origin.reasons.get(key, "sure: it is named so"))
    if origin.where:
        file.entry("where", origin.where)
    casts = find_casts(log, findings.main)
    query, why = origin.query, origin.why
    if casts:
        cast = cast_query(casts, "try_cast")
        query = cast.replace("from log", f"from (\n{query}\n)") if query else cast
        why = "; ".join(filter(None, [why, "ids are text in one log, or have a point"]))
    if query:
        file.entry("query", query, f"likely: {why}")
    if "ts" in log.columns and log.columns["ts"].name in origin.formats:
        file.entry("ts_format", origin.formats[log.columns["ts"].name], "likely: it reads all")
    if "ts" in log.columns and log.columns["ts"].time_unit:
        file.entry("time_unit", log.columns["ts"].time_unit)
    if "dwell" in log.columns and log.columns["dwell"].name.endswith("ms"):
        file.entry("dwell_unit", "ms")
    if log.join:
        file.entry("join", list(log.join), f"likely: {log.reason}")
    befores = [g.column for g in findings.guesses if g.entry == "covariate" and log.kind == "units"]
    if is_main and befores:
        names = [c.name if c.name.isidentifier() else c.number for c in befores if c is not None]
        hint = 'likely: they were before; [inference] adjust = "cuped" makes use of them'
        file.entry("covariates", names, hint)
    notes = {g.entry: f"{g.certainty}: {g.reason}" for g in findings.guesses if is_main}
    for entry, column in log.columns.items():
        if column.name != entry and (entry != "unit_id" or column.name != findings.unit):
            file.entry(f"columns.{entry}", column.name, notes.get(entry, ""))


def _write_segments(file: _ExperimentFile, findings: _Findings) -> None:
    """Write segments of a table of counts; suggest those of other logs."""
    segments = [g.column for g in findings.guesses if g.entry == "segment"]
    segment_columns = [column.name for column in segments if column is not None]
    if segment_columns and findings.main.kind == "sums":
        file.section("segments")
        for name in segment_columns:
            file.entry(slug(name), quote(name))
    elif segment_columns:
        # Nobody but a person knows what the treatment can change.
        what = "properties that the treatment cannot change"
        file.lines += ["", f"# [segments] may have {what}: {', '.join(map(slug, segment_columns))}"]


def _write_metrics(file: _ExperimentFile, findings: _Findings) -> None:
    """Write goals and diagnostics, and ask about doubtful ones."""
    taken = {*builtin_metrics(30, 30)}
    metrics = list[tuple[dict[str, object], str]]()
    entries = ("outcome", "ratio") if findings.has_ctr else ("outcome", "ratio", "diagnostic")
    for candidate in findings.guesses:
        if candidate.column is not None and candidate.entry in entries:
            fields = _fields(candidate, candidate.column, findings, taken)
            metrics.append((fields, f"{candidate.certainty}: {candidate.reason}"))
    for log in findings.other_logs:
        note = f"likely: of the rows of {log.alias} since the exposure"
        note = "likely: units that the table lacks have 0" if log.kind == "units" else note
        metrics += [(fields, note) for fields in _event_metrics(log, taken)]
    if findings.has_ctr and metrics:
        metrics.insert(0, ({"name": "ctr", "role": "goal"}, "clicks / impressions"))
    elif findings.has_ctr:
        all_of_them = "All built-in metrics of these logs are shown, and the goal is CTR"
        file.lines += ["", f"# {all_of_them}; [[metrics]] choose others"]
    for fields, note in metrics:
        file.metric(fields, note)
    file.ask(*(candidate.question for candidate in findings.guesses[2:]))
    doubtful = [g.column for g in findings.guesses if g.entry == "outcome" and g.reason == DOUBT]
    names = ", ".join(column.name for column in doubtful if column is not None)
    if names:
        file.ask(f"outcomes: are {names} among them? They are diagnostics until then")
    if not metrics and not findings.has_ctr:
        file.ask("metrics: no column is a number that could be an outcome")


def _fields(
    guess: Guess, column: Column, findings: _Findings, taken: set[str]
) -> dict[str, object]:
    """Make a metric of a column: a share if each unit has 0 or 1, else a mean.

    It is a mean over rows if the unit is a place with several rows, or if sums mean nothing.
    """
    rows, unit = findings.main.table.rows, findings.main.columns.get("unit_id")
    is_place = unit is not None and not unit.has_role_name("unit") and rows % unit.distinct > 0
    is_mean = is_place or (column.mentions_role("averaged") and not column.is_share)
    is_ascii, value = column.name.isascii(), column.number
    name = guess.name or (slug(column.name) if is_ascii else " ".join(column.name.split()))
    fields: dict[str, object] = {"value": value}
    if guess.over is not None:
        fields = {"numerator": value, "denominator": quote(guess.over.name)}
    elif is_mean and not findings.one_row:
        fields = {"numerator": value, "denominator": "1"}
    elif not findings.one_row:
        name = f"{name}_per_unit"
    if guess.is_share or (column.is_share and (findings.one_row or is_place)):
        fields["unit"] = "share"
    if guess.decreases:
        fields["direction"] = "decrease"
    if column.rows < rows:
        fields["missing"] = "drop"
    role = "diagnostic" if guess.certainty == "not sure" else "goal"
    return {"name": words.unique_name(taken, name, f"{name}_value"), "role": role, **fields}


def _event_metrics(log: Log, taken: set[str]) -> Iterator[dict[str, object]]:
    """Make the metrics of a log of events or of a table of units."""
    # Of types of rows, such as logins, those that are called so are outcomes.
    is_goal = not log.table.origin.where or words.mentions_role(log.name, *DONE)
    fields = {"role": "goal" if is_goal else "diagnostic", "log": log.alias}
    if log.kind == "events":
        yield {"name": f"any_{log.alias}", **fields}
        for column in log.outcomes:
            sums = {"per_unit": "sum", "value": column.number}
            yield {"name": f"{log.alias}_{slug(column.name)}", **fields, **sums}
    for column in log.outcomes if log.kind == "units" else ():
        name = words.unique_name(taken, slug(column.name))
        yield {"name": name, "role": "goal", "log": "units", "value": column.number}


@dataclass(frozen=True)
class Draft:
    """A drafted experiment file, its guesses, and questions for a person."""

    text: str
    guesses: tuple[Guess, ...]
    questions: tuple[str, ...]

    def list_logs(self) -> list[str]:
        """List the logs of the file, as `impressions` or `events.orders`."""
        logs = tomllib.loads(self.text)["logs"]
        events = [f"events.{name}" for name in logs.get("events", ())]
        return [*(log for log in logs if log != "events"), *events]


def draft_files(
    files: Sequence[Path],
    folder: Path,
    name: str = "experiment",
    read: Mapping[str, str] | None = None,
) -> Draft:
    """Draft a file for one table, or for an impression log and its other logs.

    `read` says how the files are read, as entries of a log do.
    """
    entries = read or {}
    form = check_read_options(entries).get("format", "auto")
    with closing(DuckDBEngine(folder=Path())) as engine:
        sources = [make_source({"path": str(file), "format": form}) for file in files]
        # The files of a folder may be of several kinds.
        engine.confine(sources, [str(f) for f in files if f.is_dir()], with_copies=True)
        try:
            return _draft_tables(engine, make_tables(engine, files, folder, entries), name)
        except QueryError as error:
            if (reason := extract_reason(error)) == error.what:
                raise
            what = f"{' and '.join(map(str, files))} cannot be read: {reason}"
            raise LogError(
                what, "if it has a view that fails, name a table: --read table=…"
            ) from error


def draft_frames(
    logs: Mapping[str, object],
    named: Mapping[str, str] | None = None,
    name: str = "experiment",
    folder: Path | None = None,
) -> Draft:
    """Draft a file for logs by name: frames, or paths of files.

    Args:
        logs: `impressions` or a table first, then `clicks`, `items`, `exposures`.
        named: `unit` and `variant` → their columns, where the caller says them.
        name: The experiment's.
        folder: Where relative paths start.

    Raises:
        LogError: A log is not what its name says.
    """
    home, tables = folder or Path(), list[Table]()
    paths = {key: home / log for key, log in logs.items() if isinstance(log, str | Path)}
    with closing(DuckDBEngine(folder=home)) as engine:
        sources = [make_source({"path": str(path)}) for path in paths.values()]
        engine.confine(sources, [str(p) for p in paths.values() if p.is_dir()], with_copies=True)
        for key, log in logs.items():
            origin = Origin(name=key, named=named or {}, is_frame=key not in paths)
            if key in paths:
                made = make_tables(engine, [paths[key]], home, {}, origin)
            else:
                engine.add_frame(f"raw_{key}", log)
                made = inspect_rows(engine, f"raw_{key}", origin, is_alone=len(logs) == 1)
            tables += made
        _check_named(tables[0], named or {})
        draft = _draft_tables(engine, tables, name)
    for key in [*logs][1:]:
        if key not in draft.list_logs():
            why = [q for q in draft.questions if f"{key}:" in q or f"{key} is not used" in q]
            hint = "; ".join(why) or "no column has values of the impressions"
            raise LogError(f"the {key} do not fit the impressions", hint)
    return draft


def _check_named(table: Table, named: Mapping[str, str]) -> None:
    """Raise if a column that the caller names is not there (`LogError`)."""
    names = [column.name for column in table.columns]
    for entry, name in named.items():
        if table.find_named(entry) is None and name != ROW_UNIT:
            near = suggest_near_name(name, names)
            hint = f"it has: {', '.join(names)}"
            raise LogError(f"{entry}: the log has no column {name!r}{near}", hint)


def _draft_tables(engine: DuckDBEngine, tables: Sequence[Table], name: str) -> Draft:
    counts = read_counts(engine, tables[0], CallerNames()) if len(tables) == 1 else None
    findings = _findings(engine, tables) if counts is None else _describe_counts(tables[0], counts)
    file = _experiment_file(name, findings)
    used = [log for log in findings.other_logs if log.kind is not None]
    extra_guesses = [Guess(f"{log.kind}: {log.name}", None, "likely", log.reason) for log in used]
    if findings.period is not None:
        reason = f"from {findings.period.start} on: {findings.period.reason}"
        extra_guesses.append(Guess("period", None, "likely", reason))
    return Draft(file.text, (*findings.guesses, *extra_guesses), tuple(file.questions))


def _describe_counts(table: Table, counts: CountTable) -> _Findings:
    """Describe the columns of a table of counts as findings."""
    columns = {column.name: column for column in table.columns}
    variant, n = columns[counts.variant], counts.outcomes[0].n
    units = Counter[str]()
    for row in counts.rows:
        units[row[counts.variant]] += int(number(row[n]) or 0)
    day_note = "; 'day': days are the units" if counts.day else ""
    reason = f"'row': each of the {n} was assigned by itself{day_note}"
    guesses = [Guess("unit", None, "likely", reason)]
    guesses.append(Guess("variant", variant, "likely", f"{len(units)} values"))
    for outcome in counts.outcomes:
        is_mean = outcome.spread is not None
        reason = f"a mean, with {outcome.spread}" if is_mean else f"of {outcome.n}"
        question = f"direction: is more {outcome.metric} better, or less? Say its `direction`"
        is_asked = is_mean and not words.mentions_role(outcome.metric, "outcome", "cost")
        question = question if is_asked else ""
        guess = Guess("outcome", columns[outcome.column], "likely", reason, question)
        guess = replace(guess, over=columns[outcome.n], name=outcome.metric, is_share=not is_mean)
        guesses.append(replace(guess, decreases=words.mentions_role(outcome.column, "cost")))
    segments = counts.segments if counts.day is None else ()
    guesses += [Guess("segment", columns[part], "likely", "text") for part in segments]
    # The draft names no unit: whatever the counts leave open is asked.
    for question in list_questions(counts, ""):
        table = add_question(table, question)
    main = Log(table, {"variant": variant}, variant, "sums")
    return _Findings(main, (), guesses, make_arms(units), name_unit(n), one_row=True)


def _findings(engine: DuckDBEngine, tables: Sequence[Table]) -> _Findings:
    """Guess the kinds of the tables, and the columns of the main one."""
    first, others = choose_main_log(engine, tables)
    if first.table.rows == 0:
        raise LogError("the table has no rows", "give files with data")
    table = guess.drop_earlier_stage(engine, first.table)
    unit, time = guess.guess_unit(table), guess.guess_time(table)
    by_unit = guess.is_of_units(table, unit, time) and not any(log.kind for log in others)
    if by_unit:
        unread = f"; {time.column.name} is not read" if time.column else ""
        time = Guess("ts", None, "likely", f"each unit has one row{unread}")
    variant, arms, period = _guess_assignment(engine, table, others, is_timed=not by_unit)
    guesses = [unit, variant, time]
    if any(log.kind == "clicks" for log in others):
        # What the clicks name was found by its values.
        columns = {e: c for e, c in first.columns.items() if e in IDS and e != "unit_id"}
        reason = "the clicks have its values"
        guesses += [Guess(entry, column, "likely", reason) for entry, column in columns.items()]
        if "ts" in first.columns and first.columns["ts"] != time.column:
            guesses[2] = Guess("ts", first.columns["ts"], "likely", "the clicks follow it")
    entries = {g.entry for g in guesses}
    clicks = [*guess.guess_clicks(table, guesses)] if not by_unit and not others else []
    if not by_unit:
        canonical = [
            g for g in guess.guess_log_columns(table, _names(guesses)) if g.entry not in entries
        ]
        # Without a column of rows, a score is a property of the unit.
        guesses += canonical if guess.ROW_COLUMNS & {g.entry for g in canonical} else []
        guesses += clicks
    columns = {g.entry: g.column for g in guesses if g.column is not None}
    columns = {"unit_id" if entry == "unit" else entry: c for entry, c in columns.items()}
    models = guess_models(table, arms, _names(guesses)) if arms and not by_unit else None
    scores = {column.name for column in models.scores.values()} if models else set()
    guesses += values.guess_values(table, _names(guesses) | scores)
    guesses += guess.guess_segments(table, _names(guesses) | scores)
    kind: Kind = "units" if by_unit else "impressions"
    main = Log(table, columns, variant.column, kind)
    name = unit.column.name if unit.column else ROW_UNIT
    one_row = guess.has_one_row(unit)
    findings = _Findings(main, others, guesses, arms, name, one_row, period, models)
    final_guesses = values.settle_doubts(engine, table, guesses, arms, findings.has_ctr)
    return replace(findings, guesses=tuple(final_guesses))


def _names(guesses: Sequence[Guess]) -> set[str]:
    """Return the names of the columns that have a guess."""
    return {candidate.column.name for candidate in guesses if candidate.column is not None}


def _guess_assignment(
    engine: DuckDBEngine, main: Table, other_logs: Sequence[Log], is_timed: bool
) -> tuple[Guess, Arms | None, Period | None]:
    """Guess the variant and the period, from the main table or from the exposures."""
    period, inside = guess_period(engine, main, main) if is_timed else None, main
    if period is not None:
        engine.view("raw_since", f"select * from {quote(main.relation)} where {period.rows}")
        inside = replace(main, relation="raw_since")
    variant = guess_variant(engine, inside)
    if period and (variant.column is None or variant.column.name != period.variant):
        period, inside, variant = None, main, guess_variant(engine, main)
    exposures = next((log.table for log in other_logs if log.kind == "exposures"), None)
    for way in ("weakly", "by_name") if exposures is None else ():
        if variant.column is None:
            variant = guess_variant(engine, inside, **{way: True})
    if variant.column is not None or exposures is None:
        return variant, read_arms(engine, inside, variant), period
    variant = guess_variant(engine, exposures)
    reason = f"the exposures say it; {variant.reason}"
    period = guess_period(engine, main, exposures)
    return (
        replace(variant, column=None, reason=reason),
        read_arms(engine, exposures, variant),
        period,
    )
