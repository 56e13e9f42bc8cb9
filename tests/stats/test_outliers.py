import math

import duckdb
import numpy as np
import pandas as pd
import pytest
from reference_vectors import vector

from abeval.engines.queries import query
from abeval.stats import means, outliers, ratios
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal


def test_vector_winsorize() -> None:
    v = vector("winsorize")
    values = np.array([*range(1, 100), 1000])
    at = outliers.threshold(values, level=v.inputs["p"])
    assert at == pytest.approx(v.expected["cap"], abs=v.tol)
    capped = Moments.of(outliers.cap(values, at))
    assert capped.mean[0] == pytest.approx(v.expected["mean"], abs=v.tol)
    assert capped.covariance[0, 0] == pytest.approx(v.expected["var"], abs=v.tol)
    r = outliers.mean(values[:50], values[50:], level=v.inputs["p"])
    assert r.capped_control + r.capped_treatment == v.expected["n_capped"]
    assert r.caps == pytest.approx((v.expected["cap"],), abs=v.tol)


def test_both_effects_are_side_by_side() -> None:
    rng = np.random.default_rng(1)
    c, t = rng.lognormal(0, 2, 400), rng.lognormal(0, 2, 300)
    r = outliers.mean(c, t, level=0.95)
    raw = means.welch(Moments.of(c), Moments.of(t))
    assert r.uncapped == raw
    at = np.quantile(np.concatenate([c, t]), 0.95)
    cut = means.welch(Moments.of(np.minimum(c, at)), Moments.of(np.minimum(t, at)))
    assert r.effect == cut
    assert r.effect.se < raw.se
    assert r.capped_control == int(np.sum(c > at))
    assert r.capped_control + r.capped_treatment == 35


def test_the_cap_is_of_all_variants_together() -> None:
    # The treatment alone makes large values; a cap of its own would keep them.
    c, t = np.arange(100.0), np.arange(100.0) * 3
    assert outliers.threshold(c, t, level=0.9) < np.quantile(t, 0.9)
    assert outliers.mean(c, t, level=0.9).capped_control == 0


def test_d13_ratio_caps_come_from_the_same_population() -> None:
    # Every buyer pays exactly 20 per order: any consistent capping keeps the ratio at 20.
    rng = np.random.default_rng(2)
    orders = np.where(rng.random(2000) < 0.05, rng.geometric(0.3, 2000), 0)
    spent = orders * 20.0
    arms = [(spent[i::2], orders[i::2]) for i in (0, 1)]
    for level in (0.9, 0.96, 0.99):
        caps = [outliers.threshold(*(arm[k] for arm in arms), level=level) for k in (0, 1)]
        if caps[1] == 0:
            with pytest.raises(Refusal):
                outliers.ratio(*arms, level=level)
            continue
        assert caps[0] == pytest.approx(20 * caps[1])
        sides = [
            Moments.of(*(outliers.cap(v, at) for v, at in zip(arm, caps, strict=True)))
            for arm in arms
        ]
        for side in sides:
            assert ratios.estimate(side).value == pytest.approx(20, rel=1e-12)
        # The ratio does not vary between users, and says so.
        with pytest.raises(Refusal) as refusal:
            outliers.ratio(*arms, level=level)
        assert refusal.value.reason == "zero_variance"
    buyers = np.quantile(orders[orders > 0], 0.96)
    wrong = np.minimum(spent, outliers.threshold(spent, level=0.96)).sum()
    assert wrong / np.minimum(orders, buyers).sum() < 15


def test_ratio_counts_units_with_either_part_capped() -> None:
    c = ([1.0, 2.0, 3.0, 50.0], [2.0, 3.0, 4.0, 5.0])
    t = ([1.0, 2.0, 2.0, 3.0], [2.0, 90.0, 4.0, 5.0])
    r = outliers.ratio(c, t, level=0.8)
    assert (r.capped_control, r.capped_treatment) == (1, 1)
    assert r.uncapped == ratios.delta(Moments.of(*c), Moments.of(*t))


def test_a_cap_at_the_top_changes_nothing() -> None:
    c, t = [1.0, 2.0, 9.0], [2.0, 4.0, 5.0]
    r = outliers.mean(c, t, level=1.0)
    assert r.effect == r.uncapped
    assert r.capped_control == r.capped_treatment == 0


def test_degenerate_values_are_refused() -> None:
    rare = np.zeros(500)
    rare[0] = 7
    with pytest.raises(Refusal) as refusal:
        outliers.mean(rare, rare, level=0.99)
    assert refusal.value.reason == "zero_variance"
    for bad in (math.nan, math.inf):
        with pytest.raises(Refusal) as refusal:
            outliers.mean([1.0, bad], [1.0, 2.0])
        assert refusal.value.reason == "not_finite"
    with pytest.raises(Refusal) as refusal:
        outliers.threshold([], [])
    assert refusal.value.reason == "too_few_units"
    with pytest.raises(ValueError, match="level"):
        outliers.threshold([1.0], level=1.5)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99, 1.0])
def test_the_cap_of_an_experiment_file_is_the_value_at_or_next_above_the_threshold(
    level: float,
) -> None:
    rng = np.random.default_rng(8)
    y, x = rng.geometric(0.1, 997), rng.integers(1, 5, 997)
    y[rng.random(997) < 0.6] = 0
    connection = duckdb.connect()
    connection.register("metric", pd.DataFrame({"y": y, "x": x}))
    connection.execute(f"create view cap_level as select {level} as level")
    caps = connection.execute(query("metric/cap")).fetchone()
    assert caps is not None
    for column, cap in zip((y, x), caps, strict=False):
        at = outliers.threshold(column[:400], column[400:], level=level)
        assert cap == column[column >= at].min()


def test_the_cap_is_the_ninety_ninth_percentile_where_none_is_named() -> None:
    rng = np.random.default_rng(3)
    y, x = rng.lognormal(0, 2, (2, 300)), rng.geometric(0.2, (2, 300)).astype(float)
    at = outliers.threshold(*y)
    assert at == pytest.approx(np.quantile(y, 0.99))
    capped = outliers.mean(*y)
    assert capped == outliers.mean(*y, 0.99, 0.05)
    assert (capped.capped_control, capped.capped_treatment) == tuple((y > at).sum(axis=1))
    arms = (y[0], x[0]), (y[1], x[1])
    ratio = outliers.ratio(*arms)
    assert ratio == outliers.ratio(*arms, 0.99, 0.05)
    above = (y > at) | (x > np.quantile(x, 0.99))
    assert (ratio.capped_control, ratio.capped_treatment) == tuple(above.sum(axis=1))
    # The lowest value is the percentile of zero.
    assert outliers.threshold([3.0, 1.0, 2.0], level=0.0) == 1.0
