"""Who entered the experiment: a log of exposures, the log's variant, or abeval's own hash."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from scipy import stats

from abeval.assignment import Assignment
from tests.logs.small import PERIOD, START, analyze, aside, close, small_log, values
from tests.relations import answer, relation

SALT = "layer_7"


def exposures(units: int = 40, since: str = "2024-02-29") -> pd.DataFrame:
    return pd.DataFrame(
        {
            "user_id": range(units),
            "ts": pd.Timestamp(since).as_unit("ms"),
            "variant": ["a", "b"] * (units // 2),
        }
    )


def test_exposed_units_without_an_impression_count_as_zeros() -> None:
    log = small_log()
    found = analyze(log, exposures=exposures(40), metrics=["impressions_per_user", "ctr"])
    row = found["impressions_per_user"]
    assert (row.units_control, row.units) == (20, 20)
    assert row.control == pytest.approx((log.variant == "a").sum() / 20, rel=1e-12)
    plain = analyze(log, metrics=["ctr"])["ctr"]
    assert (row := found["ctr"]).control == pytest.approx(plain.control, rel=1e-12)
    assert row.treatment == pytest.approx(plain.treatment, rel=1e-12)
    assert any("exposed units, zeros included" in note for note in found.notes)


def test_without_exposures_active_units_divide() -> None:
    found = analyze(small_log())
    assert (
        found["impressions_per_user"].units == small_log().query("variant == 'b'").user_id.nunique()
    )
    assert any("with an impression" in note for note in found.notes)


def test_impressions_before_the_exposure_or_without_one_are_set_aside() -> None:
    log = small_log()
    noon = START + pd.Timedelta(hours=36)
    some = exposures(20).assign(ts=noon.as_unit("ms"))
    found = analyze(log, exposures=some)
    used = log[(log.user_id < 20) & (log.ts >= noon)]
    assert aside(found) == {"used": len(used), "not_exposed": len(log) - len(used)}
    assert found["impressions_per_user"].control == pytest.approx(
        (used.variant == "a").sum() / 10, rel=1e-12
    )


def test_exposures_may_leave_the_variant_to_the_impressions() -> None:
    found = analyze(small_log(), exposures=exposures(24)[["user_id", "ts"]])
    assert values(found) == values(analyze(small_log()))


def test_exposures_may_have_a_time_where_impressions_have_none() -> None:
    found = analyze(small_log().drop(columns="ts"), exposures=exposures(24))
    assert aside(found) == {"used": 240}


def test_a_segment_of_units_never_seen_is_empty() -> None:
    found = analyze(small_log(), exposures=exposures(40), segments={"kind": "category"})
    cells = {row.cell: row.units for row in found.segments if row.metric == "ctr"}
    active = small_log().query("variant == 'b'").user_id.nunique()
    assert set(cells) == {"", "x", "y", "z"}
    assert cells[""] == 20 - active
    assert sum(cells.values()) == 20


def crossed() -> pd.DataFrame:
    """Unit 0 is seen in a, then in b; unit 1 in both at one moment, b being written first."""
    log = small_log()
    first = log.user_id.isin([0, 1])
    log = log[~first]
    rows = [
        (0, "b", "2024-03-02 10:00"),
        (0, "a", "2024-03-02 09:00"),
        (1, "b", "2024-03-02 09:00"),
        (1, "a", "2024-03-02 09:00"),
    ]
    extra = pd.DataFrame(rows, columns=["user_id", "variant", "ts"])
    extra["ts"] = pd.to_datetime(extra["ts"]).astype("datetime64[ms]")
    return pd.concat([log, extra.assign(request_id=900, position=[1, 2, 3, 4], item_id=1, click=1)])


@pytest.mark.parametrize(
    ("policy", "control", "left_out"),
    [("first", 1, {"tied_crossover": 2}), ("exclude", 0, {"crossover": 4})],
)
def test_crossover_policies(policy: str, control: int, left_out: dict[str, int]) -> None:
    """Of two users in both variants, one has both at the same time."""
    log = crossed()
    found = analyze(log, cleaning={"crossover": policy})
    rest = log[~log.user_id.isin([0, 1])]
    units = rest.groupby("variant").user_id.nunique()
    assert found["ctr"].units_control == units["a"] + control
    assert found["ctr"].units == units["b"]
    assert aside(found) == {"used": len(log) - sum(left_out.values()), **left_out}
    check = next(c for c in found.trust if c.name == "crossover")
    assert check.value == pytest.approx(2 / log.user_id.nunique())


def test_the_first_variant_is_known_if_no_other_may_have_been_as_early() -> None:
    exposures = relation(
        "unit_id, time_ms, variant",
        *((1, 20, "b"), (1, 10, "a"), (1, 15, "c")),
        *((2, 10, "b"), (2, 10, "a")),
        *((3, 10, "a"), (3, None, "b")),
        *((4, None, "b"), (4, None, "b")),
        *((5, None, "a"), (5, None, "b")),
        *((6, 10, "b"), (6, 10, "b"), (6, 30, "a")),
        (7, 40, "b"),
    )
    assert answer("1_log/exposed", exposures=exposures).as_set() == {
        (1, 10, "a", "c", "a"),
        (2, 10, "a", "b", None),
        (3, 10, "a", "b", None),
        (4, None, "b", "b", "b"),
        (5, None, "a", "b", None),
        (6, 10, "a", "b", "b"),
        (7, 40, "b", "b", "b"),
    }


def test_crossover_analysed_as_assigned() -> None:
    log = crossed()
    plan = Assignment(SALT, {"a": 1, "b": 1})
    found = analyze(log, cleaning={"crossover": "as_assigned"}, assignment={"salt": SALT})
    expected = log.assign(variant=[plan.assign(u).variant for u in log.user_id])
    assert values(found) == values(analyze(expected))
    assert next(c for c in found.trust if c.name == "crossover").value > 0


@pytest.mark.parametrize("weights", [{"a": 1, "b": 1}, {"a": 0.7, "b": 0.2, "c": 0.1}])
def test_variants_by_hash_are_those_of_the_assignment(weights: dict[str, float]) -> None:
    log = small_log(rows=600, units=150).assign(user_id=lambda f: "ü-" + f.user_id.astype(str))
    plan = Assignment(SALT, weights)
    found = analyze(
        log.drop(columns="variant"),
        variants={name: {"weight": w} for name, w in weights.items()},
        assignment={"salt": SALT},
    )
    named = log.assign(variant=[plan.assign(u).variant for u in log.user_id])
    sizes = named.groupby("variant").user_id.nunique().to_dict()
    assert {v.name: v.units for v in found.experiment.variants} == sizes
    for variant in list(weights)[1:]:
        assert found["ctr", variant].treatment == pytest.approx(
            named[named.variant == variant].click.mean(), rel=1e-12
        )


def test_segments_are_those_at_the_first_impression_in_the_period() -> None:
    log = small_log()
    log.loc[log.index[-40:], "ts"] -= pd.Timedelta(days=9)
    period = {"period": PERIOD, "pre_period": {"start": "2024-02-01", "end": "2024-03-01"}}
    found = analyze(log, segments={"kind": "category", "hour": "hour(ts)"}, **period)
    within = log[log.ts >= START].sort_values(["ts"], kind="stable")
    first = within.groupby("user_id").first()
    # Several impressions may be first; the log gives each request its seconds one by one.
    assert not within.groupby("user_id").ts.apply(lambda t: (t == t.min()).sum() > 1).any()
    for name, key in (("kind", first.category), ("hour", first.ts.dt.hour.astype(str))):
        expected = pd.crosstab(key, first.variant).to_dict("index")
        cells = {
            r.cell: {"a": r.units_control, "b": r.units}
            for r in found.segments
            if r.slice == name and r.metric == "ctr"
        }
        assert cells == expected


def test_each_variant_is_judged_by_the_score_it_serves() -> None:
    log = small_log().rename(columns={"score": "old"}).assign(new=lambda f: 1 - f.old)
    found = analyze(
        log,
        models={"old": {"score": "old"}, "new": {"score": "new"}},
        variants={"a": {"model": "old"}, "b": {"model": "new"}},
        metrics=["q_ctr", "auc", "gauc"],
    )
    a, b = (log[log.variant == v] for v in "ab")
    row = found["q_ctr"]
    assert row.control == pytest.approx(a.old.sum() / a.click.sum(), rel=1e-12)
    assert row.treatment == pytest.approx(b.new.sum() / b.click.sum(), rel=1e-12)
    served = log.assign(score=log.old.where(log.variant == "a", log.new))
    plain = analyze(served, metrics=["q_ctr", "auc", "gauc"])
    assert close(found, plain)


def test_a_variant_without_a_logged_score_has_no_quality() -> None:
    found = analyze(
        small_log().rename(columns={"score": "old"}),
        models={"old": {"score": "old"}},
        variants={"a": {"model": "old"}, "b": {}},
        metrics=["q_ctr", "auc", "gauc"],
    )
    assert {row.reason for row in found.scorecard} == {"empty_denominator"}


def test_every_row_is_a_unit_where_the_log_has_none() -> None:
    log = small_log().drop(columns="user_id")
    found = analyze(
        pd.concat([log, log.head(5)]), unit="row", metrics=["ctr", "auc", "clicks_per_user"]
    )
    a, b = (log[log.variant == v] for v in "ab")
    row = found["ctr"]
    assert (row.units_control, row.units) == (len(a), len(b))
    assert (row.control, row.treatment) == (a.click.mean(), b.click.mean())
    n, k = (len(a), len(b)), (a.click.sum(), b.click.sum())
    half = (row.difference_high - row.difference_low) / 2
    v = [k_ / n_ * (1 - k_ / n_) / (n_ - 1) for n_, k_ in zip(n, k, strict=True)]
    df = sum(v) ** 2 / sum(x**2 / (n_ - 1) for x, n_ in zip(v, n, strict=True))
    assert half == pytest.approx(math.sqrt(sum(v)) * stats.t.ppf(0.975, df), rel=1e-12)
    assert found["clicks_per_user"].reason == "missing_columns"
    scores = a[a.click == 1].score.to_numpy()[:, None] - a[a.click == 0].score.to_numpy()[None, :]
    assert found["auc"].control == pytest.approx(
        ((scores > 0) + 0.5 * (scores == 0)).mean(), abs=1e-9
    )
