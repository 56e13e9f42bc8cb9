"""A table of one row a unit as an experiment: its variants, metrics and covariates are columns.

`api/table.py` calls it for `abeval.analyze` and `abeval analyze TABLE`: it looks at the table once,
and writes the entries that an experiment file would have.
"""

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from sqlglot import exp

from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.protocol import Engine
from abeval.engines.sql import quoted
from abeval.errors import ExperimentError, LogError
from abeval.experiment.load import parse_experiment
from abeval.experiment.model import Experiment
from abeval.experiment.problems import near_miss, suggestion
from abeval.experiment.sources import ROW_UNIT, LogSource
from abeval.experiment.spelling import check_spelled_once, folded
from abeval.files import real
from abeval.logs.mapping import is_number
from abeval.metrics.expressions import (
    columns_of,
    expression_problem,
    missing_columns,
    parse_expression,
)

MetricSpec = str | Mapping[str, Any]
Metrics = Sequence[MetricSpec] | Mapping[str, str | Sequence[str] | Mapping[str, Any]]

_TABLE = "looked_at"
_DIGITS = 14
"""Digits of the largest value that are kept, as doubles have some 16."""

_CONTROLS = ("control", "a", "baseline", "base", "old", "placebo", "none", "off", "false", "0")
"""Usual names of a control, in lower case."""

_LETTERS = ("a", "0")
"""Names that are those of a control only where no other variant has a usual name."""

_DECIMALS = 6
"""Decimals that are looked for; a value of more is rounded to `_DIGITS`."""

_LOOKED_AT = 10_000
"""Rows that say how many decimals to look for."""

_JOIN = "correct them in the table, or write an experiment file (`abeval init` drafts one) with {}"
"""How to make one variant of two spellings."""

_MOST_VARIANTS = 20
_NEAR = 0.1
"""Shares of units that differ less than this from equal ones are meant to be equal."""


@dataclass(frozen=True)
class TableOptions:
    """What the columns of a table are.

    Attributes:
        variant: The column of the variant.
        unit: The column of the unit; None where each row is a unit without an id.
        metrics: Columns (means), `name = expression`, or `name = sum / sum` for a ratio; a mapping
            of names to these, or to a pair of numerator and denominator; or entries as in
            `[[metrics]]`. None for every column of numbers.
        covariates: Columns, or expressions, that were measured before.
        segments: Columns, or names of segments → expressions.
        control: The variant that the others are compared with; None for one that is called so, or
            else the first by name.
        weights: Variant → intended share; None for equal ones, if the shares are near them.
        entries: More top-level entries of an experiment.
    """

    variant: str
    unit: str | None = None
    metrics: Metrics | None = None
    covariates: Sequence[str] = ()
    segments: Sequence[str] | Mapping[str, str] = ()
    control: str | None = None
    weights: Mapping[str, float] | None = None
    entries: Mapping[str, Any] = field(default_factory=dict)


class ReadTable(NamedTuple):
    """A table that was looked at.

    Attributes:
        experiment: What is to be analysed.
        engine: Open; its next log of the same table is not read again, unless it is Parquet.
    """

    experiment: Experiment
    engine: DuckDBEngine


def read_table(table: object, options: TableOptions) -> ReadTable:
    """The experiment of a table: a file (Parquet, CSV, JSON), or a frame.

    Raises:
        LogError: The table cannot be read, or lacks a column.
        ExperimentError: A metric is none, or there are no two variants.
    """
    path = Path(table) if isinstance(table, str | Path) else None
    # Ids and names of variants in text files are read as the analysis reads them.
    source = LogSource(
        path=None if path is None else str(real(path)), columns={"variant": options.variant}
    ).with_unit(options.unit or ROW_UNIT)
    with ExitStack() as stack:
        engine = stack.enter_context(closing(DuckDBEngine()))
        if path is None:
            engine.add_frame(_TABLE, table, source)
        else:
            engine.add_log(_TABLE, source)
        entries = _Look(engine, options).entries("table" if path is None else path.stem or "table")
        if path is not None:
            entries["logs"]["units"]["path"] = str(real(path))
        experiment = parse_experiment({**entries, **options.entries}, source="the analysis")
        engine.spare(_TABLE)
        # It stays open for the caller, unless something above was refused.
        stack.pop_all()
    return ReadTable(experiment, engine)


