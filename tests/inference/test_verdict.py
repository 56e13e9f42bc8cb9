"""The decision rule and its sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abeval.inference.verdict import HELD, decide
from abeval.results.effects import Row, Status
from abeval.results.trust import Check
from tests.builders import (
    DWELL,
    GAUC,
    LATENCY,
    METRICS,
    NO_EFFECT,
    SESSIONS,
    TRUST,
    effect,
    metric,
    row,
)

PASS = TRUST[:1]
CTR_OPEN = row(status="unclear", p_adjusted=0.3, **effect(0.004, 0.007))
CTR_WORSE = row(status="worse", **effect(-0.021, 0.012))
DWELL_BETTER = replace(DWELL, status="better", **effect(0.03, 0.02, 84.3))
LATENCY_OPEN = replace(LATENCY, status="unclear", **effect(0.009, 0.02, 182.0))


def sentence(*rows: Row, trust: tuple[Check, ...] = PASS) -> str:
    return decide(trust, rows, METRICS)[0].sentence


BETTER = "although ctr +5.9% [+3.1%, +8.7%] got better"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (
            (row(), SESSIONS),
            "SHIP: ctr +5.9% [+3.1%, +8.7%], guardrails held (sessions_per_user).",
        ),
        (
            (row(),),
            "SHIP: ctr +5.9% [+3.1%, +8.7%]. Caution: no guardrail was set, so harm to other "
            "metrics was not tested.",
        ),
        (
            (row(), DWELL_BETTER, SESSIONS),
            "SHIP: ctr +5.9% [+3.1%, +8.7%] and dwell_per_user +3.0% [+1.0%, +5.0%], "
            "guardrails held (sessions_per_user).",
        ),
        (
            (row(), DWELL, SESSIONS),
            "SHIP: ctr +5.9% [+3.1%, +8.7%], guardrails held (sessions_per_user). "
            "Note: dwell_per_user is not shown to be better.",
        ),
        (
            (row(), LATENCY),
            "DO NOT SHIP: guardrail latency_ms +3.8% [+1.0%, +6.6%] is worse, and a loss beyond "
            f"its 2% margin is likely but not proven, {BETTER}.",
        ),
        (
            (row(), replace(LATENCY, **effect(0.055, 0.0275, 182.0))),
            "DO NOT SHIP: guardrail latency_ms rose by 2.8% to 8.2%, all beyond the 2% margin, "
            f"{BETTER}.",
        ),
        (
            (CTR_WORSE, SESSIONS),
            "DO NOT SHIP: ctr -2.1% [-3.3%, -0.9%] is worse.",
        ),
        (
            (CTR_WORSE, LATENCY),
            "DO NOT SHIP: ctr -2.1% [-3.3%, -0.9%] is worse and guardrail latency_ms "
            "+3.8% [+1.0%, +6.6%] is worse, and a loss beyond its 2% margin is likely but not "
            "proven.",
        ),
        (
            (row(), replace(LATENCY, **effect(0.015, 0.01, 182.0))),
            "DO NOT SHIP: guardrail latency_ms +1.5% [+0.5%, +2.5%] is worse, and a loss beyond "
            f"its 2% margin is not ruled out, {BETTER}.",
        ),
        (
            (CTR_OPEN, SESSIONS),
            "UNDECIDED: ctr could be anywhere from -0.30% to +1.10%.",
        ),
        (
            (CTR_OPEN, DWELL, SESSIONS),
            "UNDECIDED: ctr could be anywhere from -0.30% to +1.10%, "
            "dwell_per_user from -0.30% to +1.10%.",
        ),
        (
            (
                row(
                    status="unclear",
                    reason="not_after_correction",
                    p_adjusted=0.061,
                    **effect(-0.012, 0.011),
                ),
                DWELL,
            ),
            "UNDECIDED: dwell_per_user could be anywhere from -0.30% to +1.10%, ctr looks lower "
            "(-1.2%), but not after correcting for 2 comparisons (p 0.061).",
        ),
        (
            (row(), LATENCY_OPEN),
            "UNDECIDED: ctr +5.9% [+3.1%, +8.7%], but guardrail latency_ms "
            "+0.9% [-1.1%, +2.9%] could still break its 2% margin.",
        ),
        (
            (row(), replace(LATENCY_OPEN, status="too_little_data", reason="too_few_units")),
            "UNDECIDED: ctr +5.9% [+3.1%, +8.7%], but guardrail latency_ms "
            "has too little data (too few units).",
        ),
        (
            (row(status="too_little_data", reason="no_clicks", **NO_EFFECT), DWELL),
            "UNDECIDED: dwell_per_user could be anywhere from -0.30% to +1.10%, "
            "ctr has too little data (no clicks).",
        ),
        (
            (row(status="too_little_data", reason="too_few_units"), DWELL),
            "UNDECIDED: dwell_per_user could be anywhere from -0.30% to +1.10%, "
            "ctr has too little data (too few units).",
        ),
        (
            (row(status="too_little_data", reason="zero_variance", **NO_EFFECT),),
            "UNDECIDED: ctr does not vary (nothing varies).",
        ),
        (
            (row(status="unclear", reason="zero_variance", **NO_EFFECT),),
            "UNDECIDED: ctr has no effect estimate (nothing varies).",
        ),
        (
            (row(status="equivalent", **effect(0.001, 0.003)),),
            "UNDECIDED: ctr +0.10% [-0.20%, +0.40%] is equivalent.",
        ),
        (
            (SESSIONS,),
            "UNDECIDED: no metric is a goal, so there is nothing to decide on.",
        ),
        (
            (row(lift=None, lift_low=None, lift_high=None), SESSIONS),
            "SHIP: ctr +0.61 pp [+0.32, +0.90], guardrails held (sessions_per_user).",
        ),
    ],
)
def test_sentences(rows: tuple[Row, ...], expected: str) -> None:
    assert sentence(*rows) == expected


def test_a_failed_check_comes_before_every_number() -> None:
    srm = Check("srm", "fail", 1e-7, 0.001, "52.0% of units, 50% planned. Look at redirects.")
    assert (
        sentence(row(), SESSIONS, trust=(*PASS, srm))
        == "DO NOT TRUST: srm (sample ratio mismatch): 52.0% of units, 50% planned."
    )


def test_all_failed_checks_are_named() -> None:
    checks = tuple(Check(name, "fail", None, None, f"{name} is off.") for name in ("a", "b", "c"))
    assert sentence(row(), trust=checks) == "DO NOT TRUST: a: a is off. Note: b and c also failed."


def test_only_what_touches_a_goal_or_a_guardrail_stops_a_variant() -> None:
    def of(*metrics: str) -> Check:
        return Check("clicks_set_aside", "fail", 0.3, 0.2, "30% are late.", metrics=metrics)

    rows = (row(), SESSIONS, GAUC)
    for touched in ("ctr", "sessions_per_user"):
        assert (
            sentence(*rows, trust=(of(touched),)) == "DO NOT TRUST: clicks_set_aside: 30% are late."
        )
    assert sentence(*rows, trust=(of("gauc"),)) == (
        "SHIP: ctr +5.9% [+3.1%, +8.7%], guardrails held (sessions_per_user). "
        "Note: clicks_set_aside failed, for other metrics only."
    )


def test_of_a_failed_check_only_the_first_sentence_is_said() -> None:
    srm = Check("srm", "fail", None, None, "The split is 52/48. Bots got in. Look at filters.")
    assert (
        sentence(row(), trust=(srm,))
        == "DO NOT TRUST: srm (sample ratio mismatch): The split is 52/48."
    )


def test_a_warning_does_not_decide_and_is_named() -> None:
    assert sentence(row(), SESSIONS, trust=TRUST) == (
        "SHIP: ctr +5.9% [+3.1%, +8.7%], guardrails held (sessions_per_user). "
        "Note: duplicates warned."
    )


def test_a_guardrail_without_margin_cannot_pass_by_being_unclear() -> None:
    unclear = replace(LATENCY_OPEN, metric="errors")
    metrics = (*METRICS, metric("errors", role="guardrail", direction="decrease", unit=""))
    (verdict,) = decide(PASS, (row(), unclear), metrics)
    assert verdict.decision == "keep_running"
    assert "guardrail errors +0.9% [-1.1%, +2.9%] has no margin" in verdict.sentence


def test_each_variant_has_its_own_verdict() -> None:
    rows = (row(), row(variant="b", status="worse", **effect(-0.02, 0.01)))
    verdicts = decide(PASS, rows, METRICS)
    assert [(v.variant, v.decision) for v in verdicts] == [
        ("treatment", "ship"),
        ("b", "do_not_ship"),
    ]


STATUSES = st.sampled_from([status for status in get_args(Status) if status != "untrusted"])


@given(st.lists(STATUSES, max_size=4), st.lists(STATUSES, max_size=4), st.sampled_from(TRUST))
def test_ship_only_on_proof(goals: list[Status], guards: list[Status], check: Check) -> None:
    rows = [row(f"goal_{i}", status=status) for i, status in enumerate(goals)]
    rows += [
        replace(SESSIONS, metric=f"guard_{i}", status=status) for i, status in enumerate(guards)
    ]
    for verdict in decide([check], rows, METRICS):
        proven = "better" in goals and "worse" not in goals and set(guards) <= HELD
        assert (verdict.decision == "ship") == proven
        assert (verdict.decision == "do_not_ship") == ("worse" in goals + guards)
        assert verdict.sentence.endswith(".")
        assert "\n" not in verdict.sentence
        assert "winner" not in verdict.sentence
        assert "no effect" not in verdict.sentence


def test_a_margin_is_broken_only_by_a_whole_interval_beyond_it() -> None:
    words = {
        0.02: "is worse, and a loss beyond its 2% margin is not ruled out",
        0.0201: "is worse, and a loss beyond its 2% margin is likely but not proven",
        0.03: "is worse, and a loss beyond its 2% margin is likely but not proven",
        0.0301: "rose by 2.0% to 4.0%, all beyond the 2% margin",
    }
    for lift, expected in words.items():
        worse = replace(LATENCY, status="worse", **effect(lift, 0.01, 182.0))
        assert sentence(row(), worse).endswith(f" {expected}, {BETTER}.")
    edge = replace(LATENCY, status="worse", **effect(0.03, 0.01, 182.0) | {"lift_low": 0.02})
    assert "likely but not proven" in sentence(row(), edge)


def test_a_guardrail_that_should_rise_breaks_its_margin_by_falling() -> None:
    fallen = replace(SESSIONS, status="worse", **effect(-0.03, 0.005, 3.2))
    said = "guardrail sessions_per_user fell by 2.50% to 3.50%, all beyond the 2% margin"
    assert said in sentence(row(), fallen)


@pytest.mark.parametrize(
    ("label", "said"), [("same", "'same'"), ("click rate", "'click rate'"), ("CTR", "CTR")]
)
def test_names_that_read_as_words_stand_in_quotes(label: str, said: str) -> None:
    labelled = [replace(one, label=label) if one.name == "ctr" else one for one in METRICS]
    (verdict,) = decide(PASS, (CTR_OPEN, SESSIONS), labelled)
    assert verdict.sentence.startswith(f"UNDECIDED: {said} could be anywhere")


def test_an_early_end_is_said_of_every_decision() -> None:
    for rows in ((row(), SESSIONS), (CTR_OPEN,), (CTR_WORSE,)):
        (verdict,) = decide(PASS, rows, METRICS, early="the log ends on day 5 of 14")
        assert " Note: the log ends on day 5 of 14, but only one look" in verdict.sentence
