"""`abeval init`: a first experiment file for the user's own files.

Calls `drafts/run.py`; no experiment is read or run.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from abeval.cli.options import Reads, Writes
from abeval.errors import ExperimentError

if TYPE_CHECKING:
    from abeval.drafts.run import Draft


def init(
    files: Annotated[
        list[Path], typer.Argument(help="Files of a log or table."), Reads("the files")
    ],
    output: Annotated[
        Path, typer.Option(help="The experiment file to write; it must not be there."), Writes()
    ] = Path("experiment.toml"),
) -> None:
    """Look at files, guess what their columns are, and write an experiment file with comments."""
    from abeval.drafts.run import draft_files
    from abeval.files import write_text

    if output.exists():
        raise ExperimentError(f"{output} is there already", "name another file with --output")
    draft = draft_files(files, output.parent, _name(files[0]))
    write_text(output, draft.text)
    _print(draft, output)


def _name(file: Path) -> str:
    from abeval.files import real

    name = real(file).parent.name if file.stem.isdigit() else file.name.split(".")[0]
    return name or "experiment"


def _print(draft: "Draft", output: Path) -> None:
    from rich.text import Text

    from abeval.cli.options import console
    from abeval.report.layout import plain
    from abeval.report.tables import TextTable
    from abeval.report.terminal import text_table

    rows = tuple(
        (g.entry, "-" if g.column is None else g.column.name, g.certainty, g.reason)
        for g in draft.guesses
    )
    headers = ("entry", "column", "how sure", "why")
    table = TextTable("", "", headers, rows, ("name", "name", "name", "words"))
    screen = console()
    for block in text_table(table, screen.width):
        screen.print(block)
    screen.print()
    for question in draft.questions:
        screen.print(Text(plain(f"NOT SURE  {question}")))
    # The command is to be copied: it stands in a line of its own, however long that is.
    screen.print(Text(plain(f"wrote {output}: read its comments, then run:")))
    screen.print(Text(plain(f"  abeval analyze {output}")), soft_wrap=True)