class _Look:
    """A table on an engine, and what is to be known of it."""

    def __init__(self, engine: Engine, options: TableOptions) -> None:
        self._engine = engine
        self._options = options
        self._types = engine.columns(_TABLE)

    def entries(self, name: str) -> dict[str, Any]:
        """The entries of the experiment."""
        options = self._options
        columns = {"variant": self._column(options.variant)}
        unit = ROW_UNIT if options.unit is None else self._column(options.unit)
        counts = self._counts(columns["variant"])
        if "variants" not in options.entries:
            check_spelled_once(f"column {columns['variant']!r}", counts, _JOIN)
        control = control_of(options.control, list(options.entries.get("variants", counts)))
        weights, whence = weights_of(options.weights, counts)
        covariates = [self._covariate(text) for text in options.covariates]
        return {
            "name": name,
            "unit": unit,
            "control": control,
            "weights": whence,
            "variants": {variant: {"weight": weights[variant]} for variant in counts},
            "logs": {"units": {"columns": columns, "covariates": covariates}},
            "inference": {"adjust": "cuped" if covariates else "none"},
            "segments": self._segments(),
            "metrics": [self._metric(entry) for entry in self._specs()],
        }

    def _column(self, name: str) -> str:
        """A column by its name, whatever its case."""
        known = {column.lower(): column for column in self._types}
        if name.lower() not in known:
            raise LogError(
                f"the table has no column {name!r}{near_miss(name, self._types)}",
                f"it has: {', '.join(self._types)}",
            )
        return known[name.lower()]

    def _counts(self, column: str) -> dict[str, int]:
        """Variant → its rows."""
        value = f"cast({quoted(column)} as varchar)"
        rows = self._engine.rows(
            f"select {value}, count(*) from {_TABLE} where {value} <> '' "
            f"group by {value} order by {value} limit {_MOST_VARIANTS + 1}"
        )
        if not 2 <= len(rows) <= _MOST_VARIANTS:
            what = "more than 20 values" if len(rows) > 1 else f"{len(rows)} values"
            hint = "name the column that says which variant a unit is in"
            raise LogError(f"column {column!r} has {what}, so it is no variant", hint)
        return {str(variant): int(count or 0) for variant, count in rows}

    def _segments(self) -> dict[str, str]:
        chosen = self._options.segments
        if isinstance(chosen, Mapping):
            return dict(chosen)
        return {_word(name): _reference(self._column(name)) for name in chosen}

    def _specs(self) -> list[dict[str, Any]]:
        """Entries of metrics, in the form of the file."""
        metrics, options = self._options.metrics, self._options
        if metrics is None:
            segments = () if isinstance(options.segments, Mapping) else options.segments
            used = {options.variant, options.unit, *options.covariates, *segments}
            taken = {name.lower() for name in used if name is not None}
            numbers = [c for c, kind in self._types.items() if is_number(kind)]
            metrics = [column for column in numbers if column.lower() not in taken]
        if isinstance(metrics, Mapping):
            return [self._named(name, spec) for name, spec in metrics.items()]
        return [self._spec(spec) for spec in metrics]

    def _spec(self, spec: MetricSpec) -> dict[str, Any]:
        if isinstance(spec, Mapping):
            return dict(spec)
        named = re.fullmatch(r"\s*([A-Za-z]\w*)\s*=(?!=)\s*(.+)", spec)
        return self._named(*named.groups()) if named else self._named(_word(spec), spec)

    def _named(self, name: str, spec: str | Sequence[str] | Mapping[str, Any]) -> dict[str, Any]:
        if isinstance(spec, Mapping):
            return {"name": name, **spec}
        if not isinstance(spec, str):
            if len(spec) != 2:
                raise ExperimentError(f"metric {name!r}: a ratio is of two, not of {len(spec)}")
            return {
                "name": name,
                "numerator": self._sql(spec[0]),
                "denominator": self._sql(spec[1]),
            }
        value = self._sql(spec)
        tree = parse_expression(value)
        while isinstance(tree, exp.Paren):
            tree = tree.this
        if not isinstance(tree, exp.Div):
            return {"name": name, "value": value}
        parts = (side.sql(dialect="duckdb") for side in (tree.this, tree.expression))
        return {"name": name, **dict(zip(("numerator", "denominator"), parts, strict=True))}

    def _sql(self, text: str) -> str:
        """A column by its name, whatever it is; else an expression."""
        known = {column.lower(): column for column in self._types}
        column = known.get(text.strip().lower())
        if column is not None and not is_number(self._types[column]):
            raise LogError(f"column {column!r} is {self._types[column]}, but a metric is a number")
        sql = text if column is None else _reference(column)
        missing = missing_columns(parse_expression(sql), self._types)
        if missing:
            self._column(missing[0])
        return sql

    def _covariate(self, text: str) -> dict[str, Any]:
        sql = self._sql(text)
        return {"value": sql, "resolution": self._step([sql])}

    def _metric(self, entry: dict[str, Any]) -> dict[str, Any]:
        """An entry with a resolution that fits the values, and as a share if it is one."""
        texts = [entry[key] for key in ("value", "numerator", "denominator") if key in entry]
        if not texts or "function" in entry:
            return entry
        for text in texts:
            self._sql(text)
        is_share = "value" in entry and "quantile" not in entry and self._is_share(entry["value"])
        unit = {"unit": "share"} if is_share else {}
        return {"resolution": self._step(texts), **unit, **entry}

    def _is_share(self, text: str) -> bool:
        """Whether values are 0 and 1; nothing but zeros may be counts of what is rare."""
        value = _double(text)
        ((odd, most, least),) = self._engine.rows(
            f"select count_if({value} not in (0, 1)), max({value}), min({value}) from {_TABLE}"
        )
        return not odd and (most != least or self._type(text) == "BOOLEAN")

    def _step(self, texts: Sequence[str]) -> float:
        """A step to which values can be rounded without a loss that would be seen."""
        if all(self._is_whole(text) for text in texts):
            return 1.0
        sizes = [
            f"max(case when abs({_double(t)}) < 1e300 then abs({_double(t)}) end)" for t in texts
        ]
        (row,) = self._engine.rows(f"select {', '.join(sizes)} from {_TABLE}")
        largest = [float(size) for size in row if size]
        if not largest:
            return 1e-6
        # The smaller of two needs its digits too, as far as the larger one leaves room.
        exponent = max(_exponent(min(largest)), _exponent(max(largest)) - 1) - _DIGITS
        decimals = self._decimals(texts)
        least = -12 if decimals is None else -decimals
        return float(f"1e{min(max(exponent, least), 0)}")

    def _decimals(self, texts: Sequence[str]) -> int | None:
        """The decimals that are enough for every value; None for more than six.

        Sums of few digits cost less.
        """
        some = f"(select * from {_TABLE} limit {_LOOKED_AT})"
        of_some = self._odd(texts, range(_DECIMALS + 1), some)
        enough = of_some.index(0) if 0 in of_some else None
        return None if enough is None or self._odd(texts, [enough], _TABLE)[0] else enough

    def _odd(self, texts: Sequence[str], decimals: Sequence[int], relation: str) -> list[int]:
        """For each number of decimals: the rows with a value that has more."""
        same = (
            " or ".join(f"round({_double(text)}, {place}) <> {_double(text)}" for text in texts)
            for place in decimals
        )
        counts = ", ".join(f"count_if({odd})" for odd in same)
        (row,) = self._engine.rows(f"select {counts} from {relation}")
        return [int(count or 0) for count in row]

    def _is_whole(self, text: str) -> bool:
        kind = self._type(text) or ""
        return kind in ("BOOLEAN", "INTEGER") or kind.endswith("INT")

    def _type(self, text: str) -> str | None:
        """The type of a column by its name; None of an expression."""
        tree = parse_expression(text)
        if not isinstance(tree, exp.Column):
            return None
        return self._types[self._column(columns_of(tree)[0])]


