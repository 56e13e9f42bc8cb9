"""`abeval init`: a first experiment file for the user's own files.

Calls `drafts/run.py`; no experiment is read or run.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from abeval.errors import ExperimentError

if TYPE_CHECKING:
    from abeval.drafts.run import Draft


def init(
    files: Annotated[list[Path], typer.Argument(help="Files of a log or table.")],
    output: Annotated[
        Path, typer.Option(help="The experiment file to write; it must not be there.")
    ] = Path("experiment.toml"),
) -> None:
    """Look at files, guess what their columns are, and write an experiment file with comments."""
    from abeval.drafts.run import draft_files
    from abeval.files import check_writable, write_text

    if output.exists():
        raise ExperimentError(f"{output} is there already", "name another file with --output")
    check_writable(output)
    draft = draft_files(files, output.parent, _name(files[0]))
    write_text(output, draft.text)
    typer.echo(_text(draft, output))


def _name(file: Path) -> str:
    from abeval.files import real

    name = real(file).parent.name if file.stem.isdigit() else file.name.split(".")[0]
    return name or "experiment"


def _text(draft: "Draft", output: Path) -> str:
    rows = [
        (g.entry, "-" if g.column is None else g.column.name, g.certainty, g.reason)
        for g in draft.guesses
    ]
    widths = [max(len(row[place]) for row in rows) for place in range(3)]
    lines = [
        "  ".join([*(text.ljust(n) for text, n in zip(row, widths, strict=False)), row[3]])
        for row in rows
    ]
    questions = [f"NOT SURE  {question}" for question in draft.questions]
    run = f"wrote {output}: read its comments, then run: abeval analyze {output}"
    return "\n".join([*lines, "", *questions, *([""] if questions else []), run])
