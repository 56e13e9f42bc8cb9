"""Read tables of a data lake: Delta Lake, Iceberg, Hudi.

Their folders hold the files of every version, also of rows that were overwritten or deleted. Which
rows are current only the table's own log says: a library of its format reads them, as Arrow.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from abeval.engines.sql import quote
from abeval.errors import LogError
from abeval.experiment.sources import Span
from abeval.files import resolve_path

NAMES = {"delta": "a Delta table", "iceberg": "an Iceberg table", "hudi": "a Hudi table"}
"""Format → what a table of it is called."""

_METADATA = re.compile(r"v?(\d+)(-.+)?(\.gz)?\.metadata\.json(\.gz)?")
"""Name of a file that describes one version of an Iceberg table."""


def detect_format(folder: Path) -> str | None:
    """Find the format of a table by the log in its folder; None if it is none."""
    try:
        # Most logs are files, of which there may be thousands: one look at each is enough.
        if not folder.is_dir():
            return None
        if (folder / "_delta_log").is_dir():
            return "delta"
        if (folder / ".hoodie").is_dir():
            return "hudi"
        return "iceberg" if _list_versions(folder) else None
    except OSError:  # A name that no folder can have; whoever opens it says so.
        return None


def _list_versions(folder: Path) -> list[tuple[int, str]]:
    """List the versions of an Iceberg table and their files, newest last."""
    files = (folder / "metadata").glob("*.metadata.json*")
    return sorted((int(m[1]), m[0]) for file in files if (m := _METADATA.fullmatch(file.name)))


def check_outside(log: str, files: Sequence[str]) -> None:
    """Raise if a file belongs to a table of a data lake.

    Raises:
        LogError: One lies in the folder of a table.
    """
    inside = {resolve_path(Path(file).parent): file for file in files}
    # Without the table's log, a file may hold rows that are not current.
    around = {folder: file for path, file in inside.items() for folder in (path, *path.parents)}
    for folder, file in around.items():
        if (kind := detect_format(folder)) is not None:
            what = f"{log}: {file} belongs to {NAMES[kind]}, and its rows may be of an old version"
            raise LogError(what, f"name the table: {folder}; `where` in its log chooses rows")


def find_version_file(path: Path) -> Path:
    """Find the file that makes a version current; a path without one is itself.

    Raises:
        LogError: Two files of Iceberg may be it: only a catalog knows.
    """
    kind = detect_format(path)
    if kind != "iceberg":
        return max((path / "_delta_log").glob("[0-9]*")) if kind == "delta" else path
    versions = _list_versions(path)
    newest = [name for number, name in versions if number == versions[-1][0]]
    if len(newest) > 1:
        what = f"{path} has two newest versions: {newest[0]} and {newest[1]}"
        raise LogError(what, "which is current only its catalog says: pass its table from Python")
    return path / "metadata" / newest[0]


def open_table(log: str, folder: Path) -> object:
    """Open the current version of a table as a frame.

    It is the same object until the table changes.

    Raises:
        LogError: It cannot be read here, or leads out of its folder.
    """
    kind = detect_format(folder) or ""
    what = f"{log}: {folder} is {NAMES[kind]}, and its files also hold rows that are not current"
    rows = "write its current rows to Parquet files elsewhere, and name these"
    if kind == "hudi":
        raise LogError(what, rows)
    try:
        version = find_version_file(folder)
        # The time is an argument, so that the cache knows a table that changed.
        return _open_cached(kind, folder, version, version.stat().st_mtime_ns)
    except LogError:
        raise
    except Exception as error:  # The libraries raise whatever their readers do.
        install = f'pip install "abeval-logs[{kind}]"'
        raise LogError(f"{what}: {error}", f"{install}; or {rows}") from error


@lru_cache(maxsize=8)
def _open_cached(kind: str, folder: Path, version: Path, changed: int) -> object:
    if kind == "delta":
        table = import_module("deltalake").DeltaTable(folder)
        # Paths of the log are those of addresses.
        paths = table.get_add_actions().column("path")
        files: Iterator[str] = (unquote(path.as_py()) for path in paths)
    else:
        table = import_module("pyiceberg.table").StaticTable.from_metadata(str(version))
        files = _list_iceberg_files(table)
    home = resolve_path(folder)
    for file in files:
        path = resolve_path(folder / re.sub("^file:/+", "/", file))
        if not (path.is_relative_to(home) and path.is_file()):
            what = f"{folder} is {NAMES[kind]} with a file that is not in its folder: {file}"
            raise LogError(what, "bring it there; or pass the table itself as a frame from Python")
    return table


def _list_iceberg_files(table: Any) -> Iterator[str]:  # noqa: ANN401 (of a library that may be missing)
    """List the files of an Iceberg table."""
    snapshot = table.current_snapshot()
    if snapshot is not None:
        # Each list is checked before it is read: it may lead out of the folder.
        yield snapshot.manifest_list
        yield from (manifest.manifest_path for manifest in snapshot.manifests(table.io))
        for task in table.scan().plan_files():
            yield from (task.file.file_path, *(file.file_path for file in task.delete_files))


def list_times(table: Any) -> dict[str, str]:  # noqa: ANN401
    """List a table's columns of times or days, with DuckDB's names of their types."""
    schema = table.schema()
    # Types are called `timestamp`, `timestamp_ntz`, `timestamptz` or `date`, or as in DuckDB.
    kinds = {
        field.name: str(getattr(field, "field_type", None) or field.type.type).upper()
        for field in schema.fields
        if hasattr(field, "field_type") or hasattr(field.type, "type")
    }
    return {name: kind for name, kind in kinds.items() if kind.startswith(("TIMESTAMP", "DATE"))}


def write_span(name: str, span: Span) -> str:
    """Write the condition of the rows of a span; a row without a time is one of them.

    `name` is SQL of the time.

    Example:
        >>> from datetime import date
        >>> write_span("ts", Span(date(2026, 9, 13), date(2026, 9, 30)))
        "(ts is null or (ts >= date '2026-09-13' and ts < date '2026-09-30'))"
    """
    inside = f"{name} >= date '{span.since}' and {name} < date '{span.until}'"
    return f"({name} is null or ({inside}))"


def write_filter(table: Any, column: str, span: Span) -> dict[str, object]:  # noqa: ANN401
    """Write what its library's `scan` gets, to skip files without a row of the span."""
    if not hasattr(table, "snapshots"):
        return {"predicate": write_span(quote(column), span)}
    has = import_module("pyiceberg.expressions")
    zone = "+00:00" if str(table.schema().find_field(column).field_type) == "timestamptz" else ""
    since, until = (
        str(day) if list_times(table)[column] == "DATE" else f"{day}T00:00:00{zone}" for day in span
    )
    inside = has.And(has.GreaterThanOrEqual(column, since), has.LessThan(column, until))
    return {"row_filter": has.Or(has.IsNull(column), inside)}


class LakeRows:
    """Hold the rows of a data lake's table; each read of them scans anew."""

    def __init__(self, table: Any, **chosen: object) -> None:  # noqa: ANN401
        self.table, self.chosen = table, chosen

    def select(self, columns: Iterable[str]) -> "LakeRows":
        """Choose columns."""
        is_iceberg = hasattr(self.table, "snapshots")
        names = {"selected_fields": (*columns,)} if is_iceberg else {"columns": [*columns]}
        return LakeRows(self.table, **self.chosen, **names)

    def scan(self) -> Any:  # noqa: ANN401
        """Begin to read the rows."""
        return self.table.scan(**self.chosen)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        scan = self.scan()
        rows = scan.to_arrow_batch_reader() if hasattr(scan, "to_arrow_batch_reader") else scan
        return rows.__arrow_c_stream__(requested_schema)
