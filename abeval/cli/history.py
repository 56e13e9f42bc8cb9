"""`abeval history`: what past experiments say together.

Calls `History` of `history/history.py`.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from abeval.cli.guard import debuggable
from abeval.cli.options import (
    JsonFile,
    ReportFile,
    Whole,
    output_file,
    print_tables,
    writable,
    write_json,
)
from abeval.errors import ExperimentError

history = typer.Typer(
    name="history",
    help="A file of past experiments: which offline metric predicts, and what was really gained.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _file(text: str, **more: Any) -> Any:  # noqa: ANN401 (typer's own type is Any)
    return typer.Option("--history", help=text, metavar="FILE", **more)


_File = Annotated[Path, _file("The history: a .parquet or .duckdb file.")]
_Written = Annotated[
    Path, output_file("--history", "The .parquet or .duckdb file; created if missing.", writable)
]


def add(
    results: Annotated[
        list[Path],
        typer.Argument(help="JSON of one experiment: of analyze, replay, windows.", metavar="JSON"),
    ],
    history: _Written,
    shipped: Annotated[
        list[str] | None,
        typer.Option(
            help="The variant that was shipped, or none; repeat for more. Default: the verdict's.",
            metavar="VARIANT",
        ),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Add the results of one experiment; adding them twice changes nothing.

    A changed result of the same experiment takes the place of the old one, which is said.
    """
    from abeval.history.history import History

    _check_apart({"--json": json_file}, {"the history": history, **_named(results)})
    _check_apart({"--history": history}, _named(results))
    changed = History(history).add(*results, shipped=_shipped(shipped))
    write_json(json_file, changed)
    print_tables(changed)


def noise(
    results: Annotated[
        list[Path],
        typer.Argument(
            help="JSON of analyze and replay on parts of one experiment's units.", metavar="JSON"
        ),
    ],
    history: _Written,
    json_file: JsonFile = None,
) -> None:
    """Add the noise that offline and online metrics share, measured on parts of the units.

    The first analyze and the first replay are of the first part, and so on; six parts or more.
    """
    from abeval.history.history import History

    _check_apart({"--json": json_file}, {"the history": history, **_named(results)})
    _check_apart({"--history": history}, _named(results))
    changed = History(history).add_noise(*results)
    write_json(json_file, changed)
    print_tables(changed)


def report(
    history: _File,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="An online metric; repeat for more. Default: goals and guardrails."),
    ] = None,
    offline: Annotated[
        list[str] | None,
        typer.Option(help="An offline metric; repeat for more. Default: those most quoted."),
    ] = None,
    shared_noise: Annotated[
        float,
        typer.Option(
            help="Correlation of the errors of two metrics of the same units, if not measured.",
            metavar="R",
        ),
    ] = 0.0,
    whole: Whole = False,
    json_file: JsonFile = None,
    report: ReportFile = None,
) -> None:
    """Say which metric predicts which, how often each moves, and what was really gained."""
    from abeval.history.history import History

    _check_apart({"--json": json_file, "--report": report}, {"the history": history})
    result = History(history).report(metrics=metric, offline=offline, shared=shared_noise)
    write_json(json_file, result)
    if report is not None:
        result.report(report)
    print_tables(result, whole)


def prior(
    history: _File,
    metric: Annotated[str, typer.Option(help="The online metric.")],
    json_file: JsonFile = None,
) -> None:
    """Print the prior of a metric's lifts, for the section inference of an experiment file."""
    from abeval.history.history import History

    _check_apart({"--json": json_file}, {"the history": history})
    result = History(history).prior(metric)
    write_json(json_file, result)
    print_tables(result)


for _command in (add, noise, report, prior):
    history.command()(debuggable(_command))


def _shipped(names: list[str] | None) -> list[str] | None:
    """`none` alone says that nothing was shipped."""
    return [] if names == ["none"] else names


def _named(files: list[Path]) -> dict[str, Path]:
    return {f"the result {file}": file for file in files}


def _check_apart(outputs: dict[str, Path | None], inputs: dict[str, Path]) -> None:
    """Refuse outputs that would replace what the command reads."""
    from abeval.files import real

    for flag, output in outputs.items():
        for name, file in inputs.items():
            if output is not None and real(output) == real(file):
                raise ExperimentError(f"{flag} {output} is {name}", "name another file")
