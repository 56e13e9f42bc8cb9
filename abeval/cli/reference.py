"""Answer `abeval metrics`, `schema`, `sql`, `simulate` and `init`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from abeval.bounds import MAX_IMPRESSIONS
from abeval.cli.options import Reads, Writes, place
from abeval.errors import ExperimentError

if TYPE_CHECKING:
    from abeval.drafts.run import Draft
    from abeval.engines.duckdb import DuckDBEngine
    from abeval.engines.statement import Analysis
    from abeval.experiment.model import Experiment
    from abeval.report.layout import Kind


def metrics() -> None:
    """List the built-in metrics with formula, unit, direction and role."""
    from abeval.cli.options import console
    from abeval.experiment.sections import Clicks, Sessions
    from abeval.metrics.builtin import builtin_metrics
    from abeval.report.tables import TextTable
    from abeval.report.terminal import text_table

    own = builtin_metrics(Clicks().long_seconds, Sessions().gap_minutes).values()
    rows = tuple(
        (m.name, m.formula, m.unit, m.direction.label, m.role, ", ".join(sorted(m.needs)), m.kind)
        for m in own
    )
    headers = ("metric", "formula", "unit", "direction", "role", "needs", "kind")
    kinds: tuple[Kind, ...] = ("name", "words", "name", "extra", "name", "words", "extra")
    out = console()
    for part in text_table(TextTable("", "", headers, rows, kinds), out.width):
        out.print(part)


def schema() -> None:
    """Print the JSON Schema of the experiment file, for editors that complete TOML."""
    from abeval.experiment.model import Experiment

    typer.echo(json.dumps(Experiment.model_json_schema(), indent=2))


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
    """Return the analysis that runs a query: each folder of `queries/` belongs to one."""
    runs: Mapping[str, Analysis] = {
        "offline": lambda engine: _replay(experiment, engine),
        "offline_policy": lambda engine: _off_policy(experiment, engine),
    }
    return runs.get(name.split("/")[0], lambda engine: _analyze(experiment, engine, name))


def _analyze(experiment: "Experiment", engine: "DuckDBEngine", name: str) -> None:
    from abeval.aggregates.definitions import run_definitions
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
    """Estimate the policy of another variant, from the log of control."""
    from abeval.logs.run import Run
    from abeval.off_policy.estimates import OffPolicyOptions
    from abeval.off_policy.log import PolicyChoice
    from abeval.off_policy.run import off_policy

    other = next(name for name in experiment.variants if name != experiment.control)
    choice = PolicyChoice(to=other)
    off_policy(Run(experiment, engine), experiment.control, choice, OffPolicyOptions())


def simulate(
    directory: Annotated[
        Path,
        typer.Argument(help="Folder to write to; created if missing.", parser=place),
        Writes("the folder", holds=lambda: ("*",)),
    ],
    impressions: Annotated[
        int,
        typer.Option(help="Number of impressions, including the pre-period.", max=MAX_IMPRESSIONS),
    ] = 200_000,
    seed: Annotated[int, typer.Option(help="Random seed.", min=0)] = 7,
) -> None:
    """Simulate logs with known effects: write the logs, experiment.toml and truth.json."""
    from abeval.progress import steps
    from abeval.simulate import simulate as write_logs

    with steps() as step:
        step("simulating")
        write_logs(
            directory, impressions, seed, lambda done, total: step(f"simulating {done / total:.0%}")
        )
    typer.echo(f"{directory / 'experiment.toml'}")


def init(
    files: Annotated[
        list[Path], typer.Argument(help="Files of a log or table."), Reads("the files")
    ],
    output: Annotated[
        Path, typer.Option(help="The experiment file to write; it must not be there."), Writes()
    ] = Path("experiment.toml"),
) -> None:
    """Look at files, guess what their columns are, and write an experiment file with comments."""
    from abeval.drafts.run import draft_files
    from abeval.files import write_text

    if output.exists():
        raise ExperimentError(f"{output} is there already", "name another file with --output")
    draft = draft_files(files, output.parent, _name(files[0]))
    write_text(output, draft.text)
    _print(draft, output)


def _name(file: Path) -> str:
    from abeval.files import real

    name = real(file).parent.name if file.stem.isdigit() else file.name.split(".")[0]
    return name or "experiment"


def _print(draft: "Draft", output: Path) -> None:
    from rich.text import Text

    from abeval.cli.options import console
    from abeval.report.layout import plain
    from abeval.report.tables import TextTable
    from abeval.report.terminal import text_table

    rows = tuple(
        (g.entry, "-" if g.column is None else g.column.name, g.certainty, g.reason)
        for g in draft.guesses
    )
    headers = ("entry", "column", "how sure", "why")
    table = TextTable("", "", headers, rows, ("name", "name", "name", "words"))
    screen = console()
    for block in text_table(table, screen.width):
        screen.print(block)
    screen.print()
    for question in draft.questions:
        screen.print(Text(plain(f"NOT SURE  {question}")))
    # The command is to be copied: it stands in a line of its own, however long that is.
    screen.print(Text(plain(f"wrote {output}: read its comments, then run:")))
    screen.print(Text(plain(f"  abeval analyze {output}")), soft_wrap=True)
