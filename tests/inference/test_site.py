"""The effect on all traffic, where only some units are exposed."""

from __future__ import annotations

import pytest

from tests.worlds.triggered import World, analyze_world

HEAVY = World(rate=0.1, lift=0.6, users=8_000)


def test_the_lift_of_all_traffic_covers_the_truth_and_is_smaller() -> None:
    result, truth = analyze_world(HEAVY, 4), HEAVY.site_lifts
    for name in ("clicks_per_user", "ctr"):
        row = result[name]
        assert row.lift is not None
        assert row.site_lift is not None
        assert row.site_lift_low is not None
        assert row.site_lift_high is not None
        assert row.site_lift_low < truth[name] < row.site_lift_high
        assert row.site_lift < row.lift / 2
        # Active users are exposed more often: the share of units would say too little.
        exposed = (row.units + row.units_control) / 8_000 * 4 / 7
        assert row.site_lift > 1.15 * exposed * row.lift
    assert result["clicks_per_user"].site_lift_low > 0


@pytest.mark.whole
def test_it_says_zero_is_inside_exactly_where_the_difference_does() -> None:
    for seed in range(8):
        row = analyze_world(World(lift=0.15, users=2_000), seed)["clicks_per_user"]
        assert row.difference_low is not None
        assert row.site_lift_low is not None
        assert (row.difference_low > 0) == (row.site_lift_low > 0)


def test_a_look_widens_the_site_as_it_widens_the_difference() -> None:
    fixed, always = (
        analyze_world(HEAVY, 5, inference={"looks": looks})["clicks_per_user"]
        for looks in ("fixed", "always_valid")
    )
    widths = [
        (row.difference_high - row.difference_low, row.site_lift_high - row.site_lift_low)
        for row in (fixed, always)
    ]
    assert widths[1][0] > 1.2 * widths[0][0]
    assert widths[1][1] / widths[0][1] == pytest.approx(widths[1][0] / widths[0][0], rel=0.02)


def test_a_metric_that_is_no_sum_over_impressions_has_none() -> None:
    metrics = [{"name": "clicks_per_user"}, {"name": "active_days_per_user"}, {"name": "gini"}]
    result = analyze_world(World(users=1_000), 1, metrics=metrics)
    assert result["clicks_per_user"].site_lift is not None
    assert result["active_days_per_user"].site_lift is None
    assert result["gini"].site_lift is None


def test_a_mean_of_units_with_a_value_alone_has_none() -> None:
    metrics = [{"name": name, "value": "click", "missing": name} for name in ("drop", "zero")]
    result = analyze_world(World(users=1_000), 1, metrics=metrics)
    assert result["zero"].site_lift is not None
    assert result["drop"].site_lift is None
