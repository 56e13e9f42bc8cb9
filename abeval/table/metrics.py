"""The metrics, covariates and segments of a table, in the form of an experiment file."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlglot import exp

from abeval.bounds import MAX_METRICS
from abeval.engines.protocol import Engine
from abeval.errors import ExperimentError
from abeval.metrics.expressions import parse_expression
from abeval.table.columns import Columns, MetricSpec, TableOptions, Values, reference


class Measures(NamedTuple):
    """Entries of what is measured of a unit.

    Attributes:
        metrics: As of `[[metrics]]`.
        covariates: As of `logs.units.covariates`.
    """

    metrics: list[dict[str, Any]]
    covariates: list[dict[str, Any]]


def measures_of(engine: Engine, columns: Columns, options: TableOptions) -> Measures:
    """Entries of metrics and covariates, each with a resolution that fits its values.

    Raises:
        LogError: A column is missing, or is no number.
        ExperimentError: A ratio is not of two, or there are too many.
    """
    covariates = [columns.sql(text) for text in options.covariates]
    specs = _specs(columns, options)
    if len(specs) > MAX_METRICS:
        what = f"{len(specs):,} metrics, but at most {MAX_METRICS} are analysed at once"
        raise ExperimentError(what, "name some columns of the table: --metric clicks")
    summed = [_summed(columns, entry) for entry in specs]
    groups = [*filter(None, summed), *([sql] for sql in covariates)]
    values = Values(engine, columns, groups)
    return Measures(
        [_fitted(values, *pair) for pair in zip(specs, summed, strict=True)],
        [{"value": sql, "resolution": values.step([sql])} for sql in covariates],
    )


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


def _summed(columns: Columns, entry: Mapping[str, Any]) -> list[str]:
    """The expressions that an entry sums; none where a resolution would not fit it."""
    if "function" in entry:
        return []
    texts = [entry[key] for key in ("value", "numerator", "denominator") if key in entry]
    for text in texts:
        columns.sql(text)
    return texts


def _fitted(values: Values, entry: dict[str, Any], texts: Sequence[str]) -> dict[str, Any]:
    """An entry with a resolution that fits the values, and as a share if it is one."""
    if not texts:
        return entry
    may_be_share = "value" in entry and "quantile" not in entry
    unit = {"unit": "share"} if may_be_share and values.is_share(entry["value"]) else {}
    return {"resolution": values.step(texts), **unit, **entry}


def _word(text: str) -> str:
    """A name of a metric or a segment, made of a column or an expression."""
    word = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")
    return word if re.match("[A-Za-z]", word) else f"m_{word}"
