"""Show progress on the terminal (stderr)."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

Fraction = Callable[[], float | None]


@dataclass
class Steps:
    """Receives the name of each step as it begins, and shows it with its progress.

    `fraction` returns how much of the running statement is done, None if unknown; `seconds` has
    every step that has ended.
    """

    fraction: Fraction = lambda: None
    seconds: list[tuple[str, float]] = field(default_factory=list)
    name: str | None = None
    _began: float = 0.0

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

    def watch(self, fraction: Fraction) -> None:
        """Show the progress that this function returns."""
        self.fraction = fraction

    def __rich__(self) -> str:
        """Show the running step, and how much of its running statement is done."""
        done = self.fraction()
        name = self.name or "starting"
        return name if done is None else f"{name} [dim]{done:.0%}[/dim]"


@contextmanager
def steps(*, profile: bool = False) -> Iterator[Steps]:
    """Show progress; call what it gives with the name of each step as it begins.

    It shows a spinner if stderr is a terminal; with `profile`, also a table of seconds per step.
    """
    from rich.console import Console

    console, display = Console(stderr=True), Steps()
    # A spinner takes longer to load than it may show.
    with console.status(display, spinner="dots") if console.is_terminal else nullcontext():
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


Step = Callable[[str], None]


def silent(_: str) -> None:
    """Report no progress."""
