"""Exploration: on random traffic the models compare otherwise than on the lists that they chose."""

from abeval.agreement import clusters
from abeval.agreement.case import Case, CauseCheck, Finding, Frames, Unchecked
from abeval.agreement.clusters import stratified
from abeval.agreement.gap import closed_offline
from abeval.stats.records import Estimate

HALF = 0.5


def judge(case: Case, frames: Frames) -> Finding | Unchecked:
    """The models' difference on control's exploration traffic against the rest."""
    pairs = frames["pairs:explore"]
    known = [stratified(pairs, case.control, part) for part in ("explore", "rest")]
    if known[0] is None or known[1] is None:
        message = "Exploration: control has no clicks and non-clicks on both kinds of traffic"
        return Unchecked(message, ("rows of control with and without explore",))
    explored, rest = known[0].difference, known[1].difference
    # A unit may be in both: their errors are added as if they were fully dependent.
    error = explored.variance**0.5 + rest.variance**0.5
    change = Estimate(explored.value - rest.value, error**2, rest.units, rest.df)
    return Finding(
        exceeds=abs(change.value) >= HALF * max(abs(rest.value), abs(explored.value)),
        message=f"Exploration: the candidate's AUC differs by {explored.value:+.3f} on control's "
        f"exploration traffic and by {rest.value:+.3f} on the rest.",
        evidence=(
            clusters.evidence("AUC difference on exploration traffic", explored, case.alpha),
            clusters.evidence("AUC difference on the rest", rest, case.alpha),
            clusters.evidence("difference of the two", change, case.alpha),
        ),
        threshold=HALF,
        threshold_reason="the difference on the rest is off by half of it or more",
        p_value=clusters.p_value(change),
        accounts_for=closed_offline(case, rest.value, explored.value),
        remedy="Judge models offline on exploration traffic.",
    )


CHECK = CauseCheck(
    "exploration",
    judge,
    queries=("pairs:explore",),
    columns=("explore", "baseline", "candidate"),
    shows="whether the lists that control chose favour its model",
)
