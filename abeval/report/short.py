"""Tabulate every other result: what was asked, the numbers that decide, and the reasons."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from abeval.report import tables
from abeval.report.tables import WHY_NOT, TextTable, decisive_p, difference_of, table
from abeval.report.time_short import time_tables
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.trust import worst_first

if TYPE_CHECKING:
    from abeval.results.agreement import Agreement
    from abeval.results.analysis import CheckResult, Pairwise
    from abeval.results.history import Added, HistoryReport
    from abeval.results.interleaving import InterleavingResult
    from abeval.results.off_policy import OffPolicyResult, OffPolicyRow, Realised
    from abeval.results.power import DecisionPlan, Plans
    from abeval.results.replay import ReplayResult
    from abeval.results.trust import AAResult, AuditResult
    from abeval.results.windows import TimeResult

Brief: TypeAlias = (
    "TimeResult | AAResult | Plans | Pairwise | ReplayResult | OffPolicyResult | AuditResult "
    "| CheckResult | InterleavingResult | Added | HistoryReport | Agreement"
)
"""Results that are shown as tables; `Result` has a page of its own."""

Part = TextTable | str
"""A table, or a sentence."""

ROWS = 20
"""Of a short table of metrics; what needs attention is shown however many there are."""


def parts(result: "Brief", whole: bool = False) -> tuple[Part, ...]:
    """List tables and sentences in the order of reading; with `whole`, metrics in full."""
    # By name, so that no record of another kind is imported.
    return _SHOWN[type(result).__name__][0](result, whole)


def opening(result: "Brief") -> tuple[str, ...]:
    """Say that a result is a draft, before its tables; nothing of one whose kind knows of none."""
    asked = getattr(result, "questions", ())
    return (f"DRAFT: {codes.open_questions(asked)}",) if asked else ()


def notes(result: "Brief") -> tuple[str, ...]:
    """List what the reader must know beside the tables: what was left out, and why."""
    return _SHOWN[type(result).__name__][1](result)


def _agreement(result: "Agreement", whole: bool) -> tuple[Part, ...]:
    from abeval.report.agreement_page import agreement_tables

    return agreement_tables(result, whole)


def _history(result: "HistoryReport", whole: bool) -> tuple[Part, ...]:
    from abeval.report.history_page import history_tables

    return history_tables(result)


def _history_added(result: "Added", whole: bool) -> tuple[Part, ...]:
    from abeval.report.history_page import added_parts

    return added_parts(result)


def _replay(result: "ReplayResult", whole: bool) -> tuple[Part, ...]:
    from abeval.report.replay_page import replay_tables

    return replay_tables(result, whole)


def _aa(result: "AAResult", whole: bool) -> tuple[Part, ...]:
    off = result.off()
    rows = [row for i, row in enumerate(result.metrics) if whole or i < ROWS or row.metric in off]
    title = f"A/A replays of {fmt.count(result.units)} units"
    lead = f"how often each test rejects at {result.alpha:g} when nothing differs."
    replays = tables.aa_table(title, lead, rows, off)
    more = len(result.metrics) - len(rows)
    return (replays, f"{more} more: --all") if more else (replays,)


def _off(result: "AAResult") -> tuple[str, ...]:
    rates = {name: result[name].rejection_rate for name in result.off()}
    return (*(f"{name}: rejects {r:.2%} of A/A tests" for name, r in rates.items()), *result.notes)


def _plans(result: "Plans") -> tuple[Part, ...]:
    units = "variant units" if any(one.units_control for one in result.plans) else "units"
    plans = table(
        "Plan",
        f"the relative effect that one test finds with {fmt.percent(result.power)}.",
        result.plans,
        "metric",
        ("role", lambda plan: plan.role, "extra"),
        ("baseline", lambda plan: _digits(plan.baseline), "spare"),
        ("sd", lambda plan: _digits(plan.sd), "spare"),
        ("effect", lambda p: "" if p.mde is None else f"{100 * p.mde:.3g}%", "number"),
        ("control units", lambda plan: _units(plan.units_control), "number"),
        (units, lambda plan: _units(plan.units), "number"),
        ("days", lambda plan: "" if plan.days is None else f"{plan.days:,.1f}", "number"),
        ("clusters", lambda plan: _units(plan.clusters), "number"),
        ("units of an A/B test", lambda plan: _units(plan.units_test), "number"),
        WHY_NOT,
    )
    return (plans,) if result.decision is None else (plans, _decision(result.decision))


def _units(units: float | None) -> str:
    return "" if units is None else fmt.count(round(units))


def _digits(value: float | None, digits: int = 4) -> str:
    return "" if value is None else f"{value:.{digits}g}"


def _decision(plan: "DecisionPlan") -> str:
    """Say how often the plan ends in each decision."""
    metrics = f"{plan.goals} goal{'s' * (plan.goals > 1)}"
    if plan.guardrails:
        metrics += f" and {plan.guardrails} guardrail{'s' * (plan.guardrails > 1)}"
    if plan.units is None or plan.ship is None:
        return f"No plan for the decision on {metrics}: {codes.reason(plan.reason)}."
    size = f"{plan.units:,.0f} units" + ("" if plan.days is None else f", {plan.days:.1f} days")
    none = f"where nothing moves it ships in {plan.ship_none:.1%} and stops in {plan.stop_none:.1%}"
    if plan.mde is None:
        why = codes.reason(plan.reason)
        return f"{size}: ships in {plan.ship:.1%} at most ({why}); {none}."
    one = "" if plan.goals == 1 else f" ({plan.ship_one:.1%} if only the first goal does)"
    return (
        f"The decision on {metrics}, {size}: it ships in {plan.ship:.1%} if every goal moves by "
        f"{plan.mde:.2%} and no guardrail does{one}; {none}."
    )


def _pairwise(result: "Pairwise") -> tuple[Part, ...]:
    adjusted = "unadjusted" if result.family == "none" else f"adjusted by {result.family}"
    values = table(
        result.metric,
        "each variant's value.",
        result.values,
        ("variant", lambda one: one[0]),
        ("value", lambda one: _digits(one[1]) or fmt.MISSING, "number"),
    )
    pairs = table(
        "Pairs",
        f"difference with {fmt.level(result.alpha)} interval; p {adjusted} over "
        f"{len(result.pairs)} pairs.",
        result.pairs,
        "variant",
        ("against", lambda pair: pair.base),
        ("difference", difference_of, "number"),
        ("lift", lambda p: "" if p.lift is None else f"{100 * p.lift:+.2f}%", "spare"),
        ("p", lambda pair: fmt.p_value(decisive_p(pair)), "number"),
        ("units", lambda p: f"{fmt.count(p.units)}, {fmt.count(p.units_base)}", "spare"),
        WHY_NOT,
    )
    return values, pairs


def off_policy_estimates(result: "OffPolicyResult") -> TextTable:
    """Tabulate every estimator; without a value, or an interval, it says why."""
    real = result.realised
    had = "" if real is None else f"; {result.policy} really had {off_policy_value(real)}"
    return table(
        result.policy,
        f"clicks or reward an impression, from the log of {result.source}{had}.",
        result.rows,
        "estimator",
        ("value", lambda row: _digits(row.value, 6) or fmt.MISSING, "number"),
        ("interval", _ends),
        ("se", lambda row: _digits(row.se), "spare"),
        ("z", lambda row: "" if real is None else _digits(row.z, 3), "spare"),
        WHY_NOT,
    )


def off_policy_value(row: "OffPolicyRow | Realised") -> str:
    """Write a value with its interval."""
    return f"{_digits(row.value, 6)} {_ends(row)}".strip()


def _ends(row: "OffPolicyRow | Realised") -> str:
    return "" if row.low is None or row.high is None else f"[{row.low:.6g}, {row.high:.6g}]"


def off_policy_support(result: "OffPolicyResult") -> TextTable:
    """Tabulate how well the log supports the policy; without rows, if it has no probabilities."""
    of = result.support
    rows: list[tuple[str, str]] = []
    if of is not None:
        rows = [
            ("effective sample size", f"{of.ess:,.0f} of {of.rows:,}"),
            ("of units", f"{of.ess_units:,.0f} of {of.units:,}"),
            ("mean weight", f"{of.mean_weight:.4f} ± {of.mean_weight_se:.4f}"),
            ("largest weight", f"{of.max_weight:.4g}; 99% are below {of.weight_p99:.4g}"),
            ("kept by rejection sampling", f"{of.accepted:,.0f}"),
        ]
    if of is not None and of.unsupported is not None:
        rows.append(("of the policy never shown", f"{100 * of.unsupported:.3g}%"))
    lead = "how far the log overlaps with the policy; the mean weight is 1 if propensities hold."
    return TextTable("Support", lead, ("of the log", "value"), tuple(rows), ("name", "number"))


def _audit(result: "AuditResult") -> tuple[Part, ...]:
    parts: list[Part] = []
    if result.units:
        parts += _mismatches(result)
    elif result.scheme is not None:
        parts.append("the log names no variants: there is nothing to compare with the scheme")
    if result.uniformity is not None:
        parts.append(f"units are spread evenly over slots: p = {result.uniformity:.3g}")
    if result.pairs:
        pairs = table(
            f"{len(result.pairs)} pairs of experiments",
            "p after Holm over the pairs.",
            result.pairs,
            *("one", "other"),
            ("independent", lambda pair: _independence(pair.p_adjusted)),
            ("units in both", lambda pair: fmt.count(pair.units), "number"),
        )
        parts.append(pairs)
    return tuple(parts)


def _independence(p: float | None) -> str:
    return "too few units" if p is None else f"p = {p:.3g}"


def _checks(result: "CheckResult", whole: bool) -> tuple[Part, ...]:
    """Count those that passed, and list the rest, worst first."""
    shown = worst_first(result.trust, "fail", "warn", "skipped", *(("pass",) if whole else ()))
    units = ", ".join(f"{v.name} {fmt.count(v.units)}" for v in result.experiment.variants)
    first = f"{result.experiment.shown}: {tables.tally(result.trust)}; {units}"
    checks = tables.checks_table("Checks", "What was measured, and what to do.", shown)
    return (first, checks) if shown else (first,)


def _interleaving(result: "InterleavingResult", whole: bool) -> tuple[Part, ...]:
    """Write the verdict, and tabulate preferences and the checks that did not pass."""
    info, checks = result.experiment, result.trust
    size = f"{fmt.count(result.units)} {info.unit} units, {fmt.count(result.lists)} lists"
    size = f"{info.shown}: {size} ({codes.words(result.method)})"

    def counts(*of: int | None) -> str:
        return ", ".join(fmt.count(count) for count in of if count is not None)

    doubt = "" if result.trusted else " (NOT TO BE TRUSTED)"
    rows = table(
        f"Preferences{doubt}",
        f"share of all credit, {fmt.level(info.alpha)} interval by {info.unit}; p of goals after "
        "Holm.",
        result.preferences,
        "metric",
        ("ranker", lambda row: f"{row.ranker} against {row.base}"),
        ("preference", lambda row: row.shown or fmt.MISSING),
        ("p", lambda row: fmt.p_value(decisive_p(row)), "number"),
        ("status", lambda row: codes.status(row.status, row.reason)),
        ("units won, lost, tied", lambda r: counts(r.won, r.lost, r.tied), "spare"),
        ("lists", lambda r: counts(r.lists_won, r.lists_lost, r.lists_tied), "spare"),
        WHY_NOT,
    )
    shown = worst_first(checks, "fail", "warn", *(("skipped", "pass") if whole else ()))
    trust = tables.checks_table("Checks", "What was measured, and what to do.", shown)
    said = (*(one.sentence for one in result.verdicts), size, f"Trust: {tables.tally(checks)}")
    return (*said, rows, trust) if shown else (*said, rows)


def _mismatches(result: "AuditResult") -> list[Part]:
    rate, low, high = (100 * (x or 0) for x in (result.rate, result.low, result.high))
    first = (
        f"{result.mismatches:,} of {result.units:,} units ({rate:.2f} %; 95 % interval "
        f"{low:.2f} % to {high:.2f} %) are in another variant than the rule ({result.scheme}) gives"
    )
    since = [] if result.since is None else [f"they are more frequent since {result.since}"]
    units = table(
        "Units",
        "by variant in the log and by the rule.",
        result.matrix,
        ("in the log", lambda one: one.logged),
        ("by the rule", lambda one: one.expected or "(not in the experiment)"),
        ("units", lambda one: fmt.count(one.units), "number"),
    )
    return [first, *since, units]


def _replay_notes(result: "ReplayResult") -> tuple[str, ...]:
    counts = (f"{codes.words(what)}: {count:,}" for what, count in result.accounting if count)
    return (*counts, *result.notes)


def _refused(result: "TimeResult | AAResult") -> tuple[str, ...]:
    return tuple(f"{name} is not shown: {why}" for name, why in result.refused.items())


def _pairwise_notes(result: "Pairwise") -> tuple[str, ...]:
    checks = (check for check in result.trust if check.status == "fail")
    failed = (check.message for check in checks if check.touches([result.metric]))
    return tuple(f"do not trust this result: {message}" for message in failed)


def _off_policy_notes(result: "OffPolicyResult") -> tuple[str, ...]:
    messages = dict.fromkeys(row.message for row in result.rows if row.message is not None)
    return (*result.notes, *messages)


def _history_notes(result: "HistoryReport") -> tuple[str, ...]:
    return (*(f"left out, {why}: {n:,} rows" for why, n in result.left_out), *result.notes)


_SHOWN: Mapping[
    str, tuple[Callable[[Any, bool], tuple[Part, ...]], Callable[[Any], tuple[str, ...]]]
] = {
    "TimeResult": (time_tables, lambda result: (*result.notes, *_refused(result))),
    "ReplayResult": (_replay, _replay_notes),
    "Agreement": (_agreement, lambda result: result.notes),
    "AAResult": (_aa, lambda result: (*_off(result), *_refused(result))),
    "Plans": (lambda r, _: _plans(r), lambda result: result.notes),
    "Pairwise": (lambda r, _: _pairwise(r), _pairwise_notes),
    "OffPolicyResult": (
        lambda r, _: (off_policy_estimates(r), off_policy_support(r)),
        _off_policy_notes,
    ),
    "AuditResult": (lambda r, _: _audit(r), lambda _: ()),
    "CheckResult": (_checks, lambda _: ()),
    "InterleavingResult": (_interleaving, lambda result: result.notes),
    "Added": (_history_added, lambda _: ()),
    "HistoryReport": (_history, _history_notes),
}
"""Kind of a result → its tables and sentences, and its notes."""
