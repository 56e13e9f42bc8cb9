"""What the commands of the command line share."""

from pathlib import Path
from typing import Annotated

import typer

ExperimentFile = Annotated[Path, typer.Argument(help="The experiment file (TOML).")]


def writable(file: Path | None) -> Path | None:
    """Say before long work that its result could not be written."""
    from abeval.files import check_writable

    if file is not None:
        check_writable(file)
    return file


JsonFile = Annotated[
    Path | None,
    typer.Option("--json", help="Write the result as JSON.", metavar="FILE", callback=writable),
]
