"""End a run on signals, but not while a file or folder is made or removed."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

_NUMBERS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals of schedulers; Windows has only the first."""


class _Stop:
    """The received signal, and the number of blocks it waits for."""

    number: ClassVar[int | None] = None
    blocks: ClassVar[int] = 0


def exit_when_stopped() -> None:
    """Make the signals of schedulers exit normally, so that files are removed."""
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
    """Return the exit code of the received signal; None without one."""
    return None if _Stop.number is None else 128 + _Stop.number


@contextmanager
def defer_signals() -> Iterator[None]:
    """Delay the signals of schedulers to the end of a block."""
    # A signal between making a file and the `try` that removes it would leave the file.
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
