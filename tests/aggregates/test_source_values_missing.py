"""What becomes of missing values, held to a slow and plain twin in pandas."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import abeval
from abeval.results.effects import Row
from tests.leave_one_out import ratio_of, t_test

WAYS = ("zero", "drop", "refuse")
DAYS = pd.date_range("2026-03-01", "2026-03-07")
START = pd.Timestamp("2026-03-03")


def _some_missing(rng: np.random.Generator, values: np.ndarray, share: float) -> np.ndarray:
    odd = rng.choice([np.nan, np.inf, -np.inf], len(values), p=[0.8, 0.1, 0.1])
    return np.where(rng.random(len(values)) < share, odd, values)


@pytest.fixture(scope="module")
def impressions() -> pd.DataFrame:
    """Users of two variants over two days before the period and five in it."""
    rng = np.random.default_rng(3)
    user = np.repeat(np.arange(700), rng.integers(1, 9, 700))
    n = len(user)
    day = rng.integers(0, len(DAYS), n)
    rows = pd.DataFrame(
        {
            "user": user,
            "grp": np.where(user % 2, "b", "a"),
            "country": np.where(user % 3, "x", "y"),
            "page": rng.choice(["home", "shop"], n),
            "ts": DAYS[day] + pd.to_timedelta(rng.integers(0, 86_400, n), unit="s"),
            "click": rng.integers(0, 2, n),
            "amount": _some_missing(rng, rng.gamma(2.0, 5.0, n).round(2), 0.4),
            "weight": _some_missing(rng, rng.integers(1, 5, n).astype(float), 0.2),
        }
    )
    return rows.sort_values("ts", ignore_index=True)


@pytest.fixture(scope="module")
def orders(impressions: pd.DataFrame) -> pd.DataFrame:
    """Orders of half of the users, on the last day."""
    rng = np.random.default_rng(8)
    users = impressions.user.unique()
    user = rng.choice(users[: len(users) // 2], 500)
    price = _some_missing(rng, rng.gamma(2.0, 10.0, 500).round(2), 0.5)
    ts = pd.Timestamp("2026-03-07 23:59:59") + pd.to_timedelta(rng.integers(0, 900, 500), "ms")
    return pd.DataFrame({"user": user, "price": price, "ts": ts})


def analysis(impressions: pd.DataFrame, metrics: list[dict[str, Any]], **more: Any) -> Any:
    orders = more.pop("orders", None)
    frames = {"impressions": impressions, **({} if orders is None else {"orders": orders})}
    logs = {"impressions": {"columns": {"unit_id": "user", "variant": "grp"}}}
    logs |= {} if orders is None else {"events": {"orders": {"columns": {"unit_id": "user"}}}}
    entries: dict[str, Any] = {
        "name": "missing",
        "unit": "user",
        "control": "a",
        "variants": {"a": {}, "b": {}},
        "period": {"start": "2026-03-03", "end": "2026-03-08"},
        "metrics": metrics,
        "trust": {"aa_runs": 0},
        "logs": logs,
    }
    return abeval.define(entries | more), frames


def finite(values: pd.Series) -> pd.Series:
    return values.where(np.isfinite(values))


def by_unit(
    rows: pd.DataFrame, value: pd.Series, under: pd.Series | None, way: str
) -> pd.DataFrame:
    """Sum each unit's values by one of two ways; `n` is 1 for a mean."""
    known = value.notna() if under is None else value.notna() & under.notna()
    if way == "drop":
        value, under = value.where(known), None if under is None else under.where(known)
    frame = pd.DataFrame(
        {
            "user": rows.user,
            "grp": rows.grp,
            "y": value.fillna(0),
            "x": 1.0 if under is None else under.fillna(0),
            "known": known,
        }
    )
    units = frame.groupby(["user", "grp"]).agg(
        y=("y", "sum"), x=("x", "sum"), known=("known", "any")
    )
    units = units.reset_index()
    if under is None:
        units["x"] = 1.0
    return units[units.known] if way == "drop" else units


