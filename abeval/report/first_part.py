"""The first screen: the verdict, what to do next, goals and guardrails drawn, and trust.

`registry.py` lists it first.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from abeval.report import assets
from abeval.report.agreement_page import conflicts
from abeval.report.figures import Section
from abeval.report.scorecard import row_views
from abeval.report.tables import ROLES
from abeval.results import Check, Row
from abeval.results import format as fmt
from abeval.results.analysis import Result
from abeval.results.study import Study

_SEVERITY = ("fail", "warn", "pass", "skipped")
_CLAUSE_END = re.compile(r"; (?![^()]*\))")
"""Between clauses; a semicolon inside brackets ends none."""

_MOST_ROWS = 16
"""Of the table on the first screen; the scorecard has them all."""


@dataclass(frozen=True)
class VerdictLine:
    """A verdict as one line."""

    variant: str
    decision: str
    word: str
    sentence: str


def verdict_part(study: Study) -> Section | None:
    """The first screen."""
    result = study.analysis
    if result is None:
        return None
    scale, rows = row_views(result, _judged(result))
    lines, shared = verdict_lines(result)
    html = assets.render(
        "first.html",
        info=result.experiment,
        lines=lines,
        shared=shared,
        next_step=next_step(study),
        conflicts=conflicts(study),
        trusted=result.trusted,
        rows=rows[:_MOST_ROWS],
        more=max(len(rows) - _MOST_ROWS, 0),
        scale=scale,
        several=len({row.variant for row in result.scorecard}) > 1,
        level=fmt.level(result.experiment.alpha),
        tally=_tally(result.trust),
        open_checks=_open_checks(result),
        days=len({row.cell for row in result.daily}),
        left_out=study.left_out,
    )
    return Section("", (Markup(html),))  # noqa: S704 (the template escapes)


def verdict_lines(result: Result) -> tuple[tuple[VerdictLine, ...], str]:
    """A line for each variant, best first; and what is said of all of them, once."""
    ordered = sorted(result.verdicts, key=lambda v: rank(result, v))
    split = [verdict.sentence.partition(": ")[::2] for verdict in ordered]
    shared = _shared([rest for _, rest in split])
    if len(ordered) > 1 and len(set(split)) == 1:
        word, rest = split[0]
        return (VerdictLine("", ordered[0].decision, word, rest.rstrip(".")),), ""
    lines = tuple(
        VerdictLine(v.variant, v.decision, word, f"{rest.removesuffix(shared)}".rstrip("."))
        for v, (word, rest) in zip(ordered, split, strict=True)
    )
    return lines, _said(shared)


def _said(shared: str) -> str:
    text = shared.removeprefix("; ").rstrip(".")
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _shared(sentences: Sequence[str]) -> str:
    """The last clauses that all sentences have; none of a single one."""
    if len(sentences) < 2:
        return ""
    clauses = [_CLAUSE_END.split(sentence) for sentence in sentences]
    count = 0
    while all(len(c) > count + 1 for c in clauses) and len({c[-1 - count] for c in clauses}) == 1:
        count += 1
    return "; " + "; ".join(clauses[0][-count:]) if count else ""


def _judged(result: Result) -> list[Row]:
    """Goals, then guardrails; within a metric the variants, best first."""
    order = [v.variant for v in sorted(result.verdicts, key=lambda v: rank(result, v))]
    rows = [row for row in result.scorecard if row.role != "diagnostic"]
    roles = [role for role, _, _ in ROLES]
    metrics = list(dict.fromkeys(row.metric for row in rows))
    place = {name: i for i, name in enumerate(order)}
    return sorted(
        rows,
        key=lambda r: (roles.index(r.role), metrics.index(r.metric), place.get(r.variant, 0)),
    )


def _open_checks(result: Result) -> tuple[tuple[str, str], ...]:
    """Checks that failed or warn, with what they say where no verdict says it already."""
    said = " ".join(verdict.sentence for verdict in result.verdicts)
    listed = [check for check in result.trust if check.status in ("fail", "warn")]
    return tuple((c.name, "" if c.message in said else c.message) for c in listed)


def _tally(checks: Sequence[Check]) -> tuple[tuple[str, int], ...]:
    counts = ((s, sum(check.status == s for check in checks)) for s in _SEVERITY)
    return tuple((status, number) for status, number in counts if number)
