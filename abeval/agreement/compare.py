"""An analysis and a replay → their agreement; with the facts of the logs, causes are checked."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from abeval.agreement.case import Case, CauseCheck, Frames, Unchecked
from abeval.agreement.causes import CAUSES
from abeval.agreement.rows import agreement_rows, decompositions, matrix, position_rates
from abeval.experiment.model import Experiment
from abeval.experiment.sections import AgreementColumns
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.agreement import (
    AGREEMENT_SCHEMA_VERSION,
    Agreement,
    AgreementRow,
    Backtest,
    Cause,
    Explanation,
)
from abeval.results.analysis import Result
from abeval.results.replay import ReplayResult
from abeval.stats.multiplicity import adjust

__all__ = ["Agreement", "ReplayResult", "Result", "compare"]

LEAST_SHARE = 0.25
"""A cause that is known to account for less of the gap does not explain it."""

COLUMNS = ""
"""Among the frames of the facts: one without rows, whose columns are those that the logs have."""

_ROLES = ("goal", "guardrail", "diagnostic")
_GAPS = ("conflict", "offline only", "online only")
_STANDS = {
    "agree": "agree",
    "conflict": "contradict each other",
    "offline only": "differ: offline there is a difference, online none is seen",
    "online only": "differ: online there is an effect, offline no difference is seen",
    "inconclusive": "are both unclear",
}
_IN_WORDS: Mapping[str, str] = {
    "baseline": "scores of both models ([models])",
    "candidate": "scores of both models ([models])",
    "day": "ts",
    "training": "[logs.training]",
    "training_policy": "item_id and policy in [logs.training]",
    "training_scores": "the candidate's score and clicks in [logs.training]",
    **{name: f"[agreement] {name}" for name in AgreementColumns.model_fields},
}
"""Column of `agreement_rows` → what a user calls it, where that differs."""


def compare(
    result: Result,
    replay: ReplayResult | None,
    facts: Mapping[str, Frames] | None = None,
    backtests: Sequence[Backtest] = (),
    notes: Sequence[str] = (),
    experiment: Experiment | None = None,
) -> Agreement:
    """Set offline beside online for every treatment.

    Args:
        result: The analysis.
        replay: The models on its log; None without models.
        facts: Variant → rows of the queries that its logs allow; without, causes that need logs
            are not checked.
        backtests: Off-policy estimates against what happened.
        notes: What a reader must know.
        experiment: Its file; without, causes that read its entries are not checked.

    Raises:
        ValueError: The replay is of another experiment.
    """
    info = result.experiment
    if replay is not None and replay.name != info.name:
        raise ValueError(f"the replay is of {replay.name!r}, the result of {info.name!r}")
    models = {variant.name: variant.model or "" for variant in info.variants}
    cases = [
        Case(
            control=info.control,
            variant=name,
            baseline=models[info.control],
            candidate=models[name],
            alpha=info.alpha,
            result=result,
            replay=replay,
            backtests=tuple(row for row in backtests if row.variant == name),
            experiment=experiment,
            facts=(facts or {}).get(name),
        )
        for name in models
        if name != info.control
    ]
    rows = [tuple(agreement_rows(case)) for case in cases]
    cases = [
        replace(case, gap=min(own, key=_headline, default=None))
        for case, own in zip(cases, rows, strict=True)
    ]
    causes = [ranked([_cause(check, case) for check in CAUSES], case) for case in cases]
    return Agreement(
        schema_version=AGREEMENT_SCHEMA_VERSION,
        name=info.name,
        alpha=info.alpha,
        explanations=tuple(
            explanation(case, case.gap, own)
            for case, own in zip(cases, causes, strict=True)
            if case.gap is not None
        ),
        rows=tuple(row for own in rows for row in own),
        matrix=tuple(cell for case in cases for cell in matrix(case)),
        decompositions=tuple(part for case in cases for part in decompositions(case)),
        backtests=tuple(backtests),
        causes=tuple(cause for own in causes for cause in own),
        positions=tuple(rate for case in cases for rate in position_rates(case)),
        notes=tuple(notes),
    )


def _headline(row: AgreementRow) -> tuple[bool, int]:
    """Order rows by what is explained: AUC, or the first metric, against the first goal."""
    return row.offline != "auc", _ROLES.index(row.role)


def _cause(check: CauseCheck, case: Case) -> Cause:
    """Check a cause, before p-values are adjusted over all of them."""
    finding = _lacking(check, case.facts) or check.judge(case)
    if isinstance(finding, Unchecked):
        return Cause(
            check.name, case.variant, "cannot be checked", finding.message, needs=finding.needs
        )
    return Cause(
        check.name,
        case.variant,
        "found" if finding.exceeds else "not found",
        finding.message,
        finding.evidence,
        check.threshold,
        check.reason,
        finding.p_value,
        accounts_for=finding.accounts_for,
        remedy=(finding.remedy or check.remedy) if finding.exceeds else "",
    )


def _lacking(check: CauseCheck, facts: Frames | None) -> Unchecked | None:
    """Say what the logs lack for the queries of a cause; None if nothing."""
    title = check.name.capitalize()
    if check.queries and facts is None:
        message = f"{title}: the logs would show {check.shows}"
        return Unchecked(message, ("the logs (abeval agree)",))
    if facts is None or all(name in facts for name in check.queries):
        return None
    missing = (name for name in check.needed if name not in facts[COLUMNS].columns)
    needs = tuple(dict.fromkeys(_IN_WORDS.get(name, name) for name in missing))
    return Unchecked(f"{title}: {fmt.listing(needs)} would show {check.shows}", needs)


def ranked(causes: Sequence[Cause], case: Case) -> tuple[Cause, ...]:
    """Adjust p-values over all causes that were tested (Holm); rank those found by their share."""
    tested = [cause for cause in causes if cause.p_value is not None]
    adjusted = adjust([cause.p_value or 0.0 for cause in tested]).tolist()
    by_name = dict(zip((cause.name for cause in tested), adjusted, strict=True))
    judged = [_judged(cause, by_name.get(cause.name), case) for cause in causes]
    ordered = sorted((c for c in judged if c.status == "found"), key=_order)
    first = [replace(cause, rank=place) for place, cause in enumerate(ordered, start=1)]
    rest = ("not found", "cannot be checked")
    return (*first, *(c for status in rest for c in judged if c.status == status))


def _judged(cause: Cause, p_adjusted: float | None, case: Case) -> Cause:
    """Call a cause found if it is there beyond chance and explains what there is to explain."""
    is_there = cause.status == "found" and (p_adjusted is None or p_adjusted <= case.alpha)
    share = cause.accounts_for if is_there else None
    cause = replace(cause, p_adjusted=p_adjusted, accounts_for=share)
    if cause.status != "found" or (is_there and _explains(cause, case.gap)):
        return cause
    return replace(cause, status="not found", remedy="")


def _explains(cause: Cause, gap: AgreementRow | None) -> bool:
    """Tell whether there is a gap of which the cause may account for a quarter or more.

    A failed check explains why the two sides cannot be compared.
    """
    if gap is None or gap.standing not in _GAPS:
        return gap is not None and gap.reason == "untrusted" and cause.name == "trust"
    return cause.accounts_for is None or cause.accounts_for >= LEAST_SHARE


def _order(cause: Cause) -> tuple[float, float]:
    """Put larger shares of the gap first, then smaller p-values; facts are certain."""
    share = -1.0 if cause.accounts_for is None else cause.accounts_for
    return -share, 0.0 if cause.p_adjusted is None else cause.p_adjusted


def explanation(case: Case, gap: AgreementRow, causes: Sequence[Cause]) -> Explanation:
    """Say the gap in a sentence, then one for each cause that was found."""
    compared = f"{gap.offline} of {case.candidate} against {case.baseline}"
    if case.candidate in ("", case.baseline):
        compared = f"{gap.offline} (the variants have no two models)"
    stands = _STANDS[gap.standing]
    if gap.standing == "inconclusive" and gap.reason is not None:
        stands = f"cannot be compared ({codes.reason(gap.reason)})"
    head = (
        f"{compared} on the traffic of {case.control} "
        f"{_ends(gap.difference, gap.low, gap.high, '+.4f')} and {gap.online} of {case.variant} "
        f"{_ends(gap.lift, gap.lift_low, gap.lift_high, '+.2%')} {stands}."
    )
    rest = [
        f"{cause.rank}. {cause.message}{_share(cause)} {cause.remedy}".rstrip()
        for cause in causes
        if cause.status == "found"
    ]
    if not rest and gap.standing in _GAPS:
        checked = sum(cause.status != "cannot be checked" for cause in causes)
        rest = [f"No cause found explains the gap ({checked} of {len(causes)} were checked)."]
    words = (case.variant, gap.offline, gap.online, gap.standing)
    return Explanation(*words, (head, *(rest or ["There is no gap to explain."])))


def _share(cause: Cause) -> str:
    if cause.accounts_for is None:
        return ""
    return f" It accounts for {fmt.percent(cause.accounts_for)} of the gap."


def _ends(value: float | None, low: float | None, high: float | None, form: str) -> str:
    if value is None:
        return "(unknown)"
    ends = "" if low is None or high is None else f" [{low:{form}}, {high:{form}}]"
    return f"({value:{form}}{ends})"
