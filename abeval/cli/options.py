"""Options, checks and output that the commands share."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from abeval.files import check_writable, write_text

if TYPE_CHECKING:
    import pandas as pd

    from abeval.api import LoadedExperiment

ExperimentFile = Annotated[Path, typer.Argument(help="The experiment file (TOML).")]


def writable(file: Path | None) -> Path | None:
    """Fail before long work if its result could not be written."""
    if file is not None:
        check_writable(file)
    return file


ReportFile = Annotated[
    Path | None,
    typer.Option("--report", help="Write the HTML report.", metavar="FILE", callback=writable),
]
JsonFile = Annotated[
    Path | None,
    typer.Option("--json", help="Write the result as JSON.", metavar="FILE", callback=writable),
]

MetricNames = Annotated[
    list[str] | None, typer.Option(help="A metric; again for more. The whole scorecard.")
]

_ENGINE: Mapping[str, object] = {
    "engine": Annotated[
        str | None, typer.Option(help="duckdb or spark.", metavar="NAME", rich_help_panel="Engine")
    ],
    "address": Annotated[
        str | None,
        typer.Option(
            help="Of Spark: local[4], spark://…, yarn, sc://… (Spark Connect).",
            metavar="ADDRESS",
            rich_help_panel="Engine",
        ),
    ],
    "memory_limit": Annotated[
        str | None,
        typer.Option(help="Such as 4GB.", metavar="SIZE", rich_help_panel="Engine"),
    ],
    "threads": Annotated[int | None, typer.Option(help="CPU cores.", rich_help_panel="Engine")],
    "temp_directory": Annotated[
        str | None,
        typer.Option(
            help="Where what does not fit into memory goes.",
            metavar="FOLDER",
            rich_help_panel="Engine",
        ),
    ],
}
"""Flags of every command that takes an experiment; they override entries of `[engine]`."""


def on_engine(command: Callable[..., None]) -> Callable[..., None]:
    """A command on a loaded experiment as a command on its file, with the flags of the engine.

    Args:
        command: Its first parameter is the loaded experiment.
    """

    def run(experiment: Path, **values: Any) -> None:  # noqa: ANN401 (typer's values)
        flags = {name: values.pop(name) for name in _ENGINE}
        command(_loaded(experiment, flags), **values)

    own = list(inspect.signature(command).parameters.values())[1:]
    kind = inspect.Parameter.KEYWORD_ONLY
    file = inspect.Parameter(
        "experiment", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=ExperimentFile
    )
    added = [
        inspect.Parameter(name, kind, default=None, annotation=annotation)
        for name, annotation in _ENGINE.items()
    ]
    parameters = [file, *(p.replace(kind=kind) for p in own), *added]
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    return run


def _loaded(file: Path, flags: Mapping[str, object]) -> "LoadedExperiment":
    from abeval.api import load

    loaded = load(file)
    entries = {"name" if k == "engine" else k: v for k, v in flags.items() if v is not None}
    if not entries:
        return loaded
    engine = loaded.experiment.engine.model_dump(exclude_unset=True)
    return loaded.replace(engine={**engine, **entries})


class _Result(Protocol):
    def to_json(self) -> str: ...


def write_json(file: Path | None, result: _Result) -> None:
    """Write a result as JSON, if a file is named."""
    if file is not None:
        write_text(file, result.to_json())


def print_frame(frame: "pd.DataFrame") -> None:
    """Print a frame with numbers to four digits."""
    typer.echo(frame.to_string(index=False, float_format=lambda x: f"{x:.4g}"))


def print_refused(refused: Mapping[str, str]) -> None:
    """Print why metrics are missing from a result."""
    for name, why in refused.items():
        typer.echo(f"{name} is not shown: {why}", err=True)
