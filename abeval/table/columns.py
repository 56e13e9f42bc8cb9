"""Read the columns of a table of units: metrics, covariates, segments."""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from abeval.bounds import MAX_METRICS
from abeval.drafts import words
from abeval.drafts.values import says_before
from abeval.engines.frames import RENAME, find_column, read_numbers
from abeval.engines.sql import Engine, is_number, literal, number_cast, quote, read_int
from abeval.errors import ExperimentError, LogError, QueryError
from abeval.experiment.problems import suggest_name, suggest_near_name
from abeval.logs.prepare import make_expression_error
from abeval.metrics.definition import Missing
from abeval.metrics.expressions import find_expression_problem, parse_expression
from abeval.metrics.row_text import list_columns

_MetricSpec = str | Mapping[str, Any]
Metrics = str | Sequence[_MetricSpec] | Mapping[str, str | Sequence[str] | Mapping[str, Any]]
Covariates = str | Sequence[str] | Mapping[str, str | Sequence[str]]


@dataclass(frozen=True)
class TableOptions:
    """The columns of a table, as `abeval.analyze` takes them; counts need none."""

    variant: str = ""
    unit: str | None = None
    metrics: Metrics | None = None
    covariates: Covariates = ()
    segments: Sequence[str] | Mapping[str, str] = ()
    control: str | None = None
    weights: Mapping[str, float] | None = None
    missing: Missing | Mapping[str, Missing] | None = None
    entries: Mapping[str, Any] = field(default_factory=dict)
    read: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse column names that are not text."""
        for key in ("variant", "unit", "metrics", "covariates", "segments"):
            given = getattr(self, key)
            is_left_out = given is None and key in ("unit", "metrics")
            # One column each: a list of them is no name either.
            names = [given] if key in ("variant", "unit") else _flatten(given)
            for name in () if is_left_out else names:
                if not isinstance(name, str):
                    hint = "leave it out" if name is None else RENAME
                    raise LogError(f"{key}: {name!r} is no text, and names no column", hint)

    @property
    def before(self) -> list[str]:
        """List the covariates of all metrics."""
        return [str(text) for text in dict.fromkeys(_flatten(self.covariates))]


def _flatten(given: object) -> list[object]:
    """List the column names in an option."""
    names = list[object]()
    for value in given.values() if isinstance(given, Mapping) else [given]:
        if isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping):
            names += value
        else:
            names.append(value)
    # A mapping is a metric in the form of the file, which is checked with it later.
    return [name for name in names if not isinstance(name, Mapping)]


def _as_list(texts: str | Sequence[str]) -> Sequence[str]:
    """Wrap a single text in a list."""
    return [texts] if isinstance(texts, str) else texts


TABLE = "raw_table"
"""Name of the table's relation in the engine."""


