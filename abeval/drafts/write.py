"""Write the experiment file of a draft: its entries, comments and questions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import tomlkit

from abeval.drafts import words
from abeval.drafts.columns import DAY_FORMAT, Column, Period
from abeval.drafts.guess import Guess
from abeval.drafts.kinds import Log, find_casts
from abeval.drafts.values import DOUBT, Models
from abeval.drafts.variants import VariantUnits, ask_nulls, ask_weights
from abeval.drafts.words import slugify_name
from abeval.engines.sql import cast_query, quote
from abeval.experiment.problems import group_spellings, write_join_line
from abeval.experiment.sources import CANONICAL_COLUMNS
from abeval.logs.checks import write_zone_questions
from abeval.metrics.builtin import load_builtin_metrics

_Fields = dict[str, object]
"""Entries of a metric."""


@dataclass
class ExperimentFile:
    """An experiment file that is being written: its lines and its questions."""

    name: str
    questions: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def ask(self, *questions: str) -> None:
        """Add questions; empty and repeated ones are ignored."""
        self.questions += [q for q in dict.fromkeys(questions) if q and q not in self.questions]

    def add_section(self, *names: str) -> None:
        """Begin a TOML table."""
        self.lines += ["", f"[{'.'.join(tomlkit.key(name).as_string() for name in names)}]"]

    def add_entry(self, key: str, value: object, note: str = "") -> None:
        """Write an entry, with a comment that says why."""
        if isinstance(value, str) and "\n" in value and '"""' not in value:
            # A query of several lines; its comment would be lost behind it.
            escaped = value.replace("\\", "\\\\")
            self.lines += [f"# {' '.join(note.split())}", f'{key} = """\n{escaped}\n"""']
            return
        self.lines.append(
            f"{key} = {_format(value)}" + (f" # {' '.join(note.split())}" if note else "")
        )

    def add_metric(self, fields: Mapping[str, object], note: str) -> None:
        """Write the entries of a metric."""
        self.lines += ["", "[[metrics]]"]
        for key, value in fields.items():
            self.add_entry(key, value, note if key == "name" else "")

    @property
    def text(self) -> str:
        """Return the text of the file; the name and the questions come first."""
        head = [f"name = {_format(self.name)}"]
        if self.questions:
            until = "until then the analysis is a DRAFT and decides nothing."
            question_list = tomlkit.item(self.questions).multiline(True).as_string()
            head += [f"# Answer each, then remove it; {until}", f"questions = {question_list}"]
        return "\n".join([*head, *self.lines]) + "\n"


def _format(value: object) -> str:
    """Write a value as TOML."""
    if isinstance(value, Mapping):
        entries = (f"{tomlkit.key(k).as_string()} = {_format(item)}" for k, item in value.items())
        return f"{{ {', '.join(entries)} }}"
    # SQL has many quotes: a literal string needs no backslashes.
    if isinstance(value, str) and '"' in value and "'" not in value and value.isprintable():
        return f"'{value}'"
    return str(tomlkit.item(value).as_string())


@dataclass(frozen=True)
class Findings:
    """What the draft found in the files.

    Attributes:
        main: The impressions, or the table of units, or of counts.
        one_row: Whether no unit has a second row.
    """

    main: Log
    other_logs: Sequence[Log]
    guesses: Sequence[Guess]
    arms: VariantUnits | None
    unit: str
    one_row: bool
    period: Period | None = None
    models: Models | None = None

    @property
    def has_ctr(self) -> bool:
        """Tell whether the logs have clicks."""
        return "click" in self.main.columns or any(log.kind == "clicks" for log in self.other_logs)


def write_experiment_file(name: str, findings: Findings) -> ExperimentFile:
    """Write the experiment file and its questions."""
    file = ExperimentFile(name)
    unit, variant, *_ = findings.guesses
    file.add_entry("unit", findings.unit, f"{unit.certainty}: {unit.reason}")
    file.ask(unit.question, *findings.main.table.origin.questions)
    if findings.arms is None:
        file.add_entry("control", "?")
        has_files = len(findings.main.table.origin.files) > 1
        by_file = " Has each file one variant: path = { NAME = FILE, … }?" if has_files else ""
        file.ask(
            f"variant: {variant.reason}{by_file} Name it in `columns`, and its values as "
            "[variants.NAME]; if units are assigned by hash, give [assignment] a `salt`"
        )
    else:
        control = ""
        if not findings.arms.is_sure:
            names = ", ".join(map(repr, findings.arms.units))
            control = f"control: is it {findings.arms.control!r}? The variants are {names}"
        # Who knows the column knows its control: that is one question.
        file.ask("; ".join(filter(None, [variant.question, control])))
        by_name = "likely: by its name" if findings.arms.is_sure else "not sure: the first by name"
        file.add_entry("control", findings.arms.control, by_name)
        _write_period(file, findings.period)
        _write_variants(file, findings.arms, findings.models)
    _write_logs(file, findings)
    _write_segments(file, findings)
    _write_metrics(file, findings)
    return file


