"""Show the first screen: verdict, next step, scorecard of what is judged, open checks."""

import re
from collections.abc import Collection, Iterator, Sequence

from markupsafe import Markup

from abeval.report import assets, glyph
from abeval.report.agreement_page import standings
from abeval.report.agreement_short import conclusions, standing_table
from abeval.report.effects import row_views
from abeval.report.figures import Block, places
from abeval.report.next_step import action, next_step, rank
from abeval.report.tables import ROLES, VerdictLine, filled, share_of, shown_lift, tally
from abeval.report.time_page import cells, scale_of
from abeval.results import Row
from abeval.results import format as fmt
from abeval.results.analysis import Result
from abeval.results.study import Study

_CLAUSE_END = re.compile(r"; (?![^()]*\))")
"""Between clauses; a semicolon inside brackets ends none."""

_MOST_ROWS = 24
"""Of the table on the first screen; the scorecard has them all."""


def _agreed(study: Study) -> Iterator[Block]:
    """Show what offline and online say together, and the goals of each offline metric."""
    agreement = study.agreement
    if agreement is not None and agreement.explanations and not study.questions:
        yield assets.block("lines.html", lines=conclusions(agreement), shared="", said=())
        table = filled(standing_table(agreement))
        yield table._replace(title="", lead=f"{table.title}: {table.lead}")


def verdict_part(study: Study) -> Iterator[Block]:
    """Show the first screen."""
    result = study.analysis
    if result is None:
        yield from _agreed(study)
        return
    judged = _judged(result)
    axis, rows = row_views(result, judged[:_MOST_ROWS])
    lines, shared = verdict_lines(result)
    order = places(result.experiment)
    steps = {one.variant: action(result, study.outlook, one).text for one in result.verdicts}
    # One step of all variants is said once, below them.
    shared_step = len(lines) > 1 and len(set(steps.values())) == 1
    best = next_step(result, study.outlook)
    lines = tuple(
        line._replace(
            place=order.get(line.variant, 1),
            action="" if shared_step else steps.get(line.variant, best),
        )
        for line in lines
    )
    said = [*_expect_less(result), *(("Offline", line) for line in standings(study))]
    said = [("Next", best), *said] if shared_step else said
    yield assets.block("lines.html", lines=lines, shared=shared, said=said)
    yield assets.block(
        "first.html",
        result=result,
        info=result.experiment,
        order=order,
        splits=_splits(result),
        roles=ROLES,
        axis=axis,
        rows=rows,
        more=max(len(judged) - _MOST_ROWS, 0),
        widened=bool(result.family_intervals),
        guarded=any(row.role == "guardrail" for row in judged),
        sparks=_sparks(study, {(row.metric, row.variant) for row in judged if row.role == "goal"}),
        tally=tally(result.trust),
        open_checks=_open_checks(result),
        days=len({row.cell for row in result.daily}),
        left_out=study.left_out,
    )


def _splits(result: Result) -> dict[str, str]:
    """Write each variant's share of the units, and the planned one where it is known."""
    if not any(check.name == "srm" and check.status != "skipped" for check in result.trust):
        return {}
    variants = result.experiment.variants
    plans = [ramp.weights for ramp in result.ramps if ramp.weights is not None]
    plans = plans or [{one.name: one.weight for one in variants}]
    units = sum(one.units for one in variants)
    return {
        one.name: f"{share_of(one.units, units)}, planned "
        + " then ".join(fmt.percent(plan[one.name] / sum(plan.values())) for plan in plans)
        for one in variants
    }


def _expect_less(result: Result) -> list[tuple[str, str]]:
    """Warn of the winner's curse beside a variant that ships."""
    shipping = {verdict.variant for verdict in result.verdicts if verdict.decision == "ship"}
    ends = [
        f"{result.label(row.metric)} {shown.high if row.direction == 'decrease' else shown.low}"
        for row in result.scorecard
        if row.variant in shipping and row.role == "goal" and row.status == "better"
        if (shown := shown_lift(row))
    ]
    if not ends:
        return []
    why = "a lift that is chosen because it is significant is too large on average"
    return [("Expect less", f"{why}. To be cautious, plan with {fmt.listing(ends[:3])}.")]


def _sparks(study: Study, keys: Collection[tuple[str, str]]) -> dict[tuple[str, str], Markup]:
    """Draw the effect of each goal up to each day, by metric and variant."""
    sparks = {}
    for cell in cells(study):
        if (cell.metric, cell.variant) in keys:
            scale = scale_of(cell.info, cell.rows)
            ends = [scale.of(row) for row in cell.of("calendar", "cumulative")]
            known = [
                (v, a, b) for v, a, b in ends if v is not None and a is not None and b is not None
            ]
            if len(known) > 2:
                # The first days have too little data for a scale.
                known = known[len(known) // 7 :]
                label = f"{cell.info.shown}, {cell.variant}, up to each day"
                sparks[cell.metric, cell.variant] = glyph.sparkline(known, cell.place, label)
    return sparks


def verdict_lines(result: Result) -> tuple[tuple[VerdictLine, ...], str]:
    """Write a line for each variant, best first; and what is said of all of them, once."""
    ordered = sorted(result.verdicts, key=lambda v: rank(result, v))
    split = [verdict.sentence.partition(": ")[::2] for verdict in ordered]
    shared = _shared([rest for _, rest in split])
    if len(ordered) > 1 and len(set(split)) == 1:
        word, rest = split[0]
        return (VerdictLine("", ordered[0].decision, word, rest),), ""
    lines = tuple(
        VerdictLine(v.variant, v.decision, word, _ended(rest.removesuffix(shared)))
        for v, (word, rest) in zip(ordered, split, strict=True)
    )
    return lines, _said(shared)


def _said(shared: str) -> str:
    text = shared.removeprefix("; ")
    return _ended(f"{text[:1].upper()}{text[1:]}") if text else ""


def _ended(text: str) -> str:
    return text if text.endswith(("?", ".")) else f"{text}."


def _shared(sentences: Sequence[str]) -> str:
    """Return the last clauses that all sentences have; none of a single one."""
    if len(sentences) < 2:
        return ""
    clauses = [_CLAUSE_END.split(sentence) for sentence in sentences]
    count = 0
    while all(len(c) > count + 1 for c in clauses) and len({c[-1 - count] for c in clauses}) == 1:
        count += 1
    return "; " + "; ".join(clauses[0][-count:]) if count else ""


def _judged(result: Result) -> list[Row]:
    """Order goals, then guardrails; within a metric the variants, best first."""
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
    """List checks that failed or warn, with words where no verdict says them already."""
    said = " ".join(verdict.sentence for verdict in result.verdicts)
    listed = [check for check in result.trust if check.status in ("fail", "warn")]
    return tuple((c.name, "" if c.message in said else c.message) for c in listed)