class TableReader:
    """Find columns of an opened table by name, and read their types and values."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._types = engine, engine.columns(TABLE)
        self._known = {column.lower(): column for column in self._types}

    def read_numbers(self, text: str) -> NDArray[np.float64]:
        """Read the values of an expression as doubles, without nulls."""
        column, frame = find_column(text, self._types), self._engine.plain_frame(TABLE)
        if frame is not None and column is not None and is_number(self._types[column]):
            values = read_numbers(frame, column)
            return values[~np.isnan(values)]
        sql = text if column is None else quote(column)
        try:
            read = self._engine.arrays(f"select cast(({sql}) as double) as value from {TABLE}")
        except QueryError as error:
            raise make_expression_error(repr(text), error) from error
        return np.asarray(np.ma.compressed(read["value"]), np.float64)

    def find_column(self, name: str) -> str:
        """Find a column by its name, ignoring case."""
        if name.lower() not in self._known:
            near = suggest_near_name(name, self._types)
            raise LogError(f"the table has no column {name!r}{near}", self.hint)
        return self._known[name.lower()]

    @property
    def hint(self) -> str:
        """Write a hint that lists the columns."""
        return f"it has: {', '.join(self._types)}"

    def numbers(self) -> Sequence[str]:
        """List the columns of numbers."""
        return [column for column, kind in self._types.items() if is_number(kind)]

    def list_covariates(self, text: str) -> list[str]:
        """List numeric columns from before the experiment that a text does not name."""
        names = {words.join_words(column) for column in self._types}
        return [c for c in self.numbers() if c.lower() not in text and says_before(c, names)]

    def sql(self, text: str) -> str:
        """Write SQL of a number: a column by its name, or an expression."""
        column = self._known.get(text.strip().lower())
        if column is not None and not is_number(self._types[column]):
            raise self._make_number_error(column)
        sql = text if column is None else quote_column(column)
        for name in list_columns(sql):
            self.find_column(name)
        return sql

    def _make_number_error(self, column: str) -> LogError:
        """Make the error of a metric whose column is not a number."""
        is_text = self._types[column] == "VARCHAR"
        kind = "text" if is_text else self._types[column]
        what = f"column {column!r} is {kind}, but a metric is a number"
        if not is_text:
            return LogError(what)
        name = quote(column)
        number = f"try_cast({name} as double)"
        ((value_count, numbers, example),) = self._engine.rows(
            f"select count({name}), count({number}), min(case when {number} is null then {name} "
            f"end) from {TABLE}"
        )
        # Text such as "1,5" or "€ 3" can be cast: the hint has the expression.
        cast = number_cast(quote_column(column), str(example))
        if cast is not None:
            what = f"column {column!r} is text such as {example!r}, but a metric is a number"
            return LogError(what, f'make numbers of it, as a metric: "{column} = {cast}"')
        if not value_count:
            return LogError(f"column {column!r} has no value in any row")
        if numbers == value_count:
            cast = f"cast({quote_column(column)} as double)"
            return LogError(f"{what}: its numbers are written as text", f'name "{column} = {cast}"')
        if not numbers:
            few = f"select distinct {name} from {TABLE} where {name} is not null limit 9"
            answers = words.split_yes_no([str(value) for (value,) in self._engine.rows(few)])
            # To count a no would turn the sign of the effect.
            counted = literal(str(example) if answers is None else answers[0][0])
            metric = f"is_so = {quote_column(column)} = {counted}"
            return LogError(what, f'name what is counted in it, such as "{metric}"')
        odd = read_int(value_count) - read_int(numbers)
        return LogError(
            f"{what}: {odd:,} of its {read_int(value_count):,} values are none, "
            f"such as {example!r}",
            "make numbers of these values, or leave them empty",
        )

    def check_id(self, column: str) -> bool:
        """Tell whether ids are stored as decimals, such as 7.0.

        Raises:
            LogError: Some are not whole.
        """
        # pandas turns whole numbers into decimals where a column has nulls.
        if not re.match("DOUBLE|FLOAT|DECIMAL", self._types[column]):
            return False
        name = quote(column)
        ((odd, example),) = self._engine.rows(
            f"select count_if(odd), min(case when odd then id end) from (select {name} as id, "
            # Beyond 2^53 a double has no longer every whole number: two ids may be one.
            f"{name} <> round({name}) or abs({name}) > {2**53} as odd from {TABLE})"
        )
        if odd:
            what = f"has {read_int(odd):,} values that are no ids, such as {example}"
            raise LogError(f"column {column!r} {what}", "an id is a whole number or text")
        return True

    def find_type(self, text: str) -> str | None:
        """Find the type of a column; None for an expression."""
        tree = parse_expression(text)
        if not isinstance(tree, exp.Column):
            return None
        return self._types[self.find_column(list_columns(text)[0])]

    def is_whole(self, text: str) -> bool:
        """Tell whether a column holds whole numbers, by its type."""
        kind = self.find_type(text) or ""
        return kind in ("BOOLEAN", "INTEGER") or kind.endswith("INT")


def quote_column(column: str) -> str:
    """Write SQL of a column, quoted if its name would be read as something else."""
    tree = None if find_expression_problem(column) else parse_expression(column)
    # Of `a--b` SQL reads a comment, and of quotes what is within.
    is_itself = isinstance(tree, exp.Column) and tree.name.lower() == column.lower()
    return column if is_itself else quote(column)


_DIGITS = 14
"""Digits of the largest value that are kept; doubles have about 16."""

_FINE = 1e-6
"""Largest rounding error, as a share of the spread: p-values keep six digits."""

_PLACES = 6
"""Most decimals that are looked for; values with more are rounded to `_DIGITS`."""


class _Facts(NamedTuple):
    """What the values of an expression are like.

    Attributes:
        are_binary: Whether all are 0 or 1.
        are_equal: Whether all are one value.
        size: Largest absolute value of those that are finite.
        decimals: How many they have; one more than `_PLACES` stands for more.
    """

    are_binary: bool
    are_equal: bool
    size: float
    spread: float
    decimals: int


class _Values:
    """Describe the values of expressions in a table.

    `step` chooses how a metric's values are rounded.
    """

    def __init__(self, engine: Engine, columns: TableReader, texts: Iterable[str]) -> None:
        self._columns, self._rows = columns, engine.count(TABLE)
        # One after the other: together they would take the memory of the whole table.
        self._facts = {
            text: _describe_values(columns.read_numbers(text)) for text in dict.fromkeys(texts)
        }

    def is_share(self, text: str) -> bool:
        """Tell whether values are only 0 and 1."""
        facts = self._facts[text]
        # Zeros alone may be counts of something rare.
        varies = not facts.are_equal or self._columns.find_type(text) == "BOOLEAN"
        return facts.are_binary and varies

    def step(self, texts: Sequence[str]) -> float:
        """Choose the coarsest rounding step that changes no printed digit."""
        broken = [text for text in texts if not self._columns.is_whole(text)]
        sizes = [self._facts[text].size for text in texts]
        exponents = [math.ceil(math.log10(size)) for size in sizes if size]
        decimals = max((self._facts[text].decimals for text in broken), default=0)
        least = -decimals if decimals <= _PLACES else -12
        # The smaller of two needs its digits too, as far as the larger one leaves room.
        exponent = max(min(exponents, default=6), max(exponents, default=6) - 1) - _DIGITS
        rounded = min(max(exponent, least), 0)
        step = float(f"1e{rounded}") if broken else 1.0
        for text, size in zip(texts, sizes, strict=True):
            # Rounding errors of a sum grow with the root of the rows.
            lost = math.ulp(size) * math.sqrt(self._rows)
            spread = self._facts[text].spread
            if spread and max(lost, step if rounded > least else 0.0) > _FINE * spread:
                what = f"values of {text} are up to {size:.6g}, and differ by {spread:.3g} only"
                hint = "numbers have 16 digits: subtract what all units share, so that means differ"
                raise LogError(what, hint)
        return step


def _describe_values(values: NDArray[np.float64]) -> _Facts:
    """Describe values, of which some may be infinite or NaN."""
    # Infinite values are refused later; here they must not hide the others.
    finite = values[np.abs(values) < 1e300]
    # Large values have few digits left for their squares.
    differences = (finite - finite[:1])[np.abs(finite) < 1e150]
    return _Facts(
        are_binary=bool(((values == 0) | (values == 1)).all()),
        are_equal=not len(values) or bool((values == values[0]).all()),
        size=float(np.abs(finite).max(initial=0)),
        spread=float(differences.std()) if len(differences) else 0.0,
        decimals=_count_decimals(finite),
    )


def _count_decimals(values: NDArray[np.float64]) -> int:
    """Count the decimals of finite values; at most one more than `_PLACES`.

    Example:
        >>> _count_decimals(np.array([2.5, 1.25])), _count_decimals(np.array([1 / 3]))
        (2, 7)
    """

    def drop_rounded(values: NDArray[np.float64], places: int) -> NDArray[np.float64]:
        with np.errstate(over="ignore"):
            rounded: NDArray[np.float64] = np.rint(values * 10.0**places) / 10.0**places
        return values[np.not_equal(rounded, values)]

    # Of large values, more decimals may be lost than there are.
    if len(drop_rounded(values, _PLACES)):
        return _PLACES + 1
    for places in range(_PLACES):
        values = drop_rounded(values, places)
        if not len(values):
            return places
    return _PLACES


_Entries = list[dict[str, Any]]


def read_measures(
    engine: Engine, columns: TableReader, options: TableOptions
) -> tuple[_Entries, _Entries]:
    """Read the entries of metrics and covariates, with fitting resolutions."""
    before = options.before
    if not before and options.metrics is None:
        # All columns are read: those from before are no outcomes, and compared as such.
        before = [quote_column(column) for column in columns.list_covariates(repr(options).lower())]
    covariates = [columns.sql(text) for text in before]
    entries = _make_entries(columns, options, before)
    if not entries:
        raise LogError("the table has no column of numbers to compare", columns.hint)
    if len(entries) > MAX_METRICS:
        what = f"{len(entries):,} metrics, but at most {MAX_METRICS} are analysed at once"
        raise ExperimentError(what, "name some columns: metrics=[...] (--metric COLUMN)")
    names = [str(entry.get("name")) for entry in entries]
    missing, by_metric = options.missing, options.covariates
    for key, choices in (("missing", missing), ("covariates", by_metric)):
        for name in choices if isinstance(choices, Mapping) else ():
            if name not in names:
                what = f"{key}: no metric is called {name!r}{suggest_name(name, names)}"
                raise ExperimentError(what)
    if isinstance(by_metric, Mapping):
        # Those that are not named have none.
        metric_covariates = {
            name: [columns.sql(t) for t in _as_list(texts)] for name, texts in by_metric.items()
        }
        entries = [
            {"covariates": metric_covariates.get(entry.get("name", ""), []), **entry}
            for entry in entries
        ]
    summed = [_list_summed_expressions(columns, entry) for entry in entries]
    values = _Values(engine, columns, [*chain(*summed), *covariates])
    entries = [
        _make_defaults(entry, texts, values, missing) | entry if texts else entry
        for entry, texts in zip(entries, summed, strict=True)
    ]
    return entries, [{"value": sql, "resolution": values.step([sql])} for sql in covariates]


def _make_defaults(
    entry: Mapping[str, Any],
    texts: Sequence[str],
    values: _Values,
    missing: Missing | Mapping[str, Missing] | None,
) -> dict[str, Any]:
    """Make defaults by a metric's values: its resolution, unit and missing values."""
    defaults: dict[str, Any] = {"resolution": values.step(texts)}
    if "value" in entry and "quantile" not in entry and values.is_share(entry["value"]):
        defaults["unit"] = "share"
    does = missing.get(entry.get("name", "")) if isinstance(missing, Mapping) else missing
    # A quantile ranks values only.
    if does is not None and not ("quantile" in entry and does == "zero"):
        defaults["missing"] = does
    return defaults


