"""Write guesses as an experiment file; what is not sure is a question, until a person decides."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import tomlkit

from abeval.drafts.columns import Column
from abeval.drafts.counts import CountTable, questions_of, unit_of
from abeval.drafts.design import Models, Period
from abeval.drafts.guess import Arms, Guess, are_near_equal
from abeval.drafts.origins import DONE
from abeval.drafts.others import Log, casts_of
from abeval.drafts.values import DOUBT
from abeval.drafts.words import says, slug
from abeval.engines.sql import cast_query, quoted
from abeval.experiment.sources import CANONICAL_COLUMNS, OWN_TABLE
from abeval.metrics.builtin import builtin_metrics


@dataclass
class File:
    """An experiment file, as it is written: its lines, and the questions that it asks."""

    name: str
    questions: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def ask(self, *questions: str) -> None:
        """Add questions; an empty one is none."""
        self.questions += filter(None, questions)

    def section(self, *names: str, is_array: bool = False) -> None:
        """Begin a table."""
        joined = ".".join(tomlkit.key(name).as_string() for name in names)
        self.lines += ["", f"[[{joined}]]" if is_array else f"[{joined}]"]

    def entry(self, key: str, value: object, note: str = "") -> None:
        """Write an entry, and why it is so."""
        self.lines.append(_entry(key, value) + (f" # {' '.join(note.split())}" if note else ""))

    def remark(self, *lines: str) -> None:
        """Write comments."""
        self.lines += [f"# {' '.join(line.split())}" for line in lines]

    def metric(self, fields: Mapping[str, object], note: str = "") -> None:
        """Write a metric."""
        self.section("metrics", is_array=True)
        for key, value in fields.items():
            self.entry(key, value, note if key == "name" else "")

    @property
    def text(self) -> str:
        """Return the file: the name and the questions come first."""
        head = [_entry("name", self.name)]
        if self.questions:
            head += [
                "# Answer each, then remove it; until then the analysis is a DRAFT and decides "
                "nothing.",
                f"questions = {tomlkit.item(self.questions).multiline(True).as_string()}",
            ]
        return "\n".join([*head, *self.lines]) + "\n"


def _entry(key: str, value: object) -> str:
    if isinstance(value, Mapping):
        text = f"{{ {', '.join(_entry(name, one) for name, one in value.items())} }}"
    elif isinstance(value, str) and '"' in value and "'" not in value and value.isprintable():
        text = f"'{value}'"
    else:
        text = tomlkit.item(value).as_string()
    return f"{tomlkit.key(key).as_string()} = {text}"


@dataclass(frozen=True)
class Findings:
    """What was found in the files.

    Attributes:
        main: The impressions, or the table of units.
        one_row: Whether no unit has a second row.
    """

    main: Log
    others: Sequence[Log]
    guesses: Sequence[Guess]
    arms: Arms | None
    one_row: bool
    period: Period | None = None
    models: Models | None = None

    @property
    def of_units(self) -> bool:
        """Say whether rows are units, whose date is not when they came."""
        return self.main.kind == "units"

    def guess(self, entry: str) -> Guess:
        """Return the guess of an entry."""
        return next(guess for guess in self.guesses if guess.entry == entry)

    @property
    def has_ctr(self) -> bool:
        """Say whether the logs have clicks."""
        return "click" in self.main.columns or any(log.kind == "clicks" for log in self.others)


def experiment_file(name: str, found: Findings) -> File:
    """Write the file of logs or of a table of units."""
    file, unit = File(name), found.guess("unit")
    of_rows = "row" if unit.column is None else unit.column.name
    file.entry("unit", of_rows, f"{unit.certainty}: {unit.reason}")
    file.ask(unit.question)
    if found.arms is None:
        _ask_for_variants(file, found)
    else:
        file.ask(found.guess("variant").question)
        file.entry("control", found.arms.control, f"{found.arms.certainty}: {found.arms.reason}")
        _write_period(file, found.period)
        _write_variants(file, found.arms, found.models)
    events = _names_of_events(found.others)
    _write_logs(file, found, events)
    named = [g.column for g in found.guesses if g.entry == "segment" and g.column is not None]
    if named:
        file.lines.append("")
        file.remark("Properties that the treatment cannot change may be segments:", "[segments]")
        file.remark(*(_entry(slug(column.name), quoted(column.name)) for column in named))
    _write_metrics(file, found, events)
    return file


def counts_file(name: str, table: CountTable, arms: Arms, path: str | None) -> File:
    """Write the file of a table of counts."""
    file, n = File(name), table.outcomes[0].n
    by_day = "; 'day': days are the units" if table.day else ""
    file.entry("unit", unit_of(n), f"'row': each of the {n} was assigned by itself{by_day}")
    file.ask(*questions_of(table, ""))
    for one in table.outcomes:
        if one.spread is not None and not says(one.metric, "outcome", "cost"):
            file.ask(f"direction: is more {one.metric} better, or less? Say its `direction`")
    file.entry("control", arms.control, f"{arms.certainty}: {arms.reason}")
    _write_variants(file, arms, None)
    file.section("logs", "sums")
    if path is not None:
        file.entry("path", path)
    file.entry("columns", {"variant": table.variant})
    if table.segments and table.day is None:
        file.section("segments")
        for part in table.segments:
            file.entry(slug(part), _column(part))
    for one in table.outcomes:
        fields = {"name": one.metric, "role": "goal"}
        fields |= {"numerator": _column(one.column), "denominator": _column(one.n)}
        fields |= {"unit": "share"} if one.spread is None else {}
        fields |= {"direction": "decrease"} if one.is_worse else {}
        file.metric(fields)
    return file


def _column(name: str) -> str:
    return name if name.isascii() and name.isidentifier() else quoted(name)


def _ask_for_variants(file: File, found: Findings) -> None:
    reason = found.guess("variant").reason
    file.remark(f"NOT SURE: {reason} Name it in `columns` below")
    file.remark("and its values as [variants.NAME]; without such a column, give")
    file.remark("[assignment] a `salt`: units are then assigned by hash.")
    file.entry("control", "?")
    by_file = " Or is each file of one variant: path = { NAME = FILE, … }?"
    has_files = len(found.main.table.origin.files) > 1
    file.ask(f"variant: {reason}{by_file if has_files else ''}")


def _write_period(file: File, period: Period | None) -> None:
    if period is None:
        return
    spans = {"period": (period.start, period.end), "pre_period": (period.before, period.start)}
    for name, (start, end) in spans.items():
        file.section(name)
        file.entry("start", start, f"likely: {period.reason}")
        file.entry("end", end)


def _write_variants(file: File, arms: Arms, models: Models | None) -> None:
    """Write the variants, and ask for what their names and units leave open."""
    if arms.certainty == "not sure":
        names = ", ".join(map(repr, arms.units))
        file.ask(f"control: is it {arms.control!r}? The variants are {names}")
    weights, total = likely_weights(arms.units), sum(arms.units.values())
    if len({*weights.values()}) > 1:
        listed = ", ".join(f"{value} {weight:g}" for value, weight in weights.items())
        file.ask(f"weights: was this split planned: {listed}? Write the planned shares as `weight`")
    for value, weight in weights.items():
        file.section("variants", value)
        share = f"{arms.units[value] / total:.2%} of the units"
        file.entry("weight", weight, f"{share}: write the share that was intended")
        if value in arms.joined:
            alike = list(arms.joined[value])
            file.entry("of", alike, "not sure: they differ only in capitals or spaces")
            names = ", ".join(map(repr, alike))
            file.ask(f"variants: are {names} one variant? They are joined")
        if models is not None and value in models.served:
            file.entry("model", models.served[value], "likely: by its name")
    for name, column in models.scores.items() if models else ():
        file.section("models", name)
        file.entry("score", column.name)
    if models is not None and not models.served:
        names = ", ".join(models.scores)
        file.ask(f"models: which of {names} does each variant serve? Add `model` to [variants]")


def likely_weights(units: Mapping[str, int]) -> dict[str, float]:
    """Return equal weights where shares are near equal ones, else the shares in whole per cent.

    Weights that are the observed shares would hide a sample ratio mismatch: uneven ones are asked.

    >>> likely_weights({"a": 5_060, "b": 4_940}), likely_weights({"a": 9_020, "b": 980})
    ({'a': 1, 'b': 1}, {'a': 0.9, 'b': 0.1})
    """
    if are_near_equal(units):
        return dict.fromkeys(units, 1)
    shares = {value: count / sum(units.values()) for value, count in units.items()}
    return {value: round(share, 2) or round(share, 6) for value, share in shares.items()}


def _names_of_events(others: Sequence[Log]) -> dict[str, str]:
    """Return the relations of logs of events, each with a name that follows from its file's."""
    taken, names = {*CANONICAL_COLUMNS, OWN_TABLE}, dict[str, str]()
    for log in others:
        if log.kind == "events":
            names[log.table.relation] = _free(taken, slug(log.name))
    return names


