"""Estimate the lifts between promise and outcome, and find faults, from the logs."""

import numpy as np
import pandas as pd
from scipy.special import bdtr, chdtrc, ndtri, stdtr

from abeval.agreement.levels import PARTS, Faults, Levels, Ranks, Sums, jackknife_levels
from abeval.agreement.selection import BINS, Chances, examine
from abeval.engines.sql import Engine, query
from abeval.stats.multiplicity import adjust
from abeval.stats.records import Bools, Floats
from abeval.stats.resampling import jackknife_se

_LEAST_CLICKS = 400
"""Clicks of a variant on ranked rows, below which ranks of scores are noise."""

_LEAST_ORDER = 0.3
"""By how much the chance to be shown rises from control's lowest score to its highest."""

# Of an item with fewer expected rows, or a category with fewer clicks, the ratio is noise.
_LEAST_ROWS = 30
_LEAST_EXPECTED = 200
_LEAST_LOST = 0.1
_HARDLY = 0.2
"""An item with a smaller ratio is lacked; also in `queries/agreement/ranked_cells.sql`."""

_USUAL_SPREAD = 0.05
"""Variance of log ratios of items that ranks of scores, not supply, may cause."""

_ANSWERED = ("clicks", "expected", "variance")
_SURE_LABELS = 3e-3
"""Level at which any category lost clicks: what Holm over some fifteen causes leaves of 5 %."""

_DOUBT = 0.05
"""Share of false ones among the categories that lost clicks, where some surely did."""

_NAMED = 3
_NO_SUPPLIES = "select cast(null as varchar) as item, 1e0 as ratio where 1 = 0"
_NO_RESPONSES = "select cast(null as varchar) as category, 1e0 as factor where 1 = 0"


def estimate_levels(engine: Engine) -> Levels | str:
    """Estimate all levels from `agreement_served`.

    Return words where they cannot be known.
    """
    engine.table("agreement_ranked", query("agreement/ranked_rows"))
    _set_examination(engine, engine.frame(query("agreement/examined")))
    # The queries join both, so they must be there before a fault is known.
    engine.table("supplies", _NO_SUPPLIES)
    engine.table("responses", _NO_RESPONSES)
    sides = _read_sides(engine)
    parts, unlearned = _read_ranks(engine, sides)
    for rows, where in ((parts, "with both scores"), (unlearned, "that no model learned from")):
        clicks = min(float(sums["clicks"].sum()) for sums in (rows.control, rows.variant))
        if clicks < _LEAST_CLICKS:
            return f"a variant has {clicks:,.0f} clicks on rows {where}, not {_LEAST_CLICKS}"
    chances = unlearned.add_parts().fit()
    # Lists that follow no score do not tell what another order would have shown.
    if chances.control[-1] - chances.control[0] < _LEAST_ORDER:
        return "the lists of control are not in the order of the scores of its model"
    labels = _compare_labels(engine, engine.frame(query("agreement/answered")))
    supply = _compare_supply(engine, chances)
    if supply.is_sure or labels.share:
        # Rows weigh otherwise now.
        parts, unlearned = _read_ranks(engine, sides)
        chances = unlearned.add_parts().fit()
    return jackknife_levels(parts, unlearned, chances, supply, labels)


def _set_examination(engine: Engine, rows: pd.DataFrame) -> None:
    """Make `examination` (`position`, `seen`): how often each position is seen."""
    positions = np.sort(rows["position"].unique())
    seen = np.ones(len(positions))
    if len(positions) > 1:
        cells, cell = np.unique(BINS * rows["b"] + rows["c"], return_inverse=True)
        index = np.searchsorted(positions, rows["position"])
        impressions, clicks = np.zeros((2, len(cells), len(positions)))
        impressions[cell, index], clicks[cell, index] = rows["impressions"], rows["clicks"]
        # Few clicks can make a position look unseen, and rows weigh one over how often it is.
        seen = np.clip(examine(impressions, clicks), 0.01, 10.0)
    engine.add_arrays("examination", {"position": positions.astype(np.int64), "seen": seen})


def _read_sides(engine: Engine) -> Floats:
    """Read sums by part, side (control first) and column of `acted`."""
    rows = engine.frame(query("agreement/acted"))
    sides = np.zeros((PARTS, 2, 3))
    side = (rows["side"] == "variant").to_numpy(dtype=np.int64)
    columns = rows[["impressions", "clicks", "here"]].to_numpy(dtype=np.float64)
    sides[rows["part"].to_numpy(dtype=np.int64), side] = columns
    return sides


