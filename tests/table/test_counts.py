"""Tables of counts: recognised by their columns, judged as scipy does, and never beyond them."""

from __future__ import annotations

import io
import math
import shlex
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import test_proportions_2indep as wald
from typer.testing import CliRunner

import abeval
from abeval.cli.main import app
from abeval.errors import AbevalError, LogError

USERS = pd.DataFrame(
    {"variant": ["control", "new"], "users": [12_345, 12_400], "conversions": [1_234, 1_390]}
)


def table(text: str) -> pd.DataFrame:
    """A table as it is typed; every cell is text."""
    return pd.read_csv(io.StringIO(text), dtype=str, skipinitialspace=True)


def run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, " ".join(f"{done.output} {done.exception or ''}".split())


def days(number: int = 14, lift: float = 1.0, seed: int = 3) -> pd.DataFrame:
    """Impressions and clicks by day, whose volume and rate both variants share."""
    random, rows = np.random.default_rng(seed), []
    for day in range(number):
        volume, rate = 9_000 * random.lognormal(0, 0.3), 0.05 * random.lognormal(0, 0.2)
        for name, factor in (("a", 1.0), ("b", lift)):
            shown = random.poisson(volume)
            date = f"2026-01-{day + 1:02}"
            rows.append((date, name, shown, random.binomial(shown, rate * factor)))
    return pd.DataFrame(rows, columns=["date", "variant", "impressions", "clicks"])


def test_successes_are_welchs_test_of_zeros_and_ones() -> None:
    result = abeval.analyze(USERS)
    (row,), (n, x) = result.scorecard, (USERS["users"], USERS["conversions"])
    p = x / n
    sd = np.sqrt(p * (1 - p) * n / (n - 1))
    same = stats.ttest_ind_from_stats(p[1], sd[1], n[1], p[0], sd[0], n[0], equal_var=False)
    assert row.p_value == pytest.approx(same.pvalue, rel=1e-12)
    ends = same.confidence_interval() if hasattr(same, "confidence_interval") else None
    assert ends is None or row.difference_low == pytest.approx(ends.low, rel=1e-9)
    assert (row.control, row.treatment) == (pytest.approx(p[0]), pytest.approx(p[1]))
    assert row.units_control == 12_345
    assert result.verdicts[0].decision == "ship"
    assert [check.status for check in result.trust if check.name == "srm"] == ["pass"]


def test_equal_numbers_agree_with_statsmodels() -> None:
    n = 5_000
    frame = pd.DataFrame({"arm": ["control", "b"], "n": [n, n], "successes": [400, 460]})
    (row,) = abeval.analyze(frame).scorecard
    z = wald(460, n, 400, n, compare="diff", method="wald", correction=False).statistic
    # The house divides by n − 1, as for any other value of a unit.
    z *= math.sqrt((n - 1) / n)
    df = 2 * n - 2
    spread = [p * (1 - p) for p in (400 / n, 460 / n)]
    df = (n - 1) * sum(spread) ** 2 / sum(s * s for s in spread)
    assert row.p_value == pytest.approx(2 * stats.t.sf(z, df), rel=1e-12)


def test_few_successes_have_the_exact_test() -> None:
    frame = pd.DataFrame({"variant": ["a", "b"], "n": [400, 410], "successes": [3, 11]})
    (row,) = abeval.analyze(frame).scorecard
    law = stats.hypergeom(810, 14, 410)
    tails = [law.sf(11) + law.pmf(11) / 2, law.cdf(10) + law.pmf(11) / 2]
    assert row.method == "fisher_mid_p"
    assert row.p_value == pytest.approx(2 * min(tails), rel=1e-12)


@pytest.mark.parametrize(
    ("column", "spread"),
    [("sd", lambda sd, n: sd), ("se", lambda sd, n: sd / np.sqrt(n)), ("var", lambda sd, n: sd**2)],
)
def test_means_with_any_spread_are_welchs_test(column: str, spread: Any) -> None:
    n, mean, sd = np.array([900, 1_100]), np.array([10.25, 10.75]), np.array([3.5, 4.25])
    rows = {"group": ["A", "B"], "n": n, "revenue_mean": mean, f"revenue_{column}": spread(sd, n)}
    (row,) = abeval.analyze(pd.DataFrame(rows)).scorecard
    values = zip(mean[::-1], sd[::-1], n[::-1], strict=True)
    flat = [one for arm in values for one in arm]
    same = stats.ttest_ind_from_stats(*flat, equal_var=False)
    assert row.metric == "revenue"
    assert row.p_value == pytest.approx(same.pvalue, rel=1e-12)


