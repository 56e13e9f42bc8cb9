"""Overfitting: the candidate's AUC on its training data is not reached on other rows."""

from abeval.agreement import clusters
from abeval.agreement.case import Case, CauseCheck, Finding, Frames, Unchecked
from abeval.agreement.clusters import p_above, single, stratified

FALLS = 0.05


def judge(case: Case, frames: Frames) -> Finding | Unchecked:
    """AUC on the training data less that on control's rows that were not in it."""
    train = single(frames["single_pairs:training"], "training", "training")
    test = stratified(frames["pairs:learned"], case.control, "new")
    if train is None or test is None:
        message = "Overfitting: there is no AUC on the training data or on new rows"
        return Unchecked(message, ("clicks and other rows in logs.training",))
    fall = clusters.difference(test.candidate, train)
    return Finding(
        exceeds=fall.value > FALLS,
        message=f"Overfitting: the candidate's AUC is {train.value:.3f} on its training "
        f"data and {test.candidate.value:.3f} on control's rows that are not in them.",
        evidence=(
            clusters.evidence("AUC on the training data", train, case.alpha),
            clusters.evidence("AUC on new rows", test.candidate, case.alpha, case.control),
            clusters.evidence("fall", fall, case.alpha),
        ),
        threshold=FALLS,
        threshold_reason="the AUC falls by so much on rows that were not learned",
        p_value=p_above(fall, FALLS),
        accounts_for=None,
        remedy="Regularise, or stop sooner, by rows that are later than the training data.",
    )


CHECK = CauseCheck(
    "overfitting",
    judge,
    queries=("single_pairs:training", "pairs:learned"),
    columns=("training_scores", "baseline", "candidate"),
    shows="whether the candidate does much better on what it learned",
)
