"""Reads an experiment file, and reports every mistake in it at once.

`api/` and `cli/sql.py` call it with a path, or `api/` with a mapping from Python; every run
starts from the `Experiment` that comes back.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from abeval.errors import ExperimentError
from abeval.experiment.consistency import inconsistencies
from abeval.experiment.load import check_entries, merged
from abeval.experiment.model import Experiment
from abeval.experiment.problems import Problem, problems_of, without


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
