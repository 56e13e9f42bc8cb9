"""Lay tables of text out at a width without cutting a name: in columns, or a block a row."""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from rich.box import Box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

Kind = Literal["name", "number", "spare", "extra", "words", "note"]
"""How a column gives way where there is little room.

`name` and `number` are never broken; `words` is a sentence that takes several lines. A `spare`
number and an `extra` word are left out first; a `note` then goes below the table, a line a row.
"""

_RULED = Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)
_SPARE: tuple[Kind, ...] = ("spare", "extra")
_INDENT, _GAP = 2, 3
_SENTENCE = 24
"""Columns that a sentence needs at least."""


class Column(NamedTuple):
    """A column's header, and how it gives way."""

    header: str
    kind: Kind = "name"


class Group(NamedTuple):
    """Rows under a title of their own; none without a title."""

    title: str
    rows: Sequence[Sequence[Text]]


def laid_out(
    columns: Sequence[Column], groups: Sequence[Group], width: int, whole: bool = False
) -> Iterator[Padding | Text]:
    """Lay a table out at most so wide; with `whole`, leave no column out."""
    rows = [row for group in groups for row in group.rows]
    filled = [i for i in range(len(columns)) if any(row[i].plain for row in rows)]
    kept = _that_fit(columns, rows, filled, width, () if whole else _SPARE)
    if kept is None:
        yield from _blocks(columns, groups, filled)
        return
    yield _indented(_table([columns[i] for i in kept], _chosen(groups, kept)))
    notes = [i for i in filled if columns[i].kind == "note" and i not in kept]
    names = [i for i in kept if columns[i].kind == "name"][:2]
    for row in rows:
        if said := ", ".join(row[i].plain for i in notes if row[i].plain):
            of = ", ".join(row[i].plain for i in names)
            yield _indented(Text(f"{of}: {said}", "dim"))


def plain(text: str) -> str:
    """Replace what is not printable: a name from a log must not control the terminal."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def cell(text: str, style: str = "") -> Text:
    """Make a cell of a text of the log, or of the user."""
    return Text(plain(text), style)


def _chosen(groups: Sequence[Group], kept: Sequence[int]) -> list[Group]:
    return [Group(title, [[row[i] for i in kept] for row in rows]) for title, rows in groups]


def _that_fit(
    columns: Sequence[Column],
    rows: Sequence[Sequence[Text]],
    filled: Sequence[int],
    width: int,
    spare: Sequence[Kind],
) -> list[int] | None:
    """Choose columns that there is room for; None where names or numbers would be cut."""
    kept = list(filled)
    needs = {i: _need(columns[i], [row[i] for row in rows]) for i in filled}
    notes = [i for i in filled if columns[i].kind == "note"]
    leaving = [*notes, *(i for i in filled if columns[i].kind in spare)]
    while sum(needs[i] + _GAP for i in kept) - _GAP > width - _INDENT:
        if not leaving:
            return None
        kept.remove(leaving.pop())
    return kept


def _need(column: Column, cells: Sequence[Text]) -> int:
    """Count the columns of the terminal that a column needs."""
    widest = max((one.cell_len for one in cells), default=0)
    if column.kind in ("words", "note"):
        widest = min(widest, _SENTENCE)
    return max(widest, len(column.header))


def _table(columns: Sequence[Column], groups: Sequence[Group]) -> Table:
    table = Table(box=_RULED, show_edge=False, pad_edge=False, header_style="bold dim")
    for header, kind in columns:
        table.add_column(
            Text(header),
            overflow="fold",
            no_wrap=kind not in ("words", "note"),
            justify="right" if kind in ("number", "spare") else "left",
        )
    for title, rows in groups:
        if rows and table.row_count:
            table.add_row()
        if rows and title:
            table.add_row(Text(title, "dim"))
        for row in rows:
            table.add_row(*row)
    return table


def _blocks(
    columns: Sequence[Column], groups: Sequence[Group], filled: Sequence[int]
) -> Iterator[Padding | Text]:
    """Show each row as a heading with its first name, and a line for every other cell."""
    first, *others = filled
    for title, rows in groups:
        if rows and title:
            yield _indented(Text(title, "dim"))
        for row in rows:
            yield _indented(Text.assemble(row[first], style="bold"))
            fields = Table.grid(padding=(0, 2))
            fields.add_column(no_wrap=True)
            fields.add_column(overflow="fold")
            for i in others:
                if row[i].plain:
                    fields.add_row(Text(columns[i].header, "dim"), row[i])
            yield Padding(fields, (0, 0, 0, 2 * _INDENT), expand=False)


def _indented(what: Table | Text) -> Padding:
    return Padding(what, (0, 0, 0, _INDENT), expand=False)
