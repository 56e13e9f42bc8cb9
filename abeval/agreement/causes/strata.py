"""Causes that show in AUC within strata: positions, rows that were learned."""

from abeval.agreement import clusters
from abeval.agreement.case import CauseContext, Finding, find_above
from abeval.agreement.clusters import estimate_strata, share
from abeval.results.agreement import Evidence


def check_position(case: CauseContext, part: float) -> Finding | None:
    """Compare the models among rows of one position."""
    traffics, pairs = (case.control, case.variant), case.rows("pairs:position")
    raw, own_raw = (case.difference("auc", traffic) for traffic in traffics)
    within, variant_within = (estimate_strata(pairs, traffic) for traffic in traffics)
    if raw is None or own_raw is None or within is None or variant_within is None:
        return None
    # A model puts what it scores high on top, where more is clicked (Craswell et al. 2008). What
    # is gone within positions was the place, not the item.
    even, own_even = within.difference, variant_within.difference
    change = clusters.change_on_same(raw, even)
    return Finding(
        exceeds=abs(change.value) >= part * abs(raw.value),
        message=f"Position: the candidate's AUC differs by {raw.value:+.3f} on control's "
        f"traffic and {own_raw.value:+.3f} on its own; at the same position by {even.value:+.3f} "
        f"and {own_even.value:+.3f}.",
        evidence=(
            *case.sides("AUC difference within positions", even, own_even),
            *case.sides("AUC difference", raw, own_raw),
            *_estimate_coec(case),
        ),
        p_value=clusters.compute_p_value(change),
        accounts_for=case.closed_offline(raw.value, even.value),
    )


def _estimate_coec(case: CauseContext) -> tuple[Evidence, ...]:
    """Return clicks over those expected at their positions."""
    # COEC (Zhang and Jones 2007), expected at the rates of both variants together.
    rows = case.rows("positions")
    sums = rows.groupby("position")[["clicks", "impressions"]].sum()
    rate = sums["clicks"] / sums["impressions"]
    expected = rows["impressions"] * rows["position"].map(rate).astype(float)
    by_cluster = rows.assign(expected=expected).groupby(["variant", "cluster"], as_index=False)
    totals = by_cluster[["clicks", "expected"]].sum().assign(side=lambda sums: sums["variant"])
    name, both = "clicks over expected clicks", (case.control, case.variant)
    return tuple(case.number(name, share(totals, v, "clicks", "expected"), v) for v in both)


def check_overlap(case: CauseContext, limit: float) -> Finding | None:
    """Compare the models with and without control's rows in the training data."""
    seen = share(case.rows("served_sums"), "control", "learned", "impressions")
    if seen is None:
        return None
    pairs = case.rows("pairs:learned")
    parts = {part: estimate_strata(pairs, case.control, part) for part in ("learned", "new")}
    pair, new = case.pair("auc", case.control), parts["new"]
    found = find_above(
        seen,
        limit,
        f"Overlap: {seen.value:.1%} of control's rows are in the training data.",
        case.number("control's rows in the training data", seen, case.control),
        *(
            case.number(f"AUC difference on {name} rows", part.difference, case.control)
            for name, part in parts.items()
            if part is not None
        ),
    )
    if pair is None or pair.difference is None or new is None:
        return found
    return found._replace(accounts_for=case.closed_offline(pair.difference, new.difference.value))


def check_overfitting(case: CauseContext, limit: float) -> Finding | None:
    """Compare AUC on the training data with that on control's other rows."""
    train = estimate_strata(case.rows("pairs:training"), "training", "training")
    test = estimate_strata(case.rows("pairs:learned"), case.control, "new")
    if train is None or test is None:
        return None
    fall = clusters.estimate_difference(test.candidate, train.candidate)
    return find_above(
        fall,
        limit,
        f"Overfitting: the candidate's AUC is {train.candidate.value:.3f} on its training "
        f"data and {test.candidate.value:.3f} on control's rows that are not in them.",
        case.number("AUC on the training data", train.candidate),
        case.number("AUC on new rows", test.candidate, case.control),
        case.number("fall", fall),
    )