def _read_ranks(engine: Engine, sides: Floats) -> tuple[Ranks, Ranks]:
    """Read the sums of both variants by ranks of scores.

    The first sums are of all rows, the second of the rows that no model learned from. Control's are
    by (part, b, c), the variant's by (part, b, c, s).
    """
    rows = engine.frame(query("agreement/ranked_cells"))
    every = _add_cells(rows, sides)
    has_learned = rows["learned"].any()
    return every, _add_cells(rows[rows["learned"] == 0], sides) if has_learned else every


def _add_cells(rows: pd.DataFrame, sides: Floats) -> Ranks:
    """Add up rows of `ranked_cells` by part and ranks."""
    axes = ["part", "b", "c", "s"]
    names = rows.columns.difference(["side", "learned", *axes])
    both = list[Sums]()
    for side, kept in (("control", axes[:3]), ("variant", axes)):
        cells = rows[rows["side"] == side]
        where = tuple(cells[axis].to_numpy(dtype=np.int64) for axis in kept)
        sums = {name: np.zeros((PARTS, *(BINS,) * (len(kept) - 1))) for name in names}
        for name in names:
            np.add.at(sums[name], where, cells[name].to_numpy(dtype=np.float64))
        both.append(sums)
    return Ranks(both[0], both[1], sides)


def _compare_supply(engine: Engine, chances: Chances) -> Faults:
    """Compare the items of both variants among rows of like scores; make `supplies`."""
    b, s = np.divmod(np.arange(BINS * BINS), BINS)
    weights = chances.control[b] / chances.variant[s]
    engine.add_arrays("balance", {"b": b, "s": s, "weight": weights})
    # Sums of floating point depend on the order of the rows: the same log gives the same digits.
    rows = engine.frame(query("agreement/supplied")).sort_values("item", ignore_index=True)
    rows = rows[rows["expected"] > 0]
    # An item that is never shown counts as half a row, because zero has no logarithm.
    shown, expected = np.maximum(rows["shown"], 0.5), rows["expected"]
    # By the delta method: the variance of a logarithm is that of the sum over its square.
    variance = rows["squared"] / shown**2 + rows["expected_squared"] / expected**2
    rows = rows.assign(log_ratio=np.log(shown / expected), variance=variance)
    counted = rows[rows["expected"] >= _LEAST_ROWS]
    if len(counted) < 2:
        return Faults()
    # What items differ by beyond noise, by moments; its mean may fall below zero.
    spread = float((counted["log_ratio"] ** 2 - counted["variance"]).mean())
    apart = float((counted["log_ratio"] ** 2 / (counted["variance"] + _USUAL_SPREAD)).sum())
    # Noisy ratios shrink towards one, as in empirical Bayes.
    trust = max(spread, 0.0) / (max(spread, 0.0) + rows["variance"])
    ratio = np.exp(trust * rows["log_ratio"])
    # What the variant lacks is shared out among the other items, which look too frequent.
    has = ratio >= _HARDLY
    if has.any():
        ratio = np.where(has, ratio * rows["expected"][has].sum() / rows["shown"][has].sum(), ratio)
    less = np.maximum(rows["expected"] * (1 - ratio), 0.0)
    lacking = less.groupby(rows["category"]).sum().sort_values(ascending=False, kind="stable")
    where = tuple(str(name) for name in lacking.index[:_NAMED])
    share = float(less.sum() / rows["expected"].sum())
    faults = Faults(share, float(chdtrc(len(counted), apart)), where)
    # Doubtful ratios would only add noise to the weights of rows.
    if faults.is_sure:
        supplies = {"item": rows["item"].to_numpy(dtype=object), "ratio": np.asarray(ratio)}
        engine.add_arrays("supplies", supplies)
    return faults


