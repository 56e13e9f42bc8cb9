"""Trust: a failed check touches the online metric, so that there may be no effect to explain."""

from abeval.agreement.case import Case, CauseCheck, Finding, Frames
from abeval.results.agreement import Evidence


def judge(case: Case, _: Frames) -> Finding:
    """The failed checks of the analysis that bear on the online metric."""
    online = [] if case.gap is None else [case.gap.online]
    failed = [c for c in case.result.trust if c.status == "fail" and c.touches(online)]
    words = "; ".join(check.message for check in failed)
    return Finding(
        exceeds=bool(failed),
        message=f"Trust: {words}." if failed else "Trust: no failed check touches the metric.",
        evidence=tuple(Evidence(f"check {check.name}", check.value) for check in failed),
        threshold=None,
        threshold_reason="the thresholds are those of the checks",
        p_value=None,
        accounts_for=None,
        remedy=" ".join(dict.fromkeys(check.remedy for check in failed if check.remedy)),
    )


CHECK = CauseCheck("trust", judge)
