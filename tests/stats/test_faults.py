"""Faults of a log have a sharp shape; effects and chance have not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from abeval.stats import faults, influence, means
from abeval.stats.faults import SURE, Hours, Rhythm, Sums, UnitSums, differs
from abeval.stats.moments import Moments
from tests.stats.rhythm import rhythm_of, sums

CLUSTERS = 64


def test_a_share_has_the_variance_of_the_delta_method() -> None:
    random = np.random.default_rng(1)
    x = random.poisson(40, 500)
    y = random.binomial(x, 0.1)
    mine, theirs = faults.share(sums(y, x)), means.estimate_ratio(Moments.of(y, x))
    assert mine is not None
    assert mine.value == pytest.approx(theirs.value, rel=1e-12)
    assert mine.error**2 == pytest.approx(theirs.variance, rel=1e-9)


def test_nothing_is_sure_where_there_is_nothing() -> None:
    some = sums(np.array([1, 2]), np.array([5, 5]))
    assert faults.compare_shares(Sums(0, 0, 0, 0, 0, 0), some) is None
    assert faults.compare_shares(Sums(1, 1, 9, 1, 9, 81), some) is None


def test_a_sure_difference_is_not_more_than_the_true_one() -> None:
    """Rows of a unit are alike, so rows as clusters would be far too sure."""
    random = np.random.default_rng(2)
    sure = []
    for _ in range(400):
        pair = []
        for rate in (0.02, 0.05):
            x = random.poisson(300, CLUSTERS)
            y = random.binomial(x // 20, rate) * 20
            pair.append(sums(y, np.maximum(x, y)))
        found = faults.compare_shares(*pair)
        assert found is not None
        sure.append(found.sure)
    assert max(sure) < 0.03
    same = [
        faults.compare_shares(pair[0], sums(y, np.maximum(x, y))) for pair in [pair, pair[::-1]]
    ]
    assert all(one is not None for one in same)


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    ("control", "treatment"), [(30, 30), (30, 300), (100, 900), (1_500, 1_500), (9_900, 100)]
)
def test_the_chance_that_units_of_two_groups_are_called_different_is_as_stated(
    control: int, treatment: int
) -> None:
    """Every way in which so many affected units may fall into two groups, with its chance."""
    every, errors = control + treatment, []
    for affected in {*range(1, 40), *np.linspace(40, every - 1, 40).astype(int).tolist()}:
        falls = range(max(0, affected - control), min(affected, treatment) + 1)
        chances = stats.hypergeom.pmf(falls, every, affected, treatment)
        errors.append(
            sum(
                chance
                for n, chance in zip(falls, chances.tolist(), strict=True)
                if 1e-15 < chance < 1e-3
                and differs(
                    UnitSums(control, affected - n, affected - n), UnitSums(treatment, n, n)
                )
            )
        )
    assert 0 < max(errors) < 1.5 * SURE


def test_a_unit_that_makes_most_rows_decides_nothing() -> None:
    """By rows one user with nine of ten of a group's rows, in each, is a sure difference."""
    random = np.random.default_rng(3)
    rows = random.integers(1, 5, (2, 200))
    rows[:, 0] = 9 * rows[1].sum()
    affected = random.random((2, 200)) < 0.2
    affected[:, 0] = (False, True)
    by_rows = faults.compare_shares(*(sums(x * y, x) for x, y in zip(rows, affected, strict=True)))
    assert by_rows is not None
    assert by_rows.sure > 0.3
    units = [UnitSums(200, int(own.sum()), int(own.sum())) for own in affected]
    assert not differs(*units)


def test_groups_in_which_nothing_varies_differ_only_where_they_are_large_enough() -> None:
    for units, answer in ((1, False), (5, False), (10, False), (13, True), (30, True)):
        assert differs(UnitSums(units, 0, 0), UnitSums(units, units, units)) is answer
    half = [UnitSums(units, 0.5 * units, 0.25 * units) for units in (5, 30)]
    assert [differs(one, UnitSums(one.units, 0, 0)) for one in half] == [False, True]
    assert not differs(UnitSums(0, 0, 0), half[1])


def timeline(
    rng: np.random.Generator, units: float, hours: int = 240, kept: np.ndarray | float = 1.0
) -> Hours:
    """Units that are active in an hour bring ten rows each, more or less."""
    rhythm = 1 + 0.8 * np.sin(np.arange(hours) / 24 * 2 * np.pi)
    active = rng.poisson(units * rhythm * kept)
    rows = np.array([rng.geometric(0.1, n).sum() for n in active], dtype=float)
    cluster = [len(set(rng.integers(0, CLUSTERS, n))) for n in active]
    return Hours(rows, np.array(cluster, dtype=float))


