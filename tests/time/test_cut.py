"""Windows that are no sums over days: each is the scorecard of a period cut to it."""

import pandas as pd
import pytest

from tests import sample
from tests.time.test_analysis import frame, one, small

METRICS = [
    {"name": "dwell_p50"},
    {"name": "dwell_p90"},
    {"name": "dwell_per_user", "cap": 0.99},
    # It leaves rows out, which windows do not count.
    {"name": "read", "value": "case when click = 1 then dwell end", "cap": 0.99},
    # Where the position is 1, it has no value, which a definition counts.
    {"name": "capped_share", "value": "1 / (position - 1)", "cap": 0.99},
    {"name": "ctr"},
]
NUMBERS = ["units_control", "units", "control", "treatment", "difference", "lift_low", "p_value"]


@pytest.fixture(scope="module")
def loaded():
    return sample.at_one_look().replace(metrics=METRICS, inference={"adjust": "cuped"})


@pytest.fixture(scope="module")
def result(loaded):
    return loaded.windows(widths=[7])


@pytest.mark.first_cases(2)
@pytest.mark.whole
@pytest.mark.parametrize(
    ("kind", "start", "end"),
    [("daily", 17, 18), ("cumulative", 14, 19), ("rolling", 14, 21), ("cumulative", 14, 28)],
)
def test_quantiles_caps_and_covariates_of_a_window_are_those_of_a_period_cut_to_it(
    loaded, result, kind, start, end
):
    period = {"start": f"2026-09-{start}", "end": f"2026-09-{end}"}
    card = loaded.replace(period=period).analyze()
    windows = result.windows_frame()
    for metric in (choice["name"] for choice in METRICS):
        found = one(windows, metric, kind, start=f"2026-09-{start}", end=f"2026-09-{end - 1}")
        for name in NUMBERS:
            assert found[name] == pytest.approx(getattr(card[metric], name), rel=1e-9), metric


@pytest.mark.whole
def test_quantiles_have_looks_and_no_verdict_for_want_of_a_covariance(result):
    expected = {"ctr", "dwell_per_user", "read", "capped_share"}
    assert {row.metric for row in result.stability} == expected
    looks = result.looks_frame()
    assert set(looks.metric) == {choice["name"] for choice in METRICS}
    assert (looks.always_high - looks.always_low >= looks.fixed_high - looks.fixed_low).all()
    assert any("not in the tests of stability" in note for note in result.notes)


@pytest.mark.whole
def test_adjusted_windows_are_narrower(result):
    plain = sample.at_one_look().windows(metrics=["ctr"]).windows_frame()
    wide, narrow = (one(w, "ctr", "cumulative") for w in (plain, result.windows_frame()))
    assert narrow.difference_high - narrow.difference_low < 0.999 * (
        wide.difference_high - wide.difference_low
    )


@pytest.mark.slow
@pytest.mark.whole
def test_coverage_is_compared_at_equal_units_in_every_window():
    found = sample.at_one_look().windows(metrics=["coverage", "gini"])
    windows = found.windows_frame()
    assert found.refused == {}
    assert set(windows.kind) == {"daily", "cumulative"}
    assert set(windows.metric) == {"coverage", "gini"}
    whole = one(windows, "coverage", "cumulative")
    day = {"start": "2026-09-20", "end": "2026-09-21"}
    cut = sample.at_one_look().replace(period=day, metrics=[{"name": "coverage"}])
    for found_row, card in (
        (whole, sample.at_one_look().replace(metrics=[{"name": "coverage"}]).analyze()),
        (one(windows, "coverage", "daily", end="2026-09-20"), cut.analyze()),
    ):
        row = card["coverage"]
        for name in ("units_control", "units", "control", "treatment", "difference_low"):
            assert found_row[name] == pytest.approx(getattr(row, name), rel=1e-9), name
    shares = windows[(windows.metric == "coverage") & (windows.kind == "cumulative")].control
    assert shares.is_monotonic_increasing
    assert not found.looks


def test_shares_that_changed_leave_only_what_adds_up():
    early = frame(["2027-03-01", "2027-03-02"], users=2000)
    early["variant"] = early.user_id.map(lambda u: "b" if u % 10 == 0 else "a")
    late = frame(["2027-03-02", "2027-03-03"], users=2000)
    late["user_id"] += 2000
    log = pd.concat([early, late]).assign(dwell=5.0 + early.user_id.iloc[0])
    metrics = [{"name": "ctr"}, {"name": "dwell_p50"}]
    splits = [
        {"from": "2027-03-01", "weights": {"a": 0.9, "b": 0.1}},
        {"from": "2027-03-02", "weights": {"a": 0.5, "b": 0.5}},
    ]
    loaded = small().replace(metrics=metrics, assignment={"splits": splits})
    found = loaded.windows(logs={"impressions": log})
    assert len(found.ramps) > 1
    assert "traffic shares changed" in found.refused["dwell_p50"]
    assert {row.metric for row in found.windows} == {"ctr"}
