"""Run the command line, a thin layer over the Python API.

Results go to stdout, messages to stderr. Exit codes: 0 done; 1 a fault of abeval, or of the
machine; 2 a mistake in the input; 130 interrupted, 143 and 129 stopped by SIGTERM and SIGHUP; with
`--gate` 3 do not trust, 4 do not ship, 5 undecided, 6 a draft.
"""

import atexit
import gc
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import typer

from abeval.cli.analyze import analyze, report
from abeval.cli.assign import assign
from abeval.cli.commands import aa, agree, audit, off_policy, power, replay, windows
from abeval.cli.options import Command, protect_inputs
from abeval.cli.reference import add, init, mcp, metrics, schema, simulate, slack, sql
from abeval.cli.reference import report as history_report
from abeval.errors import (
    FAULT,
    INPUT,
    AbevalError,
    ExperimentError,
    explain_error,
    translate_message,
)
from abeval.signals import exit_code, exit_when_stopped, ignore_stops
from abeval.version import __version__


def _group(name: str, text: str, **settings: Any) -> typer.Typer:  # noqa: ANN401 (typer's settings)
    return typer.Typer(
        name=name, help=text, no_args_is_help=True, pretty_exceptions_enable=False, **settings
    )


def _add(group: typer.Typer, panel: str | None, *commands: Command) -> None:
    """Add commands to a group; examples are at the end of their help.

    The help of an option is at the option.
    """
    for command in commands:
        text, _, examples = inspect.cleandoc(command.__doc__ or "").partition("Examples:\n")
        text, _, _ = text.partition("Options:\n")
        epilog = "\n\n".join(("Examples:", *examples.splitlines()))
        name = command.__name__.replace("_", "-")
        register = group.command(name, help=text.strip(), epilog=epilog, rich_help_panel=panel)
        register(protect_inputs(command))


app = _group(
    "abeval",
    "A/B tests of recommender, search and ads models: from logs to a scorecard you can trust.",
)
history = _group(
    "history",
    "A file of past experiments: which offline metric predicts, and what was really gained.",
)
tools = _group(
    "tools", "Assign units, simulate logs, print queries, metrics, schemas and Slack messages."
)

_add(app, "Decide", init, analyze, windows, power)
_add(app, "Explain", replay, agree, off_policy)
app.add_typer(history, rich_help_panel="Explain")
_add(app, "Trust", aa, audit)
_add(app, "Tools", report, mcp)
app.add_typer(tools, rich_help_panel="Tools")
_add(history, None, add, history_report)
_add(tools, None, assign, simulate, sql, metrics, schema, slack)


def _print_version(is_set: bool) -> None:
    if is_set:
        typer.echo(f"abeval {__version__}")
        raise typer.Exit


@app.callback()
def _declare_options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version)
    ] = False,
) -> None: ...


_INTERRUPTED = 130


def exit_on_error(work: Callable[[], Any]) -> None:
    """Run a function and exit; an error is one message on stderr and an exit code."""
    is_closed = sys.stdout is None
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # Else the next file that is opened would be it.
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 (to the end)
    try:
        try:
            if is_closed:
                what = "standard output is closed, so nothing can be printed"
                raise AbevalError(what, "leave out `>&-`, or write to a file or to /dev/null")
            code = work()
        finally:
            # Not at the end of the process, where an error of the disk is a traceback.
            sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has enough of it.
        _close_stdout()
        sys.exit(FAULT)
    except Exception as error:
        if (stopped := exit_code()) is not None:
            # DuckDB makes an error of the exit that a signal raises within it.
            sys.exit(stopped)
        if str(error) == "Query interrupted":
            # And another one of Ctrl-C.
            sys.exit(_INTERRUPTED)
        code, message = explain_error(_translate_usage_error(error))
        if "--debug" in sys.argv and code == FAULT:
            traceback.print_exc()
        _close_stdout()
        typer.echo(f"error: {message}", err=True)
    sys.exit(code or 0)


def _translate_usage_error(error: Exception) -> Exception:
    """Translate a usage error of Typer into an error of the input."""
    if (say := getattr(error, "format_message", None)) is None:
        return error
    if not (what := say()):
        # A group without a command has printed its help.
        sys.exit(INPUT)
    path = getattr(getattr(error, "ctx", None), "command_path", "abeval")
    return ExperimentError(translate_message(what), f"`{path} --help` lists what there is")


def _close_stdout() -> None:
    """Flush stdout, or replace it by the null device."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError):
            # Python flushes stdout again as it exits, and would print that it cannot.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal without Greek letters still shows the rest.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    # Its products are small: threads of BLAS, which NumPy starts as it is imported, only wait.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # pydantic would read what every installed package says of itself.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # Imports make many objects that stay: looking among them for unused ones takes up to a tenth.
    gc.set_threshold(200_000)
    exit_when_stopped()
    try:
        # Else Typer prints its own errors, with values of any length and in words of pydantic.
        exit_on_error(partial(app, standalone_mode=False))
    finally:
        # Nothing may stop the end of the process, which removes what is left.
        atexit.register(ignore_stops)
