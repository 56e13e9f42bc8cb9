"""Read an experiment file with its includes, and report every mistake at once."""

import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from abeval.errors import ExperimentError
from abeval.experiment.consistency import find_inconsistencies
from abeval.experiment.model import Experiment
from abeval.experiment.problems import Problem, drop_paths, list_problems, suggest_name
from abeval.experiment.sources import READING, LogSource
from abeval.files import check_readable, resolve_path
from abeval.metrics.row_text import find_function_problem, list_metric_names

_Entries = Mapping[str, Any]

_TOML_HINT = "put text in quotes, begin a table with [name], and use each key once in it"


def load_experiment(path: str | Path) -> Experiment:
    """Read and validate an experiment file; paths in it are relative to its folder.

    Raises:
        ExperimentError: The file is missing, is not TOML, or has mistakes; all of them are named.
    """
    file = Path(path)
    return parse_experiment(_read_entries(file), folder=file.parent, source=str(file))


def _read_entries(file: Path, includer: str = "") -> dict[str, Any]:
    """Read the entries of a TOML file; `includer` is for messages."""
    file_label = f"{file}, which {includer} includes," if includer else str(file)
    try:
        raw = tomllib.loads(_read_text(file, includer))
    except tomllib.TOMLDecodeError as error:
        raise ExperimentError(f"{file_label} is not valid TOML: {error}", _TOML_HINT) from error
    except RecursionError as error:
        raise ExperimentError(f"{file_label} is not valid TOML: it is nested too deeply") from error
    if "folder" in raw:
        # It is no entry of a file: the API writes it.
        raise ExperimentError(f"{file} has 1 problem:\n  folder: there is no such entry")
    return raw


def _read_text(file: Path, includer: str) -> str:
    """Read a text file; `includer` is for messages."""
    check_readable(file, file)
    try:
        # A device such as /dev/zero has no end, and a pipe may have no writer.
        if file.exists() and not file.is_file() and not file.is_dir():
            raise ExperimentError(f"{file} is a device or a pipe", "name a TOML file")
        # Some editors write a byte order mark.
        return file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError as error:
        if includer:
            what = f"no file at {file}; {includer} includes it"
            raise ExperimentError(what, "correct `include`") from error
        hint = "write one with `abeval init FILE…`, or an example with `abeval tools simulate DIR`"
        raise ExperimentError(f"no experiment file at {file}", hint) from error
    except IsADirectoryError as error:
        raise ExperimentError(f"{file} is a folder", "name the TOML file in it") from error
    except UnicodeDecodeError as error:
        what = f"{file} is not UTF-8 text: byte {error.start + 1} is wrong"
        raise ExperimentError(what, "save it as UTF-8") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ExperimentError(f"{file} cannot be read: {reason}") from error


def parse_experiment(
    raw: Mapping[str, Any], folder: str | Path = ".", source: str = "the experiment"
) -> Experiment:
    """Validate an experiment from nested mappings.

    Args:
        raw: The content of a TOML file.
        folder: Where relative paths of logs start.
        source: Its name in messages.

    Raises:
        ExperimentError: With every mistake: its path, the value, and a suggestion; or of a file
            that `include` names.

    Example:
        >>> parse_experiment({"name": "x"})
        Traceback (most recent call last):
        abeval.errors.ExperimentError: the experiment has 4 problems:
          unit: missing
          control: missing
          variants: missing
          logs: missing
    """
    if raw.get("include") is not None:
        raw = _join_entries(_read_includes(raw, Path(folder), (source,)), raw, keeps=False)
    problems: list[Problem] = []
    try:
        experiment = Experiment.model_validate({**raw, "folder": Path(folder)})
    except ValidationError as error:
        problems = list_problems(error, raw)
    wrong = [problem.path for problem in problems]
    with suppress(ValidationError):
        # Without its wrong entries, so that the others are checked too.
        valid = Experiment.model_validate(drop_paths(raw, wrong)) if wrong else experiment
        clashes = find_inconsistencies(valid)
        problems += [o for o in clashes if not any(o.path[: len(path)] == path for path in wrong)]
    if problems:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise ExperimentError("\n".join([f"{source} has {count}:", *(f"  {p}" for p in problems)]))
    return experiment


def check_read_options(read: Mapping[str, Any]) -> dict[str, Any]:
    """Check the entries that say how a file is read, and return them.

    Raises:
        ExperimentError: One is not.
    """
    unknown = next((key for key in read if key not in READING), None)
    if unknown is not None:
        raise ExperimentError(f"read: unknown key {unknown!r}{suggest_name(unknown, READING)}")
    make_source(read, "read.")
    return dict(read)


