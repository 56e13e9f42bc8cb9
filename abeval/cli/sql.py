"""`abeval sql`: the queries, as they are or for the user's own warehouse.

Calls `engines/statement.py`; with an experiment, a run of the analysis (or replay, off-policy)
shows the views that a query reads.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from abeval.cli.options import Reads

if TYPE_CHECKING:
    from abeval.engines.duckdb import DuckDBEngine
    from abeval.engines.statement import Analysis
    from abeval.experiment.model import Experiment


def sql(
    name: Annotated[str | None, typer.Argument(help="A query, such as units/logged_sums.")] = None,
    dialect: Annotated[
        str, typer.Option(help="spark, bigquery, snowflake, trino, clickhouse, …")
    ] = "duckdb",
    experiment: Annotated[
        Path | None,
        typer.Option(
            help="Write the query with every view it reads, for the logs of this file.",
            metavar="FILE",
        ),
        Reads(),
    ] = None,
) -> None:
    """Print a query of the analysis, or the names of all queries."""
    from abeval.engines.sql import query_names

    if name is None:
        typer.echo("\n".join(query_names()))
        return
    from abeval.engines.statement import plain_statement, statement

    if experiment is None:
        typer.echo(plain_statement(name, dialect), nl=False)
        return
    from abeval.experiment.load import load_experiment

    loaded = load_experiment(experiment)
    typer.echo(statement(loaded, name, dialect, run_of(loaded, name)), nl=False)


def run_of(experiment: "Experiment", name: str) -> "Analysis":
    """The analysis that runs a query: each folder of `queries/` belongs to one."""
    runs: Mapping[str, Analysis] = {
        "offline": lambda engine: _replay(experiment, engine),
        "offline_policy": lambda engine: _off_policy(experiment, engine),
    }
    return runs.get(name.split("/")[0], lambda engine: _analyze(experiment, engine, name))


def _analyze(experiment: "Experiment", engine: "DuckDBEngine", name: str) -> None:
    from abeval.aggregates.collect import run_definitions
    from abeval.aggregates.row_pass import KERNELS
    from abeval.engines.statement import OF_ARRAYS
    from abeval.logs.run import Run
    from abeval.pipeline import analyze_on

    run = Run(experiment, engine)
    of_arrays = {*OF_ARRAYS.values(), *(source.query for source in KERNELS)}
    if name in of_arrays or "/quantile_" in name or name.startswith("catalogue/"):
        run_definitions(run)
    else:
        analyze_on(run)


def _replay(experiment: "Experiment", engine: "DuckDBEngine") -> None:
    from abeval.logs.run import Run
    from abeval.offline.replay import ReplayOptions, replay

    replay(Run(experiment, engine), ReplayOptions())


def _off_policy(experiment: "Experiment", engine: "DuckDBEngine") -> None:
    """The policy of another variant, from the log of control."""
    from abeval.logs.run import Run
    from abeval.off_policy.log import PolicyChoice
    from abeval.off_policy.run import OffPolicyOptions, off_policy

    other = next(name for name in experiment.variants if name != experiment.control)
    choice = PolicyChoice(to=other)
    off_policy(Run(experiment, engine), experiment.control, choice, OffPolicyOptions())
