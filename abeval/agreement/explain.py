"""Findings → causes with adjusted p-values, ranked, and what they say in sentences."""

from collections.abc import Sequence
from dataclasses import replace

from abeval.agreement.case import Case, CauseCheck, Finding, Unchecked
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.agreement import AgreementRow, Cause, Explanation
from abeval.stats.multiplicity import adjust

LEAST_SHARE = 0.25
"""A cause that is known to account for less of the gap does not explain it."""

_GAPS = ("conflict", "offline only", "online only")

_STANDS = {
    "agree": "agree",
    "conflict": "contradict each other",
    "offline only": "differ: offline there is a difference, online none is seen",
    "online only": "differ: online there is an effect, offline no difference is seen",
    "inconclusive": "are both unclear",
}


def cause_of(check: CauseCheck, case: Case, finding: Finding | Unchecked) -> Cause:
    """The record of a cause, before p-values are adjusted over all of them."""
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
        finding.threshold,
        finding.threshold_reason,
        finding.p_value,
        accounts_for=finding.accounts_for,
        remedy=finding.remedy if finding.exceeds else "",
    )


def ranked(causes: Sequence[Cause], case: Case) -> tuple[Cause, ...]:
    """Causes with Holm's p-values over all that were tested; found ones first, by their share."""
    tested = [cause for cause in causes if cause.p_value is not None]
    adjusted = adjust([cause.p_value or 0.0 for cause in tested]).tolist()
    by_name = dict(zip((cause.name for cause in tested), adjusted, strict=True))
    judged = [_judged(cause, by_name.get(cause.name), case) for cause in causes]
    ordered = sorted((c for c in judged if c.status == "found"), key=_order)
    first = [replace(cause, rank=place) for place, cause in enumerate(ordered, start=1)]
    rest = ("not found", "cannot be checked")
    return (*first, *(c for status in rest for c in judged if c.status == status))


def _judged(cause: Cause, p_adjusted: float | None, case: Case) -> Cause:
    """A cause is found if it is there beyond chance and explains what there is to explain."""
    is_there = cause.status == "found" and (p_adjusted is None or p_adjusted <= case.alpha)
    share = cause.accounts_for if is_there else None
    cause = replace(cause, p_adjusted=p_adjusted, accounts_for=share)
    if cause.status != "found" or (is_there and _explains(cause, case.gap)):
        return cause
    return replace(cause, status="not found", remedy="")


def _explains(cause: Cause, gap: AgreementRow | None) -> bool:
    """Whether there is a gap and the cause may account for a quarter of it or more.

    A failed check explains why the two sides cannot be compared.
    """
    if gap is None or gap.standing not in _GAPS:
        return gap is not None and gap.reason == "untrusted" and cause.name == "trust"
    return cause.accounts_for is None or cause.accounts_for >= LEAST_SHARE


def _order(cause: Cause) -> tuple[float, float]:
    """Larger shares of the gap first, then smaller p-values; facts are certain."""
    share = -1.0 if cause.accounts_for is None else cause.accounts_for
    return -share, 0.0 if cause.p_adjusted is None else cause.p_adjusted


def explanation(case: Case, gap: AgreementRow, causes: Sequence[Cause]) -> Explanation:
    """The gap in a sentence, then one for each cause that was found."""
    compared = f"{gap.offline} of {case.candidate} against {case.baseline}"
    if case.candidate in ("", case.baseline):
        compared = f"{gap.offline} (the variants have no two models)"
    head = (
        f"{compared} on the traffic of {case.control} {_ends(gap.difference, gap.low, gap.high)} "
        f"and {gap.online} of {case.variant} "
        f"{_ends(gap.lift, gap.lift_low, gap.lift_high, lift=True)} {_stands(gap)}."
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


def _stands(gap: AgreementRow) -> str:
    """How the two sides stand to each other, in words that follow both."""
    if gap.standing == "inconclusive" and gap.reason is not None:
        return f"cannot be compared ({codes.reason(gap.reason)})"
    return _STANDS[gap.standing]


def _share(cause: Cause) -> str:
    if cause.accounts_for is None:
        return ""
    return f" It accounts for {fmt.percent(cause.accounts_for)} of the gap."


def _ends(value: float | None, low: float | None, high: float | None, lift: bool = False) -> str:
    if value is None:
        return "(unknown)"
    if low is None or high is None:
        return f"({value:+.2%})" if lift else f"({value:+.4f})"
    if lift:
        return f"({value:+.2%} [{low:+.2%}, {high:+.2%}])"
    return f"({value:+.4f} [{low:+.4f}, {high:+.4f}])"
