"""Run `abeval init`, `mcp` and the tools `metrics`, `schema`, `slack`, `sql`, `simulate`."""

import json
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from abeval.bounds import MAX_IMPRESSIONS
from abeval.cli import options
from abeval.errors import ExperimentError

if TYPE_CHECKING:
    from rich.console import Console

    from abeval.drafts.run import Draft
    from abeval.experiment.model import Experiment
    from abeval.report.tables import Kind
    from abeval.table.connection import Warehouse


def _print_table(columns: "Mapping[str, Kind]", rows: Iterable[tuple[str, ...]]) -> "Console":
    """Print a table; return the console for more output."""
    from abeval.report.tables import TextTable
    from abeval.report.terminal import write_table

    screen = options.open_console()
    table = TextTable("", "", tuple(columns), tuple(rows), tuple(columns.values()))
    for block in write_table(table, screen.width):
        screen.print(block)
    return screen


def metrics() -> None:
    """List the built-in metrics with formula, unit, direction and role.

    Examples:
    abeval tools metrics
    abeval tools metrics > metrics.txt
    """
    from abeval.experiment.sections import Clicks, Sessions
    from abeval.metrics.builtin import load_builtin_metrics

    columns: dict[str, Kind] = {"metric": "name", "formula": "words", "unit": "name"}
    columns |= {"direction": "extra", "role": "name", "needs": "words", "kind": "extra"}
    rows = (
        (m.name, m.formula, m.unit, m.direction.label, m.role, ", ".join(sorted(m.needs)), m.kind)
        for m in load_builtin_metrics(Clicks().long_seconds, Sessions().gap_minutes).values()
    )
    _print_table(columns, rows)


def schema(
    of: Annotated[
        Literal["experiment", "result"],
        typer.Argument(help="The experiment file, or the JSON of an analysis."),
    ] = "experiment",
) -> None:
    """Print the JSON Schema of the experiment file or of the result, for editors and programs.

    Examples:
    abeval tools schema > experiment.schema.json
    abeval tools schema result > result.schema.json
    """
    from abeval.experiment.model import Experiment
    from abeval.results.analysis import build_schema

    found = Experiment.model_json_schema() if of == "experiment" else build_schema()
    typer.echo(json.dumps(found, indent=2))


def slack(files: options.ResultFiles) -> None:
    """Print a message for Slack: decision, next step, effects and trust as blocks.

    Examples:
    abeval tools slack result.json
    abeval tools slack result.json | curl --json @- "$WEBHOOK"
    """
    from abeval.brief import write_brief_json
    from abeval.report.agreement_page import write_standings
    from abeval.results.study import read_results
    from abeval.slack import build_message

    study = read_results(files)
    if study.analysis is None:
        raise ExperimentError("no result of an analysis", "abeval analyze … --json result.json")
    brief = json.loads(write_brief_json(study.analysis, study.outlook, write_standings(study)))
    typer.echo(json.dumps(build_message(brief), ensure_ascii=False))


