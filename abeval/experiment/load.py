"""Reads an experiment file, and reports every mistake in it at once.

`api/` and `cli/reference.py` call it with a path, or `api/` with a mapping from Python; every run
starts from the `Experiment` that comes back.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from abeval.errors import ExperimentError
from abeval.experiment.consistency import inconsistencies
from abeval.experiment.model import Experiment
from abeval.experiment.problems import Problem, problems_of, without
from abeval.files import real
from abeval.metrics.row_text import names_of

Entries = Mapping[str, Any]
Read = Callable[[Path, str], str]
"""The text of a file; the second argument says who includes it."""


class Merged(NamedTuple):
    """Entries of several files as one.

    Attributes:
        entries: As one file would have them.
        notes: Which entries replace others, and what they were.
    """

    entries: dict[str, Any]
    notes: tuple[str, ...]


def merged(raw: Entries, folder: Path, source: str, read: Read) -> Merged:
    """The entries of a file and of all that it includes; its own replace those of others.

    Metrics of other files are definitions: the file's own `[[metrics]]` choose from them, by name,
    and without any they are all chosen.

    Args:
        raw: The entries of the file.
        folder: Where its paths start.
        source: Its name in messages.
        read: Reads a file.

    Raises:
        ExperimentError: An included file is missing, is not TOML, or includes itself.
    """
    shared = _included(raw, folder, (source,), read)
    if shared is None:
        return Merged({**raw}, ())
    own = {name: value for name, value in raw.items() if name != "metrics"}
    library = shared.entries.get("metrics", [])
    entries, notes = _together(shared.entries, own, source)
    chosen = raw.get("metrics")
    if isinstance(chosen, list) and isinstance(library, list):
        entries["metrics"], said = _chosen(library, chosen, source)
        notes = [*notes, *said]
    elif chosen is not None:
        entries["metrics"] = chosen
    return Merged(entries, (*shared.notes, *notes))


def check_entries(raw: Entries, source: str) -> None:
    """Refuse, in a file, what merging alone writes.

    Raises:
        ExperimentError: It is there.
    """
    if "overrides" in raw:
        raise ExperimentError(f"{source} has 1 problem:\n  overrides: there is no such entry")


def _included(raw: Entries, folder: Path, chain: tuple[str, ...], read: Read) -> Merged | None:
    """All files that entries include, later ones before earlier ones; None without any."""
    names = raw.get("include")
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        what = f"{chain[-1]}: include is {names!r}, not a list of files"
        raise ExperimentError(what, 'write include = ["metrics.toml"]')
    entries: dict[str, Any] = {}
    notes: list[str] = []
    for name in names:
        one = _file(folder / name, chain, read)
        entries, said = _together(entries, one.entries, name, lists=True)
        notes += [*one.notes, *said]
    return Merged(entries, tuple(notes))


def _file(file: Path, chain: tuple[str, ...], read: Read) -> Merged:
    """One included file, with what it includes itself."""
    name = str(file)
    if real(file) in {real(one) for one in chain}:
        circle = " includes ".join([*chain, name])
        raise ExperimentError(f"files include each other in a circle: {circle}", "remove one")
    try:
        raw = tomllib.loads(read(file, f"{chain[-1]} includes it"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        what = f"{file}, which {chain[-1]} includes, is not valid TOML: {error}"
        raise ExperimentError(what, _TOML_HINT) from error
    check_entries(raw, name)
    own = _from_folder({k: v for k, v in raw.items() if k != "include"}, file.parent)
    shared = _included(raw, file.parent, (*chain, name), read)
    if shared is None:
        return Merged(own, ())
    entries, notes = _together(shared.entries, own, file.name, lists=True)
    return Merged(entries, (*shared.notes, *notes))


def _from_folder(raw: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Paths of logs and tables as they are seen from the file that names them."""
    for logs in (raw.get("logs"), raw.get("tables")):
        for log in logs.values() if isinstance(logs, dict) else ():
            if isinstance(log, dict) and "path" in log:
                log["path"] = _paths(log["path"], folder)
    return raw


def _paths(paths: object, folder: Path) -> object:
    if isinstance(paths, list):
        return [_paths(path, folder) for path in paths]
    if not isinstance(paths, str) or "://" in paths:
        return paths
    return str(folder / paths)


