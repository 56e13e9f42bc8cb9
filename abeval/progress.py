"""Tells the person at the terminal what is being done, on stderr."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table


@dataclass
class _Clock:
    """Seconds spent in each step; the only place that looks at a clock, and only to tell."""

    spent: list[tuple[str, float]] = field(default_factory=list)
    _name: str | None = None
    _began: float = 0.0

    def next(self, name: str | None) -> None:
        now = time.perf_counter()
        if self._name is not None:
            self.spent.append((self._name, now - self._began))
        self._name, self._began = name, now


@contextmanager
def steps(*, profile: bool = False) -> Iterator[Callable[[str], None]]:
    """A function to call with the name of each step as it begins.

    Shows a spinner where stderr is a terminal; with `profile`, a table of what each step cost.
    """
    console, clock = Console(stderr=True), _Clock()
    with console.status("starting", spinner="dots") as status:

        def step(name: str) -> None:
            clock.next(name)
            status.update(name)

        try:
            yield step
        finally:
            clock.next(None)
    if profile:
        console.print(_table(clock.spent))


def _table(spent: list[tuple[str, float]]) -> Table:
    table = Table("step", "seconds")
    for name, seconds in spent:
        table.add_row(name, f"{seconds:.2f}")
    table.add_row("all", f"{sum(seconds for _, seconds in spent):.2f}")
    return table