def _free(taken: set[str], *names: str) -> str:
    """Take the first free one of names, else the first name with a number."""
    numbered = (f"{names[0]}_{place}" for place in range(2, len(taken) + 3))
    own = next(name for name in (*names, *numbered) if name not in taken)
    taken.add(own)
    return own


def _write_logs(file: File, found: Findings, events: Mapping[str, str]) -> None:
    """Write `[logs]`, and ask about tables that the draft does not read."""
    notes = {g.entry: f"{g.certainty}: {g.reason}" for g in found.guesses}
    unit = found.main.columns.get("unit_id")
    used = [found.main, *(log for log in found.others if log.kind not in (None, "events"))]
    for log in (*used, *(log for log in found.others if log.kind == "events")):
        path = ("events", events[log.table.relation]) if log.kind == "events" else (str(log.kind),)
        file.section("logs", *path)
        _write_log(file, log, found.main)
        if log is found.main and (known := _known_before(found)):
            hint = 'likely: they were before; [inference] adjust = "cuped" makes use of them'
            file.entry("covariates", known, hint)
        columns = {
            entry: column.name
            for entry, column in log.columns.items()
            if column.name != entry
            and not (entry == "unit_id" and unit is not None and column.name == unit.name)
        }
        if columns:
            file.section("logs", *path, "columns")
        for entry, name in columns.items():
            file.entry(entry, name, notes.get(entry, "") if log is found.main else "")
    for question in dict.fromkeys(q for log in used for q in log.table.origin.questions):
        file.ask(question)
    for log in found.others:
        origin = log.table.origin
        named = ", ".join(origin.files) + (f" where {origin.where}" if origin.where else "")
        named += f", table {origin.name}" if "table" in origin.read else ""
        if log.kind is not None:
            file.ask(log.question and f"{named}: {log.question}")
            continue
        file.lines.append("")
        file.remark(f"NOT SURE: {named} is not used: {log.reason}. Its rows may be")
        file.remark(
            "[logs.clicks] (unit, item and time), [logs.exposures] (unit, variant and time),"
        )
        file.remark("[logs.units] (one row a unit), or [logs.events.NAME] (unit and time).")
        kinds = "clicks, exposures, a table of units, or events"
        file.ask(f"{named} is not used: {log.reason}. Are its rows {kinds}?")


