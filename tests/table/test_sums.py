"""Sums by metric, variant and day give what their rows give; what they cannot is named."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.errors import AbevalError
from tests.cli.test_cli import call

VARIANTS = {"a": {}, "b": {}, "c": {}}
PERIOD = {"start": "2026-09-14", "end": "2026-09-17"}
BEFORE = {"start": "2026-09-13", "end": "2026-09-14"}
METRICS: list[dict[str, Any]] = [
    {"name": "spent", "value": "spent", "role": "goal", "resolution": 0.01},
    {
        "name": "click_rate",
        "numerator": "click",
        "denominator": "1",
        "role": "goal",
        "unit": "share",
    },
    {"name": "shown", "value": "1", "role": "guardrail", "margin": 0.2},
]


def log(units: int = 900, seed: int = 3) -> pd.DataFrame:
    """Impressions of units that return, skewed spending, a day before the period."""
    random = np.random.default_rng(seed)
    rows = random.poisson(6, units)
    unit = np.repeat(np.arange(units), rows)
    day = random.integers(-1, 3, unit.size)
    times = pd.Timestamp("2026-09-14") + pd.to_timedelta(day, unit="D")
    return pd.DataFrame(
        {
            "user_id": unit,
            "variant": np.array(["a", "b", "c"])[unit % 3],
            "ts": times + pd.to_timedelta(random.integers(0, 86_400, unit.size), unit="s"),
            "click": random.binomial(1, 0.2 + 0.03 * (unit % 3)),
            "spent": np.round(random.exponential(4.0, unit.size), 2),
        }
    )


def experiment(**changes: Any) -> abeval.LoadedExperiment:
    entries = {
        "name": "sums",
        "unit": "user_id",
        "control": "a",
        "variants": VARIANTS,
        "period": PERIOD,
        "logs": {"impressions": {}},
        "cleaning": {"duplicates": "unchecked"},
        "metrics": METRICS,
    }
    return abeval.define({**entries, **changes})


def sums(rows: pd.DataFrame, *, before: bool = False) -> pd.DataFrame:
    """What a warehouse would return, in plain SQL."""
    own = "sum(c) as sum_c, sum(c * c) as sum_cc, sum(c * y) as sum_cy" if before else "1 as o"
    parts = []
    values = {"spent": ("sum(spent)", None), "click_rate": ("sum(click)", "count(*)")}
    values["shown"] = ("count(*)", None)
    inside = "ts >= '2026-09-14'"
    for name, (top, bottom) in values.items():
        filtered = f"{top} filter ({inside})"
        down = "null" if bottom is None else f"{bottom} filter ({inside})"
        for day in ("null", "cast(ts as date)"):
            parts.append(
                f"""
                select '{name}' as metric, variant, day, count(*) as n, sum(y) as sum_y,
                       sum(y * y) as sum_yy, sum(x) as sum_x, sum(x * x) as sum_xx,
                       sum(x * y) as sum_xy, {own}
                from (select user_id, variant, {day} as day, coalesce({filtered}, 0) as y,
                             {down} as x, coalesce({top} filter (not {inside}), 0) as c
                      from rows group by user_id, variant, day
                      having count(*) filter ({inside}) > 0)
                group by variant, day
                """
            )
    table = duckdb.sql(" union all ".join(parts)).df()
    return table.drop(columns="o", errors="ignore")


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return log()


SAME = ("control", "treatment", "difference", "difference_low", "difference_high", "lift")


def check_same(one: abeval.Result, other: abeval.Result, rel: float = 1e-9) -> None:
    """The same scorecard, and rows by day."""
    for mine, theirs in ((one.scorecard, other.scorecard), (one.daily, other.daily)):
        assert len(mine) == len(theirs) > 0
        for row, twin in zip(mine, theirs, strict=True):
            fields, expected = asdict(row), asdict(twin)
            for name in ("metric", "variant", "reason", "units", "units_control"):
                assert fields[name] == expected[name]
            for name in (*SAME, "p_value"):
                assert fields[name] == pytest.approx(expected[name], rel=rel, abs=1e-12), name
    assert [row.status for row in one.scorecard] == [row.status for row in other.scorecard]
    assert [v.sentence for v in one.verdicts] == [v.sentence for v in other.verdicts]


def test_sums_give_what_the_log_gives() -> None:
    """Scorecard, days, verdict, split: of units that return, three variants, means and a ratio."""
    # Of so many, no unit holds a hundredth of a day's impressions, which sums do not know.
    rows = log(2_400)
    by_log = experiment().analyze(logs={"impressions": rows})
    by_sums = experiment().from_sums(sums(rows))
    check_same(by_sums, by_log)
    srm = {check.name: check.value for check in by_sums.trust}
    assert srm["srm"] == pytest.approx({c.name: c.value for c in by_log.trust}["srm"])
    assert {c.status for c in by_sums.trust if c.name.startswith("crossover")} == {"skipped"}
    assert any("third moments" in note for note in by_sums.notes)


def test_cuped_by_sums_before(rows: pd.DataFrame) -> None:
    """Every unit was there before, so that none is new: the same θ and interval."""
    there = rows.groupby("user_id")["ts"].transform("min") < pd.Timestamp("2026-09-14")
    adjusted = experiment(pre_period=BEFORE, inference={"adjust": "cuped"}, metrics=METRICS[:1])
    known = rows[there]
    table = sums(known, before=True)
    by_log = adjusted.analyze(logs={"impressions": known})
    by_sums = adjusted.from_sums(table[(table.metric == "spent") & table.day.isna()])
    assert by_log.adjustments
    for row, twin in zip(by_sums.scorecard, by_log.scorecard, strict=True):
        assert row.method == twin.method == "cuped_welch_t"
        assert row.difference_low == pytest.approx(twin.difference_low, rel=1e-9)
        assert row.p_value == pytest.approx(twin.p_value, rel=1e-9)


def test_a_file_of_sums_needs_no_experiment(
    rows: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, out = tmp_path / "weekly.csv", tmp_path / "o.json"
    sums(rows).to_csv(file, index=False)
    report = tmp_path / "r.html"
    assert call(monkeypatch, "analyze", "--sums", file, "--json", out, "--report", report) == 0
    result = json.loads(out.read_text())
    assert result["experiment"]["control"] == "a"
    by_log = experiment().analyze(logs={"impressions": rows})
    spent = [r for r in result["scorecard"] if (r["metric"], r["variant"]) == ("spent", "c")]
    assert spent[0]["p_value"] == pytest.approx(by_log["spent", "c"].p_value, rel=1e-9)
    assert report.read_text().startswith("<!doctype html>")
    again = abeval.analyze_sums(file, control="b")
    assert again.experiment.control == "b"
    assert again["click_rate", "a"].control == pytest.approx(by_log["click_rate", "b"].treatment)


def test_an_experiment_file_judges_sums_by_its_roles(
    rows: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "e.toml").write_text(
        'name = "t"\nunit = "user_id"\ncontrol = "a"\nvariants = {a = {}, b = {}, c = {}}\n'
        'logs.impressions.path = "none.parquet"\n[[metrics]]\nname = "shown"\nvalue = "1"\n'
        'role = "guardrail"\nmargin = 0.2\n[[metrics]]\nname = "gauc"\n'
    )
    sums(rows).to_parquet(tmp_path / "s.parquet")
    out = tmp_path / "o.json"
    flags = (tmp_path / "e.toml", "--sums", tmp_path / "s.parquet", "--json", out)
    assert call(monkeypatch, "analyze", *flags) == 0
    result = json.loads(out.read_text())
    roles = {row["metric"]: row["role"] for row in result["scorecard"]}
    assert roles == {"shown": "guardrail", "gauc": "diagnostic"}
    notes = " ".join(result["notes"])
    assert "gauc is refused: the logs lack its sums." in notes
    assert "does not name are not used: click_rate, spent" in notes


def one_row(**changes: object) -> pd.DataFrame:
    whole = {"metric": "m", "n": 300, "sum_y": 600.0, "sum_yy": 2000.0}
    return pd.DataFrame([{**whole, "variant": v, **(changes if v == "b" else {})} for v in "ab"])


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (one_row(sum_yy=900.0), "row 2: n · sum_yy is smaller than sum_y²"),
        (one_row(n=2.5), "row 2: n is '2.5', not a number of units"),
        (one_row(metric=None), "row 2: metric is empty"),
        (one_row(sum_y=None), "row 2: sum_y is empty"),
        (one_row(day="soon"), "row 2: day is 'soon'"),
        (one_row(day="2026-09-14"), "by day only"),
        (one_row(variant="total"), "row 2: variant is 'total', the sum of other rows"),
        (one_row(scale_y=0.0), "row 2: a scale is not above 0"),
        (one_row(sum_y="many"), "row 2: sum_y is 'many', not a number"),
        (
            pd.concat([one_row(), one_row().assign(day="2026-09-14", n=900, sum_yy=9000.0)]),
            "900 units with m of a on 2026-09-14, more than in all",
        ),
        (pd.concat([one_row(), one_row()]), "the frame has m of a twice"),
        (one_row().drop(columns="n"), "the frame has no column 'n'"),
        (one_row(sum_x=1.0), "no column 'sum_xx'"),
        (one_row().assign(p95=3.0), "a column 'p95' that sums do not have"),
        (one_row().iloc[:1], "variant"),
        (one_row().iloc[:0], "no rows"),
    ],
)
def test_what_is_no_sum_is_refused(table: pd.DataFrame, says: str) -> None:
    with pytest.raises(AbevalError, match=says.replace("²", ".")):
        abeval.analyze_sums(table)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"inference": {"resample": "bootstrap"}}, "sums cannot give: inference.resample"),
        (
            {"pre_period": BEFORE, "inference": {"adjust": "cuped"}},
            "sums cannot give: inference.adjust = 'cuped' without sum_c",
        ),
        ({"metrics": [{**METRICS[0], "cap": 0.99}]}, "sums cannot give: cap of spent"),
        ({"variants": {"a": {}, "d": {}}}, "no sums of variant 'd'"),
        ({"variants": {"a": {}, "b": {}}}, "sums of 'c', which the experiment does not name"),
    ],
)
def test_what_sums_cannot_give_is_refused_by_name(
    rows: pd.DataFrame, changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(AbevalError, match=says):
        experiment(**changes).from_sums(sums(rows))
    with_segments = experiment(segments={"kind": "spent > 3"})
    assert "these are not shown: kind." in " ".join(with_segments.from_sums(sums(rows)).notes)


def test_mistakes_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "s.csv"
    one_row().to_csv(file, index=False)
    for flags, says in (
        ((), "name an experiment file, a table, or --sums"),
        (("--sums", file, "--metric", "m"), "--metric is for a table"),
        (("--sums", file, "--json", file), "would replace --sums"),
    ):
        assert call(monkeypatch, "analyze", *flags) == 2
        assert says in " ".join(capsys.readouterr().err.split())


def test_sums_of_products_of_three_tell_skewed_values() -> None:
    """With them the test is that of the log; scales say what whole numbers count."""
    random = np.random.default_rng(8)
    rows = pd.DataFrame(
        {
            "user_id": range(600),
            "variant": ["a", "b", "c"] * 200,
            "ts": pd.Timestamp("2026-09-15"),
            "click": 1,
            "spent": np.round(random.pareto(2.2, 600) * 9, 2),
        }
    )
    spent = [{"name": "spent", "value": "spent", "role": "goal", "resolution": 0.01}]
    of_log = experiment(metrics=spent).analyze(logs={"impressions": rows})
    listed = duckdb.sql(
        """
        with cents as (select variant, cast(round(spent * 100) as bigint) as y from rows)
        select 'spent' as metric, variant, count(*) as n, 0.01 as scale_y, sum(y) as sum_y,
          sum(y * y) as sum_yy, sum(y * y * y) as sum_yyy
        from cents group by variant
        """
    ).df()
    by_method = {}
    for name, table in (("three", listed), ("two", listed.drop(columns="sum_yyy"))):
        by_sums = experiment(metrics=spent).from_sums(table)
        by_method[name] = {row.method for row in by_sums.scorecard}
        assert any("skewed values" in note for note in by_sums.notes) == (name == "two")
        if name == "three":
            assert by_sums.scorecard == of_log.scorecard
    assert by_method == {"three": {"permutation_moments"}, "two": {"welch_t"}}
