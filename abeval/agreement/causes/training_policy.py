"""Training policy: who logged the rows that the candidate learned from, and what they leave out.

A model learns from what a policy showed (control's, that of an old version). Of what it then shows
itself it may know nothing, and offline, on control's traffic, there is little of that.
"""

import numpy as np
import pandas as pd

from abeval.agreement import clusters
from abeval.agreement.case import Case, CauseCheck, Finding, Frames, Unchecked
from abeval.agreement.clusters import p_above, share
from abeval.agreement.days import closed_by_rates
from abeval.results import format as fmt
from abeval.results.agreement import Evidence
from abeval.stats.records import Estimate

LARGEST = 0.1
LESS = 0.1
_NAMED = 3
_AS_OTHERS = Estimate(0.0, 0.0, 2, 1.0)


def judge(case: Case, frames: Frames) -> Finding | Unchecked:
    """Items that the training data hardly have: how much is of them, how they are clicked."""
    rows = _with_expected(frames["learned_items"])
    unknown = [share(rows, side, "unlearned", "impressions") for side in ("control", "variant")]
    policies = frames["training_policies"].set_index("policy")["trained"].sort_values()[::-1]
    if unknown[0] is None or unknown[1] is None:
        message = "Training policy: a variant has no scored rows of items of the training data"
        return Unchecked(message, ("item_id of both variants and of [logs.training]",))
    more = clusters.difference(unknown[0], unknown[1])
    clicked = share(rows, "variant", "unlearned_clicks", "unlearned_expected")
    less = Estimate(1 - clicked.value, *clicked[1:]) if clicked is not None else _AS_OTHERS
    who = [(str(name), part) for name, part in (policies / policies.sum()).items()]
    named = fmt.listing([f"{name} ({part:.0%})" for name, part in who[:_NAMED]])
    return Finding(
        exceeds=more.value > LARGEST and less.value > LESS,
        message=f"Training policy: {named} logged what the candidate learned from; it hardly has "
        f"the items of {unknown[1].value:.1%} of what the variant shows and of "
        f"{unknown[0].value:.1%} of what control shows, clicked {less.value:.1%} less than others "
        "of like scores.",
        evidence=(
            *clusters.by_side("rows of items hardly learned", unknown, case),
            clusters.evidence("difference", more, case.alpha),
            clusters.evidence("clicks less than others of like scores", less, case.alpha),
            *(Evidence("share of the training data", part, where=name) for name, part in who),
        ),
        threshold=LARGEST,
        threshold_reason="a tenth of what the variant shows, beyond control's share, is of items "
        "with fewer than 10 rows in the training data, and is clicked a tenth less",
        p_value=max(p_above(more, LARGEST), p_above(less, LESS)),
        accounts_for=_closed(case, rows),
        remedy="Train on rows that the candidate itself, or exploration, has logged, and give them "
        "more weight.",
    )


def _with_expected(rows: pd.DataFrame) -> pd.DataFrame:
    """The clicks of rows if they were clicked like those of learned items with like scores."""
    sums = rows.groupby(["side", "tenth"], as_index=False).sum()
    known = (sums["impressions"] - sums["unlearned"]).replace(0, np.nan)
    sums["rate"] = (sums["clicks"] - sums["unlearned_clicks"]) / known
    both = rows.merge(sums[["side", "tenth", "rate"]]).dropna()
    for name in ("impressions", "unlearned"):
        both[f"{name}_expected"] = both[name] * both["rate"]
    return both


def _closed(case: Case, rows: pd.DataFrame) -> float | None:
    """The click rate if the variant showed learned items of like scores in their place."""
    sums = rows.groupby("side")[["impressions", "clicks", "impressions_expected"]].sum()
    shown, clicks, expected = sums.to_numpy(dtype=np.float64).T
    return closed_by_rates(case, clicks / shown, np.array([clicks[0], expected[1]]) / shown)


CHECK = CauseCheck(
    "training_policy",
    judge,
    queries=("learned_items", "training_policies"),
    columns=("training_policy", "item_id", "candidate"),
    shows="whether the candidate knows what it shows",
)