@pytest.mark.whole
@settings(max_examples=10)
@given(
    st.lists(st.tuples(st.integers(50, 5_000), st.floats(0.02, 0.98)), min_size=2, max_size=4),
    st.randoms(use_true_random=False),
)
def test_the_order_of_rows_and_columns_says_nothing(arms: Any, random: Any) -> None:
    rows = [
        {"variant": f"v{i}", "visitors": n, "signups": round(n * p)}
        for i, (n, p) in enumerate(arms)
    ]
    frame = pd.DataFrame(rows)
    first = abeval.analyze(frame, control="v0")
    random.shuffle(rows)
    names = [*frame.columns]
    random.shuffle(names)
    again = abeval.analyze(pd.DataFrame(rows)[names], control="v0")
    assert first.scorecard == again.scorecard


def test_days_are_units_of_both_variants() -> None:
    """The jackknife over days, in plain Python; t with days − 1 degrees of freedom."""
    frame = days(lift=1.03)
    (row,) = abeval.analyze(frame, unit="day").scorecard
    wide = frame.pivot_table(index="date", columns="variant", values=["clicks", "impressions"])

    def difference(kept: pd.DataFrame) -> float:
        total = kept.sum()
        rates = [total["clicks", name] / total["impressions", name] for name in "ab"]
        return float(rates[1] - rates[0])

    left_out = np.array([difference(wide.drop(index=day)) for day in wide.index])
    number = len(wide)
    se = math.sqrt((number - 1) / number * ((left_out - left_out.mean()) ** 2).sum())
    assert row.difference == pytest.approx(difference(wide), rel=1e-12)
    assert row.p_value == pytest.approx(2 * stats.t.sf(row.difference / se, number - 1), rel=1e-9)
    assert (row.units_control, row.units) == (14, 14)


def test_days_decide_only_where_a_person_says_that_they_are_units() -> None:
    frame = days(lift=1.2)
    draft = abeval.analyze(frame)
    assert [verdict.decision for verdict in draft.verdicts] == ["draft"]
    assert "do the impressions of one day come back" in draft.verdicts[0].sentence
    decided = abeval.analyze(frame, unit="day")
    assert [verdict.decision for verdict in decided.verdicts] == ["ship"]
    assert decided.scorecard[0].p_value == draft.scorecard[0].p_value
    assert decided.experiment.unit == "day"
    notes = " ".join(decided.notes)
    assert "Days are the units" in notes
    assert "users who return" in notes
    (srm,) = (check for check in decided.trust if check.name == "srm")
    assert srm.status == "skipped"


def test_by_day_what_is_not_shown_is_said() -> None:
    frame = days().assign(device="phone")
    notes = " ".join(abeval.analyze(frame, unit="day").notes)
    assert "By day, effects are not shown by device." in notes
    means = frame.assign(mean=frame["clicks"] / frame["impressions"], sd=0.2)
    notes = " ".join(abeval.analyze(means.drop(columns="clicks"), unit="day").notes)
    assert "By day, sd is not used." in notes


def test_users_by_day_add_up_only_where_each_is_in_one_day() -> None:
    frame = days().rename(columns={"impressions": "users", "clicks": "conversions"})
    assert abeval.analyze(frame).verdicts[0].decision == "draft"
    added = abeval.analyze(frame, unit="row")
    whole = frame.groupby("variant", as_index=False)[["users", "conversions"]].sum()
    same = abeval.analyze(whole)
    assert added.scorecard == same.scorecard
    assert len(added.daily) == 14
    assert added.verdicts[0].decision != "draft"


