"""Gaps, shares and shifted rhythms of `faults` against plain loops."""

from __future__ import annotations

import math
from statistics import median

import numpy as np
import pytest
from scipy import stats

from abeval.stats import faults
from abeval.stats.effects import satterthwaite
from abeval.stats.faults import Hours, Rhythm, Sums
from tests.stats.rhythm import rhythm_of, sums

CLUSTERS = 64
Ratio = float | None


def error_of(y: np.ndarray, x: np.ndarray) -> float:
    """Of a ratio, by what is left of each cluster."""
    left = y - y.sum() / x.sum() * x
    return float(math.sqrt(len(y) / (len(y) - 1) * (left @ left)) / x.sum())


def middle(ratios: list[Ratio], day: list[Ratio]) -> Ratio:
    """The median of the hours on a side, or of the day at that end of the log."""
    for some in (ratios, day):
        known = [one for one in some if one is not None]
        if len(known) >= 6:
            return median(known)
    return None


def units_of(active: float, clusters: int = CLUSTERS) -> float:
    """As many units as leave so many clusters without any."""
    return -clusters * math.log(max(clusters - active, 0.5) / clusters)


def surely_low(first: float, expected: float, kept: float, hours: int) -> bool:
    """The likelihood ratio of two Poisson counts."""
    second = first * expected * kept
    both = (first + second) / (1 + expected)
    logs = first * math.log(first / both) if first else 0.0
    logs += second * math.log(second / (both * expected)) if second else 0.0
    return math.sqrt(max(2 * logs, 0.0)) > stats.norm.isf(1e-6 / hours / 2)


def plain_gaps(control: Hours, treatment: Hours) -> list[int]:
    ratios = [
        t / c if c > 0 else None
        for c, t in zip(control.rows.tolist(), treatment.rows.tolist(), strict=True)
    ]
    hours = sum(one is not None for one in ratios)
    missing: list[int] = []
    for _ in range(2):
        known = [None if h in missing else one for h, one in enumerate(ratios)]
        missing = []
        for h, ratio in enumerate(ratios):
            around = [
                middle(known[max(h - 72, 0) : h], known[:24]),
                middle(known[h + 1 : h + 73], known[-24:]),
            ]
            levels = [one for one in around if one is not None]
            if ratio is None or not levels or min(levels) == 0:
                continue
            kept = ratio / min(levels)
            units, others = units_of(control.active[h]), units_of(treatment.active[h])
            # Rows come together unless nearly no unit came.
            counted = units if others <= 0.1 * units * min(levels) else units / 2
            if kept <= 0.5 and surely_low(counted, min(levels), kept, hours):
                missing.append(h)
    return missing


@pytest.mark.parametrize("seed", range(12))
def test_gaps_are_those_of_a_loop_over_the_hours(seed: int) -> None:
    rng = np.random.default_rng(seed)
    hours = 260
    rows = rng.choice([0.0, 3.0, 40.0, 200.0], hours, p=[0.05, 0.05, 0.3, 0.6])
    active = rng.integers(0, CLUSTERS + 1, hours).astype(float)
    active[rng.random(hours) < 0.5] = CLUSTERS
    # The level falls for good near the end, and hours are low, nearly empty or empty.
    level = np.where(np.arange(hours) < hours - rng.integers(30, 60), 1.0, 0.4)
    kept = rng.choice([1.0, 0.9, 0.55, 0.5, 0.45, 0.15, 0.1, 0.0], hours, p=[0.65, *[0.05] * 7])
    if seed % 2:
        kept = kept * rng.uniform(0.9, 1.1, hours)
    come = np.where(rng.random(hours) < 0.7, np.round(active * kept), active)
    control, treatment = Hours(rows, active), Hours(rows * level * kept, come)
    result = faults.list_gap_hours(control, treatment, CLUSTERS)
    assert result == plain_gaps(control, treatment)
    assert len(result) > 5


def steady(hours: int, at: int, kept: float, active: float) -> tuple[Hours, Hours]:
    """As many rows in every hour of both, but for one; so many clusters are active in it."""
    rows, clusters = np.full(hours, 200.0), np.full(hours, 64.0)
    clusters[at] = active
    fewer, come = rows.copy(), clusters.copy()
    fewer[at] *= kept
    # Of nearly no rows there is hardly a unit.
    come[at] *= kept if kept <= 0.1 else 1.0
    return Hours(rows, clusters), Hours(fewer, come)


