"""Check causes that show as a share of rows or clicks."""

import numpy as np
import pandas as pd

from abeval.aggregates.audit_arrays import CLUSTERS
from abeval.agreement import clusters
from abeval.agreement.bill import is_gap
from abeval.agreement.case import CauseContext, Finding, Unchecked
from abeval.agreement.clusters import Shares, compare_shares, compute_p_above, share
from abeval.agreement.levels import Levels
from abeval.results import format as fmt
from abeval.results.agreement import Evidence
from abeval.stats.records import Estimate, Floats

_NAMED = 3
_DEEPEST = 20
_STEPS = 50


def _sum_by_side(rows: pd.DataFrame, *columns: str) -> Floats:
    """Return sums of columns, shape (columns, sides), control first."""
    return rows.groupby("side")[[*columns]].sum().to_numpy(dtype=np.float64).T


def check_support(case: CauseContext, limit: float) -> Finding | None:
    """Compare the shares of rows whose items control's log does not have."""
    rows = case.rows("support")
    unknown = compare_shares(rows, "unsupported", "impressions")
    if unknown is None:
        return None
    control_share, variant_share, more = unknown
    return Finding(
        exceeds=more.value >= limit,
        message=f"Support: {variant_share.value:.1%} of what the variant showed is of items that "
        f"control's log does not have, against {control_share.value:.1%} of control's own.",
        evidence=(
            case.number("share on items never shown", variant_share, case.variant),
            case.number("share on items never shown", control_share, case.control),
            case.number("difference", more),
            *_measure_effective_share(case),
        ),
        # Fewer unknown items than control has are no sign of the cause.
        p_value=clusters.compute_p_value(more) if more.value > 0 else 1.0,
        accounts_for=_close_by_support(case, rows),
    )


def _close_by_support(case: CauseContext, sides: pd.DataFrame) -> float | None:
    """Close the gap by the click rates on items that are supported."""
    columns = ("impressions", "clicks", "unsupported", "unsupported_clicks")
    rows, clicks, unknown, unknown_clicks = _sum_by_side(sides, *columns)
    supported = rows - unknown
    if supported.size < 2 or not supported.all():
        return None
    return case.closed_by_rates(clicks / rows, (clicks - unknown_clicks) / supported)


def _measure_effective_share(case: CauseContext) -> tuple[Evidence, ...]:
    """Return the effective share of control's rows.

    It is Kish's, of rows weighted to the variant's items.
    """
    row = case.rows("weights").iloc[0]
    if not row["control_rows"] or not row["squared_weight"]:
        return ()
    size = float(row["weight"]) ** 2 / float(row["squared_weight"])
    effective = size / float(row["control_rows"])
    return (Evidence("effective share of the sample", effective, where=case.control),)


def check_candidates(case: CauseContext, limit: float, most_out: float) -> Finding | Unchecked:
    """Compare the items of both variants among rows of like scores."""
    if not isinstance(case.levels, Levels):
        return _explain_no_levels(case, "Candidates")
    out = _compare_reordered_shares(case)
    # Scores alone decide what a ranker shows, so an item that the variant shows less often than
    # its scores let expect did not get to the ranker. Lists in another order say nothing of that.
    is_ordered = out is None or out.more.value <= most_out
    share, p_value, where, _ = case.levels.supply
    above_all = f", above all of {fmt.join_items(where)}" if where and share > limit else ""
    return Finding(
        exceeds=share > limit and is_ordered,
        message=f"Candidates: {share:.1%} of control's rows are of items that the variant shows "
        f"less often than items with the same scores{above_all}.",
        evidence=(Evidence("rows that the variant lacks", share),),
        p_value=p_value,
        accounts_for=_close_by_step(case, case.levels, "new", "kept"),
    )


def check_labels(case: CauseContext, limit: float) -> Finding | Unchecked:
    """Compare clicks by category with those of control's like rows."""
    if not isinstance(case.levels, Levels):
        return _explain_no_levels(case, "Labels")
    share, p_value, where, _ = case.levels.labels
    more = [f"{len(where) - _NAMED} more"] if len(where) > _NAMED else []
    names = fmt.join_items([*where[:_NAMED], *more])
    lost = f"clicks in {names} are {share:.1%} below those of other categories"
    message = lost if where else "no category surely has fewer clicks than the others"
    return Finding(
        exceeds=share > limit,
        message=f"Labels: on rows with like scores, {message}.",
        evidence=(Evidence("clicks that are missing", share, where=names),),
        p_value=p_value,
        accounts_for=_close_by_step(case, case.levels, "kept", "acted"),
    )


def _explain_no_levels(case: CauseContext, title: str) -> Unchecked:
    """Say why rows with like scores cannot be compared."""
    need = "400 clicks of each variant in lists that a logged score ordered"
    return Unchecked(f"{title}: {case.levels or 'no logs were read'}", (need,))