def test_impressions_alone_have_no_verdict() -> None:
    """A test of each impression is the mistake that the analysis exists to prevent."""
    frame = days().groupby("variant", as_index=False)[["impressions", "clicks"]].sum()
    with pytest.raises(LogError, match="counts impressions, not the units") as refused:
        abeval.analyze(frame)
    assert "--unit row" in str(refused.value)
    assert abeval.analyze(frame, unit="row").scorecard[0].units == frame["impressions"][1]
    for n in ("pageviews", "Sessions", "emails_sent", "num_views"):
        with pytest.raises(LogError, match="not the units"):
            abeval.analyze(frame.rename(columns={"impressions": n}))


def test_outcomes_that_may_repeat_are_asked_for() -> None:
    frame = USERS.rename(columns={"conversions": "orders"})
    assert abeval.analyze(frame).verdicts[0].decision == "draft"
    assert abeval.analyze(frame, unit="row").verdicts[0].decision == "ship"


SEGMENTS = table(
    """device,variant,visitors,signups,buyers
    phone,a,4000,400,80
    phone,b,4100,480,70
    desktop,a,1000,300,50
    desktop,b,990,280,60"""
)


def test_segments_add_up_to_all_units() -> None:
    result = abeval.analyze(SEGMENTS)
    numbers = SEGMENTS.astype({"visitors": int, "signups": int, "buyers": int})
    whole = numbers.groupby("variant", as_index=False)[["visitors", "signups", "buyers"]].sum()
    assert result.scorecard == abeval.analyze(whole).scorecard
    phones = numbers[numbers["device"] == "phone"].drop(columns="device")
    alone = abeval.analyze(phones)["signups", "b"]
    (row,) = (r for r in result.segments if (r.metric, r.cell) == ("signups", "phone"))
    assert (row.p_value, row.units) == (alone.p_value, 4_100)
    assert {check.name for check in result.trust} >= {"srm", "srm:device"}


def test_an_uneven_split_is_not_trusted() -> None:
    frame = pd.DataFrame({"variant": ["a", "b"], "n": [10_000, 10_600], "converted": [900, 990]})
    result = abeval.analyze(frame)
    expected = stats.chisquare([10_000, 10_600]).pvalue
    (srm,) = (check for check in result.trust if check.name == "srm")
    assert srm.value == pytest.approx(expected, rel=1e-9)
    assert result.verdicts[0].decision == "do_not_trust"
    planned = abeval.analyze(frame, weights={"a": 100, "b": 106}, control="b")
    assert planned.experiment.control == "b"
    assert planned.trusted


def test_numbers_as_dashboards_print_them() -> None:
    printed = table(
        """Variation,Total users,Conversions,Conversion rate
        control,"12,345","1,234",10.0%
        new,"12,400","1,390",11.2%
        ,,,"""
    )
    assert abeval.analyze(printed).scorecard == abeval.analyze(USERS).scorecard


def test_a_rate_alone_is_no_count() -> None:
    with pytest.raises(LogError, match="cvr is a share that fits several counts"):
        abeval.analyze(table("variant,users,cvr\na,10000,4.1%\nb,10100,5.0%"))


def test_counts_of_an_uneven_split_decide_nothing_until_it_was_planned() -> None:
    frame = pd.DataFrame({"variant": ["a", "b"], "n": [9_000, 1_000], "converted": [900, 130]})
    asked = abeval.analyze(frame)
    assert asked.verdicts[0].decision == "draft"
    assert "weights={'a': 1, 'b': 1} (--weights a=1,b=1) if equal" in asked.verdicts[0].sentence
    planned = abeval.analyze(frame, weights={"a": 9, "b": 1})
    assert (planned.verdicts[0].decision, planned.questions) == ("ship", ())
    assert abeval.analyze_sums(frame).verdicts[0].decision == "draft"


