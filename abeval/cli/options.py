"""Options and output that the commands share, and what keeps their files apart.

An option or argument that names files has `Reads` or `Writes` in its annotation; `main.py` runs
every command within `protected`, which knows from them alone what may not be replaced. It wraps
every command on an experiment in `on_engine`, which loads its file; the commands import the rest.
"""

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from abeval.bounds import MAX_THREADS
from abeval.cli.options import shown

if TYPE_CHECKING:
    from rich.console import Console

    from abeval.api import LoadedExperiment
    from abeval.logs.outputs import Place
    from abeval.report.short import Brief
    from abeval.results.record import Record


PIPE = 112
"""Columns of a table that goes to a file or another program."""


class Reads(NamedTuple):
    """Marks an option or argument that names files to read.

    Attributes:
        name: What messages call it, where it has no flag.
        holds: Of a folder: gives globs of the files in it that are read.
        path: Of its value.
        is_experiment: Whether a file is an experiment file, so that its logs are read too.
    """

    name: str = ""
    holds: Callable[[], tuple[str, ...]] = tuple
    path: Callable[[Any], Path] = Path
    is_experiment: Callable[[Path], bool] = lambda _: False

    def places(self, name: str, value: object) -> "Iterator[Place]":
        """What is read by a value of the option."""
        from abeval.experiment.load import load_experiment
        from abeval.logs.outputs import Place, matched, reads_of

        path = self.path(value)
        if holds := self.holds():
            yield Place(name, path, holds)
            yield from (Place(name, file) for glob in holds for file in path.glob(glob))
        else:
            yield from matched(name, Path(), str(path))
        if self.is_experiment(path):
            yield from reads_of(load_experiment(path))


class Writes(NamedTuple):
    """Marks an option or argument that names a file or folder to write.

    Attributes:
        name: What messages call it, where it has no flag.
        holds: Of a folder: gives globs of the files that are written into it.
        beside: Ends of the names of other files that are made beside it.
        check: Raises what else writing the file would raise.
    """

    name: str = ""
    holds: Callable[[], tuple[str, ...]] = tuple
    beside: tuple[str, ...] = ()
    check: Callable[[Path], None] | None = None

    def places(self, name: str, value: object) -> "Iterator[Place]":
        """What is written by a value of the option."""
        from abeval.files import real
        from abeval.logs.outputs import Place

        path = Path(str(value))
        yield Place(name, path, self.holds())
        yield from (Place(name, Path(f"{real(path)}{end}")) for end in self.beside)


def marks_of(command: Callable[..., None]) -> Mapping[str, tuple[str, Reads | Writes]]:
    """The parameters of a command that name files: what messages call each, and its mark."""
    marks = {}
    for name, parameter in inspect.signature(command).parameters.items():
        noted = getattr(parameter.annotation, "__metadata__", ())
        for mark in (one for one in noted if isinstance(one, Reads | Writes)):
            flags = [one.default for one in noted if isinstance(getattr(one, "default", None), str)]
            marks[name] = (mark.name or [*flags, f"--{name.replace('_', '-')}"][0], mark)
    return marks


def protected(command: Callable[..., None]) -> Callable[..., None]:
    """A command that refuses, before it reads a log, to replace what it reads."""
    marks = marks_of(command)

    @wraps(command)
    def run(**values: Any) -> None:  # noqa: ANN401 (typer's values)
        lists = {n: v if isinstance(v, list) else [v] for n, v in values.items() if v is not None}
        named = [(*marks[n], value) for n in marks for value in lists.get(n, ())]
        written = [each for each in named if isinstance(each[1], Writes)]
        if written:
            from abeval.files import check_writable
            from abeval.logs.outputs import check_apart

            for _, mark, file in written:
                if not mark.holds():
                    check_writable(file)
            read = (each for each in named if isinstance(each[1], Reads))
            check_apart(
                [place for name, mark, value in read for place in mark.places(name, value)],
                [place for name, mark, value in written for place in mark.places(name, value)],
            )
        for _, mark, file in written:
            if isinstance(mark, Writes) and mark.check is not None:
                mark.check(file)
        command(**values)

    return run


def place(text: str) -> Path:
    """A path that a command writes to; an empty one would mean the working directory."""
    if not text:
        raise typer.BadParameter("the name is empty; `.` is the working directory")
    return Path(text)


def output_file(flag: str, text: str) -> Any:  # noqa: ANN401 (typer's own type is Any)
    """A flag for a file to write, and its help."""
    return typer.Option(flag, help=text, metavar="FILE", parser=place)


def folder(text: str) -> Any:  # noqa: ANN401
    """A flag for a folder, and its help."""
    return typer.Option(help=text, metavar="FOLDER", parser=place)


def check_page(file: Path) -> None:
    """Fail before long work if the report could not be written."""
    from abeval.report import check_page

    check_page(file)


def is_toml(file: Path) -> bool:
    """Whether a file is an experiment file by its name."""
    return file.suffix.lower() == ".toml"


def _is_no_table(file: Path) -> bool:
    from abeval.engines.sources import is_table

    # A table may be a folder, or a glob.
    return not is_table(file) and file.is_file()


ReportFile = Annotated[
    Path | None, output_file("--report", "Write the HTML report."), Writes(check=check_page)
]
JsonFile = Annotated[Path | None, output_file("--json", "Write the result as JSON."), Writes()]

EXPERIMENT = Reads("the experiment file", is_experiment=_is_no_table)


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


_PANEL = "Engine"


def _engine_flag(text: str, metavar: str | None = None) -> Any:  # noqa: ANN401
    return typer.Option(help=text, metavar=metavar, rich_help_panel=_PANEL)


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
    "temp_directory": Annotated[
        str | None, _engine_flag(_TEMPORARY, "FOLDER"), Writes(holds=lambda: ("abeval-run-*/*",))
    ],
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
        command(loaded, **{n: value for n, value in values.items() if n not in source.flags})

    own = list(inspect.signature(command).parameters.values())[1:]
    file = inspect.Parameter(
        "experiment",
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=inspect.Parameter.empty if source.is_needed else None,
        annotation=Annotated[
            Path if source.is_needed else Path | None, typer.Argument(help=source.help), EXPERIMENT
        ],
    )
    own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
    return shown(run, command, [file, *own, *_optional(source.flags), *_optional(_ENGINE)])


def with_engine_flags(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the flags of the engine, which it gets together as `engine`."""

    def run(**values: Any) -> None:  # noqa: ANN401 (typer's)
        flags = {name: values.pop(name) for name in _ENGINE}
        command(**values, engine={name: v for name, v in flags.items() if v is not None})

    own = [p for p in inspect.signature(command).parameters.values() if p.name != "engine"]
    return shown(run, command, [*own, *_optional(_ENGINE)])


def _optional(flags: Mapping[str, object]) -> list[inspect.Parameter]:
    """Parameters that need no value, with their annotations."""
    kind = inspect.Parameter.KEYWORD_ONLY
    return [inspect.Parameter(n, kind, default=None, annotation=a) for n, a in flags.items()]


def engine_of(loaded: "LoadedExperiment", flags: Mapping[str, object]) -> "LoadedExperiment":
    """The experiment with the engine's flags in place of its entries."""
    entries = {"name" if k == "engine" else k: v for k, v in flags.items() if v is not None}
    if not entries:
        return loaded
    engine = loaded.experiment.engine.model_dump(exclude_unset=True)
    return loaded.replace(engine={**engine, **entries})


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
