"""The command line: a thin twin of the Python API.

Results go to stdout, messages to stderr. Exit codes: 0 done; 1 a fault of abeval; 2 something to
mend in the input; 130 stopped; with `--gate` 3 not to be trusted, 4 do not ship, 5 keep running.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from abeval.cli.off_policy import register as register_off_policy
from abeval.cli.options import JsonFile, ReportFile, on_engine, writable
from abeval.cli.replay import register as register_replay
from abeval.cli.sql import register as register_sql
from abeval.cli.time import register as register_time
from abeval.errors import AbevalError, ExperimentError

if TYPE_CHECKING:
    from abeval.api import LoadedExperiment
    from abeval.results.analysis import Result

app = typer.Typer(
    name="abeval",
    help="A/B tests of recommender, search and ads models: from logs to a scorecard to be trusted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

_GATE: Mapping[str, int] = {"ship": 0, "do_not_trust": 3, "do_not_ship": 4, "keep_running": 5}


@app.command()
@on_engine
def analyze(
    loaded: "LoadedExperiment",
    json_file: JsonFile = None,
    report: ReportFile = None,
    csv: Annotated[
        Path | None,
        typer.Option(help="Write the scorecard as CSV.", metavar="FILE", callback=writable),
    ] = None,
    gate: Annotated[
        bool, typer.Option("--gate", help="Exit 3, 4 or 5 where the verdict is not to ship.")
    ] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Print what each step costs, on stderr.")
    ] = False,
    store: Annotated[
        Path | None,
        typer.Option(
            help="Keep sums of each input file here: the next run reads new files alone.",
            metavar="FOLDER",
        ),
    ] = None,
    save_aggregates: Annotated[
        Path | None,
        typer.Option(
            help="Write what the result is judged by, for --aggregates.", metavar="FOLDER"
        ),
    ] = None,
    aggregates: Annotated[
        Path | None,
        typer.Option(
            help="Judge what --save-aggregates or a warehouse wrote, without the log.",
            metavar="FOLDER",
        ),
    ] = None,
) -> None:
    """Analyse an experiment: verdict, trust checks, scorecard."""
    from abeval.files import write_text
    from abeval.progress import steps

    if aggregates is not None and (store is not None or save_aggregates is not None):
        raise ExperimentError("--aggregates reads no log: leave --store and --save-aggregates out")
    with steps(profile=profile) as step:
        if aggregates is None:
            result = loaded.analyze(step=step, store=store, save_aggregates=save_aggregates)
        else:
            result = loaded.from_aggregates(aggregates, step=step)
        step("writing")
        if json_file is not None:
            write_text(json_file, result.to_json())
        if csv is not None:
            write_text(csv, result.to_csv())
        if report is not None:
            result.report(report)
    _show(result)
    if gate:
        raise typer.Exit(max((_GATE[v.decision] for v in result.verdicts), default=0))


def _show(result: "Result") -> None:
    from rich.console import Console

    from abeval.report.terminal import print_result

    # A pipe has no width of its own; the table needs about this much.
    console = Console()
    print_result(result, console if console.is_terminal else Console(width=112))


@app.command()
@on_engine
def compare(
    loaded: "LoadedExperiment",
    metric: Annotated[str, typer.Option(help="The metric to compare variants on.")],
    json_file: JsonFile = None,
) -> None:
    """Compare every two variants: the matrix of adjusted p-values, and each pair."""
    from abeval.files import write_text
    from abeval.progress import steps

    with steps() as step:
        found = loaded.compare(metric, step=step)
    if json_file is not None:
        write_text(json_file, found.to_json())
    family = "unadjusted" if found.family == "none" else f"adjusted by {found.family}"
    typer.echo(f"{metric}: p-values, {family} over {len(found.pairs)} pairs\n")
    typer.echo(found.matrix().to_string(float_format=lambda p: f"{p:.4g}", na_rep="-"))
    typer.echo("\n" + found.to_frame().to_string(index=False, float_format=lambda x: f"{x:.4g}"))
    for check in found.trust:
        if check.status == "fail":
            typer.echo(f"not to be trusted: {check.message}", err=True)


@app.command()
@on_engine
def power(
    loaded: "LoadedExperiment",
    mde: Annotated[
        str | None, typer.Option(help="Relative effect to find, such as 1% or 0.01.")
    ] = None,
    days: Annotated[float | None, typer.Option(help="Length of the experiment.")] = None,
    power: Annotated[float, typer.Option(help="Wanted probability of finding it.")] = 0.8,
    metric: Annotated[
        list[str] | None, typer.Option(help="A metric; again for more. Goals and guardrails.")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """What the experiment can see, or how long it needs, from its own logs."""
    from abeval.files import write_text
    from abeval.progress import steps

    effect = None if mde is None else _fraction(mde)
    with steps() as step:
        found = loaded.power(mde=effect, days=days, power=power, metrics=metric, step=step)
    if json_file is not None:
        write_text(json_file, found.to_json())
    typer.echo(found.to_frame().to_string(index=False, float_format=lambda x: f"{x:.4g}"))


def _fraction(text: str) -> float:
    """`1%` or `0.01`."""
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise ExperimentError(f"--mde: {text!r} is not a number such as 1% or 0.01") from None


@app.command()
def assign(
    salt: Annotated[str, typer.Option(help="Names the randomisation.")],
    variants: Annotated[str, typer.Option(help="Such as control=0.5,treatment=0.5.")],
    ids: Annotated[Path | None, typer.Argument(help="A CSV file with a header line.")] = None,
    column: Annotated[
        str | None, typer.Option(help="The column of the ids, if it is not the first.")
    ] = None,
    explain: Annotated[
        str | None, typer.Option(help="Explain one id instead.", metavar="ID")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Assign ids to variants by hash; prints them with variant, slot and sub_bucket as CSV."""
    from abeval.assignment import Assignment
    from abeval.files import write_text

    rule = Assignment(salt, _weights(variants))
    if explain is not None:
        found = rule.explain(explain)
        typer.echo(str(found))
        if json_file is not None:
            fields = {**asdict(found), "range": [found.range.start, found.range.stop]}
            write_text(json_file, json.dumps(fields, indent=2) + "\n")
        return
    if ids is None:
        raise ExperimentError("nothing to assign", "give a CSV file of ids, or --explain ID")
    texts, name = _read_ids(ids, column)
    frame = rule.assign_many(texts).rename(columns={"unit": name})
    frame = frame[[name, "variant", "slot", "sub_bucket"]]
    if json_file is not None:
        write_text(json_file, frame.to_json(orient="records", indent=2) + "\n")
    typer.echo(frame.to_csv(index=False), nl=False)