@pytest.mark.parametrize("units", [3, 30, 300])
def test_chance_an_effect_and_a_changed_split_are_no_gap(units: int) -> None:
    rng = np.random.default_rng(units)
    ramp = np.where(np.arange(240) < 48, 0.2, 1.0)
    for kept in (1.0, 1.3, ramp):
        for _ in range(5):
            control, treatment = timeline(rng, units), timeline(rng, units, kept=kept)
            assert faults.list_gap_hours(control, treatment, CLUSTERS) == []
            assert faults.list_gap_hours(treatment, control, CLUSTERS) == []


@pytest.mark.parametrize(("first", "last"), [(100, 100), (30, 32), (96, 119), (237, 239), (0, 1)])
def test_empty_hours_are_gaps_of_their_variant_alone(first: int, last: int) -> None:
    rng = np.random.default_rng(7)
    kept = np.ones(240)
    kept[first : last + 1] = 0
    control, treatment = timeline(rng, 150), timeline(rng, 150, kept=kept)
    found = faults.list_gap_hours(control, treatment, CLUSTERS)
    # At night few units come, and nobody is missed for sure.
    busy = [h for h in range(first, last + 1) if np.sin(h / 24 * 2 * np.pi) > -0.8]
    assert set(busy) <= set(found) <= set(range(first, last + 1))
    assert faults.list_gap_hours(treatment, control, CLUSTERS) == []


def rhythm(rng: np.random.Generator, rows: int, hours: int = 0, more: float = 0.0) -> Rhythm:
    """Rows by hour of the day; `more` of them come in the evening."""
    hour = np.arange(24)
    weights = 1 + 0.8 * np.sin((hour - 9) / 24 * 2 * np.pi) + more * (hour > 18)
    shares = np.roll(weights / weights.sum(), hours)
    return rhythm_of(rng.multinomial(rows // CLUSTERS, shares, CLUSTERS))


@pytest.mark.parametrize("hours", [-5, 1, 8, 12])
def test_a_shifted_rhythm_is_found_with_its_hours(hours: int) -> None:
    rng = np.random.default_rng(abs(hours))
    found = faults.shift(rhythm(rng, 200_000), rhythm(rng, 200_000, hours))
    assert found.hours == hours
    assert found.left < 0.1
    assert found.exact


def test_a_few_hundred_rows_show_that_a_clock_is_off_and_not_by_how_many_hours() -> None:
    rng, hours = np.random.default_rng(2), []
    for _ in range(20):
        found = faults.shift(rhythm(rng, 700), rhythm(rng, 700, 9))
        hours.append(found.hours)
        assert not found.exact
    assert 7 <= min(hours) < max(hours) <= 11


@pytest.mark.parametrize("more", [0.0, 0.3])
def test_chance_and_more_people_in_the_evening_shift_nothing(more: float) -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        assert faults.shift(rhythm(rng, 200_000), rhythm(rng, 200_000, more=more)).hours == 0


def test_influence_is_what_dropping_the_units_gives() -> None:
    random = np.random.default_rng(5)
    groups, values = [], []
    for outlier in (0.0, 900.0):
        x = random.poisson(20, 300) + 1.0
        y = random.binomial(x.astype(int), 0.2).astype(float)
        y[0] += outlier
        deviation = np.abs(y - y.sum() / x.sum() * x)
        top = np.argsort(-deviation)[:10]
        groups.append(
            influence.Group(y.sum(), x.sum(), [influence.Unit(y[i], x[i]) for i in top.tolist()])
        )
        values.append((y, x, deviation))
    found = influence.find_influence(*groups)
    assert found is not None
    (y0, x0, d0), (y1, x1, d1) = values
    control = y0.sum() / x0.sum()
    treatment = y1.sum() / x1.sum()
    moves = np.concatenate([d0 / x0.sum() * treatment / control**2, d1 / x1.sum() / control])
    out = np.argsort(-moves)[:10]
    left0 = np.delete(np.arange(300), out[out < 300])
    left1 = np.delete(np.arange(300), out[out >= 300] - 300)
    expected = (y1[left1].sum() / x1[left1].sum()) / (y0[left0].sum() / x0[left0].sum()) - 1
    assert found.lift == pytest.approx(treatment / control - 1)
    assert found.lift_without == pytest.approx(expected)
    assert found.treatment == (out >= 300).sum()


def test_no_lift_has_no_influence() -> None:
    nobody = influence.Group(0.0, 10.0, [])
    assert influence.find_influence(nobody, influence.Group(3.0, 10.0, [])) is None
    one = influence.Group(1.0, 10.0, [influence.Unit(1.0, 1.0)])
    assert influence.find_influence(one, influence.Group(3.0, 10.0, [])) is None
