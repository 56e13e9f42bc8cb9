"""Each cause on a world that has it, and on one that has not."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.agreement.case import CauseContext, Finding, Unchecked
from abeval.agreement.causes import CAUSES
from abeval.agreement.compare import compare, write_explanation
from abeval.agreement.standing import SignedInterval, find_standing
from abeval.results.agreement import Agreement, AgreementRow, Backtest
from abeval.results.analysis import Ramp
from abeval.results.effects import CutRow
from abeval.results.record import list_columns
from abeval.results.replay import ReplayResult
from tests.real_logs import open_bandit
from tests.worlds.plants import simulate_plant

METRICS = ["auc", "q_ctr", "gauc[impressions]"]
CHECKS = {check.name: check for check in CAUSES}


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Agreement]:
    """The agreement of a log with each cause of this half, and of one with none."""
    agreements = {}
    for cause in ("none", "position", "promotion", "miscalibration"):
        folder = tmp_path_factory.mktemp(cause)
        simulate_plant(folder, cause, impressions=30_000)
        loaded = abeval.load(folder / "experiment.toml")
        agreements[cause] = loaded.agree(metrics=METRICS)
    return agreements


@pytest.mark.whole
def test_nothing_is_found_where_nothing_is_planted(planted: dict[str, Agreement]) -> None:
    assert planted["none"].confirmed_causes == ()
    assert planted["none"].explanations[0].standing == "agree"
    assert planted["none"].explanations[0].sentences[-1] == "There is no gap to explain."


@pytest.mark.whole
@pytest.mark.parametrize(
    ("world", "cause"),
    [("position", "position"), ("promotion", "promotion"), ("miscalibration", "calibration")],
)
def test_a_planted_cause_is_first(planted: dict[str, Agreement], world: str, cause: str) -> None:
    first = planted[world].confirmed_causes[0]
    assert (first.name, first.rank) == (cause, 1)
    assert first.remedy
    assert first.p_adjusted is not None
    assert first.p_adjusted <= 0.05


@pytest.mark.whole
def test_calibration_names_the_position_that_is_furthest_from_its_clicks(
    planted: dict[str, Agreement],
) -> None:
    (cause,) = [c for c in planted["miscalibration"].causes if c.name == "calibration"]
    cells = {e.name: e for e in cause.evidence if ", position " in e.where}
    assert set(cells) == {
        "Q of the baseline, furthest from 1",
        "Q of the candidate, furthest from 1",
    }
    worst = cells["Q of the candidate, furthest from 1"]
    assert worst.low is not None
    assert worst.low > 1 or (worst.high or 1) < 1


def case(**changes: object) -> CauseContext:
    result = abeval.load("sample_logs/experiment.toml").replace(metrics=[{"name": "ctr"}]).analyze()
    known = CauseContext("control", "treatment", "baseline", "candidate", 0.05, result, None)
    return replace(known, **changes)


@pytest.fixture(scope="module")
def plain() -> CauseContext:
    return case()


@pytest.fixture(scope="module")
def gauc() -> ReplayResult:
    return abeval.load("sample_logs/experiment.toml").replay(metrics=["gauc[impressions]"])


def judged(name: str, of: CauseContext) -> Finding | Unchecked:
    return CHECKS[name].judge(of)


def test_support_counts_items_that_control_never_showed(plain: CauseContext) -> None:
    cluster = np.arange(64)
    even = cluster[cluster % 2 == 0]
    sides = pd.concat(
        [
            pd.DataFrame({"side": "control", "cluster": even, "unsupported": 5}),
            pd.DataFrame({"side": "variant", "cluster": cluster, "unsupported": 30 + cluster % 3}),
        ]
    ).assign(impressions=100, clicks=10, unsupported_clicks=1)
    weights = pd.DataFrame({"control_rows": [100], "weight": [50.0], "squared_weight": [100.0]})
    finding = judged("support", replace(plain, facts={"support": sides, "weights": weights}))
    assert finding.exceeds
    assert finding.evidence[2].value == pytest.approx(0.31 - 0.05, abs=0.001)
    assert finding.evidence[3].value == pytest.approx(50**2 / 100 / 100)
    same = sides.assign(unsupported=5)
    assert not judged(
        "support", replace(plain, facts={"support": same, "weights": weights})
    ).exceeds


def test_a_changed_split_a_short_window_and_a_failed_check_are_facts(plain: CauseContext) -> None:
    assert not judged("split", plain).exceeds
    ramps = (Ramp("2026-09-14", "2026-09-15", {"treatment": 0.1}),)
    ramps += (Ramp("2026-09-16", "2026-09-27", {"treatment": 0.5}),)
    ramped = replace(plain, result=replace(plain.result, ramps=ramps))
    assert judged("split", ramped).exceeds
    assert not judged("window", plain).exceeds
    few = tuple(row for row in plain.result.daily if row.cell < "2026-09-18")
    assert judged("window", replace(plain, result=replace(plain.result, daily=few))).exceeds
    assert not judged("trust", plain).exceeds
    failed = replace(plain.result.trust[0], status="fail", metrics=None)
    doubted = replace(plain, result=replace(plain.result, trust=(failed,)))
    assert judged("trust", doubted).exceeds
    assert failed.message in judged("trust", doubted).message


def cut(cell: str, lift: float, half: float) -> CutRow:
    ends = (lift, lift - half, lift + half)
    head = ("ctr", "treatment", "scene", cell, 900, 900, 0.5, 0.5, 0.1, 0.1 * (1 + lift))
    values = (*head, *(0.1 * end for end in ends), *ends, 0.01, 0.02, None)
    return CutRow(**dict(zip(list_columns(CutRow), values, strict=True)))


def test_a_cut_whose_effect_turns_is_a_reversal(plain: CauseContext) -> None:
    row = AgreementRow(
        *("treatment", "auc", "ctr", "goal", 0.05, 0.04, 0.06, 0.01, -0.02, 0.04, "offline only"),
        reason=None,
    )
    turned = (cut("app", 0.2, 0.05), cut("web", -0.2, 0.05))
    result = replace(plain.result, segments=(), cuts=turned)
    finding = judged("reversal", replace(plain, result=result, gap=row))
    assert finding.exceeds
    assert finding.p_value < 1e-6
    assert [item.where for item in finding.evidence] == ["scene app", "scene web"]
    alike = replace(plain.result, segments=(), cuts=(cut("app", 0.2, 0.05), cut("web", 0.1, 0.05)))
    assert not judged("reversal", replace(plain, result=alike, gap=row)).exceeds
    none = replace(plain.result, segments=(), cuts=())
    needs = judged("reversal", replace(plain, result=none, gap=row)).needs
    assert needs == ("[segments]", "[cuts]")


def test_a_reversal_of_what_should_fall_has_the_signs_of_the_scorecard(
    plain: CauseContext, gauc: ReplayResult
) -> None:
    """More is worse: the effect of -2 % is good, and offline says better too."""
    row = AgreementRow(
        *("treatment", "auc", "ctr", "goal", 0.05, 0.04, 0.06, -0.02, -0.05, 0.01, "offline only"),
        reason=None,
    )
    online = replace(plain.result.scorecard[0], direction="decrease", lift=-0.02)
    cells = (cut("app", -0.2, 0.05), cut("web", 0.19, 0.05))
    result = replace(plain.result, scorecard=(online,), segments=(), cuts=cells)
    first, better = gauc.pairs[0], (0.7, 0.75, 0.05, 0.04, 0.06)
    numbers = dict(
        zip(("value_control", "value", "difference", "low", "high"), better, strict=True)
    )
    pair = replace(first, metric="auc", traffic="control", **numbers)
    known = replace(plain, result=result, gap=row, replay=replace(gauc, pairs=(pair,)))
    finding = judged("reversal", known)
    assert finding.exceeds
    assert "-20.0% in app and +19.0% in web" in finding.message
    assert [item.value for item in finding.evidence] == pytest.approx([-0.2, 0.19])
    # Without the web the effect is -20 %, of which -2 % is left: 18 of 20 are taken away.
    assert finding.accounts_for == pytest.approx(0.9)


def test_who_has_a_gauc_explains_no_auc(plain: CauseContext, gauc: ReplayResult) -> None:
    rows = tuple(
        replace(
            r, left_out=(("single_class_units", r.units // (2 if r.traffic == "control" else 5)),)
        )
        for r in gauc.rows
    )
    known = replace(plain, replay=replace(gauc, rows=rows))
    words = ("treatment", "gauc[impressions]", "ctr", "goal", 0.0, -0.1, 0.1, 0.1, 0.05, 0.2)
    gap = AgreementRow(*words, "online only", reason=None)
    assert judged("eligibility", replace(known, gap=gap)).exceeds
    finding = judged("eligibility", replace(known, gap=replace(gap, offline="auc")))
    assert not finding.exceeds
    assert finding.evidence[2].value == pytest.approx(0.3, abs=0.01)


def test_a_backtest_is_found_by_its_z(plain: CauseContext) -> None:
    row = Backtest("treatment", "control", "treatment", "snips", 0.1, 0.09, 0.11, 0.2, -5.0, None)
    assert judged("backtest", replace(plain, backtests=(row,))).exceeds
    near = replace(row, z=0.4)
    assert not judged("backtest", replace(plain, backtests=(near,))).exceeds
    assert judged("backtest", plain).needs == ("propensity", "item_id")


def test_open_bandit_has_the_backtest_of_off_policy_both_ways() -> None:
    loaded = open_bandit()
    z = {
        (row.source, row.target): row.z
        for row in loaded.agree().backtests
        if row.estimator == "snips"
    }
    assert z == {
        ("random", "bts"): pytest.approx(-0.71, abs=0.01),
        ("bts", "random"): pytest.approx(-1.35, abs=0.01),
    }
    assert z["random", "bts"] == loaded.off_policy("random", to="bts")["snips"].z


def test_another_experiments_replay_is_refused(plain: CauseContext, gauc: ReplayResult) -> None:
    with pytest.raises(ValueError, match="another"):
        compare(plain.result, replace(gauc, name="another"))


def test_a_missing_column_is_named_and_fails_no_run(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(
        {
            "user": rng.integers(0, 900, 6000),
            "click": rng.integers(0, 2, 6000),
            "a": rng.random(6000),
            "b": rng.random(6000),
        }
    )
    loaded = abeval.define(
        name="bare",
        unit="user",
        control="x",
        variants={"x": {"model": "a"}, "y": {"model": "b"}},
        models={"a": {"score": "a"}, "b": {"score": "b"}},
        assignment={"salt": "s"},
        logs={"impressions": {"path": "none.csv"}},
        metrics=[{"name": "ctr", "role": "goal"}],
    )
    agreement = loaded.agree(metrics=["auc"], logs={"impressions": rows})
    assert agreement.confirmed_causes == ()
    assert "no column item_id" in agreement.notes[0]
    assert agreement.rows == ()
    assert agreement["position"].needs == ("position",)
    assert agreement["support"].needs == ("item_id",)
    assert "would show" in agreement["position"].message


def few(models: dict[str, str | None]) -> Agreement:
    """The agreement of two variants with few users, whose models are named."""
    rng = np.random.default_rng(2)
    rows = pd.DataFrame({"user": rng.integers(0, 900, 6000), "s": rng.random(6000)})
    rows["click"] = (rng.random(6000) < np.where(rows["user"] < 450, 0.2, 0.4)).astype(int)
    rows["side"] = np.where(rows["user"] < 450, "x", "y")
    loaded = abeval.define(
        name="bare",
        unit="user",
        control="x",
        variants={name: {} if own is None else {"model": own} for name, own in models.items()},
        models={"a": {"score": "s"}},
        logs={"impressions": {"path": "none.csv", "columns": {"variant": "side"}}},
        metrics=[{"name": "ctr", "role": "goal"}],
    )
    return loaded.agree(metrics=["auc"], logs={"impressions": rows})


@pytest.mark.parametrize("models", [{"x": "a", "y": "a"}, {"x": "a", "y": None}])
def test_one_model_is_no_replay_and_fails_no_run(models: dict[str, str | None]) -> None:
    agreement = few(models)
    assert agreement.rows == ()
    assert "no two models" in agreement.notes[0]
    assert agreement["position"].status == "cannot be checked"


def test_a_side_without_an_interval_is_inconclusive_and_never_no_difference() -> None:
    unknown, better = SignedInterval(None, None, "not_replayed"), SignedInterval(0.1, 0.3)
    assert find_standing(unknown, better) == find_standing(better, unknown) == "inconclusive"
    assert find_standing(SignedInterval(-0.1, 0.1), better) == "online only"


def test_a_variant_without_a_model_of_its_own_says_so(plain: CauseContext) -> None:
    row = AgreementRow(
        *("treatment", "auc", "ctr", "goal", None, None, None, 0.01, -0.02, 0.04, "inconclusive"),
        reason="not_replayed",
    )
    said = write_explanation(replace(plain, candidate="baseline"), row, ())
    assert "no two models" in said.sentences[0]
    assert "cannot be compared (not replayed)" in said.sentences[0]
