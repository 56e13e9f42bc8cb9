"""The command line: a thin twin of the Python API.

Results go to stdout, messages to stderr. Exit codes: 0 done; 1 a fault of abeval; 2 a mistake in
the input; 130 interrupted; with `--gate` 3 do not trust, 4 do not ship, 5 keep running.

The command `abeval` and `python -m abeval` call `main`; the commands are in modules beside it.
"""

import sys
from io import TextIOWrapper

import typer

from abeval.cli.aa import aa
from abeval.cli.analyze import analyze
from abeval.cli.assign import assign
from abeval.cli.compare import compare
from abeval.cli.off_policy import off_policy
from abeval.cli.options import on_engine
from abeval.cli.power import power
from abeval.cli.reference import metrics, schema
from abeval.cli.replay import replay
from abeval.cli.simulate import simulate
from abeval.cli.sql import sql
from abeval.cli.table import TABLE_OR_FILE
from abeval.cli.windows import windows
from abeval.errors import AbevalError

app = typer.Typer(
    name="abeval",
    help="A/B tests of recommender, search and ads models: from logs to a scorecard you can trust.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

# `abeval --help` lists the commands in this order.
app.command()(on_engine(analyze, TABLE_OR_FILE))
app.command()(on_engine(compare))
app.command()(on_engine(power))
app.command()(assign)
app.command()(simulate)
app.command()(metrics)
app.command()(schema)
app.command()(on_engine(off_policy))
app.command()(on_engine(replay))
app.command()(sql)
app.command()(on_engine(aa))
app.command()(on_engine(windows))


def main() -> None:
    """Run the command line; a mistake in the input is one message and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal without Greek letters still shows the rest.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        app()
    except AbevalError as error:
        typer.echo(f"error: {_printable(str(error))}", err=True)
        sys.exit(2)


def _printable(text: str) -> str:
    """A name in a message must not control the terminal."""
    return "".join(
        char if char.isprintable() or char == "\n" else "\N{REPLACEMENT CHARACTER}" for char in text
    )