def check(row: Row, units: pd.DataFrame) -> None:
    """Compare a row with the delta method on units' sums."""
    known = []
    for name, n in (("a", row.units_control), ("b", row.units)):
        own = units[units.grp == name]
        assert n == len(own)
        known.append(ratio_of(own.y, own.x))
    assert [row.control, row.treatment] == pytest.approx([one.value for one in known], rel=1e-9)
    se, df, _ = t_test(*known)
    apart = known[1].value - known[0].value
    assert row.difference == pytest.approx(apart, rel=1e-7, abs=1e-9)
    half = (row.difference_high - row.difference_low) / 2
    assert half == pytest.approx(stats.t.ppf(0.975, df) * se, rel=0.01)


MEAN = {"name": "spent", "value": "amount"}
RATIO = {"name": "price", "numerator": "amount", "denominator": "weight"}


@pytest.mark.parametrize("way", WAYS[:2])
@pytest.mark.parametrize("clicked", [False, True])
def test_means_and_ratios_of_impressions(
    impressions: pd.DataFrame, way: str, clicked: bool
) -> None:
    where = {"where": "click = 1"} if clicked else {}
    metrics = [{**m, **where, "missing": way} for m in (MEAN, RATIO)]
    loaded, frames = analysis(impressions, metrics, segments={"country": "country"})
    result = loaded.analyze(logs=frames)
    rows = impressions[impressions.ts >= START]
    amount, weight = finite(rows.amount), finite(rows.weight)
    if clicked:
        # A row that is no click has nothing of it, which is known.
        amount, weight = amount.where(rows.click == 1, 0), weight.where(rows.click == 1, 0)
    for name, under in (("spent", None), ("price", weight)):
        units = by_unit(rows, amount, under, way)
        if clicked and way == "drop":
            # Of a unit without a click all is known; of one with others, a click has to be.
            known = amount.notna() if under is None else amount.notna() & under.notna()
            lacks = (~known).groupby(rows.user).any()
            has = (known & (rows.click == 1)).groupby(rows.user).any()
            out = lacks.index[lacks & ~has]
            units = by_unit(
                rows,
                amount.where(known, 0),
                None if under is None else under.where(known, 0),
                "zero",
            )
            units = units[~units.user.isin(out)]
        check(result[name], units)
        assert result[name].units < 330 or way == "zero"
        for cell in ("x", "y"):
            of_cell = next(s for s in result.segments if (s.metric, s.cell) == (name, cell))
            check(of_cell, units[units.user.isin(rows.user[rows.country == cell])])
    ways = {(one.as_zero, one.count > 0) for one in result.left_out if one.metric == "spent"}
    assert ways == {(way == "zero", True)}


def without(y: pd.Series[float], x: np.ndarray) -> pd.Series[float]:
    """Values less what covariates say of them, by least squares."""
    slopes = np.linalg.lstsq(x - x.mean(axis=0), y - y.mean(), rcond=None)[0]
    return y - (x - x.mean(axis=0)) @ slopes


def test_refused_values_are_counted_by_variant(impressions: pd.DataFrame) -> None:
    loaded, frames = analysis(impressions, [{**MEAN, "missing": "refuse"}])
    rows = impressions[(impressions.ts >= START) & ~np.isfinite(impressions.amount)]
    counts = rows.groupby("grp").size()
    for ask in (loaded.analyze, loaded.windows):
        with pytest.raises(abeval.ExperimentError) as caught:
            ask(logs=frames)
        assert "metric 'spent'" in str(caught.value)
        assert f"{counts.a:,} in a, {counts.b:,} in b" in str(caught.value)
        assert 'missing = "drop" (of a table' in str(caught.value.hint)
        assert 'missing = "zero"' in str(caught.value.hint)
    whole = impressions.assign(amount=finite(impressions.amount).fillna(1))
    assert loaded.analyze(logs={"impressions": whole})["spent"].units == 330