@pytest.mark.parametrize("kept", [0.0, 0.02, 0.1, 0.11, 0.3, 0.5])
def test_how_many_units_must_be_missed_depends_on_how_few_rows_are_left(kept: float) -> None:
    flagged = []
    for active in (*range(80), *range(80, 513, 12)):
        pair = steady(100, 50, kept, active)
        flagged.append(faults.list_gap_hours(*pair, 512) == [50])
        units, others = (units_of(hours.active[50], 512) for hours in pair)
        counted = units if others <= 0.1 * units else units / 2
        assert flagged[-1] == surely_low(counted, 1.0, kept, 100)
    assert any(flagged)
    assert not all(flagged)


def test_an_hour_of_half_the_rows_is_a_gap_one_of_a_little_more_is_not() -> None:
    assert faults.list_gap_hours(*steady(100, 50, 0.5, 512), 512) == [50]
    assert faults.list_gap_hours(*steady(100, 50, 0.505, 512), 512) == []


def test_six_hours_around_are_enough_five_are_not() -> None:
    for at in (0, 6):
        assert faults.list_gap_hours(*steady(7, at, 0.0, CLUSTERS), CLUSTERS) == [at]
    for at in (0, 5):
        assert faults.list_gap_hours(*steady(6, at, 0.0, CLUSTERS), CLUSTERS) == []


@pytest.mark.parametrize(
    ("before", "last", "missing"),
    [
        # The middle of seven is 1, of eight with as many of either it is .9.
        ([1.0] * 4 + [0.8] * 3, 0.48, True),
        ([1.0] * 3 + [0.8] * 4, 0.48, False),
        ([1.0] * 4 + [0.8] * 4, 0.45, True),
        ([1.0] * 4 + [0.8] * 4, 0.455, False),
    ],
)
def test_an_hour_is_compared_with_the_median_of_those_before(
    before: list[float], last: float, missing: bool
) -> None:
    levels = [*before, last, *[2.0] * 8]
    rows, active = np.full(len(levels), 200.0), np.full(len(levels), 512.0)
    result = faults.list_gap_hours(Hours(rows, active), Hours(rows * levels, active), 512)
    assert [hour for hour in result if hour >= len(before)] == ([len(before)] if missing else [])


@pytest.mark.parametrize("level", [0.05, 0.2, 20.0])
@pytest.mark.parametrize("stage", [slice(0, 24), slice(-24, None)])
def test_a_level_of_the_first_or_the_last_day_is_no_gap(stage: slice, level: float) -> None:
    """Before a log begins, and after it ends, nobody knows the split; a lost part of a day is."""
    levels = np.ones(168)
    levels[stage] = level
    rows, active = np.full(168, 200.0), np.full(168, 512.0)
    control, treatment = Hours(rows, active), Hours(rows * levels, active)
    assert (
        faults.list_gap_hours(control, treatment, 512)
        == faults.list_gap_hours(treatment, control, 512)
        == []
    )
    lost = np.ones(168)
    lost[stage.start : stage.start + 10 or None] = 0.0
    first = stage.start % 168
    without = Hours(rows * lost, active * lost)
    assert faults.list_gap_hours(control, without, 512) == [*range(first, first + 10)]


def test_hours_are_compared_with_the_split_that_is_planned_for_them() -> None:
    """A day of 10 % between days of 50 % is a stage if it was planned, with a gap in it or not."""
    rows, active, split = np.full(168, 200.0), np.full(168, 512.0), np.ones(168)
    split[72:96] = 1 / 9
    control, treatment = Hours(rows, active), Hours(rows * split, active)
    assert faults.list_gap_hours(control, treatment, 512) == [*range(72, 96)]
    assert faults.list_gap_hours(control, treatment, 512, split) == []
    treatment.rows[80:83] = 0.0
    assert faults.list_gap_hours(control, treatment, 512, split) == [80, 81, 82]
    # Where the plan has nobody, nobody is missing.
    treatment.rows[72:96] = split[72:96] = 0.0
    assert faults.list_gap_hours(control, treatment, 512, split) == []


