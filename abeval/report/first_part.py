"""Show the first screen: verdict, next step, scorecard of what is judged, open checks."""

from collections.abc import Collection, Iterator

from markupsafe import Markup

from abeval.report import assets, glyph
from abeval.report.agreement_page import conclusions, standing_table, standings, trust_lines
from abeval.report.effects import row_views
from abeval.report.figures import Block, places
from abeval.report.next_step import ORDER, in_order, verdict_lines
from abeval.report.tables import ROLES, filled, share_of, shown_lift, tally
from abeval.report.time_page import cells, scale_of
from abeval.results import format as fmt
from abeval.results.analysis import Result
from abeval.results.study import Study

_MOST_ROWS = 24
"""Of the table on the first screen; the scorecard has them all."""


def verdict_part(study: Study) -> Iterator[Block]:
    """Show the first screen; without an analysis, what offline and online say together."""
    result, agreement = study.analysis, study.agreement
    if result is None:
        if agreement is not None and agreement.explanations and not study.questions:
            lines, beside = conclusions(agreement), trust_lines(agreement)
            yield assets.block("lines.html", lines=lines, said=beside)
            table = filled(standing_table(agreement))
            yield table._replace(title="", lead=f"{table.title}: {table.lead}")
        return
    judged = in_order(result, (row for row in result.scorecard if row.role != "diagnostic"))
    axis, rows = row_views(result, judged[:_MOST_ROWS])
    lines, shared = verdict_lines(result, study.outlook)
    order = places(result.experiment)
    lines = tuple(line._replace(place=order.get(line.variant, 1)) for line in lines)
    said = [*_expect_less(result), *(("Offline", line) for line in standings(study))]
    # A message that a verdict says is not said again, nor is one step of all variants.
    sentences = " ".join(verdict.sentence for verdict in result.verdicts)
    unmet = [check for check in result.trust if check.status in ("fail", "warn")]
    if len(lines) > 1 and len({line.action for line in lines}) == 1:
        said = [("Next", lines[0].action), *said]
        lines = tuple(line._replace(action="") for line in lines)
    yield assets.block("lines.html", lines=lines, shared=shared, said=said, order=ORDER)
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
        open_checks=[(c.name, "" if c.message in sentences else c.message) for c in unmet],
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
        f"{fmt.named(result.label(row.metric))} "
        f"{shown.high if row.direction == 'decrease' else shown.low}"
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