def _weights(text: str) -> dict[str, float]:
    """`control=0.5,treatment=0.5` as weights."""
    weights: dict[str, float] = {}
    for part in text.split(","):
        name, _, weight = part.partition("=")
        hint = "write them like control=0.5,treatment=0.5"
        if not name.strip() or name.strip() in weights:
            what = "names a variant twice" if name.strip() else "names no variant"
            raise ExperimentError(f"--variants: {part.strip()!r} {what}", hint)
        try:
            weights[name.strip()] = float(weight)
        except ValueError:
            what = f"--variants: {part.strip()!r} is not NAME=WEIGHT"
            raise ExperimentError(what, hint) from None
    return weights


def _read_ids(file: Path, column: str | None) -> tuple[list[str], str]:
    """The ids as text, so that leading zeros stay, and the name of their column."""
    import csv

    from abeval.errors import LogError
    from abeval.experiment.problems import suggestion

    try:
        with file.open(newline="", encoding="utf-8-sig") as lines:
            reader = csv.reader(lines)
            rows = [(reader.line_num, row) for row in reader if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise LogError(f"{file} cannot be read: {reason}", "give a CSV file in UTF-8") from error
    if not rows:
        raise LogError(f"{file} is empty", "give a CSV file with a header line and an id a line")
    header = rows[0][1]
    name = column or header[0]
    if name not in header:
        raise LogError(f"{file} has no column {name!r}{suggestion(name, header)}")
    place = header.index(name)
    short = next((line for line, row in rows if len(row) <= place or not row[place]), None)
    if short is not None:
        raise LogError(f"{file}, line {short}: no id", "leave rows without an id out")
    return [row[place] for _, row in rows[1:]], name


@app.command()
def simulate(
    directory: Annotated[Path, typer.Argument(help="Where to write; made if it is not there.")],
    impressions: Annotated[int, typer.Option(help="How many, the pre-period included.")] = 200_000,
    seed: Annotated[int, typer.Option(help="Another seed, other logs.")] = 7,
) -> None:
    """Write logs with known truth: logs, experiment.toml and truth.json."""
    from abeval.progress import steps
    from abeval.simulate import simulate as write_logs

    with steps() as step:
        step("simulating")
        write_logs(
            directory, impressions, seed, lambda done, total: step(f"simulating {done / total:.0%}")
        )
    typer.echo(f"{directory / 'experiment.toml'}")


@app.command()
def metrics() -> None:
    """List the built-in metrics with formula, unit, direction and role."""
    from rich.console import Console
    from rich.table import Table

    from abeval.experiment.model import Clicks, Sessions
    from abeval.metrics.builtin import builtin_metrics

    known = builtin_metrics(Clicks().long_seconds, Sessions().gap_minutes)
    table = Table("metric", "kind", "formula", "unit", "direction", "role", "needs")
    for metric in known.values():
        words = (metric.kind, metric.formula, metric.unit, metric.direction.label, metric.role)
        table.add_row(metric.name, *words, ", ".join(sorted(metric.needs)))
    Console().print(table)


@app.command()
def schema() -> None:
    """Print the JSON Schema of the experiment file, for editors that complete TOML."""
    from abeval.experiment.model import Experiment

    typer.echo(json.dumps(Experiment.model_json_schema(), indent=2))


register_off_policy(app)
register_replay(app)
register_sql(app)
register_time(app)


def main() -> None:
    """Run the command line; every mistake of the input is one message and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that knows no Σ still shows the rest.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        app()
    except AbevalError as error:
        typer.echo(f"error: {_printable(str(error))}", err=True)
        sys.exit(2)


def _printable(text: str) -> str:
    """A name in a message must not steer the terminal."""
    kept = (c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)
    return "".join(kept)


if __name__ == "__main__":
    main()