def test_few_rows_are_rows() -> None:
    control, treatment = (Hours(one.rows / 200, one.active) for one in steady(99, 40, 0.0, 64.0))
    assert faults.list_gap_hours(control, treatment, CLUSTERS) == [40]
    # As many more in the treatment are its level, and two in place of ten are a gap.
    more = Hours(np.where(np.arange(99) == 40, 2.0, 10.0), control.active)
    assert faults.list_gap_hours(control, more, CLUSTERS) == [40]


def test_machines_of_one_variant_are_no_gap_of_the_other() -> None:
    """An hour in which four units of control have most rows; both have as many units."""
    rng = np.random.default_rng(7)
    people = rng.poisson(4, (2, 99, CLUSTERS)).astype(float)
    machines = people.copy()
    machines[0, 40, :4] += 250
    for rows, is_even in ((people, True), (machines, False)):
        control, treatment = (
            Hours(
                own.sum(axis=1),
                np.full(99, 60.0),
                np.array([faults.count_even_units(sums(hour, hour), CLUSTERS) for hour in own]),
            )
            for own in rows
        )
        assert (control.even[40] > 50) == is_even
        assert faults.list_gap_hours(control, treatment, CLUSTERS) == []
        # Rows alone would make it a gap, and without units it is.
        assert (
            faults.list_gap_hours(control._replace(even=np.inf), treatment, CLUSTERS) == [40]
        ) != is_even
        lost = np.where(np.arange(99) == 40, 0.0, 1.0)
        empty = treatment._replace(rows=treatment.rows * lost, active=treatment.active * lost)
        assert faults.list_gap_hours(control, empty, CLUSTERS) == [40]


@pytest.mark.parametrize("cells", [1, 40])
def test_a_sure_difference_is_the_near_end_of_an_interval(cells: int) -> None:
    rng = np.random.default_rng(3)
    x = [rng.poisson(300, n) for n in (60, 40)]
    y = [rng.binomial(x[0], 0.05), rng.binomial(x[1], 0.2)]
    shares = [one.sum() / rows.sum() for one, rows in zip(y, x, strict=True)]
    errors = [error_of(one, rows) for one, rows in zip(y, x, strict=True)]
    df = satterthwaite([e**2 for e in errors], [59, 39])
    wanted = shares[1] - shares[0] - stats.t.isf(1e-6 / cells / 2, df) * math.hypot(*errors)
    arms = sums(y[0], x[0]), sums(y[1], x[1])
    result = faults.compare_shares(*arms, cells)
    assert result is not None
    assert result == pytest.approx((*shares, wanted))
    turned = faults.compare_shares(*arms[::-1], cells)
    assert turned is not None
    assert turned.sure == pytest.approx(wanted)
    if cells == 1:
        assert faults.compare_shares(*arms) == result


def test_a_much_smaller_group_has_at_least_the_error_that_the_other_would_have() -> None:
    rng = np.random.default_rng(4)
    x = np.full(50, 100)
    many = sums(rng.binomial(x, 0.1), x)
    error = faults.share(many).error  # type: ignore[union-attr]
    for rows, raised in ((2499, True), (2500, False)):
        few = Sums(25, 0, rows, 0, 0, rows * 100)
        first, second = faults.estimate_shares(many, few)  # type: ignore[misc]
        assert (first.error, first.df) == (error, 49)
        wanted = (error * math.sqrt(5000 / rows), 49) if raised else (0.0, 24)
        assert (second.error, second.df) == pytest.approx(wanted)
        mirrored = faults.estimate_shares(few, many)
        assert mirrored == (second, first)
    # A larger error of its own stays.
    uneven = sums(np.array([40, 0, 0]), np.array([40, 40, 40]))
    own = faults.estimate_shares(many, uneven)
    assert own is not None
    assert own[1] == faults.share(uneven)


def test_two_clusters_and_one_row_make_a_share() -> None:
    assert faults.share(Sums(2, 1, 1, 1, 1, 1)) is not None
    assert faults.share(Sums(1, 1, 1, 1, 1, 1)) is None
    assert faults.share(Sums(2, 0, 0, 0, 0, 0)) is None


