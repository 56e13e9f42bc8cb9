"""Show progress on the terminal (stderr)."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from threading import Timer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

_SHOWN_AFTER = 0.5

Plan = Sequence[tuple[str, float]]
"""Beginning of a step's name → its usual share, in the order of the steps."""

_READING = (
    *(("reading the logs", 0.1), ("duplicates", 0.3), ("clicks", 0.2), ("units and days", 0.4)),
    *(("assignment", 0.2), ("impressions", 2.5), ("sums per unit", 0.4), ("audits", 0.6)),
)
_INFERENCE = ("inference", 1.9)
_WINDOWS = (("windows of", 5.7), ("windows", 0.9))
_REPLAY = (
    *(("candidates", 0.5), ("requests", 0.5), ("metrics of", 2.2), ("metrics of", 2.2)),
    ("inference", 0.9),
)
_CAUSES = ("causes", 9.9)

PLANS: Mapping[str, Plan] = {
    "analyze": (*_READING, _INFERENCE),
    "check": (*_READING, ("checks", 0.3)),
    "study": (
        *(*_READING, ("days of", 0.3), _INFERENCE, *_WINDOWS, ("replays", 1.4)),
        *(*_REPLAY, _CAUSES, ("writing", 1.0)),
    ),
    "windows": (*_READING, ("days of", 0.3), *_WINDOWS),
    "aa": (*_READING, ("replays", 1.4)),
    "power": (*_READING, ("days of", 0.3)),
    "replay": (*_READING, *_REPLAY),
    "replay page": (*_READING, *_REPLAY, _CAUSES, _INFERENCE),
    "agree": (*_READING, *_REPLAY, _CAUSES, _INFERENCE),
}
"""Command → its plan; shares are seconds of 2 M impressions with every metric."""


@dataclass
class Steps:
    """Records the steps of a run.

    `plan` has the usual steps of the command in their order, by the beginning of their names, and
    the share of each in its time; `seconds` has every step that has ended. `show` gets each step as
    it begins, with the sum of the shares before it.
    """

    plan: Plan = ()
    seconds: list[tuple[str, float]] = field(default_factory=list)
    show: Callable[[str, float], None] = lambda _, __: None
    _name: str | None = None
    _began: float = 0.0
    _planned: int = -1
    """Index of the running step in the plan, or of the last one that is in it."""

    def __call__(self, name: str | None) -> None:
        """Begin a step; None ends the last."""
        now = time.perf_counter()
        if self._name is not None:
            self.seconds.append((self._name, now - self._began))
        self._name, self._began = name, now
        if name is not None:
            ahead = range(self._planned + 1, len(self.plan))
            found = (i for i in ahead if name.startswith(self.plan[i][0]))
            self._planned = next(found, self._planned)
            self.show(name, sum(share for _, share in self.plan[: max(self._planned, 0)]))


@contextmanager
def show_progress(command: str = "", *, profile: bool = False) -> Iterator[Steps]:
    """Show progress; call the yielded object with the name of each step.

    It shows the bar of a command of `PLANS` if stderr is a terminal and the run takes longer than
    half a second; with `profile`, also a table of seconds per step.
    """
    from rich.console import Console

    console, steps = Console(stderr=True), Steps(PLANS.get(command, ()))
    with show_late(make_bar(steps, console)) if console.is_terminal else nullcontext():
        try:
            yield steps
        finally:
            steps(None)
    if profile:
        from rich.table import Table

        table = Table("step", "seconds")
        for name, seconds in [*steps.seconds, ("all", sum(s for _, s in steps.seconds))]:
            table.add_row(name, f"{seconds:.2f}")
        console.print(table)


def make_bar(steps: Steps, console: "Console") -> "Progress":
    """Make a bar of the steps, with the time that is left.

    The speed of the steps before tells this time.
    """
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    step_name = TextColumn("{task.description}", markup=False)
    columns = (BarColumn(24), TaskProgressColumn(), step_name, TimeRemainingColumn())
    # The speed is that of the whole run: a step may take minutes.
    bar = Progress(*columns, console=console, transient=True, speed_estimate_period=math.inf)
    # Without a plan it is not known how much is done.
    task = bar.add_task("starting", total=sum(share for _, share in steps.plan) or None)
    steps.show = lambda name, done: bar.update(task, description=name, completed=done)
    return bar


@contextmanager
def show_late(bar: "Progress") -> Iterator[None]:
    """Show the progress from half a second on: what ends sooner needs none."""
    timer = Timer(_SHOWN_AFTER, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        try:
            # It may be starting at this moment.
            timer.join()
        finally:
            bar.stop()


Step = Callable[[str], None]


def ignore_step(_: str) -> None:
    """Report no progress."""
