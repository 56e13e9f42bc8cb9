"""`[inference]` chooses how the scorecard is judged, and the statistics agree with it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.errors import ExperimentError
from abeval.stats import cuped, multiplicity, outliers
from abeval.stats.moments import Moments

SAMPLE = Path(__file__).parents[1] / "sample_logs" / "experiment.toml"
DAY = 86_400_000


@pytest.fixture(scope="module")
def loaded():
    return abeval.load(SAMPLE)


def users(seed=5, n=400):
    """One row a user and phase: what each did before and in the period; a third is new."""
    rng = np.random.default_rng(seed)
    taste = rng.gamma(2.0, 2.0, n)
    before = rng.poisson(taste)
    before[rng.random(n) < 1 / 3] = 0
    return pd.DataFrame(
        {
            "user_id": np.arange(n),
            "variant": np.where(rng.random(n) < 0.5, "a", "b"),
            "before": before,
            "during": 1 + rng.poisson(taste),
        }
    )


def log_of(people):
    parts = []
    for day, column in (("2026-01-01", "before"), ("2026-01-08", "during")):
        rows = people.loc[people.index.repeat(people[column])]
        parts.append(
            rows.assign(ts=pd.Timestamp(day), variant=rows.variant)[["user_id", "variant", "ts"]]
        )
    frame = pd.concat(parts, ignore_index=True)
    return frame.assign(click=(frame.index % 3 == 0).astype(int))


def experiment(**entries):
    return abeval.define(
        name="cuped",
        unit="user_id",
        control="a",
        period={"start": "2026-01-08", "end": "2026-01-09"},
        pre_period={"start": "2026-01-01", "end": "2026-01-08"},
        variants={"a": {}, "b": {}},
        cleaning={"duplicates": "unchecked"},
        logs={"impressions": {}},
        **entries,
    )


def arms(people, *columns):
    new = (people.before == 0).astype(float)
    table = people.assign(new=new)
    return [Moments.of(*(table[table.variant == v][c] for c in columns)) for v in "ab"]


def test_cuped_is_that_of_the_statistics_with_new_units_in_their_own_stratum():
    people = users()
    loaded = experiment(metrics=[{"name": "impressions_per_user"}], inference={"cuped": True})
    result = loaded.analyze(logs={"impressions": log_of(people)})
    row, (change,) = result["impressions_per_user"], result.adjustments
    expected = cuped.mean(*arms(people, "during", "before", "new"))
    assert row.difference == pytest.approx(expected.effect.difference, rel=1e-9)
    assert row.p_value == pytest.approx(expected.effect.p_value, rel=1e-9)
    assert row.method == "cuped_welch_t"
    assert change.difference == pytest.approx(expected.unadjusted.difference, rel=1e-9)
    assert change.theta == pytest.approx(expected.theta, rel=1e-9)
    assert change.variance_removed == pytest.approx(expected.variance_removed, rel=1e-9)
    assert change.variance_removed > 0.1


def test_without_a_pre_period_cuped_is_refused_where_it_is_asked_for(loaded):
    told = loaded.experiment.model_dump(exclude_unset=True, exclude={"folder", "pre_period"})
    with pytest.raises(ExperimentError, match=r"inference.cuped: needs a \[pre_period\]"):
        abeval.define(**(told | {"inference": {"cuped": True}}))


def test_caps_are_pooled_and_both_numbers_are_there():
    people = users()
    people.loc[3, "during"] = 900
    metric = {"name": "impressions_per_user", "cap": 0.99}
    result = experiment(metrics=[metric]).analyze(logs={"impressions": log_of(people)})
    row, (change,) = result["impressions_per_user"], result.adjustments
    values = np.sort(people.during)
    cap = values[int(np.ceil(0.99 * (len(values) - 1)))]
    by_hand = [np.minimum(people[people.variant == v].during, cap).mean() for v in "ab"]
    assert change.cap == cap
    assert [row.control, row.treatment] == pytest.approx(by_hand)
    assert change.difference == pytest.approx(
        people[people.variant == "b"].during.mean() - people[people.variant == "a"].during.mean()
    )
    assert outliers.threshold(people.during, level=0.99) <= cap


def test_always_valid_intervals_are_wider_and_say_so(loaded):
    fixed = loaded.analyze()
    valid = loaded.replace(inference={"looks": "always_valid"}).analyze()
    for metric in ("ctr", "dwell_per_user", "sessions_per_user"):
        narrow, wide = fixed[metric], valid[metric]
        assert wide.difference == narrow.difference
        assert wide.difference_low < narrow.difference_low
        assert wide.difference_high > narrow.difference_high
        assert wide.p_value > narrow.p_value
        assert wide.method.startswith("always_valid_")
    assert any("hold at every look" in note for note in valid.notes)


def test_always_valid_lift_and_difference_exclude_zero_together(loaded):
    for row in loaded.replace(inference={"looks": "always_valid"}).analyze().scorecard:
        if row.lift_low is not None and row.kind != "catalogue":
            assert (row.lift_low > 0) == (row.difference_low > 0)
            assert (row.lift_high < 0) == (row.difference_high < 0)


@pytest.mark.parametrize("family", ["bonferroni", "holm", "bh", "hommel"])
def test_the_family_adjusts_goals_alone(loaded, family):
    result = loaded.replace(inference={"family": family}).analyze()
    goals = [row for row in result.scorecard if row.role == "goal"]
    expected = multiplicity.adjust([row.p_value for row in goals], family)
    assert [row.p_adjusted for row in goals] == pytest.approx(list(expected), rel=1e-12)
    assert all(row.p_adjusted is None for row in result.scorecard if row.role != "goal")


def test_the_interval_of_the_lift_can_be_chosen(loaded):
    lows = {
        kind: loaded.replace(inference={"relative": kind}).analyze()["ctr"].lift_low
        for kind in ("fieller", "delta", "log_delta")
    }
    assert len(set(lows.values())) == 3
    assert max(lows.values()) - min(lows.values()) < 0.01
