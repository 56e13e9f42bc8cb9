"""The sample's three results that contradict each other, joined: the numbers and the reason."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import abeval
from abeval.agreement.causes import CAUSES
from abeval.cli.main import app
from abeval.results.agreement import Agreement, agreement_from_dict
from tests import sample

SAMPLE = "sample_logs/experiment.toml"
GOLDEN = Path(__file__).parents[1] / "golden" / "sample_agreement.json"


@pytest.fixture(scope="module")
def agreement() -> Agreement:
    return sample.agreement()


@pytest.mark.slow
@pytest.mark.whole
def test_the_matrix_has_both_models_on_both_traffics(agreement: Agreement) -> None:
    auc = {(c.model, c.traffic): c.value for c in agreement.matrix if c.metric == "auc"}
    assert auc == {
        ("baseline", "control"): pytest.approx(0.702, abs=1e-3),
        ("candidate", "control"): pytest.approx(0.683, abs=1e-3),
        ("baseline", "treatment"): pytest.approx(0.647, abs=1e-3),
        ("candidate", "treatment"): pytest.approx(0.733, abs=1e-3),
    }
    metrics = {cell.metric for cell in agreement.matrix}
    assert metrics == {"auc", "gauc[impressions]", "q_ctr", "log_loss"}


@pytest.mark.slow
@pytest.mark.whole
def test_the_same_logs_give_the_same_digits(agreement: Agreement) -> None:
    """Threads finish in any order; the digest of a result may not depend on it."""
    assert abeval.load(SAMPLE).agree().to_json() == agreement.to_json()


@pytest.mark.whole
def test_the_logged_difference_is_the_sum_of_model_and_traffic(agreement: Agreement) -> None:
    auc = next(part for part in agreement.decompositions if part.metric == "auc")
    assert (auc.logged, auc.model, auc.traffic) == (
        pytest.approx(0.0316, abs=1e-3),
        pytest.approx(0.0341, abs=1e-3),
        pytest.approx(-0.0024, abs=1e-3),
    )
    for part in agreement.decompositions:
        assert part.model + part.traffic == pytest.approx(part.logged, abs=1e-12)


@pytest.mark.whole
def test_auc_on_controls_traffic_and_ctr_are_a_conflict(agreement: Agreement) -> None:
    row = next(r for r in agreement.rows if (r.offline, r.online) == ("auc", "ctr"))
    assert row.standing == "conflict"
    assert row.high < 0 < row.lift_low
    others = {other.traffic: other.standing for other in row.others}
    assert others == {"treatment": "agree", "pooled": "agree"}
    assert "contradict" in agreement.explanations[0].sentences[0]


@pytest.mark.whole
def test_position_is_the_first_cause_and_no_fault_is_found(agreement: Agreement) -> None:
    first = agreement.confirmed_causes[0]
    assert (first.name, first.rank, first.accounts_for) == ("position", 1, 1.0)
    within = [e for e in first.evidence if e.name == "AUC difference within positions"]
    values = {e.where: e.value for e in within}
    assert values == {
        "control": pytest.approx(0.042, abs=4e-3),
        "treatment": pytest.approx(0.021, abs=4e-3),
    }
    assert all(e.low > 0 for e in within)


@pytest.mark.whole
def test_every_cause_is_in_the_json(agreement: Agreement) -> None:
    raw = json.loads(agreement.to_json())
    assert {cause["name"] for cause in raw["causes"]} == {check.name for check in CAUSES}
    assert all(cause["message"] for cause in raw["causes"])
    assert all(c["needs"] for c in raw["causes"] if c["status"] == "cannot be checked")
    assert agreement_from_dict(raw) == agreement


@pytest.mark.whole
def test_two_results_are_compared_without_the_logs(agreement: Agreement) -> None:
    replay = abeval.load(SAMPLE).replay(metrics=["auc"])
    compared = sample.analysis().compare(replay)
    of_auc = [row for row in agreement.rows if row.offline == "auc"]
    assert list(compared.rows) == of_auc
    assert compared["position"].status == "cannot be checked"
    assert compared["position"].needs == ("the logs (abeval agree)",)


@pytest.mark.whole
def test_the_command_prints_the_reason_and_writes_json(agreement: Agreement, tmp_path) -> None:
    file = tmp_path / "r.json"
    shown = CliRunner().invoke(app, ["agree", SAMPLE, "--metric", "auc", "--json", str(file)])
    assert shown.exit_code == 0, shown.output
    assert "Why: Position" in shown.stdout
    again = agreement_from_dict(json.loads(file.read_text()))
    assert again.causes[0].evidence == agreement.causes[0].evidence
    assert again.positions == agreement.positions


@pytest.mark.whole
def test_strengths_are_half_widths_turned_so_that_more_is_better(agreement: Agreement) -> None:
    by_name = {row.offline: row for row in agreement.rows if row.online == "ctr"}
    auc, loss = by_name["auc"], by_name["log_loss"]
    assert auc.offline_strength == pytest.approx((auc.low + auc.high) / (auc.high - auc.low))
    assert loss.difference < 0 < loss.offline_strength


def golden_of(agreement: Agreement) -> dict[str, Any]:
    """What must stay as it is: the models on traffics, and what each cause says."""
    return {
        "standings": {f"{r.offline} {r.online}": r.standing for r in agreement.rows},
        "matrix": [asdict(cell) for cell in agreement.matrix],
        "decompositions": [asdict(part) for part in agreement.decompositions],
        "causes": [asdict(cause) for cause in agreement.causes],
    }


def same(value: object, known: object) -> bool:
    """Equal to the ninth digit of every number."""
    if isinstance(known, dict):
        assert isinstance(value, dict)
        return value.keys() == known.keys() and all(same(value[k], known[k]) for k in known)
    if isinstance(known, list):
        assert isinstance(value, list | tuple)
        return len(value) == len(known) and all(map(same, value, known))
    if isinstance(known, float):
        return value == pytest.approx(known, rel=1e-9, abs=1e-300)
    return value == known


@pytest.mark.whole
def test_the_agreement_is_what_it_was(agreement: Agreement) -> None:
    """Regenerate with: python -m tests.agreement.test_agree_sample, and read the difference."""
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    now = golden_of(agreement)
    assert now["standings"] == golden["standings"]
    for part in ("matrix", "decompositions", "causes"):
        for row, known in zip(now[part], golden[part], strict=True):
            assert same(row, known), (row, known)


if __name__ == "__main__":
    made = golden_of(abeval.load(SAMPLE).agree())
    GOLDEN.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
