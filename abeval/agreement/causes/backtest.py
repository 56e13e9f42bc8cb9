"""Backtest: the off-policy estimate from control's log does not predict what the variant had."""

from scipy.special import ndtr

from abeval.agreement.case import Case, CauseCheck, Finding, Frames, Unchecked
from abeval.results.agreement import Evidence

LEAST_Z = 2.0
ESTIMATOR = "snips"


def judge(case: Case, _: Frames) -> Finding | Unchecked:
    """The self-normalised estimate of the variant from the log of control, as z."""
    own = [row for row in case.backtests if row.estimator == ESTIMATOR]
    forward = next((row for row in own if row.target == case.variant), None)
    if forward is None:
        message = "Backtest: propensities would show whether control's log predicts the variant"
        return Unchecked(message, ("propensity", "item_id"))
    if forward.z is None:
        message = f"Backtest: the estimate has no z ({forward.reason})"
        return Unchecked(message, ("more clicks of control on the variant's items",))
    return Finding(
        exceeds=abs(forward.z) >= LEAST_Z,
        message=f"Backtest: control's log predicts {forward.value:.4g} clicks per impression of "
        f"the variant, which had {forward.realised:.4g} (z = {forward.z:+.2f}).",
        evidence=tuple(
            Evidence(f"{ESTIMATOR} of {row.target} from {row.source}", row.value, row.low, row.high)
            for row in own
        )
        + tuple(Evidence("z", row.z, where=f"{row.target} from {row.source}") for row in own),
        threshold=LEAST_Z,
        threshold_reason="an estimate is off by two standard errors or more",
        p_value=float(2 * ndtr(-abs(forward.z))),
        accounts_for=None,
        remedy="Check the logged propensities, and what the policies see besides the item and its "
        "position.",
    )


CHECK = CauseCheck("backtest", judge)