def read_segments(
    columns: TableReader, segments: Sequence[str] | Mapping[str, str]
) -> dict[str, str]:
    """Read the segments: name → expression."""
    if isinstance(segments, Mapping):
        return dict(segments)
    return {_make_name(c): quote_column(columns.find_column(c)) for c in _as_list(segments)}


def _make_entries(columns: TableReader, options: TableOptions, before: Sequence[str]) -> _Entries:
    """List the entries of metrics; by default of all other numeric columns."""
    metrics = options.metrics
    if metrics is None:
        segments = () if isinstance(options.segments, Mapping) else _as_list(options.segments)
        used = {options.variant, options.unit, *before, *segments}
        taken = {name.lower() for name in used if name is not None}
        outcomes = [column for column in columns.numbers() if column.lower() not in taken]
        # Nobody chose them: what may be better either way decides nothing.
        more = {
            column: {"role": "diagnostic"}
            for column in outcomes
            if words.mentions_role(column, "either") and not words.mentions_role(column, "cost")
        }
        return [_make_entry(columns, *_split_name(c)) | more.get(c, {}) for c in outcomes]
    return [
        dict(spec) if isinstance(spec, Mapping) else _make_entry(columns, name, spec)
        for name, spec in _name_specs(metrics)
    ]


def list_specs(metrics: Metrics) -> _Entries:
    """List metrics as entries, each with a value or a division as text."""
    return [
        dict(spec)
        if isinstance(spec, Mapping)
        else {"name": name, "value": " / ".join([spec] if isinstance(spec, str) else spec)}
        for name, spec in _name_specs(metrics)
    ]