def test_a_null_that_is_written_out_is_no_variant_of_counts() -> None:
    frame = pd.DataFrame({"variant": ["a", "b", "NULL"], "n": [900] * 3, "converted": [90] * 3})
    with pytest.raises(LogError, match="row 3: variant is 'NULL'"):
        abeval.analyze(frame)
    assert abeval.analyze(frame.iloc[1:].replace("NULL", "None")).experiment.control == "None"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("variant,n,successes\na,100,120\nb,100,20", "successes of a is 120 of 100"),
        ("variant,n,successes\na,100,-1\nb,100,20", "row 1: successes is -1"),
        ("variant,n,successes\na,100,12.5\nb,100,20", "row 1: successes is 12.5"),
        ("variant,n,successes\na,100,\nb,100,20", "row 1: successes is empty"),
        ("variant,n,successes\na,100,9\na,90,7\nb,100,20", "rows 1 and 2 are both of a"),
        ("variant,n,successes\na,100,9\nb,90,7\nTotal,190,16", "row 3: variant is 'Total'"),
        ("variant,n,successes\na,100,9\nb,90,7\n,190,16", "row 3: variant is empty"),
        ("variant,device,n,successes\na,x,9,7\na,All,9,7\nb,x,9,7", "device is 'All'"),
        ("variant,n,successes,rate\na,100,9,9%\nb,90,7,9%", "row 2: rate is 9%, but"),
        ("variant,users,n,successes\na,9,9,7\nb,9,9,7", "users and n could each be"),
        ("variant,users,foo\na,90,7\nb,90,7", "--metric foo"),
        ("variant,n,mean\na,100,1.5\nb,90,1.2", "no column has its standard deviation"),
        ("variant,n,mean,sd\na,100,1.5,-1\nb,90,1.2,1", "row 1: sd is -1"),
        ("day,variant,views,clicks\n1,a,90,7\n1,b,90,7", "1 days, and days are its units"),
    ],
)
def test_what_is_no_count_is_refused(text: str, says: str) -> None:
    with pytest.raises(LogError, match=says):
        abeval.analyze(table(text))


def test_a_metric_of_counts_is_a_column_of_numbers() -> None:
    with pytest.raises(LogError, match="metric sold: no column of numbers is called 'sold'"):
        abeval.analyze(USERS, metrics=["sold = sold / users"])


def test_a_day_without_a_variant_is_refused() -> None:
    frame = days()
    with pytest.raises(LogError, match="no clicks of a on 2026-01-01"):
        abeval.analyze(frame.drop(index=0), unit="day")
    with pytest.raises(LogError, match="no rows by day"):
        abeval.analyze(USERS, unit="day")


def test_metrics_and_roles_are_named_as_for_any_table() -> None:
    frame = USERS.assign(n=[99, 98], churned=[100, 90], foo=[1_000, 1_020])
    own = abeval.analyze(frame, metrics=["cr = conversions / users", {"name": "foo", "n": 1}][:1])
    assert own.scorecard[0].p_value == abeval.analyze(USERS).scorecard[0].p_value
    rows = USERS.assign(churned=[100, 90])
    roles = abeval.analyze(
        rows,
        metrics={
            "conversions": "conversions",
            "lost": {"value": "churned", "role": "guardrail", "margin": 0.1},
        },
    )
    assert {row.metric: row.role for row in roles.scorecard} == {
        "conversions": "goal",
        "lost": "guardrail",
    }
    by_name = abeval.analyze(rows)
    assert by_name["churned", "new"].direction == "decrease"


def test_one_metric_is_named_by_its_text_alone() -> None:
    result = abeval.analyze(USERS, metrics="conversions")
    assert result.scorecard == abeval.analyze(USERS, metrics=["conversions"]).scorecard


def test_a_long_table_names_its_metrics_in_a_column() -> None:
    long = table(
        """metric,variant,n,mean,sd
        revenue,a,900,10.25,3.5
        revenue,b,1100,10.75,4.25
        visits,a,900,2,1
        visits,b,1100,2.1,1"""
    )
    result = abeval.analyze(long)
    same = stats.ttest_ind_from_stats(2.1, 1, 1100, 2, 1, 900, equal_var=False)
    assert result["visits", "b"].p_value == pytest.approx(same.pvalue, rel=1e-12)


def test_tables_of_units_stay_tables_of_units() -> None:
    random = np.random.default_rng(1)
    units = pd.DataFrame(
        {
            "variant": np.repeat(["a", "b"], 300),
            "sessions": random.poisson(3, 600),
            "orders": random.binomial(1, 0.2, 600),
        }
    )
    result = abeval.analyze(units, variant="variant", metrics=["orders"])
    assert result["orders", "b"].units == 300
    with pytest.raises(AbevalError, match="not one of counts"):
        abeval.analyze(units)


