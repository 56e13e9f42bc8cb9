"""What the person at the terminal sees while something runs."""

import time
from typing import cast

import pytest
from rich.console import Console
from rich.progress import Progress

from abeval.progress import PLANS, Steps, make_bar, show_late, show_progress

PLAN = (("reading", 1.0), ("metrics of", 2.0), ("metrics of", 2.0), ("inference", 5.0))


def test_a_planned_command_says_what_share_is_before_each_step() -> None:
    seen = list[tuple[str, float]]()
    steps = Steps(PLAN, show=lambda name, done: seen.append((name, done)))
    for name in ("reading", "metrics of a", "metrics of b", "other", "inference"):
        steps(name)
    # A step that the plan does not have stands where the one before it does.
    assert seen == [
        ("reading", 0.0),
        ("metrics of a", 1.0),
        ("metrics of b", 3.0),
        ("other", 3.0),
        ("inference", 5.0),
    ]


def test_the_bar_has_the_step_its_share_and_the_time_left() -> None:
    console = Console(width=80, force_terminal=True, color_system=None)
    steps, now = Steps(PLAN), 100.0
    bar = make_bar(steps, console)
    bar.get_time = lambda: now
    for seconds, name in ((0, "reading"), (4, "metrics of ndcg@5[exp]"), (8, "metrics of b")):
        now += seconds
        steps(name)
    with console.capture() as captured:
        console.print(bar)
    # Three of ten took twelve seconds.
    assert captured.get().split(" ", 1)[1].split() == ["30%", "metrics", "of", "b", "0:00:28"]


def test_without_a_plan_the_line_names_the_step() -> None:
    console, steps = Console(width=80, force_terminal=True, color_system=None), Steps()
    bar = make_bar(steps, console)
    steps("metrics of ndcg@5[exp]")
    with console.capture() as captured:
        console.print(bar)
    assert "metrics of ndcg@5[exp]" in captured.get()


@pytest.mark.parametrize("command", PLANS)
def test_every_plan_names_steps_that_a_command_takes(command: str) -> None:
    before = list[float]()
    steps = Steps(PLANS[command], show=lambda _, done: before.append(done))
    for start, _ in PLANS[command]:
        steps(f"{start} and more")
    assert before[0] == 0
    assert before == sorted(set(before))


class Spinner:
    """Notes when it is shown, and that it is gone."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")


@pytest.mark.parametrize(("after", "calls"), [(60.0, ["stop"]), (0.0, ["start", "stop"])])
def test_only_a_run_that_takes_a_while_shows_a_spinner(
    after: float, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("abeval.progress._SHOWN_AFTER", after)
    spinner = Spinner()
    with show_late(cast("Progress", spinner)):
        time.sleep(0.05)
    assert spinner.calls == calls


def test_costs_are_those_of_the_steps(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress(profile=True) as display:
        display("reading")
        display("counting")
    table = capsys.readouterr().err
    assert table.index("reading") < table.index("counting") < table.index("all")
