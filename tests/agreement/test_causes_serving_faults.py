"""Faults of training, scoring and serving: planted, left out, and without the columns they need."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.agreement import clusters
from abeval.agreement.causes.serving import is_clipped, is_rounded
from abeval.agreement.clusters import estimate_strata
from abeval.errors import ExperimentError
from abeval.results.agreement import Agreement
from abeval.stats.records import Estimate
from tests.worlds.plants import simulate_plant

SIZE = 10_000
LARGER = {
    "timeouts": 20_000,
    "half_precision": 20_000,
    "cannibalised": 40_000,
    "reversed_cut": 80_000,
}
METRICS = ["auc"]
PLANTED = {
    "leaked_feature": "leakage",
    "overlap": "overlap",
    "skewed_scores": "served_score",
    "half_precision": "half_precision",
    "stale_model": "stale_model",
    "timeouts": "serving",
    "cannibalised": "cannibalised",
    "reversed_cut": "reversal",
}
FAULTS = {*PLANTED.values(), "overfitting"} - {"reversal"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A log with each fault, and one with none."""
    folder = tmp_path_factory.mktemp("faults")
    for name in (*PLANTED, "none"):
        simulate_plant(folder / name, name, LARGER.get(name, SIZE))
    return {path.name: path for path in folder.iterdir()}


@pytest.fixture(scope="module")
def planted(folders: dict[str, Path]) -> dict[str, Agreement]:
    return {
        name: abeval.load(folders[name] / "experiment.toml").agree(metrics=METRICS)
        for name in PLANTED
    }


@pytest.mark.first_cases(1)
@pytest.mark.whole
@pytest.mark.parametrize(("world", "cause"), PLANTED.items())
def test_a_planted_fault_is_first(planted: dict[str, Agreement], world: str, cause: str) -> None:
    first = planted[world].confirmed_causes[0]
    assert first.name == cause
    assert first.p_adjusted is not None
    assert first.p_adjusted <= 0.05
    assert first.evidence
    assert first.remedy


@pytest.mark.whole
def test_only_overfitting_is_named_beside_a_fault(planted: dict[str, Agreement]) -> None:
    """An overlap is learned by heart, so it is overfitting too."""
    beside = {w: {c.name for c in planted[w].confirmed_causes[1:]} & FAULTS for w in PLANTED}
    assert {world: names for world, names in beside.items() if names} == {
        "overlap": {"overfitting"}
    }


@pytest.mark.whole
def test_the_evidence_of_faults_is_what_was_planted(planted: dict[str, Agreement]) -> None:
    def value(world: str, cause: str, name: str, where: str) -> float:
        known = planted[world][cause].evidence
        return next(e.value for e in known if e.name == name and e.where == where) or 0.0

    assert value("leaked_feature", "leakage", "rows with a later feature", "") == 1
    alone = "AUC of a feature alone"
    assert value("leaked_feature", "leakage", alone, "recent_clicks") == pytest.approx(
        0.983, abs=0.01
    )
    share = "control's rows in the training data"
    assert value("overlap", "overlap", share, "control") == pytest.approx(0.6, abs=0.05)
    assert value("timeouts", "serving", "rows with timeout", "treatment") == pytest.approx(
        0.26 * 10 / 14, abs=0.03
    )
    assert value("half_precision", "half_precision", "different served scores", "treatment") <= 4
    assert value("stale_model", "stale_model", "versions of the model", "treatment") == 1


@pytest.mark.whole
def test_columns_that_are_missing_are_named(folders: dict[str, Path]) -> None:
    loaded = abeval.load(folders["none"] / "experiment.toml")
    frame = pd.read_parquet(folders["none"] / "impressions" / "log.parquet")
    frame = frame.drop(columns=["timeout", "fallback"])
    entries = {
        "agreement": {},
        "logs": {"impressions": {"columns": {"ts": "time"}}},
    }
    agreement = loaded.replace(**entries).agree(metrics=METRICS, logs={"impressions": frame})
    causes = {cause.name: cause for cause in agreement.causes}
    assert {causes[name].status for name in FAULTS} == {"cannot be checked"}
    assert causes["overlap"].needs == ("[logs.training]",)
    assert causes["served_score"].needs == ("[agreement] served_score",)
    assert causes["cannibalised"].needs == ("[agreement] treated",)
    assert "[agreement] latency" in causes["serving"].needs
    assert "[agreement] feature_time" in causes["leakage"].needs


@pytest.mark.whole
def test_without_times_and_features_no_leak_is_claimed(folders: dict[str, Path]) -> None:
    loaded = abeval.load(folders["leaked_feature"] / "experiment.toml")
    leak = loaded.replace(agreement={"served_score": "served_score"}).agree(metrics=METRICS)
    assert leak["leakage"].status == "cannot be checked"
    assert leak["leakage"].needs == ("[agreement] feature_time", "[agreement] features")
    assert leak.confirmed_causes[0].name == "served_score"


