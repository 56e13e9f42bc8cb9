"""Make options, protect input files, show results, and exit on errors."""

import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout, suppress
from functools import partial
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import typer
from typer import Argument, Option

from abeval.bounds import MAX_THREADS
from abeval.errors import (
    FAULT,
    INPUT,
    AbevalError,
    ExperimentError,
    explain_error,
    translate_message,
)
from abeval.files import check_writable, write_text
from abeval.progress import show_progress
from abeval.signals import exit_code

if TYPE_CHECKING:
    from rich.console import Console

    from abeval.api import LoadedExperiment
    from abeval.logs.outputs import RunInput
    from abeval.results.record import Record


def exit_on_error(work: Callable[[], Any]) -> None:
    """Run a function and exit; an error is one message on stderr and an exit code."""
    is_closed = sys.stdout is None
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # Else the next file that is opened would be it.
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 (to the end)
    try:
        try:
            if is_closed:
                what = "standard output is closed, so nothing can be printed"
                raise AbevalError(what, "leave out `>&-`, or write to a file or to /dev/null")
            code = work()
        finally:
            # Not at the end of the process, where an error of the disk is a traceback.
            sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has enough of it.
        _close_stdout()
        sys.exit(FAULT)
    except Exception as error:
        if (stopped := exit_code()) is not None:
            # DuckDB makes an error of the exit that a signal raises within it.
            sys.exit(stopped)
        if str(error) == "Query interrupted":
            # And another one of Ctrl-C.
            sys.exit(_INTERRUPTED)
        code, message = explain_error(_translate_usage_error(error))
        if "--debug" in sys.argv and code == FAULT:
            traceback.print_exc()
        _close_stdout()
        typer.echo(f"error: {message}", err=True)
    sys.exit(code or 0)


def _translate_usage_error(error: Exception) -> Exception:
    """Translate a usage error of Typer into an error of the input."""
    if (say := getattr(error, "format_message", None)) is None:
        return error
    if not (what := say()):
        # A group without a command has printed its help.
        sys.exit(INPUT)
    path = getattr(getattr(error, "ctx", None), "command_path", "abeval")
    return ExperimentError(translate_message(what), f"`{path} --help` lists what there is")


