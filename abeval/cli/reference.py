"""Run `abeval init`, `mcp`, `history`, and the tools but `assign`."""

from collections.abc import Iterable, Mapping
from contextlib import closing
from json import dumps, loads
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Argument, Option

from abeval.bounds import MAX_IMPRESSIONS
from abeval.cli import options
from abeval.errors import ExperimentError
from abeval.files import resolve_path, write_bytes, write_text
from abeval.progress import show_progress

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
    of: Annotated[Literal["experiment", "result"], Argument()] = "experiment",
) -> None:
    """Print the JSON Schema of experiment files or results, for editors and programs.

    Options:
        of: The experiment file, or the JSON of an analysis.

    Examples:
    abeval tools schema > experiment.schema.json
    abeval tools schema result > result.schema.json
    """
    from abeval.experiment.model import Experiment
    from abeval.results.analysis import build_schema

    found = Experiment.model_json_schema() if of == "experiment" else build_schema()
    typer.echo(dumps(found, indent=2))


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
    brief = loads(write_brief_json(study.analysis, study.outlook, write_standings(study)))
    typer.echo(dumps(build_message(brief), ensure_ascii=False))


def sql(
    name: Annotated[str | None, Argument()] = None,
    metric: Annotated[str | None, Argument()] = None,
    dialect: str = "duckdb",
    views: bool = False,
    database: Annotated[Path | None, Option(metavar="FILE"), options.Writes()] = None,
    sums: options.InputFile = None,
    connect: options.Address = None,
) -> None:
    """Print the SQL of a metric or of a query of the analysis, or list all queries.

    Options:
        name: A query, such as 4_metrics/gauc; or an experiment file.
        metric: A metric of the experiment: write the SQL of its value.
        dialect: duckdb, spark, postgres, clickhouse, bigquery, snowflake or databricks; of queries
            duckdb or spark.
        views: Write the views over the logs that queries read.
        database: A DuckDB file to write these views to.
        sums: Write one statement of all sums of this experiment, for its tables there.
        connect: The warehouse that tells the tables' columns.

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
    """Open the warehouse where a statement runs.

    Without `uri` only the dialect of the warehouse is known.
    """
    from abeval.table.connection import Warehouse, connect

    return closing(Warehouse(dialect) if uri is None else connect(uri))


def _write_sums(file: Path, dialect: str, uri: str | None) -> str:
    """Write the statement of an experiment's sums."""
    from abeval.table.warehouse import write_sums_statement

    with _open_target(dialect, uri) as target:
        return write_sums_statement(_load_experiment(file), target).text


def simulate(
    directory: Annotated[Path, Argument(parser=options.parse_output_path)],
    impressions: Annotated[int, Option(max=MAX_IMPRESSIONS)] = 200_000,
    seed: Annotated[int, Option(min=0)] = 7,
    past: Annotated[int, Option(min=0, max=100)] = 0,
    design: Literal["ab", "clusters", "interleaving", "switchback"] = "ab",
) -> None:
    """Simulate logs with known effects; write logs, experiment.toml and truth.json.

    Options:
        directory: Folder to write to; created if missing.
        impressions: Number of impressions, including the pre-period.
        seed: Random seed.
        past: Small experiments that came before, in past/.
        design: An A/B test; or a small log of stores, shared lists, cities in turn.

    Examples:
    abeval tools simulate logs --impressions 50000 --seed 3 --past 5
    abeval tools simulate lists --design interleaving
    """
    from abeval import simulate as worlds

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
    folders: Annotated[list[Path], Argument(metavar="FOLDER..."), options.Reads("the folder")],
    time_limit: Annotated[float, Option(min=0.1)] = 120.0,
) -> None:
    """Serve assistants over the Model Context Protocol, on stdin and stdout.

    The server writes no files.

    Options:
        folders: Folders that may be read.
        time_limit: Seconds after which the queries of a call end.

    Examples:
    abeval mcp .
    abeval mcp experiments logs --time-limit 30
    """
    from abeval.server import serve

    serve(folders, time_limit)


def init(
    files: Annotated[list[Path], Argument(), options.Reads("the files")],
    output: Annotated[Path, options.Writes()] = Path("experiment.toml"),
    read: Annotated[list[str] | None, Option(metavar="KEY=VALUE")] = None,
) -> None:
    """Guess what the columns of files are, and write a commented experiment file.

    Options:
        files: Files of a log or table.
        output: The experiment file to write; it must not be there.
        read: How the file is read: table=, sheet=, encoding=, delimiter=, decimal=, header=,
            format=; repeatable.

    Examples:
    abeval init users.csv --output users.toml
    abeval init impressions/ clicks.csv --output log.toml
    """
    from abeval.drafts.run import draft_files

    if output.exists():
        raise ExperimentError(f"{output} is there already", "name another file with --output")
    draft = draft_files(files, output.parent, _name(files[0]), options.parse_read(read or ()))
    write_text(output, draft.text)
    _print(draft, output)


def _name(file: Path) -> str:
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


def add(
    results: Annotated[list[Path], Argument(metavar="JSON"), options.Reads("the result")],
    history: Annotated[Path, options.output_file(), options.Writes()],
    shipped: Annotated[list[str] | None, Option(metavar="VARIANT")] = None,
    json: options.JsonFile = None,
) -> None:
    """Add the results of one experiment; adding them twice changes nothing.

    A changed result of the same experiment takes the place of the old one, which is said.

    Options:
        results: JSON of one experiment: of analyze or report; of agree, replay.
        history: The .parquet or .duckdb file; created if missing.
        shipped: The variant that was shipped, or none; repeat for more. Default: the verdict's.

    Examples:
    abeval history add result.json --history history.parquet
    abeval history add result.json agreement.json --history history.parquet
    """
    from abeval.history.history import History

    # `none` alone says that nothing was shipped.
    shipped_variants = [] if shipped == ["none"] else shipped
    options.show(History(history).add(*results, shipped=shipped_variants), json)


def report(
    history: Annotated[Path, Option(metavar="FILE"), options.Reads()],
    metric: list[str] | None = None,
    offline: list[str] | None = None,
    holdout: Annotated[Path | None, options.Reads(is_experiment=options.is_toml)] = None,
    show_all: options.Whole = False,
    json: options.JsonFile = None,
    report: options.ReportFile = None,
) -> None:
    """Say which metric predicts which, how often each moves, what was really gained.

    Options:
        history: The history: a .parquet or .duckdb file.
        metric: An online metric; repeat for more. Default: goals and guardrails.
        offline: An offline metric; repeat for more. Default: those most quoted.
        holdout: An experiment file with [holdout]: what did its period gain?

    Examples:
    abeval history report --history history.parquet
    abeval history report --history history.parquet --holdout holdout.toml
    """
    from abeval.api import load
    from abeval.history.history import History

    loaded = None if holdout is None else load(holdout)
    result = History(history).report(metrics=metric, offline=offline, holdout=loaded)
    options.show(result, json, report, show_all=show_all)