@pytest.mark.whole
def test_training_data_may_lack_the_key_of_a_row(folders: dict[str, Path]) -> None:
    loaded = abeval.load(folders["overlap"] / "experiment.toml")
    training = pd.read_parquet(folders["overlap"] / "training.parquet").drop(columns="item_id")
    agreement = loaded.agree(metrics=METRICS, logs={"training": training})
    assert agreement["overlap"].status == "cannot be checked"
    assert agreement["overfitting"].status == "found"


@pytest.mark.whole
def test_where_the_treatment_acts_is_an_expression(folders: dict[str, Path]) -> None:
    loaded = abeval.load(folders["none"] / "experiment.toml")
    with pytest.raises(ExperimentError, match="treated"):
        loaded.replace(agreement={"treated": "scene ="})


def served(values: np.ndarray, own: np.ndarray) -> dict[str, float]:
    order = np.lexsort((values, own))
    inside = (own > values.min()) & (own < values.max())
    return {
        "compared": float(len(own)),
        "own_values": float(len(np.unique(own))),
        "served_values": float(len(np.unique(values))),
        "own_most": 1.0,
        "served_most": float(np.unique(values, return_counts=True)[1].max()),
        "falls": float((np.diff(values[order]) < 0).sum()),
        "own_short": 0.0,
        "served_short": float((values.astype(np.float16) == values).sum()),
        "lowest": float(values.min()),
        "highest": float(values.max()),
        "floored": float((own < values.min()).sum()),
        "capped": float((own > values.max()).sum()),
        "inside": float(inside.sum()),
        "moved": float((inside & (values != own)).sum()),
    }


def test_rounding_keeps_the_order_and_loses_values() -> None:
    own = np.random.default_rng(3).uniform(0.01, 0.4, 5_000)
    assert is_rounded(served(np.round(own, 2), own))
    assert is_rounded(served(own.astype(np.float16).astype(np.float64), own))
    assert not is_rounded(served(own, own))
    assert not is_rounded(served(np.round(own[::-1], 2), own))


def test_a_cap_or_a_floor_moves_only_what_is_beyond_it() -> None:
    own = np.random.default_rng(3).uniform(0.01, 0.4, 5_000)
    for capped in (np.minimum(own, 0.02), np.maximum(own, 0.3), np.clip(own, 0.1, 0.2)):
        assert is_clipped(served(capped, own))
        assert not is_rounded(served(capped, own))
    assert is_clipped(served(np.full(5_000, 0.005), own))
    assert not is_clipped(served(np.full(5_000, 0.2), own))
    assert not is_clipped(served(np.round(own, 2), own))
    assert not is_clipped(served(own, own))


def test_a_share_is_tested_against_its_limit() -> None:
    rows = pd.DataFrame(
        {"side": "variant", "cluster": range(64), "bad": [2, 3] * 32, "known": [100] * 64}
    )
    bad = clusters.share(rows, "variant", "bad", "known")
    assert bad is not None
    assert bad.value == 0.025
    assert clusters.compute_p_above(bad, 0.01) < 1e-6
    assert clusters.compute_p_above(bad, 0.025) == pytest.approx(0.5)
    assert clusters.compute_p_above(Estimate(0.0, 0.0, 64, 63.0), 0.01) == 1.0
    assert clusters.share(rows, "control", "bad", "known") is None


def test_the_auc_of_one_value_is_that_of_its_pairs() -> None:
    rng = np.random.default_rng(4)
    value = rng.integers(0, 6, 400).astype(float)
    click = rng.random(400) < 0.1 + value / 20
    above = (value[click][:, None] > value[~click]).mean()
    tied = (value[click][:, None] == value[~click]).mean()
    beaten = [
        2 * (value[~click] < v).sum() + (value[~click] == v).sum()
        if c
        else 2 * (value[click] > v).sum() + (value[click] == v).sum()
        for v, c in zip(value, click, strict=True)
    ]
    rows = pd.DataFrame(
        {
            "part": "x",
            "variant": "a",
            "cluster": np.arange(400) % 64,
            "pairs": np.where(click, (~click).sum(), click.sum()),
            "baseline_halves": beaten,
            "candidate_halves": beaten,
        }
    )
    sums = rows.groupby(["part", "variant", "cluster"], as_index=False).sum()
    both = estimate_strata(sums, "a", "x")
    assert both is not None
    auc = both.candidate
    assert auc.value == pytest.approx(above + tied / 2)
    assert not math.isnan(auc.variance)
