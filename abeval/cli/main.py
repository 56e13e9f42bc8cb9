"""Run the command line: a thin twin of the Python API.

Results go to stdout, messages to stderr. Exit codes: 0 done; 1 a fault of abeval, or of the
machine; 2 a mistake in the input; 130 interrupted, 143 and 129 stopped by SIGTERM and SIGHUP; with
`--gate` 3 do not trust, 4 do not ship, 5 keep running, 6 a draft.
"""

import atexit
import gc
import os
import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from abeval.cli.analyze import analyze, on_table_or_file, report
from abeval.cli.assign import assign
from abeval.cli.commands import aa, agree, audit, check, compare, off_policy, power, replay, windows
from abeval.cli.history import history
from abeval.cli.options import guarded, on_engine, protected, with_engine_flags
from abeval.cli.reference import init, metrics, schema, simulate, sql
from abeval.signals import exit_when_stopped, ignore_stops
from abeval.version import __version__

app = typer.Typer(
    name="abeval",
    help="A/B tests of recommender, search and ads models: from logs to a scorecard you can trust.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

# `abeval --help` lists the commands in this order.
for _command in (
    *(init, on_table_or_file(analyze), with_engine_flags(report)),
    *(on_engine(check), on_engine(compare), on_engine(power), assign, on_engine(audit)),
    *(simulate, metrics, schema, on_engine(off_policy), on_engine(replay), on_engine(agree)),
    *(sql, on_engine(aa), on_engine(windows)),
):
    app.command()(protected(_command))
app.add_typer(history)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"abeval {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version)
    ] = False,
) -> None: ...


def main() -> None:
    """Run the command line; a mistake in the input is one message and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal without Greek letters still shows the rest.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    # Its products are small: threads of BLAS, which NumPy starts as it is imported, only wait.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Imports make many objects that stay: looking among them for unused ones takes up to a tenth.
    gc.set_threshold(200_000)
    exit_when_stopped()
    try:
        guarded(app)
    finally:
        # Nothing may stop the end of the process, which removes what is left.
        atexit.register(ignore_stops)