def _together(
    first: Entries, second: Entries, source: str, path: str = "", *, lists: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """Two tables of entries as one, and what the second says in place of the first.

    Args:
        first: Entries.
        second: Those that replace them.
        source: Where the second are from.
        path: Of the tables in the file.
        lists: Whether lists of metrics are put together by name.
    """
    entries, notes = dict(first), list[str]()
    for name, value in second.items():
        before, where = entries.get(name), f"{path}{name}"
        if isinstance(before, dict) and isinstance(value, dict):
            entries[name], said = _together(before, value, source, f"{where}.")
            notes += said
        elif lists and where == "metrics" and isinstance(before, list) and isinstance(value, list):
            entries[name], said = _chosen(before, value, source)
            chosen = {_name(one) for one in value}
            entries[name] = [*(one for one in before if _name(one) not in chosen), *entries[name]]
            notes += said
        else:
            entries[name] = value
            if before is not None and before != value:
                notes.append(f"{where} of {source} is {value!r} in place of {before!r}.")
    return entries, notes


def _chosen(
    library: Sequence[object], chosen: Sequence[object], source: str
) -> tuple[list[object], list[str]]:
    """Metrics by their names, with what the library says of them, and of what they are made of."""
    defined = {_name(one): one for one in library if isinstance(one, Mapping)}
    metrics, notes = list[object](), list[str]()
    for one in chosen:
        known = defined.get(_name(one))
        if known is None or not isinstance(one, Mapping):
            metrics.append(one)
            continue
        entry, said = _together(_redefined(known, one), one, source, f"metrics.{_name(one)}.")
        if {*known} - {*entry, "name"}:
            said = [f"metrics.{_name(one)} is defined by {source} anew.", *said]
        metrics.append(entry)
        notes += said
    names = {_name(one) for one in metrics}
    for part in (part for one in metrics for part in _parts(one)):
        if part in defined and part not in names:
            names.add(part)
            metrics.append({**defined[part], "role": "diagnostic"})
    return metrics, notes


_DEFINITION = ("value", "numerator", "denominator", "function", "quantile")


def _redefined(known: Entries, one: Entries) -> Entries:
    """What stays of a metric's entries: not its definition, where it gets a new one."""
    if not any(name in one for name in _DEFINITION):
        return known
    return {name: value for name, value in known.items() if name not in _DEFINITION}


def _parts(metric: object) -> Sequence[str]:
    """The metrics that a function is of."""
    text = metric.get("function") if isinstance(metric, Mapping) else None
    if not isinstance(text, str):
        return ()
    from sqlglot.errors import SqlglotError

    try:
        return names_of(text)
    except SqlglotError:
        # The check of the whole file says what is wrong with it.
        return ()


def _name(metric: object) -> str:
    return str(metric.get("name", "")) if isinstance(metric, Mapping) else ""


def load_experiment(path: str | Path) -> Experiment:
    """Read and validate an experiment file.

    Args:
        path: A TOML file; relative paths of logs in it start from its folder.

    Raises:
        ExperimentError: The file is missing, is not TOML, or has mistakes; all of them are named.
    """
    file = Path(path)
    try:
        raw = tomllib.loads(_text(file))
    except tomllib.TOMLDecodeError as error:
        raise ExperimentError(f"{file} is not valid TOML: {error}", _TOML_HINT) from error
    except RecursionError as error:
        raise ExperimentError(f"{file} is not valid TOML: it is nested too deeply") from error
    check_entries(raw, str(file))
    return parse_experiment(raw, folder=file.parent, source=str(file))


_TOML_HINT = "put text in quotes, begin a table with [name], and use each key once in it"


def _text(file: Path, why: str = "") -> str:
    """A file's text, without the byte order mark that some editors write; `why` it is read."""
    try:
        # A device such as /dev/zero has no end, and a pipe may have no writer.
        if file.exists() and not file.is_file() and not file.is_dir():
            raise ExperimentError(f"{file} is a device or a pipe", "name a TOML file")
        return file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError as error:
        hint = "give the path of a TOML file, or make an example with: abeval simulate DIR"
        if why:
            raise ExperimentError(f"no file at {file}; {why}", "correct `include`") from error
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
    if raw.get("include") is not None and "overrides" not in raw:
        entries, notes = merged(raw, Path(folder), source, _text)
        raw = {**entries, "overrides": notes}
    try:
        experiment = Experiment.model_validate({**raw, "folder": Path(folder)})
        problems: list[Problem] = []
    except ValidationError as error:
        problems = problems_of(error, raw)
        partial = _partial(raw, problems)
    else:
        partial = experiment
    if partial is not None:
        problems += [p for p in inconsistencies(partial) if not _under_a_problem(p, problems)]
    if problems:
        raise ExperimentError(_message(source, problems))
    return experiment


def _partial(raw: Mapping[str, Any], problems: list[Problem]) -> Experiment | None:
    """The experiment without its wrong entries, so that the others can be checked too."""
    try:
        return Experiment.model_validate(without(raw, [p.path for p in problems]))
    except ValidationError:
        return None


def _under_a_problem(problem: Problem, known: list[Problem]) -> bool:
    return any(problem.path[: len(k.path)] == k.path for k in known)


def _message(source: str, problems: list[Problem]) -> str:
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    return "\n".join([f"{source} has {count}:", *(f"  {problem}" for problem in problems)])
