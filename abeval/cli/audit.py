"""`abeval audit`: are the logged variants those that the assignment gives?

Calls `LoadedExperiment.audit` of `api/`.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from abeval.cli.options import JsonFile, Reads, is_toml, print_tables, write_json
from abeval.errors import ExperimentError

if TYPE_CHECKING:
    import pandas as pd

    from abeval.api import LoadedExperiment


def audit(
    loaded: "LoadedExperiment",
    against: Annotated[
        list[str] | None,
        typer.Option(
            help="Another experiment: its file, or a CSV of unit and variant; repeat for more.",
            metavar="NAME=FILE",
        ),
        Reads(path=lambda text: Path(text.partition("=")[2]), is_experiment=is_toml),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Compute each unit's variant by the rule of assignment, and compare it with the log."""
    from abeval.progress import steps

    others = {name: _other(file) for name, file in named_files(against or ()).items()}
    with steps() as step:
        result = loaded.audit(others=others, step=step)
    write_json(json_file, result)
    print_tables(result)


def _other(file: Path) -> "LoadedExperiment | pd.Series[str]":
    from abeval.api import load
    from abeval.assignment.plan import read_assignment

    return load(file) if is_toml(file) else read_assignment(file)


def named_files(options: Iterable[str]) -> dict[str, Path]:
    """`NAME=FILE` each.

    Raises:
        ExperimentError: An option is not written so, or a name is there twice.
    """
    files: dict[str, Path] = {}
    for option in options:
        name, _, file = option.partition("=")
        if not name or not file or name in files:
            raise ExperimentError(
                f"--against {option!r} is not NAME=FILE, or its name is there twice",
                "write --against other_experiment=units.csv",
            )
        files[name] = Path(file)
    return files
