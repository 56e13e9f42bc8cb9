"""Small workbooks, written by hand: what a spreadsheet saves, without a library for it."""

import zipfile
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from struct import pack
from xml.sax.saxutils import escape

Cell = str | float | bool | date | None
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_STYLES = (
    f'<styleSheet xmlns="{_MAIN}"><fonts><font/></fonts><fills><fill/></fills>'
    "<borders><border/></borders><cellStyleXfs><xf/></cellStyleXfs>"
    '<cellXfs><xf/><xf numFmtId="14" applyNumberFormat="1"/>'
    '<xf numFmtId="22" applyNumberFormat="1"/></cellXfs></styleSheet>'
)


def write_xlsx(file: Path, sheets: Mapping[str, Sequence[Sequence[Cell]]]) -> None:
    """Write sheets, each a list of rows; None is an empty cell."""
    places = range(1, len(sheets) + 1)
    named = "".join(
        f'<sheet name="{escape(name)}" sheetId="{i}" r:id="r{i}"/>'
        for i, name in zip(places, sheets, strict=True)
    )
    kinds = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
        '<Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{kinds}.sheet.main+xml"/>'
        f'<Override PartName="/xl/styles.xml" ContentType="{kinds}.styles+xml"/>'
        + "".join(
            f'<Override PartName="/xl/s{i}.xml" ContentType="{kinds}.worksheet+xml"/>'
            for i in places
        )
        + "</Types>",
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="r1" '
        f'Type="{_RELATIONS}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_RELATIONS}">'
        f"<sheets>{named}</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
        f'<Relationship Id="s" Type="{_RELATIONS}/styles" Target="styles.xml"/>'
        + "".join(
            f'<Relationship Id="r{i}" Type="{_RELATIONS}/worksheet" Target="s{i}.xml"/>'
            for i in places
        )
        + "</Relationships>",
        "xl/styles.xml": _STYLES,
    } | {f"xl/s{i}.xml": _sheet(rows) for i, rows in zip(places, sheets.values(), strict=True)}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as package:
        for name, text in parts.items():
            package.writestr(name, f'<?xml version="1.0" encoding="UTF-8"?>{text}')


def _sheet(rows: Sequence[Sequence[Cell]]) -> str:
    lines = "".join(
        f'<row r="{i}">{"".join(_cell(f"{_column(j)}{i}", v) for j, v in enumerate(row))}</row>'
        for i, row in enumerate(rows, start=1)
    )
    return f'<worksheet xmlns="{_MAIN}"><sheetData>{lines}</sheetData></worksheet>'


def _column(place: int) -> str:
    return (chr(64 + place // 26) if place >= 26 else "") + chr(65 + place % 26)


def _cell(place: str, value: Cell) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return f'<c r="{place}" t="b"><v>{int(value)}</v></c>'
    if isinstance(value, date):
        since = datetime(1899, 12, 30)
        moment = value if isinstance(value, datetime) else datetime(*value.timetuple()[:3])
        style = 2 if isinstance(value, datetime) else 1
        return f'<c r="{place}" s="{style}"><v>{(moment - since).total_seconds() / 86400!r}</v></c>'
    if isinstance(value, str) and value.startswith("#"):
        return f'<c r="{place}" t="e"><v>{value}</v></c>'
    if isinstance(value, str):
        return f'<c r="{place}" t="inlineStr"><is><t>{escape(value)}</t></is></c>'
    return f'<c r="{place}"><v>{value!r}</v></c>'


def write_ods(file: Path, rows: Sequence[Sequence[Cell]]) -> None:
    """Write one sheet of text and numbers as OpenDocument."""
    space = "urn:oasis:names:tc:opendocument:xmlns"
    lines = "".join(
        f"<table:table-row>{''.join(map(_ods_cell, row))}</table:table-row>" for row in rows
    )
    content = (
        f'<office:document-content xmlns:office="{space}:office:1.0" '
        f'xmlns:table="{space}:table:1.0" xmlns:text="{space}:text:1.0"><office:body>'
        f'<office:spreadsheet><table:table table:name="Data">{lines}</table:table>'
        "</office:spreadsheet></office:body></office:document-content>"
    )
    manifest = f'<manifest:manifest xmlns:manifest="{space}:manifest:1.0"/>'
    with zipfile.ZipFile(file, "w") as package:
        package.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        package.writestr("content.xml", content)
        package.writestr("META-INF/manifest.xml", manifest)


def _ods_cell(value: Cell) -> str:
    if value is None:
        return "<table:table-cell/>"
    if isinstance(value, str):
        kind, shown = 'office:value-type="string"', escape(value)
    else:
        kind, shown = f'office:value-type="float" office:value="{value}"', str(value)
    return f"<table:table-cell {kind}><text:p>{shown}</text:p></table:table-cell>"


def write_xlsb(
    file: Path,
    rows: Sequence[Sequence[Cell]],
    further: Mapping[tuple[int, int], float] | None = None,
) -> None:
    """Write one sheet of text and numbers as .xlsb (MS-XLSB), with further cells by their place."""
    lines = [(i, [*enumerate(row)]) for i, row in enumerate(rows)]
    lines += [(row, [(column, value)]) for (row, column), value in (further or {}).items()]
    data = b"".join(
        _record(0, pack("<IIHHBI", i, 0, 300, 0, 0, 0))
        + b"".join(_binary_cell(j, v) for j, v in row)
        for i, row in lines
    )
    last = pack("<4I", 0, max(i for i, _ in lines), 0, max(j for _, row in lines for j, _ in row))
    sheet = _record(129) + _record(148, last) + _record(145) + data + _record(146) + _record(130)
    named = _record(156, pack("<II", 0, 1) + _wide("r1") + _wide("S"))
    book = _record(131) + _record(143) + named + _record(144) + _record(132)
    relations = (
        f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="r1" '
        f'Type="{_RELATIONS}/{{}}" Target="{{}}"/></Relationships>'
    )
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr("[Content_Types].xml", f'<Types xmlns="{_PACKAGE}/content-types"/>')
        package.writestr("_rels/.rels", relations.format("officeDocument", "xl/workbook.bin"))
        package.writestr("xl/workbook.bin", book)
        package.writestr(
            "xl/_rels/workbook.bin.rels", relations.format("worksheet", "worksheets/sheet1.bin")
        )
        package.writestr("xl/worksheets/sheet1.bin", sheet)
        # What a printer says of itself is no sheet, whatever its bytes would mean in one.
        package.writestr("xl/printerSettings/printerSettings1.bin", _record(0, b"\xff" * 300) * 9)


def _record(kind: int, data: bytes = b"") -> bytes:
    numbers = [kind & 127 | 128, kind >> 7] if kind > 127 else [kind]
    size = len(data)
    numbers += [size & 127 | 128, size >> 7] if size > 127 else [size]
    return bytes(numbers) + data


def _wide(text: str) -> bytes:
    return pack("<I", len(text)) + text.encode("utf-16-le")


def _binary_cell(column: int, value: Cell) -> bytes:
    start = pack("<II", column, 0)
    if value is None:
        return _record(1, start)
    if isinstance(value, str):
        return _record(6, start + _wide(value))
    assert isinstance(value, float | int)
    return _record(5, start + pack("<d", value))