def _known_before(found: Findings) -> list[str]:
    """Return the covariates of a table of units."""
    known = (g.column for g in found.guesses if g.entry == "covariate" and found.of_units)
    return [c.name if c.name.isidentifier() else c.number for c in known if c is not None]


def _write_log(file: File, log: Log, main: Log) -> None:
    """Write the entries of a log but its columns."""
    origin = log.table.origin
    files = {name: own[0] if len(own) == 1 else own for name, own in origin.paths.items()}
    if files and "" not in files and "variant" in CANONICAL_COLUMNS.get(str(log.kind), ()):
        file.entry("path", files, "likely: each variant has its own files")
    elif files:
        file.entry("path", files.get("", origin.files))
    for key, value in origin.read.items():
        file.entry(key, value, origin.reasons.get(key, "sure: it is named so"))
    if origin.where:
        file.entry("where", origin.where)
    if casts := casts_of(log, main):
        query = cast_query(casts, "try_cast")
        file.entry("query", query, "likely: ids are text in one log, or have a point")
    time, dwell = log.columns.get("ts"), log.columns.get("dwell")
    if time is not None and time.kind == "integer":
        file.entry("time_unit", time.time_unit)
    if dwell is not None and dwell.name.endswith("ms"):
        file.entry("dwell_unit", "ms")
    if log.join:
        file.entry("join", list(log.join), f"likely: {log.reason}")


