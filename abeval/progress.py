"""Show progress on the terminal (stderr)."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from threading import Timer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.status import Status

_SHOWN_AFTER = 0.5
_SOONEST, _LEAST_DONE = 5.0, 0.05
"""Least seconds and share done of a command before its time is estimated."""

_MOST_OF_A_STEP = 0.95
"""A step that takes longer than usual waits at this share of itself."""

_WIDTH = 24
"""Characters of the bar."""

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


def _write_remaining_time(seconds: float, done: float) -> str:
    """Write the estimated time left; empty while it would be a guess.

    Example:
        >>> _write_remaining_time(20, 0.4), _write_remaining_time(400, 0.5)
        ('about 30 s left', 'about 7 min left')
        >>> _write_remaining_time(2, 0.4)
        ''
    """
    if seconds < _SOONEST or not _LEAST_DONE <= done < 1:
        return ""
    left = max(seconds * (1 - done) / done, 1.0)
    return f"about {left:.0f} s left" if left < 100 else f"about {left / 60:.0f} min left"


@dataclass
class Steps:
    """Records the steps of a run, and shows how far it is.

    `plan` has the usual steps of the command in their order, by the beginning of their names, and
    the share of each in its time; `seconds` has every step that has ended.
    """

    plan: Plan = ()
    seconds: list[tuple[str, float]] = field(default_factory=list)
    name: str | None = None
    _began: float = 0.0
    _planned: int = -1
    """Index of the running step in the plan, or of the last one that is in it."""

    _before: float = 0.0
    """Seconds of all steps before that one."""

    def end(self) -> None:
        """End the last step."""
        self(None)

    def __call__(self, name: str | None) -> None:
        """Begin a step; None ends the last."""
        now = time.perf_counter()
        if self.name is not None:
            self.seconds.append((self.name, now - self._began))
        self.name, self._began = name, now
        for i, (start, _) in enumerate(self.plan[self._planned + 1 :], self._planned + 1):
            if name is not None and name.startswith(start):
                self._planned, self._before = i, sum(seconds for _, seconds in self.seconds)
                break

    def estimate_done(self) -> tuple[float, float] | None:
        """Estimate the share of the command that is done, and return its seconds so far.

        None until a step of the plan has begun. The first step has no clock to be measured by.

        Example:
            >>> step = Steps(plan=(("reading", 1.0), ("inference", 3.0)))
            >>> step("reading")
            >>> (step.estimate_done() or (1.0,))[0]
            0.0
        """
        if self._planned < 0:
            return None
        shares = [share for _, share in self.plan]
        before, share = sum(shares[: self._planned]), shares[self._planned]
        so_far = sum(seconds for _, seconds in self.seconds) + time.perf_counter() - self._began
        # A step takes as long as its share says, by the clock of those before it.
        usual = self._before * share / before if before else math.inf
        part = min((so_far - self._before) / max(usual, 1e-9), _MOST_OF_A_STEP)
        return (before + share * part) / sum(shares), so_far

    def __rich__(self) -> str:
        """Render a bar of the command with the running step and the time left, or the step."""
        name, estimate = self.name or "starting", self.estimate_done()
        if estimate is None:
            return name
        done, seconds = estimate
        left, filled = _write_remaining_time(seconds, done), round(done * _WIDTH)
        bar = f"[cyan]{'━' * filled}[/cyan][dim]{'━' * (_WIDTH - filled)}[/dim]"
        return f"{bar} {done:.0%} {name}{f' [dim]{left}[/dim]' if left else ''}"


@contextmanager
def show_progress(command: str = "", *, profile: bool = False) -> Iterator[Steps]:
    """Show progress; call the yielded object with the name of each step.

    It shows the bar of a command of `PLANS` if stderr is a terminal and the run takes longer than
    half a second; with `profile`, also a table of seconds per step.
    """
    from rich.console import Console

    console, display = Console(stderr=True), Steps(PLANS.get(command, ()))
    with show_late(console.status(display)) if console.is_terminal else nullcontext():
        try:
            yield display
        finally:
            display.end()
    if profile:
        from rich.table import Table

        table = Table("step", "seconds")
        for name, seconds in [*display.seconds, ("all", sum(s for _, s in display.seconds))]:
            table.add_row(name, f"{seconds:.2f}")
        console.print(table)


@contextmanager
def show_late(status: "Status") -> Iterator[None]:
    """Show the progress from half a second on: what ends sooner needs none."""
    timer = Timer(_SHOWN_AFTER, status.start)
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
            status.stop()


Step = Callable[[str], None]


def ignore_step(_: str) -> None:
    """Report no progress."""