@pytest.mark.parametrize("way", WAYS[:2])
def test_cuped_is_of_the_units_that_count(impressions: pd.DataFrame, way: str) -> None:
    metrics = [{**MEAN, "missing": way}]
    before = {"start": "2026-03-01", "end": "2026-03-03"}
    more = {"pre_period": before, "inference": {"adjust": "cuped"}}
    loaded, frames = analysis(impressions, metrics, **more)
    row = loaded.analyze(logs=frames)["spent"]
    rows = impressions.assign(amount=finite(impressions.amount))
    now, old = (rows[of] for of in (rows.ts >= START, rows.ts < START))
    units = by_unit(now, now.amount, None, way).set_index("user")
    y0 = old.groupby("user").amount.sum().reindex(units.index)
    adjusted = without(units.y, np.column_stack([y0.fillna(0), y0.isna()]))
    of = [adjusted[units.grp == name] for name in ("a", "b")]
    assert row.difference == pytest.approx(of[1].mean() - of[0].mean(), rel=1e-7)
    se = np.sqrt(sum(one.var(ddof=1) / len(one) for one in of))
    assert (row.difference_high - row.difference_low) / 2 == pytest.approx(1.963 * se, rel=0.01)


@pytest.mark.parametrize("way", WAYS[:2])
@pytest.mark.parametrize("combine", ["sum", "max", "first"])
def test_values_of_events(
    impressions: pd.DataFrame, orders: pd.DataFrame, way: str, combine: str
) -> None:
    metric = {"name": "bought", "log": "orders", "value": "price", "per_unit": combine}
    loaded, frames = analysis(impressions, [{**metric, "missing": way}], orders=orders)
    result = loaded.analyze(logs=frames)
    rows = impressions[impressions.ts >= START]
    groups = rows.groupby("user").grp.first()
    price = finite(orders.price)
    if combine == "first":
        order = orders.assign(price=price).dropna().sort_values(["ts", "price"])
        values = order.groupby("user").price.first()
    else:
        values = price.groupby(orders.user).agg(combine)
    # Who has bought nothing has spent nothing, which is known.
    units = pd.DataFrame({"grp": groups, "y": values.reindex(groups.index).fillna(0), "x": 1.0})
    if way == "drop":
        knows = price.notna().groupby(orders.user).any()
        units = units.drop(knows.index[~knows], errors="ignore")
        assert len(units) < len(groups)
    check(result["bought"], units)


def test_windows_and_cuts_leave_units_out_by_what_they_have_there(
    impressions: pd.DataFrame,
) -> None:
    metrics = [{**m, "missing": "drop"} for m in (MEAN, RATIO)]
    loaded, frames = analysis(impressions, metrics, cuts={"page": "page"})
    windows = loaded.windows(logs=frames, widths=[2]).windows_frame()
    rows = impressions[impressions.ts >= START]
    first = rows.groupby("user").ts.transform("min")
    for metric, under in (("spent", None), ("price", "weight")):
        own = windows[(windows.metric == metric) & (windows.axis == "calendar")]
        assert set(own.kind) == {"daily", "cumulative", "rolling"}
        for window in own.itertuples():
            start, end = pd.Timestamp(window.start), pd.Timestamp(window.end) + pd.Timedelta("1D")
            part = rows[(rows.ts >= start) & (rows.ts < end)]
            below = None if under is None else finite(part[under])
            units = by_unit(part, finite(part.amount), below, "drop")
            check(window, units)
        since = windows[(windows.metric == metric) & (windows.axis == "exposure")]
        for window in since[since.kind == "daily"].itertuples():
            age = (rows.ts.dt.normalize() - first.dt.normalize()).dt.days
            part = rows[(age == int(window.start)) & (rows.ts < "2026-03-08")]
            below = None if under is None else finite(part[under])
            units = by_unit(part, finite(part.amount), below, "drop")
            assert window.units_control == (units.grp == "a").sum()
            assert window.control == pytest.approx(
                units[units.grp == "a"].y.sum() / units[units.grp == "a"].x.sum()
            )
    result = loaded.analyze(logs=frames)
    for page, metric in itertools.product(("home", "shop"), ("spent", "price")):
        part = rows[rows.page == page]
        below = finite(part.weight) if metric == "price" else None
        found = next(c for c in result.cuts if (c.metric, c.cell) == (metric, page))
        units = by_unit(part, finite(part.amount), below, "drop")
        assert found.units == (units.grp == "b").sum()
        if metric == "spent":
            # A mean in a part of the traffic is over all units that have a value in any.
            every = by_unit(rows, finite(rows.amount), None, "drop").set_index("user")
            every = every.assign(y=units.set_index("user").y).fillna({"y": 0}).reset_index()
            found = replace(
                found, units_control=(every.grp == "a").sum(), units=(every.grp == "b").sum()
            )
            units = every
        check(found, units)