def _name_specs(metrics: Metrics) -> Iterator[tuple[str, _MetricSpec | Sequence[str]]]:
    """Yield the name of each metric and its text, its two texts, or its entries."""
    if isinstance(metrics, Mapping):
        for name, spec in metrics.items():
            yield name, {"name": name, **spec} if isinstance(spec, Mapping) else spec
        return
    for metric in [metrics] if isinstance(metrics, str) else metrics:
        yield _split_name(metric) if isinstance(metric, str) else ("", metric)


def _split_name(spec: str) -> tuple[str, str]:
    """Split `name = expression`; an expression alone is its own name."""
    match = re.fullmatch(r"\s*([^\W\d][\w\u0900-\u0dff]*)\s*=(?!=)\s*(.+)", spec)
    if match:
        return match[1], match[2]
    # Letters of all scripts stay.
    return _make_name(spec) if spec.isascii() else " ".join(spec.replace('"', " ").split()), spec


def _make_entry(columns: TableReader, name: str, spec: str | Sequence[str]) -> dict[str, Any]:
    """Make the entry of a metric: a mean, or a ratio of two sums."""
    # Less of a cost is better, and its name says that it is one.
    less = {"direction": "decrease"} if words.mentions_role(name, "cost") else {}
    if isinstance(spec, str):
        return {"name": name, **less, **_split_division(columns.sql(spec))}
    if len(spec) != 2:
        raise ExperimentError(f"metric {name!r}: a ratio is of two, not of {len(spec)}")
    numerator, denominator = (columns.sql(text) for text in spec)
    return {"name": name, **less, "numerator": numerator, "denominator": denominator}


def _split_division(value: str) -> dict[str, str]:
    """Split a division into numerator and denominator; else keep one value."""
    tree = parse_expression(value)
    # (a / b) is a ratio, too; a / b + c is one value.
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if not isinstance(tree, exp.Div):
        return {"value": value}
    operands = (side.sql(dialect="duckdb") for side in (tree.this, tree.expression))
    return dict(zip(("numerator", "denominator"), operands, strict=True))


def _list_summed_expressions(columns: TableReader, entry: Mapping[str, Any]) -> list[str]:
    """List the expressions that an entry sums; none for a function of metrics."""
    if "function" in entry:
        return []
    texts = [entry[key] for key in ("value", "numerator", "denominator") if key in entry]
    for text in texts:
        columns.sql(text)
    return texts


def _make_name(text: str) -> str:
    """Make a metric's name of a column or an expression: letters, digits and `_`."""
    word = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")
    return word if re.match("[A-Za-z]", word) else f"m_{word}"
