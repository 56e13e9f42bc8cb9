"""Print results in the terminal, in tables that fit its width."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from io import StringIO
from itertools import chain
from typing import TYPE_CHECKING

from rich.box import Box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from abeval.report import tables
from abeval.report.next_step import ORDER, next_step, sort_rows, verdict_lines
from abeval.report.tables import ROLES, Kind, Tables, TextTable, decisive_p, fit_rows
from abeval.results import Row, codes
from abeval.results import format as fmt
from abeval.results.analysis import Result
from abeval.results.record import Record

if TYPE_CHECKING:
    from abeval.results.power import PowerOutlook

WIDTH = 110
_DECISION_STYLE = {
    "ship": "bold blue",
    "do_not_ship": "bold red",
    "keep_running": "bold",
    "do_not_trust": "bold yellow",
    "draft": "bold yellow",
}


def as_text(result: Record, width: int | None = None, whole: bool = False) -> str:
    """Write a result as plain text, by default 110 columns wide."""
    from abeval.results.study import Study

    if isinstance(result, Study):
        return "\n".join(as_text(part, width, whole) for part in result.results)
    if isinstance(result, Result):
        return _capture(lambda console: print_result(result, console), width)
    from abeval.report.short import tabulate

    return tables_text(tabulate(result, whole), width, whole)


def tables_text(shown: Tables, width: int | None = None, whole: bool = False) -> str:
    """Write tables and their notes as plain text, as `as_text` does."""

    def write(console: Console) -> None:
        for note in print_tables(shown, console, whole):
            console.print(Text(plain(note)))

    return _capture(write, width)


def _capture(write: Callable[[Console], None], width: int | None) -> str:
    """Return as plain text what a function writes to a console."""
    out = StringIO()
    console = Console(
        file=out,
        width=width or WIDTH,
        color_system=None,
        force_terminal=False,
        force_jupyter=False,  # otherwise Rich shows a cell of its own there and writes nothing
        _environ={},
    )
    write(console)
    # Cells are padded; trailing blanks would only make diffs noisy.
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def print_brief(result: Record, console: Console, whole: bool) -> tuple[str, ...]:
    """Print the tables of a result other than an analysis; return its notes."""
    from abeval.report.short import tabulate

    return print_tables(tabulate(result, whole), console, whole)


def print_tables(shown: Tables, console: Console, whole: bool) -> tuple[str, ...]:
    """Print tables and sentences in order; return the notes."""
    if shown.draft:
        console.print(Text(plain(shown.draft), _DECISION_STYLE["draft"]))
    for i, part in enumerate(shown.parts):
        if i and isinstance(part, TextTable):
            console.print()
        if isinstance(part, str):
            console.print(Text(plain(part)))
            continue
        for block in text_table(part, console.width, whole):
            console.print(block)
    return shown.notes


def print_result(
    result: Result, console: Console, whole: bool = True, outlook: "PowerOutlook | None" = None
) -> None:
    """Print the result of an analysis: verdicts, checks, scorecard, accounting.

    Without `show_all` it is a first screen: goals, guardrails, the next step, what else there is.
    """
    judged = {row.metric for row in result.scorecard if row.role != "diagnostic"}
    # Without goals and guardrails a first screen would be empty.
    whole, width = whole or not judged, console.width
    metrics = None if whole else judged
    notes = [Text(f"  - {plain(note)}") for note in result.notes]
    sections: list[Iterable[Text | Padding]] = [
        (*_verdicts(result, outlook), *_trust(result, width, whole)),
        _scorecard(result, width, metrics),
        *(text_table(table, width) for table in _tables(result) if whole),
        _left_out(result, metrics),
        *((_accounting(result), [_heading("Notes"), *notes] if notes else ()) if whole else ()),
        _ahead(result, outlook, whole),
    ]
    for i, section in enumerate(sections):
        for j, block in enumerate(section):
            if i and not j:
                console.print()
            console.print(block)


def _ahead(result: Result, outlook: "PowerOutlook | None", whole: bool) -> Iterator[Text]:
    """Print the next step, and list what the first screen leaves out."""
    if step := next_step(result, outlook):
        yield Text.assemble(("Next: ", "bold"), plain(step))
    others = Counter(row.status for row in result.scorecard if row.role == "diagnostic")
    states = ", ".join(f"{n} {codes.status(s, None)}" for s, n in others.most_common())
    listed = [f"{others.total()} diagnostics ({states})"] if others else []
    listed += [table.title for table in _tables(result)]
    listed += ["notes"] if result.notes else []
    if listed and not whole:
        yield Text(plain(f"With --all: {fmt.listing(listed)}"), "dim")


def _tables(result: Result) -> tuple[TextTable, ...]:
    of_parts = *tables.segment_tables(result), *tables.cut_tables(result)
    return (*tables.tables(result), *tables.design_tables(result), *of_parts)


def _verdicts(result: Result, outlook: "PowerOutlook | None") -> Iterator[Text]:
    lines, shared = verdict_lines(result, outlook)
    for line in lines:
        name = f"{plain(line.variant)}: " if len(lines) > 1 else ""
        word = line.word, _DECISION_STYLE[line.decision]
        yield Text.assemble(name, word, plain(f": {line.sentence}"))
    if shared:
        yield Text(plain(shared))
    if len(lines) > 1:
        yield Text(ORDER, "dim")
    info = result.experiment
    units = ", ".join(f"{plain(v.name)} {fmt.count(v.units)}" for v in info.variants)
    parts = filter(None, (result.so_far, f"{info.unit} units: "))
    yield Text(plain(f"{info.shown}: {'; '.join(parts)}") + units)
    if info.hypothesis:
        yield Text(plain(f"Hypothesis: {' '.join(info.hypothesis.split())}"))


def _trust(result: Result, width: int, whole: bool) -> Iterator[Text | Padding]:
    """Count the checks, and print those that failed or could still be made."""
    unused = [note for note in result.notes if note.startswith(codes.UNUSED) and not whole]
    yield from map(Text, map(plain, unused))
    yield Text(f"Trust: {tables.tally(result.trust)}")
    by_remedy: dict[str, list[str]] = {}
    for check in result.trust:
        if check.status == "skipped" and check.remedy:
            by_remedy.setdefault(check.remedy, []).append(check.name)
    if by_remedy:
        listed = (f"{fmt.listing(names)} ({remedy})" for remedy, names in by_remedy.items())
        short = f"{fmt.listing(list(chain(*by_remedy.values())))} (--all says what each needs)"
        yield Text(plain(f"Not checked: {'; '.join(listed) if whole else short}"), "dim")
    doubtful = [check for check in result.trust if check.status in ("fail", "warn")]
    if doubtful:
        yield Text()
        yield from text_table(tables.checks_table(doubtful)._replace(title=""), width)


_HEAD = 16
"""Longest variant name that heads a column; longer ones get a general header."""


def _scorecard(
    result: Result, width: int, metrics: Collection[str] | None = None
) -> Iterator[Text | Padding]:
    """Print the scorecard by role, or only the rows of some metrics."""
    level = fmt.level(result.experiment.alpha)
    doubt = " (DRAFT)" if result.questions else ""
    doubt = doubt if result.trusted else " (NOT TO BE TRUSTED)"
    family = result.experiment.family
    after = "unadjusted" if family == "none" else f"of goals after {family.capitalize()}"
    yield _heading(f"Scorecard{doubt}: lift with {level} interval, p {after}")
    variants = {row.variant for row in result.scorecard}
    several = len(variants) > 1
    names = [plain(result.experiment.control), "variant value" if several else plain(*variants)]
    if max(map(len, names)) > _HEAD:
        names = ["control", "treatment"]
    every = [row for row in result.scorecard if metrics is None or row.metric in metrics]
    shown = fit_rows(result, sort_rows(result, every))

    units = {metric.name: metric.unit for metric in result.metrics}

    def values(row: Row) -> tuple[str, str]:
        return fmt.pair(row.control, row.treatment, units.get(row.metric, ""))

    def lift(row: Row) -> str:
        shown = fmt.effect(row, units.get(row.metric, ""))
        return shown.text + " abs" * _in_own_unit(row)

    rows = tables.numbers(
        shown,
        ("metric", lambda one: result.label(one.row.metric)),
        ("variant", lambda one: one.row.variant if several else ""),
        (names[0], lambda one: values(one.row)[0], "spare"),
        (names[1], lambda one: values(one.row)[1] + one.mark, "spare"),
        ("lift", lambda one: lift(one.row)),
        ("p", lambda one: fmt.p_value(decisive_p(one.row))),
        ("status", lambda one: codes.status(one.row.status, one.row.reason)),
        ("reason", lambda one: one.reason, "note"),
        ("method", lambda one: codes.words(one.row.method or "") * (metrics is not None), "note"),
    )
    roles = [one.row.role for one in shown]
    titles = {roles.index(role): title for role, title, _ in ROLES if role in roles}
    yield from lay_out(rows, width, titles=titles)
    if any(_in_own_unit(one.row) for one in shown):
        yield Text("  abs: a difference in the metric's unit: its lift has no interval", "dim")
    if any(one.mark for one in shown):
        yield Text("  adj: control plus the adjusted difference, not the observed value", "dim")


def _in_own_unit(row: Row) -> bool:
    """Tell whether a row shows its difference because its lift has no interval."""
    return row.difference is not None and None in (row.lift, row.lift_low, row.lift_high)


def text_table(source: TextTable, width: int, whole: bool = False) -> Iterator[Text | Padding]:
    """Print a table with its heading; `show_all` drops no column."""
    if source.title:
        yield _heading(plain(": ".join(filter(None, (source.title, source.lead)))))
    yield from lay_out(source, width, whole)


def _left_out(result: Result, metrics: Collection[str] | None = None) -> Iterator[Text]:
    """Print what each metric leaves out or counts as 0, by variant."""
    for metric, what in dict.fromkeys((item.metric, item.what) for item in result.left_out):
        same = [i for i in result.left_out if (i.metric, i.what) == (metric, what)]
        if any(item.count for item in same) and (metrics is None or metric in metrics):
            does = "has 0 for" if same[0].as_zero else "leaves out"
            counts = ", ".join(f"{fmt.count(item.count)} in {item.variant}" for item in same)
            yield Text(plain(f"{result.label(metric)} {does} {what}: {counts}"), "dim")


def _accounting(result: Result) -> Iterator[Text]:
    units = sum(variant.units for variant in result.experiment.variants)
    # Of a table whose rows are the units, all of them used, the first lines say it.
    accounts = [a for a in result.accounting if not a.read == a.used == units]
    if accounts:
        yield _heading("Rows")
    for account in accounts:
        set_aside = fmt.count(sum(rows for _, rows in account.set_aside))
        line = f"  {account.log}: {fmt.count(account.read)} read = {fmt.count(account.used)} used"
        reasons = ", ".join(f"{fmt.count(n)} {codes.words(why)}" for why, n in account.set_aside)
        why = f" ({reasons})" if reasons else ""
        yield Text(plain(f"{line} + {set_aside} set aside{why}"))


def _heading(text: str) -> Text:
    return Text(text, style="bold")


_RULED = Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)
_SPARE: tuple[Kind, ...] = ("spare", "extra")
_NAMES: tuple[Kind, ...] = ("name",)
_INDENT, _GAP = 2, 3
_SENTENCE = 24
"""Least width of a column of sentences."""

Rows = Sequence[Sequence[Text]]

_STYLES = {
    **dict.fromkeys(("better", "non inferior"), "blue"),
    **dict.fromkeys(("worse", "untrusted"), "red"),
    **dict.fromkeys(("off", "fail"), "bold red"),
    **dict.fromkeys(("drifting", "settling", "warn", "draft"), "yellow"),
}
"""Text of a cell → its style."""


def lay_out(
    table: TextTable, width: int, whole: bool = False, titles: Mapping[int, str] | None = None
) -> Iterator[Padding | Text]:
    """Lay out a table in a width; `show_all` drops no column.

    `titles` stand above the rows with their numbers.
    """
    kinds = table.kinds or _NAMES * len(table.headers)
    table = table._replace(kinds=kinds)
    rows = [[Text(plain(text), _STYLES.get(text, "")) for text in row] for row in table.rows]
    filled = [i for i in range(len(kinds)) if any(row[i].plain for row in rows)]
    kept = _that_fit(table, rows, filled, width, () if whole else _SPARE)
    # Names and numbers are never cut: a table that is still too wide becomes blocks.
    if kept is None:
        yield from _blocks(table, rows, filled, titles or {})
        return
    yield _indented(_grid(table, rows, kept, titles or {}))
    notes = [i for i in filled if kinds[i] == "note" and i not in kept]
    # Metric and variant tell which row a note belongs to.
    names = [i for i in kept if kinds[i] == "name"][:2]
    for row in rows:
        if said := ", ".join(row[i].plain for i in notes if row[i].plain):
            of = ", ".join(row[i].plain for i in names)
            yield _indented(Text(f"{of}: {said}", "dim"))


def plain(text: str) -> str:
    """Replace characters that are not printable."""
    # A name from a log must not control the terminal.
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _that_fit(
    table: TextTable, rows: Rows, filled: Sequence[int], width: int, spare: Sequence[Kind]
) -> list[int] | None:
    """Choose the columns that fit; None if names or numbers would be cut."""
    kept, needs = list(filled), dict[int, int]()
    for i in filled:
        widest = max((row[i].cell_len for row in rows), default=0)
        most = _SENTENCE if table.kinds[i] in ("words", "note") else widest
        needs[i] = max(min(widest, most), len(table.headers[i]))
    # Columns leave from the right: spare ones first, notes last.
    leaving = [i for of in (("note",), spare) for i in filled if table.kinds[i] in of]
    while sum(needs[i] + _GAP for i in kept) - _GAP > width - _INDENT:
        if not leaving:
            return None
        kept.remove(leaving.pop())
    return kept


def _grid(table: TextTable, rows: Rows, kept: Sequence[int], titles: Mapping[int, str]) -> Table:
    grid = Table(box=_RULED, show_edge=False, pad_edge=False, header_style="bold dim")
    for i in kept:
        grid.add_column(
            Text(table.headers[i]),
            overflow="fold",
            no_wrap=table.kinds[i] not in ("words", "note"),
            justify="right" if table.kinds[i] in ("number", "spare") else "left",
        )
    for place, row in enumerate(rows):
        if place in titles:
            if place:
                grid.add_row()
            grid.add_row(Text(titles[place], "dim"))
        grid.add_row(*(row[i] for i in kept))
    return grid


def _blocks(
    table: TextTable, rows: Rows, filled: Sequence[int], titles: Mapping[int, str]
) -> Iterator[Padding | Text]:
    """Print each row as a heading and a line for every other cell."""
    first, *others = filled
    for place, row in enumerate(rows):
        if place in titles:
            yield _indented(Text(titles[place], "dim"))
        yield _indented(Text.assemble(row[first], style="bold"))
        fields = Table.grid(padding=(0, 2))
        fields.add_column(no_wrap=True)
        fields.add_column(overflow="fold")
        for i in others:
            if row[i].plain:
                fields.add_row(Text(table.headers[i], "dim"), row[i])
        yield Padding(fields, (0, 0, 0, 2 * _INDENT), expand=False)


def _indented(what: Table | Text) -> Padding:
    return Padding(what, (0, 0, 0, _INDENT), expand=False)
