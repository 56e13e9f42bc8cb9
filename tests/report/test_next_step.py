"""What is recommended for a guardrail that holds a decision up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from abeval.report.next_step import write_next_step
from abeval.results.analysis import Result
from abeval.results.power import MetricOutlook, PowerOutlook
from tests.builders import effect, metric, result, row


def waiting(**entries: Any) -> Result:
    """A goal that got better, and a guardrail that is unclear; `entries` are of its metric."""
    guard = {"role": "guardrail", "status": "unclear", **effect(-0.01, 0.03)}
    return result(
        scorecard=(row(), row("sessions", **guard)),
        metrics=(metric(), metric("sessions", role="guardrail", unit="", **entries)),
    )


def look_ahead(target_days: float | None, planned: float = 0.0) -> PowerOutlook:
    row = MetricOutlook("sessions", 7.0, 0.04, (), 0.02, target_days, None, "treatment")
    return PowerOutlook(0.05, 0.8, (row,), planned)


MARGIN = {"margin": 0.02, "margin_relative": True}
LOSS = "sessions: a drop of more than 2% is not ruled out (4% still possible)."
CHOICE = "Accept a margin of 4%, reduce variance (CUPED), or stop."


@pytest.mark.parametrize(
    ("entries", "outlook", "expected"),
    [
        ({}, None, "Give sessions a margin: without one it cannot be shown to hold."),
        (
            {"within": (0.9, 1.1)},
            None,
            "sessions: a value outside [0.9, 1.1] is not ruled out.",
        ),
        (MARGIN, None, f"{LOSS} {CHOICE}"),
        (MARGIN, look_ahead(None), f"{LOSS} More days will not settle it. {CHOICE}"),
        (
            MARGIN,
            look_ahead(7.0),
            f"{LOSS} A variant that loses nothing would mostly have shown it by now. {CHOICE}",
        ),
    ],
)
def test_a_guardrail_that_waits_says_what_would_settle_it(
    entries: dict[str, Any], outlook: PowerOutlook | None, expected: str
) -> None:
    assert write_next_step(waiting(**entries), outlook).rstrip() == expected


def test_a_margin_that_the_plan_has_days_for_is_waited_for() -> None:
    early = waiting(**MARGIN)
    early = replace(early, experiment=replace(early.experiment, end="2022-05-13"))
    text = write_next_step(early, look_ahead(14.0, planned=21.0))
    assert text.startswith(f"{LOSS} Run on to the planned end, 2022-05-12. ")
    assert text.endswith("about 14 days in all (2 times as long), if nothing is lost.")


def test_a_better_guardrail_is_no_gain_that_a_goal_could_hold_up() -> None:
    better = row("sessions", role="guardrail", status="better", **effect(0.05, 0.01))
    undecided = result(
        scorecard=(row(status="too_little_data", **effect(0.01, 0.03)), better),
        metrics=(metric(), metric("sessions", role="guardrail", unit="")),
    )
    assert "ctr has too little data" in write_next_step(undecided, None)