def sql(
    name: Annotated[
        str | None, typer.Argument(help="A query, such as 4_metrics/gauc; or an experiment file.")
    ] = None,
    metric: Annotated[
        str | None, typer.Argument(help="A metric of the experiment: write the SQL of its value.")
    ] = None,
    dialect: Annotated[
        str,
        typer.Option(
            help="duckdb, spark, postgres, clickhouse, bigquery, snowflake or databricks; of "
            "queries duckdb or spark."
        ),
    ] = "duckdb",
    views: Annotated[
        bool, typer.Option("--views", help="Write the views over the logs that queries read.")
    ] = False,
    database: Annotated[
        Path | None,
        typer.Option(help="A DuckDB file to write these views to.", metavar="FILE"),
        options.Writes(),
    ] = None,
    sums: Annotated[
        Path | None,
        typer.Option(
            help="Write one statement of all sums of this experiment, for its tables there.",
            metavar="FILE",
        ),
        options.Reads(),
    ] = None,
    connect: Annotated[
        str | None,
        typer.Option(help="The warehouse that tells the tables' columns.", metavar="URI"),
    ] = None,
) -> None:
    """Print the SQL of a metric of an experiment; a query of the analysis, or the names of all.

    Examples:
    abeval tools sql experiment.toml ctr
    abeval tools sql 4_metrics/gauc --dialect spark
    """
    from abeval.engines.sql import query_names

    if sums is not None:
        typer.echo(_write_sums(sums, dialect, connect), nl=False)
    elif name is None:
        typer.echo("\n".join(query_names()))
    elif metric is not None:
        typer.echo(_write_metric(Path(name), metric, dialect, connect), nl=False)
    elif database is not None:
        _write_database(Path(name), database)
    elif views:
        from abeval.table.metric_sql import write_view_statements

        typer.echo(write_view_statements(_load_experiment(Path(name))), nl=False)
    elif name.endswith(".toml"):
        hint = "abeval tools sql experiment.toml ctr"
        raise ExperimentError("name a metric of the experiment, or give --views", hint)
    else:
        from abeval.engines.statement import write_plain_statement

        typer.echo(write_plain_statement(name, dialect), nl=False)


def _load_experiment(file: Path) -> "Experiment":
    from abeval.experiment.load import load_experiment

    return load_experiment(file)


def _write_metric(file: Path, metric: str, dialect: str, uri: str | None) -> str:
    """Write the statement of a metric's value."""
    from abeval.table.metric_sql import write_metric_statements
    from abeval.table.warehouse import write_value_statement

    # DuckDB reads the log files themselves; other dialects get statements over tables.
    if dialect == "duckdb" and uri is None:
        return write_metric_statements(_load_experiment(file), [metric])[metric]
    with _open_target(dialect, uri) as target:
        return write_value_statement(_load_experiment(file), metric, target)


def _write_database(file: Path, database: Path) -> None:
    """Write the views over an experiment's logs to a new DuckDB file."""
    from tempfile import TemporaryDirectory

    from abeval.engines.duckdb_connection import open_database
    from abeval.engines.sources import find_readable_files
    from abeval.files import write_bytes
    from abeval.table.metric_sql import write_view_statements

    experiment = _load_experiment(file)
    statements = write_view_statements(experiment, is_absolute=True)
    logs = experiment.logs.logs_by_name.values()
    there = [find_readable_files("", log, experiment.folder) for log in logs]
    files = [name for listing in there if listing for name in (*listing.read, *listing.empty)]
    # DuckDB writes a draft first: a failed run must not leave half a database.
    with TemporaryDirectory() as folder:
        draft = Path(folder) / "views.duckdb"
        with open_database(str(draft), files=files) as connection:
            connection.execute(statements)
        write_bytes(database, draft.read_bytes())
    typer.echo(f"{database}")


def _open_target(dialect: str, uri: str | None) -> "closing[Warehouse]":
    """Open the warehouse where a statement runs; without one only its dialect is known."""
    from abeval.table.connection import Warehouse, connect

    return closing(Warehouse(dialect) if uri is None else connect(uri))


def _write_sums(file: Path, dialect: str, uri: str | None) -> str:
    """Write the statement of an experiment's sums."""
    from abeval.table.warehouse import write_sums_statement

    with _open_target(dialect, uri) as target:
        return write_sums_statement(_load_experiment(file), target).text


