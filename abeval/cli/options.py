"""Make options of commands, protect input files, and show results."""

import inspect
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout, suppress
from copy import copy
from functools import partial
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import typer
from typer import Argument, Option
from typer.models import ParameterInfo

from abeval.bounds import MAX_THREADS
from abeval.errors import ExperimentError
from abeval.files import check_writable, write_text
from abeval.progress import show_progress

if TYPE_CHECKING:
    from rich.console import Console

    from abeval.api import LoadedExperiment
    from abeval.logs.outputs import RunInput
    from abeval.results.record import Record


_STDOUT = Path("-")
"""The file name that means standard output, where then only the JSON goes."""

_PIPE = 112
"""Width of tables that go to a file or another program."""

Command = Callable[..., None]


class Reads(NamedTuple):
    """Mark an option or argument as files to read, and the logs that they name.

    Messages call it `name` where it has no flag.
    """

    name: str = ""
    path: Callable[[Any], Path] = Path
    is_experiment: Callable[[Path], bool] = lambda _: False

    def reads(self, name: str, value: object) -> "Iterator[RunInput]":
        """List the files that a value of the option reads."""
        from abeval.experiment.load import load_experiment
        from abeval.logs.outputs import find_matching_reads, list_reads

        path = self.path(value)
        yield from find_matching_reads(name, Path(), str(path))
        if self.is_experiment(path):
            # It may be a table of another name: the command itself says what it is not.
            with suppress(ExperimentError):
                yield from list_reads(load_experiment(path))


class Writes(NamedTuple):
    """Mark an option as a file to write.

    `check` raises what else writing the file would raise.
    """

    check: Callable[[Path], None] = lambda _: None


def find_file_params(command: Command) -> Mapping[str, tuple[str, Reads | Writes]]:
    """Find the parameters that name files: their name in messages and their mark."""
    marks = {}
    for name, parameter in inspect.signature(command).parameters.items():
        for mark in getattr(parameter.annotation, "__metadata__", ()):
            if isinstance(mark, Reads | Writes):
                marks[name] = (getattr(mark, "name", "") or f"--{name}", mark)
    return marks


def protect_inputs(command: Command) -> Command:
    """Make a command refuse to replace its inputs; add `--debug`, `--time-limit`.

    `exit_on_error` looks for `--debug` among the arguments.
    """
    marks, parameters = find_file_params(command), list_parameters(command)
    names = {parameter.name for parameter in parameters}
    # Some commands have a time limit of their own.
    extra = [option for option in list_parameters(_Added) if option.name not in names]

    def run(**values: Any) -> None:  # noqa: ANN401 (typer's values)
        options = {option.name: values.pop(option.name) for option in extra}
        to_stdout = values.get("json") == _STDOUT
        _check_files(marks, values | {"json": None} if to_stdout else values)
        with _limit_time(options.get("time_limit")):
            if to_stdout:
                _print_json_alone(partial(command, **values))
            else:
                command(**values)

    return _copy_signature(run, command, [*parameters, *extra])


def _limit_time(seconds: float | None) -> AbstractContextManager[None]:
    if seconds is None:
        return nullcontext()
    from abeval.engines.duckdb_connection import limit_time

    return limit_time(seconds)


def _print_json_alone(command: Command) -> None:
    """Print the JSON that a command writes, and nothing of what it prints."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "result.json"
        try:
            with redirect_stdout(StringIO()):
                command(json=file)
        finally:
            # Also before an exit code of `--gate`.
            if file.exists():
                typer.echo(file.read_text(encoding="utf-8"), nl=False)


def _check_files(
    marks: Mapping[str, tuple[str, Reads | Writes]], values: Mapping[str, Any]
) -> None:
    """Refuse outputs that cannot be written or are inputs, before a log is read."""
    lists = {n: v if isinstance(v, list) else [v] for n, v in values.items() if v is not None}
    files = [(*marks[name], value) for name in marks for value in lists.get(name, ())]
    written = [(name, mark, file) for name, mark, file in files if isinstance(mark, Writes)]
    if not written:
        return
    from abeval.logs.outputs import check_apart

    # A long run must not fail at its end.
    for _, _, file in written:
        check_writable(file)
    reads = [(name, mark, value) for name, mark, value in files if isinstance(mark, Reads)]
    check_apart(
        [read for name, mark, value in reads for read in mark.reads(name, value)],
        [(name, file) for name, _, file in written],
    )
    for _, mark, file in written:
        mark.check(file)


def _copy_signature(
    run: Command, command: Command, parameters: Sequence[inspect.Parameter]
) -> Command:
    """Give a function the name, help and parameters of a command, for Typer."""
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    by_name = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
    run.__signature__ = inspect.Signature(by_name)  # type: ignore[attr-defined]  # typer reads it
    return run


def parse_output_path(text: str) -> Path:
    """Parse the path of an output; refuse an empty one."""
    if not text:
        # `Path("")` would be the working directory.
        raise typer.BadParameter("the name is empty; `.` is the working directory")
    return Path(text)


output_file = partial(Option, metavar="FILE", parser=parse_output_path)
"""Makes an option that names a file to write."""


def check_page(file: Path) -> None:
    """Refuse a report file that could not be written, before long work."""
    from abeval.report import check_page

    check_page(file)


def parse_pairs(flag: str, texts: Iterable[str], form: str, example: str) -> dict[str, str]:
    """Parse `NAME=VALUE` pairs; `form` and `example` are for messages."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, _, value = text.partition("=")
        name = name.strip()
        if not (name and value) or name in pairs:
            what = f"{flag}: {text.strip()!r} is not {form}, or its name is there twice"
            raise ExperimentError(what, f"write it like {example}")
        pairs[name] = value
    return pairs


