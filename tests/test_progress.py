"""What the person at the terminal sees while something runs."""

import threading
import time
from typing import cast

import pytest
from rich.console import Console
from rich.status import Status

from abeval.engines.duckdb import DuckDBEngine
from abeval.progress import Steps, show_late, steps


def shown(display: Steps) -> str:
    console = Console(width=60)
    with console.capture() as captured:
        console.print(display)
    return captured.get().strip()


def test_the_line_names_the_step_and_how_far_it_is() -> None:
    display = Steps()
    assert shown(display) == "starting"
    display("units and days")
    assert shown(display) == "units and days"
    display.watch(lambda: 0.574)
    assert shown(display) == "units and days 57%"


def test_the_time_left_is_that_of_the_running_statement_once_it_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, display = 100.0, Steps()
    monkeypatch.setattr("abeval.progress.time.perf_counter", lambda: now)
    display("units")
    seen = []
    for seconds, done in ((2, 0.2), (4, 0.4), (20, 0.5), (1, 0.1), (9, 0.5), (1, None), (7, 0.7)):
        now += seconds
        display.watch(lambda done=done: done)
        seen.append(shown(display))
    assert seen == [
        "units 20%",
        "units 40% of this query, about 9 s left",
        "units 50% of this query, about 26 s left",
        # Another statement, and one after a pause.
        "units 10%",
        "units 50% of this query, about 9 s left",
        "units",
        "units 70% of this query, about 3 s left",
    ]


def test_a_running_statement_says_how_far_it_is() -> None:
    engine = DuckDBEngine()
    sql, progress = (
        "select count(distinct i % 7919) from range(30000000) r(i)",
        engine.make_progress_probe(),
    )
    running = threading.Thread(target=lambda: engine.rows(sql))
    running.start()
    seen = set()
    while running.is_alive():
        seen.add(progress())
        running.join(0.02)
    engine.close()
    assert progress() is None
    assert any(done is not None and 0 < done <= 1 for done in seen)


def test_an_engine_shows_nothing_itself(capfd: pytest.CaptureFixture[str]) -> None:
    engine = DuckDBEngine()
    engine.make_progress_probe()
    engine.rows("select count(distinct i % 7919) from range(3000000) r(i)")
    engine.close()
    assert capfd.readouterr() == ("", "")


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
    with steps(profile=True) as display:
        display("reading")
        display("counting")
    table = capsys.readouterr().err
    assert table.index("reading") < table.index("counting") < table.index("all")
