"""Chances to be shown, what positions are seen, and the value of another order, of known worlds."""

import numpy as np

from abeval.agreement import selection
from abeval.agreement.selection import BINS, RankedCandidates, examine, fit_chances, list_value
from abeval.stats.records import Floats


def draw_lists(
    seed: int, requests: int = 20_000, pool: int = 30, shown: int = 10
) -> tuple[Floats, Floats, float]:
    """Cells of two variants that show the top of two scores of one pool, and their true overlap.

    Returns control's rows by (b, c), the variant's by (b, c, s), and the share of the candidate's
    top that control's lists do not have.
    """
    rng = np.random.default_rng(seed)
    both = rng.normal(size=(requests, pool))
    scores = [both + 0.8 * rng.normal(size=both.shape) for _ in range(2)]
    tops = [np.argsort(-score, axis=1)[:, :shown] for score in scores]
    half = requests // 2
    sides = [(tops[0][:half], slice(0, half)), (tops[1][half:], slice(half, None))]
    rows = [
        [np.take_along_axis(score[part], top, axis=1).ravel() for score in scores]
        for top, part in sides
    ]
    pooled = [np.sort(np.concatenate([rows[0][i], rows[1][i]])) for i in range(2)]
    cells = [
        [np.searchsorted(pooled[i], side[i]) * BINS // (len(pooled[i]) + 1) for i in range(2)]
        for side in rows
    ]
    control = np.zeros((BINS, BINS))
    np.add.at(control, (cells[0][0], cells[0][1]), 1)
    served = np.argsort(np.argsort(rows[1][1])) * BINS // len(rows[1][1])
    variant = np.zeros((BINS, BINS, BINS))
    np.add.at(variant, (cells[1][0], cells[1][1], served), 1)
    missing = 1 - np.mean(
        [np.isin(a, b).mean() for a, b in zip(tops[1][:2000], tops[0][:2000], strict=True)]
    )
    return control, variant, float(missing)


def test_the_share_that_control_does_not_show_is_that_of_the_full_lists() -> None:
    """Of the candidate's lists, what control lacks is known from the pools, which no log has."""
    control, variant, missing = draw_lists(1)
    rows = float(control.sum()), float(variant.sum())
    chances = fit_chances(control, variant, rows)
    lacked = (1 - chances.control) @ variant.sum(axis=(1, 2)) / rows[1]
    assert abs(lacked - missing) < 0.03
    assert 0.2 < missing < 0.6


def test_chances_rise_with_the_score_and_are_chances() -> None:
    control, variant, _ = draw_lists(2)
    chances = fit_chances(control, variant, (float(control.sum()), float(variant.sum())))
    for chance in (chances.control, chances.variant):
        assert (np.diff(chance) >= 0).all()
        assert chance[0] < 0.3 < 0.95 < chance[-1] <= 1


def test_positions_are_seen_as_they_were_where_items_meet_several() -> None:
    rng = np.random.default_rng(3)
    seen = np.arange(1, 6) ** -0.7
    worth = rng.uniform(0.05, 0.4, 30)[:, None]
    shown = rng.integers(2_000, 9_000, (30, 5)).astype(float)
    clicks = rng.binomial(shown.astype(int), worth * seen).astype(float)
    assert np.abs(examine(shown, clicks) - seen).max() < 0.02


def test_a_list_in_the_order_that_was_shown_has_the_clicks_that_it_had() -> None:
    items = np.linspace(0.2, 0.05, BINS)
    views = np.where(np.arange(BINS) >= BINS // 2, items, 0.0)
    worth = np.linspace(0.0, 0.3, BINS)
    value = list_value(RankedCandidates(items, items * worth), RankedCandidates(items, views))
    assert abs(value - float((views * worth).sum())) < 1e-12


def test_a_better_order_of_the_same_items_has_more_clicks() -> None:
    items = np.full(BINS, 0.1)
    seen = RankedCandidates(items, np.where(np.arange(BINS) >= BINS // 2, 0.1, 0.0))
    rising, falling = items * np.linspace(0, 1, BINS), items * np.linspace(1, 0, BINS)
    assert list_value(RankedCandidates(items, rising), seen) > 2 * list_value(
        RankedCandidates(items, falling), seen
    )


def test_a_complex_step_has_the_slopes_of_the_distance() -> None:
    control, variant, _ = draw_lists(4, requests=2_000)
    cells = selection.share_cells(control, variant, (float(control.sum()), float(variant.sum())))
    fit, step = np.array([1.5, -0.6, 1.2, -1.1, 0.03]), 1e-6
    for one in np.eye(fit.size):
        slope = selection.compare_cells(cells, fit + 1e-30j * one).imag / 1e-30
        below, above = (selection.compare_cells(cells, fit + side * one) for side in (-step, step))
        assert np.abs(slope - (above - below) / (2 * step)).max() < 1e-6 * np.abs(slope).max()
