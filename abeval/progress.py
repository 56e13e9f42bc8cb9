"""Show progress on the terminal (stderr)."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from threading import Timer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.status import Status

_Fraction = Callable[[], float | None]

_SHOWN_AFTER = 0.5
_SOONEST, _LEAST_DONE = 5.0, 0.05
"""Least seconds and share done of a statement before its time is estimated."""


def _time_left(seconds: float, done: float) -> str:
    """Write the estimated time left; empty while it would be a guess.

    Example:
        >>> _time_left(20, 0.4), _time_left(400, 0.5), _time_left(2, 0.4)
        ('about 30 s left', 'about 7 min left', '')
    """
    if seconds < _SOONEST or not _LEAST_DONE <= done < 1:
        return ""
    left = seconds * (1 - done) / done
    return f"about {left:.0f} s left" if left < 100 else f"about {left / 60:.0f} min left"


@dataclass
class Steps:
    """Records the steps of a run, and shows the running one with its progress.

    `fraction` returns how much of the running statement is done, None if unknown; `seconds` has
    every step that has ended.
    """

    fraction: _Fraction = lambda: None
    seconds: list[tuple[str, float]] = field(default_factory=list)
    name: str | None = None
    _began: float = 0.0
    _statement: tuple[float, float] = (0.0, 0.0)
    """When the running statement was first seen, and how much of it was done last."""

    def end(self) -> None:
        """End the last step."""
        self(None)
        self.fraction = lambda: None

    def __call__(self, name: str | None) -> None:
        """Begin a step; None ends the last."""
        now = time.perf_counter()
        if self.name is not None:
            self.seconds.append((self.name, now - self._began))
        self.name, self._began = name, now
        self._statement = (now, 0.0)

    def watch(self, fraction: _Fraction) -> None:
        """Show the progress that this function returns."""
        self.fraction = fraction

    def __rich__(self) -> str:
        """Render the running step, its progress and the time left."""
        done, now = self.fraction(), time.perf_counter()
        name = self.name or "starting"
        since, before = self._statement
        if done is None or done < before:
            # A step may have several statements.
            since = now
        self._statement = (since, done or 0.0)
        if done is None:
            return name
        left = _time_left(now - since, done)
        return f"{name} [dim]{done:.0%}{f' of this query, {left}' if left else ''}[/dim]"


@contextmanager
def steps(*, profile: bool = False) -> Iterator[Steps]:
    """Show progress; call the yielded object with the name of each step.

    It shows a spinner if stderr is a terminal and the run takes longer than half a second; with
    `profile`, also a table of seconds per step.
    """
    from rich.console import Console

    console, display = Console(stderr=True), Steps()
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
    """Show a spinner from half a second on: what ends sooner needs none."""
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


def silent(_: str) -> None:
    """Report no progress."""
