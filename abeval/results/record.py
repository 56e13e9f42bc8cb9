"""What the results share: JSON text, and rows as a DataFrame.

The base of every result of `results/` that a call of the API returns.
"""

import csv
import io
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter

from abeval.inference.trust import audits

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

Row = TypeVar("Row")
Read = TypeVar("Read")


@dataclass(frozen=True, repr=False)
class Record:
    """A result that can be written as JSON, and that displays itself as the terminal shows it."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values only, as the JSON file has them."""
        return asdict(self)

    def to_json(self) -> str:
        """The result as JSON text, the same on every run; missing numbers are null."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def to_compact_json(self) -> str:
        """The same JSON in one line."""
        separators = (",", ":")
        return json.dumps(
            self.to_dict(), ensure_ascii=False, allow_nan=False, separators=separators
        )

    def __str__(self) -> str:
        return audits.as_text(self)

    def __repr__(self) -> str:
        return audits.as_text(self).rstrip()

    def _repr_html_(self) -> str:
        return audits.summary_html(self)


@dataclass(frozen=True, repr=False)
class DrawnRecord(Record):
    """A result with figures."""

    @property
    def figures(self) -> "Mapping[tuple[str, ...], go.Figure]":
        """Its figures as plain Plotly figures, by part and metric: `figures["daily", "ctr"]`."""
        return audits.figures(self)


def read_back(raw: Mapping[str, Any], kind: type[Read], version: str | None) -> Read:
    """A result from the fields of its JSON.

    Args:
        raw: The fields.
        kind: The type of the result.
        version: The schema version that is read; None where the JSON has none.

    Raises:
        ValueError: The JSON has another schema version, or other fields.
    """
    written = raw.get("schema_version")
    if version is not None and written != version:
        raise ValueError(f"schema version {written!r}, not {version!r}, which this abeval reads")
    return TypeAdapter(kind).validate_python(raw)


def frame(rows: Sequence[Any], kind: type[Any]) -> "pd.DataFrame":
    """One row per record, one column per field; the columns are there without rows, too."""
    import pandas as pd

    return pd.DataFrame([asdict(row) for row in rows], columns=[f.name for f in fields(kind)])


def named(rows: Sequence[Row], field: str, name: str) -> Row:
    """The first row of this name.

    Raises:
        KeyError: There is none; it says which there are.
    """
    for row in rows:
        if getattr(row, field) == name:
            return row
    there = ", ".join(dict.fromkeys(str(getattr(row, field)) for row in rows))
    raise KeyError(f"{name!r}; there are {there or 'none'}")


def csv_text(rows: Sequence[Any], kind: type[Any], without: Collection[str] = ()) -> str:
    r"""Records as CSV, whose texts no spreadsheet takes for a formula.

    Texts that begin with `=`, `+`, `-`, `@`, a tab or a line end get an apostrophe before them;
    numbers stay as they are.

    Args:
        rows: A line each.
        kind: Their type, whose fields are the columns.
        without: Fields that are no columns.

    Example:
        >>> from dataclasses import make_dataclass
        >>> Effect = make_dataclass("Effect", ["variant", "lift"])
        >>> csv_text([Effect("=1+1", -0.5), Effect("b", None)], Effect)
        "variant,lift\n'=1+1,-0.5\nb,\n"
    """
    names = [field.name for field in fields(kind) if field.name not in without]
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(names)
    lines.writerows([_harmless(getattr(row, name)) for name in names] for row in rows)
    return text.getvalue()


def _harmless(value: object) -> object:
    is_formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
    return f"'{value}" if is_formula else value