def simulate(
    directory: Annotated[
        Path,
        typer.Argument(
            help="Folder to write to; created if missing.", parser=options.parse_output_path
        ),
    ],
    impressions: Annotated[
        int,
        typer.Option(help="Number of impressions, including the pre-period.", max=MAX_IMPRESSIONS),
    ] = 200_000,
    seed: Annotated[int, typer.Option(help="Random seed.", min=0)] = 7,
    past: Annotated[
        int, typer.Option(help="Small experiments that came before, in past/.", min=0, max=100)
    ] = 0,
    design: Annotated[
        Literal["ab", "clusters", "interleaving", "switchback"],
        typer.Option(help="An A/B test; or a small log of stores, shared lists, cities in turn."),
    ] = "ab",
) -> None:
    """Simulate logs with known effects: write the logs, experiment.toml and truth.json.

    Examples:
    abeval tools simulate logs --impressions 50000 --seed 3 --past 5
    abeval tools simulate lists --design interleaving
    """
    from abeval import simulate as worlds
    from abeval.progress import show_progress

    if design != "ab" and (past or impressions != worlds.DEFAULT_IMPRESSIONS):
        raise ExperimentError(f"--design {design} has one size, and no past", "give --seed alone")
    with show_progress() as step:
        step("simulating")
        if design == "ab":

            def count(done: int, total: int) -> None:
                step(f"simulating {done / total:.0%}")

            worlds.simulate(directory, impressions, seed, count, past)
        else:
            worlds.simulate_design(design, directory, seed)
    typer.echo(f"{directory / 'experiment.toml'}")


def mcp(
    folders: Annotated[
        list[Path],
        typer.Argument(help="Folders that may be read.", metavar="FOLDER..."),
        options.Reads("the folder"),
    ],
    time_limit: Annotated[
        float, typer.Option(help="Seconds after which the queries of a call end.", min=0.1)
    ] = 120.0,
) -> None:
    """Serve assistants over the Model Context Protocol, on stdin and stdout; nothing is written.

    Examples:
    abeval mcp .
    abeval mcp experiments logs --time-limit 30
    """
    from abeval.server import serve

    serve(folders, time_limit)


def init(
    files: Annotated[
        list[Path], typer.Argument(help="Files of a log or table."), options.Reads("the files")
    ],
    output: Annotated[
        Path,
        typer.Option(help="The experiment file to write; it must not be there."),
        options.Writes(),
    ] = Path("experiment.toml"),
    read: Annotated[list[str] | None, typer.Option(help=options.READ, metavar="KEY=VALUE")] = None,
) -> None:
    """Look at files, guess what their columns are, and write an experiment file with comments.

    Examples:
    abeval init users.csv --output users.toml
    abeval init impressions/ clicks.csv --output log.toml
    """
    from abeval.drafts.run import draft_files
    from abeval.files import write_text

    if output.exists():
        raise ExperimentError(f"{output} is there already", "name another file with --output")
    draft = draft_files(files, output.parent, _name(files[0]), options.parse_read_options(read))
    write_text(output, draft.text)
    _print(draft, output)


def _name(file: Path) -> str:
    from abeval.files import resolve_path

    name = resolve_path(file).parent.name if file.stem.isdigit() else file.name.split(".")[0]
    return name or "experiment"


def _print(draft: "Draft", output: Path) -> None:
    import tomllib

    from rich.text import Text

    from abeval.experiment.load import parse_experiment
    from abeval.report.terminal import replace_unprintable

    screen = _print_table(
        {"entry": "name", "column": "name", "how sure": "name", "why": "words"},
        (
            (g.entry, "-" if g.column is None else g.column.name, g.certainty, g.reason)
            for g in draft.guesses
        ),
    )
    screen.print()
    lines = [f"wrote {output}: read its comments, then run:"]
    if draft.questions:
        lines = [f"wrote {output}: answer each question in it, and take it out of `questions`:"]
        lines += [f"  ({n}) {question}" for n, question in enumerate(draft.questions, start=1)]
        until = "the analysis is a DRAFT, which decides nothing"
        try:
            parse_experiment(tomllib.loads(draft.text))
        except ExperimentError:
            until = "nothing can be analyzed; after that, run"
        lines += [f"Until then {until}:"]
    for line in lines:
        screen.print(Text(replace_unprintable(line)))
    # The command is to be copied: it stands in a line of its own, however long that is.
    screen.print(Text(replace_unprintable(f"  abeval analyze {output}")), soft_wrap=True)
