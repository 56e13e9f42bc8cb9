"""The metrics, covariates and segments of a table, in the form of an experiment file."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import exp

from abeval.bounds import MAX_METRICS
from abeval.engines.protocol import Engine
from abeval.errors import ExperimentError
from abeval.metrics.expressions import parse_expression
from abeval.table.columns import Columns, reference
from abeval.table.options import MetricSpec, TableOptions
from abeval.table.resolution import is_share, step_of


def metrics_of(engine: Engine, columns: Columns, options: TableOptions) -> list[dict[str, Any]]:
    """Entries of metrics, each with a resolution that fits its values.

    Raises:
        LogError: A column is missing, or is no number.
        ExperimentError: A ratio is not of two, or there are too many.
    """
    specs = _specs(columns, options)
    if len(specs) > MAX_METRICS:
        what = f"{len(specs):,} metrics, but at most {MAX_METRICS} are analysed at once"
        raise ExperimentError(what, "name some columns of the table: --metric clicks")
    return [_fitted(engine, columns, entry) for entry in specs]


def covariates_of(
    engine: Engine, columns: Columns, covariates: Sequence[str]
) -> list[dict[str, Any]]:
    """Entries of covariates.

    Raises:
        LogError: A column is missing, or is no number.
    """
    texts = [columns.sql(text) for text in covariates]
    return [{"value": sql, "resolution": step_of(engine, columns, [sql])} for sql in texts]


def segments_of(columns: Columns, segments: Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """Names of segments → expressions.

    Raises:
        LogError: A column is missing.
    """
    if isinstance(segments, Mapping):
        return dict(segments)
    return {_word(name): reference(columns.named(name)) for name in segments}


def _specs(columns: Columns, options: TableOptions) -> list[dict[str, Any]]:
    """Entries of metrics, in the form of the file."""
    metrics = _others(columns, options) if options.metrics is None else options.metrics
    if isinstance(metrics, Mapping):
        return [_named(columns, name, spec) for name, spec in metrics.items()]
    return [_spec(columns, spec) for spec in metrics]


def _others(columns: Columns, options: TableOptions) -> list[str]:
    """The columns of numbers that are nothing else."""
    segments = () if isinstance(options.segments, Mapping) else options.segments
    used = {options.variant, options.unit, *options.covariates, *segments}
    taken = {name.lower() for name in used if name is not None}
    return [column for column in columns.numbers() if column.lower() not in taken]


def _spec(columns: Columns, spec: MetricSpec) -> dict[str, Any]:
    if isinstance(spec, Mapping):
        return dict(spec)
    named = re.fullmatch(r"\s*([A-Za-z]\w*)\s*=(?!=)\s*(.+)", spec)
    name, text = named.groups() if named else (_word(spec), spec)
    return _named(columns, name, text)


def _named(
    columns: Columns, name: str, spec: str | Sequence[str] | Mapping[str, Any]
) -> dict[str, Any]:
    if isinstance(spec, Mapping):
        return {"name": name, **spec}
    if isinstance(spec, str):
        return {"name": name, **_mean_or_ratio(columns.sql(spec))}
    if len(spec) != 2:
        raise ExperimentError(f"metric {name!r}: a ratio is of two, not of {len(spec)}")
    numerator, denominator = (columns.sql(text) for text in spec)
    return {"name": name, "numerator": numerator, "denominator": denominator}


def _mean_or_ratio(value: str) -> dict[str, str]:
    """The two sums of a division; else one value."""
    tree = parse_expression(value)
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if not isinstance(tree, exp.Div):
        return {"value": value}
    parts = (side.sql(dialect="duckdb") for side in (tree.this, tree.expression))
    return dict(zip(("numerator", "denominator"), parts, strict=True))


def _fitted(engine: Engine, columns: Columns, entry: dict[str, Any]) -> dict[str, Any]:
    """An entry with a resolution that fits the values, and as a share if it is one."""
    texts = [entry[key] for key in ("value", "numerator", "denominator") if key in entry]
    if not texts or "function" in entry:
        return entry
    for text in texts:
        columns.sql(text)
    may_be_share = "value" in entry and "quantile" not in entry
    unit = {"unit": "share"} if may_be_share and is_share(engine, columns, entry["value"]) else {}
    return {"resolution": step_of(engine, columns, texts), **unit, **entry}


def _word(text: str) -> str:
    """A name of a metric or a segment, made of a column or an expression."""
    word = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")
    return word if re.match("[A-Za-z]", word) else f"m_{word}"
