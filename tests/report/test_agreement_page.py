"""What is concluded of offline and online results, and what to do next."""

from __future__ import annotations

from dataclasses import replace

from abeval.report.agreement_page import conclude_variants
from abeval.results.agreement import Agreement, AgreementRow, Cause, Explanation, Gap

ROW = AgreementRow(
    variant="b",
    offline="auc",
    online="ctr",
    role="goal",
    difference=0.01,
    low=0.005,
    high=0.015,
    lift=0.02,
    lift_low=0.01,
    lift_high=0.03,
    standing="agree",
    reason=None,
    offline_strength=2.0,
    online_strength=2.0,
)
CHECKED = Cause("position_bias", "b", "not found", "Position bias: none was seen")


def conclude(row: AgreementRow, gap: Gap | None = None) -> tuple[str, str]:
    """The reason and the next step of an agreement of one pair of metrics."""
    explanation = Explanation("b", row.offline, row.online, row.standing, (), gap)
    agreement = Agreement(
        *("1", "experiment", 0.05, (explanation,), (row,), (), (), (), (CHECKED,), (), ())
    )
    (line,) = conclude_variants(agreement)
    return line.why, line.action


def test_an_agreement_is_one_case_for_a_history() -> None:
    why, step = conclude(ROW)
    assert why == "there is no gap to explain."
    assert "abeval history add" in step


def test_a_pair_that_cannot_be_compared_says_why() -> None:
    why, step = conclude(replace(ROW, standing="inconclusive", reason="too_few_units"))
    assert why == "they cannot be compared: too few units."
    assert step == "Mend that, and run again."


def test_a_gap_within_noise_is_told() -> None:
    row = replace(ROW, standing="offline only", online_strength=0.5)
    gap = Gap("b", "ctr", 0.02, 0.01, 0.03, 0.01, -0.01, 0.03, (), -0.01, -0.03, 0.01)
    assert conclude(row, gap)[0] == "what its order promised came, within noise."
    apart = replace(gap, unexplained=-0.05, unexplained_low=-0.07, unexplained_high=-0.03)
    assert conclude(row, apart)[0].startswith("none of the 1 causes that could be checked")


def test_a_conflict_without_a_cause_is_decided_online() -> None:
    why, step = conclude(replace(ROW, standing="conflict", online_strength=-2.0))
    assert why == "none of the 1 causes that could be checked explains it."
    assert step == "Decide by the online result; auc did not predict it."
