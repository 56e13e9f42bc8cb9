"""Print results in the terminal, in tables that fit its width."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from io import StringIO
from itertools import chain
from typing import TYPE_CHECKING

from rich.box import Box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from abeval.report import tables
from abeval.report.next_step import ORDER, sort_rows, write_next_step, write_verdicts
from abeval.report.tables import ROLES, Kind, TextTable, fit_rows
from abeval.report.worth import write_worth_lines
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.analysis import Result
from abeval.results.record import Record, group_rows

if TYPE_CHECKING:
    from abeval.results.power import PowerOutlook

_WIDTH = 110
_DECISION_STYLE = {
    "ship": "bold blue",
    "do_not_ship": "bold red",
    "keep_running": "bold",
    "do_not_trust": "bold yellow",
    "draft": "bold yellow",
}


def as_text(result: Record, width: int | None = None, show_all: bool = False) -> str:
    """Write a result as plain text, by default 110 columns wide."""
    from abeval.results.study import Study

    if isinstance(result, Study):
        return "\n".join(as_text(part, width, show_all) for part in result.results)
    out = StringIO()
    console = Console(
        file=out,
        width=width or _WIDTH,
        color_system=None,
        force_terminal=False,
        force_jupyter=False,  # otherwise Rich shows a cell of its own there and writes nothing
        _environ={},
    )
    if isinstance(result, Result):
        print_result(result, console)
    else:
        for note in print_brief(result, console, show_all):
            console.print(_make_text(note))
    # Cells are padded; trailing blanks would only make diffs noisy.
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def print_brief(result: Record, console: Console, show_all: bool) -> tuple[str, ...]:
    """Print the tables and sentences of a result, and return its notes.

    The result is of any kind but an analysis.
    """
    from abeval.report.short import tabulate

    result_tables = tabulate(result, show_all)
    if result_tables.draft:
        console.print(_make_text(result_tables.draft, _DECISION_STYLE["draft"]))
    for i, part in enumerate(result_tables.parts):
        if isinstance(part, str):
            console.print(_make_text(part))
            continue
        if i:
            console.print()
        for block in write_table(part, console.width, show_all):
            console.print(block)
    return result_tables.notes


def print_result(
    result: Result,
    console: Console,
    show_all: bool = True,
    outlook: "PowerOutlook | None" = None,
    offline: Sequence[str] = (),
) -> None:
    """Print the result of an analysis: verdicts, checks, scorecard, accounting.

    Without `show_all` it is a first screen: goals, guardrails, the next step, what else there is.
    `offline` is what models say offline, for a line under the verdict.
    """
    judged = {row.metric for row in result.scorecard if row.role != "diagnostic"}
    # Without goals and guardrails a first screen would be empty.
    show_all, width = show_all or not judged, console.width
    metrics = None if show_all else judged
    sections: list[Iterable[Text | Padding]] = [
        (*_write_verdicts(result, outlook, offline), *_write_trust(result, width, show_all)),
        _write_scorecard(result, width, metrics),
    ]
    if show_all:
        sections += [write_table(table, width) for table in _list_tables(result)]
    sections.append(_write_omissions(result, metrics))
    if show_all:
        notes = [_make_text(f"  - {note}") for note in result.notes]
        sections += [_write_row_counts(result), [Text("Notes", "bold"), *notes] if notes else ()]
    sections.append(_write_next_step(result, outlook, show_all))
    for i, section in enumerate(sections):
        for j, block in enumerate(section):
            if i and not j:
                console.print()
            console.print(block)


def _write_next_step(
    result: Result, outlook: "PowerOutlook | None", show_all: bool
) -> Iterator[Text]:
    """Print the next step, and list what the first screen leaves out."""
    if step := write_next_step(result, outlook):
        yield Text.assemble(("Next: ", "bold"), _make_text(step))
    diagnostics = Counter(row.status for row in result.scorecard if row.role == "diagnostic")
    counted = diagnostics.most_common()
    states = ", ".join(f"{n} {codes.describe_status(status, None)}" for status, n in counted)
    omissions = [f"{diagnostics.total()} diagnostics ({states})"] if diagnostics else []
    omissions += [table.title for table in _list_tables(result)]
    omissions += ["notes"] if result.notes else []
    if omissions and not show_all:
        yield _make_text(f"With --all: {fmt.join_items(omissions)}", "dim")


def _list_tables(result: Result) -> tuple[TextTable, ...]:
    slice_tables = *tables.list_segment_tables(result), *tables.list_cut_tables(result)
    return (
        *tables.list_adjustment_tables(result),
        *tables.list_design_tables(result),
        *slice_tables,
    )


def _write_verdicts(
    result: Result, outlook: "PowerOutlook | None", offline: Sequence[str]
) -> Iterator[Text]:
    lines, shared = write_verdicts(result, outlook)
    for line in lines:
        name = _make_text(f"{line.variant}: " if len(lines) > 1 else "")
        word = line.word, _DECISION_STYLE[line.decision]
        yield Text.assemble(name, word, _make_text(f": {line.sentence}"))
    if shared:
        yield _make_text(shared)
    if len(lines) > 1:
        yield Text(ORDER, "dim")
    labelled_lines = [*write_worth_lines(result), *(("Offline", line) for line in offline)]
    yield from (_make_text(f"{name}: {words}") for name, words in labelled_lines)
    info = result.experiment
    units = f"{info.unit} units: {tables.list_units(info)}"
    log = "; ".join(filter(None, (result.so_far, units)))
    yield _make_text(f"{info.display_name}: {log}")
    if info.hypothesis:
        yield _make_text(f"Hypothesis: {' '.join(info.hypothesis.split())}")


def _write_trust(result: Result, width: int, show_all: bool) -> Iterator[Text | Padding]:
    """Count the checks, and print those that failed or could still be made."""
    unused = [note for note in result.notes if note.startswith(codes.UNUSED) and not show_all]
    yield from map(_make_text, unused)
    yield Text(f"Trust: {tables.tally_checks(result.trust)}")
    could_be_made = [c for c in result.trust if c.status == "skipped" and c.remedy]
    if by_remedy := group_rows(could_be_made, lambda check: check.remedy):
        names = {remedy: [check.name for check in same] for remedy, same in by_remedy.items()}
        reasons = (f"{fmt.join_items(checks)} ({remedy})" for remedy, checks in names.items())
        short = f"{fmt.join_items([*chain(*names.values())])} (--all says what each needs)"
        yield _make_text(f"Not checked: {'; '.join(reasons) if show_all else short}", "dim")
    if doubtful := [check for check in result.trust if check.status in ("fail", "warn")]:
        yield Text()
        yield from write_table(tables.tabulate_trust_checks(doubtful)._replace(title=""), width)


_MAX_HEAD = 16
"""Longest variant name that heads a column; longer ones get a general header."""


def _write_scorecard(
    result: Result, width: int, metrics: Collection[str] | None = None
) -> Iterator[Text | Padding]:
    """Print the scorecard by role, or only the rows of some metrics."""
    level = fmt.format_level(result.experiment.alpha)
    doubt = " (DRAFT)" if result.questions else ""
    doubt = doubt if result.trusted else " (NOT TO BE TRUSTED)"
    family = result.experiment.family
    after = "unadjusted" if family == "none" else f"of goals after {family.capitalize()}"
    yield Text(f"Scorecard{doubt}: lift with {level} interval, p {after}", "bold")
    variants = {row.variant for row in result.scorecard}
    several = len(variants) > 1
    names = [result.experiment.control, *(["variant value"] if several else variants)]
    if max(map(len, names)) > _MAX_HEAD:
        names = ["control", "treatment"]
    every = [row for row in result.scorecard if metrics is None or row.metric in metrics]
    display_rows = fit_rows(result, sort_rows(result, every))
    with_method = metrics is not None
    rows = tables.bare_table(
        display_rows,
        ("metric", lambda display_row: display_row.name),
        ("variant", lambda display_row: display_row.row.variant * several),
        (names[0], lambda display_row: display_row.values[0], "spare"),
        (names[1], lambda display_row: display_row.values[1], "spare"),
        ("lift", lambda display_row: display_row.effect),
        *("p", "status"),
        ("reason", lambda display_row: display_row.reason, "note"),
        ("method", lambda r: codes.describe_code(r.row.method or "") * with_method, "note"),
    )
    roles = [display_row.row.role for display_row in display_rows]
    titles = {roles.index(role): title for role, title, _ in ROLES if role in roles}
    yield from _lay_out(rows, width, titles=titles)
    if any(display_row.has_only_difference for display_row in display_rows):
        yield Text("  abs: a difference in the metric's unit: its lift has no interval", "dim")
    if any(display_row.mark for display_row in display_rows):
        yield Text("  adj: control plus the adjusted difference, not the observed value", "dim")


def write_table(source: TextTable, width: int, show_all: bool = False) -> Iterator[Text | Padding]:
    """Print a table with its heading; `show_all` drops no column."""
    if source.title:
        yield _make_text(": ".join(filter(None, (source.title, source.lead))), "bold")
    yield from _lay_out(source, width, show_all)


def _write_omissions(result: Result, metrics: Collection[str] | None = None) -> Iterator[Text]:
    """Print what each metric leaves out or counts as 0, by variant."""
    groups = group_rows(result.left_out, lambda item: (item.metric, item.what))
    for (metric, what), same in groups.items():
        if any(item.count for item in same) and (metrics is None or metric in metrics):
            does = "has 0 for" if same[0].as_zero else "leaves out"
            counts = ", ".join(f"{fmt.format_count(item.count)} in {item.variant}" for item in same)
            yield _make_text(f"{result.label(metric)} {does} {what}: {counts}", "dim")


def _write_row_counts(result: Result) -> Iterator[Text]:
    units = sum(variant.units for variant in result.experiment.variants)
    # Of a table whose rows are the units, all of them used, the first lines say it.
    accounts = [a for a in result.accounting if not a.read == a.used == units]
    if accounts:
        yield Text("Rows", "bold")
    for account in accounts:
        read, used, set_aside = map(
            fmt.format_count, (account.read, account.used, sum(n for _, n in account.set_aside))
        )
        reasons = ", ".join(
            f"{fmt.format_count(n)} {codes.describe_code(why)}" for why, n in account.set_aside
        )
        why = f" ({reasons})" if reasons else ""
        line = f"  {account.log}: {read} read = {used} used + {set_aside} set aside{why}"
        yield _make_text(line)


def _make_text(text: str, style: str = "") -> Text:
    return Text(replace_unprintable(text), style)


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


def _lay_out(
    table: TextTable, width: int, show_all: bool = False, titles: Mapping[int, str] | None = None
) -> Iterator[Padding | Text]:
    """Lay out a table in a width; `show_all` drops no column.

    `titles` stand above the rows with their numbers.
    """
    kinds = table.kinds or _NAMES * len(table.headers)
    table = table._replace(kinds=kinds)
    rows = [[_make_text(text, _STYLES.get(text, "")) for text in row] for row in table.rows]
    filled = [i for i in range(len(kinds)) if any(row[i].plain for row in rows)]
    kept = _choose_columns(table, rows, filled, width, () if show_all else _SPARE)
    # Names and numbers are never cut: a table that is still too wide becomes blocks.
    if kept is None:
        yield from _lay_out_blocks(table, rows, filled, titles or {})
        return
    yield _indent(_lay_out_grid(table, rows, kept, titles or {}))
    notes = [i for i in filled if kinds[i] == "note" and i not in kept]
    # Metric and variant tell which row a note belongs to.
    names = [i for i in kept if kinds[i] == "name"][:2]
    for row in rows:
        if note_text := ", ".join(row[i].plain for i in notes if row[i].plain):
            row_name = ", ".join(row[i].plain for i in names)
            yield _indent(Text(f"{row_name}: {note_text}", "dim"))


def replace_unprintable(text: str) -> str:
    """Replace characters that are not printable."""
    # A name from a log must not control the terminal.
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _choose_columns(
    table: TextTable, rows: Rows, filled: Sequence[int], width: int, spare: Sequence[Kind]
) -> list[int] | None:
    """Choose the columns that fit; None if names or numbers would be cut."""
    kept, needs = list(filled), dict[int, int]()
    for i in filled:
        widest = max((row[i].cell_len for row in rows), default=0)
        most = _SENTENCE if table.kinds[i] in ("words", "note") else widest
        needs[i] = max(min(widest, most), len(table.headers[i]))
    # Columns leave from the right: spare ones first, notes last.
    leaving = [i for kinds in (("note",), spare) for i in filled if table.kinds[i] in kinds]
    while sum(needs[i] + _GAP for i in kept) - _GAP > width - _INDENT:
        if not leaving:
            return None
        kept.remove(leaving.pop())
    return kept


def _lay_out_grid(
    table: TextTable, rows: Rows, kept: Sequence[int], titles: Mapping[int, str]
) -> Table:
    grid = Table(box=_RULED, show_edge=False, pad_edge=False, header_style="bold dim")
    for i in kept:
        grid.add_column(
            _make_text(table.headers[i]),
            overflow="fold",
            no_wrap=table.kinds[i] not in ("words", "note"),
            justify="right" if table.kinds[i] in ("number", "spare") else "left",
        )
    for index, row in enumerate(rows):
        if index in titles:
            if index:
                grid.add_row()
            grid.add_row(Text(titles[index], "dim"))
        grid.add_row(*(row[i] for i in kept))
    return grid


def _lay_out_blocks(
    table: TextTable, rows: Rows, filled: Sequence[int], titles: Mapping[int, str]
) -> Iterator[Padding | Text]:
    """Print each row as a heading and a line for every other cell."""
    first, *other_columns = filled
    for index, row in enumerate(rows):
        if index in titles:
            yield _indent(Text(titles[index], "dim"))
        yield _indent(Text.assemble(row[first], style="bold"))
        fields = Table.grid(padding=(0, 2))
        fields.add_column(no_wrap=True)
        fields.add_column(overflow="fold")
        for i in other_columns:
            if row[i].plain:
                fields.add_row(_make_text(table.headers[i], "dim"), row[i])
        yield Padding(fields, (0, 0, 0, 2 * _INDENT), expand=False)


def _indent(what: Table | Text) -> Padding:
    return Padding(what, (0, 0, 0, _INDENT), expand=False)