def _close_by_step(case: CauseContext, levels: Levels, before: str, after: str) -> float | None:
    """Close the gap by the step between two levels; nothing where clicks show no gap."""
    if not is_gap(levels):
        return 0.0
    return case.closed_without(float(levels.lifts[after][0] - levels.lifts[before][0]))


def check_training_policy(
    case: CauseContext, unlearned: float, fewer_clicks: float
) -> Finding | None:
    """Count rows and clicks of items that the training data hardly have.

    A model learns from what another policy showed, and may know nothing of what it shows itself.
    """
    # Every row counts in the shares; clicks are compared where learned items have like scores.
    learned = case.rows("learned_items")
    unknown = compare_shares(learned, "unlearned", "impressions")
    if unknown is None:
        return None
    control_share, variant_share, more = unknown
    rows = _add_expected_clicks(learned)
    clicked = share(rows, "variant", "unlearned_clicks", "unlearned_expected")
    less = Estimate(0.0, 0.0, 2, 1.0)
    if clicked is not None:
        less = clicked._replace(value=1 - clicked.value)
    trained = case.rows("training_policies").set_index("policy")["trained"].sort_values()[::-1]
    who = [(str(name), part) for name, part in (trained / trained.sum()).items()]
    policies = fmt.join_items([f"{name} ({part:.0%})" for name, part in who[:_NAMED]])
    return Finding(
        exceeds=more.value > unlearned and less.value > fewer_clicks,
        message=f"Training policy: {policies} logged the training data, which hardly have the "
        f"items of {variant_share.value:.1%} of the variant's rows and {control_share.value:.1%} "
        f"of control's, whose clicks are {-less.value:+.1%} against others of like scores.",
        evidence=(
            *case.sides("rows of items hardly learned", control_share, variant_share),
            case.number("difference", more),
            case.number("clicks less than others of like scores", less),
            *(Evidence("share of the training data", part, where=name) for name, part in who),
        ),
        # Both have to exceed their limits, so the larger p-value counts.
        p_value=max(compute_p_above(more, unlearned), compute_p_above(less, fewer_clicks)),
        accounts_for=_close_by_learned_items(case, rows),
    )


def _add_expected_clicks(rows: pd.DataFrame) -> pd.DataFrame:
    """Add the clicks that rows would have at the click rate of learned items.

    Learned items were in the training data. The rate is of the same side (0 control, 1 variant)
    and the same tenth of the candidate model's scores. Adds `impressions_expected` and
    `unlearned_expected`; rows of a tenth without a learned item are left out.
    """
    sums = rows.groupby(["side", "tenth"], as_index=False).sum()
    # A tenth without a learned item has no rate, and its rows are left out below.
    learned = (sums["impressions"] - sums["unlearned"]).replace(0, np.nan)
    sums["rate"] = (sums["clicks"] - sums["unlearned_clicks"]) / learned
    both = rows.merge(sums[["side", "tenth", "rate"]]).dropna()
    for name in ("impressions", "unlearned"):
        both[f"{name}_expected"] = both[name] * both["rate"]
    return both


def _close_by_learned_items(case: CauseContext, rows: pd.DataFrame) -> float | None:
    """Close the gap as if the variant showed learned items of like scores."""
    impressions, clicks, expected = _sum_by_side(
        rows, "impressions", "clicks", "impressions_expected"
    )
    # A variant may show nothing that has a like learned item.
    if impressions.size < 2:
        return None
    return case.closed_by_rates(
        clicks / impressions, np.array([clicks[0], expected[1]]) / impressions
    )


def check_reordered(case: CauseContext, against: float, costs: float) -> Finding | None:
    """Count rows that are not in the place of their score, and what that costs."""
    rows, out = case.rows("list_order"), _compare_reordered_shares(case)
    sides = [rows[rows["side"] == side] for side in ("control", "variant")]
    if out is None or not all(side_rows["clicks"].sum() for side_rows in sides):
        return None
    gains = [_estimate_order_gain(side_rows) for side_rows in sides]
    lost = clusters.estimate_difference(gains[0], gains[1])
    rates = np.array([side["clicks"].sum() / side["impressions"].sum() for side in sides])
    return Finding(
        exceeds=out.more.value > against and lost.value > costs,
        message=f"Reordered: {out.variant.value:.1%} of rows in the variant's lists and "
        f"{out.control.value:.1%} in control's are not in the place of their score; in the "
        f"order of scores the variant's clicks would change by {gains[1].value:+.1%}.",
        evidence=(
            *case.sides("rows out of place", out.control, out.variant),
            case.number("difference", out.more),
            case.number("clicks lost, beyond control's", lost),
        ),
        # Both have to exceed their limits, so the larger p-value counts.
        p_value=max(compute_p_above(out.more, against), compute_p_above(lost, costs)),
        accounts_for=case.closed_by_rates(rates, rates * [1 + gain.value for gain in gains]),
    )


