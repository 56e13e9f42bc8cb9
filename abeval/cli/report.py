"""`abeval report`: all that is known of an experiment on one page, or as Markdown.

Calls `LoadedExperiment.study` of `api/`, or reads results that other commands wrote.
"""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from abeval.cli.options import (
    JsonFile,
    Reads,
    Writes,
    check_page,
    engine_of,
    is_toml,
    output_file,
    write_json,
)
from abeval.errors import ExperimentError

if TYPE_CHECKING:
    from abeval.results.study import Study


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
