"""Build the built-in metrics from `builtin.toml`, and find those that were added."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from abeval.metrics.definition import SOURCES, ColumnTerm, Direction, Metric, RowTerm, Term
from abeval.packaged import load_toml_next_to
from abeval.plugins import load_entry_points

_TABLE = load_toml_next_to(__file__, "builtin.toml")

ADDED: dict[str, Metric] = {}
"""Metrics from outside the package by name: `abeval.add_metric` adds them."""

_ENTRY_POINTS = "abeval.metrics"
"""Group of entry points of other packages, functions that add metrics."""


def load_builtin_metrics(long_seconds: float, gap_minutes: float) -> dict[str, Metric]:
    """Return every built-in metric by name.

    Example:
        >>> load_builtin_metrics(30, 30)["ctr"].formula
        'Σ clicks / Σ impressions'
    """
    thresholds = {"long_seconds": long_seconds, "gap_minutes": gap_minutes}
    # Logs have dwell in milliseconds.
    thresholds["long_ms"] = round(long_seconds * 1000)
    return {
        name: _build_metric(name, entry, thresholds) for name, entry in _TABLE["metrics"].items()
    }


def build_dwell_quantile(level: float) -> Metric:
    """Build the metric of a quantile of dwell over clicks."""
    entry = {**_TABLE["metrics"]["dwell_p50"], "level": level}
    return _build_metric(f"dwell_p{round(100 * level)}", entry, {})


def find_added_metrics(names: Iterable[str]) -> Mapping[str, Metric]:
    """Return the added metrics by name; read the entry points if a name is missing.

    Raises:
        ExperimentError: An entry point fails.
    """
    # Most experiments name built-in metrics only: they should not wait for other packages.
    if not ADDED.keys() >= {*names}:
        read_entry_points()
    return ADDED


@cache
def read_entry_points() -> None:
    """Call other packages' functions that add metrics and test statistics, once.

    Raises:
        ExperimentError: One of them fails.
    """
    problem = f"entry point {{name!r}} of {_ENTRY_POINTS} fails: {{error}}"
    hint = "correct {value}: a function without arguments that adds metrics"
    for _ in load_entry_points(_ENTRY_POINTS, lambda add: add(), problem, hint):
        pass


def _build_metric(name: str, entry: Mapping[str, Any], thresholds: Mapping[str, float]) -> Metric:
    """Build a metric from its table in `builtin.toml`."""
    terms = {key: _build_term(entry[key], thresholds) for key in ("value", "per") if key in entry}
    left_out = entry.get("left_out", {}).items()
    fields = {
        "kind": "ratio" if "per" in entry else "mean",
        **entry,
        **terms,
        "formula": entry["formula"].format(**thresholds, level=entry.get("level")),
        "needs": frozenset(entry["needs"]),
        "source": SOURCES[entry.get("source", "unit_day")],
        "direction": Direction(**entry.get("direction", {})),
        "left_out": tuple((text, _build_term(term, thresholds)) for text, term in left_out),
    }
    return Metric(name, **fields)


def _build_term(entry: str | Mapping[str, Any], thresholds: Mapping[str, float]) -> Term:
    """Build a term from its name, or from its table."""
    table = _TABLE["terms"][entry] if isinstance(entry, str) else entry
    if "column" in table:
        return ColumnTerm(**table)
    term = RowTerm(**table)
    return replace(term, expression=term.expression.format(**thresholds))
