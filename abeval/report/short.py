"""Tabulate results other than an analysis: decisive numbers and reasons."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from abeval.report import tables
from abeval.report.tables import REASON_COLUMN, Part, Tables, TextTable, choose_decisive_p, table
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.record import Record
from abeval.results.trust import CLAIMED, select_checks
from abeval.views import view

if TYPE_CHECKING:
    from abeval.results.analysis import CheckResult, Pairwise
    from abeval.results.interleaving import InterleavingResult
    from abeval.results.off_policy import OffPolicyResult, OffPolicyRow, Realised
    from abeval.results.power import DecisionPlan, Plans
    from abeval.results.trust import AAResult, AuditResult


def tabulate(result: Record, show_all: bool = False) -> Tables:
    """Tabulate a result for text, Markdown and pages; `show_all` shortens nothing."""
    result_tables: Tables = view(f"abeval.report.{result.TABLES}")(result, show_all)
    questions = getattr(result, "questions", ())
    draft = f"DRAFT: {codes.open_questions(questions)}" if questions else ""
    return result_tables._replace(draft=draft)


def tabulate_aa(result: "AAResult", show_all: bool) -> Tables:
    """Tabulate how often each test rejects; by default of the first metrics."""
    off = result.off()
    # A test that does not keep its level is never among the rows left out.
    rows, more = tables.shorten(result.metrics, show_all, lambda row: row.metric in off)
    title = f"A/A replays of {fmt.format_count(result.units)} units"
    lead = f"how often each test rejects at {result.alpha:g} when nothing differs."
    replays = tables.tabulate_aa_replays(title, lead, rows, off)
    lines = [f"{name}: rejects {result[name].rejection_rate:.2%} of A/A tests" for name in off]
    notes = *lines, *result.notes, *tables.explain_refusals(result.refused)
    return Tables((replays, *more), notes)


def tabulate_plans(result: "Plans", show_all: bool) -> Tables:
    """Tabulate effect, size and days of each plan, and how often it decides."""
    # With unequal weights control has a number of units of its own.
    units = "variant units" if any(plan.units_control for plan in result.plans) else "units"
    plans = table(
        "Plan",
        f"the relative effect that one test finds with {fmt.format_percent(result.power)}.",
        result.plans,
        "metric",
        ("role", lambda plan: plan.role, "extra"),
        ("baseline", lambda plan: fmt.format_number(plan.baseline, ".4g"), "spare"),
        ("sd", lambda plan: fmt.format_number(plan.sd, ".4g"), "spare"),
        ("effect", lambda p: "" if p.mde is None else f"{100 * p.mde:.3g}%", "number"),
        ("control units", lambda plan: fmt.format_number(plan.units_control, ",.0f"), "number"),
        (units, lambda plan: fmt.format_number(plan.units, ",.0f"), "number"),
        ("days", lambda plan: fmt.format_number(plan.days, ",.1f"), "number"),
        ("clusters", lambda plan: fmt.format_number(plan.clusters, ",.0f"), "number"),
        ("units of an A/B test", lambda plan: fmt.format_number(plan.units_test, ",.0f"), "number"),
        REASON_COLUMN,
    )
    decided = () if result.decision is None else (_describe_decision_chances(result.decision),)
    return Tables((plans, *decided), result.notes)


def _describe_decision_chances(plan: "DecisionPlan") -> str:
    """Write how often the plan ends in each decision."""
    metrics = f"{plan.goals} goal{'s' * (plan.goals > 1)}"
    if plan.guardrails:
        metrics += f" and {plan.guardrails} guardrail{'s' * (plan.guardrails > 1)}"
    if plan.units is None or plan.ship is None:
        return f"No plan for the decision on {metrics}: {codes.describe_reason(plan.reason)}."
    size = f"{plan.units:,.0f} units" + ("" if plan.days is None else f", {plan.days:.1f} days")
    none = f"if nothing moves, {plan.ship_none:.1%}, and {plan.stop_none:.1%} to stop for harm"
    if plan.mde is None:
        why = codes.describe_reason(plan.reason)
        return f"{size}: chance to ship {plan.ship:.1%} at most ({why}); {none}."
    first_goal = "" if plan.goals == 1 else f" ({plan.ship_one:.1%} if only the first goal does)"
    return (
        f"The decision on {metrics}, {size}: chance to ship {plan.ship:.1%} if every goal moves "
        f"by {plan.mde:.2%} and no guardrail does{first_goal}; {none}."
    )


def tabulate_pairs(result: "Pairwise", show_all: bool) -> Tables:
    """Tabulate a metric by variant, and the difference of every two variants."""
    adjusted = "unadjusted" if result.family == "none" else f"adjusted by {result.family}"
    values = table(
        result.metric,
        "each variant's value.",
        result.values,
        ("variant", lambda row: row[0]),
        ("value", lambda row: fmt.format_number(row[1], ".4g") or fmt.MISSING, "number"),
    )
    pairs = table(
        "Pairs",
        f"difference with {fmt.format_level(result.alpha)} interval; p {adjusted} over "
        f"{len(result.pairs)} pairs.",
        result.pairs,
        "variant",
        ("against", lambda pair: pair.base),
        ("difference", lambda pair: tables.format_difference(pair).text, "number"),
        ("lift", lambda p: "" if p.lift is None else f"{100 * p.lift:+.2f}%", "spare"),
        ("p", lambda pair: fmt.format_p_value(choose_decisive_p(pair)), "number"),
        (
            "units",
            lambda p: f"{fmt.format_count(p.units)}, {fmt.format_count(p.units_base)}",
            "spare",
        ),
        REASON_COLUMN,
    )
    # A pair is as wrong as the logs that it is from: failed checks of the metric are noted.
    doubts = (
        f"do not trust this result: {check.message}"
        for check in result.trust
        if check.status == "fail" and check.touches([result.metric])
    )
    return Tables((values, pairs), tuple(doubts))


def tabulate_off_policy(result: "OffPolicyResult", show_all: bool) -> Tables:
    """Tabulate the estimates and what they rest on."""
    messages = dict.fromkeys(row.message for row in result.rows if row.message is not None)
    parts = tables.drop_empty(_tabulate_estimates(result), _tabulate_support(result))
    return Tables(parts, (*result.notes, *messages))


def _tabulate_estimates(result: "OffPolicyResult") -> TextTable:
    """Tabulate every estimator, with the reason where a value is missing."""
    real = result.realised
    had = "" if real is None else f"; {result.policy} really had {format_off_policy_value(real)}"
    return table(
        result.policy,
        f"clicks or reward an impression, from the log of {result.source}{had}.",
        result.rows,
        "estimator",
        ("value", lambda row: fmt.format_number(row.value, ".6g") or fmt.MISSING, "number"),
        ("interval", _format_ends),
        ("se", lambda row: fmt.format_number(row.se, ".4g"), "spare"),
        ("z", lambda row: "" if real is None else fmt.format_number(row.z, ".3g"), "spare"),
        REASON_COLUMN,
    )


def format_off_policy_value(row: "OffPolicyRow | Realised") -> str:
    """Write a value with its interval."""
    return f"{fmt.format_number(row.value, '.6g')} {_format_ends(row)}".strip()


def _format_ends(row: "OffPolicyRow | Realised") -> str:
    return "" if row.low is None or row.high is None else f"[{row.low:.6g}, {row.high:.6g}]"


def _tabulate_support(result: "OffPolicyResult") -> TextTable:
    """Tabulate how well the log supports the policy; empty without propensities."""
    support = result.support
    numbers: dict[str, str] = {}
    if support is not None:
        below = f"99% are below {support.weight_p99:.4g}"
        numbers = {
            "effective sample size": f"{support.ess:,.0f} of {support.rows:,}",
            "of units": f"{support.ess_units:,.0f} of {support.units:,}",
            "mean weight": f"{support.mean_weight:.4f} ± {support.mean_weight_se:.4f}",
            "largest weight": f"{support.max_weight:.4g}; {below}",
            "kept by rejection sampling": f"{support.accepted:,.0f}",
        }
        if support.unsupported is not None:
            numbers["of the policy never shown"] = f"{100 * support.unsupported:.3g}%"
    lead = "how far the log overlaps with the policy; the mean weight is 1 if propensities hold."
    rows = tuple(numbers.items())
    return TextTable("Support", lead, ("of the log", "value"), rows, ("name", "number"))


def tabulate_audit(result: "AuditResult", show_all: bool) -> Tables:
    """Tabulate units that are not in the variant of the rule, and pairs."""
    parts: list[Part] = []
    if result.units:
        parts += _tabulate_mismatches(result)
    elif result.scheme is not None:
        parts.append("the log names no variants: there is nothing to compare with the scheme")
    if result.uniformity is not None:
        parts.append(f"an even spread of units over slots has p = {result.uniformity:.3g}")
    if result.pairs:
        pairs = table(
            f"{len(result.pairs)} pairs of experiments",
            "p after Holm over the pairs.",
            result.pairs,
            *("one", "other"),
            ("independent", lambda pair: _format_independence(pair.p_adjusted)),
            ("units in both", lambda pair: fmt.format_count(pair.units), "number"),
        )
        parts += [pairs, *_describe_interactions(result)]
    return Tables(tuple(parts))


def _describe_interactions(result: "AuditResult") -> Iterator[str]:
    """Write which effects differ between variants of another experiment.

    If no effect does, a sentence says so.
    """
    tested = result.interactions
    claimed = [row for row in tested if row.p_adjusted < CLAIMED]
    for row in claimed:
        more = tables.format_effect(row, "").text
        yield (
            f"INTERACTION: where {row.segment} has {row.cell}, the effect of {row.variant} on "
            f"{row.metric} is {more} from elsewhere (p {fmt.format_p_value(row.p_adjusted)}): "
            "decide both together"
        )
    if tested and not claimed:
        least = fmt.format_p_value(min(row.p_adjusted for row in tested))
        names = fmt.join_items([*dict.fromkeys(row.metric for row in tested)])
        yield f"no interaction: effects on {names} do not differ by the other's variant (p {least})"
    needed = {(skewed.metric, skewed.segment): skewed.units_needed for skewed in result.untested}
    for (metric, other), units in needed.items():
        yield (
            f"not tested: {metric} is too skewed to compare its effect between variants of {other} "
            f"(needs about {fmt.format_count(units)} units in each pair of variants)"
        )
    if not tested and not needed and any(pair.p_adjusted is not None for pair in result.pairs):
        yield "no interaction was tested: no goal or guardrail has units in each pair of variants"


def _format_independence(p: float | None) -> str:
    return "too few units" if p is None else f"p = {p:.3g}"


def tabulate_checks(result: "CheckResult", show_all: bool) -> Tables:
    """Count the checks that passed, and list the others, worst first."""
    checks = select_checks(
        result.trust, "fail", "warn", "skipped", *(("pass",) if show_all else ())
    )
    info, tally = result.experiment, tables.tally_checks(result.trust)
    first = f"{info.display_name}: {tally}; {tables.list_units(info)}"
    return Tables((first, *tables.drop_empty(tables.tabulate_trust_checks(checks))))


def tabulate_preferences(result: "InterleavingResult", show_all: bool) -> Tables:
    """Write the verdict, and tabulate preferences and failed checks."""
    info, checks = result.experiment, result.trust
    size = (
        f"{fmt.format_count(result.units)} {info.unit} units, "
        f"{fmt.format_count(result.lists)} lists"
    )
    size = f"{info.display_name}: {size} ({codes.describe_code(result.method)})"

    def counts(*numbers: int | None) -> str:
        return ", ".join(fmt.format_count(count) for count in numbers if count is not None)

    doubt = "" if result.trusted else " (NOT TO BE TRUSTED)"
    rows = table(
        f"Preferences{doubt}",
        f"share of all credit, {fmt.format_level(info.alpha)} interval by {info.unit}; "
        "p of goals after Holm.",
        result.preferences,
        "metric",
        ("ranker", lambda row: f"{row.ranker} against {row.base}"),
        ("preference", lambda row: row.preference_text or fmt.MISSING),
        ("p", lambda row: fmt.format_p_value(choose_decisive_p(row)), "number"),
        ("status", lambda row: codes.describe_status(row.status, row.reason)),
        ("units won, lost, tied", lambda r: counts(r.won, r.lost, r.tied), "spare"),
        ("lists", lambda r: counts(r.lists_won, r.lists_lost, r.lists_tied), "spare"),
        REASON_COLUMN,
    )
    shown = select_checks(checks, "fail", "warn", *(("skipped", "pass") if show_all else ()))
    verdicts = (verdict.sentence for verdict in result.verdicts)
    lines = (*verdicts, size, f"Trust: {tables.tally_checks(checks)}")
    failed = tables.drop_empty(tables.tabulate_trust_checks(shown))
    return Tables((*lines, rows, *failed), result.notes)


def _tabulate_mismatches(result: "AuditResult") -> list[Part]:
    rate, low, high = (100 * (x or 0) for x in (result.rate, result.low, result.high))
    first = (
        f"{result.mismatches:,} of {result.units:,} units ({rate:.2f}%; 95% interval "
        f"{low:.2f}% to {high:.2f}%) are in another variant than the rule ({result.scheme}) gives"
    )
    since = [] if result.since is None else [f"they are more frequent since {result.since}"]
    units = table(
        "Units",
        "by variant in the log and by the rule.",
        result.matrix,
        ("in the log", lambda cell: cell.logged),
        ("by the rule", lambda cell: cell.expected or "(not in the experiment)"),
        ("units", lambda cell: fmt.format_count(cell.units), "number"),
    )
    return [first, *since, units]
