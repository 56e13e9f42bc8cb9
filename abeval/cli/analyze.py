"""Answer `abeval analyze` and `report`: of an experiment file, a table of units, or results."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from abeval.cli.options import (
    JsonFile,
    Reads,
    ReportFile,
    Source,
    Writes,
    check_page,
    console,
    engine_of,
    folder,
    is_toml,
    output_file,
    write_json,
)
from abeval.errors import ExperimentError

if TYPE_CHECKING:
    from abeval.api import LoadedExperiment
    from abeval.experiment.model import Experiment
    from abeval.results.analysis import Result
    from abeval.results.study import Study


def _flag(text: str, metavar: str = "COLUMN") -> Any:  # noqa: ANN401 (typer's own type is Any)
    return typer.Option(help=text, metavar=metavar, rich_help_panel="Table of one row a unit")


_MANY = "repeat for more"
_FLAGS: Mapping[str, object] = {
    "unit": Annotated[str | None, _flag("The unit; without it each row is one.")],
    "variant": Annotated[str | None, _flag("The variant.")],
    "metric": Annotated[
        list[str] | None,
        _flag(
            f"A column, or name=clicks/views for a ratio; {_MANY}. Default: all numbers.", "METRIC"
        ),
    ],
    "covariate": Annotated[
        list[str] | None, _flag(f"Measured before the experiment, for CUPED; {_MANY}.")
    ],
    "segment": Annotated[list[str] | None, _flag(f"Effects by its values too; {_MANY}.")],
    "control": Annotated[
        str | None, _flag("Default: the one called so, or the first by name.", "VARIANT")
    ],
}


def _load(file: Path | None, flags: Mapping[str, Any]) -> "LoadedExperiment":
    from abeval.api import load
    from abeval.engines.sources import is_table

    named = {name: value for name in _FLAGS if (value := flags[name])}
    if file is None:
        return _of_sums(flags.get("sums"), named)
    variant = named.pop("variant", None)
    if variant is None:
        if named:
            raise ExperimentError(f"--{next(iter(named))} is for a table", "name its --variant too")
        if is_table(file):
            raise ExperimentError(
                f"{file} is a table, not an experiment file",
                "name its columns: --unit user_id --variant group",
            )
        return load(file)
    from abeval.api.entry import load_table
    from abeval.table.columns import TableOptions

    options = TableOptions(
        variant=variant,
        unit=named.get("unit"),
        metrics=named.get("metric"),
        covariates=named.get("covariate", ()),
        segments=named.get("segment", ()),
        control=named.get("control"),
    )
    loaded = load_table(file, options)
    _say_control(loaded.experiment, options.control)
    return loaded


def _of_sums(sums: Path | None, named: dict[str, Any]) -> "LoadedExperiment":
    """The experiment that a table of sums is of."""
    from abeval.api import LoadedExperiment
    from abeval.store.summaries import read_sums
    from abeval.table.read import sums_experiment

    control = named.pop("control", None)
    if sums is None:
        raise ExperimentError("nothing to analyse", "name an experiment file, a table, or --sums")
    if named:
        raise ExperimentError(
            f"--{next(iter(named))} is for a table", "sums name their own columns"
        )
    experiment = sums_experiment(read_sums(sums), sums, control)
    _say_control(experiment, control)
    return LoadedExperiment(experiment)


def _say_control(experiment: "Experiment", named: str | None) -> None:
    from abeval.table.read import is_usual_control

    control = experiment.control
    if named is None and not is_usual_control(control):
        typer.echo(f"control is {control}, the first by name; --control names another", err=True)


TABLE_OR_FILE = Source(
    "The experiment file (TOML), or a table with --variant.", _FLAGS, _load, is_needed=False
)


_EXIT_CODES: Mapping[str, int] = {"ship": 0, "do_not_trust": 3, "do_not_ship": 4, "keep_running": 5}


def _kept() -> tuple[str, ...]:
    from abeval.store.saved import KEPT

    return KEPT


def analyze(
    loaded: "LoadedExperiment",
    json_file: JsonFile = None,
    report: ReportFile = None,
    csv: Annotated[
        Path | None, output_file("--csv", "Write the scorecard as CSV."), Writes()
    ] = None,
    gate: Annotated[
        bool, typer.Option("--gate", help="Exit with 3, 4 or 5 unless the verdict is to ship.")
    ] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Print the time of each step, on stderr.")
    ] = False,
    save_aggregates: Annotated[
        Path | None,
        folder("Write the aggregates behind the result, for --aggregates."),
        Writes(holds=_kept),
    ] = None,
    aggregates: Annotated[
        Path | None,
        folder("Compute the result from saved aggregates or a warehouse's sums, without the log."),
        Reads(holds=lambda: (*_kept(), "logged_sums.*")),
    ] = None,
    sums: Annotated[
        Path | None,
        typer.Option(help="Judge sums by metric, variant and day instead of logs.", metavar="FILE"),
        Reads(),
    ] = None,
) -> None:
    """Analyse an experiment: verdict, trust checks, scorecard."""
    from abeval.files import write_text
    from abeval.progress import steps

    if aggregates is not None and save_aggregates is not None:
        raise ExperimentError("--aggregates reads no log: remove --save-aggregates")
    if sums is not None and (aggregates or save_aggregates):
        raise ExperimentError("--sums reads no log: remove --aggregates and --save-aggregates")
    with steps(profile=profile) as step:
        if sums is not None:
            result = loaded.from_sums(sums)
        elif aggregates is None:
            result = loaded.analyze(step=step, save_aggregates=save_aggregates)
        else:
            result = loaded.from_aggregates(aggregates, step=step)
        step("writing")
        write_json(json_file, result)
        if csv is not None:
            write_text(csv, result.to_csv())
        if report is not None:
            result.report(report)
    _print(result)
    if gate:
        raise typer.Exit(max((_EXIT_CODES[v.decision] for v in result.verdicts), default=0))


def _print(result: "Result") -> None:
    from abeval.report.terminal import print_result

    print_result(result, console())


class Format(StrEnum):
    """What the report is written as."""

    html = "html"
    md = "md"


def report(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="An experiment file (TOML), or results as --json wrote them.", metavar="FILE..."
        ),
        Reads("the file to report", is_experiment=is_toml),
    ],
    output: Annotated[
        Path | None, output_file("--output", "Write the page, or the Markdown."), Writes()
    ] = None,
    format: Annotated[
        Format, typer.Option("--format", help="html, or md for a pull request or a chat.")
    ] = Format.html,
    json_file: JsonFile = None,
    *,
    engine: Mapping[str, object],
) -> None:
    """Report all that is known of an experiment on one page: results, time, A/A, models offline."""
    from abeval.files import write_text

    if format is Format.html:
        if output is None:
            raise ExperimentError("a page needs a file", "name it: --output report.html")
        check_page(output)
    study = _study(files, engine)
    write_json(json_file, study)
    if format is Format.html and output is not None:
        study.report(output)
    elif output is not None:
        write_text(output, study.to_markdown())
    else:
        typer.echo(study.to_markdown(), nl=False)


def _study(files: list[Path], engine: Mapping[str, object]) -> "Study":
    """Of an experiment file, by running it; of results, by reading them."""
    from abeval.results.study import read_results

    experiments = [file for file in files if is_toml(file)]
    if experiments and len(files) > 1:
        raise ExperimentError(
            f"{experiments[0]} is an experiment file", "name it alone, or name results only"
        )
    if experiments:
        return _run(experiments[0], engine)
    if engine:
        raise ExperimentError(
            f"--{next(iter(engine)).replace('_', '-')} is for an experiment file",
            "results are read without an engine: remove it",
        )
    return read_results(files)


def _run(file: Path, engine: Mapping[str, object]) -> "Study":
    from abeval.api import load
    from abeval.progress import steps

    loaded = engine_of(load(file), engine)
    with steps() as step:
        return loaded.study(step=step)
