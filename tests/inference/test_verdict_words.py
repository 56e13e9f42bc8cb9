"""A verdict is at most two sentences and 45 words, whatever there is to say."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abeval.inference.verdict import MOST_WORDS, decide
from abeval.results.effects import Status
from abeval.results.trust import Check, Verdict
from tests.builders import METRICS, SESSIONS, TRUST, effect, row
from tests.worlds import pages

STATUSES = st.sampled_from([status for status in get_args(Status) if status != "draft"])
REASONS = st.sampled_from([None, "not_after_correction", "too_few_units", "zero_variance"])


def is_short(verdict: Verdict) -> bool:
    """Whether a verdict that decides keeps the limit; a draft has its questions whole."""
    words, ends = verdict.sentence.split(), re.findall(r"[.?](?= [A-Z]|$)", verdict.sentence)
    return verdict.decision == "draft" or (len(words) <= 45 and len(ends) <= 2)


WORLDS = {
    **pages.WORLDS,
    **{
        make.__name__: make
        for make in (
            pages.three_mixed,
            pages.in_progress,
            pages.always_valid,
            pages.ramp,
            pages.cuped_table,
            pages.many,
            pages.one_metric,
            pages.without_period,
        )
    },
}


@pytest.mark.first_cases(5)
@pytest.mark.whole
@pytest.mark.parametrize("name", WORLDS)
def test_every_world_keeps_the_limit(name: str) -> None:
    analysis = WORLDS[name]().first().analysis
    assert analysis is not None
    assert analysis.verdicts
    for verdict in analysis.verdicts:
        assert is_short(verdict), verdict.sentence


@given(
    st.lists(st.tuples(STATUSES, REASONS), max_size=40),
    st.lists(STATUSES, max_size=12),
    st.lists(st.sampled_from(TRUST), max_size=6),
    st.integers(0, 9),
    st.text("a; b. (c", max_size=400),
)
def test_any_number_of_rows_and_checks_keeps_it(
    goals: list[tuple[Status, str | None]],
    guards: list[Status],
    checks: list[Check],
    failed: int,
    message: str,
) -> None:
    rows = [
        row(f"a_goal_{i}", status=status, reason=reason, **effect(0.01 * (i - 9), 0.03))
        for i, (status, reason) in enumerate(goals)
    ]
    rows += [
        replace(SESSIONS, metric=f"a_guard_{i}", status=status) for i, status in enumerate(guards)
    ]
    trust = [
        *(replace(check, name=f"{check.name}:{i}") for i, check in enumerate(checks)),
        *(Check(f"check_{i}", "fail", 1.0, 0.1, message or "off") for i in range(failed)),
    ]
    for verdict in decide(trust, rows, METRICS, early="the log ends on 2026-03-02, day 2 of 14"):
        assert len(verdict.sentence.split()) <= MOST_WORDS == 45, verdict.sentence


def test_many_goals_are_counted_and_not_listed() -> None:
    chance = {"status": "unclear", "reason": "not_after_correction", "p_adjusted": 0.3}
    rows = [row(f"goal_{i}", **chance, **effect(0.02, 0.015)) for i in range(18)]
    (verdict,) = decide(TRUST[:1], rows, METRICS)
    assert verdict.sentence == (
        "UNDECIDED: 18 goals look higher; none survives correction for 18 comparisons."
    )
    rows[0] = row("goal_0", **chance, **effect(-0.02, 0.015))
    (mixed,) = decide(TRUST[:1], rows, METRICS)
    assert "17 goals look higher and 1 lower; none survives" in mixed.sentence
    better = [row(f"goal_{i}", **effect(0.02, 0.005)) for i in range(5)]
    (shipped,) = decide(TRUST[:1], [*better, SESSIONS], METRICS)
    assert "goal_1 +2.00% [+1.50%, +2.50%] and 3 more goals, guardrails held" in shipped.sentence


def test_a_draft_has_two_questions_whole_with_their_answers() -> None:
    questions = [f"column {i}: is it the time? Say so: ts = {i}" for i in range(9)]
    (verdict,) = decide(TRUST[:1], [row()], METRICS, questions=questions)
    assert verdict.sentence.startswith("DRAFT: 9 questions are open: (1) column 0")
    assert verdict.sentence.endswith("Say so: ts = 1; and 7 more questions.")
