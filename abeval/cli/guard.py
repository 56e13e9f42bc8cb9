"""What ends a command: one message and an exit code, for mistakes and for faults of abeval.

`main.py` runs the command line within `guarded`, and gives each command the flag `--debug`.
"""

import errno
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from abeval.errors import AbevalError
from abeval.signals import exit_code

INPUT, FAULT = 2, 1
"""Exit codes: a mistake in the input; a fault of abeval, or of the machine that it runs on."""

_NAMES = frozenset(
    (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.ELOOP, errno.ENAMETOOLONG)
)
"""What the system says of a name that somebody gave."""

_HOME = Path(__file__).parents[1]

_DEBUG = Annotated[bool, typer.Option("--debug", help="Show the traceback of an unforeseen error.")]


def debuggable(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the flag `--debug`, which `guarded` looks for among the arguments."""

    def run(debug: bool = False, **values: Any) -> None:  # noqa: ANN401 (typer's values)
        command(**values)

    kind = inspect.Parameter.KEYWORD_ONLY
    flag = inspect.Parameter("debug", kind, default=False, annotation=_DEBUG)
    return shown(run, command, [*inspect.signature(command).parameters.values(), flag])


def shown(
    run: Callable[..., None], command: Callable[..., None], parameters: list[inspect.Parameter]
) -> Callable[..., None]:
    """A function with the name and help of a command, and parameters for typer."""
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    return run


def guarded(work: Callable[[], None]) -> None:
    """Run the command line; whatever ends it is one message on stderr, and an exit code."""
    try:
        try:
            work()
        finally:
            # Not at the end of the process, where an error of the disk is a traceback.
            sys.stdout.flush()
    except AbevalError as error:
        _stop(INPUT, str(error))
    except BrokenPipeError:
        # Whoever read the output has enough of it.
        _close_stdout()
        sys.exit(FAULT)
    except OSError as error:
        _stop(INPUT if error.errno in _NAMES else FAULT, _of_the_machine(error))
    except MemoryError as error:
        _stop(FAULT, _of_memory(error))
    except Exception as error:
        _stop(FAULT, _of_abeval(error))


def _stop(code: int, message: str) -> None:
    if (stopped := exit_code()) is not None:
        # DuckDB makes an error of the exit that a signal raises within it.
        sys.exit(stopped)
    if "--debug" in sys.argv:
        traceback.print_exc()
    _close_stdout()
    typer.echo(f"error: {_printable(message)}", err=True)
    sys.exit(code)


def _close_stdout() -> None:
    """Python would flush it once more at the end, and say again that it cannot."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _of_the_machine(error: OSError) -> str:
    where = f" ({error.filename})" if error.filename else ""
    return (
        f"the system refused: {error.strerror or error}{where}\n"
        "  hint: check the names and permissions of files, and the space on the disks, stdout's too"
    )


def _of_memory(error: MemoryError) -> str:
    said = f": {error}" if str(error) else ""
    return f"memory ran out{said}\n  hint: analyse fewer rows, or raise [engine] memory_limit"


def _of_abeval(error: Exception) -> str:
    """The error and where it was raised: a report needs both."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _HOME in Path(frame.filename).parents]
    place = (own or frames)[-1]
    file = Path(place.filename).relative_to(_HOME) if own else place.filename
    said = " ".join(str(error).split())[:300]
    return (
        f"abeval failed, which it should not: {type(error).__name__}: {said} "
        f"({file}, line {place.lineno})\n"
        "  hint: please report this line, the command and what it prints with --debug"
    )


def _printable(text: str) -> str:
    """A name in a message must not control the terminal."""
    return "".join(
        char if char.isprintable() or char == "\n" else "\N{REPLACEMENT CHARACTER}" for char in text
    )
