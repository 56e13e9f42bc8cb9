"""Share what all results have: JSON, tables, and views of themselves."""

import csv
import hashlib
import io
import json
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    TypeVar,
    cast,
    dataclass_transform,
    get_args,
)

from abeval.calls import explain_types
from abeval.errors import ExperimentError
from abeval.views import view

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

Row = TypeVar("Row")
Key = TypeVar("Key")
Read = TypeVar("Read")


def _find_default(field: Field[Any]) -> object:
    """Return a field's default, which all records share; MISSING without one."""
    return field.default if field.default_factory is MISSING else field.default_factory()


@dataclass_transform(frozen_default=True)
class Frozen:
    """A record of plain values: a frozen dataclass, as each class below it is.

    `dataclass` would write and compile methods for each of a hundred classes as they are imported.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    __match_args__: ClassVar[tuple[str, ...]] = ()

    _defaults: ClassVar[Mapping[str, Any]] = {}
    """Field → its default, or MISSING."""

    def __init_subclass__(cls, **options: bool) -> None:
        super().__init_subclass__()
        dataclass(init=False, repr=False, eq=False, **options)(cls)
        cls._defaults = {field.name: _find_default(field) for field in fields(cls)}

    def __init__(self, *values: Any, **named: Any) -> None:  # noqa: ANN401 (fields of any type)
        count = len(values) + len(named)
        named |= zip(self.__match_args__, values, strict=False)
        held = {**self._defaults, **named}
        is_whole = count == len(held) or all(value is not MISSING for value in held.values())
        if len(named) < count or len(held) > len(self._defaults) or not is_whole:
            raise TypeError(f"{type(self).__name__} has the fields {[*self._defaults]}, each once")
        self.__dict__.update(held)

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(frozenset(vars(self).items()))

    def __repr__(self) -> str:
        fields = (f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__qualname__}({', '.join(fields)})"


class Record(Frozen):
    """A result that can be written as JSON, and displays as in the terminal.

    `TABLES` names the function that tabulates it, by module of `abeval.report`: only the one that
    is needed is imported. An analysis and a study, which have more than tables, have none.
    """

    TABLES: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values only, as the JSON file has them beside its digest."""
        values: dict[str, Any] = convert_records(self)
        return values

    def to_json(self) -> str:
        """Return the result as JSON text, the same on every run.

        Missing numbers are null.
        """
        return self._write_json(indent=2) + "\n"

    def to_compact_json(self) -> str:
        """Return the same JSON in one line."""
        return self._write_json(separators=(",", ":"))

    def _write_json(self, **form: Any) -> str:  # noqa: ANN401 (settings of json.dumps)
        values = self.to_dict()
        # The digest covers all fields but itself.
        signed = {**values, _DIGEST: _hash_values(values)}
        # Other readers refuse NaN in JSON; a missing number is null instead.
        return json.dumps(signed, ensure_ascii=False, allow_nan=False, **form)

    def __str__(self) -> str:
        text: str = view("text")(self)
        return text

    def __repr__(self) -> str:
        return str(self).rstrip()

    def _repr_html_(self) -> str:
        html: str = view("summary")(self)
        return html


class Tabled(Record, Generic[Row]):
    """A result with main rows: the field that `ROWS` names first."""

    ROWS: ClassVar[tuple[str, ...]]

    def __getitem__(self, key: str | tuple[str | None, ...]) -> Row:
        """Return the first row with a name, or with a name and values of further fields."""
        rows: tuple[Row, ...] = getattr(self, self.ROWS[0])
        return find_row(rows, key, *self.ROWS[1:])

    def to_frame(self) -> "pd.DataFrame":
        """Return its main rows as a table, one column per field."""
        return self._frame(self.ROWS[0])

    def _frame(self, name: str) -> "pd.DataFrame":
        """Return the records of a field as a table."""
        # The record type is the argument of `tuple[Kind, ...]`.
        (kind,) = (get_args(field.type)[0] for field in fields(self) if field.name == name)
        return build_frame(getattr(self, name), kind)


class PageRecord(Record):
    """A result with a page."""

    @explain_types
    def report(self, path: str | Path) -> Path:
        """Write everything as one self-contained HTML file."""
        written: Path = view("page")(self, Path(path))
        return written


class DrawnRecord(PageRecord):
    """A result with a page and its figures."""

    @property
    def figures(self) -> "Mapping[tuple[str, ...], go.Figure]":
        """Return Plotly figures by part and metric, as in `["daily", "ctr"]`."""
        drawn: Mapping[tuple[str, ...], go.Figure] = view("figures")(self)
        return drawn


