"""The result in the terminal: verdict, trust checks and scorecard.

`cli/analyze.py` prints it; `results/views.py` returns it as text, for `print(result)`.
"""

from collections.abc import Iterator, Sequence
from io import StringIO

from rich.box import Box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from abeval.report.tables import ROLES, TextTable, decisive_p, segment_tables, tables
from abeval.results import Check, Decision, LeftOut, Row
from abeval.results import format as fmt
from abeval.results.analysis import Result

WIDTH = 110
NARROW = 96
"""Below this many columns the values of control and treatment are left out."""
_RULED = Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)
_DECISION_STYLE: dict[Decision, str] = {
    "ship": "bold blue",
    "do_not_ship": "bold red",
    "keep_running": "bold",
    "do_not_trust": "bold red",
}
_STATUS_STYLE = {
    "better": "blue",
    "non_inferior": "blue",
    "worse": "red",
    "untrusted": "red",
    "fail": "bold red",
    "warn": "yellow",
}


def as_text(result: Result, width: int | None = None) -> str:
    """The result as plain text: no colours, the same on every machine.

    Args:
        result: The result.
        width: Columns to fit into; 110 when omitted.
    """
    out = StringIO()
    console = Console(
        file=out, width=width or WIDTH, color_system=None, force_terminal=False, _environ={}
    )
    print_result(result, console)
    # Cells are padded; trailing blanks would only make diffs noisy.
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def print_result(result: Result, console: Console) -> None:
    """Print verdicts, trust checks, the scorecard by role, and the accounting."""
    sections = (
        _verdicts(result),
        _trust(result),
        _scorecard(result, narrow=console.width < NARROW),
        *(_text_table(table) for table in (*tables(result), *segment_tables(result))),
        _left_out(result),
        _accounting(result),
        _notes(result),
    )
    for i, section in enumerate(sections):
        for j, block in enumerate(section):
            if i and not j:
                console.print()
            console.print(block)


def _verdicts(result: Result) -> Iterator[Text]:
    several = len(result.verdicts) > 1
    for verdict in result.verdicts:
        word, _, rest = verdict.sentence.partition(":")
        yield Text.assemble(
            (f"{_plain(verdict.variant)}: " if several else ""),
            (word, _DECISION_STYLE[verdict.decision]),
            _plain(f":{rest}"),
        )
    info = result.experiment
    units = ", ".join(f"{_plain(v.name)} {fmt.count(v.units)}" for v in info.variants)
    yield Text(f"{_plain(info.name)}: {_period(result)}{_plain(info.unit)} units: {units}")


def _period(result: Result) -> str:
    info = result.experiment
    if info.start is None or info.end is None:
        return ""
    return f"{_plain(info.start)} up to {_plain(info.end)} ({_plain(info.timezone)}); "


def _trust(result: Result) -> Iterator[Text | Padding]:
    passed = sum(check.status == "pass" for check in result.trust)
    yield _heading(f"Trust: {passed} of {len(result.trust)} checks passed")
    rest = [check for check in result.trust if check.status != "pass"]
    if rest:
        yield _check_table(rest)


def _check_table(checks: Sequence[Check]) -> Padding:
    table = _table("check", "status", "result")
    for check in checks:
        status = Text(check.status, _STATUS_STYLE.get(check.status, ""))
        table.add_row(_cell(check.name), status, _cell(_with_remedy(check)))
    return _indented(table)


def _with_remedy(check: Check) -> str:
    if check.status == "skipped" or not check.remedy:
        return check.message
    return f"{check.message}. What to do: {check.remedy}"


def _family(result: Result) -> str:
    family = result.experiment.family
    return "unadjusted" if family == "none" else f"after {family.capitalize()}"


def _scorecard(result: Result, narrow: bool) -> Iterator[Text | Padding]:
    level = fmt.level(result.experiment.alpha)
    doubt = "" if result.trusted else " (NOT TO BE TRUSTED)"
    yield _heading(f"Scorecard{doubt}: lift with {level} interval, p of goals {_family(result)}")
    yield _indented(_score_table(result, _headers(result, narrow)))
    if any(_in_own_unit(row) for row in result.scorecard):
        yield Text("  abs: a difference in the metric's unit: its lift has no interval", "dim")
    if narrow:
        yield from _reason_notes(result)


def _reason_notes(result: Result) -> Iterator[Text]:
    """The reasons that have no column."""
    for row in result.scorecard:
        if why := fmt.reason(row.reason, row.units_needed):
            yield Text(f"  {_plain(row.metric)}, {_plain(row.variant)}: {_plain(why)}", "dim")