def rhythms(
    rng: np.random.Generator, mixed: float, hours: int, rows: int
) -> tuple[Rhythm, Rhythm, list[np.ndarray], list[np.ndarray]]:
    """A rhythm, and one that is partly it some hours later and partly another."""
    hour = np.arange(24)
    one = 1.1 + 0.8 * np.sin(hour / 24 * 2 * np.pi) + 0.3 * np.cos(hour / 12 * 2 * np.pi)
    other = 1 + 0.8 * np.cos(hour / 8 * 2 * np.pi)
    arms, counts = [], []
    for weights in (one, (1 - mixed) * np.roll(one, hours) + mixed * other):
        drawn = rng.multinomial(rows, weights / weights.sum(), CLUSTERS)
        arms.append(rhythm_of(drawn))
        counts.append([drawn[:, h] for h in range(24)])
    return arms[0], arms[1], counts[0], counts[1]


@pytest.mark.parametrize(
    ("hours", "rows"), [(3, 60), (12, 60), (13, 60), (12, 2000), (13, 2000), (23, 2000)]
)
def test_a_shift_is_one_that_leaves_a_quarter_of_the_distance_at_most(
    hours: int, rows: int
) -> None:
    rng = np.random.default_rng(hours)
    alike = []
    for mixed in np.linspace(0, 0.9, 25):
        control, treatment, first, second = rhythms(rng, mixed, hours, rows)
        whole = [sum(one) for one in (first, second)]
        shares = [
            np.array([h.sum() / whole[i].sum() for h in arm])  # type: ignore[union-attr]
            for i, arm in enumerate((first, second))
        ]
        errors = [
            [error_of(h, whole[i]) for h in arm]  # type: ignore[arg-type]
            for i, arm in enumerate((first, second))
        ]
        noise = float((np.array(errors) ** 2).sum())
        distances = [
            sum((shares[1][(h + moved) % 24] - shares[0][h]) ** 2 for h in range(24))
            for moved in range(24)
        ]
        best = int(np.argmin(distances))
        result = faults.shift(control, treatment)
        plain, surely = distances[0] > 3 * noise, is_turned(control, treatment)
        part = 0.25 * (distances[0] - noise)
        if not (plain and surely) or max(0.0, distances[best] - noise) > part or best == 0:
            alike.append(False)
            assert result == (0, 1.0, True)
        else:
            alike.append(True)
            assert result.hours == (best if best <= 12 else best - 24)
            assert result.left == pytest.approx(distances[best] / distances[0])
    assert any(alike)
    assert not all(alike)


def is_turned(control: Rhythm, treatment: Rhythm, cells: int = 1) -> bool:
    """Whether the cosine or the sine of the hour differs by more than chance makes them differ."""
    pairs = zip(control.turns, treatment.turns, strict=True)
    shares = [[faults.share(one) for one in pair] for pair in pairs]
    return any(
        abs(first.value - second.value)
        > stats.t.isf(
            1e-6 / (2 * cells) / 2,
            satterthwaite([first.error**2, second.error**2], [63, 63]),
        )
        * math.hypot(first.error, second.error)
        for first, second in shares  # type: ignore[misc]
    )


def test_only_a_mean_hour_that_differs_for_sure_is_a_shift() -> None:
    rng = np.random.default_rng(8)
    surely = []
    for rows in range(1, 24):
        control, treatment, *_ = rhythms(rng, 0.0, 3, rows)
        surely.append(is_turned(control, treatment, 50))
        assert (faults.shift(control, treatment, 50).hours != 0) <= surely[-1]
    assert any(surely)
    assert not all(surely)
    assert faults.shift(control, treatment, 50).hours != 0


def test_a_rhythm_with_an_hour_of_nothing_is_not_compared() -> None:
    rng = np.random.default_rng(9)
    control, treatment, *_ = rhythms(rng, 0.0, 6, 2000)
    assert faults.shift(control, treatment).hours == 6
    nobody = treatment._replace(hours=[Sums(1, 0, 0, 0, 0, 0), *treatment.hours[1:]])
    assert faults.shift(control, nobody).hours == 0


def test_one_row_is_of_one_unit_and_a_row_in_every_cluster_of_any_number() -> None:
    assert faults.count_even_units(Sums(1, 1, 1, 1, 1, 1), CLUSTERS) == 1 / (1 - 1 / CLUSTERS)
    all_alike = Sums(CLUSTERS, CLUSTERS, CLUSTERS, CLUSTERS, CLUSTERS, CLUSTERS)
    assert faults.count_even_units(all_alike, CLUSTERS) == np.inf