def _write_period(file: ExperimentFile, period: Period | None) -> None:
    if period is None:
        return
    spans = {"period": (period.start, period.end), "pre_period": (period.before, period.start)}
    for name, (start, end) in spans.items():
        file.add_section(name)
        file.add_entry("start", start, f"likely: {period.reason}")
        file.add_entry("end", end)


def _write_variants(file: ExperimentFile, arms: VariantUnits, models: Models | None) -> None:
    """Write the variants, and ask what their names and units leave open."""
    file.ask(*ask_nulls(arms.nulls, "if it is one, add it to [variants]"))
    file.ask(*ask_weights(arms.units, "weights of 1"))
    for spelled in group_spellings(arms.units):
        names = ", ".join(map(repr, spelled))
        line = write_join_line(spelled[0], spelled)
        file.ask(f"variants: are {names} one variant? Then write {line}")
    for value, count in arms.units.items():
        file.add_section("variants", value)
        # Observed counts are no plan: with them as weights, no mismatch could be found.
        file.add_entry("weight", 1, f"{count:,} units: write the share that was planned")
        if models is not None and value in models.served:
            file.add_entry("model", models.served[value], "likely: by its name")
    for name, column in models.scores.items() if models else ():
        file.add_section("models", name)
        file.add_entry("score", column.name)
    if models is not None and not models.served:
        names = ", ".join(models.scores)
        file.ask(f"models: which of {names} does each variant serve? Add `model` to [variants]")


def _write_logs(file: ExperimentFile, findings: Findings) -> None:
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
        file.add_section("logs", *log.entry.split("."))
        _write_log(file, log, findings)
        file.ask(*origin.questions, log.question and f"{source_name}: {log.question}")
    every = findings.main, *findings.other_logs
    logs = [log for log in every if log.kind and "ts" in log.columns]
    file.ask(*write_zone_questions({log.entry: log.columns["ts"].type for log in logs}))


def _write_log(file: ExperimentFile, log: Log, findings: Findings) -> None:
    """Write the entries of a log."""
    origin, is_main = log.table.origin, log is findings.main
    files = {name: paths[0] if len(paths) == 1 else paths for name, paths in origin.paths.items()}
    if files and "" not in files and "variant" in CANONICAL_COLUMNS.get(str(log.kind), ()):
        file.add_entry("path", files, "likely: each variant has its own files")
    elif files:
        file.add_entry("path", files.get("", origin.files))
    for key, value in origin.read.items():
        file.add_entry(key, value, origin.reasons.get(key, "sure: it is named so"))
    if origin.where:
        file.add_entry("where", origin.where)
    casts = find_casts(log, findings.main)
    query, why = origin.query, origin.why
    if casts:
        cast = cast_query(casts, "try_cast")
        query = cast.replace("from log", f"from (\n{query}\n)") if query else cast
        why = "; ".join(filter(None, [why, "ids are text in one log, or numbers with a point"]))
    if query:
        file.add_entry("query", query, f"likely: {why}")
    time, position, dwell = (log.columns.get(entry) for entry in ("ts", "position", "dwell"))
    if time is not None:
        form = DAY_FORMAT if time.is_day_number else origin.formats.get(time.name)
        if form is not None:
            file.add_entry("ts_format", form, "likely: it reads all values")
    if is_main and position is not None and position.low == 0:
        file.add_entry("first_position", 0, "sure: its least position is 0")
    if time is not None and time.time_unit is not None:
        file.add_entry("time_unit", time.time_unit)
    if dwell is not None and dwell.name.endswith("ms"):
        file.add_entry("dwell_unit", "ms")
    if log.join:
        file.add_entry("join", list(log.join), f"likely: {log.reason}")
    befores = [g.column for g in findings.guesses if g.entry == "covariate" and log.kind == "units"]
    if is_main and befores:
        names = [c.name if c.name.isidentifier() else c.number for c in befores if c is not None]
        hint = 'likely: they were before; [inference] adjust = "cuped" makes use of them'
        file.add_entry("covariates", names, hint)
    notes = {g.entry: f"{g.certainty}: {g.reason}" for g in findings.guesses if is_main}
    for entry, column in log.columns.items():
        if column.name != entry and (entry != "unit_id" or column.name != findings.unit):
            file.add_entry(f"columns.{entry}", column.name, notes.get(entry, ""))


def _write_segments(file: ExperimentFile, findings: Findings) -> None:
    """Write segments of a table of counts; suggest those of other logs."""
    segments = [g.column for g in findings.guesses if g.entry == "segment"]
    segment_columns = [column.name for column in segments if column is not None]
    if segment_columns and findings.main.kind == "sums":
        file.add_section("segments")
        for name in segment_columns:
            file.add_entry(slugify_name(name), quote(name))
    elif segment_columns:
        # Nobody but a person knows what the treatment can change.
        what = "properties that the treatment cannot change"
        file.lines += [
            "",
            f"# [segments] may have {what}: {', '.join(map(slugify_name, segment_columns))}",
        ]