def parse_weights(text: str, flag: str = "--weights") -> dict[str, float]:
    """Parse weights such as `control=0.5,treatment=0.5`."""
    pairs = parse_pairs(flag, text.split(","), "NAME=WEIGHT", "control=0.5,treatment=0.5")
    try:
        return {name: float(weight) for name, weight in pairs.items()}
    except ValueError:
        raise ExperimentError(f"{flag}: {text!r} has weights that are no numbers") from None


def is_toml(file: Path) -> bool:
    """Tell whether a file is an experiment file, by its name."""
    return file.suffix.lower() == ".toml"


def _is_no_table(file: Path) -> bool:
    from abeval.engines.sources import is_table

    # A table may be a folder, or a glob.
    return not is_table(file) and file.is_file()


JsonFile = Annotated[
    Path | None, output_file(help="Write the result as JSON; - is stdout."), Writes()
]
ReportFile = Annotated[
    Path | None, output_file(help="Write the HTML report."), Writes(check=check_page)
]
OutputFile = Annotated[Path | None, output_file(), Writes()]
InputFile = Annotated[Path | None, Option(metavar="FILE"), Reads()]
ResultFiles = Annotated[
    list[Path],
    Argument(help="Results of one experiment, as --json wrote them.", metavar="FILE..."),
    Reads("the file to report"),
]
Column = Annotated[str | None, Option(metavar="COLUMN")]
Variant = Annotated[str | None, Option(metavar="VARIANT")]
Address = Annotated[str | None, Option(metavar="URI")]
Whole = Annotated[
    bool, Option("--all", help="Print every metric and column, not only the main ones.")
]


def parse_read(texts: Sequence[str]) -> dict[str, str]:
    """Parse the `KEY=VALUE` pairs of `--read`."""
    read = parse_pairs("--read", texts, "KEY=VALUE", "encoding=cp1251")
    # A shell cannot easily pass a tab: it is typed as backslash and t.
    return {key: value.replace("\\t", "\t") for key, value in read.items()}


def list_parameters(
    declared: Callable[..., object], panel: str | None = None
) -> list[inspect.Parameter]:
    """List the parameters of a function or record, with the help in its docstring.

    Below `Options:` there is a line for each, or more that are indented.
    """
    _, _, listed = inspect.cleandoc(declared.__doc__ or "").partition("Options:\n")
    entries = re.split(r"^    (?=\w)", listed.partition("\n\n")[0], flags=re.MULTILINE)[1:]
    lines = (" ".join(map(str.strip, entry.splitlines())) for entry in entries)
    texts = dict(line.split(": ", 1) for line in lines)
    parameters = inspect.signature(declared).parameters
    return [_describe_parameter(p, texts.get(name), panel) for name, p in parameters.items()]


def _describe_parameter(
    parameter: inspect.Parameter, text: str | None, panel: str | None
) -> inspect.Parameter:
    """Return a parameter as an option, with its help and its panel of the help."""
    marks = getattr(parameter.annotation, "__metadata__", ())
    kind = parameter.annotation.__origin__ if marks else parameter.annotation
    # A switch that is off has no second spelling to turn it off.
    spellings = [f"--{parameter.name}"] if parameter.default is False else []
    info = next((copy(mark) for mark in marks if isinstance(mark, ParameterInfo)), None)
    info = info or Option(*spellings)
    info.help, info.rich_help_panel = text or info.help, panel or info.rich_help_panel
    others = (mark for mark in marks if not isinstance(mark, ParameterInfo))
    return parameter.replace(annotation=Annotated[kind, info, *others])


class To(NamedTuple):
    """Mark an option by the keyword that gets its value, if it is not its name.

    `read` turns what was typed into the value.
    """

    keyword: str = ""
    read: Callable[[Any], object] = lambda value: value


def read_keywords(
    parameters: Iterable[inspect.Parameter], values: Mapping[str, Any]
) -> dict[str, Any]:
    """Read the values of options that are given, as keywords of the API."""
    keywords = {}
    for option in parameters:
        if (value := values[option.name]) is not None:
            marks = option.annotation.__metadata__
            to = next((mark for mark in marks if isinstance(mark, To)), To())
            keywords[to.keyword or option.name] = to.read(value)
    return keywords


class _Added(NamedTuple):
    """Options of every command.

    Options:
        debug: Show the traceback of an unforeseen error.
        time_limit: Seconds after which queries end.
    """

    debug: bool = False
    time_limit: Annotated[float | None, Option(min=0.1)] = None


