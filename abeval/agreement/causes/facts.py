"""Check causes that are facts of the results."""

import math
from collections.abc import Iterator

import numpy as np
from scipy.special import ndtr

from abeval.agreement import clusters
from abeval.agreement.case import CauseContext, Finding, Unchecked
from abeval.results.agreement import Evidence
from abeval.results.replay import ReplayRow
from abeval.stats.records import Estimate

_ESTIMATOR = "snips"
GAUC = "gauc[impressions]"
_LEAST_CLICKS = 100
"""Days and positions with fewer clicks are not looked at one by one."""
_NANO = 1e-9


def check_trust(case: CauseContext) -> Finding:
    """List the failed checks of the analysis that touch the online metric."""
    online = [] if case.gap is None else [case.gap.online]
    failed = [c for c in case.result.trust if c.status == "fail" and c.touches(online)]
    messages = "; ".join(check.message for check in failed)
    return Finding(
        exceeds=bool(failed),
        message=f"Trust: {messages}." if failed else "Trust: no failed check touches the metric.",
        evidence=tuple(Evidence(f"check {check.name}", check.value) for check in failed),
        remedy=" ".join(dict.fromkeys(check.remedy for check in failed if check.remedy)),
    )


def check_window(case: CauseContext, week: float) -> Finding | None:
    """Count whole days of the log."""
    days = {row.cell for row in case.result.daily if not row.partial}
    if not case.result.daily:
        return None
    message = f"Window: the log has {len(days)} whole days."
    # In less than a week weekdays are not balanced.
    return Finding(len(days) < week, message, (Evidence("whole days", float(len(days))),))


def check_split(case: CauseContext, span: float) -> Finding:
    """Compare the variant's shares of the units that enter, by period.

    Where shares change, days weigh differently in the variants, and models learn from other rows.
    """
    ramps = case.result.ramps
    # Without a ramp there is one share, and nothing to compare it with.
    shares = [ramp.shares.get(case.variant, 0.0) for ramp in ramps] or [0.0]
    return Finding(
        exceeds=max(shares) - min(shares) >= span,
        message=f"Split: the variant had {min(shares):.0%} to {max(shares):.0%} of the units that "
        "entered."
        if len(ramps) > 1
        else "Split: the shares did not change.",
        evidence=tuple(
            Evidence("share of the units that entered", share, where=f"from {ramp.start}")
            for ramp, share in zip(ramps, shares, strict=False)
        ),
    )


def check_backtest(case: CauseContext, least_z: float) -> Finding | Unchecked | None:
    """Compare the variant's estimate from control's log with what it had."""
    estimates = [row for row in case.backtests if row.estimator == _ESTIMATOR]
    forward = next((row for row in estimates if row.target == case.variant), None)
    if forward is None:
        return None
    if forward.z is None:
        message = f"Backtest: the estimate has no z ({forward.reason})"
        return Unchecked(message, ("more clicks of control on the variant's items",))
    return Finding(
        exceeds=abs(forward.z) >= least_z,
        message=f"Backtest: control's log predicts {forward.value:.4g} clicks per impression of "
        f"the variant, which had {forward.realised:.4g} (z = {forward.z:+.2f}).",
        evidence=(
            *(
                Evidence(
                    f"{_ESTIMATOR} of {row.target} from {row.source}", row.value, row.low, row.high
                )
                for row in estimates
            ),
            *(Evidence("z", row.z, where=f"{row.target} from {row.source}") for row in estimates),
        ),
        p_value=float(2 * ndtr(-abs(forward.z))),
    )


