"""Options, checks and output that the commands share.

`main.py` wraps every command on an experiment in `on_engine`, which loads its file; the commands
import the rest.
"""

import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from abeval.bounds import MAX_THREADS

if TYPE_CHECKING:
    from rich.console import Console

    from abeval.api import LoadedExperiment
    from abeval.report.short import Brief
    from abeval.results.record import Record


PIPE = 112
"""Columns of a table that goes to a file or another program."""


class Source(NamedTuple):
    """What a command loads its experiment from.

    Attributes:
        help: Of the argument.
        flags: Its own flags, with the annotations of their values.
        load: Of the argument, its own flags and those of the command.
        is_needed: Whether the argument cannot be left out.
    """

    help: str
    flags: Mapping[str, object]
    load: Callable[[Any, Mapping[str, Any]], "LoadedExperiment"]
    is_needed: bool = True


def _of_file(file: Path, _: Mapping[str, object]) -> "LoadedExperiment":
    from abeval.api import load

    return load(file)


FILE = Source("The experiment file (TOML).", {}, _of_file)


def writable(file: Path | None) -> Path | None:
    """Fail before long work if its result could not be written."""
    from abeval.files import check_writable

    if file is not None:
        check_writable(file)
    return file


def page(file: Path | None) -> Path | None:
    """Fail before long work if the report could not be written."""
    file = writable(file)
    if file is not None:
        from abeval.report import check_page

        check_page(file)
    return file


def place(text: str) -> Path:
    """A path that a command writes to; an empty one would mean the working directory."""
    if not text:
        raise typer.BadParameter("the name is empty; `.` is the working directory")
    return Path(text)


def output_file(flag: str, text: str, check: Callable[[Path | None], Path | None]) -> Any:  # noqa: ANN401 (typer's own type is Any)
    """A flag for a file to write, its help, and what checks the file."""
    return typer.Option(flag, help=text, metavar="FILE", callback=check, parser=place)


def folder(text: str) -> Any:  # noqa: ANN401
    """A flag for a folder, and its help."""
    return typer.Option(help=text, metavar="FOLDER", parser=place)


_PANEL = "Engine"


def _engine_flag(text: str, metavar: str | None = None) -> Any:  # noqa: ANN401
    return typer.Option(help=text, metavar=metavar, rich_help_panel=_PANEL)


ReportFile = Annotated[Path | None, output_file("--report", "Write the HTML report.", page)]
JsonFile = Annotated[Path | None, output_file("--json", "Write the result as JSON.", writable)]
Whole = Annotated[
    bool, typer.Option("--all", help="Print every metric and column, not only the main ones.")
]
MetricNames = Annotated[
    list[str] | None, typer.Option(help="A metric; repeat for more. Default: the whole scorecard.")
]

_SPARK = "Spark address: local[4], spark://…, yarn, sc://… (Spark Connect)."
_TEMPORARY = "Folder for data that does not fit into memory."
_REMOTE = "Read logs at s3://… and https://…; DuckDB downloads its extension for it."
_CORES = typer.Option(help="CPU cores.", min=1, max=MAX_THREADS, rich_help_panel=_PANEL)
_ENGINE: Mapping[str, object] = {
    "engine": Annotated[str | None, _engine_flag("duckdb or spark.", "NAME")],
    "address": Annotated[str | None, _engine_flag(_SPARK, "ADDRESS")],
    "memory_limit": Annotated[str | None, _engine_flag("Memory limit, such as 4GB.", "SIZE")],
    "threads": Annotated[int | None, _CORES],
    "temp_directory": Annotated[str | None, _engine_flag(_TEMPORARY, "FOLDER")],
    "remote_files": Annotated[bool | None, _engine_flag(_REMOTE)],
}
"""Flags of every command that takes an experiment; they override entries of `[engine]`."""


