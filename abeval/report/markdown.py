"""Write a study as Markdown, for a pull request or a chat."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from abeval.report.agreement_page import conflicts
from abeval.report.agreement_short import sentences
from abeval.report.effects import could_see
from abeval.report.first_part import next_step, verdict_lines
from abeval.report.replay_short import main_families
from abeval.report.short import notes, parts
from abeval.report.spread_page import moved_sentences
from abeval.report.tables import (
    ROLES,
    Printed,
    TextTable,
    decisive_p,
    filled,
    lift_of,
    numbers,
    printed,
    tally,
)
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.analysis import Result
from abeval.results.study import Study

if TYPE_CHECKING:
    from abeval.report.short import Brief

_SPECIAL = str.maketrans({c: f"\\{c}" for c in "\\`*_[]<>|#~"})


def markdown(result: "Study | Brief") -> str:
    """Write the verdict, what to do next, goals, guardrails and trust; other results as tables."""
    blocks = _blocks(result) if isinstance(result, Study) else _brief(result)
    return "\n\n".join(blocks) + "\n"


def _brief(result: "Brief") -> Iterator[str]:
    yield from (_part(part) for part in parts(result))
    yield from (escaped(note) for note in notes(result))


def _part(part: TextTable | str) -> str:
    return _table(part) if isinstance(part, TextTable) else escaped(fmt.typographic(part))


def _blocks(study: Study) -> Iterator[str]:
    yield f"## {escaped(study.name)}"
    if study.questions and study.analysis is None:
        yield f"**DRAFT** {escaped(codes.open_questions(study.questions))}"
    if study.analysis is not None:
        yield from _analysis(study, study.analysis)
    if study.time is not None:
        drifting = [r for r in study.time.stability if r.verdict == "drifting"]
        for row in drifting:
            name = f"**{escaped(row.metric)}** ({escaped(row.variant)})"
            yield f"{name} drifts: {escaped(row.reason)}"
    if study.replay is not None:
        yield from (_table(family.table) for family in main_families(study.replay))
    if study.agreement is not None and study.analysis is None:
        yield from (escaped(fmt.typographic(said)) for said in sentences(study.agreement))
    if study.aa is not None:
        yield from (f"A/A: {escaped(note)}" for note in notes(study.aa))
    yield from (f"No {what}: {escaped(why)}" for what, why in study.left_out)


def _analysis(study: Study, result: Result) -> Iterator[str]:
    lines, shared = verdict_lines(result)
    several = len(result.verdicts) > 1
    for line in lines:
        name = f"{escaped(line.variant)}: " if several and line.variant else ""
        yield f"{name}**{line.word}** {escaped(fmt.typographic(line.sentence))}"
    if shared:
        yield escaped(fmt.typographic(shared))
    if step := next_step(study):
        yield f"**Next:** {escaped(fmt.typographic(step))}"
    for conflict in conflicts(study):
        yield f"**Offline:** {escaped(fmt.typographic(conflict))}"
    if result.trusted:
        yield _scorecard(result, several)
        for what, said in moved_sentences(result):
            yield f"**{escaped(what)}:** {escaped(fmt.typographic(said))}"
    failed = [c for c in result.trust if c.status in ("fail", "warn")]
    yield f"Trust: {tally(result.trust)}." + "".join(
        f"\n- **{check.status}** {escaped(check.name)}: {escaped(check.message)}"
        for check in failed
    )


def _scorecard(result: Result, several: bool) -> str:
    order = [role for role, _, _ in ROLES]
    judged = (row for row in result.scorecard if row.role != "diagnostic")
    rows = sorted(judged, key=lambda row: order.index(row.role))
    cells = numbers(
        printed(result, rows),
        ("metric", lambda one: f"{one.row.metric} ({one.row.role})"),
        ("variant", lambda one: one.row.variant if several else ""),
        ("lift", lambda one: lift_of(one.row)),
        ("detectable", lambda one: could_see(one.row)),
        ("p", lambda one: fmt.p_value(decisive_p(one.row))),
        ("status", _status),
    )
    return _table(cells)


def _status(one: Printed) -> str:
    status = codes.status(one.row.status, one.row.reason)
    return f"{status} ({one.reason})" if one.reason else status


def _table(source: TextTable) -> str:
    table = filled(source)
    lines = [table.headers, tuple("---" for _ in table.headers), *table.rows]
    title = f"**{escaped(table.title)}**\n\n" if table.title else ""
    return title + "\n".join(f"| {' | '.join(_cell(c) for c in line)} |" for line in lines)


def _cell(text: str) -> str:
    return text if set(text) == {"-"} else escaped(fmt.typographic(text))


def escaped(text: str) -> str:
    r"""Escape characters that mean something in Markdown, on one line.

    Example:
        >>> escaped("a|b <img>")
        'a\\|b \\<img\\>'
    """
    # A thin blank inside a number stays.
    return " ".join(text.translate(_SPECIAL).splitlines()).strip()