def test_ids_of_any_name_are_no_segments() -> None:
    random = np.random.default_rng(2)
    units = pd.DataFrame(
        {
            "login": [f"user {i}" for i in range(500)],
            "variant": ["a", "b"] * 250,
            "sessions": random.poisson(3, 500),
            "orders": random.binomial(1, 0.2, 500),
        }
    )
    result = abeval.analyze(units, variant="variant", metrics=["orders"])
    assert result["orders", "b"].units == 250


def test_hours_are_no_days() -> None:
    frame = days(20)
    hours = pd.Timestamp("2026-01-05") + pd.to_timedelta(np.repeat(range(20), 2), unit="h")
    with pytest.raises(LogError, match="are both of a, 2026-01-05"):
        abeval.analyze(frame.assign(date=hours), unit="day")


@pytest.mark.first_cases(2)
@pytest.mark.parametrize("kind", ["polars", "arrow", "csv", "parquet", "json"])
def test_any_table_says_the_same(kind: str, tmp_path: Path) -> None:
    expected, source = abeval.analyze(USERS).scorecard, tmp_path / f"counts.{kind}"
    sources: dict[str, Any] = {
        "polars": lambda: pytest.importorskip("polars").from_pandas(USERS),
        "arrow": lambda: pytest.importorskip("pyarrow").Table.from_pandas(USERS),
        "csv": lambda: USERS.to_csv(source, index=False) or source,
        "parquet": lambda: USERS.to_parquet(source) or source,
        "json": lambda: USERS.to_json(source, orient="records") or source,
    }
    assert abeval.analyze(sources[kind]()).scorecard == expected
    if source.exists():
        assert abeval.analyze_sums(source).scorecard == expected


