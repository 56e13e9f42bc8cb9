"""Progress on the terminal (stderr)."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

Fraction = Callable[[], float | None]


def _unknown() -> None:
    return None


@dataclass
class _Clock:
    """Seconds spent in each step; the only use of a clock, and only for display."""

    spent: list[tuple[str, float]] = field(default_factory=list)
    name: str | None = None
    _began: float = 0.0

    def next(self, name: str | None) -> None:
        now = time.perf_counter()
        if self.name is not None:
            self.spent.append((self.name, now - self._began))
        self.name, self._began = name, now


@dataclass
class Steps:
    """Receives the name of each step as it begins, and shows it with its progress.

    Attributes:
        fraction: Returns how much of the running statement is done, None if unknown.
    """

    clock: _Clock = field(default_factory=_Clock)
    fraction: Fraction = _unknown

    def __call__(self, name: str) -> None:
        """Begin a step."""
        self.clock.next(name)

    def watch(self, fraction: Fraction) -> None:
        """Show the progress that this function returns."""
        self.fraction = fraction

    def __rich__(self) -> str:
        """The running step, and how much of its running statement is done."""
        done = self.fraction()
        name = self.clock.name or "starting"
        return name if done is None else f"{name} [dim]{done:.0%}[/dim]"


@contextmanager
def steps(*, profile: bool = False) -> Iterator[Steps]:
    """A progress display, to be called with the name of each step as it begins.

    It shows a spinner if stderr is a terminal; with `profile`, also a table of seconds per step.
    """
    console, display = Console(stderr=True), Steps()
    with console.status(display, spinner="dots"):
        try:
            yield display
        finally:
            display.clock.next(None)
            display.watch(_unknown)
    if profile:
        console.print(_table(display.clock.spent))


def _table(spent: list[tuple[str, float]]) -> Table:
    table = Table("step", "seconds")
    for name, seconds in spent:
        table.add_row(name, f"{seconds:.2f}")
    table.add_row("all", f"{sum(seconds for _, seconds in spent):.2f}")
    return table
