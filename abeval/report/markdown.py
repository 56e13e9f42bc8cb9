"""Write a study as Markdown, for a pull request or a chat."""

from collections.abc import Iterator

from abeval.report import tables
from abeval.report.agreement_page import write_conclusions, write_standings
from abeval.report.next_step import ORDER, sort_rows, write_next_step, write_verdicts
from abeval.report.short import tabulate
from abeval.report.spread_page import describe_quantiles_and_gauc
from abeval.report.tables import DisplayRow, TextTable, trim
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.analysis import Result
from abeval.results.record import Record
from abeval.results.study import Study
from abeval.results.trust import select_checks

_SPECIAL = str.maketrans({c: f"\\{c}" for c in "\\`*_[]<>|#~"})


def markdown(result: Record) -> str:
    """Write a study as verdict, next step, goals and trust; others as tables."""
    if isinstance(result, Study):
        blocks = [*_write_blocks(result)]
    else:
        result_tables = tabulate(result)
        blocks = [*map(_write_part, result_tables.parts), *map(escape, result_tables.notes)]
    return "\n\n".join(blocks) + "\n"


def _write_part(part: TextTable | str) -> str:
    return _write_table(part) if isinstance(part, TextTable) else _typeset(part)


MOST_LINES = 20
"""Most lines of a study; tables are cut to their first rows."""

_FEWEST_ROWS, _OPEN_CHECKS = 3, 3


def _write_blocks(study: Study) -> Iterator[str]:
    if study.analysis is not None:
        yield from _write_analysis(study, study.analysis)
        return
    yield f"## {escape(study.name)}"
    if study.questions:
        yield f"**DRAFT** {escape(codes.open_questions(study.questions))}"
    yield from _write_drifts(study)
    if study.agreement is not None:
        yield from map(_typeset, write_conclusions(study.agreement))
    elif study.replay is not None:
        parts = tabulate(study.replay).parts
        first = next((i for i, part in enumerate(parts) if isinstance(part, TextTable)), 0)
        yield from map(_write_part, parts[: first + 1])
    if study.aa is not None:
        yield from (f"A/A: {escape(note)}" for note in tabulate(study.aa).notes)


def _write_drifts(study: Study) -> Iterator[str]:
    for row in () if study.time is None else study.time.stability:
        if row.verdict == "drifting":
            name = f"**{escape(row.metric)}** ({escape(row.variant)})"
            yield f"{name} drifts: {escape(row.reason)}"


def _write_analysis(study: Study, result: Result) -> Iterator[str]:
    """Write the decision, and as many rows of the scorecard as there is room for."""
    # What stands around the table is made first: the table gets the lines that are left.
    above, below = [*_write_decision(study, result)], [*_write_drifts(study), *_write_trust(result)]
    yield from above
    if result.trusted:
        # Three lines are the header, its rule and the count of rows left out.
        room = MOST_LINES - len(above) - sum(block.count("\n") + 1 for block in below) - 3
        yield _write_scorecard(result, max(room, _FEWEST_ROWS))
    yield from below


def _write_decision(study: Study, result: Result) -> Iterator[str]:
    info = result.experiment
    yield f"## {escape(info.display_name)}"
    if info.hypothesis:
        yield f"**Hypothesis:** {escape(info.hypothesis)}"
    if result.so_far:
        yield escape(result.so_far)
    lines, shared = write_verdicts(result, study.outlook)
    if len(lines) > 1:
        yield f"{ORDER}:"
    for line in lines:
        name = f"{escape(line.variant)}: " if len(lines) > 1 and line.variant else ""
        yield f"{name}**{line.word}** {_typeset(line.sentence)}"
    if shared:
        yield _typeset(shared)
    labelled = [("Next", step)] if (step := write_next_step(result, study.outlook)) else []
    labelled += [("Offline", standing) for standing in write_standings(study)]
    labelled += describe_quantiles_and_gauc(result) if result.trusted else ()
    yield from (f"**{escape(what)}:** {_typeset(text)}" for what, text in labelled)


def _write_trust(result: Result) -> Iterator[str]:
    unmet = select_checks(result.trust, "fail", "warn")[:_OPEN_CHECKS]
    bullets = [f"- **{c.status}** {escape(c.name)}: {escape(c.message)}" for c in unmet]
    yield "\n".join([f"Trust: {tables.tally_checks(result.trust)}.", *bullets])


def _write_scorecard(result: Result, most: int) -> str:
    """Tabulate goals and guardrails, and count the rows that are left out."""
    rows = sort_rows(result, (row for row in result.scorecard if row.role != "diagnostic"))
    several = len(result.verdicts) > 1
    cells = tables.bare_table(
        tables.fit_rows(result, rows[:most]),
        ("metric", lambda display_row: f"{display_row.name} ({display_row.row.role})"),
        ("variant", lambda display_row: display_row.row.variant * several),
        ("lift", lambda display_row: display_row.effect),
        *("detectable", "p"),
        ("status", _write_status),
    )
    more = len(rows) - most
    return _write_table(cells) + f"\n\n{more} more rows of goals and guardrails." * (more > 0)


def _write_status(display_row: DisplayRow) -> str:
    return display_row.status + (f" ({display_row.reason})" if display_row.reason else "")


def _write_table(source: TextTable) -> str:
    table = trim(source)
    header, *rows = (
        f"| {' | '.join(map(_typeset, cells))} |" for cells in (table.headers, *table.rows)
    )
    title = f"**{escape(table.title)}**\n\n" if table.title else ""
    return title + "\n".join([header, f"|{' --- |' * len(table.headers)}", *rows])


def _typeset(text: str) -> str:
    return escape(fmt.typeset_numbers(text))


def escape(text: str) -> str:
    r"""Escape characters that mean something in Markdown, on one line.

    Example:
        >>> escape("a|b <img>")
        'a\\|b \\<img\\>'
    """
    # A thin blank inside a number stays.
    return " ".join(text.translate(_SPECIAL).splitlines()).strip()