@pytest.fixture(scope="module")
def table(impressions: pd.DataFrame) -> pd.DataFrame:
    """One row a unit, with a covariate that has nulls too."""
    rng = np.random.default_rng(5)
    n = 1500
    before = rng.normal(10, 3, n)
    rows = pd.DataFrame(
        {
            "grp": rng.choice(["a", "b"], n),
            "spent": _some_missing(rng, (before + rng.normal(0, 1, n)).round(2), 0.2),
            "views": _some_missing(rng, rng.integers(1, 9, n).astype(float), 0.1),
            "before": np.where(rng.random(n) < 0.3, np.nan, before.round(2)),
        }
    )
    return rows.assign(user=np.arange(n))


@pytest.mark.parametrize("way", WAYS[:2])
def test_a_table_of_units(table: pd.DataFrame, way: str) -> None:
    metrics = {"spent": "spent", "per_view": ("spent", "views")}
    result = abeval.analyze(table, variant="grp", metrics=metrics, missing=way)
    spent, views = finite(table.spent), finite(table.views)
    check(result["spent"], by_unit(table, spent, None, way))
    check(result["per_view"], by_unit(table, spent, views, way))
    assert {r.metric for r in result.scorecard} == {"spent", "per_view"}


def test_a_table_of_units_refuses_missing_values(table: pd.DataFrame) -> None:
    counts = (~np.isfinite(table.spent)).groupby(table.grp).sum()
    with pytest.raises(abeval.ExperimentError) as caught:
        abeval.analyze(table, variant="grp", metrics=["spent", "views"])
    assert f"{counts.a} in a, {counts.b} in b" in str(caught.value)
    assert "metric 'views'" in str(caught.value)
    assert 'missing = "drop" (of a table --missing drop) leaves' in str(caught.value.hint)
    mixed = abeval.analyze(
        table, variant="grp", metrics=["spent", "views"], missing={"spent": "drop", "views": "zero"}
    )
    assert "spent by those with a value" in mixed.notes[0]
    check(mixed["spent"], by_unit(table, finite(table.spent), None, "drop"))
    check(mixed["views"], by_unit(table, finite(table.views), None, "zero"))


def test_what_is_missing_is_of_a_metric_by_its_name(table: pd.DataFrame) -> None:
    with pytest.raises(abeval.ExperimentError, match="no metric is called 'spend'; did you mean"):
        abeval.analyze(table, variant="grp", metrics=["spent"], missing={"spend": "drop"})


def test_a_quantile_leaves_units_out_or_refuses(table: pd.DataFrame) -> None:
    entry = {"name": "median", "value": "spent", "quantile": 0.5}
    asked = {"variant": "grp", "metrics": [entry]}
    with pytest.raises(abeval.ExperimentError) as caught:
        abeval.analyze(table, **asked)
    assert "zero" not in str(caught.value.hint)
    found = abeval.analyze(table, missing="drop", **asked)
    whole = table[np.isfinite(table.spent)]
    assert found["median"].control == abeval.analyze(whole, **asked)["median"].control
    assert [c.name for c in found.trust if c.name.startswith("missing")] == [
        "missing_values:median:b"
    ]


def test_cuped_with_nulls_in_a_covariate_adjusts_by_who_has_one(table: pd.DataFrame) -> None:
    asked = {"variant": "grp", "metrics": ["spent"], "missing": "drop", "covariates": ["before"]}
    row = abeval.analyze(table, **asked)["spent"]
    own = table[np.isfinite(table.spent)]
    filled = own.before.fillna(own.before.mean())
    adjusted = without(own.spent, np.column_stack([filled, own.before.isna()]))
    of = [adjusted[own.grp == name] for name in ("a", "b")]
    assert row.difference == pytest.approx(of[1].mean() - of[0].mean(), rel=1e-7)
    se = np.sqrt(sum(one.var(ddof=1) / len(one) for one in of))
    assert (row.difference_high - row.difference_low) / 2 == pytest.approx(1.962 * se, rel=0.01)
    moved = table.assign(before=table.before + 100)
    assert abeval.analyze(moved, **asked)["spent"].p_value == pytest.approx(row.p_value, rel=1e-6)