def _write_metrics(file: ExperimentFile, findings: Findings) -> None:
    """Write goals and diagnostics, and ask about doubtful ones."""
    taken = {*load_builtin_metrics(30, 30)}
    metrics = list[tuple[_Fields, str]]()
    entries = ("outcome", "ratio") if findings.has_ctr else ("outcome", "ratio", "diagnostic")
    for candidate in findings.guesses:
        if candidate.column is not None and candidate.entry in entries:
            fields = _make_fields(candidate, candidate.column, findings, taken)
            hint = "; a cost is a guardrail with a margin" if candidate.decreases else ""
            metrics.append((fields, f"{candidate.certainty}: {candidate.reason}{hint}"))
    for log in findings.other_logs:
        note = f"likely: sums rows of {log.alias} since the exposure"
        note = "likely: units that the table lacks have 0" if log.kind == "units" else note
        # Beside CTR, and of types of rows such as logins, only what is named so is a goal.
        is_goal = log.is_event or not (findings.has_ctr or log.table.origin.where)
        event_metrics = [*_make_event_metrics(log, findings.main, taken, is_goal)]
        metrics += [(fields, note) for fields in event_metrics]
        if event_metrics and is_goal and not log.is_event:
            file.ask(f"goal: is it {event_metrics[0]['name']}? No name says what shall get better")
    if findings.has_ctr and metrics:
        metrics.insert(0, ({"name": "ctr", "role": "goal"}, "clicks / impressions"))
    elif findings.has_ctr:
        all_of_them = "All built-in metrics of these logs are shown, and the goal is CTR"
        file.lines += ["", f"# {all_of_them}; [[metrics]] choose others"]
    for fields, note in metrics:
        file.add_metric(fields, note)
    file.ask(*(candidate.question for candidate in findings.guesses[2:]))
    doubtful = [g.column for g in findings.guesses if g.entry == "outcome" and g.reason == DOUBT]
    events = [log for log in findings.other_logs if log.kind == "events"]
    summed = ((log, c) for log in events for c in _list_summed(log, findings.main))
    sums = [f"{log.alias}.{c.name}" for log, c in summed if c not in log.outcomes]
    names = ", ".join([*(column.name for column in doubtful if column is not None), *sums])
    if names:
        file.ask(f"outcomes: are {names} outcomes? Until you say so, they are diagnostics")
    if not metrics and not findings.has_ctr:
        file.ask("metrics: no metric yet, as no column is an outcome: name one in [[metrics]]")


def _make_fields(guess: Guess, column: Column, findings: Findings, taken: set[str]) -> _Fields:
    """Make a metric of a column: a share if each unit has 0 or 1, else a mean.

    It is a mean over rows if the unit is a place with several rows, or if sums mean nothing.
    """
    rows, unit = findings.main.table.rows, findings.main.columns.get("unit_id")
    is_place = unit is not None and unit.mentions_role("place") and rows % unit.distinct > 0
    is_mean = is_place or (column.mentions_role("averaged") and not column.is_share)
    is_ascii, value = column.name.isascii(), column.number
    name = guess.name or (slugify_name(column.name) if is_ascii else " ".join(column.name.split()))
    fields: _Fields = {"value": value}
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
    # A cost such as latency is what a goal is paid with; alone, it is the goal.
    others = [g for g in findings.guesses if g.entry in ("outcome", "ratio") and not g.decreases]
    has_goal = findings.has_ctr or any(g.certainty != "not sure" for g in others)
    is_goal = guess.certainty != "not sure" and not (guess.decreases and has_goal)
    role = "goal" if is_goal else "diagnostic"
    return {"name": words.choose_name(taken, name, f"{name}_value"), "role": role, **fields}


def _list_summed(log: Log, main: Log) -> list[Column]:
    """List the numbers of events; of types of rows, those that the impressions lack."""
    varies = {c.name for c in main.table.columns if c.distinct > 1 and log.table.origin.where}
    return [c for c in log.numbers if c in log.outcomes or c.name not in varies]


def _make_event_metrics(log: Log, main: Log, taken: set[str], is_goal: bool) -> Iterator[_Fields]:
    """Make the metrics of a log of events or of a table of units."""
    fields = {"role": "goal" if is_goal else "diagnostic", "log": log.alias}
    if log.kind == "events":
        yield {"name": f"any_{log.alias}", **fields}
        for column in _list_summed(log, main):
            sums = {"per_unit": "sum", "value": column.number}
            role = fields["role"] if column in log.outcomes else "diagnostic"
            yield {
                "name": f"{log.alias}_{slugify_name(column.name)}",
                **fields,
                "role": role,
                **sums,
            }
    for column in log.outcomes if log.kind == "units" else ():
        name = words.choose_name(taken, slugify_name(column.name))
        yield {"name": name, "role": "goal", "log": "units", "value": column.number}