def on_engine(command: Callable[..., None], source: Source = FILE) -> Callable[..., None]:
    """A command on a loaded experiment as a command on its file, with the flags of the engine.

    Args:
        command: Its first parameter is the loaded experiment.
        source: What the experiment is loaded from.
    """

    def run(experiment: Path | None = None, **values: Any) -> None:  # noqa: ANN401 (typer's)
        flags = {name: values.pop(name) for name in _ENGINE}
        loaded = engine_of(source.load(experiment, values), flags)
        values = {name: value for name, value in values.items() if name not in source.flags}
        check_outputs_of(loaded, experiment, values)
        command(loaded, **values)

    own = list(inspect.signature(command).parameters.values())[1:]
    kind = inspect.Parameter.KEYWORD_ONLY
    file = inspect.Parameter(
        "experiment",
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=inspect.Parameter.empty if source.is_needed else None,
        annotation=Annotated[
            Path if source.is_needed else Path | None, typer.Argument(help=source.help)
        ],
    )
    added = [
        inspect.Parameter(name, kind, default=None, annotation=annotation)
        for name, annotation in (*source.flags.items(), *_ENGINE.items())
    ]
    parameters = [file, *(p.replace(kind=kind) for p in own), *added]
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    return run


def with_engine_flags(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the flags of the engine, which it gets together as `engine`."""

    def run(**values: Any) -> None:  # noqa: ANN401 (typer's)
        flags = {name: values.pop(name) for name in _ENGINE}
        command(
            **values, engine={name: value for name, value in flags.items() if value is not None}
        )

    kind = inspect.Parameter.KEYWORD_ONLY
    own = [p for p in inspect.signature(command).parameters.values() if p.name != "engine"]
    added = [inspect.Parameter(n, kind, default=None, annotation=a) for n, a in _ENGINE.items()]
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {p.name: p.annotation for p in (*own, *added)}
    run.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined]  # typer reads it
    return run


def engine_of(loaded: "LoadedExperiment", flags: Mapping[str, object]) -> "LoadedExperiment":
    """The experiment with the engine's flags in place of its entries."""
    entries = {"name" if k == "engine" else k: v for k, v in flags.items() if v is not None}
    if not entries:
        return loaded
    engine = loaded.experiment.engine.model_dump(exclude_unset=True)
    return loaded.replace(engine={**engine, **entries})


_FILES: Mapping[str, str] = {"json_file": "--json", "report": "--report", "csv": "--csv"}
"""Parameters of commands that name a file to write, and their flags."""


def check_outputs_of(
    loaded: "LoadedExperiment", experiment: Path | None, values: Mapping[str, Any]
) -> None:
    """Refuse, before a log is read, outputs that would replace what a command reads."""
    from abeval.logs.outputs import Output, check_outputs
    from abeval.pipeline import folders

    files = [Output(flag, file) for name, flag in _FILES.items() if (file := values.get(name))]
    written = folders(values.get("store"), values.get("save_aggregates"))
    flags = [output._replace(name=f"--{output.name.replace('_', '-')}") for output in written]
    included = loaded.experiment.include
    inputs = {
        "the experiment file": experiment,
        **{f"the included {name}": loaded.experiment.folder / name for name in included},
        "the sums": values.get("sums"),
        **_other_inputs(values),
    }
    there = {name: file for name, file in inputs.items() if file is not None}
    check_outputs(loaded.experiment, [*files, *flags], there)


def _other_inputs(values: Mapping[str, Any]) -> dict[str, Path]:
    """Files that a command reads beside the experiment and its logs, by what they are."""
    aggregates, policy = values.get("aggregates"), values.get("policy")
    names = ("*.parquet", "aggregates.json", "logged_sums.csv")
    kept = [] if aggregates is None else [file for name in names for file in aggregates.glob(name)]
    read = {f"{file.name} of the aggregates": file for file in kept}
    return read if policy is None else {**read, "the policy": policy}


def write_json(file: Path | None, result: "Record") -> None:
    """Write a result as JSON, if a file is named."""
    from abeval.files import write_text

    if file is not None:
        write_text(file, result.to_json())


def console() -> "Console":
    """Standard output as Rich writes it; a pipe has no width of its own."""
    from rich.console import Console

    console = Console()
    is_open = console.is_terminal or os.environ.get("COLUMNS", "").isdigit()
    return console if is_open else Console(width=PIPE)


def print_tables(result: "Brief", whole: bool = False) -> None:
    """Print a result's tables, and on stderr what the reader must know beside them."""
    from abeval.report.short import notes
    from abeval.report.terminal import print_brief

    print_brief(result, console(), whole)
    for note in notes(result):
        typer.echo(note, err=True)