class _EngineOptions(NamedTuple):
    """Options of every command on an experiment; they override `[engine]` entries.

    Options:
        engine: duckdb or spark.
        address: Spark address: local[4], spark://…, yarn, sc://… (Spark Connect).
        memory_limit: Memory limit, such as 4GB.
        threads: CPU cores.
        temp_directory: Folder for data that does not fit into memory.
        remote_files: Read logs at s3://… and https://…; DuckDB downloads its extension for it.
    """

    engine: Annotated[str | None, Option(metavar="NAME"), To("name")] = None
    address: Annotated[str | None, Option(metavar="ADDRESS")] = None
    memory_limit: Annotated[str | None, Option(metavar="SIZE")] = None
    threads: Annotated[int | None, Option(min=1, max=MAX_THREADS)] = None
    temp_directory: Annotated[str | None, Option(metavar="FOLDER")] = None
    remote_files: bool | None = None


def add_engine_options(
    command: Command,
    load: Callable[[Any, dict[str, Any]], "LoadedExperiment"] | None = None,
    parameters: Sequence[inspect.Parameter] = (),
    text: str = "The experiment file (TOML).",
) -> Command:
    """Turn a command on a loaded experiment into one on its file.

    The new command also has the options of the engine. `load` gets the file, which may be None, and
    all values, and may remove some that the command does not take. Without it, the file is that of
    an experiment.
    """
    engine_options = list_parameters(_EngineOptions, "Engine")

    def run(experiment: Path | None = None, **values: Any) -> None:  # noqa: ANN401 (typer's values)
        from abeval.api import load as load_file

        entered = {option.name: values.pop(option.name) for option in engine_options}
        loaded = load(experiment, values) if load else load_file(cast("Path", experiment))
        # An option that is not given leaves the entry of the file.
        if engine := read_keywords(engine_options, entered):
            entries = loaded.experiment.engine.model_dump(exclude_unset=True)
            loaded = loaded.replace(engine={**entries, **engine})
        command(loaded, **values)

    reads = Reads("the experiment file", is_experiment=_is_no_table)
    kind, default = (Path | None, None) if load else (Path, inspect.Parameter.empty)
    file = inspect.Parameter(
        "experiment",
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=default,
        annotation=Annotated[kind, Argument(help=text), reads],
    )
    return _copy_signature(run, command, [file, *parameters, *engine_options])


_OF_COMMANDS = ("whole", "json", "report")
"""Options of commands that are no keywords of methods."""


def command_from_method(
    declared: Command,
    *,
    widened_by: str = "",
    for_page: Callable[..., tuple[object, ...]] | None = None,
) -> Command:
    """Make a command from the method of an experiment that has the same name.

    The command calls the method and shows its result. The method's own default stands for what is
    not given. The option `widened_by` shows all columns, as `--all` does. Where a page is asked
    for, `for_page` computes the result and what the page shows beside it.
    """
    parameters, method = list_parameters(declared), declared.__name__

    def run(loaded: "LoadedExperiment", **values: Any) -> None:  # noqa: ANN401 (typer's values)
        from abeval.results import codes

        of_method = [option for option in parameters if option.name not in _OF_COMMANDS]
        arguments = read_keywords(of_method, values)
        page = values.get("report")
        with show_progress(f"{method} page" if for_page and page else method) as step:
            if for_page and page:
                # Only the page shows the others, and they take time of their own.
                result, *more = for_page(loaded, **arguments, step=step)
            else:
                result, more = getattr(loaded, method)(**arguments, step=step), []
        show_all = values.get("whole", False) or bool(values.get(widened_by))
        # Results that carry the questions print the warning themselves.
        if (questions := loaded.experiment.questions) and not getattr(result, "questions", ()):
            typer.echo(f"DRAFT: {codes.open_questions(questions)}", err=True)
        show(result, values["json"], page, *more, show_all=show_all)

    run.__name__, run.__doc__ = method, declared.__doc__
    return add_engine_options(run, parameters=parameters)


def write_json(file: Path | None, result: "Record") -> None:
    """Write a result as JSON, if a file is given."""
    if file is not None:
        write_text(file, result.to_json())


def open_console() -> "Console":
    """Make a console on standard output."""
    from rich.console import Console

    # No text of ours names an emoji, and Rich would load its table of them.
    console = Console(emoji=False)
    is_open = console.is_terminal or os.environ.get("COLUMNS", "").isdigit()
    # A pipe has no width, and Rich would take 80 columns.
    return console if is_open else Console(emoji=False, width=_PIPE)


def show(
    result: Any,  # noqa: ANN401 (every kind of result)
    json: Path | None,
    page: Path | None = None,
    *extra: object,
    show_all: bool = False,
) -> None:
    """Write a result as JSON and page if files are given, and print its tables."""
    from abeval.report.terminal import print_brief

    write_json(json, result)
    if page is not None:
        from abeval.results.study import build_study

        (build_study(result, *extra) if extra else result).report(page)
    # Notes go to stderr: stdout has the tables alone, for other programs.
    for note in print_brief(result, open_console(), show_all):
        typer.echo(note, err=True)