def list_columns(kind: type[Any]) -> list[str]:
    """List a record's fields in JSON order: those in `FIRST`, then the others.

    Example:
        >>> from abeval.results.effects import Numbers
        >>> list_columns(Numbers)[:4]
        ['units_control', 'units', 'control', 'treatment']
    """
    # Dataclasses put inherited fields first; the published JSON does not.
    first = getattr(kind, "FIRST", ())
    return list(dict.fromkeys((*first, *(field.name for field in fields(kind)))))


@cache
def _list_fields(kind: Hashable) -> list[str]:
    return list_columns(cast("type[Any]", kind))


def convert_records(value: Any) -> Any:  # noqa: ANN401 (any field of any record)
    """Convert records to dictionaries, with fields in JSON order."""
    # Most values are texts and numbers.
    if value is None or isinstance(value, str | float | int):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {name: convert_records(getattr(value, name)) for name in _list_fields(type(value))}
    if isinstance(value, Mapping):
        return {key: convert_records(item) for key, item in value.items()}
    return tuple(map(convert_records, value)) if isinstance(value, tuple) else value


_DIGEST = "digest"
"""The JSON field that tells whether the other fields were changed."""


def _hash_values(values: Mapping[str, Any]) -> str:
    """Return a digest of JSON fields that ignores order and formatting.

    Example:
        >>> _hash_values({"a": 1, "b": 0.5}) == _hash_values({"b": 0.50, "a": 1.0})
        True
    """
    # 1 and 1.0 are the same number in JSON.
    read = json.loads(json.dumps(values), parse_int=float)
    return hashlib.sha256(json.dumps(read, sort_keys=True).encode()).hexdigest()


def read_back(raw: Mapping[str, Any], kind: type[Read], version: str | None) -> Read:
    """Read a result from its JSON fields; `version` None if it has none.

    Raises:
        ValueError: The JSON has another schema version, or other fields.
        ExperimentError: A field was changed after writing; only a result with a digest shows this.
    """
    values = {name: value for name, value in raw.items() if name != _DIGEST}
    if _DIGEST in raw and raw[_DIGEST] != _hash_values(values):
        what = "its fields are not those that abeval wrote: it was edited or damaged"
        raise ExperimentError(what, "restore it, or write it again with abeval")
    from pydantic import TypeAdapter

    # Edited files were refused above, so the version can be believed.
    written = raw.get("schema_version")
    if version is not None and written != version:
        raise ValueError(f"schema version {written!r}, not {version!r}, which this abeval reads")
    return TypeAdapter(kind).validate_python(values)


def build_frame(rows: Sequence[Any], kind: type[Any]) -> "pd.DataFrame":
    """Build a table, one row per record; it has its columns even without rows."""
    import pandas as pd

    return pd.DataFrame([convert_records(row) for row in rows], columns=list_columns(kind))


def find_row(rows: Iterable[Row], key: str | tuple[str | None, ...], field: str, *more: str) -> Row:
    """Return the first row that matches a name, and values of further fields.

    The key is the name, or the name and values of the fields `more`; a value of None matches all
    rows.

    Raises:
        KeyError: No row matches; the message lists the rows that exist.
    """
    name, *values = (key,) if isinstance(key, str) else key
    conditions = [(f, value) for f, value in zip(more, values, strict=False) if value is not None]
    # The other keys narrow the rows first, for the message below.
    fitting = [row for row in rows if all(getattr(row, f) == value for f, value in conditions)]
    for row in fitting:
        if getattr(row, field) == name:
            return row
    there = ", ".join(dict.fromkeys(str(getattr(row, field)) for row in fitting))
    raise KeyError(f"{name!r}; there are {there or 'none'}")


def group_rows(rows: Iterable[Row], key: Callable[[Row], Key]) -> dict[Key, list[Row]]:
    """Group rows by a key, keys in the order in which they appear."""
    groups: dict[Key, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def write_csv(rows: Sequence[Any], kind: type[Any], without: Collection[str] = ()) -> str:
    r"""Write records as CSV whose texts no spreadsheet takes for formulas.

    Texts that begin with `=`, `+`, `-`, `@`, a tab or a line end get an apostrophe before them;
    numbers stay as they are. Names with counts are one text, `requests_without_relevant: 737`.
    Columns are the fields of the type, except those in `without`.

    Example:
        >>> from dataclasses import make_dataclass
        >>> Effect = make_dataclass("Effect", ["variant", "lift"])
        >>> write_csv([Effect("=1+1", -0.5), Effect("b", None)], Effect)
        "variant,lift\n'=1+1,-0.5\nb,\n"
    """
    names = [name for name in list_columns(kind) if name not in without]
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(names)
    lines.writerows([_defuse_formula(getattr(row, name)) for name in names] for row in rows)
    return text.getvalue()


def _defuse_formula(value: object) -> object:
    if isinstance(value, tuple):
        value = "; ".join(f"{name}: {count}" for name, count in value)
    # Spreadsheets run cells that begin like this.
    is_formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
    return f"'{value}" if is_formula else value