def _write_metrics(file: File, found: Findings, events: Mapping[str, str]) -> None:
    """Write goals and diagnostics, and as comments what may be others; ask what is not sure."""
    taken = {*builtin_metrics(30, 30)}
    metrics = list[tuple[dict[str, object], str]]()
    beside = list[dict[str, object]]()
    for guess in found.guesses:
        is_value = guess.entry in ("outcome", "ratio")
        if guess.column is None or not (is_value or guess.entry in ("diagnostic", "covariate")):
            continue
        if is_value or (guess.entry == "diagnostic" and not found.has_ctr):
            fields = _fields(guess, guess.column, found, taken)
            metrics.append((fields, f"{guess.certainty}: {guess.reason}"))
        elif guess.entry == "diagnostic" or not found.of_units:
            beside.append(_fields(guess, guess.column, found, taken))
    for log in found.others:
        if log.table.relation in events:
            name = events[log.table.relation]
            note = f"likely: of the rows of {name} since the exposure"
            metrics += [(fields, note) for fields in _of_events(name, log)]
    if found.has_ctr and metrics:
        metrics.insert(0, ({"name": "ctr", "role": "goal"}, "clicks / impressions"))
    elif found.has_ctr:
        file.lines.append("")
        file.remark("All built-in metrics of these logs are shown, and the goal is CTR. To")
        file.remark("choose others, add entries for all:", "[[metrics]]", 'name = "ctr"')
    for fields, note in metrics:
        file.metric(fields, note)
    if beside:
        file.lines.append("")
        file.remark("Others, and what was known before:")
    for fields in beside:
        file.remark("[[metrics]]", *(_entry(key, value) for key, value in fields.items()))
    file.ask(*(g.question for g in found.guesses if g.entry not in ("unit", "variant")))
    doubtful = [g.column for g in found.guesses if g.entry == "outcome" and g.reason == DOUBT]
    names = ", ".join(column.name for column in doubtful if column is not None)
    if names:
        file.ask(f"outcomes: are {names} among them? They are diagnostics until then")
    if not metrics and not found.has_ctr:
        file.ask("metrics: no column is a number that could be an outcome")


def _fields(guess: Guess, column: Column, found: Findings, taken: set[str]) -> dict[str, object]:
    """Make a metric of one column: a share if each unit has 0 or 1, else a mean per unit.

    Of several rows of a place, or where a sum says nothing, it is the mean of the rows.
    """
    rows, unit = found.main.table.rows, found.main.columns.get("unit_id")
    of_place = unit is not None and not unit.named("unit") and rows % unit.distinct > 0
    is_mean = of_place or (column.says("averaged") and not column.is_share)
    name, value = slug(column.name), column.number
    fields: dict[str, object] = {"value": value}
    if guess.over is not None:
        name = f"{name}_per_{slug(guess.over.name)}"
        fields = {"numerator": value, "denominator": quoted(guess.over.name)}
    elif is_mean and not found.one_row:
        fields = {"numerator": value, "denominator": "1"}
    elif not found.one_row:
        name = f"{name}_per_unit"
    name = _free(taken, name, f"{name}_value")
    if column.is_share and (found.one_row or of_place):
        fields["unit"] = "share"
    if guess.decreases:
        fields["direction"] = "decrease"
    if column.rows < rows:
        fields["missing"] = "drop"
    role = "diagnostic" if guess.certainty == "not sure" else "goal"
    return {"name": name, "role": role, **fields}


def _of_events(name: str, log: Log) -> Iterator[dict[str, object]]:
    """Make metrics of a log of events: units that have a row, and sums of its outcomes."""
    # Of types of rows, such as logins, those that are called so are outcomes.
    is_goal = not log.table.origin.where or says(log.name, *DONE)
    fields = {"role": "goal" if is_goal else "diagnostic", "log": name}
    yield {"name": f"any_{name}", **fields}
    for column in log.outcomes:
        sums = {"per_unit": "sum", "value": column.number}
        yield {"name": f"{name}_{slug(column.name)}", **fields, **sums}