def _reference(column: str) -> str:
    """SQL of a column, in quotes where it would be read as something else."""
    plain = expression_problem(column) is None and isinstance(parse_expression(column), exp.Column)
    return column if plain else quoted(column)


def _double(text: str) -> str:
    return f"cast(({text}) as double)"


def _exponent(size: float) -> int:
    return math.ceil(math.log10(size))


def _word(text: str) -> str:
    """A name of a metric or a segment, made of a column or an expression."""
    word = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")
    return word if re.match("[A-Za-z]", word) else f"m_{word}"


def control_of(named: str | None, variants: Sequence[str]) -> str:
    """The variant that others are compared with: the named one, or one that is called so."""
    if named is not None:
        if named not in variants:
            hint = suggestion(named, variants)
            raise ExperimentError(f"control: no variant is called {named!r}{hint}")
        return named
    usual = [variant for variant in variants if is_usual_control(variant)]
    likely = [variant for variant in usual if folded(variant) not in _LETTERS] or usual
    if len(likely) > 1:
        listed = ", ".join(map(repr, likely))
        raise ExperimentError(
            f"control: {listed} are all usual names of a control",
            "name the one that the others are compared with: --control, or control=",
        )
    return (likely or list(variants))[0]


def is_usual_control(variant: str) -> bool:
    """Whether a variant is called as controls are.

    Example:
        >>> is_usual_control("Control"), is_usual_control("gate_30")
        (True, False)
    """
    return folded(variant) in _CONTROLS


def weights_of(
    named: Mapping[str, float] | None, counts: Mapping[str, int]
) -> tuple[Mapping[str, float], str]:
    """Variant → weight, and whether they were planned or are those of the table."""
    if named is not None:
        missing = sorted({*counts} ^ {*named})
        if missing:
            raise ExperimentError(f"weights: {missing[0]!r} is not in both weights and the table")
        return named, "planned"
    equal = sum(counts.values()) / len(counts)
    if all(abs(count - equal) <= _NEAR * equal for count in counts.values()):
        return dict.fromkeys(counts, 1.0), "planned"
    return counts, "observed"
