"""`abeval sql`: the queries, as they are or for the user's own warehouse.

Calls `engines/statement.py`; with an experiment, a run of the analysis (or replay, windows,
off-policy) shows the views that a query reads.
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
    from abeval.logs.run import Run


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
    from abeval.engines.queries import query_names

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
        "time": lambda engine: _windows(experiment, engine),
    }
    return runs.get(name.split("/")[0], lambda engine: _analyze(experiment, engine, name))


def _analyze(experiment: "Experiment", engine: "DuckDBEngine", name: str) -> None:
    from abeval.aggregates.row_pass import KERNELS
    from abeval.logs.run import Run
    from abeval.pipeline import analyze_on

    run = Run(experiment, engine)
    of_kernels = name in {source.query for source in KERNELS} or "/quantile_" in name
    if of_kernels or name.startswith("catalogue/"):
        run_definitions(run)
    else:
        analyze_on(run)


def run_definitions(run: "Run") -> None:
    """Run the queries that define what kernels compute."""
    from abeval.aggregates.quantile_values import QueriedValues
    from abeval.aggregates.quantiles import events_of, quantile_groups, quantiles_of
    from abeval.aggregates.row_pass import KERNELS
    from abeval.aggregates.spreads import spread_metrics
    from abeval.engines.queries import query
    from abeval.experiment.metrics import chosen_metrics
    from abeval.metrics.sources import QUANTILE
    from abeval.time.open import by_source, open_logs

    chosen = chosen_metrics(run.experiment)
    logs = open_logs(run, [*chosen, *spread_metrics(chosen)])
    for source, metrics in by_source(logs.metrics).items():
        if source in KERNELS and source.per_unit:
            logs.queries.load(source, metrics)
    for name in ("catalogue/reach", "catalogue/group_units"):
        run.engine.rows(query(name))
    for group in quantile_groups([m for m in logs.metrics if m.source is QUANTILE]):
        events = events_of(logs.queries, group[0])
        quantiles_of(group, [QueriedValues(logs.queries, group[0], events)])


def _replay(experiment: "Experiment", engine: "DuckDBEngine") -> None:
    from abeval.logs.run import Run
    from abeval.offline.replay import ReplayOptions, replay

    replay(Run(experiment, engine), ReplayOptions())


def _off_policy(experiment: "Experiment", engine: "DuckDBEngine") -> None:
    """The policy of another variant, from the log of control."""
    from abeval.logs.run import Run
    from abeval.off_policy.estimates import OffPolicyOptions
    from abeval.off_policy.log import PolicyChoice
    from abeval.off_policy.run import off_policy

    other = next(name for name in experiment.variants if name != experiment.control)
    choice = PolicyChoice(to=other)
    off_policy(Run(experiment, engine), experiment.control, choice, OffPolicyOptions())


def _windows(experiment: "Experiment", engine: "DuckDBEngine") -> None:
    from abeval.experiment.metrics import chosen_metrics
    from abeval.logs.run import Run
    from abeval.time.analysis import windows
    from abeval.time.clock import CLOCKS

    metrics = chosen_metrics(experiment)
    windows(Run(experiment, engine), metrics, (3,), (), CLOCKS)