def make_source(entries: Mapping[str, Any], where: str = "") -> LogSource:
    """Make the source of a log from entries of an option or a call.

    Raises:
        ExperimentError: One is not valid.
    """
    try:
        return LogSource.model_validate(entries)
    except ValidationError as error:
        problems = list_problems(error, entries)
        raise ExperimentError("; ".join(f"{where}{problem}" for problem in problems)) from error


def _join_entries(first: _Entries, second: _Entries, *, keeps: bool) -> _Entries:
    """Join the entries of two files; the second one wins.

    Metrics of the first are definitions: those of the second choose from them, by name, and without
    any they are all chosen. It `keeps` the others where the second is included itself.
    """
    library, chosen = first.get("metrics", []), second.get("metrics")
    entries = _merge_tables(first, second)
    if not isinstance(chosen, list) or not isinstance(library, list):
        return entries
    names = {_name(metric) for metric in chosen}
    kept_metrics = [metric for metric in library if keeps and _name(metric) not in names]
    return {**entries, "metrics": [*kept_metrics, *_choose_metrics(library, chosen)]}


def _read_includes(raw: _Entries, folder: Path, chain: tuple[str, ...]) -> _Entries:
    """Read and join the included files; later ones win."""
    names = raw.get("include", [])
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        what = f"{chain[-1]}: include is {names!r}, not a list of files"
        raise ExperimentError(what, 'write include = ["metrics.toml"]')
    entries: _Entries = {}
    for name in names:
        entries = _join_entries(entries, _read_included_file(folder / name, chain), keeps=True)
    return entries


def _read_included_file(file: Path, chain: tuple[str, ...]) -> _Entries:
    """Read an included file, with its own includes."""
    name = str(file)
    if resolve_path(file) in {resolve_path(path) for path in chain}:
        circle = " includes ".join([*chain, name])
        raise ExperimentError(f"files include each other in a circle: {circle}", "remove one")
    raw = _read_entries(file, chain[-1])
    entries = {key: value for key, value in raw.items() if key != "include"}
    for logs in (entries.get("logs"), entries.get("tables")):
        for log in logs.values() if isinstance(logs, dict) else ():
            if isinstance(log, dict) and "path" in log:
                log["path"] = _resolve_paths(log["path"], file.parent)
    return _join_entries(_read_includes(raw, file.parent, (*chain, name)), entries, keeps=True)


def _resolve_paths(paths: object, folder: Path) -> object:
    """Resolve relative paths of an included file by its folder."""
    if isinstance(paths, list):
        return [_resolve_paths(path, folder) for path in paths]
    if isinstance(paths, dict):
        return {key: _resolve_paths(value, folder) for key, value in paths.items()}
    # Addresses are absolute; wrong types are reported by the check of the whole file.
    if not isinstance(paths, str) or "://" in paths:
        return paths
    return str(folder / paths)


def _merge_tables(first: _Entries, second: _Entries) -> _Entries:
    """Merge two tables of entries, also nested ones; the second one wins."""
    entries = dict(first)
    for name, value in second.items():
        before = entries.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            value = _merge_tables(before, value)
        entries[name] = value
    return entries


def _choose_metrics(library: Sequence[object], chosen: Sequence[object]) -> list[object]:
    """Complete chosen metrics from a library of definitions."""
    defined = {_name(metric): metric for metric in library if isinstance(metric, Mapping)}
    metrics = list[object]()
    for metric in chosen:
        definition = defined.get(_name(metric))
        if definition is not None and isinstance(metric, Mapping):
            # A new definition replaces all of the old one.
            replaced = _DEFINITION if any(name in metric for name in _DEFINITION) else ()
            kept = {key: value for key, value in definition.items() if key not in replaced}
            metrics.append(_merge_tables(kept, metric))
        else:
            metrics.append(metric)
    names = {_name(metric) for metric in metrics}
    parts = dict.fromkeys(part for metric in metrics for part in _list_function_parts(metric))
    # A function needs its parts: those that nobody chose come as diagnostics.
    added = [part for part in parts if part in defined and part not in names]
    return [*metrics, *({**defined[part], "role": "diagnostic"} for part in added)]


_DEFINITION = ("value", "numerator", "denominator", "function", "quantile")


def _list_function_parts(metric: object) -> Sequence[str]:
    """List the metrics in a metric's function."""
    text = metric.get("function") if isinstance(metric, Mapping) else None
    # The check of the whole file says what is wrong with others.
    return (
        list_metric_names(text)
        if isinstance(text, str) and find_function_problem(text) is None
        else ()
    )


def _name(metric: object) -> str:
    return str(metric.get("name", "")) if isinstance(metric, Mapping) else ""