def _close_stdout() -> None:
    """Flush stdout, or replace it by the null device."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError):
            # Python flushes stdout again as it exits, and would print that it cannot.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


_INTERRUPTED = 130

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
    marks = find_file_params(command)
    parameters = inspect.signature(command).parameters
    # Some commands have a time limit of their own.
    extra = [flag for flag in (_DEBUG, _TIME_LIMIT) if flag.name not in parameters]

    def run(**values: Any) -> None:  # noqa: ANN401 (typer's values)
        options = {flag.name: values.pop(flag.name) for flag in extra}
        to_stdout = values.get("json") == _STDOUT
        _check_files(marks, values | {"json": None} if to_stdout else values)
        with _limit_time(options.get("time_limit")):
            if to_stdout:
                _print_json_alone(partial(command, **values))
            else:
                command(**values)

    return _copy_signature(run, command, [*parameters.values(), *extra])


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
    """Refuse files that cannot be written, or that the command reads, before a log is read."""
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
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
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
ResultFiles = Annotated[
    list[Path],
    Argument(help="Results of one experiment, as --json wrote them.", metavar="FILE..."),
    Reads("the file to report"),
]
Whole = Annotated[
    bool, Option("--all", help="Print every metric and column, not only the main ones.")
]

READ = (
    "How the file is read: table=, sheet=, encoding=, delimiter=, decimal=, header=, format=; "
    "repeatable."
)


def parse_read_options(texts: Sequence[str]) -> dict[str, str]:
    """Parse the `KEY=VALUE` pairs of `--read`."""
    read = parse_pairs("--read", texts, "KEY=VALUE", "encoding=cp1251")
    # A shell cannot easily pass a tab: it is typed as backslash and t.
    return {key: value.replace("\\t", "\t") for key, value in read.items()}


class Flag(NamedTuple):
    """An option of a command, and the keyword argument that gets its value."""

    parameter: inspect.Parameter
    keyword: str = ""
    read: Callable[[Any], object] = lambda value: value


NEEDED = inspect.Parameter.empty
"""The default of an option that cannot be left out."""


def flag(
    name: str,
    kind: Any,  # noqa: ANN401 (a type, or a union of types)
    text: str,
    default: object = None,
    *spellings: str,
    to: str = "",
    read: Callable[[Any], object] = lambda value: value,
    marks: Sequence[Reads | Writes] = (),
    **settings: Any,  # noqa: ANN401 (typer's settings)
) -> Flag:
    """Make an option whose value goes to the keyword `to`, or to its own name.

    `kind` is the type of the value, `spellings` replace `--name`, `read` turns what was typed into
    the value of the API, and `settings` go to `typer.Option`.
    """
    # A switch that is off has no second spelling to turn it off.
    spellings = spellings or ((f"--{name}",) if default is False else ())
    option = Option(*spellings, help=text, **settings)
    value_type = kind if default is not None else kind | None
    return Flag(_parameter(name, Annotated[value_type, option, *marks], default), to or name, read)


def _parameter(name: str, annotation: object, default: object = None) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


ALL = Flag(_parameter("whole", Whole, default=False))
JSON = Flag(_parameter("json", JsonFile))
REPORT = Flag(_parameter("report", ReportFile))
_DEBUG, _TIME_LIMIT = (
    flag("debug", bool, "Show the traceback of an unforeseen error.", False).parameter,
    flag("time_limit", float, "Seconds after which queries end.", min=0.1).parameter,
)

_engine_flag = partial(flag, rich_help_panel="Engine")
_SPARK = "Spark address: local[4], spark://…, yarn, sc://… (Spark Connect)."
_TEMPORARY = "Folder for data that does not fit into memory."
_REMOTE = "Read logs at s3://… and https://…; DuckDB downloads its extension for it."
_ENGINE = (
    _engine_flag("engine", str, "duckdb or spark.", to="name", metavar="NAME"),
    _engine_flag("address", str, _SPARK, metavar="ADDRESS"),
    _engine_flag("memory_limit", str, "Memory limit, such as 4GB.", metavar="SIZE"),
    _engine_flag("threads", int, "CPU cores.", min=1, max=MAX_THREADS),
    _engine_flag("temp_directory", str, _TEMPORARY, metavar="FOLDER"),
    _engine_flag("remote_files", bool, _REMOTE),
)
"""Flags of every command that takes an experiment; they override entries of `[engine]`."""


def add_engine_flags(
    command: Command,
    load: Callable[[Any, dict[str, Any]], "LoadedExperiment"] | None = None,
    flags: Sequence[Flag] = (),
    text: str = "The experiment file (TOML).",
) -> Command:
    """Turn a command on a loaded experiment into one on its file, with engine flags.

    `load` gets the file, which may be None, and all values, and may remove some that the command
    does not take. Without it, the file is that of an experiment.
    """

    def run(experiment: Path | None = None, **values: Any) -> None:  # noqa: ANN401 (typer's values)
        from abeval.api import load as load_file

        entered = {option.keyword: values.pop(option.parameter.name) for option in _ENGINE}
        loaded = load(experiment, values) if load else load_file(cast("Path", experiment))
        # A flag that is not given leaves the entry of the file.
        if engine := {name: value for name, value in entered.items() if value is not None}:
            entries = loaded.experiment.engine.model_dump(exclude_unset=True)
            loaded = loaded.replace(engine={**entries, **engine})
        command(loaded, **values)

    reads = Reads("the experiment file", is_experiment=_is_no_table)
    kind, default = (Path | None, None) if load else (Path, NEEDED)
    file = _parameter("experiment", Annotated[kind, Argument(help=text), reads], default)
    return _copy_signature(run, command, [file, *(f.parameter for f in (*flags, *_ENGINE))])


def command_from_method(
    method: str,
    text: str,
    *flags: Flag,
    widened_by: str = "",
    for_page: Callable[..., tuple[object, ...]] | None = None,
) -> Command:
    """Make a command that calls a method of the experiment of a file and shows the result.

    The method's own default stands for what is not given. The option `widened_by` shows all
    columns, as `--all` does. Where a page is asked for, `for_page` computes the result and what the
    page shows beside it.
    """

    def run(loaded: "LoadedExperiment", **values: Any) -> None:  # noqa: ANN401 (typer's values)
        from abeval.results import codes

        given = [f for f in flags if f.keyword and values[f.parameter.name] is not None]
        arguments = {f.keyword: f.read(values[f.parameter.name]) for f in given}
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

    run.__name__, run.__doc__ = method, text
    return add_engine_flags(run, flags=flags)


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
