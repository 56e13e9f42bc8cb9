"""Tables of one row a unit: outcomes, covariates and segments as columns, from file and Python."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from typer.testing import CliRunner

import abeval
from abeval.cli.main import app
from abeval.drafts.variants import refutes_equal_split
from abeval.errors import AbevalError, ExperimentError, LogError
from abeval.results.analysis import Result
from abeval.table.columns import TableOptions
from abeval.table.read import read_table
from tests.leave_one_out import ratio_of, t_test
from tests.logs.small import aside

pytestmark = pytest.mark.whole


METRICS = ["revenue", "converted", "ctr = click / views"]
COVARIATES = ["spent_before", "visits_before"]
COLUMNS = {"unit": "user_id", "variant": "grp", "trust": {"aa_runs": 0}}


def users(n: int = 6000, seed: int = 1) -> pd.DataFrame:
    """Three variants; what a user did before tells of what comes."""
    random = np.random.default_rng(seed)
    taste = random.gamma(2, 2, n)
    frame = pd.DataFrame(
        {
            "user_id": np.arange(n),
            "grp": random.choice(["a", "b", "c"], n),
            "spent_before": random.poisson(taste) * 1.5,
            "visits_before": random.poisson(taste),
        }
    )
    frame["revenue"] = (random.gamma(1, 1, n) * taste + (frame.grp == "b") * 0.4).round(2)
    frame["click"] = random.poisson(taste)
    frame["views"] = frame["click"] + random.poisson(taste) + 1
    frame["converted"] = (random.random(n) < 0.2).astype(int)
    return frame.assign(country=random.choice(["x", "y"], n))


TEA_TASTING = {
    ("b", "revenue"): (0.25029291670615006, 0.14804538756080302),
    ("b", "cuped"): (0.29679505713558285, 0.06193914584404739),
    ("b", "converted"): (-0.009305750611352498, 0.46041334242985565),
    ("b", "ctr"): (-0.0052358688506688456, 0.31062394452938136),
    ("c", "revenue"): (0.03451581956932959, 0.8530529141786355),
    ("c", "cuped"): (-0.029190009800553973, 0.8647478632680166),
    ("c", "converted"): (0.004108517119704225, 0.7506369497877569),
    ("c", "ctr"): (-0.004754301595218835, 0.35332867489427755),
}
"""Variant and metric → difference and p-value of tea-tasting 1.14.0."""


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return users()


@pytest.fixture(scope="module")
def result(frame: pd.DataFrame) -> Result:
    return abeval.analyze(frame, metrics=METRICS, **COLUMNS)


def test_numbers_are_those_of_tea_tasting(frame: pd.DataFrame, result: Result) -> None:
    cuped = abeval.analyze(frame, metrics=["revenue"], covariates=["spent_before"], **COLUMNS)
    for (variant, metric), (difference, p_value) in TEA_TASTING.items():
        row = cuped["revenue", variant] if metric == "cuped" else result[metric, variant]
        assert row.difference == pytest.approx(difference, rel=1e-9)
        if metric != "ctr":
            assert row.p_value == pytest.approx(p_value, rel=1e-9)
            continue
        # Of a ratio, abeval counts the units by their denominators, tea-tasting all alike.
        arms = [frame[frame.grp == name] for name in ("a", variant)]
        known = [ratio_of(arm.click, arm.views) for arm in arms]
        assert row.p_value == pytest.approx(t_test(*known)[2], rel=1e-9)
        alike = [one._replace(df=len(arm) - 1) for one, arm in zip(known, arms, strict=True)]
        assert t_test(*alike)[2] == pytest.approx(p_value, rel=1e-9)
    assert result["revenue", "b"].method == "welch_t"
    assert result["ctr", "b"].method == "delta_t"


def test_values_of_any_size_keep_their_digits(frame: pd.DataFrame, result: Result) -> None:
    for factor in (1e-3, 1 / 3, 1e9):
        scaled = frame.assign(revenue=frame.revenue * factor)
        found = abeval.analyze(scaled, metrics=["revenue"], **COLUMNS)["revenue", "b"]
        assert found.p_value == pytest.approx(result["revenue", "b"].p_value, rel=1e-9)


def test_several_covariates_are_one_regression(frame: pd.DataFrame) -> None:
    found = abeval.analyze(frame, metrics=["revenue"], covariates=COVARIATES, **COLUMNS)
    two = frame[frame.grp != "c"]
    x, y = two[COVARIATES].to_numpy(float), two["revenue"].to_numpy()
    centred = x - x.mean(axis=0)
    slopes = np.linalg.lstsq(centred, y - y.mean(), rcond=None)[0]
    adjusted = y - centred @ slopes
    groups = (adjusted[two.grp == variant] for variant in "ba")
    row = found["revenue", "b"]
    assert row.p_value == pytest.approx(stats.ttest_ind(*groups, equal_var=False).pvalue, rel=1e-8)
    adjustment = next(a for a in found.adjustments if a.variant == "b")
    assert adjustment.theta == pytest.approx(slopes, rel=1e-9)
    checks = {check.name: check.status for check in found.trust}
    assert checks["pre_period:spent_before:b"] == "pass"


def test_a_predicted_outcome_is_a_covariate_with_a_slope_a_variant(frame: pd.DataFrame) -> None:
    predicted = frame.assign(predicted=0.3 * frame.spent_before + 0.5 * frame.visits_before)
    found = abeval.analyze(
        predicted,
        metrics=["revenue"],
        covariates=["predicted"],
        inference={"adjust": "regression"},
        **COLUMNS,
    )
    two = predicted[predicted.grp != "c"]
    centred = two.assign(predicted=two.predicted - two.predicted.mean())
    own = {variant: centred[centred.grp == variant] for variant in "ab"}
    at = {variant: np.polyfit(o.predicted, o.revenue, 1)[1] for variant, o in own.items()}
    assert found["revenue", "b"].difference == pytest.approx(at["b"] - at["a"], rel=1e-9)
    assert next(iter(found.adjustments)).variance_removed > 0.15


def test_covariates_that_differ_before_are_noticed(frame: pd.DataFrame) -> None:
    uneven = frame.assign(spent_before=frame.spent_before + (frame.grp == "b"))
    found = abeval.analyze(uneven, metrics=["revenue"], covariates=["spent_before"], **COLUMNS)
    assert found.verdicts[0].decision == "do_not_trust"


class Protocol:
    """A frame of a library that is not known, such as Ibis: only its protocol is."""

    def __init__(self, frame: pd.DataFrame, method: str) -> None:
        table = pytest.importorskip("pyarrow").Table.from_pandas(frame)
        method_of = {"to_pyarrow": lambda: table, "__arrow_c_stream__": table.__arrow_c_stream__}
        setattr(type(self), method, lambda _, *requested: method_of[method](*requested))


class ToArrow(Protocol):
    pass


class ArrowStream(Protocol):
    pass


FORMS = {
    "polars": lambda f: pytest.importorskip("polars").from_pandas(f),
    "lazy": lambda f: pytest.importorskip("polars").from_pandas(f).lazy(),
    "to_pyarrow": lambda f: ToArrow(f, "to_pyarrow"),
    "stream": lambda f: ArrowStream(f, "__arrow_c_stream__"),
    "index": lambda f: f.set_index("user_id"),
    "float_ids": lambda f: f.assign(user_id=f.user_id.astype(float)),
    "nullable": lambda f: f.astype({"converted": "Int64", "revenue": "Float64"}),
    "category": lambda f: f.assign(grp=f.grp.astype("category").cat.add_categories("unused")),
    "decimal": lambda f: f.assign(revenue=f.revenue.map(lambda x: Decimal(f"{x:.2f}"))),
    "boolean": lambda f: f.assign(converted=f.converted == 1),
    "zoned": lambda f: f.assign(at=pd.Timestamp("2026-01-01", tz="Asia/Tokyo")),
    "mixed_notes": lambda f: f.assign(note=[1, "x"] * (len(f) // 2)),
    "arrow": lambda f: pytest.importorskip("pyarrow").Table.from_pandas(f),
    "relation": lambda f: duckdb.from_df(f),
}


@pytest.mark.first_cases(6)
@pytest.mark.parametrize("form", FORMS)
def test_every_kind_of_frame_is_a_table(form: str, frame: pd.DataFrame, result: Result) -> None:
    found = abeval.analyze(FORMS[form](frame), metrics=METRICS, **COLUMNS)
    assert numbers(found) == numbers(result)
    # Only what was read in another type may be said.
    assert form == "float_ids" or found.to_json() == result.to_json()


def test_a_file_of_an_experiment_says_the_same(frame: pd.DataFrame, tmp_path: Path) -> None:
    frame.to_parquet(tmp_path / "users.parquet")
    (tmp_path / "experiment.toml").write_text(
        """
        name = "table"
        unit = "user_id"
        control = "a"

        [variants]
        a = {}
        b = {}
        c = {}

        [logs.units]
        path = "users.parquet"
        columns = { variant = "grp" }
        covariates = ["visits_before", { value = "spent_before", resolution = 0.1 }]

        [segments]
        country = "country"

        [[metrics]]
        name = "revenue"
        resolution = 0.01

        [[metrics]]
        name = "median"
        value = "revenue"
        quantile = 0.5

        [[metrics]]
        name = "ctr"
        numerator = "click"
        denominator = "views"
        covariates = ["visits_before"]

        [inference]
        adjust = "cuped"
        """
    )
    found = abeval.load(tmp_path / "experiment.toml").analyze()
    for metric, covariates in (
        ("revenue", COVARIATES[::-1]),
        ("ctr = click / views", COVARIATES[1:]),
    ):
        same = abeval.analyze(frame, metrics=[metric], covariates=covariates, **COLUMNS)
        name = metric.split()[0]
        assert found[name, "b"].p_value == pytest.approx(same[name, "b"].p_value, rel=1e-9)
    median = frame[frame.grp == "a"].revenue.median()
    assert found["median", "b"].control == pytest.approx(median, abs=0.005)
    assert {row.cell for row in found.segments} == {"x", "y"}
    assert "Metrics per unit divide by the units of the table." in found.notes
    assert aside(found, "units") == {"used": 6000}
    assert {"clicks_set_aside", "missing_days"}.isdisjoint(check.name for check in found.trust)


def test_other_questions_can_be_asked_of_a_table(frame: pd.DataFrame) -> None:
    loaded = abeval.define(
        name="u",
        unit="user_id",
        control="a",
        variants={"a": {}, "b": {}, "c": {}},
        logs={"units": {"columns": {"variant": "grp"}}},
        metrics=[
            {"name": "revenue"},
            {"name": "rate", "numerator": "click", "denominator": "views"},
        ],
    )
    logs = {"units": frame}
    assert len(loaded.compare("revenue", logs=logs).pairs) == 3
    assert loaded.aa(runs=200, logs=logs)["rate"].runs == 200
    with pytest.raises(AbevalError):
        loaded.windows(logs=logs)


def test_rows_of_a_unit_are_one_or_none(frame: pd.DataFrame, result: Result) -> None:
    """An equal row is a duplicate; rows that differ say nothing that can be believed."""
    copies, others = frame.head(40), frame.iloc[40:90]
    crossed = others.assign(grp=others.grp.map({"a": "b", "b": "c", "c": "a"}))
    table = pd.concat([frame, copies, others.assign(revenue=0.0), crossed])
    found = abeval.analyze(table, metrics=METRICS, **COLUMNS)
    again = abeval.analyze(frame.drop(index=range(40, 90)), metrics=METRICS, **COLUMNS)
    assert aside(found, "units") == {"used": 5950, "duplicate": 40, "repeated_unit": 150}
    assert [r.p_value for r in found.scorecard] == [r.p_value for r in again.scorecard]
    assert next(c for c in found.trust if c.name == "units_set_aside").status == "warn"


def test_a_table_needs_a_column_of_numbers(frame: pd.DataFrame) -> None:
    with pytest.raises(LogError, match="the table has no column of numbers to compare") as refused:
        abeval.analyze(frame[["user_id", "grp"]], unit="user_id", variant="grp")
    assert refused.value.hint == "it has: user_id, grp"


def test_rows_without_an_id_are_units(frame: pd.DataFrame) -> None:
    found = abeval.analyze(frame[["grp", "converted"]], variant="grp")
    assert aside(found, "units") == {"used": 6000}
    assert found["converted", "b"].p_value == pytest.approx(
        TEA_TASTING["b", "converted"][1], rel=1e-9
    )


def test_metrics_have_several_forms(frame: pd.DataFrame, result: Result) -> None:
    odd = frame.rename(columns={"revenue": "revenue, gross", "views": "2 views"})
    forms: list[Any] = [
        ["revenue, gross", "converted", 'ctr = click / "2 views"'],
        {"revenue": "revenue, gross", "converted": "converted", "ctr": ("click", "2 views")},
        [
            {"name": "revenue", "value": '"revenue, gross"'},
            {"name": "converted", "value": "converted"},
            {"name": "ctr", "numerator": "click", "denominator": '"2 views"'},
        ],
    ]
    for metrics in forms:
        found = abeval.analyze(odd, metrics=metrics, **COLUMNS)
        assert [r.p_value for r in found.scorecard] == [r.p_value for r in result.scorecard]
    every = abeval.analyze(frame, covariates=COVARIATES, segments=["country"], **COLUMNS)
    assert {row.metric for row in every.scorecard} == {"revenue", "click", "views", "converted"}
    assert {info.name: info.unit for info in every.metrics}["converted"] == "share"


def test_infinite_values_count_as_nothing(frame: pd.DataFrame) -> None:
    logs = frame.assign(revenue=frame.revenue.astype(float))
    logs.loc[logs.index[:2], "revenue"] = [-np.inf, np.inf]
    plain = frame.assign(revenue=logs.revenue.where(np.isfinite(logs.revenue), 0.0))
    rows = [
        abeval.analyze(one, metrics=["revenue"], missing="zero", **COLUMNS).scorecard
        for one in (logs, plain)
    ]
    assert [row.control for row in rows[0]] == [row.control for row in rows[1]]


def test_control_and_weights_are_named_or_asked(frame: pd.DataFrame) -> None:
    names = {"a": "new", "b": "Control", "c": "other"}
    renamed = frame.assign(grp=frame.grp.map(names))
    found = abeval.analyze(renamed, metrics=["revenue"], **COLUMNS)
    assert found.experiment.control == "Control"
    assert next(c for c in found.trust if c.name == "srm").status == "pass"
    uneven = renamed[(renamed.grp == "new") | (renamed.index % 9 == 0)]
    found = abeval.analyze(uneven, metrics=["revenue"], control="new", **COLUMNS)
    assert found.experiment.control == "new"
    assert next(c for c in found.trust if c.name == "srm").status == "skipped"
    assert {v.decision for v in found.verdicts} == {"draft"}
    assert "weights={'Control': 1, 'new': 1, 'other': 1}" in found.verdicts[0].sentence
    planned = {"new": 9, "Control": 1, "other": 1}
    found = abeval.analyze(uneven, metrics=["revenue"], weights=planned, **COLUMNS)
    assert next(c for c in found.trust if c.name == "srm").status == "pass"
    assert "draft" not in {v.decision for v in found.verdicts}


def test_a_control_that_no_name_tells_is_asked(frame: pd.DataFrame, tmp_path: Path) -> None:
    renamed = frame.assign(grp=frame.grp.map({"a": "one", "b": "two", "c": "three"}))
    found = abeval.analyze(renamed, metrics=["revenue"], **COLUMNS)
    assert {v.decision for v in found.verdicts} == {"draft"}
    assert "Say so: control='one'" in found.verdicts[0].sentence
    named = abeval.analyze(renamed, metrics=["revenue"], control="one", **COLUMNS)
    assert "draft" not in {v.decision for v in named.verdicts}
    file = tmp_path / "uneven.csv"
    renamed[renamed.grp != "two"].query("grp == 'one' or index % 3 == 0").to_csv(file, index=False)
    flags = ["--unit", "user_id", "--variant", "grp", "--metric", "revenue"]
    asked = CliRunner().invoke(app, ["analyze", str(file), *flags, "--gate"])
    assert asked.exit_code == 6
    said = " ".join(asked.output.split())
    assert "--control one" in said
    assert "--weights one=1,three=1" in said
    flags += ["--control", "one", "--weights", "one=3,three=1", "--gate"]
    assert CliRunner().invoke(app, ["analyze", str(file), *flags]).exit_code != 6


@pytest.mark.parametrize(
    ("values", "control"),
    [
        (("Yes", "No"), "No"),
        ((True, False), "false"),
        ((1, 0), "0"),
        ((1.0, 0.0), "0.0"),
        (("тест", "контроль"), "контроль"),
        (("实验组", "对照组"), "对照组"),
        (("ad", "without_ad"), "without_ad"),
        (("new_page", "old_page"), "old_page"),
    ],
)
def test_controls_of_many_names_are_known(
    frame: pd.DataFrame, values: tuple[object, object], control: str
) -> None:
    """The control was the first by name where it was called so, and the sign of effects with it."""
    two = frame[frame.grp != "c"]
    named = two.assign(grp=two.grp.map({"b": values[0], "a": values[1]}))
    found = abeval.analyze(named, metrics=["revenue"], **COLUMNS)
    assert found.experiment.control == control
    expected = two.groupby("grp").revenue.mean()
    assert found["revenue"].difference == pytest.approx(expected["b"] - expected["a"], rel=1e-9)


def test_covariates_may_be_of_one_metric(frame: pd.DataFrame, result: Result) -> None:
    own = {"revenue": ["spent_before", "visits_before"]}
    found = abeval.analyze(frame, metrics=METRICS, covariates=own, **COLUMNS)
    every = abeval.analyze(frame, metrics=["revenue"], covariates=COVARIATES, **COLUMNS)
    assert found["revenue", "b"].p_value == every["revenue", "b"].p_value
    assert found["revenue", "b"].p_value != result["revenue", "b"].p_value
    for metric in ("converted", "ctr"):
        assert found[metric, "b"].p_value == result[metric, "b"].p_value
    assert {one.metric for one in found.adjustments} == {"revenue"}
    # Whole values have a step of 1, and covariates keep theirs.
    fine = frame.assign(before=frame.spent_before / 7)
    first, second = (
        abeval.analyze(fine, metrics=["converted"], covariates=one, **COLUMNS)
        for one in ("before", {"converted": "before"})
    )
    assert first["converted", "b"].p_value == second["converted", "b"].p_value
    with pytest.raises(AbevalError, match="no metric is called 'revenu'; did you mean `revenue`"):
        abeval.analyze(frame, metrics=METRICS, covariates={"revenu": "spent_before"}, **COLUMNS)


def test_a_capped_value_is_adjusted_by_covariates_as_they_are(frame: pd.DataFrame) -> None:
    cap = float(np.quantile(frame.revenue, 0.95, method="higher"))
    by_hand = frame.assign(revenue=frame.revenue.clip(upper=cap))
    capped = [{"name": "revenue", "value": "revenue", "cap": 0.95}]
    asked: dict[str, Any] = {"covariates": COVARIATES, **COLUMNS}
    found = abeval.analyze(frame, metrics=capped, **asked)["revenue", "b"]
    expected = abeval.analyze(by_hand, metrics=["revenue"], **asked)["revenue", "b"]
    for name in ("difference", "difference_low", "difference_high", "p_value"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-9)
    without = abeval.analyze(frame, metrics=capped, **COLUMNS)["revenue", "b"]
    assert expected.difference_high - expected.difference_low < (
        0.9 * (without.difference_high - without.difference_low)
    )


def test_a_cap_does_not_mind_another_metric_s_covariate(frame: pd.DataFrame) -> None:
    metrics = ["revenue", {"name": "before", "value": "spent_before", "cap": 0.99}]
    covariates = {"revenue": ["spent_before"]}
    found = abeval.analyze(frame, metrics=metrics, covariates=covariates, **COLUMNS)
    assert {(one.metric, one.method) for one in found.adjustments} == {
        ("revenue", "cuped"),
        ("before", "cap"),
    }


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"variant": "gpr"}, "did you mean `grp`"),
        ({"variant": "revenue"}, "more than 100 values"),
        ({"unit": "user"}, "no column 'user'"),
        ({"metrics": ["country"]}, "a metric is a number"),
        ({"metrics": ["revenu"]}, "did you mean `revenue`"),
        ({"metrics": ["sum(revenue)"]}, "aggregate"),
        ({"metrics": {"x": ("click", "views", "grp")}}, "a ratio is of two"),
        ({"covariates": ["before"]}, "no column 'before'"),
        ({"segments": ["town"]}, "no column 'town'"),
        ({"control": "x"}, "no variant is called 'x'"),
        ({"weights": {"a": 1, "b": 1}}, "'c' is not in both"),
        ({"period": {"start": "2026-01-01", "end": "2026-02-01"}}, "has no times"),
        ({"inference": {"adjust": "cuped"}}, "covariates"),
    ],
)
def test_mistakes_are_said(frame: pd.DataFrame, changes: dict[str, Any], error: str) -> None:
    chosen: dict[str, Any] = {"metrics": ["revenue"], **COLUMNS, **changes}
    with pytest.raises(AbevalError, match=error):
        abeval.analyze(frame, **chosen)


def doubled(frame: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([frame, frame[["revenue"]]], axis=1)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (doubled, "columns 'revenue' and 'revenue' have one name"),
        (lambda f: f.assign(Revenue=0), "columns 'revenue' and 'Revenue' have one name"),
        (lambda f: f.head(0), "the table has no rows"),
        (lambda f: f[f.grp == "b"], "has one value, 'b', so there is nothing to compare it with"),
        (lambda f: f.assign(grp=None), "has no value in any row"),
        (lambda f: f.assign(grp=f.index % 101), "more than 100 values"),
        (lambda f: f.assign(user_id=f.user_id + 0.5), "has 6,000 values that are no ids"),
        (
            lambda f: f.assign(revenue=f.revenue.astype(object).where(f.index > 3, "n/a")),
            "is text, but a metric is a number: 4 of its 6,000 values are none, such as 'n/a'",
        ),
        (lambda f: f.assign(revenue="high"), "\"is_so = revenue = 'high'\""),
        (lambda f: f.to_dict("list"), "dict is not a frame"),
        (lambda f: pd.concat([f, f.assign(revenue=f.revenue + 1)]), "every unit has several rows"),
        (lambda _: "other.toml", "is an experiment file, not a table"),
    ],
)
def test_frames_that_are_no_table_have_one_message(
    frame: pd.DataFrame, change: Any, error: str
) -> None:
    with pytest.raises(AbevalError) as caught:
        abeval.analyze(change(frame), metrics=["revenue"], **COLUMNS)
    assert error in str(caught.value)
    assert "[" not in str(caught.value).replace("metrics=[", "")


def test_what_is_counted_in_a_text_is_a_metric(frame: pd.DataFrame) -> None:
    found = abeval.analyze(frame, metrics="is_x = country = 'x'", **COLUMNS)
    share = (frame[frame.grp == "b"].country == "x").mean()
    assert found["is_x", "b"].treatment == pytest.approx(share, rel=1e-12)


def test_messages_name_the_entry_that_mends(frame: pd.DataFrame) -> None:
    """One unit has nearly all of the revenue."""
    odd = frame.assign(revenue=frame.revenue.where(frame.index != 7, 1e7))
    trust = abeval.analyze(odd, metrics=["revenue"], **COLUMNS).trust
    (check,) = (check for check in trust if check.name == "influence")
    assert "[[metrics]] cap" in check.remedy
    with pytest.raises(AbevalError, match=r'"cuped" needs \[logs.units\] covariates'):
        abeval.analyze(odd, metrics=["revenue"], inference={"adjust": "cuped"}, **COLUMNS)


_OTHER_SPELLINGS = {"control": "Control ", "b": "B"}


def test_a_variant_in_two_spellings_is_refused(frame: pd.DataFrame, tmp_path: Path) -> None:
    """One row in 20 says `Control ` or `B`: they were variants of their own, and the control."""
    often = frame.grp.replace({"a": "control"})
    spelled = frame.assign(grp=often.where(frame.index % 20 > 0, often.replace(_OTHER_SPELLINGS)))
    spelled.to_csv(tmp_path / "spelled.csv", index=False)
    for form in (spelled, tmp_path / "spelled.csv"):
        with pytest.raises(AbevalError, match="differ only in capitals or spaces") as error:
            abeval.analyze(form, metrics=["revenue"], **COLUMNS)
        assert '[variants.control] of = ["control", "Control "]' in str(error.value)
    joined = {"control": {"of": ["control", "Control "]}, "b": {"of": ["b", "B"]}}
    result = abeval.analyze(spelled, metrics=["revenue"], variants=joined, **COLUMNS)
    assert [v.units for v in result.experiment.variants] == [
        int(frame.grp.isin([name]).sum()) for name in ("a", "b")
    ]
    assert result.experiment.control == "control"


@pytest.mark.parametrize(
    ("names", "control"),
    [
        (("treatment", "a", "Baseline "), "Baseline "),
        (("control", "placebo", "drug"), None),
    ],
)
def test_two_usual_names_of_a_control_are_a_question(
    frame: pd.DataFrame, names: tuple[str, ...], control: str | None
) -> None:
    renamed = frame.assign(grp=frame.grp.map(dict(zip("abc", names, strict=True))))
    if control is None:
        with pytest.raises(AbevalError, match="are all usual names of a control"):
            abeval.analyze(renamed, metrics=["revenue"], **COLUMNS)
        return
    result = abeval.analyze(renamed, metrics=["revenue"], **COLUMNS)
    assert result.experiment.control == control


def test_the_command_answers_without_a_file(
    frame: pd.DataFrame, result: Result, tmp_path: Path
) -> None:
    table, out = tmp_path / "table.csv", tmp_path / "out.json"
    frame.to_csv(table, index=False)
    flags = ["--unit", "user_id", "--variant", "grp", "--metric", "revenue"]
    flags += ["--metric", "converted", "--metric", "ctr=click/views", "--json", str(out)]
    done = CliRunner().invoke(app, ["analyze", str(table), *flags])
    assert done.exit_code == 0, done.output
    rows = json.loads(out.read_text())["scorecard"]
    assert [row["p_value"] for row in rows] == [row.p_value for row in result.scorecard]
    # As of a shell variable that is not set.
    empty = CliRunner().invoke(
        app, ["analyze", str(table), *flags, "--control", "", "--weights", ""]
    )
    assert (empty.exit_code, empty.output) == (0, done.output)
    flags += ["--covariate", "spent_before", "--segment", "country", "--control", "b"]
    done = CliRunner().invoke(app, ["analyze", str(table), *flags])
    assert "cuped" in done.output
    assert "With --all: Adjustments, Segments and notes" in done.output
    whole = CliRunner().invoke(app, ["analyze", str(table), *flags, "--all"])
    assert "country" in whole.output
    for wrong, text in (([], "is a table"), (["--unit", "user_id"], "--variant group")):
        failed = CliRunner().invoke(app, ["analyze", str(table), *wrong])
        assert text in str(failed.exception) + failed.output


def test_names_of_variants_in_a_file_are_text(frame: pd.DataFrame, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    frame.assign(grp=frame.grp.map({"a": "00", "b": "01", "c": "1"})).to_csv(table, index=False)
    found = abeval.analyze(table, metrics=["revenue"], **COLUMNS)
    assert {v.name: v.units for v in found.experiment.variants}.keys() == {"00", "01", "1"}
    assert found["revenue", "01"].p_value == pytest.approx(TEA_TASTING["b", "revenue"][1])


def test_unnamed_columns_of_a_file_tell_duplicates_from_repeated_units(
    frame: pd.DataFrame, tmp_path: Path
) -> None:
    noted = frame.assign(note=frame.index, request_id=7)
    equal, other = noted.head(3), noted.iloc[10:15].assign(note="again")
    file = tmp_path / "users.csv"
    pd.concat([noted, equal, other]).to_csv(file, index=False)
    read = abeval.analyze(file, metrics=METRICS, **COLUMNS)
    assert aside(read, "units") == {"used": 5995, "duplicate": 3, "repeated_unit": 10}
    kept = frame.drop(index=range(10, 15))
    assert read["revenue", "b"].p_value == pytest.approx(
        abeval.analyze(kept, metrics=METRICS, **COLUMNS)["revenue", "b"].p_value, rel=1e-12
    )
    with pytest.raises(AbevalError, match=r"no column 'noted'.*note"):
        abeval.analyze(file, metrics=["noted"], **COLUMNS)


def numbers(result: Result) -> dict[str, Any]:
    """Everything of a result that is computed."""
    said = json.loads(result.to_json())
    return {key: said[key] for key in ("scorecard", "trust", "adjustments")}


def test_tables_of_a_connection_are_read_as_frames(frame: pd.DataFrame, result: Result) -> None:
    connection = duckdb.connect()
    connection.register("frame", frame)
    connection.execute("create temporary table people as select * from frame").fetchall()
    read = abeval.analyze("people", connection=connection, metrics=METRICS, **COLUMNS)
    assert numbers(read) == numbers(result)
    with pytest.raises(AbevalError, match="'persons' cannot be read"):
        abeval.analyze("persons", connection=connection, metrics=METRICS, **COLUMNS)
    with pytest.raises(AbevalError, match="neither of DuckDB nor of ADBC"):
        abeval.analyze("people", connection=object(), metrics=METRICS, **COLUMNS)


def test_lazy_polars_computes_only_what_is_named(frame: pd.DataFrame, result: Result) -> None:
    polars = pytest.importorskip("polars", reason="lazy frames need Polars")

    def refuse(_: object) -> float:
        raise AssertionError("a column that nobody named was computed")

    unread = polars.col("revenue").map_elements(refuse, return_dtype=polars.Float64)
    lazy = polars.LazyFrame(frame.to_dict("list")).with_columns(unread.alias("unread"))
    assert numbers(abeval.analyze(lazy, metrics=METRICS, **COLUMNS)) == numbers(result)


@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")
def test_ibis_tables_are_read_by_their_own_backend(frame: pd.DataFrame, result: Result) -> None:
    ibis = pytest.importorskip("ibis", reason="its tables need Ibis")
    backend = ibis.duckdb.connect()
    backend.con.register("frame", frame)
    backend.con.execute("create table people as select * from frame").fetchall()
    people = backend.table("people")
    lazy = people.mutate(views=people.views * 2).mutate(views=lambda t: t.views / 2)
    assert numbers(abeval.analyze(lazy, metrics=METRICS, **COLUMNS)) == numbers(result)


def test_adbc_tables_are_streams(frame: pd.DataFrame, result: Result) -> None:
    sqlite = pytest.importorskip("adbc_driver_sqlite.dbapi", reason="needs an ADBC driver")
    arrow = pytest.importorskip("pyarrow", reason="ADBC fetches Arrow")
    with sqlite.connect() as connection:
        with connection.cursor() as cursor:
            cursor.adbc_ingest("people", arrow.Table.from_pandas(frame))
        connection.commit()
        read = abeval.analyze("people", connection=connection, metrics=METRICS, **COLUMNS)
    assert numbers(read) == numbers(result)


def test_decimals_of_a_table_are_its_resolution() -> None:
    random = np.random.default_rng(5)
    frame = pd.DataFrame({"id": np.arange(500), "arm": random.choice(["a", "b"], 500)})
    frame["spent"] = random.exponential(9.0, 500).round(2)
    frame["exact"] = random.normal(size=500)
    frame["bought"] = random.integers(0, 2, 500)
    options = TableOptions(variant="arm", unit="id", metrics=["spent", "exact", "bought"])
    experiment, engine = read_table(frame, options)
    engine.close()
    steps = {m.name: m.resolution for m in experiment.metrics}
    assert steps["spent"] == 0.01
    assert steps["exact"] < 1e-9
    assert steps["bought"] == 1


def test_what_costs_should_fall_and_what_may_be_either_decides_nothing() -> None:
    """The treatment is slower and spends more: neither is a reason to ship it."""
    frame = users().assign(latency_ms=lambda x: 100 + 9 * (x.grp == "b") + x.views % 3)
    frame["spend"] = 10 + (frame.grp == "b") + frame.views % 3
    own = frame[["user_id", "grp", "latency_ms", "spend"]]
    result = abeval.analyze(own, unit="user_id", variant="grp")
    assert (result["latency_ms"].direction, result["latency_ms"].status) == ("decrease", "worse")
    assert result["spend"].role == "diagnostic"
    named = abeval.analyze(own, unit="user_id", variant="grp", metrics=["spend"])
    assert named["spend"].role == "goal"


def test_replays_of_two_tables_are_two_experiments() -> None:
    """One split of sorted values for all tables of a size would warn of all of them, or of none."""
    tables = [
        pd.DataFrame({"group": np.where(np.arange(5_000) % 2, "b", "a"), "spend": values})
        for values in np.random.default_rng(7).normal(10, 3, (8, 5_000))
    ]
    results = [abeval.analyze(table, variant="group") for table in tables]
    rates = [result.aa[0].rejection_rate for result in results]
    assert 0.002 < np.std(rates) < 0.01
    again = abeval.analyze(tables[0].sample(frac=1, random_state=1), variant="group")
    assert again.aa == results[0].aa


def split_of(units: list[int]) -> pd.DataFrame:
    """A table of units whose variants have so many."""
    names = np.repeat([f"v{i}" if i else "control" for i in range(len(units))], units)
    return pd.DataFrame({"arm": names, "spent": np.arange(len(names)) % 7})


@pytest.mark.parametrize("arms", [2, 3, 4, 5])
@pytest.mark.parametrize("units", [60, 100, 300, 1_000, 5_000])
def test_sound_equal_splits_are_no_drafts(units: int, arms: int) -> None:
    """An equal split is the plan until units refute it; chance made 26 % of small tables drafts."""
    random = np.random.default_rng([units, arms])
    splits = random.multinomial(units, np.full(arms, 1 / arms), 1_000)
    drafts = sum(refutes_equal_split(dict(enumerate(split))) for split in splits)
    assert drafts <= 10
    result = abeval.analyze(split_of(splits[0].tolist()), variant="arm", metrics=["spent"])
    assert "draft" not in {verdict.decision for verdict in result.verdicts}
    assert next(c for c in result.trust if c.name == "srm").status != "skipped"


def test_no_answer_that_is_offered_repeats_the_units() -> None:
    result = abeval.analyze(split_of([900, 100]), variant="arm", metrics=["spent"])
    (question,) = result.questions
    assert "weights={'control': 1, 'v1': 1} (--weights control=1,v1=1) if equal" in question
    assert "0.9" not in question


def test_a_null_that_is_written_out_is_asked_about_and_left_out(frame: pd.DataFrame) -> None:
    """A third arm of joins that found nothing took half of alpha, and p was that of Holm."""
    two = frame[frame.grp != "c"]
    holes = two.assign(grp=two.grp.where(two.index % 17 > 0, "NULL"))
    asked = abeval.analyze(holes, metrics=["revenue"], **COLUMNS)
    assert "is 'NULL' a variant" in asked.verdicts[0].sentence
    assert {verdict.decision for verdict in asked.verdicts} == {"draft"}
    known = abeval.analyze(two[two.index % 17 > 0], metrics=["revenue"], **COLUMNS)
    assert [row.p_adjusted for row in asked.scorecard] == [
        row.p_adjusted for row in known.scorecard
    ]
    answered = abeval.analyze(holes, metrics=["revenue"], weights={"a": 1, "b": 1}, **COLUMNS)
    assert answered.verdicts[0].decision != "draft"
    every = abeval.analyze(
        holes, metrics=["revenue"], weights={"a": 8, "b": 8, "NULL": 1}, **COLUMNS
    )
    assert {row.variant for row in every.scorecard} == {"b", "NULL"}


def test_a_variant_that_is_called_none_may_be_control(frame: pd.DataFrame) -> None:
    named = frame.assign(grp=frame.grp.map({"a": "None", "b": "sms", "c": "mail"}))
    result = abeval.analyze(named, metrics=["revenue"], **COLUMNS)
    assert result.experiment.control == "None"
    assert not result.questions


def test_a_column_that_is_named_may_have_a_hundred_variants() -> None:
    table = split_of([40] * 21)
    result = abeval.analyze(table, variant="arm", metrics=["spent"])
    assert len(result.experiment.variants) == 21
    assert len(result.scorecard) == 20


@pytest.mark.parametrize("base", [1e3, 1e6, 1e9, 1e12, -1e12])
def test_values_that_differ_by_little_of_their_size_are_right_or_refused(base: float) -> None:
    """1e12 + N(0, 1) gave p .20 where it is .23: values were rounded to digits of their size."""
    random = np.random.default_rng(9)
    frame = pd.DataFrame({"arm": ["a", "b"] * 200, "x": base + random.normal(0, 1, 400)})
    # Without what all share, doubles are exact.
    groups = [frame.x[frame.arm == name] - base for name in "ab"]
    expected = stats.ttest_ind(*groups, equal_var=False).pvalue
    if abs(base) < 1e9:
        (row,) = abeval.analyze(frame, variant="arm", metrics=["x"]).scorecard
        assert row.p_value == pytest.approx(expected, rel=1e-6)
    else:
        with pytest.raises(LogError, match="and differ by"):
            abeval.analyze(frame, variant="arm", metrics=["x"])


def test_columns_from_before_are_no_outcomes_and_the_next_step_names_them() -> None:
    """A test that sees nothing without its covariate stopped, and did not say that it has one."""
    random = np.random.default_rng(4)
    before = np.repeat(random.gamma(2, 10, 1_500), 2)
    frame = pd.DataFrame({"arm": ["a", "b"] * 1_500, "revenue_before": before.round(2)})
    frame["revenue"] = (0.8 * before + random.normal(5, 4, 3_000)).round(2)
    result = abeval.analyze(frame, variant="arm")
    assert {row.metric for row in result.scorecard} == {"revenue"}
    said, names = " ".join(str(result).split()), "With revenue_before from before"
    assert names in said
    adjusted = abeval.analyze(frame, variant="arm", covariates=["revenue_before"])
    assert names not in str(adjusted)
    assert (adjusted.scorecard[0].mde or 1) < 0.5 * (result.scorecard[0].mde or 0)


def test_an_expression_of_a_table_that_cannot_be_computed_is_named() -> None:
    frame = pd.DataFrame({"group": ["a", "b"] * 20, "x": range(40)})
    with pytest.raises(ExperimentError, match=r"'round\(x > 1, 2\)' cannot be computed") as caught:
        abeval.analyze(frame, variant="group", metrics=["y = round(x > 1, 2)"])
    assert "check the types of its columns" in str(caught.value.hint)
    with pytest.raises(ExperimentError, match="'x;' is not one SQL expression"):
        abeval.analyze(frame, variant="group", metrics=["y = x;"])


@pytest.mark.parametrize(
    "name", ["a--b", '"plan"', "plan /* of */", "a.b", "1st", "select", "Näme"]
)
def test_a_segment_is_a_column_whatever_its_name(name: str) -> None:
    rows = {"grp": ["a", "b"] * 200, "x": [1, 2, 3, 5] * 100, name: ["p", "p", "q", "q"] * 100}
    result = abeval.analyze(pd.DataFrame(rows), variant="grp", metrics=["x"], segments=[name])
    assert {row.cell for row in result.segments} == {"p", "q"}


def test_a_name_that_no_file_can_have_is_refused() -> None:
    with pytest.raises(LogError, match="cannot be read: File name too long"):
        abeval.analyze("z" * 400 + ".csv", variant="g")
