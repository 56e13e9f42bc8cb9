"""Let signals end a run, but wait while a file or folder is made or removed."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

_NUMBERS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""What schedulers send; Windows has only the first."""


class _Stop:
    """The signal that came, and how many blocks it has to wait for."""

    number: ClassVar[int | None] = None
    blocks: ClassVar[int] = 0


def exit_when_stopped() -> None:
    """Let the signals of schedulers end the run as an exit does, which removes its files."""
    for number in _NUMBERS:
        # A signal that is ignored, as under nohup, stays so.
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _stop)


def ignore_stops() -> None:
    """Ignore the signals that `exit_when_stopped` lets end the run."""
    for number in _NUMBERS:
        if signal.getsignal(number) is _stop:
            signal.signal(number, signal.SIG_IGN)


def exit_code() -> int | None:
    """Return the exit code of the signal that came; None if none did."""
    return None if _Stop.number is None else 128 + _Stop.number


@contextmanager
def unstopped() -> Iterator[None]:
    """Run a block to its end before a signal of a scheduler ends the run.

    Between the making of a file and the `try` that removes it, no other code could.
    """
    _Stop.blocks += 1
    try:
        yield
    finally:
        _Stop.blocks -= 1
        if _Stop.number is not None and not _Stop.blocks:
            sys.exit(exit_code())


def _stop(number: int, _: object) -> None:
    # A second one must not stop the cleaning up.
    signal.signal(number, signal.SIG_IGN)
    _Stop.number = number
    if not _Stop.blocks:
        sys.exit(exit_code())