def test_names_of_variants_are_text(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("variant,n,successes\n00,900,90\n01,900,99\n")
    result = abeval.analyze(tmp_path / "c.csv")
    assert [one.name for one in result.experiment.variants] == ["00", "01"]


@pytest.mark.parametrize("data", ["users", "segments", "days"])
def test_a_draft_says_what_the_table_says(data: str, tmp_path: Path) -> None:
    frame = {"users": USERS, "segments": SEGMENTS, "days": days(lift=1.2)}[data]
    file, draft = tmp_path / "counts.csv", tmp_path / "e.toml"
    frame.to_csv(file, index=False)
    code, _ = run("init", file, "--output", draft)
    assert code == 0
    result, expected = abeval.load(draft).analyze(), abeval.analyze(file)
    assert [row.p_value for row in result.scorecard] == [r.p_value for r in expected.scorecard]
    assert [v.decision for v in result.verdicts] == [v.decision for v in expected.verdicts]
    assert result.segments == expected.segments
    entries = tomllib.loads(draft.read_text())
    assert entries["logs"] == {"sums": {"path": "counts.csv"}}
    assert bool(entries.get("questions")) == (data == "days")
    if data == "days":
        entries.pop("questions")
        answered = abeval.define(tmp_path, **{**entries, "unit": "day"}).analyze()
        assert answered.verdicts[0].decision == "ship"


@pytest.mark.parametrize(("name", "asks"), [("mean", True), ("revenue_mean", False)])
def test_a_mean_of_nobody_knows_what_is_asked_about(name: str, asks: bool, tmp_path: Path) -> None:
    rows = {"variant": ["control", "b"], "n": [900, 900], name: [10.0, 11.0], "sd": [4.0, 4.0]}
    pd.DataFrame(rows).to_csv(tmp_path / "counts.csv", index=False)
    run("init", tmp_path / "counts.csv", "--output", tmp_path / "e.toml")
    questions = tomllib.loads((tmp_path / "e.toml").read_text()).get("questions", [])
    assert any(question.startswith("direction") for question in questions) == asks


@pytest.mark.whole
def test_commands_on_an_experiment_of_counts(tmp_path: Path) -> None:
    USERS.to_csv(tmp_path / "counts.csv", index=False)
    draft = tmp_path / "e.toml"
    run("init", tmp_path / "counts.csv", "--output", draft)
    for command, says in (
        (("analyze", draft, "--gate"), "SHIP"),
        (("analyze", "--checks", draft), "1 check passed"),
        (("analyze", draft, "--pairs", "conversions"), "conversions"),
        (("analyze", draft, "--format", "md"), "SHIP"),
        (("analyze", tmp_path / "counts.csv", "--unit", "row"), "SHIP"),
        (("analyze", "--sums", tmp_path / "counts.csv"), "SHIP"),
        (("analyze", draft, "--sums", tmp_path / "counts.csv"), "SHIP"),
    ):
        code, said = run(*command)
        assert (code, says in said) == (0, True), said
    for command in ("power", "windows", "aa", "replay", "agree", "audit"):
        code, said = run(command, draft)
        assert code == 1
        assert "sums or counts alone" in said


def test_sums_of_counts_stand_in_for_a_log(tmp_path: Path) -> None:
    """Metrics of an experiment are found by the names of columns; its roles hold."""
    loaded = abeval.define(
        tmp_path,
        name="x",
        unit="user_id",
        control="control",
        variants={"control": {}, "new": {}},
        logs={"impressions": {"path": "none.csv"}},
        metrics=[{"name": "conversions", "value": "converted", "role": "guardrail", "margin": 0.1}],
    )
    (row,) = loaded.from_sums(USERS).scorecard
    assert (row.role, row.status) == ("guardrail", "better")
    assert row.p_value == abeval.analyze(USERS).scorecard[0].p_value


def test_sums_stand_in_place_of_logs() -> None:
    with pytest.raises(AbevalError, match="stand in place of logs"):
        abeval.define(
            name="x",
            unit="u",
            control="a",
            variants={"a": {}, "b": {}},
            logs={"sums": {"path": "c.csv"}, "units": {"path": "u.csv"}},
            metrics=[{"name": "m"}],
        )


@pytest.mark.slow
def test_counts_without_an_effect_decide_seldom() -> None:
    """A short run of `benchmarks.calibration.counts`: 100 tables of each of three worlds."""
    from benchmarks.calibration.counts import measure_world, worlds

    rates = {
        world.data: measure_world(world, 100)
        for world in worlds()
        if world.data.startswith(("2,000/2,000 users, 5", "14 days, 50/50"))
    }
    assert len(rates) == 3
    returning = rates.pop("14 days, 50/50, users return")
    assert returning["decided, %"] == 0
    assert returning["p < .05, %"] > 0.08
    assert all(one["p < .05, %"] <= 0.12 for one in rates.values())


def test_counts_of_days_in_a_file_a_variant_are_drafted_and_judged(tmp_path: Path) -> None:
    both = days()
    for name, own in both.groupby("variant"):
        own.drop(columns="variant").to_csv(tmp_path / f"{name}.csv", index=False)
    files = [tmp_path / f"{name}.csv" for name in "ab"]
    code, _ = run("init", *files, "--output", tmp_path / "e.toml")
    assert code == 0
    loaded = abeval.load(tmp_path / "e.toml")
    assert loaded.analyze().verdicts[0].decision == "draft"
    (row,) = loaded.analyze().scorecard
    sums = both.groupby("variant")[["clicks", "impressions"]].sum()
    rates = sums["clicks"] / sums["impressions"]
    assert (row.control, row.treatment) == pytest.approx((rates["a"], rates["b"]))


def test_the_hint_on_two_numbers_of_units_can_be_run_as_it_stands(tmp_path: Path) -> None:
    names = ["Group", "# of Impressions", "# of Searches", "# of Clicks"]
    rows = [["a", 1000, 800, 100], ["b", 1010, 790, 120]]
    file = tmp_path / "ads.csv"
    pd.DataFrame(rows, columns=names).to_csv(file, index=False)
    code, said = run("analyze", file)
    assert code != 0
    option = shlex.split(said.partition("FILE ")[2])[:2]
    code, said = run("analyze", file, *option, "--unit", "row")
    assert code == 0, said


def test_a_draft_without_variants_does_not_promise_an_analysis(tmp_path: Path) -> None:
    rows = {"user": range(50), "spend": np.linspace(0.0, 9.0, 50)}
    pd.DataFrame(rows).to_csv(tmp_path / "users.csv", index=False)
    code, said = run("init", tmp_path / "users.csv", "--output", tmp_path / "e.toml")
    assert code == 0
    assert "Until then nothing can be analyzed" in said
    code, said = run("analyze", tmp_path / "e.toml")
    assert code != 0
    assert "variants: missing" in said
