"""Overlap: the candidate learned from rows of the test, and remembers their clicks."""

from abeval.agreement import clusters
from abeval.agreement.case import Case, CauseCheck, Finding, Frames, Unchecked
from abeval.agreement.clusters import p_above, share, stratified
from abeval.agreement.gap import closed_offline
from abeval.results.agreement import Evidence

SHARE = 0.01


def judge(case: Case, frames: Frames) -> Finding | Unchecked:
    """The share of control's rows in the training data, and both models with and without them."""
    seen = share(frames["learned"], "control", "learned", "impressions")
    if seen is None:
        return Unchecked("Overlap: control has no impressions", ("impressions of control",))
    pairs = frames["pairs:learned"]
    learned, new = (stratified(pairs, case.control, part) for part in ("learned", "new"))
    pair = case.pair("auc", case.control)
    closed = None
    if pair is not None and pair.difference is not None and new is not None:
        closed = closed_offline(case, pair.difference, new.difference.value)
    numbers: list[Evidence] = [
        clusters.evidence("control's rows in the training data", seen, case.alpha, case.control)
    ]
    for name, part in (("learned", learned), ("new", new)):
        if part is not None:
            what = f"AUC difference on {name} rows"
            numbers.append(clusters.evidence(what, part.difference, case.alpha, case.control))
    return Finding(
        exceeds=seen.value > SHARE,
        message=f"Overlap: {seen.value:.1%} of control's rows are in the training data.",
        evidence=tuple(numbers),
        threshold=SHARE,
        threshold_reason=f"{SHARE:.0%} of the rows on which the models are compared",
        p_value=p_above(seen, SHARE),
        accounts_for=closed,
        remedy="Compare the models on rows that neither has learned from: split by time, with a "
        "gap.",
    )


CHECK = CauseCheck(
    "overlap",
    judge,
    queries=("learned", "pairs:learned"),
    columns=("training", "baseline", "candidate"),
    shows="whether models were compared on rows that they learned from",
)