def check_eligibility(case: CauseContext, apart: float) -> Finding | None:
    """Compare the shares of units that have a GAUC: both clicks and non-clicks."""
    control, variant = (
        _estimate_eligible_share(case.find_replay_row(GAUC, model, traffic))
        for traffic, model in case.served_models
    )
    if control is None or variant is None:
        return None
    change = clusters.estimate_difference(control, variant)
    # Metrics other than GAUC do not leave out units of one class.
    is_of_gauc = case.gap is None or case.gap.offline.startswith("gauc")
    return Finding(
        exceeds=is_of_gauc and abs(change.value) >= apart,
        message=f"Eligibility: {variant.value:.1%} of the variant's units have both clicks and "
        f"non-clicks, and {control.value:.1%} of control's; GAUC counts these only.",
        evidence=(
            *case.sides("share of units in GAUC", control, variant),
            case.number("difference", change),
        ),
        p_value=clusters.compute_p_value(change),
    )


def _estimate_eligible_share(row: ReplayRow | None) -> Estimate | None:
    """Return the share of a traffic's units that have a GAUC; binomial."""
    out = None if row is None else dict(row.left_out).get("single_class_units")
    if row is None or row.units < 2 or out is None:
        return None
    share = 1 - out / row.units
    return Estimate(share, share * (1 - share) / row.units, row.units, row.units - 1.0)


def check_calibration(case: CauseContext, apart: float) -> Finding | Unchecked | None:
    """Compare how far the served models' Q is from 1, each on its own traffic.

    Q is Σ score / Σ clicks.
    """
    if case.replay is not None and "q_ctr" not in dict(case.replay.definitions):
        return Unchecked("Calibration: q_ctr was not replayed", ("q_ctr in the replay",))
    before, after = (
        case.estimate("q_ctr", model, traffic) for traffic, model in case.served_models
    )
    if before is None or after is None or min(before.value, after.value) <= 0:
        return None
    worse = clusters.estimate_difference(
        _measure_miscalibration(before), _measure_miscalibration(after)
    )
    early = case.estimate("q_ctr", case.candidate, case.control)
    return Finding(
        # Scores that are too high can buy a better AUC (Yi et al. 2013). Scores that are too low
        # are no sign of it: every model has them on lists that another one chose.
        exceeds=after.value > 1 and worse.value >= apart,
        message=f"Calibration: Q (scores over clicks) is {after.value:.3f} for the candidate and "
        f"{before.value:.3f} for the baseline, each on its own traffic.",
        evidence=(
            case.number("Q of the baseline", before, case.control),
            case.number("Q of the candidate", after, case.variant),
            case.number("Q of the candidate", early, case.control),
            case.number("how much further from 1, in logs", worse),
            *_find_furthest(case, "days", "day"),
            *_find_furthest(case, "positions", "position"),
        ),
        # A candidate that is nearer to 1 than the baseline is no sign of it either.
        p_value=clusters.compute_p_value(worse) if worse.value > 0 else 1.0,
    )


def _measure_miscalibration(q: Estimate) -> Estimate:
    """Return |ln Q|, by the delta method."""
    # In logarithms, scores twice too high are as far from 1 as scores twice too low.
    return Estimate(abs(math.log(q.value)), q.variance / q.value**2, q.units, q.df)


def _find_furthest(case: CauseContext, query: str, column: str) -> Iterator[Evidence]:
    """Return the day or position on which each served model is furthest from 1."""
    rows = (case.facts or {}).get(query)
    for variant, model in ((case.control, "baseline"), (case.variant, "candidate")):
        candidates = []
        for cell, cell_rows in (
            () if rows is None else rows[rows["variant"] == variant].groupby(column)
        ):
            clicks = cell_rows[f"{model}_clicks"].fillna(0).to_numpy(dtype=np.float64)
            scores = cell_rows[f"{model}_nanos"].fillna(0).to_numpy(dtype=np.float64) * _NANO
            q = clusters.estimate_cluster_ratio(scores, clicks)
            if q is not None and clicks.sum() >= _LEAST_CLICKS and scores.sum() > 0:
                candidates.append((f"{variant}, {column} {cell}", q))
        if candidates:
            where, q = max(candidates, key=lambda cell: abs(math.log(cell[1].value)))
            yield case.number(f"Q of the {model}, furthest from 1", q, where)
