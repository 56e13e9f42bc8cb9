"""Cuts: parts of the traffic, of which a unit may be in several."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.errors import ExperimentError
from abeval.results.analysis import Result, result_from_dict
from abeval.results.effects import CutRow, CutSplit
from abeval.stats import effects, means
from abeval.stats.moments import Moments

SCORED = ("ctr", "gauc", "auc", "q_ctr", "clicks_per_user")
LISTS = {
    "sessions_per_user": "sessions",
    "ndcg": "lists",
    "category_diversity": "lists",
    "page_views_per_user": "lists",
    "coverage": "items",
    "dwell_p50": "quantile",
    "active_days_per_user": "day",
}


def log(users: int = 600, seed: int = 3) -> pd.DataFrame:
    """Users who see several places; the treatment sends them to another one. Few see `rare`."""
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(users), rng.poisson(7, users) + 1)
    treated = user % 2 == 1
    place = rng.choice(["feed", "home", "shop"], user.size, p=[0.5, 0.3, 0.2])
    place = np.where(treated & (rng.random(user.size) < 0.3), "feed", place)
    place = np.where((user < 20) & (rng.random(user.size) < 0.3), "rare", place)
    score = rng.integers(1, 40, user.size) / 100
    return pd.DataFrame(
        {
            "user_id": user,
            "variant": np.where(treated, "b", "a"),
            "ts": pd.Timestamp("2026-01-08 12:00")
            + pd.to_timedelta(rng.integers(0, 5 * 24, user.size), unit="h"),
            "request_id": np.arange(user.size) // 3,
            "item_id": rng.integers(0, 40, user.size),
            "position": np.arange(user.size) % 3 + 1,
            "category": rng.choice(["x", "y"], user.size),
            "place": np.where(rng.random(user.size) < 0.02, None, place),
            "score": score,
            "dwell": rng.exponential(20, user.size),
            "click": rng.random(user.size) < score,
        }
    )


def experiment(**entries: Any) -> abeval.LoadedExperiment:
    base: dict[str, Any] = {
        "name": "places",
        "unit": "user_id",
        "control": "a",
        "variants": {"a": {}, "b": {}},
        "period": {"start": "2026-01-08", "end": "2026-01-15"},
        "logs": {"impressions": {}},
        "cuts": {"place": "place"},
        "metrics": [{"name": name} for name in SCORED],
        "trust": {"aa_runs": 0},
        "engine": {"threads": 1},
    }
    return abeval.define(".", **{**base, **entries})


def analyzed(rows: pd.DataFrame, **entries: Any) -> Result:
    return experiment(**entries).analyze(logs={"impressions": rows})


@pytest.fixture(scope="module")
def result() -> Result:
    return analyzed(log())


def row(result: Result, metric: str, cell: str, cut: str = "place") -> CutRow:
    (one,) = (r for r in result.cuts if (r.metric, r.cut, r.cell) == (metric, cut, cell))
    return one


def split(result: Result, metric: str) -> CutSplit:
    (one,) = (s for s in result.cut_splits if s.metric == metric)
    return one


@pytest.mark.parametrize("cell", ["feed", "home", "shop"])
def test_a_cell_is_the_log_filtered_to_it(result: Result, cell: str) -> None:
    only = analyzed(log().query(f"place == '{cell}'"), cuts={})
    for metric in ("ctr", "gauc", "auc", "q_ctr"):
        mine, whole = row(result, metric, cell), only[metric]
        assert (mine.units_control, mine.units) == (whole.units_control, whole.units)
        for field in ("control", "treatment", "difference", "lift_low", "lift_high", "p_value"):
            assert getattr(mine, field) == pytest.approx(getattr(whole, field), abs=1e-12), field


def test_the_values_are_those_of_the_rows(result: Result) -> None:
    rows = log()
    rows["place"] = rows["place"].fillna("")
    of = rows.groupby(["place", "variant"])
    clicks, ctr = of["click"].sum(), of["click"].mean()
    units = rows.groupby("variant")["user_id"].nunique()
    for cell in ("", "feed", "home", "shop"):
        of_all = row(result, "clicks_per_user", cell)
        assert row(result, "ctr", cell).treatment == pytest.approx(ctr[cell, "b"], abs=1e-12)
        assert of_all.control == pytest.approx(clicks[cell, "a"] / units["a"], abs=1e-12)
        assert of_all.units_control == of["user_id"].nunique()[cell, "a"]
    shares = [(r.share_control, r.share) for r in result.cuts if r.metric == "ctr"]
    assert np.sum(shares, axis=0) == pytest.approx([1, 1], abs=1e-12)


def test_a_mean_per_unit_is_over_all_units_so_that_its_cells_add_up(result: Result) -> None:
    """Its effect is that of the users whose rows elsewhere have no clicks."""
    rows = log()
    zeros = analyzed(rows.assign(click=rows["click"] & (rows["place"] == "feed")), cuts={})
    mine, whole = row(result, "clicks_per_user", "feed"), zeros["clicks_per_user"]
    for field in ("control", "treatment", "difference_low", "difference_high", "p_value"):
        assert getattr(mine, field) == pytest.approx(getattr(whole, field), abs=1e-12), field
    assert mine.units < whole.units


def test_the_parts_sum_to_the_difference_of_the_scorecard(result: Result) -> None:
    assert {one.metric for one in result.cut_splits} == {"ctr", "q_ctr"}
    for one in result.cut_splits:
        assert one.reason is None
        whole = result[one.metric].difference
        assert one.within + one.mix == pytest.approx(whole, abs=1e-12)
        assert one.within_low < one.within < one.within_high
        assert one.mix_low < one.mix < one.mix_high


def test_the_intervals_of_the_parts_are_clustered_by_unit(result: Result) -> None:
    """As the bootstrap over users has them: the cells of a user belong together."""
    rows = log().assign(place=lambda r: r["place"].fillna(""), n=1, click=lambda r: r["click"] * 1)
    wide = rows.pivot_table(
        index=["variant", "user_id"], columns="place", values=["click", "n"], aggfunc="sum"
    ).fillna(0)
    arms = [
        np.stack([wide["click"].loc[name].to_numpy(), wide["n"].loc[name].to_numpy()])
        for name in ("a", "b")
    ]
    rng = np.random.default_rng(0)

    def resampled() -> tuple[float, float]:
        (a, c), (b, d) = (
            one[:, rng.integers(0, one.shape[1], one.shape[1])].sum(axis=1) for one in arms
        )
        shares = c / c.sum(), d / d.sum()
        # A cell that a resample of one variant lacks did not change within.
        before, after = a / np.maximum(c, 1), b / np.maximum(d, 1)
        before, after = np.where(c > 0, before, after), np.where(d > 0, after, before)
        within = (shares[0] + shares[1]) @ (after - before) / 2
        return within, (shares[1] - shares[0]) @ (after + before) / 2

    se = np.std([resampled() for _ in range(1500)], axis=0)
    one = split(result, "ctr")
    widths = (one.within_high - one.within_low, one.mix_high - one.mix_low)
    assert np.array(widths) / 2 / 1.9644 == pytest.approx(se, rel=0.08)


def test_p_values_are_adjusted_over_the_cells_of_a_cut(result: Result) -> None:
    for metric in SCORED:
        rows = [r for r in result.cuts if r.metric == metric and r.p_value is not None]
        assert len(rows) >= 3
        smallest = min(rows, key=lambda r: r.p_value)
        assert smallest.p_adjusted == pytest.approx(min(1, len(rows) * smallest.p_value))


def test_a_cell_of_few_units_is_refused(result: Result) -> None:
    rare = row(result, "ctr", "rare")
    assert 0 < rare.units < 30
    assert (rare.reason, rare.difference, rare.p_adjusted) == ("too_few_units", None, None)
    # It is a part of the whole all the same.
    assert split(result, "ctr").cells == 5
    assert rare.share > 0


def test_what_needs_whole_lists_is_refused_by_name() -> None:
    names = [{"name": name} for name in ("ctr", *LISTS)]
    found = analyzed(log(), cuts={"category": "category"}, metrics=names)
    assert {r.metric for r in found.cuts} == {"ctr"}
    said = {one.metric: one.reason for one in found.without_cuts}
    assert said.keys() == LISTS.keys()
    assert all(word in said[name] for name, word in LISTS.items())


def test_a_treatment_that_moves_a_scene_leaves_everything_trusted(result: Result) -> None:
    assert not any(check.status == "fail" for check in result.trust)
    assert not any(check.name.startswith("srm:") for check in result.trust)
    assert {r.status for r in result.scorecard}.isdisjoint({"untrusted"})


def test_without_cuts_there_are_no_new_queries() -> None:
    assert analyzed(log(), cuts={}).cuts == ()
    plain, cut = (experiment(cuts=cuts) for cuts in ({}, {"place": "place"}))
    steps: dict[str, list[str]] = {"plain": [], "cut": []}
    mine = plain.analyze(logs={"impressions": log()}, step=steps["plain"].append)
    theirs = cut.analyze(logs={"impressions": log()}, step=steps["cut"].append)
    assert [s for s in steps["cut"] if s not in steps["plain"]] == ["cut place"]
    assert mine.without_cuts == ()
    assert mine.scorecard == theirs.scorecard
    assert [c.status for c in mine.trust] == [c.status for c in theirs.trust]


def test_small_cells_are_shown_together_where_results_are_private() -> None:
    found = analyzed(log(), privacy={"min_units": 100})
    cells = {r.cell for r in found.cuts}
    assert "rare" not in cells
    assert "other" in cells
    assert min(min(r.units, r.units_control) for r in found.cuts) >= 100
    assert any("few units" in note and "place" in note for note in found.notes)
    # A user of two of them is one unit of the cell.
    rows, joined = log(), {"", "rare", "shop"}
    rows = rows[rows["place"].fillna("").isin(joined)]
    assert row(found, "ctr", "other").units == rows.query("variant == 'b'")["user_id"].nunique()
    one = split(found, "ctr")
    assert one.within + one.mix == pytest.approx(found["ctr"].difference, abs=1e-12)


def test_cells_beyond_the_limit_are_one() -> None:
    found = analyzed(log(), cuts={"user": "user_id"}, metrics=[{"name": "ctr"}])
    assert len(found.cuts) == 300
    other = row(found, "ctr", "other", "user")
    assert other.units + other.units_control == 600 - 299
    assert any("600 values" in note for note in found.notes)


def test_several_variants_and_several_cuts() -> None:
    rows = log()
    rows["variant"] = np.array(["a", "b", "c"])[rows["user_id"] % 3]
    found = analyzed(
        rows,
        variants={"a": {}, "b": {}, "c": {}},
        cuts={"place": "place", "late": "case when position > 1 then 'late' else 'first' end"},
        metrics=[{"name": "ctr"}],
    )
    assert {(r.variant, r.cut) for r in found.cuts} == {
        (variant, cut) for variant in "bc" for cut in ("place", "late")
    }
    for one in found.cut_splits:
        whole = found["ctr", one.variant].difference
        assert one.within + one.mix == pytest.approx(whole, abs=1e-12)
        assert one.within_low is not None


def test_a_cut_of_one_cell_has_no_mix() -> None:
    rows = log()
    found = analyzed(rows, cuts={"all": "'x'"}, metrics=[{"name": "ctr"}])
    (one,) = found.cut_splits
    assert (one.within, one.mix) == (pytest.approx(found["ctr"].difference, abs=1e-15), 0)
    by_user = rows.groupby(["variant", "user_id"])["click"].agg(["sum", "size"])
    arms = (Moments.of(*by_user.loc[name].to_numpy().T) for name in "ab")
    # Parts are linearised, whatever a unit holds.
    known = [means.estimate_smooth(arm, means.ratio(0, 1)) for arm in arms]
    assert one.within_low == pytest.approx(effects.compare(*known).low, abs=1e-6)
    assert (one.mix_low, one.reason) == (None, "zero_variance")


def test_json_and_frames_have_them(result: Result) -> None:
    again = result_from_dict(result.to_dict())
    assert (again.cuts, again.cut_splits) == (result.cuts, result.cut_splits)
    assert list(result.cuts_frame()["cell"]) == [r.cell for r in result.cuts]


def test_where_the_split_changed_cells_are_compared_within_stretches() -> None:
    splits = [
        {"from": "2026-01-08", "weights": {"a": 0.5, "b": 0.5}},
        {"from": "2026-01-10", "weights": {"a": 0.4, "b": 0.6}},
    ]
    rows = log(1500)
    # Everybody enters on the first or on the third day.
    late = rows["user_id"] % 3 == 0
    rows["ts"] = np.where(late, pd.Timestamp("2026-01-10 12:00"), pd.Timestamp("2026-01-08 12:00"))
    found = analyzed(
        rows, assignment={"splits": splits}, metrics=[{"name": "ctr"}, {"name": "auc"}]
    )
    assert row(found, "ctr", "feed").difference is not None
    assert row(found, "auc", "feed").reason == "split_changed"
    assert split(found, "ctr").reason == "split_changed"


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"cuts": {"place": "place +"}}, "cuts.place"),
        ({"cuts": {"place": "plaice"}}, "plaice"),
        ({"segments": {"place": "place"}}, "is the name of a segment"),
        ({"logs": {"units": {}}, "period": None}, r"name its columns under \[segments\]"),
    ],
)
def test_mistakes_are_named(entries: dict[str, Any], message: str) -> None:
    with pytest.raises(ExperimentError, match=message):
        analyzed(log(60), **entries)


def test_an_expression_that_cannot_be_computed_is_named() -> None:
    with pytest.raises(ExperimentError, match=r"cuts.place: 'CAST\(place AS INT\)'|cuts.place"):
        analyzed(log(60), cuts={"place": "cast(place as integer)"})