def _headers(result: Result, narrow: bool) -> tuple[str, ...]:
    several = len({row.variant for row in result.scorecard}) > 1
    reasons = not narrow and any(
        fmt.reason(row.reason, row.units_needed) for row in result.scorecard
    )
    arms = () if narrow else ("control", "treatment")
    return (
        *("metric", *("variant",) * several),
        *(*arms, "lift", "p", "status"),
        *("reason",) * reasons,
    )


def _score_table(result: Result, headers: Sequence[str]) -> Table:
    table = _table(*headers)
    longest = max((len(row.metric) for row in result.scorecard), default=0)
    table.columns[0].min_width = min(longest, 22 if "control" in headers else 20)
    for header, column in zip(headers, table.columns, strict=True):
        column.no_wrap = header not in ("metric", "variant", "reason")
        column.justify = "right" if header in ("control", "treatment") else "left"
    units = {metric.name: metric.unit for metric in result.metrics}
    for role, title, _ in ROLES:
        rows = [row for row in result.scorecard if row.role == role]
        cells = [_row_cells(row, units.get(row.metric, "")) for row in rows]
        _add_role(table, title, [[dict(row)[header] for header in headers] for row in cells])
    return table


def _add_role(table: Table, title: str, rows: Sequence[Sequence[Text]]) -> None:
    if rows and table.row_count:
        table.add_row()
    if rows:
        table.add_row(Text(title, "dim"))
    for cells in rows:
        table.add_row(*cells)


def _row_cells(row: Row, unit: str) -> tuple[tuple[str, Text], ...]:
    """Every cell of a row, with its header."""
    shown = fmt.effect(row, unit)
    lift = fmt.MISSING if shown is None else shown.text + " abs" * _in_own_unit(row)
    control, treatment = fmt.pair(row.control, row.treatment, unit)
    return (
        ("metric", _cell(row.metric)),
        ("variant", _cell(row.variant)),
        ("control", _cell(control)),
        ("treatment", _cell(treatment)),
        ("lift", _cell(lift)),
        ("p", Text(fmt.p_value(decisive_p(row)))),
        ("status", Text(fmt.words(row.status), _STATUS_STYLE.get(row.status, ""))),
        ("reason", _cell(fmt.reason(row.reason, row.units_needed))),
    )


def _in_own_unit(row: Row) -> bool:
    """Whether the difference is shown because the lift has no interval."""
    return row.difference is not None and None in (row.lift, row.lift_low, row.lift_high)


def _text_table(source: TextTable) -> Iterator[Text | Padding]:
    yield _heading(f"{_plain(source.title)}: {_plain(source.lead)}")
    table = _table(*source.headers)
    for row in source.rows:
        table.add_row(*(_cell(cell) for cell in row))
    yield _indented(table)


def _left_out(result: Result) -> Iterator[Text]:
    """Footnotes: what each metric's definition leaves out or counts as 0, by variant."""
    for metric, what in dict.fromkeys((item.metric, item.what) for item in result.left_out):
        same = [i for i in result.left_out if (i.metric, i.what) == (metric, what)]
        if any(item.count for item in same):
            does = "has 0 for" if same[0].as_zero else "leaves out"
            yield Text(f"{_plain(metric)} {does} {_plain(what)}: {_counts(same)}", "dim")


def _counts(items: Sequence[LeftOut]) -> str:
    return ", ".join(f"{fmt.count(item.count)} in {_plain(item.variant)}" for item in items)


def _accounting(result: Result) -> Iterator[Text]:
    if result.accounting:
        yield _heading("Rows")
    for account in result.accounting:
        set_aside = sum(rows for _, rows in account.set_aside)
        line = f"  {_plain(account.log)}: {fmt.count(account.read)} read = "
        line += f"{fmt.count(account.used)} used + {fmt.count(set_aside)} set aside"
        reasons = ", ".join(
            f"{fmt.count(n)} {_plain(fmt.words(why))}" for why, n in account.set_aside
        )
        yield Text(f"{line} ({reasons})" if reasons else line)


def _notes(result: Result) -> Iterator[Text]:
    if result.notes:
        yield _heading("Notes")
    for note in result.notes:
        yield Text(f"  - {_plain(note)}")


def _heading(text: str) -> Text:
    return Text(text, style="bold")


def _table(*headers: str) -> Table:
    table = Table(box=_RULED, show_edge=False, pad_edge=False, header_style="bold dim")
    for header in headers:
        table.add_column(Text(header), overflow="fold")
    return table


def _indented(table: Table) -> Padding:
    return Padding(table, (0, 0, 0, 2), expand=False)


def _cell(text: str) -> Text:
    return Text(_plain(text))


def _plain(text: str) -> str:
    """A name from a log must not control the terminal."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