def _compare_labels(engine: Engine, rows: pd.DataFrame) -> Faults:
    """Compare clicks of the variant by category with those of control's like rows.

    Makes `responses`.
    """
    if rows.empty:
        return Faults()
    sums = rows.pivot_table(index="category", columns="part", values=[*_ANSWERED])
    names = np.asarray(sums.index)
    clicks, expected, variance = (
        sums[name].fillna(0.0).to_numpy(dtype=np.float64) for name in _ANSWERED
    )
    counted = expected.sum(axis=1) >= _LEAST_EXPECTED
    if counted.sum() < 2:
        return Faults()
    names, clicks, expected = names[counted], clicks[counted], expected[counted]
    # Control's clicks are a sample as well, by as much as they vary against the variant's.
    inflation = np.sqrt(1 + variance[counted].sum(axis=1) / expected.sum(axis=1))
    ratios = clicks.sum(axis=1) / expected.sum(axis=1)
    # Up to half of the categories may have lost some: those of the upper half are the usual ones.
    upper = ratios >= np.median(ratios)
    usual = float(clicks[upper].sum() / expected[upper].sum())
    p_value = _join_tests(_test_excess(clicks, (1 - _LEAST_LOST) * usual * expected, inflation))
    if p_value >= _SURE_LABELS:
        return Faults(0.0, p_value)
    lost = _find_lost(clicks, expected, inflation, usual)
    if not lost.any():
        return Faults(0.0, p_value)
    usual = float(clicks[~lost].sum() / expected[~lost].sum())
    factors = {"category": names[lost].astype(object), "factor": usual / ratios[lost]}
    engine.add_arrays("responses", factors)
    # Lost and usual categories are of the same units, so a part is left out of both. Which they are
    # is not asked again, so the error is that of the size of these.
    error = jackknife_se(_leave_out(clicks, expected, lost) / _leave_out(clicks, expected, ~lost))
    share = 1 - float(clicks[lost].sum() / expected[lost].sum()) / usual
    where = tuple(str(name) for name in names[lost][np.argsort(ratios[lost])])
    return Faults(share, p_value, where, error * float(inflation[lost].mean()))


def _find_lost(clicks: Floats, expected: Floats, inflation: Floats, usual: float) -> Bools:
    """Find the categories that lost clicks, shape (categories,).

    The caller is already sure that some categories lost clicks. Each category is asked at the usual
    level: to leave out those in doubt would size the loss too small.
    """
    # Noise alone lifts the upper half, that of normal numbers by sqrt(2 / pi) errors: compared with
    # it, categories that lost nothing would be named.
    ratios = clicks.sum(axis=1) / expected.sum(axis=1)
    noise = float((inflation * np.sqrt(clicks.sum(axis=1))).sum() / expected.sum())
    usual = max(float(np.median(ratios)), usual - np.sqrt(2 / np.pi) * noise)
    tests = _test_excess(clicks, usual * expected, inflation)
    is_below = ratios < (1 - _LEAST_LOST) * usual
    return adjust(np.where(is_below, tests, 1.0), "bh") < _DOUBT


def _test_excess(clicks: Floats, expected: Floats, inflation: Floats) -> Floats:
    """Return one-sided p-values of fewer clicks than expected, shape (categories,).

    Parts of the units, on the last axis, are independent: a t-test of each category, whose
    standard error is larger by `inflation`.
    """
    excess = clicks - expected
    count = excess.shape[1]
    error = inflation * np.sqrt(count) * excess.std(axis=1, ddof=1)
    p_values: Floats = stdtr(count - 1, excess.sum(axis=1) / np.maximum(error, 1e-12))
    return p_values


def _join_tests(tests: Floats) -> float:
    """Join several nearly independent one-sided tests into one p-value.

    The null hypothesis is that no category lost clicks. One category may have lost much, or several
    some: by Bonferroni over the smaller of two.
    """
    count = len(tests)
    below = np.minimum(ndtri(np.clip(tests, 1e-300, 1.0)), 0.0)
    # Squares of normal scores below zero are chi-bar-squared (Silvapulle and Sen 2005).
    k = np.arange(1, count + 1)
    weights = np.diff(bdtr(np.arange(count + 1), count, 0.5))
    several = float((weights * chdtrc(k, (below**2).sum())).sum())
    return min(1.0, 2 * min(several, count * float(tests.min())))


def _leave_out(clicks: Floats, expected: Floats, rows: Bools) -> Floats:
    """Return clicks over expected ones, without each part of the units.

    They are those of some categories, together.
    """
    clicked, due = clicks[rows].sum(axis=0), expected[rows].sum(axis=0)
    ratio: Floats = (clicked.sum() - clicked) / (due.sum() - due)
    return ratio
