"""Window: the log is shorter than a week, so that weekdays are not balanced."""

from abeval.agreement.case import Case, CauseCheck, Finding, Frames, Unchecked
from abeval.results.agreement import Evidence

WEEK = 7


def judge(case: Case, _: Frames) -> Finding | Unchecked:
    """Whole days of the log."""
    days = {row.cell for row in case.result.daily if not row.partial}
    if not case.result.daily:
        message = "Window: times of impressions would show whether the log covers a week"
        return Unchecked(message, ("ts",))
    return Finding(
        exceeds=len(days) < WEEK,
        message=f"Window: the log has {len(days)} whole days.",
        evidence=(Evidence("whole days", float(len(days))),),
        threshold=float(WEEK),
        threshold_reason="users behave otherwise on weekends: a whole week is the least",
        p_value=None,
        accounts_for=None,
        remedy="Run for whole weeks.",
    )


CHECK = CauseCheck("window", judge)
