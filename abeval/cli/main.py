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
from functools import partial
from io import TextIOWrapper
from typing import Annotated, Any

import typer

from abeval.cli.analyze import analyze, report
from abeval.cli.assign import assign
from abeval.cli.commands import aa, agree, audit, off_policy, power, replay, windows
from abeval.cli.options import Command, exit_on_error, protect_inputs
from abeval.cli.reference import add, init, mcp, metrics, schema, simulate, slack, sql
from abeval.cli.reference import report as history_report
from abeval.signals import exit_when_stopped, ignore_stops
from abeval.version import __version__


def _group(name: str, text: str, **settings: Any) -> typer.Typer:  # noqa: ANN401 (typer's settings)
    return typer.Typer(
        name=name, help=text, no_args_is_help=True, pretty_exceptions_enable=False, **settings
    )


def _add(group: typer.Typer, panel: str | None, *commands: Command) -> None:
    """Add commands to a group; examples stand at the end of their help."""
    for command in commands:
        text, _, examples = inspect.cleandoc(command.__doc__ or "").partition("Examples:\n")
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
