"""What the person at the terminal sees while something runs."""

import time
from typing import cast

import pytest
from rich.console import Console
from rich.status import Status

from abeval.progress import PLANS, Steps, show_late, show_progress


def shown(display: Steps) -> str:
    console = Console(width=60)
    with console.capture() as captured:
        console.print(display)
    return captured.get().strip()


def test_without_a_plan_the_line_names_the_step() -> None:
    display = Steps()
    assert shown(display) == "starting"
    display("units and days")
    assert shown(display) == "units and days"


PLAN = (("reading", 1.0), ("metrics of", 2.0), ("metrics of", 2.0), ("inference", 5.0))


def test_a_planned_command_has_one_bar_with_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now, display = 100.0, Steps(PLAN)
    monkeypatch.setattr("abeval.progress.time.perf_counter", lambda: now)
    seen = []
    for seconds, name in ((0, "reading"), (4, "metrics of a"), (8, "metrics of b"), (8, "other")):
        now += seconds
        display(name)
        seen.append(shown(display).split(" ", 1)[1])
    now += 10
    seen.append(shown(display).split(" ", 1)[1])
    assert seen == [
        "0% reading",
        "10% metrics of a",
        "30% metrics of b about 28 s left",
        # A step that the plan does not have moves the bar on within the one before it.
        "49% other about 21 s left",
        "49% other about 31 s left",
    ]
    assert shown(display).startswith("━" * 24)


def test_a_slow_step_does_not_pass_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    now, display = 0.0, Steps(PLAN)
    monkeypatch.setattr("abeval.progress.time.perf_counter", lambda: now)
    display("reading")
    shares = []
    for _ in range(3):
        now += 1_000
        shares.append(display.estimate_done())
    assert all(done is not None and done[0] <= 0.1 for done in shares)


@pytest.mark.parametrize("command", PLANS)
def test_every_plan_names_steps_that_a_command_takes(command: str) -> None:
    starts = [start for start, _ in PLANS[command]]
    display = Steps(PLANS[command])
    for start in starts:
        display(f"{start} and more")
    done = display.estimate_done()
    assert done is not None
    assert 0 < done[0] < 1


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
    with show_late(cast("Status", spinner)):
        time.sleep(0.05)
    assert spinner.calls == calls


def test_costs_are_those_of_the_steps(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress(profile=True) as display:
        display("reading")
        display("counting")
    table = capsys.readouterr().err
    assert table.index("reading") < table.index("counting") < table.index("all")
