"""Lay tables of text out at a width without cutting a name: in columns, or a block a row."""

from collections.abc import Iterator, Mapping, Sequence

from rich.box import Box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from abeval.report.tables import Kind, TextTable

_RULED = Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)
_SPARE: tuple[Kind, ...] = ("spare", "extra")
_NAMES: tuple[Kind, ...] = ("name",)
_INDENT, _GAP = 2, 3
_SENTENCE = 24
"""Columns that a sentence needs at least."""

Rows = Sequence[Sequence[Text]]

_STYLES = {
    **dict.fromkeys(("better", "non inferior"), "blue"),
    **dict.fromkeys(("worse", "untrusted"), "red"),
    **dict.fromkeys(("off", "fail"), "bold red"),
    **dict.fromkeys(("drifting", "settling", "warn", "draft"), "yellow"),
}
"""Cells that stand out."""


def laid_out(
    table: TextTable, width: int, whole: bool = False, titles: Mapping[int, str] | None = None
) -> Iterator[Padding | Text]:
    """Lay a table out at most so wide; with `whole`, leave no column out.

    `titles` stand above the rows of their places.
    """
    kinds = table.kinds or _NAMES * len(table.headers)
    table = table._replace(kinds=kinds)
    rows = [[Text(plain(text), _STYLES.get(text, "")) for text in row] for row in table.rows]
    filled = [i for i in range(len(kinds)) if any(row[i].plain for row in rows)]
    kept = _that_fit(table, rows, filled, width, () if whole else _SPARE)
    if kept is None:
        yield from _blocks(table, rows, filled, titles or {})
        return
    yield _indented(_grid(table, rows, kept, titles or {}))
    notes = [i for i in filled if kinds[i] == "note" and i not in kept]
    names = [i for i in kept if kinds[i] == "name"][:2]
    for row in rows:
        if said := ", ".join(row[i].plain for i in notes if row[i].plain):
            of = ", ".join(row[i].plain for i in names)
            yield _indented(Text(f"{of}: {said}", "dim"))


def plain(text: str) -> str:
    """Replace what is not printable: a name from a log must not control the terminal."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _that_fit(
    table: TextTable, rows: Rows, filled: Sequence[int], width: int, spare: Sequence[Kind]
) -> list[int] | None:
    """Choose columns that there is room for; None where names or numbers would be cut."""
    kept, needs = list(filled), dict[int, int]()
    for i in filled:
        widest = max((row[i].cell_len for row in rows), default=0)
        most = _SENTENCE if table.kinds[i] in ("words", "note") else widest
        needs[i] = max(min(widest, most), len(table.headers[i]))
    leaving = [i for of in (("note",), spare) for i in filled if table.kinds[i] in of]
    while sum(needs[i] + _GAP for i in kept) - _GAP > width - _INDENT:
        if not leaving:
            return None
        kept.remove(leaving.pop())
    return kept


def _grid(table: TextTable, rows: Rows, kept: Sequence[int], titles: Mapping[int, str]) -> Table:
    grid = Table(box=_RULED, show_edge=False, pad_edge=False, header_style="bold dim")
    for i in kept:
        grid.add_column(
            Text(table.headers[i]),
            overflow="fold",
            no_wrap=table.kinds[i] not in ("words", "note"),
            justify="right" if table.kinds[i] in ("number", "spare") else "left",
        )
    for place, row in enumerate(rows):
        if place in titles:
            if place:
                grid.add_row()
            grid.add_row(Text(titles[place], "dim"))
        grid.add_row(*(row[i] for i in kept))
    return grid


def _blocks(
    table: TextTable, rows: Rows, filled: Sequence[int], titles: Mapping[int, str]
) -> Iterator[Padding | Text]:
    """Show each row as a heading with its first name, and a line for every other cell."""
    first, *others = filled
    for place, row in enumerate(rows):
        if place in titles:
            yield _indented(Text(titles[place], "dim"))
        yield _indented(Text.assemble(row[first], style="bold"))
        fields = Table.grid(padding=(0, 2))
        fields.add_column(no_wrap=True)
        fields.add_column(overflow="fold")
        for i in others:
            if row[i].plain:
                fields.add_row(Text(table.headers[i], "dim"), row[i])
        yield Padding(fields, (0, 0, 0, 2 * _INDENT), expand=False)


def _indented(what: Table | Text) -> Padding:
    return Padding(what, (0, 0, 0, _INDENT), expand=False)
