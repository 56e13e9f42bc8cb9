"""Tells the person at the terminal what is being done, on stderr."""

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
    """Seconds spent in each step; the only place that looks at a clock, and only to tell."""

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
    """Told the name of each step as it begins; a line that says how far it is.

    Attributes:
        fraction: How much of what runs now is done, None where that is not known.
    """

    clock: _Clock = field(default_factory=_Clock)
    fraction: Fraction = _unknown

    def __call__(self, name: str) -> None:
        """Begin a step."""
        self.clock.next(name)

    def watch(self, fraction: Fraction) -> None:
        """Ask this from now on how far the running statement is."""
        self.fraction = fraction

    def __rich__(self) -> str:
        """The running step, and how much of its running statement is done."""
        done = self.fraction()
        name = self.clock.name or "starting"
        return name if done is None else f"{name} [dim]{done:.0%}[/dim]"


@contextmanager
def steps(*, profile: bool = False) -> Iterator[Steps]:
    """What to tell the name of each step as it begins.

    Shows a spinner where stderr is a terminal; with `profile`, a table of what each step cost.
    """
    console, told = Console(stderr=True), Steps()
    with console.status(told, spinner="dots"):
        try:
            yield told
        finally:
            told.clock.next(None)
            told.watch(_unknown)
    if profile:
        console.print(_table(told.clock.spent))


def _table(spent: list[tuple[str, float]]) -> Table:
    table = Table("step", "seconds")
    for name, seconds in spent:
        table.add_row(name, f"{seconds:.2f}")
    table.add_row("all", f"{sum(seconds for _, seconds in spent):.2f}")
    return table
