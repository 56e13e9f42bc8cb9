"""The bill of a gap, of planted worlds through the whole command, against true click chances."""

import json
from functools import cache

import pytest

from abeval.results.agreement import Agreement, Gap
from benchmarks.calibration.gaps import CLEAN, FAULTS, Log, agree, draw_log

SEED = 2


@cache
def planted(name: str, strength: float) -> tuple[Log, Agreement]:
    fault = next(fault for fault in (*FAULTS, CLEAN) if fault.name == name)
    log = draw_log(fault, strength, SEED)
    return log, agree(log)


def bill(name: str, strength: float) -> Gap:
    gap = planted(name, strength)[1].gap
    assert gap is not None
    return gap


def total(gap: Gap) -> float:
    assert gap.promised is not None
    assert gap.unexplained is not None
    return gap.promised + sum(part.points for part in gap.causes) + gap.unexplained


@pytest.mark.first_cases(1)
@pytest.mark.whole
@pytest.mark.parametrize(
    ("name", "strength", "cause"),
    [
        ("clock", 1.0, "served_score"),
        ("category", 3.0, "candidates"),
        ("shuffle", 24.0, "reordered"),
        ("labels", 0.5, "labels"),
        ("labels", 0.2, "labels"),
        ("timeouts", 0.45, "serving"),
        ("elsewhere", 0.5, "cannibalised"),
    ],
)
def test_a_fault_that_shrinks_a_gain_is_named_first_and_sized(
    name: str, strength: float, cause: str
) -> None:
    log, agreement = planted(name, strength)
    gap = bill(name, strength)
    truth = log.came - log.clean
    assert agreement.confirmed_causes[0].name == cause
    assert (gap.causes[0].name, gap.causes[0].p_value) != ("", None)
    assert abs(gap.causes[0].points - truth) < 0.25 * abs(truth)
    assert gap.causes[0].points_low < gap.causes[0].points < gap.causes[0].points_high < 0
    assert gap.came is not None
    assert abs(total(gap) - gap.came) < 1e-12


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("share", [0.3, 0.7])
def test_what_a_model_learned_is_the_part_of_the_promise_that_is_too_large(share: float) -> None:
    log, gap = planted("learned", share)[0], bill("learned", share)
    assert gap.promised is not None
    assert [cause.name for cause in gap.causes[:1]] == ["overlap"]
    assert gap.promised > 1.5 * log.clean
    assert gap.promised + gap.causes[0].points == pytest.approx(log.clean, abs=0.06)


@pytest.mark.slow
def test_a_weak_fault_is_named_where_its_test_is_sure() -> None:
    """It takes a fifth of the clicks of a part of the traffic."""
    fault = next(fault for fault in FAULTS if fault.name == "elsewhere")
    assert agree(draw_log(fault, 0.2, 102)).confirmed_causes[0].name == "cannibalised"


@pytest.mark.whole
def test_the_promise_of_a_clean_log_is_its_lift_and_nothing_is_named() -> None:
    log, agreement = planted("clean", 1.1)
    gap = bill("clean", 1.1)
    assert agreement.confirmed_causes == ()
    assert gap.causes == ()
    assert gap.promised_low is not None
    assert gap.promised_high is not None
    assert gap.promised_low < log.clean < gap.promised_high
    assert gap.unexplained_low is not None
    assert gap.unexplained_high is not None
    assert gap.unexplained_low < 0 < gap.unexplained_high
    assert agreement.explanations[0].sentences[-1] == "There is no gap to explain."


@pytest.mark.slow
@pytest.mark.whole
def test_nothing_is_named_where_nothing_was_promised_and_nothing_came() -> None:
    """AUC on control's traffic favours the model that ranked it; that explains no gap."""
    _, agreement = planted("clean", 0.0)
    assert agreement.explanations[0].standing == "offline only"
    assert not agreement.confirmed_causes
    assert agreement.explanations[0].sentences[-1] == "There is no gap to explain."


@pytest.mark.slow
@pytest.mark.whole
def test_a_gain_by_chance_has_no_cause() -> None:
    """In one of forty logs without an effect online sees a gain, which AUC contradicts."""
    agreement = agree(draw_log(CLEAN, 0.0, 284))
    explanation = agreement.explanations[0]
    assert explanation.standing == "conflict"
    assert not agreement.confirmed_causes
    assert explanation.sentences[-1].endswith("differ by no more than noise: no cause is named.")


@pytest.mark.whole
def test_the_bill_is_in_json_text_and_page() -> None:
    agreement, gap = planted("clock", 0.4)[1], bill("clock", 0.4)
    written = json.loads(agreement.to_json())["gap"]
    assert list(written)[:8] == [
        *("variant", "metric", "promised", "promised_low", "promised_high"),
        *("came", "came_low", "came_high"),
    ]
    assert written["causes"][0].keys() == {
        *("name", "points", "points_low", "points_high", "p_value"),
    }
    assert gap.sentence.startswith(f"Promised {gap.promised:+.1%} [")
    assert gap.sentence in agreement.explanations[0].sentences
    assert "AGREE IN SIGN, NOT IN SIZE" in str(agreement)
    assert "served score" in str(agreement)


def test_without_logs_the_gap_has_no_size_and_says_why() -> None:
    gap = Gap("b", "ctr", reason="no logs were read")
    assert gap.sentence == "The gap cannot be sized: no logs were read."
