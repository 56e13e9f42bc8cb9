"""What lies behind single numbers: distributions, AUCs of units, use of the catalogue."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.aggregates.wanted import COMPARED, CURVE
from abeval.report.page import render_study
from abeval.results.analysis import Result
from abeval.results.study import build_study
from abeval.stats import item_exposure
from tests.logs.small import analyze
from tests.report.pages import parse, whole, words

METRICS = ("ctr", "dwell_per_user", "gauc", "coverage", "gini")


def world(rows: int = 4000, units: int = 300, seed: int = 4) -> pd.DataFrame:
    """Dwell that is shorter in most visits of `b` and much longer in few, on few of many items."""
    rng = np.random.default_rng(seed)
    user = np.sort(rng.integers(0, units, rows))
    treated = user % 2 == 1
    click = rng.random(rows) < np.where(user % 10 == 0, 0.0, 0.3)
    seconds = rng.lognormal(2.5, 0.6, rows)
    long = rng.random(rows) < 0.08
    dwell = np.where(treated, np.where(long, 20 * seconds, 0.8 * seconds), seconds)
    return pd.DataFrame(
        {
            "user_id": user,
            "variant": np.where(treated, "b", "a"),
            "ts": pd.Timestamp("2024-03-01") + pd.to_timedelta(rng.integers(0, 200_000, rows), "s"),
            "item_id": np.minimum(rng.geometric(np.where(treated, 0.2, 0.05), rows), 80),
            "score": np.round(rng.random(rows), 2),
            "click": click.astype(int),
            "dwell": np.where(click, np.round(dwell, 3), np.nan),
        }
    )


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    return world()


def served(**entries: object) -> dict[str, object]:
    return {
        "metrics": list(METRICS),
        "variants": {"a": {"model": "m"}, "b": {"model": "m"}},
        "models": {"m": {"score": "score"}},
        **entries,
    }


@pytest.fixture(scope="module")
def result(log: pd.DataFrame) -> Result:
    return analyze(log, **served())


def test_quantiles_of_dwell_move_apart_and_are_those_of_quantile_metrics(
    log: pd.DataFrame, result: Result
) -> None:
    assert [(one.variant, one.levels) for one in result.spreads] == [("a", CURVE), ("b", CURVE)]
    of_level = {one.level: one for one in result.quantile_effects}
    assert tuple(of_level) == COMPARED
    names = {"dwell_p50": 0.5, "dwell_p90": 0.9, "late": 0.95}
    value = "case when click = 1 then dwell end"
    late = {"name": "late", "value": value, "quantile": 0.95, "resolution": 0.001}
    rows = analyze(log, metrics=["dwell_p50", "dwell_p90", late])
    for name, level in names.items():
        one, row = of_level[level], rows[name]
        for field in ("control", "difference_low", "difference_high", "lift_high", "p_value"):
            assert getattr(one, field) == pytest.approx(getattr(row, field), rel=1e-9)
    # The mean rises while most visits get shorter.
    assert result["dwell_per_user"].lift > 0  # type: ignore[operator]
    assert of_level[0.5].difference_high < 0  # type: ignore[operator]
    assert of_level[0.95].difference_low > 0  # type: ignore[operator]


def test_coverage_and_the_lorenz_curve_are_those_of_the_log(
    log: pd.DataFrame, result: Result
) -> None:
    items = log.item_id.nunique()
    for one in result.catalogue_uses:
        own = log[log.variant == one.variant]
        units, by_item = own.user_id.nunique(), own.groupby("item_id").user_id.nunique()
        for at, share in zip(one.units, one.coverage, strict=True):
            missed = [math.comb(units - n, at) / math.comb(units, at) for n in by_item]
            assert share == pytest.approx(sum(1 - m for m in missed) / items, rel=1e-9)
        assert one.units[-1] == units
        assert one.shown == len(by_item)
        counts = sorted([*own.item_id.value_counts(), *([0] * (items - len(by_item)))])
        for place, share in zip(one.item_shares, one.impression_shares, strict=True):
            assert share == pytest.approx(sum(counts[: round(place * items)]) / len(own))
        assert one.gini == pytest.approx(item_exposure.gini(counts, items))
    a, b = result.catalogue_uses
    assert b.gini > a.gini
    assert dict(zip(b.units, b.coverage, strict=True))[min(a.units[-1], b.units[-1])] < 1


def test_who_has_no_auc_is_counted(log: pd.DataFrame, result: Result) -> None:
    never = {
        name: sum(own.groupby("user_id").click.sum() == 0) for name, own in log.groupby("variant")
    }
    for one in result.unit_aucs:
        lost = {w.reason: w.units for w in one.without}
        assert lost["no_click"] == never[one.variant]
        assert one.units == sum(b.units for b in one.bins)
        assert one.units + sum(lost.values()) == log[log.variant == one.variant].user_id.nunique()
        assert one.impressions + sum(w.impressions for w in one.without) == sum(
            log.variant == one.variant
        )


def test_small_bins_are_joined_where_values_of_few_units_are_not_shown(log: pd.DataFrame) -> None:
    joined = analyze(log, **served(privacy={"min_units": 15}))
    whole_of = {one.variant: one.units for one in joined.unit_aucs}
    for one in joined.unit_aucs:
        assert min(b.units for b in one.bins) >= 15
        assert sum(b.units for b in one.bins) == whole_of[one.variant]


def test_what_is_not_read_has_no_summary(log: pd.DataFrame) -> None:
    """Sums of a log alone read no row, and no metric of models or of the catalogue is asked."""
    bare = analyze(log, metrics=["ctr", "dwell_per_user"])
    summaries = (bare.spreads, bare.quantile_effects, bare.unit_aucs, bare.catalogue_uses)
    assert summaries == ((), (), (), ())
    assert {"dwell", "gauc", "catalog"}.isdisjoint(sections(bare))


def sections(result: Result) -> dict[str, str]:
    page = parse(whole(render_study(build_study(result))))
    tabs = {e.attributes["data-tab"]: words(e) for e in page.all("div", class_="tab")}
    return {**{e.attributes["id"]: words(e) for e in page.all("section")}, **tabs}


def test_the_parts_say_what_to_see(result: Result) -> None:
    shown = sections(result)
    assert "Intervals that exclude zero: " in shown["dwell"]
    assert "p99" in shown["dwell"]
    assert "no click" in shown["gauc"]
    assert "left out: " in shown["gauc"].lower()
    assert "Gini of all impressions: " in shown["catalog"]
    keys = {key[0] for key in result.figures}
    assert {"dwell", "gauc", "catalog"} <= keys
    figure = result.figures["catalog", "lorenz"]
    control, use = result.catalogue_uses
    differences = [
        theirs - ours
        for theirs, ours in zip(use.impression_shares, control.impression_shares, strict=True)
    ]
    assert [y / 100 for y in figure.data[0].y] == pytest.approx(differences)
    # The scorecard's interval stands where the variants have equally many units.
    *_, judged = result.figures["catalog", "coverage"].data
    row = result["coverage"]
    assert judged.y[0] == pytest.approx(100 * (row.difference or 0))
    assert judged.y[0] + judged.error_y.array[0] == pytest.approx(100 * (row.difference_high or 0))
    bars = result.figures["gauc", "units"].data[0]
    first = result.unit_aucs[0]
    assert [round(y * first.units / 100) for y in bars.y] == [b.units for b in first.bins]
    line = result.figures["dwell", "quantiles", "dwell of clicks"].data[0]
    lifts = [one.lift for one in result.quantile_effects if one.lift is not None]
    assert [y / 100 for y in line.y] == pytest.approx(lifts)
    assert result.quantile_effects[-1].reason == "too_few_units"
    assert "too few units" in shown["dwell"]


def test_the_markdown_says_which_quantiles_moved(result: Result) -> None:
    said = build_study(result).to_markdown()
    assert "**Quantiles of dwell of clicks:** Intervals that exclude zero: " in said
    assert "GAUC:" not in said
    assert "p50 \u2212" in said


def summaries(result: Result) -> Sequence[object]:
    return result.spreads, result.quantile_effects, result.unit_aucs, result.catalogue_uses


def test_a_log_in_files_has_the_same(log: pd.DataFrame, result: Result, tmp_path: Path) -> None:
    for i in range(2):
        half = log.iloc[i::2]  # noqa: F841 (DuckDB reads it by its name)
        duckdb.sql(f"copy half to '{tmp_path}/{i}.parquet'")
    entries = {
        "name": "small",
        "unit": "user_id",
        "control": "a",
        "logs": {"impressions": {"path": "*.parquet"}},
        "cleaning": {"duplicates": "unchecked"},
        **served(metrics=[{"name": name} for name in METRICS]),
    }
    loaded = abeval.define(entries, tmp_path)
    assert summaries(loaded.analyze()) == summaries(result)


def test_quantiles_of_one_value_rounded_otherwise_are_in_its_own_unit() -> None:
    """Both were read in steps of the first, so that a median of 1 second was 479,894."""
    log = world().assign(price=lambda x: x.score * 10)
    metrics = [
        {"name": "fine", "value": "price", "quantile": 0.5},
        {"name": "coarse", "value": "price", "quantile": 0.5, "resolution": 0.5},
    ]
    both = analyze(log, metrics=metrics)
    assert both["coarse"].control == pytest.approx(both["fine"].control, abs=0.5)