def _compare_reordered_shares(case: CauseContext) -> Shares | None:
    """Compare the shares of rows that are not in the place of their score."""
    if "list_order" not in (case.facts or {}):
        return None
    rows = case.rows("list_order")
    out = rows["impressions"].where(rows["score_rank"] != rows["place"], 0)
    return compare_shares(rows.assign(out=out), "out", "impressions")


def _estimate_order_gain(rows: pd.DataFrame) -> Estimate:
    """Return the change of clicks if lists were in the order of scores."""
    grids = np.zeros((2, CLUSTERS, _DEEPEST, _DEEPEST))
    cell = rows["cluster"], rows["score_rank"] - 1, rows["place"] - 1
    grids[(slice(None), *cell)] = rows[["impressions", "clicks"]].to_numpy().T
    # The fit is no sum over clusters, so its error is by the jackknife.
    total = grids.sum(axis=1, keepdims=True)
    gains = _fit_order_gains(*np.concatenate([total, total - grids], axis=1))
    left_out = gains[1:]
    return clusters.estimate_from_influences(
        float(gains[0]), (left_out - left_out.mean()) * (1 - 1 / CLUSTERS)
    )


def _fit_order_gains(impressions: Floats, clicks: Floats) -> Floats:
    """Return the relative gain of clicks of each grid, fitted by turns."""

    # The click rate of a row is a number of its rank times one of its place (Craswell et al.
    # 2008).
    def divide(above: Floats, below: Floats) -> Floats:
        return np.divide(above, below, out=np.zeros_like(above), where=below > 0)

    place_factors = np.ones_like(impressions[:, 0])
    for _ in range(_STEPS):
        ranks = divide(clicks.sum(axis=2), np.einsum("grp,gp->gr", impressions, place_factors))
        place_factors = divide(clicks.sum(axis=1), np.einsum("grp,gr->gp", impressions, ranks))
    expected = (impressions.sum(axis=2) * ranks * place_factors).sum(axis=1)
    gain: Floats = expected / clicks.sum(axis=(1, 2)) - 1
    return gain


def check_cannibalised(case: CauseContext, taken: float) -> Finding | None:
    """Compare clicks where the treatment acts, elsewhere, and in all."""
    rows = case.rows("treated").assign(all=lambda r: r["here"] + r["elsewhere"])
    per_unit, per_row = (
        _estimate_click_changes(rows, "units"),
        _estimate_click_changes(rows, "impressions"),
    )
    if not per_unit or not per_row:
        return None
    rows_per_unit = compare_shares(rows, "impressions", "units")
    moved = rows_per_unit is not None and clusters.compute_p_value(rows_per_unit.more) <= case.alpha
    # Where the variants differ in rows per unit, a rate per row hides clicks that moved.
    here, elsewhere, together = per_unit if moved else per_row
    # A gain and a loss both have to differ from zero, so the larger p-value counts.
    both = max(clusters.compute_p_value(here), clusters.compute_p_value(elsewhere))
    lift = None if case.online is None else case.online.lift
    return Finding(
        exceeds=here.value > 0 and -elsewhere.value / here.value > taken,
        message=f"Cannibalised: clicks change by {here.value:+.1%} of all clicks where the "
        f"treatment acts, by {elsewhere.value:+.1%} elsewhere, and by "
        f"{together.value:+.1%} together.",
        evidence=tuple(
            case.number(f"change {where}", change, per)
            for per, changes in (("per impression", per_row), ("per unit", per_unit))
            for where, change in zip(_WHERE, changes, strict=True)
        ),
        p_value=both if here.value > 0 > elsewhere.value else 1.0,
        accounts_for=None if lift is None else case.closed_online(lift, here.value),
    )


_WHERE = ("where the treatment acts", "elsewhere", "of all clicks together")


def _estimate_click_changes(rows: pd.DataFrame, per: str) -> list[Estimate]:
    """Return changes of clicks here, elsewhere and in all.

    They are the variant's minus control's, as shares of control's clicks in all.
    There are none without clicks of control on both sides.
    """
    here, elsewhere, together = (
        compare_shares(rows, column, per) for column in ("here", "elsewhere", "all")
    )
    if here is None or elsewhere is None or together is None:
        return []
    if not here.control.value or not elsewhere.control.value:
        return []
    base = together.control.value
    return [
        more._replace(value=more.value / base, variance=more.variance / base**2)
        for _, _, more in (here, elsewhere, together)
    ]
